"""The driver of a stream: batch after batch, each of which happens once whatever crashes.

A batch goes through the chain of DoFns step by step. Each step is planned, and the plan is written down; it is run
until its time is up, and what it read is pinned; what it gave are elements for the next step. When the last step is
pinned the sink gets its records, and when the sink has returned the batch is committed, with all the work that is left
(`sdf.spark.stream.checkpoint`). The journal says how far a batch had come when a driver died: the next driver goes on
from there, under the same batch id, with the same records.
"""

from __future__ import annotations

import logging
import os
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
from sdf.spark.display import Display
from sdf.spark.jobs import slot_counter
from sdf.spark.stream.checkpoint import Checkpoint
from sdf.spark.stream.clock import Clock
from sdf.spark.stream.steps import Pin, Plan, Step

__all__ = ["Batch", "Pace", "Stream"]

log = logging.getLogger("sdf.stream")

_MOST_HISTORY = 1000
_DECADE_SECONDS = 10 * 365 * 86400.0  # a watermark farther off is no time
_MOST_IDLE = 100  # batches of a stream that is drained in which nothing happens
_LOOK_SECONDS = 0.05  # how often a stream that pauses looks whether it is to go on


@attrs.frozen
class Batch:
    """What the sink of a stream gets.

    Attributes:
        id: the number of the batch, from 1; after a crash the same records come again under the same number.
        rdd: the records, one partition per task, in the same order each time; kept until the sink returns.
        watermark: no later record is older, in the unit of the estimators; None if there are none.
    """

    id: int
    rdd: RDD[Any]
    watermark: Any


@attrs.frozen
class Pace:
    """How much a batch takes on: see the arguments of `stream_sdf`."""

    batch_seconds: float
    max_items: int | None
    min_tasks: int | None
    max_tasks: int | None


class Stream:
    """One call of `stream_sdf`.

    Args:
        sc: where.
        fns: the chain.
        directory: of the journal.
        foreach_batch: the sink.
        pace: how much a batch takes on.
        display: shows how far it is.

    Attributes:
        checkpoint: where it stands.
        batches: how many batches it has committed.
        records: how many records they had.
        history: how far it was after each batch, of late.
    """

    def __init__(
        self,
        sc: SparkContext,
        fns: list[DoFn],
        directory: str | os.PathLike[str],
        foreach_batch: Callable[[Batch], Any],
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
            self.checkpoint = Checkpoint(directory, self._steps, self._now)
            self._slots = slot_counter(sc)
            failing.pop_all()
        self.batches = 0
        self.records = 0
        self._latest = self.checkpoint.batch, 0, 0.0  # number, records and seconds of the last batch
        self.history: deque[StreamProgress] = deque(maxlen=_MOST_HISTORY)

    def close(self) -> None:
        """Leave no job and nothing stored behind, though a teardown may raise."""
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
            if (wake or woken.is_set()) and not self.checkpoint.is_planned():  # what is planned knows nothing of it
                wake = False
                woken.clear()
                self.checkpoint.pending = [attrs.evolve(one, due=0, tried=False) for one in self.checkpoint.pending]
            is_due = self._due_in_seconds() == 0 or self.checkpoint.is_planned()
            advanced = is_due and self._batch()
            if self.checkpoint.done or self.batches == max_batches:
                return
            if wake:
                continue  # that batch was planned by a driver that has died: now look at all there is
            if not advanced and stop_when_idle and self._is_idle():
                return
            pause = self._pace.batch_seconds - (time.monotonic() - began) if is_due else 0.0
            self._pause(pause if advanced else max(pause, self._due_in_seconds()), stopped, woken)

    def _is_idle(self) -> bool:
        """Tell whether all work was tried since anything came of a batch, but for what is not due yet."""
        now = self._now()
        return all(one.tried or one.due > now for one in self.checkpoint.pending)

    def _pause(self, seconds: float, stopped: threading.Event, woken: threading.Event) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not woken.is_set():
            if stopped.wait(min(left, _LOOK_SECONDS)):
                return

    def drain(self) -> None:
        """Do what is left of finite work, drop what has no end, and close the journal.

        What was written ahead by a driver that has died comes first: it must be followed as it is. Then it is committed
        what is to be done, so that whoever resumes goes on with that.
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
        """Return how long it takes until the first work is due; 0 if some is, or none is left."""
        earliest = min((one.due for one in self.checkpoint.pending), default=0)
        return max(0.0, (earliest - self._now()) / 1000)

    def _batch(self) -> bool:
        """Run one batch of what is due, or what is planned; return whether anything came of it."""
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
            unstarted = [one for one in pin.left if one.due == 0]  # these have waited longest
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
            self._foreach_batch(Batch(number, self._steps[-1].records(pins[-1]), self.checkpoint.watermark))
        self.checkpoint.commit(pins)
        self.batches += 1
        self.records += records
        self._latest = number, records, time.monotonic() - began
        self.history.append(self._progress())
        if self._display is not None and self._display.due():
            self._display.show(self.history[-1])
        log.info("batch %d: %d records", number, records)
        return True

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
        """Run one step of a batch, or follow what is written of it; return what it was to do, and what it read.

        A step without work has a plan too: a step after it may have some, and if this driver dies, nobody may find
        work for the step before then.
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
            pin = self.checkpoint.write_pin(step.number, own)
            if pin is not own:
                step.forget()  # another driver was faster: what counts is what it read
        return plan, pin

    def _tasks(self, work: int) -> int:
        slots = self._slots()
        most = self._pace.max_tasks or max(slots, self._pace.min_tasks or 0)
        return scaled(work, min(self._pace.min_tasks or slots, most), most)
