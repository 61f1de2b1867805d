"""StagedRunner: re-splits stragglers between stages, with nothing but Spark's own scheduling.

A stage is a Spark job over bundles of work items; its blocks are persisted. A task gets a budget: when it is spent, the
task splits what it is running, gives back the rest and ends. The next stage starts while the stages before it still
run, a little before slots fall idle, so that its tasks are there when they do; what it gets is planned from the work
items that nobody runs (`sdf.stages`). Each task's receipt reaches the driver as the task ends and goes into the
ledger; only then can its residuals run.

Accumulators carry the receipts. They may count too little or twice: a double receipt is dropped by the ledger, a
missing one is read from the end of the stored block. When no work is left the ledger proves that nothing was lost or
doubled, and the result is the union of the stages' blocks, read through `ReadCommitted`.
"""

from __future__ import annotations

import heapq
import logging
import math
import queue
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import attrs
from pyspark import RDD, SparkContext, StorageLevel

from sdf.dofn import DoFn
from sdf.errors import InvalidTypeError, InvalidValueError, StageError
from sdf.items import WorkItem
from sdf.planner import Limits, Tuning
from sdf.progress import RunProgress
from sdf.report import RunReport, TaskRun
from sdf.spark import serde
from sdf.spark.blocks import Receipt, Stamp
from sdf.spark.display import Display
from sdf.spark.jobs import Ended, Jobs, slot_counter
from sdf.spark.options import count, positive
from sdf.spark.payload import Payload, expand_elements
from sdf.spark.receipts import ReceiptParam, materialise, read_receipts
from sdf.spark.stage import STAGE_PROPERTY, ReadCommitted, StageTask, stage_mark
from sdf.stages import PlannedStage, StagePlanner
from sdf.work import Work, enter

__all__ = ["StagedRunner"]

log = logging.getLogger("sdf.staged")

_FIRST_BUDGET_SECONDS = 0.5
_SLOTS_EVERY_SECONDS = 0.5
_PARTITIONS_PER_SLOT = 3  # of the result, as Spark's tuning guide has it
_PARTITION_BYTES = 64 << 20  # or more of them, if they would be larger than this
_LONGEST_WAIT_SECONDS = 3600.0  # a wait of centuries would overflow the clock


@attrs.frozen(kw_only=True)
class StagedRunner:
    """Runs stages until no work is left, and splits what takes too long between them. The default of `run_sdf`.

    The defaults are right for most runs.

    Args:
        budget_seconds: no task runs longer than this before it splits, give or take a block. None: what a task was
            planned to take, which falls towards the end of the run.
        tasks_per_slot: how many tasks to keep in flight per slot; more than 1 leaves some in the queue, which is what
            makes dynamic allocation ask for executors.
        min_tasks: keep at least so many tasks in flight while there is work to cut for them.
        max_tasks: never more than so many, for instance to spare a database. None: as many as there are slots.
        max_items_per_stage: at most so many work items in one stage. None: no bound.
        min_piece_seconds: the smallest piece worth a task of its own; a task is not split for less either.
        storage_level: where the records of the stages are kept until they are used.

    Raises:
        InvalidValueError: for a number out of range, or ``min_tasks > max_tasks``.
        InvalidTypeError: for a storage level that is not one.
    """

    budget_seconds: float | None = attrs.field(default=None, validator=attrs.validators.optional(positive))
    tasks_per_slot: int = attrs.field(default=1, validator=count)
    min_tasks: int = attrs.field(default=1, validator=count)
    max_tasks: int | None = attrs.field(default=None, validator=attrs.validators.optional(count))
    max_items_per_stage: int | None = attrs.field(default=None, validator=attrs.validators.optional(count))
    min_piece_seconds: float = attrs.field(default=0.2, validator=positive)
    storage_level: StorageLevel = StorageLevel.MEMORY_AND_DISK

    def __attrs_post_init__(self) -> None:
        if self.max_tasks is not None and self.min_tasks > self.max_tasks:
            raise InvalidValueError(
                f"StagedRunner min_tasks must be <= max_tasks (got {self.min_tasks} and {self.max_tasks})."
            )
        if not isinstance(self.storage_level, StorageLevel) or self.storage_level == StorageLevel.NONE:
            raise InvalidTypeError(
                f"StagedRunner storage_level must be a StorageLevel that stores, such as StorageLevel.DISK_ONLY "
                f"(got {self.storage_level!r})."
            )

    def run(
        self,
        rdd: RDD[Any],
        fn: DoFn,
        side_inputs: Mapping[str, Any],
        tags: tuple[str, ...],
        display: Display | None,
    ) -> dict[str, RDD[Any]]:
        """Run all of it now and return one RDD per output, each with its ``report``. Called by `run_sdf`."""
        return _Run(self, rdd, fn, side_inputs, tags, display).run()


@attrs.define(eq=False)
class _Stage:
    """A Spark job over planned tasks: its persisted blocks, what it is expected to take, and what came back."""

    number: int
    rdd: RDD[Any]
    plan: PlannedStage
    receipts: dict[int, Receipt] = attrs.field(factory=dict)

    def missing(self) -> list[int]:
        return [task for task in range(len(self.plan.tasks)) if task not in self.receipts]


class _Run:
    """One call of `StagedRunner.run`."""

    def __init__(
        self,
        options: StagedRunner,
        rdd: RDD[Any],
        fn: DoFn,
        side_inputs: Mapping[str, Any],
        tags: tuple[str, ...],
        display: Display | None,
    ) -> None:
        self._options = options
        self._rdd = rdd
        self._sc: SparkContext = rdd.context
        self._fn = fn
        self._name = type(fn).__name__
        self._tags = tags
        self._run_id = uuid.uuid4().hex
        self._payload = Payload.send(self._sc, self._run_id, fn, side_inputs)
        self._events: queue.SimpleQueue[Ended | Receipt] = queue.SimpleQueue()
        self._jobs = Jobs(self._sc, self._run_id, self._events)
        self._param = ReceiptParam(self._events.put)
        self._receipts = self._sc.accumulator([], self._param)
        self._work = Work(fn)
        self._planner = StagePlanner(
            self._work,
            Tuning(_FIRST_BUDGET_SECONDS, options.min_piece_seconds, options.budget_seconds),
            Limits(options.min_tasks, options.max_tasks, options.max_items_per_stage),
            tasks_per_slot=options.tasks_per_slot,
        )
        self._delayed: list[tuple[float, int, WorkItem]] = []
        self._stages: list[_Stage] = []
        self._display = display
        self._done_units = 0.0
        self._count_slots = slot_counter(self._sc)
        self._slots = self._most_slots = self._count_slots()
        self._slots_over_time = [(0.0, self._slots)]
        self._slots_at = self._called = self._began = time.monotonic()

    def run(self) -> dict[str, RDD[Any]]:
        try:
            self._expand()
            self._began = time.monotonic()
            while self._unfinished():
                self._start_stage()
                self._show()
                self._handle(self._next_event())
            self._work.ledger.prove()
        except BaseException:
            self._jobs.cancel()
            for stage in self._stages:
                stage.rdd.unpersist()
            raise
        finally:
            self._param.close(self._receipts)
            self._show(ended=True)
        return self._result(time.monotonic() - self._called)

    def _show(self, *, ended: bool = False) -> None:
        """Show how far it is, if somebody wants to know and it is time to."""
        if self._display is None or not (ended or self._display.due()):
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
        """Make the work items. From here on they are the driver's: nobody asks the DoFn for them again."""
        elements = expand_elements(self._rdd, self._payload, self._name, self._jobs, self._events)
        enter(self._work, self._planner.backlog, elements)

    def _unfinished(self) -> bool:
        return bool(len(self._planner.backlog) or self._delayed or len(self._planner.in_flight))

    def _next_event(self) -> Ended | Receipt | None:
        """Wait for the next event; None if a deferred work item is due first, or progress, or a stage, or new slots."""
        waits = [_LONGEST_WAIT_SECONDS, self._planner.seconds_until_due(time.monotonic())]
        if self._delayed:
            waits.append(max(0.0, self._delayed[0][0] - time.monotonic()))
        if self._display is not None or len(self._planner.backlog):
            waits.append(_SLOTS_EVERY_SECONDS)
        try:
            return self._events.get(timeout=min(waits))
        except queue.Empty:
            return None

    def _handle(self, event: Ended | Receipt | None) -> None:
        """Take this event and what else has come meanwhile, so that one stage serves all the slots that fell idle."""
        while event is not None:
            if isinstance(event, Receipt):
                self._commit(event)
            elif event.error is not None:
                raise event.error
            else:
                self._stage_ended(self._stages[event.key], event.value)
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                event = None
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            self._planner.backlog.push(heapq.heappop(self._delayed)[2])

    def _stage_ended(self, stage: _Stage, receipts: Any) -> None:
        """All tasks have ended; read the receipts that did not arrive from the blocks themselves."""
        for receipt in receipts:
            if receipt is None:
                raise StageError(f"stage {stage.number} of {self._name}: a stored block ends without its receipt.")
            self._commit(receipt)
        missing = stage.missing()
        if missing:
            log.info(
                "%s: stage %d: reading the receipts of tasks %s from the blocks", self._name, stage.number, missing
            )
            self._start_job(stage, f"receipts of {len(missing)} tasks", partial(read_receipts, stage.rdd, missing))

    def _commit(self, receipt: Receipt) -> None:
        """Enter an attempt in the ledger, unless another attempt at the same task came first."""
        stamp = receipt.stamp
        stage = self._stages[stamp.stage]
        todo = self._work.commit((stamp.stage, stamp.task), stamp.attempt, receipt.outcome)
        if todo is None:
            return
        stage.receipts[stamp.task] = receipt
        self._planner.in_flight.remove(stage.plan.ends[stamp.task])
        self._done_units += receipt.outcome.units
        for item, delay_seconds in todo:
            if delay_seconds > 0:
                heapq.heappush(self._delayed, (time.monotonic() + delay_seconds, item.id, item))
            else:
                self._planner.backlog.push(item)
        log.debug("%s: stage %d task %d gave back %d work items", self._name, stamp.stage, stamp.task, len(todo))

    def _start_stage(self) -> None:
        """Plan a stage for the slots that are idle or soon will be, and start it."""
        now = time.monotonic()
        if now - self._slots_at > _SLOTS_EVERY_SECONDS:
            self._slots, self._slots_at = self._count_slots(), now
            self._most_slots = max(self._most_slots, self._slots)
            if self._slots != self._slots_over_time[-1][1]:
                self._slots_over_time.append((now - self._called, self._slots))
        plan = self._planner.plan(self._slots, now, now - self._began)
        if plan is not None:
            self._submit(plan)

    def _submit(self, plan: PlannedStage) -> None:
        number = len(self._stages)
        for task, planned in enumerate(plan.tasks):
            self._work.ledger.assign((number, task), planned.items)
        bundles = [(planned.items, planned.budget_seconds) for planned in plan.tasks]
        task_fn = StageTask(self._payload, number, self._tags, self._options.min_piece_seconds, self._receipts)
        rdd = self._sc.parallelize(bundles, len(bundles)).mapPartitionsWithIndex(task_fn)
        rdd.setName(f"{self._name}: stage {number}").persist(self._options.storage_level)
        stage = _Stage(number, rdd, plan)
        self._stages.append(stage)
        self._start_job(stage, f"{len(bundles)} tasks", partial(materialise, rdd))

    def _start_job(self, stage: _Stage, what: str, job: Callable[[], Iterable[Receipt | None]]) -> None:
        description = f"{self._name}: stage {stage.number}, {what}"
        log.debug("%s", description)
        self._jobs.start(stage.number, description, job, {STAGE_PROPERTY: stage_mark(self._run_id, stage.number)})

    def _result(self, seconds: float) -> dict[str, RDD[Any]]:
        receipts = [stage.receipts[task] for stage in self._stages for task in range(len(stage.plan.tasks))]
        report = self._report(seconds, receipts)
        results: dict[str, RDD[Any]] = {}
        if receipts:
            blocks = self._blocks(receipts)
            stamps: tuple[Stamp, ...] = tuple(receipt.stamp for receipt in receipts)
            owners = [(stamp.stage, stamp.task) for stamp in stamps]
            pinned = [self._work.ledger.content(owner) for owner in owners]
            contents = self._sc.broadcast(serde.dumps(pinned, "the committed restrictions"))
        for tag, name in enumerate(("main", *self._tags)):
            if receipts:
                counts = tuple(receipt.counts[tag] for receipt in receipts)
                read = ReadCommitted(self._payload, stamps, counts, contents, tag, self._tags)
                result = blocks.mapPartitions(read)
            else:
                result = self._sc.parallelize([], 1)
            result.report = report  # type: ignore[attr-defined]
            result.unpersist = partial(self._unpersist, result.unpersist)  # type: ignore[method-assign]
            results[name] = result
        log.info("%s", report)
        return results

    def _blocks(self, receipts: list[Receipt]) -> RDD[Any]:
        """Return the blocks of all stages, several to a partition: to read each in a task of its own costs 10 ms."""
        blocks = self._sc.union([stage.rdd for stage in self._stages])
        size = sum(receipt.size for receipt in receipts)
        partitions = max(_PARTITIONS_PER_SLOT * self._slots, math.ceil(size / _PARTITION_BYTES))
        return blocks.coalesce(partitions) if partitions < len(receipts) else blocks

    def _unpersist(self, unpersist: Callable[[bool], RDD[Any]], blocking: bool = False) -> RDD[Any]:
        """Free the stages' blocks too; whoever reads the result after that gets the pinned parts computed again."""
        for stage in self._stages:
            stage.rdd.unpersist(blocking)
        return unpersist(blocking)

    def _report(self, seconds: float, receipts: list[Receipt]) -> RunReport:
        tasks = tuple(
            TaskRun(
                stage=receipt.stamp.stage,
                task=receipt.stamp.task,
                worker=receipt.worker,
                began=receipt.began,
                seconds=receipt.seconds,
                work_items=receipt.outcome.started,
                handed_back=sum(len(part.residuals) for part in receipt.outcome.parts)
                + len(self._stages[receipt.stamp.stage].plan.tasks[receipt.stamp.task].items)
                - receipt.outcome.started,
                records=sum(receipt.counts),
            )
            for receipt in receipts
        )
        return RunReport(
            name=self._name,
            elements=self._work.ledger.elements(),
            stages=len(self._stages),
            splits=self._work.splits,
            split_elements=self._work.split_elements(),
            seconds=seconds,
            slots=self._most_slots,
            tasks=tasks,
            notes=tuple(self._work.notes),
            pieces=self._work.pieces((receipt.began, receipt.outcome.ran) for receipt in receipts),
            slow_blocks=self._work.slow_blocks(block for receipt in receipts for block in receipt.outcome.slow),
            refusals=tuple(Counter(why for one in receipts if (why := one.outcome.refused) is not None).most_common()),
            slots_over_time=tuple(self._slots_over_time),
        )
