"""The Spark jobs of a run's or a stream's stages: they expand elements, run tasks, and return every task's receipts.

A stage is a job over bundles; its blocks are stored. A task's receipt arrives through an accumulator as the task ends.
If it has not arrived when the job has ended, another job reads it from the end of the stored block. In a saved run
nothing is stored: the records go to the sinks, and the job itself returns the receipts.
"""

from __future__ import annotations

import logging
import math
import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import attrs
from pyspark import RDD, SparkContext, StorageLevel

from sdf.errors import StageError
from sdf.execution.expansion import Expanded
from sdf.execution.work_items import WorkItem
from sdf.quarantine.options import Quarantine
from sdf.saving.segments import Targets
from sdf.spark.as_tasks_end import AsTasksEnd
from sdf.spark.elements import WarnsOnce
from sdf.spark.expansion_job import EXPANSION, Expand, ExpandedPartition, ExpansionJob
from sdf.spark.jobs import Ended, Jobs, arrived, lost_task, slot_counter
from sdf.spark.payload import Payload
from sdf.spark.staged.outlets import Saved, Stored
from sdf.spark.staged.receipts import given_up, materialise, read_receipts
from sdf.spark.staged.stored_blocks import Receipt
from sdf.spark.staged.task import STAGE_PROPERTY, StageTask, stage_mark

__all__ = ["StageJobs"]

log = logging.getLogger("sdf.staged")

Bundles = Sequence[tuple[tuple[WorkItem, ...], float]]  # the work items of each task, and its budget in seconds


@attrs.define
class _StageJob:
    rdd: RDD[Any]
    missing: set[int]  # tasks whose receipts have not arrived
    is_over: bool = False  # its job is; if receipts are missing, another job reads them


@attrs.define(eq=False, slots=False)
class StageJobs:
    """See the module's docstring. Call `close` at the end.

    Args:
        sc: the SparkContext.
        payload: the DoFn as sent to workers.
        name: name of the DoFn.
        tags: the declared tags; of a saved run ``targets`` has them.
        called: the word for a stage that users see in Spark's UI and in errors.
        targets: the sinks of a saved run, else None.
        storage_level: where Spark stores the blocks, unless the run is saved.
        quarantine: its options; None for a run without.

    Attributes:
        count_slots: returns how many tasks Spark can run at once now.
    """

    _sc: SparkContext
    _payload: Payload
    _name: str
    _tags: tuple[str, ...] = ()
    _called: str = "stage"
    _targets: Targets | None = None
    _storage_level: StorageLevel = StorageLevel.MEMORY_AND_DISK
    _quarantine: Quarantine | None = None

    def __attrs_post_init__(self) -> None:
        if self._targets is not None:
            self._tags = self._targets.tags
        self.count_slots = slot_counter(self._sc)
        self._warn = WarnsOnce(self._name)
        self._events: queue.SimpleQueue[Ended | Receipt | ExpandedPartition] = queue.SimpleQueue()
        self._jobs = Jobs(self._sc, self._payload.run_id, self._events)
        self._param = AsTasksEnd(self._events.put)
        self._receipts = self._sc.accumulator([], self._param)
        self._stages: dict[int, _StageJob] = {}  # those that have not ended
        self._expansion: ExpansionJob | None = None

    def expand(self, rdd: RDD[Any], *, unbounded: bool = False, in_tables: bool = True) -> Iterator[Expanded]:
        """Run the job that expands elements; call this only while no stage runs."""
        expand = Expand(self._payload, unbounded=unbounded, kept=True, in_tables=in_tables)
        return self._expanding(rdd, expand).finish()

    def start_expanding(self, rdd: RDD[Any]) -> None:
        """Start to expand elements; see `Stages`. Call this once."""
        self._expansion = self._expanding(rdd, Expand(self._payload))

    def _expanding(self, rdd: RDD[Any], expand: Expand) -> ExpansionJob:
        return ExpansionJob(rdd, expand, self._name, self._jobs, self._events, self._warn)

    @property
    def unexpanded(self) -> int:
        """How many partitions of the elements are not expanded yet."""
        return 0 if self._expansion is None else self._expansion.left

    def take_expanded(self) -> Iterator[Expanded]:
        """Return the elements that were expanded since the last call."""
        return iter(()) if self._expansion is None else self._expansion.take()

    def start(
        self,
        number: int,
        bundles: Bundles,
        *,
        min_piece_seconds: float,
        most: tuple[float, float] = (math.inf, math.inf),
    ) -> RDD[Any]:
        """Start a stage; return its blocks, which are stored unless the run is saved.

        Args:
            number: number of the stage, unique.
            bundles: the work items and the budget of each task.
            min_piece_seconds: a task whose budget is spent gives back its remaining work only if that takes longer.
            most: the records, and the bytes of them, after which a task's budget is spent; not in a saved run.
        """
        outlet = Stored(self._tags, most) if self._targets is None else Saved(self._targets)
        task = StageTask(
            self._payload, number, outlet, min_piece_seconds, self._receipts, quarantine=self._quarantine
        )  # fmt: skip
        rdd = self._sc.parallelize(bundles, len(bundles)).mapPartitionsWithIndex(task)
        job: Callable[[], Iterable[Receipt | None]] = rdd.collect
        if outlet.stores:
            rdd.setName(f"{self._name}: {self._called} {number}").persist(self._storage_level)
            job = partial(materialise, rdd)
        self._stages[number] = _StageJob(rdd, set(range(len(bundles))))
        self._start_job(number, f"{len(bundles)} tasks", job)
        return rdd

    def _start_job(self, number: int, what: str, job: Callable[[], Iterable[Receipt | None]]) -> None:
        description = f"{self._name}: {self._called} {number}, {what}"
        log.debug("%s", description)
        self._jobs.start(number, description, job, {STAGE_PROPERTY: stage_mark(self._payload.run_id, number)})

    def runs(self, number: int) -> bool:
        """Return whether a stage has not ended, or one of its receipts has not arrived."""
        return number in self._stages

    def receive(self, timeout_seconds: float | None = None) -> list[Receipt]:
        """Wait for a receipt, an expanded partition or the end of a job; return all receipts that have arrived. A task
        may have several.

        Raises:
            StageError: if a stored block ends without its receipt. The error of a failed job is raised too.
        """
        return [receipt for event in arrived(self._events, timeout_seconds) for receipt in self._taken(event)]

    def _taken(self, event: Ended | Receipt | ExpandedPartition) -> list[Receipt]:
        if isinstance(event, Receipt):
            self._arrived(event)
            return [event]
        if isinstance(event, ExpandedPartition) or event.key == EXPANSION:
            assert self._expansion is not None
            self._expansion.received(event)
            return []
        if event.error is not None:
            sets_aside = self._quarantine is not None and not self._stages[event.key].is_over
            lost = lost_task(event.error) if sets_aside else None
            if lost is None:
                raise event.error
            unended = self._stages.pop(event.key).missing
            return given_up(self._payload.run_id, event.key, unended, lost, self._tags, event.error)
        if None in event.value:
            raise StageError(f"{self._called} {event.key} of {self._name}: a stored block ends without its receipt.")
        stage = self._stages[event.key]
        stage.is_over = True
        for receipt in event.value:
            self._arrived(receipt)
        if stage.missing:
            missing = sorted(stage.missing)
            log.info("%s: stage %d: reading the receipts of tasks %s from the blocks", self._name, event.key, missing)
            self._start_job(event.key, f"receipts of {len(missing)} tasks", partial(read_receipts, stage.rdd, missing))
        else:
            self._stages.pop(event.key, None)
        return list(event.value)

    def _arrived(self, receipt: Receipt) -> None:
        stage = self._stages.get(receipt.stamp.stage)
        if stage is not None:
            stage.missing.discard(receipt.stamp.task)

    def cancel(self) -> None:
        """Cancel the running jobs."""
        self._jobs.cancel()

    def close(self) -> None:
        """Remove the accumulators from PySpark, which would keep them; later receipts are dropped."""
        self._param.close(self._receipts)
        if self._expansion is not None:
            self._expansion.close()
