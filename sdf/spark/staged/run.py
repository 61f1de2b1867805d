"""A run of StagedRunner: re-splits stragglers between stages, with nothing but Spark's own scheduling.

A first job expands the elements. If some partitions of them take long, stages begin before that job has ended.

A stage is a Spark job over bundles of work items; its blocks are persisted. Each task has a budget. When the budget is
spent, the task splits what it runs, gives back the residual and all that it has not started, and ends. The planner
makes the next stage from the work items that nobody runs (`sdf.scheduling.stage_planner`). That stage starts while
earlier ones still run, a little before slots fall idle, so that its tasks are ready for them. A task's receipt reaches
the driver as the task ends, and is entered in the ledger. Only then can its residuals run.

Accumulators carry the receipts, and may lose or double them: the ledger drops a double receipt, and a missing one is
read from the end of the stored block. When no work is left, the ledger proves that nothing was lost or doubled. The
result is the union of the stages' blocks, read through `ReadCommitted`.
"""

from __future__ import annotations

import heapq
import logging
import math
import time
from collections import Counter

import attrs

from sdf.execution.work_items import SUSPECT, WorkItem
from sdf.quarantine.failures import FailedBlock, Failure
from sdf.quarantine.suspects import STAY_ASIDE, Suspects
from sdf.reporting.progress import RunProgress
from sdf.reporting.run_report import RunReport
from sdf.saving.saving import Saving
from sdf.scheduling.commit_interval import CommitInterval
from sdf.scheduling.factoring import Limits, Tuning
from sdf.scheduling.run_state import RunState, enter
from sdf.scheduling.stage_planner import PlannedStage, StagePlanner
from sdf.spark.call import Call
from sdf.spark.staged.stages import StageBook, Stages, StartedStage
from sdf.spark.staged.stored_blocks import Receipt

__all__ = ["StagedRun"]

log = logging.getLogger("sdf.staged")

_SLOTS_EVERY_SECONDS = 0.5
_STRAGGLER_SECONDS = 0.25  # the first stage waits so long for further elements; skew.py: giant, 8 slots, 1 s
_LONGEST_WAIT_SECONDS = 3600.0  # a deferral for centuries would overflow the clock


@attrs.define(eq=False, slots=False)
class StagedRun:
    """One call of `StagedRunner.run` or `StagedRunner.save`. Call `run_stages`, and then the other methods.

    Args:
        jobs: runs the stages.
        call: the user's call; its elements are of the kind that ``jobs`` expands.
        tuning, limits, tasks_per_slot: see `StagePlanner`.
        fixed_slots: the number of slots; None to ask ``jobs``.
        saving: the log and the sinks of a saved run, else None. A task is then a segment, so its budget is at most
            `Saving.commit_seconds`, and less where tasks are lost (`CommitInterval`).

    Attributes:
        stages: the stages so far.
    """

    _jobs: Stages
    _call: Call
    _tuning: Tuning
    _limits: Limits
    _fixed_slots: int | None
    _tasks_per_slot: int
    _saving: Saving | None

    def __attrs_post_init__(self) -> None:
        saving, quarantine = self._saving, self._call.quarantine
        self._interval = CommitInterval(math.inf if saving is None else saving.commit_seconds)
        self._lost_seconds = 0.0
        self._name = self._call.name
        self._display = self._call.display
        self._work = RunState(self._call.fn)
        self._suspects = None
        if quarantine is not None and saving is not None:
            self._suspects = Suspects(
                self._work, quarantine.max_failures,
                failed=saving.failures, way_out=STAY_ASIDE, noted=saving.set_aside,
            )  # fmt: skip
        elif quarantine is not None:
            self._suspects = Suspects(self._work, quarantine.max_failures)
        self._planner = StagePlanner(self._work, self._tuning, self._limits, tasks_per_slot=self._tasks_per_slot)
        self._delayed: list[tuple[float, int, WorkItem]] = []
        self.stages = StageBook()
        self._done_units = 0.0
        slots = self._fixed_slots
        self._count_slots = self._jobs.count_slots if slots is None else lambda: slots
        self._slots = self._most_slots = self._count_slots()
        self._slots_over_time = [(0.0, self._slots)]
        self._called_at = time.time()
        self._slots_at = self._called = self._began = time.monotonic()
        self._partitions = 0  # of the elements
        self._stages_from = -math.inf  # not before: inf until the first elements are expanded, -inf after the last

    def run_stages(self) -> RunReport:
        """Run all stages, to the proof that nothing was lost or doubled. No job is left running if one fails."""
        try:
            self._expand()
            while self._unfinished():
                self._start_stage()
                self._start_suspects()
                self._show()
                self._wait()
            self._work.ledger.prove()
        except BaseException:
            self._jobs.cancel()
            for blocks in self.stages.blocks():
                blocks.unpersist()
            raise
        finally:
            self._jobs.close()
            self._show(ended=True)
        if self._saving is not None:
            self._saving.pulse(0.0, self._lost_seconds)
            self._saving.failures = self.failed() or []
        return self._report(time.monotonic() - self._called)

    def failed(self) -> list[FailedBlock] | None:
        """Return the blocks that were set aside; None for a run without quarantine."""
        return None if self._suspects is None else self._suspects.blocks()

    def committed(self) -> list[tuple[Receipt, list[WorkItem]]]:
        """Return for each task its receipt and the content that it committed, in the order of stages and tasks."""
        return [
            (receipt, self._work.ledger.content((receipt.stamp.stage, receipt.stamp.task)))
            for receipt in self.stages.counted()
        ]

    def _show(self, *, ended: bool = False) -> None:
        """Show the progress, if there is a display, it is due, and some work is known and not done."""
        known = self._work.known_units > 0 and self._stages_from <= time.monotonic()  # else elements are being expanded
        if self._display is None or not (ended or (self._display.due() and known and self._unfinished())):
            return
        self._display.show(
            RunProgress(
                name=self._name,
                seconds=time.monotonic() - self._called,
                done=min(self._done_units, self._work.known_units),
                known=self._work.known_units,
                tasks_busy=min(len(self._planner.in_flight), self._slots),
                slots=self._slots,
                splits=self._work.splits,
                ended=ended,
            )
        )
        if ended:
            self._display.wait()

    def _expand(self) -> None:
        """Make the work items and enter them in the ledger. The DoFn makes them only this once.

        A saved run waits until it has all of them, as its log begins with them.
        """
        if self._saving is None:
            self._stages_from = math.inf
            self._jobs.start_expanding(self._call.elements)
            self._partitions = self._jobs.unexpanded
            self._enter_expanded()
            return
        for item, delay_seconds in self._saving.begin(self._work, lambda: self._jobs.expand(self._call.elements)):
            self._queue(item, delay_seconds)
        self._done_units = self._work.done_before

    def _enter_expanded(self) -> None:
        """Enter the elements that were expanded, once the first stage need not wait for others.

        Partitions mostly take about as long to be expanded. So the first stage is usually one for all, and the elements
        are numbered in their order.
        """
        now, left = time.monotonic(), self._jobs.unexpanded
        if not left:
            self._stages_from = -math.inf
        elif self._stages_from == math.inf and left < self._partitions:
            self._stages_from = now + _STRAGGLER_SECONDS
        if now >= self._stages_from:
            enter(self._work, self._planner.backlog, self._jobs.take_expanded())

    def _queue(self, item: WorkItem, delay_seconds: float) -> None:
        """Queue a work item now, or when it is due."""
        if delay_seconds > 0:
            heapq.heappush(self._delayed, (time.monotonic() + delay_seconds, item.id, item))
        elif self._suspects is None or not self._suspects.admits(item):
            self._planner.backlog.push(item)

    def _unfinished(self) -> bool:
        waits = self._jobs.unexpanded or len(self._planner.backlog) or self._delayed or self._suspects
        return bool(waits or len(self._planner.in_flight))

    def _wait(self) -> None:
        """Wait for receipts until deferred work, the next stage, progress or a count of slots is due; commit them.

        All that have arrived are committed before the next stage, so that it serves all slots that fell idle.
        """
        waits = [_LONGEST_WAIT_SECONDS, self._planner.seconds_until_due(time.monotonic())]
        if self._delayed:
            waits.append(max(0.0, self._delayed[0][0] - time.monotonic()))
        if self._display is not None or len(self._planner.backlog):
            waits.append(_SLOTS_EVERY_SECONDS)
        if self._saving is not None:
            uncommitted = self.stages.uncommitted_seconds(time.monotonic(), self._slots)
            self._saving.pulse(uncommitted, self._lost_seconds)
            waits.append(1.0)
        if time.monotonic() < self._stages_from < math.inf:
            waits.append(max(0.0, self._stages_from - time.monotonic()))
        for receipt in self._jobs.receive(min(waits)):
            self._commit(receipt)
        if self._stages_from > -math.inf:
            self._enter_expanded()
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            self._queue(heapq.heappop(self._delayed)[2], 0.0)

    def _commit(self, receipt: Receipt) -> None:
        """Enter an attempt's receipt in the ledger, unless an attempt at the same task was committed before."""
        stamp = receipt.stamp
        stage = self.stages[stamp.stage]
        if receipt.failure is not None:
            self._failed(receipt, receipt.failure)
            return
        todo = self._work.commit((stamp.stage, stamp.task), stamp.attempt, receipt.outcome)
        if todo is None:
            return
        if not stage.receipts and stamp.task < stage.plan.idle and not receipt.retries:
            self._planner.started(max(0.0, time.monotonic() - stage.began - receipt.seconds))
        if self._suspects is not None:
            self._suspects.note(receipt.outcome)
        self._enter_receipt(stage, receipt)
        self._done_units += receipt.outcome.units
        for item, delay_seconds in todo:
            self._queue(item, delay_seconds)
        if self._saving is not None:
            ids = [item.id for item in self._work.ledger.content((stamp.stage, stamp.task))]
            self._saving.commit(ids, receipt.messages, receipt.counts, receipt.seconds)
            self._interval.began(stage.began)
            self._interval.ended(time.monotonic(), losses=receipt.retries)
            self._interval.committed(receipt.closing_seconds)
            if receipt.retries:
                self._lost_seconds += max(0.0, time.monotonic() - stage.began - receipt.seconds)
        log.debug("%s: stage %d task %d gave back %d work items", self._name, stamp.stage, stamp.task, len(todo))

    def _enter_receipt(self, stage: StartedStage, receipt: Receipt) -> None:
        self.stages.enter(receipt)
        self._planner.in_flight.remove(stage.plan.ends[receipt.stamp.task])

    def _failed(self, receipt: Receipt, failure: Failure) -> None:
        """Give back the work items of an attempt that failed; what failed is a suspect, or set aside."""
        assert self._suspects is not None
        stamp = receipt.stamp
        stage = self.stages[stamp.stage]
        todo = self._work.ledger.commit((stamp.stage, stamp.task), stamp.attempt, receipt.outcome)
        if todo is None:
            return
        self._enter_receipt(stage, receipt)
        log.info("%s: stage %d task %d failed: %s", self._name, stamp.stage, stamp.task, failure.error)
        idle = not len(self._planner.in_flight)
        for item in self._suspects.failed_attempt([item for item, _ in todo], failure, idle=idle):
            self._planner.backlog.push(item)

    def _start_suspects(self) -> None:
        """Start suspects, each as a task of its own, in slots that are idle."""
        if self._suspects is None or self._jobs.unexpanded:
            return
        busy = len(self._planner.in_flight)
        width = self._slots if self._limits.max_tasks is None else min(self._slots, self._limits.max_tasks)
        items = [self._suspects.waiting.popleft() for _ in range(min(len(self._suspects.waiting), width - busy))]
        if self._suspects.for_idle and not (items or busy or len(self._planner.backlog)):
            items.append(self._suspects.for_idle.popleft())
        if items:
            self._submit(self._planner.plan_alone(items, width, time.monotonic()), alone=True)

    def _start_stage(self) -> None:
        """Plan a stage for the slots that are idle or soon will be, and start it."""
        now = time.monotonic()
        if now - self._slots_at > _SLOTS_EVERY_SECONDS:
            self._slots, self._slots_at = self._count_slots(), now
            self._most_slots = max(self._most_slots, self._slots)
            if self._slots != self._slots_over_time[-1][1]:
                self._slots_over_time.append((now - self._called, self._slots))
        slots = self._slots - self._jobs.unexpanded
        if slots < 1:
            return
        if not len(self.stages):
            self._began = now
        plan = self._planner.plan(slots, now, now - self._began)
        if plan is not None:
            self._submit(plan)

    def _submit(self, plan: PlannedStage, *, alone: bool = False) -> None:
        number, began = len(self.stages), time.monotonic()
        for task, planned in enumerate(plan.tasks):
            self._work.ledger.assign((number, task), planned.items)
        longest = self._interval.seconds(began)
        bundles = [(planned.items, min(planned.budget_seconds, longest)) for planned in plan.tasks]
        if alone:
            bundles = [((attrs.evolve(item, origin=SUSPECT),), budget) for (item,), budget in bundles]
        blocks = self._jobs.start(number, bundles, min_piece_seconds=plan.min_piece_seconds)
        self.stages.add(StartedStage(blocks, plan, began))

    def _report(self, seconds: float) -> RunReport:
        receipts = self.stages.counted()
        return RunReport(
            name=self._name,
            elements=self._work.ledger.elements(),
            stages=len(self.stages),
            splits=self._work.splits,
            split_elements=self._work.split_elements(),
            seconds=seconds,
            slots=self._most_slots,
            tasks=self.stages.task_runs(receipts),
            notes=tuple(self._work.notes),
            pieces=self._work.pieces((receipt.began, receipt.outcome.ran) for receipt in receipts),
            slow_blocks=self._work.slow_blocks(block for receipt in receipts for block in receipt.outcome.slow),
            refusals=tuple(Counter(why for one in receipts if (why := one.outcome.refused) is not None).most_common()),
            slots_over_time=tuple(self._slots_over_time),
            runner="StagedRunner",
            failures=tuple(self.failed() or ()),
            began=self._called_at,
        )
