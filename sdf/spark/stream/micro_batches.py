"""The driver of a stream: batch after batch, each of which happens once whatever crashes.

A batch goes through the chain of DoFns step by step. The driver writes down the plan of a step, runs the step until its
time is up, and pins what it read; its outputs are the elements of the next step. When the last step is pinned, the sink
gets its records. When the sink has returned, the driver commits the batch, with all remaining work
(`sdf.spark.stream.checkpoint`). The journal says how far a batch had come when a driver died: the next driver goes on
from there, under the same batch id, with the same records.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import attrs
from pyspark import RDD, SparkContext

from sdf.errors import DeferError, show
from sdf.journal.pending import Pending
from sdf.model.dofn import DoFn
from sdf.reporting.progress import StreamProgress
from sdf.scheduling.even_shares import even_shares
from sdf.scheduling.factoring import scaled
from sdf.sinks.sink import Sink
from sdf.spark.display import Display
from sdf.spark.jobs import slot_counter
from sdf.spark.stream.checkpoint import Checkpoint
from sdf.spark.stream.clock import Clock
from sdf.spark.stream.steps import Pin, Plan, Step
from sdf.storage.places import Storage

__all__ = ["Batch", "Pace", "Stream"]

log = logging.getLogger("sdf.stream")

_MOST_HISTORY = 1000
_DECADE_SECONDS = 10 * 365 * 86400.0  # a watermark farther from now is not a time
_MOST_IDLE = 100  # batches in a row without a claim, after which a drain fails
_LOOK_SECONDS = 0.05  # how often a pausing stream checks for stop and wake


@attrs.frozen
class Batch:
    """What the sink of a stream gets.

    Attributes:
        id: the number of the batch, from 1; after a crash the same records come again under the same number.
        rdd: the records, one partition per task, in the same order each time; kept until the sink returns.
        watermark: no record to come is older, in the unit of the estimators; None without estimators.
        key: names what the batch holds: the same when it comes again, another for any other batch. Numbers begin again
            with a new checkpoint, and go back with one that was restored from a copy; keys do neither.
    """

    id: int
    rdd: RDD[Any]
    watermark: Any
    key: str


@attrs.frozen
class Pace:
    """Limits of a batch: see the arguments of `stream_sdf`."""

    batch_seconds: float
    max_items: int | None
    min_tasks: int | None
    max_tasks: int | None


class Stream:
    """One call of `stream_sdf`.

    Args:
        sc: runs the jobs.
        fns: the chain.
        storage: holds the journal.
        foreach_batch: called with each batch; None if there is a ``sink``.
        sink: gets the records of each batch; or None.
        pace: limits of a batch.
        display: shows progress; None for no display.

    Attributes:
        checkpoint: state of the stream, in the journal.
        batches: number of batches that this call has committed.
        records: number of records in these batches.
        history: progress after each of the latest `_MOST_HISTORY` batches.
    """

    def __init__(
        self,
        sc: SparkContext,
        fns: list[DoFn],
        storage: Storage,
        foreach_batch: Callable[[Batch], Any] | None,
        sink: Sink | None,
        pace: Pace,
        display: Display | None = None,
    ) -> None:
        self._display = display
        self._foreach_batch = foreach_batch
        self._pace = pace
        self._now = Clock()
        self._name = ", ".join(type(fn).__name__ for fn in fns)
        run_id = uuid.uuid4().hex
        self._steps: list[Step] = []
        with ExitStack() as failing:
            for number, fn in enumerate(fns):
                self._steps.append(Step(sc, fn, number, run_id))
                failing.callback(self._steps[-1].close)
            self.checkpoint = Checkpoint(storage, self._steps, self._now)
            self._sink = None if sink is None else self.checkpoint.sink(sink)
            self._slots = slot_counter(sc)
            failing.pop_all()
        self.batches = 0
        self.records = 0
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

    def run(
        self, stopped: threading.Event, woken: threading.Event, max_batches: int | None, stop_when_idle: bool
    ) -> None:
        """Run batches until it is time to stop."""
        wake = stop_when_idle
        while not stopped.is_set():
            began = time.monotonic()
            if not self.checkpoint.pending:
                self.checkpoint.commit_change()
                return
            if (wake or woken.is_set()) and not self.checkpoint.is_planned():  # a plan must be followed as it is
                wake = False
                woken.clear()
                self.checkpoint.pending = [attrs.evolve(one, due=0, tried=False) for one in self.checkpoint.pending]
            is_due = self._due_in_seconds() == 0 or self.checkpoint.is_planned()
            advanced = is_due and self._batch()
            if self.checkpoint.done or self.batches == max_batches:
                return
            if wake:
                continue  # that batch was a dead driver's plan: only the next one looks at all work
            if not advanced and stop_when_idle and self._is_idle():
                return
            pause = self._pace.batch_seconds - (time.monotonic() - began) if is_due else 0.0
            self._pause(pause if advanced else max(pause, self._due_in_seconds()), stopped, woken)

    def _is_idle(self) -> bool:
        """Tell whether all due work was tried since the last batch that was committed."""
        now = self._now()
        return all(one.tried or one.due > now for one in self.checkpoint.pending)

    def _pause(self, seconds: float, stopped: threading.Event, woken: threading.Event) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not woken.is_set():
            if stopped.wait(min(left, _LOOK_SECONDS)):
                return

    def drain(self) -> None:
        """Ask `truncate` what to keep of the remaining work, do that to its end, and close the journal.

        A batch that a dead driver planned comes first: it must be followed as it is. Then the work to be done is
        committed, so that a driver that resumes goes on with exactly that.
        """
        if self.checkpoint.is_planned():
            self._batch()
        if not self.checkpoint.done:
            self.checkpoint.pending = [
                rest for one in self.checkpoint.pending if (rest := self._steps[one.step].truncated(one)) is not None
            ]
            self.checkpoint.commit_change()
        idle = 0
        while not self.checkpoint.done:
            while (due_in := self._due_in_seconds()) > 0:
                time.sleep(due_in)
            idle = 0 if self._batch() else idle + 1
            before = self.checkpoint.pending
            if idle > _MOST_IDLE:
                raise DeferError(
                    f"the stream cannot be drained: finite work was deferred {idle} times in a row without a claim, "
                    f"for example {show(before[0].restriction)} of element {show(before[0].element)}."
                )
            self.checkpoint.pending = [rest for one in before if (rest := self._bounded(one)) is not None]
            if not self.checkpoint.pending or list(map(id, before)) != list(map(id, self.checkpoint.pending)):
                self.checkpoint.commit_change()

    def _bounded(self, one: Pending) -> Pending | None:
        step = self._steps[one.step]
        return one if step.is_bounded(one) else step.truncated(one)

    def _due_in_seconds(self) -> float:
        """Return the seconds until the first work is due; 0 if some is due, or none is left."""
        earliest = min((one.due for one in self.checkpoint.pending), default=0)
        return max(0.0, (earliest - self._now()) / 1000)

    def _batch(self) -> bool:
        """Run one batch, of the planned work or else of the due work; return whether it was committed."""
        if self.checkpoint.follow_change():
            return True
        now, began = self._now(), time.monotonic()
        number = self.checkpoint.batch + 1
        elements: RDD[Any] | None = None
        held: Any = None
        pins: list[Pin] = []
        left: list[Pending] = []
        for step in self._steps:
            plan, pin = self._step(step, number, elements, held, now)
            held = plan.held
            unstarted = [one for one in pin.left if one.due == 0]  # not started: these have waited longest
            left += [*unstarted, *plan.kept, *(one for one in pin.left if one.due > 0)]
            pins.append(pin)
            if step.number + 1 < len(self._steps):
                elements = step.records(pin) if pin.records else None
        if not any(parts for pin in pins for parts in pin.tasks) and not self.checkpoint.fresh:
            self.checkpoint.void(left)
            return False
        self.checkpoint.reach(left)
        records = pins[-1].records
        if records:
            key, by = self.checkpoint.key(pins), pins[-1].by
            self._give(Batch(number, self._steps[-1].records(pins[-1]), self.checkpoint.watermark, key), by)
        self.checkpoint.commit(pins)
        self.batches += 1
        self.records += records
        self._latest = number, records, time.monotonic() - began
        self.history.append(self._progress())
        if self._display is not None and self._display.due():
            self._display.show(self.history[-1])
        log.info("batch %d: %d records", number, records)
        return True

    def _give(self, batch: Batch, by: str) -> None:
        if self._sink is not None:
            self._sink.give(batch.id, by, batch.rdd)
        if self._foreach_batch is not None:
            self._foreach_batch(batch)

    def _progress(self, *, ended: bool = False) -> StreamProgress:
        """Return how far the stream is now."""
        now = self._now()
        number, records, seconds = self._latest
        watermark = self.checkpoint.watermark
        age_seconds = None if watermark is None else now / 1000 - watermark
        return StreamProgress(
            name=self._name,
            batch=number,
            batches=self.batches,
            records=records,
            all_records=self.records,
            backlog=sum(one.due <= now for one in self.checkpoint.pending),
            watermark=watermark,
            lag_seconds=age_seconds if age_seconds is not None and abs(age_seconds) < _DECADE_SECONDS else None,
            seconds=seconds,
            ended=ended,
        )

    def _step(self, step: Step, number: int, elements: RDD[Any] | None, held: Any, now: int) -> tuple[Plan, Pin]:
        """Run one step of a batch, or follow what the journal says of it; return its plan and its pin.

        A step without work gets a plan too: a later step may have work, and if this driver dies, the next driver must
        not plan new work for this step in the same batch.
        """
        plan = self.checkpoint.plan(step.number)
        if plan is None:
            mine = [one for one in self.checkpoint.pending if one.step == step.number]
            fresh = [] if elements is None else step.expand(elements, held)
            work = [*(one for one in mine if one.due <= now), *fresh]
            room = len(work) if self._pace.max_items is None else self._pace.max_items
            tasks = even_shares(step.fn, work[:room], self._tasks(len(work[:room]))) if work else []
            kept = [*work[room:], *(one for one in mine if one.due > now)]  # first come, first served
            lowest = self.checkpoint.lowest(one for share in tasks for one in share)
            plan = self.checkpoint.write_plan(step.number, Plan(tuple(tasks), tuple(kept), lowest))
        if not plan.tasks:
            return plan, Pin((), (), ())
        pin = self.checkpoint.pin(step.number)
        if pin is None:
            own = step.run(number, plan.tasks, self._pace.batch_seconds, self._now)
            own = attrs.evolve(own, by=self.checkpoint.driver)
            pin = self.checkpoint.write_pin(step.number, own)
            if pin is not own:
                step.forget()  # another driver was faster: its pin counts, not the records stored here
        return plan, pin

    def _tasks(self, work: int) -> int:
        slots = self._slots()
        most = self._pace.max_tasks or max(slots, self._pace.min_tasks or 0)
        return scaled(work, min(self._pace.min_tasks or slots, most), most)
