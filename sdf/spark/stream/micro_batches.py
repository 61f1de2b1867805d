"""The driver of a stream: batch after batch, each of which happens once whatever crashes.

A batch goes through the chain of DoFns step by step. The driver runs a step until its time is up, and pins what it
read; its outputs are the elements of the next step. When the last step is pinned, the sink gets its records. When the
sink has returned, the driver commits the batch, with all remaining work (`sdf.spark.stream.checkpoint`). The journal
says how far a batch had come when a driver died: the next driver goes on from there, under the same batch id, with the
same records. A round in which nothing was read writes nothing, and what has no news is not even run.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import attrs
from pyspark import RDD, SparkContext

from sdf.errors import DeferError, show
from sdf.journal.clock import Clock
from sdf.model.dofn import DoFn
from sdf.quarantine.failures import FailedBlock
from sdf.quarantine.options import Quarantine
from sdf.quarantine.suspects import too_many
from sdf.reporting.progress import StreamProgress
from sdf.sinks.sink import Sink
from sdf.spark.display import Display
from sdf.spark.jobs import slot_counter
from sdf.spark.stream.backlog import Backlog
from sdf.spark.stream.batch import Batch, Life
from sdf.spark.stream.batch_sink import BatchSink
from sdf.spark.stream.changes import Changes
from sdf.spark.stream.checkpoint import Checkpoint
from sdf.spark.stream.given import Given
from sdf.spark.stream.losses import Losses
from sdf.spark.stream.options import Pace, Until
from sdf.spark.stream.outlets import Outlets
from sdf.spark.stream.pins import Pin
from sdf.spark.stream.scans import Scans
from sdf.spark.stream.shares import even_limits, pin_of, plan_of, share_of
from sdf.spark.stream.steps import Step
from sdf.storage.places import Storage

__all__ = ["Stream"]

log = logging.getLogger("sdf.stream")

_MOST_HISTORY = 1000
_DECADE_SECONDS = 10 * 365 * 86400.0  # a watermark farther from now is not a time
_MOST_IDLE = 100  # batches in a row without a claim, after which a drain fails
_LOOK_SECONDS = 0.05  # how often a pausing stream checks for stop, wake and scans
_QUIET_SHARE = 0.25  # of batch_seconds, before the round after one that found no news: such a round is cheap
_DAY_SECONDS = 86400.0
_WATERMARK_SECONDS = 60.0  # from one commit to the next in which only the watermark has moved


@attrs.define(eq=False, slots=False)
class Stream:
    """One call of `stream_sdf`.

    Args:
        sc: runs the jobs.
        fns: the chain.
        storage: holds the journal.
        foreach_batch: called with each batch; None if there is a ``sink``.
        sinks: get the outputs that they are named for; may be empty.
        given: tags and side inputs.
        pace: limits of a batch, and the event that wakes it.
        display: shows progress; None for no display.
        skips_short: whether ``foreach_batch`` gets no batch that has fewer records than were pinned.
        quarantine: its options; None for a stream without.

    Attributes:
        checkpoint: state of the stream, in the journal.
        changes: changes it without a batch.
        batches: number of batches that this call has committed.
        records: number of records in these batches.
        late: how many records were late in these batches, as of `Pin`.
        losses: what was lost.
        failures: the blocks that this call has set aside.
        history: progress after each of the latest `_MOST_HISTORY` batches.
    """

    _sc: SparkContext
    _fns: list[DoFn]
    _storage: Storage
    _foreach_batch: Callable[[Batch], Any] | None
    _sinks: Sequence[tuple[str, Sink]]
    _given: Given
    _pace: Pace
    _display: Display | None
    _skips_short: bool
    _quarantine: Quarantine | None

    def __attrs_post_init__(self) -> None:
        self._now = Clock()
        self._name = ", ".join(type(fn).__name__ for fn in self._fns)
        self._steps: list[Step] = []
        run_id = uuid.uuid4().hex
        sc, given, pace = self._sc, self._given, self._pace
        with ExitStack() as failing:
            for number, fn in enumerate(self._fns):
                limits = pace.batch_seconds, self._quarantine, pace.max_items is None
                self._steps.append(Step(sc, fn, number, f"{run_id}-{number}", given, *limits))
                failing.callback(self._steps[-1].close)
            self.checkpoint = Checkpoint(self._storage, self._steps, given, self._now, pace.idle_seconds)
            bound = [BatchSink(output, sink, self.checkpoint.journal, run_id) for output, sink in self._sinks]
            outputs = ("main", *given.tags)
            self._outlets = Outlets(sc, self._steps, bound, self._foreach_batch, outputs, self._name, run_id)
            self._slots = slot_counter(sc)
            failing.pop_all()
        self.changes = Changes(self.checkpoint, self._steps, self._outlets, tells=pace.watermark_seconds is not None)
        skips_short = self._skips_short and self._foreach_batch is not None
        is_out = lambda: self._skips_short and self._outlets.is_out()  # noqa: E731
        self.losses = Losses(self.checkpoint.journal, skips_short=skips_short, is_out=is_out)
        self._scans = Scans(self._now)
        self._backlog = Backlog(self._steps)
        self._woken = pace.wake or threading.Event()
        self._marked = time.monotonic()
        self._has_run = False  # whether the last round has run a step
        self.failures: list[FailedBlock] = []
        self.batches = 0
        self.records = 0
        self.late = 0
        self._latest = self.checkpoint.batch, 0, 0.0  # number, records and seconds of the last batch
        self.history: deque[StreamProgress] = deque(maxlen=_MOST_HISTORY)

    def close(self) -> None:
        """Cancel all jobs and free all that is stored, even if a teardown raises."""
        with ExitStack() as closing:
            if self._display is not None:
                closing.callback(self._display.wait)
                closing.callback(lambda display: display.show(self._progress(ended=True)), self._display)
            for step in reversed(self._steps):
                closing.callback(step.close)
            closing.callback(self._scans.close)

    def run(self, stopped: threading.Event, until: Until) -> None:
        """Run batches until it is time to stop."""
        wake = until.idle
        while not stopped.is_set():
            began = time.monotonic()
            if not self.checkpoint.remaining:
                if not self.checkpoint.done:
                    self.changes.commit(self.checkpoint.plan_change())
                return
            if (wake or self._woken.is_set()) and not self.checkpoint.follows:  # else that must be followed as it is
                wake = False
                self._wake()
            self._scan()
            is_due = self._due_in_seconds() == 0 or self.checkpoint.follows
            advanced = is_due and self._batch()
            if not advanced and self._mark_in_seconds() <= 0:
                self._marked = time.monotonic()
                self.changes.move_watermark()
            if self.checkpoint.done or self.batches == until.max_batches:
                return
            if wake:
                continue  # a dead driver began that batch: the next one looks at all work
            if not advanced and until.idle and self._is_idle():
                return
            least = self._pace.batch_seconds * (1 if self._has_run else _QUIET_SHARE) if is_due else 0.0
            pause = least - (time.monotonic() - began)
            wait = min(self._due_in_seconds(), max(0.0, self._mark_in_seconds()))
            self._pause(pause if advanced else max(pause, wait), stopped)

    def _wake(self) -> None:
        """Make all remaining work due."""
        self._woken.clear()
        now = self._now()
        for one in self.checkpoint.remaining:
            one.due, one.tried = min(one.due, now), False
        self._scans.look_again()

    def _is_idle(self) -> bool:
        """Tell whether all due work was tried since the last batch that was committed.

        A scan in flight is waited for, unless it is the next one already: scans may follow each other without a pause.
        """
        now = self._now()
        return all(one.tried or (one.due > now and one not in self._scans) for one in self.checkpoint.remaining)

    def _pause(self, seconds: float, stopped: threading.Event) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._woken.is_set() and not self._scans.has_ended:
            if stopped.wait(min(left, _LOOK_SECONDS)):
                return

    def drain(self) -> None:
        """Ask `truncate` what to keep of the remaining work, do that to its end, and close the journal.

        A batch that a dead driver began comes first: it must be followed as it is; then what scans have found. Then the
        work to be done is committed, so that a driver that resumes goes on with exactly that.
        """
        self._scans.wait(self.checkpoint.remaining.__getitem__)
        if self.checkpoint.follows:
            self._batch()
        while any(one.found for one in self.checkpoint.remaining):
            self._batch()
        if not self.checkpoint.done:
            self.changes.truncate(self.checkpoint.remaining)
        idle = 0
        while not self.checkpoint.done:
            while (due_in := self._due_in_seconds()) > 0:
                if self._woken.wait(due_in):
                    self._wake()
            idle = 0 if self._batch() else idle + 1
            before = list(self.checkpoint.remaining)
            if idle > _MOST_IDLE:
                raise DeferError(
                    f"the stream cannot be drained: finite work was deferred {idle} times in a row without a claim, "
                    f"for example {show(before[0].part.restriction)} of element {show(before[0].part.element)}."
                )
            self.changes.truncate(one for one in before if not self._steps[one.part.step].is_bounded(one.part))

    def _scan(self) -> None:
        """Enter what scans have found, and begin those that are due."""
        self._scans.take(self.checkpoint.remaining.__getitem__)
        if self.checkpoint.follows or not any(step.fn.scans for step in self._steps):
            return
        now = self._now()
        for one in self.checkpoint.remaining:
            step = self._steps[one.part.step]
            if one.due <= now and one not in self._scans and one.found is None and step.is_scan(one.part):
                self._scans.begin(one, step.here(), step.side_inputs)

    def _due_in_seconds(self) -> float:
        """Return the seconds until the first work is due; 0 if some is due, or none is left."""
        earliest = min((one.due for one in self.checkpoint.remaining if one not in self._scans), default=None)
        if earliest is None:
            return _DAY_SECONDS if self._scans else 0.0
        return max(0.0, (earliest - self._now()) / 1000)

    def _batch(self) -> bool:
        """Run one batch, of the due work or as a dead driver has begun it; return whether it was committed."""
        changed = self.checkpoint.planned_change()
        if changed is not None:
            self.changes.commit(changed)
            return True
        now, began, self._has_run = self._now(), time.monotonic(), False
        number = self.checkpoint.batch + 1
        elements: RDD[Any] | None = None
        life = Life(number)
        pins: list[Pin] = []
        there: list[Pin] = []  # with the records that are there now
        self.losses.begin()
        for step in self._steps:
            pin = self.checkpoint.pin(step.number)
            if pin is None:
                pin = own = self._run(step, number, elements, pins[-1].held if pins else None, now)
                if not own.is_void:
                    pin = self.checkpoint.write_pins([*pins, own])
                if pin is not own:
                    step.forget()  # another driver was faster: its pin counts, not the records stored here
            pins.append(pin)
            there.append(self.losses.settle(step, pin))
            if step.number + 1 < len(self._steps):
                elements = step.records(there[-1], life) if there[-1].records() else None
        self.checkpoint.note(pins)
        if all(pin.is_void for pin in pins) and not self.checkpoint.fresh:
            self.checkpoint.void()
            return False
        self.checkpoint.reach(pins)
        self.losses.note(number, pins)
        lost, failed = tuple(self.losses.batch), tuple(block for pin in pins for block in pin.failed)
        records = there[-1].records()
        if self._gives(pins):  # a sink may have written all of a batch of which nothing is left
            if self.checkpoint.write_pins(pins) is not pins[-1]:
                raise self.checkpoint.journal.fenced()
            key = self.checkpoint.journal.key([pin.content() for pin in pins])
            for_each = self._gives(there) and not self.losses.skips
            outputs = self._outlets.outputs(there, life)
            batch = Batch(number, outputs["main"], self.checkpoint.watermark, key, outputs, lost, failed)
            try:
                self._outlets.give(batch, next(pin.by for pin in reversed(there) if pin.by), for_each=for_each)
            finally:
                life.is_over = True
        life.is_over = True
        self.checkpoint.commit(there, lost)
        self._marked = time.monotonic()
        self.batches += 1
        self.records += records
        self.late += sum(pin.late for pin in pins)
        self._latest = number, records, time.monotonic() - began
        self.history.append(self._progress())
        if self._display is not None and self._display.due():
            self._display.show(self.history[-1])
        log.info("batch %d: %d records", number, records)
        self.failures += failed
        if self._quarantine is not None and len(self.failures) > self._quarantine.max_failures:
            raise too_many(self._name, self.failures, self._quarantine.max_failures)
        return True

    def _gives(self, pins: list[Pin]) -> bool:
        """Tell whether there are records of the main output of the last step, or of a tag, or failed blocks."""
        tags = range(1, 1 + len(self._given.tags))
        return bool(pins[-1].records()) or any(pin.failed or any(map(pin.records, tags)) for pin in pins)

    def _mark_in_seconds(self) -> float:
        pause = self._pace.watermark_seconds
        return self._marked + (_WATERMARK_SECONDS if pause is None else pause) - time.monotonic()

    def _progress(self, *, ended: bool = False) -> StreamProgress:
        """Return how far the stream is now."""
        now = self._now()
        number, records, seconds = self._latest
        watermark = self.checkpoint.watermark
        self._backlog.look(self.checkpoint.remaining, now=ended)
        age_seconds = None if watermark is None else time.time() - watermark  # the stream's clock may be another
        return StreamProgress(
            name=self._name,
            batch=number,
            batches=self.batches,
            records=records,
            all_records=self.records,
            backlog=sum(one.due <= now for one in self.checkpoint.remaining),
            watermark=watermark,
            lag_seconds=age_seconds if age_seconds is not None and abs(age_seconds) < _DECADE_SECONDS else None,
            seconds=seconds,
            ended=ended,
            behind_records=self._backlog.records,
            behind_bytes=self._backlog.bytes,
            late=self.late,
        )

    def _run(self, step: Step, number: int, elements: RDD[Any] | None, held: Any, now: int) -> Pin:
        """Run one step of a batch; return what it read."""
        fresh = [] if elements is None else step.expand(elements, now, held)
        share = share_of(step, self.checkpoint.remaining, fresh, now, self._pace.max_items)
        if not share.parts:
            return Pin(left=share.kept)
        self._has_run = True
        lowest = self.checkpoint.lowest(share.parts.values())
        plan = plan_of(step, share, self.checkpoint.remaining, self._slots(), self._pace)
        most = even_limits(self._pace, len(plan.tasks))
        stage = step.run(number, plan, most, self.checkpoint.watermark, self._now)
        return pin_of(stage, share, lowest, self.checkpoint.journal.driver)
