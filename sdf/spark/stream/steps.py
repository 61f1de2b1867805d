"""One step of one batch of a stream: a single stage of tasks that end when their time is up, and the work they left.

It is a stage as `StagedRunner` has them: the same tasks, stamps and receipts, and readers that replay the committed
content if the stored block is not that of the committed attempt.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from numbers import Real
from typing import Any

import attrs
from pyspark import RDD, Broadcast, SparkContext

from sdf.errors import WatermarkError, blame, show
from sdf.execution.bulk.table import Table
from sdf.execution.expansion import Expanded, keeps_default
from sdf.execution.work_items import SUSPECT
from sdf.journal.pending import Pending
from sdf.model.dofn import DoFn, call_hook
from sdf.quarantine.options import Quarantine
from sdf.scheduling.even_shares import part_with, pinned_items
from sdf.scheduling.run_state import RunState
from sdf.spark import broadcasts
from sdf.spark.jobs import explaining
from sdf.spark.payload import Marked, Payload
from sdf.spark.staged.contents import Content
from sdf.spark.staged.stage_jobs import StageJobs
from sdf.spark.staged.stored_blocks import Receipt, Stamp
from sdf.spark.staged.task import ReadCommitted, replayed
from sdf.spark.stream.batch import BatchRDD, Life
from sdf.spark.stream.catch_up import CatchUp, Plan
from sdf.spark.stream.failures import settle
from sdf.spark.stream.given import Given
from sdf.spark.stream.pins import Pin, StageResult

__all__ = ["Step"]

# What the driver of a stream asks a DoFn about each element. A DoFn with an answer of its own has no rows of tables.
_ASKED = "peek", "backlog", "truncate", "split_backlog", "on_commit", "create_watermark_estimator"


@attrs.define(eq=False, slots=False)
class Step:
    """A DoFn of the chain, as the driver of a stream runs it, batch after batch.

    Args:
        sc: runs the jobs.
        fn: the DoFn.
        number: its index in the chain.
        run_id: id of the stream's run, and the number.
        given: tags and side inputs.
        batch_seconds: as of `Pace`.
        quarantine: its options; None for a stream without.
        in_tables: whether small elements may be rows of tables.

    Attributes:
        catch_up: divides its work if it is behind.
    """

    _sc: SparkContext
    fn: DoFn
    number: int
    _run_id: str
    _given: Given
    _batch_seconds: float
    _quarantine: Quarantine | None
    _in_tables: bool

    def __attrs_post_init__(self) -> None:
        self._in_tables = self._in_tables and not self.fn.scans and keeps_default(self.fn, *_ASKED)
        self.catch_up = CatchUp(self._batch_seconds)
        self._set_up = False
        self.name = type(self.fn).__name__
        self._tags = self._given.tags
        self.side_inputs = dict(self._given.side_inputs[self.number])
        self._payload = Payload.send(self._sc, self._run_id, self.fn, self.side_inputs)
        self._jobs = StageJobs(
            self._sc, self._payload, self.name, tags=self._tags, called="batch", quarantine=self._quarantine
        )
        self._stored: RDD[Any] | None = None
        self._stamps: tuple[Stamp, ...] = ()
        self._contents: Broadcast[list[Content]] | None = None

    def close(self) -> None:
        """Cancel what runs, and free what is stored."""
        with ExitStack() as closing:  # all of these run, even if one raises
            if self._set_up:
                closing.callback(call_hook, self.fn, "teardown")
            closing.callback(broadcasts.free, self._payload.broadcast)
            closing.callback(self._jobs.close)
            closing.callback(self.forget)
            closing.callback(self._jobs.cancel)

    def here(self) -> DoFn:
        """Return the DoFn, set up in this process, for calls on the driver."""
        if not self._set_up:
            call_hook(self.fn, "setup")
            self._set_up = True
        return self.fn

    def forget(self) -> None:
        """Free what was kept of the last batch."""
        if self._stored is not None:
            self._stored.unpersist()
        self._stored, self._stamps = None, ()
        if self._contents is not None:
            broadcasts.free(self._contents)
        self._contents = None

    def is_bounded(self, work: Pending) -> bool:
        """Tell whether some work has an end."""
        if type(work.element) is Table:
            return True
        with blame(lambda: f"{self.name}.create_tracker() of {show(work.restriction)}"):
            return self.fn.create_tracker(work.element, work.restriction).is_bounded()

    def is_scan(self, work: Pending) -> bool:
        """Tell whether some work is to be scanned beside the batches."""
        return self.fn.scans and not self.is_bounded(work)

    def peek(self, work: Pending) -> Any:
        """Return what `DoFn.peek` says of some work."""
        if type(self.fn).peek is DoFn.peek:
            return None
        with blame(lambda: f"{self.name}.peek() of {show(work.restriction)}"):
            return self.here().peek(work.element, work.restriction)

    def backlog(self, work: Pending) -> tuple[int | None, int | None]:
        """Return what `DoFn.backlog` says of some work."""
        with blame(lambda: f"{self.name}.backlog() of {show(work.restriction)}"):
            return self.here().backlog(work.element, work.restriction)

    def truncated(self, work: Pending) -> Pending | None:
        """Return the part of some work that is still to do when the stream is drained; None for nothing."""
        if type(work.element) is Table:
            return work
        with blame(lambda: f"{self.name}.truncate() of {show(work.restriction)}"):
            rest = self.here().truncate(work.element, work.restriction)
        return None if rest is None else attrs.evolve(work, restriction=rest, due=0, seen=None)

    def watermark(self, work: Pending) -> Any:
        """Return the watermark of some work; without an estimator, the one before its element was made.

        Raises:
            WatermarkError: if it is no number.
        """
        if type(self.fn).create_watermark_estimator is DoFn.create_watermark_estimator:
            return work.held
        estimator = self.fn.create_watermark_estimator(work.element, work.restriction)
        if estimator is None:
            return work.held
        if work.watermark is not None:
            estimator.restore(work.watermark)
        mark: Any = estimator.current()
        if not _is_number(mark):
            raise WatermarkError(
                f"{self.name}: in a stream a watermark must be a number, such as seconds since the epoch (got "
                f"{show(mark)})."
            )
        return mark if isinstance(mark, int) else float(mark)

    def expand(self, elements: RDD[Any] | Sequence[Any], due: int, held: Any = None) -> list[Pending]:
        """Return the initial parts of new elements, due at once; ``held`` is the watermark before these were made."""
        rdd = elements if isinstance(elements, RDD) else self._sc.parallelize(elements)
        made = self._jobs.expand(rdd, unbounded=True, in_tables=self._in_tables)
        return [Pending(self.number, one.element, part, due=due, held=held) for one in made for part, _ in one.pieces]

    def run(
        self,
        batch: int,
        plan: Plan,
        most: tuple[float, float],
        late_below: Any,
        clock: Callable[[], int],
    ) -> StageResult:
        """Run a stage to its end, keep its records stored, and return what it did.

        Args:
            batch: its number.
            plan: the work of each task.
            most: the records, and the bytes of them, after which a task does so, too.
            late_below: the watermark of the stream; None for none.
            clock: milliseconds since the epoch; the delay of deferred work counts from the end of the stage.
        """
        work = RunState(self.fn)
        planned: dict[int, Pending] = {}  # by element id: each part is an element of its own here
        works: dict[int | None, int | None] = {}  # by the id of the work item, that of the remaining work
        bundles = []
        patient = {task for chain in plan.chains for task in chain[:-1]}
        for task, share in enumerate(plan.tasks):
            items = []
            for one in share:
                (item,) = work.add([Expanded(one.element, one.restriction, ((one.restriction, None),))])
                origin = SUSPECT if one.trial is not None and one.trial.alone else item.origin
                items.append(attrs.evolve(item, watermark=one.watermark, late_below=late_below, origin=origin))
                planned[item.element_id] = one
                works[item.id] = one.id
            work.ledger.assign(task, items)
            budget = self.catch_up.budget_seconds if task in patient else self._batch_seconds
            bundles.append((tuple(items), budget))
        self._stored = self._jobs.start(batch, bundles, min_piece_seconds=0.0, most=most)
        receipts = self._finish(batch, len(bundles))
        now = clock()
        rest: list[list[tuple[Pending, int | None]]] = [[] for _ in receipts]
        for task, receipt in enumerate(receipts):
            if receipt.failure is not None:
                rest[task] = [(attrs.evolve(one, seen=None), None) for one in plan.tasks[task]]
                continue
            for item, seconds in work.commit(task, receipt.stamp.attempt, receipt.outcome) or []:
                one, delay = attrs.evolve(planned[item.element_id], seen=None), None
                if item.parent is not None:  # else it was not started
                    delay = int(seconds * 1000)
                    one = attrs.evolve(
                        _with(one, item.restriction),
                        watermark=item.watermark,
                        due=now + delay,
                        seen=planned[item.element_id].seen if delay else None,  # else it was only cut off
                    )
                rest[task].append((one, delay))
        read = [
            tuple(_with(planned[item.element_id], item.restriction) for item in work.ledger.content(task))
            for task in range(len(plan.tasks))
        ]
        counts = [receipt.counts for receipt in receipts]
        late = [receipt.outcome.late for receipt in receipts]
        stamps = [receipt.stamp for receipt in receipts]
        dropped = [task for task, receipt in enumerate(receipts) if receipt.failure is not None]
        for task in [*dropped, *self.catch_up.settle(plan, receipts, rest)]:
            read[task], counts[task], late[task] = (), (0,) * len(counts[task]), 0
            stamps[task] = attrs.evolve(stamps[task], attempt=-1)  # no block has it: what is stored is dropped, too
        self._stamps = tuple(stamps)
        failures = {
            task: attrs.evolve(receipt.failure, item_id=works.get(receipt.failure.item_id))
            for task, receipt in enumerate(receipts)
            if receipt.failure is not None
        }
        fn = self.here() if failures else self.fn  # set up on the driver only if need be
        failed, changed = settle(fn, plan, read, rest, failures)
        changed |= _cut_apart(plan, rest)
        return StageResult(
            tuple(read), tuple(counts), tuple(left for task in rest for left in task), sum(late), failed, changed
        )

    def _finish(self, batch: int, tasks: int) -> list[Receipt]:
        """Wait for the end of a stage, and return one receipt for each task."""
        receipts: dict[int, Receipt] = {}
        while self._jobs.runs(batch):
            for receipt in self._jobs.receive():
                if receipt.stamp.stage == batch:
                    receipts.setdefault(receipt.stamp.task, receipt)
        return [receipts[task] for task in range(tasks)]

    @property
    def is_stored(self) -> bool:
        """Whether the records of the present batch are stored, so that they need not be read again."""
        return self._stored is not None

    def recount(self, pin: Pin) -> tuple[tuple[int, ...], ...]:
        """Read a pinned step again; return how many records of each output each task gives now."""
        tasks = len(pin.tasks)
        recount = Marked(self._run_id, partial(_recount, self._payload, self._committed(pin), self._tags))
        counted = self._sc.parallelize(range(tasks), tasks).mapPartitionsWithIndex(recount)
        with explaining(self.name, self._run_id):
            return tuple(counted.collect())

    def _committed(self, pin: Pin) -> Broadcast[list[Content]]:
        if self._contents is None:
            self._contents = broadcasts.send(self._sc, [Content.of(pinned_items(parts)) for parts in pin.tasks])
        return self._contents

    def records(self, pin: Pin, life: Life, output: int = 0) -> RDD[Any]:
        """Return the records of an output of a pinned step: the stored ones, or read again if they are not stored."""
        tasks = len(pin.tasks)
        committed = self._committed(pin)
        stored = self._stored
        stamps = self._stamps
        if stored is None:
            unmatched = [Stamp(self._run_id, -1, task, -2) for task in range(tasks)]
            stored = self._sc.parallelize(unmatched, tasks)
            stamps = tuple(Stamp(self._run_id, -1, task, -1) for task in range(tasks))
        counts = tuple(counts[output] for counts in pin.counts)
        batch = life.batch if self._stored is None else None
        read = ReadCommitted(self._payload, stamps, counts, committed, output, self._tags, batch)
        return BatchRDD(stored, Marked(self._run_id, read), life)


def _recount(
    payload: Payload, committed: Broadcast[list[Content]], tags: tuple[str, ...], task: int, partition: Iterable[Any]
) -> Iterator[tuple[int, ...]]:
    """Count the records that the committed work items of a task give now; for ``mapPartitionsWithIndex``."""
    counts: dict[str | None, int] = dict.fromkeys((None, *tags), 0)
    for tag, _ in replayed(payload, committed.value[task].items()):
        counts[tag] += 1
    for _ in partition:  # read to the end, else Spark does not reuse the worker
        yield tuple(counts.values())


def _with(one: Pending, restriction: Any) -> Pending:
    """Return a part with another restriction. What waits behind a trial may need all rows of its table."""
    return part_with(one, restriction) if one.trial is None else attrs.evolve(one, restriction=restriction)


def _cut_apart(plan: Plan, rest: Iterable[Sequence[tuple[Pending, int | None]]]) -> frozenset[int]:
    """Return the ids of tables whose first row was deferred before a claim; the rows behind it go on without it."""
    parts = (one for share in plan.tasks for one in share)
    tables = {one.id for one in parts if type(one.element) is Table and one.trial is None}
    ids = Counter(one.id for left in rest for one, delay in left if delay is not None)
    return frozenset(number for number, pieces in ids.items() if number is not None and number in tables and pieces > 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not math.isnan(value)
