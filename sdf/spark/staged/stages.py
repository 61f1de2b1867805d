"""The stages of a run: who runs them on Spark, and the book of what each was to do and what its tasks did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import attrs
from pyspark import RDD

from sdf.execution.expansion import Expanded
from sdf.execution.work_items import WorkItem
from sdf.reporting.run_facts import TaskRun
from sdf.scheduling.stage_planner import PlannedStage
from sdf.spark.staged.stored_blocks import Receipt

__all__ = ["StageBook", "Stages", "StartedStage"]


class Stages(Protocol):
    """Runs stages on Spark: `StageJobs` as jobs over RDDs, `ConnectJobs` as jobs over DataFrames."""

    @property
    def count_slots(self) -> Callable[[], int]:
        """Returns how many tasks Spark can run at once now."""

    def expand(self, elements: Any) -> Iterator[Expanded]:
        """Expand elements on the workers, and wait for all of them."""

    def start_expanding(self, elements: Any) -> None:
        """Start to expand elements on the workers; `receive` waits for them, too."""

    @property
    def unexpanded(self) -> int:
        """How many partitions of these elements are not expanded yet. Each takes a slot, or waits for one."""

    def take_expanded(self) -> Iterator[Expanded]:
        """Return the elements that were expanded since the last call."""

    def start(
        self, number: int, bundles: Sequence[tuple[tuple[WorkItem, ...], float]], *, min_piece_seconds: float
    ) -> RDD[Any] | None:
        """Start a stage over the work items and the budget of each task; return its stored blocks, if it has some."""

    def receive(self, timeout_seconds: float | None = None) -> list[Receipt]:
        """Wait for receipts or expanded elements; raise the error of a failed job."""

    def cancel(self) -> None:
        """Cancel the running jobs."""

    def close(self) -> None:
        """Free what was needed to run stages; called once, at the end."""


@attrs.define(eq=False)
class StartedStage:
    """A stage: its stored blocks, its plan, its start in monotonic seconds, and its receipts so far."""

    blocks: RDD[Any] | None
    plan: PlannedStage
    began: float
    receipts: dict[int, Receipt] = attrs.field(factory=dict)


class StageBook:
    """All stages of a run, by their numbers."""

    def __init__(self) -> None:
        self._stages: list[StartedStage] = []
        self._open: dict[int, StartedStage] = {}  # those with a task that has not ended

    def __len__(self) -> int:
        return len(self._stages)

    def __getitem__(self, number: int) -> StartedStage:
        return self._stages[number]

    def add(self, stage: StartedStage) -> None:
        """Enter the next stage."""
        self._open[len(self._stages)] = stage
        self._stages.append(stage)

    def enter(self, receipt: Receipt) -> None:
        """Enter the receipt of a task. The messages of sinks are in the log of a saved run, and are not kept twice."""
        stage = self._stages[receipt.stamp.stage]
        stage.receipts[receipt.stamp.task] = attrs.evolve(receipt, messages=())
        if len(stage.receipts) == len(stage.plan.tasks):
            del self._open[receipt.stamp.stage]

    def blocks(self) -> list[RDD[Any]]:
        """Return the stored blocks of each stage."""
        return [stage.blocks for stage in self._stages if stage.blocks is not None]

    def counted(self) -> list[Receipt]:
        """Return the receipts of all tasks that did not fail, in the order of stages and tasks; all must be there."""
        every = (stage.receipts[task] for stage in self._stages for task in range(len(stage.plan.tasks)))
        return [receipt for receipt in every if receipt.failure is None]

    def uncommitted_seconds(self, now: float, slots: int) -> float:
        """Return about how many seconds the running tasks have run, together, at most one for each slot."""
        running = [now - stage.began for stage in self._open.values() for _ in stage.plan.tasks[len(stage.receipts) :]]
        return sum(running[:slots])

    def task_runs(self, receipts: Iterable[Receipt]) -> tuple[TaskRun, ...]:
        """Return for the report what the attempts with these receipts did."""
        stamped = ((receipt, self._stages[receipt.stamp.stage].plan) for receipt in receipts)
        return tuple(receipt.task_run(len(plan.tasks[receipt.stamp.task].items)) for receipt, plan in stamped)
