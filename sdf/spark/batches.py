"""The driver of a stream: batch after batch, each of which happens once whatever crashes.

A batch goes through the chain of DoFns step by step. Each step is planned, and the plan is written down; it is run
until its time is up, and what it read is pinned; what it gave are elements for the next step. When the last step is
pinned the sink gets its records, and when the sink has returned the batch is committed, with all the work that is left.
The journal (`sdf.journal`) says how far a batch had come when a driver died: the next driver goes on from there, under
the same batch id, with the same records.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import attrs
from pyspark import RDD, SparkContext

from sdf.dealing import dealt
from sdf.disk import Disk
from sdf.dofn import DoFn
from sdf.errors import DeferError, blame, show
from sdf.journal import START, Journal
from sdf.pending import Pending, dump, from_json, heard, load, to_json, told
from sdf.planner import scaled
from sdf.progress import StreamProgress
from sdf.spark.clock import Clock
from sdf.spark.display import Display
from sdf.spark.jobs import slot_counter
from sdf.spark.microbatch import Pin, Step

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
        checkpoint: the directory of the journal.
        foreach_batch: the sink.
        pace: how much a batch takes on.
        display: shows how far it is.

    Attributes:
        batches: how many batches it has committed.
        records: how many records they had.
        watermark: the last one, None if there are no estimators.
        done: whether all work has come to its end.
        history: how far it was after each batch, of late.
    """

    def __init__(
        self,
        sc: SparkContext,
        fns: list[DoFn],
        checkpoint: str | os.PathLike[str],
        foreach_batch: Callable[[Batch], Any],
        pace: Pace,
        display: Display | None = None,
    ) -> None:
        self._display = display
        self._foreach_batch = foreach_batch
        self._pace = pace
        self._now = Clock()
        names = [type(fn).__name__ for fn in fns]
        self._name = ", ".join(names)
        self._journal = Journal(
            Disk(checkpoint),
            config={"fns": names},
            inputs=[f"{number} {name}" for number, name in enumerate(names)],
            clock=self._now,
        )
        self._now.reach(self._journal.head.data["time"])
        run_id = uuid.uuid4().hex
        self._steps = [Step(sc, fn, number, run_id) for number, fn in enumerate(fns)]
        self._slots = slot_counter(sc)
        self._pending: list[Pending] = []
        self._fresh = 0  # elements that the first batch begins with
        self.watermark: Any = None
        self.done = False
        self.batches = 0
        self.records = 0
        self._latest = self._journal.head.seq, 0, 0.0  # number, records and seconds of the last batch
        self.history: deque[StreamProgress] = deque(maxlen=_MOST_HISTORY)

    def close(self) -> None:
        """Leave no job and nothing stored behind, though a teardown may raise."""
        with ExitStack() as closing:
            for step in reversed(self._steps):
                closing.callback(step.close)
        if self._display is not None:
            self._display.show(self._progress(ended=True))
            self._display.wait()

    def begin(self, rdd: RDD[Any]) -> None:
        """Find out from the journal what is to be done; only where there is none, from the elements."""
        head = self._journal.head.data
        if head["kind"] == "commit":
            self.watermark = head["watermark"]
            self.done = head["status"] == "done"
            if head["checkpoint"] is not None:
                state, self._pending = load(self._journal.get(head["checkpoint"]))
                self._acknowledge([from_json(part) for part in state["committed"]])
            return
        start = self._journal.ahead(START)
        if start is None:
            start = [to_json(one) for one in self._steps[0].expand(rdd)]
            start = self._journal.write_ahead(START, start)
        self._pending = [from_json(one) for one in start]
        self._fresh = len(self._pending)

    def run(
        self, stopped: threading.Event, woken: threading.Event, max_batches: int | None, stop_when_idle: bool
    ) -> None:
        """Run batches until it is time to stop."""
        wake = stop_when_idle
        while not stopped.is_set():
            began = time.monotonic()
            if not self._pending:
                self._commit_changes()
                return
            if (wake or woken.is_set()) and not self._is_planned():  # what is planned knows nothing of it
                wake = False
                woken.clear()
                self._pending = _to_try(self._pending, math.inf)
            is_due = self._due_in_seconds() == 0 or self._is_planned()
            advanced = is_due and self._batch()
            if self.done or self.batches == max_batches:
                return
            if wake:
                continue  # that batch was planned by a driver that has died: now look at all there is
            if not advanced and stop_when_idle and all(one.due for one in self._pending):
                return
            pause = self._pace.batch_seconds - (time.monotonic() - began) if is_due else 0.0
            self._pause(pause if advanced else max(pause, self._due_in_seconds()), stopped, woken)

    def _is_planned(self) -> bool:
        """Tell whether a driver that has died has planned the next batch."""
        return self._journal.ahead("plan-0") is not None

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
        if self._is_planned():
            self._batch()
        if not self.done:
            self._pending = [
                rest for one in self._pending if (rest := self._steps[one.step].truncated(one)) is not None
            ]
            self._commit_changes()
        idle = 0
        while not self.done:
            while (due_in := self._due_in_seconds()) > 0:
                time.sleep(due_in)
            idle = 0 if self._batch() else idle + 1
            if idle > _MOST_IDLE:
                raise DeferError(
                    f"the stream cannot be drained: finite work was deferred {idle} times in a row without a claim, "
                    f"for example {show(self._pending[0].restriction)} of element {show(self._pending[0].element)}."
                )
            before = self._pending
            self._pending = [rest for one in before if (rest := self._bounded(one)) is not None]
            if not self._pending or list(map(id, before)) != list(map(id, self._pending)):
                self._commit_changes()

    def _bounded(self, one: Pending) -> Pending | None:
        step = self._steps[one.step]
        return one if step.is_bounded(one) else step.truncated(one)

    def _commit_changes(self) -> None:
        """Commit that there is other work left than the journal says."""
        if not self.done and self._checkpoint([]) != self._journal.head.data.get("checkpoint"):
            self._commit([], 0, self._start_of([]))

    def _due_in_seconds(self) -> float:
        """Return how long it takes until the first work is due; 0 if some is, or none is left."""
        earliest = min((one.due for one in self._pending), default=0)
        return max(0.0, (earliest - self._now()) / 1000)

    def _batch(self) -> bool:
        """Run one batch of what is due, or what is planned; return whether anything came of it."""
        now, began = self._now(), time.monotonic()
        number = self._journal.next_seq
        elements: RDD[Any] | None = None
        held: Any = None
        pins: list[Pin] = []
        left: list[Pending] = []
        for step in self._steps:
            pin, kept, held = self._step(step, number, elements, held, now)
            unstarted = [one for one in pin.left if one.due == 0]  # these have waited longest
            left += [*unstarted, *kept, *(one for one in pin.left if one.due > 0)]
            pins.append(pin)
            if step.number + 1 < len(self._steps):
                elements = step.records(pin) if pin.records else None
        self._pending = left
        if not any(parts for pin in pins for parts in pin.tasks) and not self._fresh:
            self._journal.void()
            self._forget()
            return False
        self._pending = _to_try(left, self._now())
        self._advance_watermark()
        if pins[-1].records:
            self._foreach_batch(Batch(number, self._steps[-1].records(pins[-1]), self.watermark))
        committed = [part for pin in pins for parts in pin.tasks for part in parts]
        self._commit(committed, pins[-1].records, self._start_of(pins))
        self.batches += 1
        self.records += pins[-1].records
        self._latest = number, pins[-1].records, time.monotonic() - began
        self.history.append(self._progress())
        if self._display is not None and self._display.due():
            self._display.show(self.history[-1])
        log.info("batch %d: %d records", number, pins[-1].records)
        return True

    def _progress(self, *, ended: bool = False) -> StreamProgress:
        """Return how far the stream is now."""
        now = self._now()
        number, records, seconds = self._latest
        age_seconds = None if self.watermark is None else now / 1000 - self.watermark
        return StreamProgress(
            name=self._name,
            batch=number,
            batches=self.batches,
            records=records,
            all_records=self.records,
            backlog=sum(one.due <= now for one in self._pending),
            watermark=self.watermark,
            lag_seconds=age_seconds if age_seconds is not None and abs(age_seconds) < _DECADE_SECONDS else None,
            seconds=seconds,
            ended=ended,
        )

    def _start_of(self, pins: list[Pin]) -> list[int]:
        """Return how many new elements each step got."""
        return [self._fresh] + ([pin.records for pin in pins[:-1]] or [0] * (len(self._steps) - 1))

    def _step(
        self, step: Step, number: int, elements: RDD[Any] | None, held: Any, now: int
    ) -> tuple[Pin, list[Pending], Any]:
        """Run one step of a batch, or follow what is written of it.

        A step without work has a plan too: a step after it may have some, and if this driver dies, nobody may find
        work for the step before then.

        Returns:
            What it read, the work it left alone, and the watermark that held before it ran, for what comes of it.
        """
        plan = self._journal.ahead(f"plan-{step.number}")
        if plan is None:
            mine = [one for one in self._pending if one.step == step.number]
            fresh = [] if elements is None else step.expand(elements, held)
            work = [*(one for one in mine if one.due <= now), *fresh]
            room = len(work) if self._pace.max_items is None else self._pace.max_items
            tasks = dealt(step.fn, work[:room], self._tasks(len(work[:room]))) if work else []
            kept = [*work[room:], *(one for one in mine if one.due > now)]  # first come, first served
            plan = self._journal.write_ahead(
                f"plan-{step.number}",
                {
                    "tasks": [[to_json(one) for one in share] for share in tasks],
                    "kept": [to_json(one) for one in kept],
                    "held": told(self._lowest(one for share in tasks for one in share)),
                },
            )
        shares = [[from_json(one) for one in share] for share in plan["tasks"]]
        left_alone = [from_json(one) for one in plan["kept"]]
        held = heard(plan["held"])
        if not shares:
            return Pin((), (), ()), left_alone, held
        written = self._journal.ahead(f"pin-{step.number}")
        if written is None:
            pin = step.run(number, shares, self._pace.batch_seconds, self._now)
            mine_too = pin.to_json()
            written = self._journal.write_ahead(f"pin-{step.number}", mine_too)
            if written == mine_too:
                return pin, left_alone, held
            step.forget()  # another driver was faster: what counts is what it read
        return Pin.from_json(written), left_alone, held

    def _tasks(self, work: int) -> int:
        slots = self._slots()
        most = self._pace.max_tasks or max(slots, self._pace.min_tasks or 0)
        return scaled(work, min(self._pace.min_tasks or slots, most), most)

    def _advance_watermark(self) -> None:
        """Move the watermark to the lowest of all work that is left; it never goes back."""
        lowest = self._lowest(self._pending)
        if lowest is not None and math.isfinite(lowest):  # one that has seen nothing yet may say minus infinity
            self.watermark = lowest if self.watermark is None else max(self.watermark, lowest)

    def _lowest(self, work: Iterable[Pending]) -> Any:
        """Return the lowest watermark of some work, None if none of it has one."""
        marks = (self._steps[one.step].watermark(one) for one in work)
        return min((mark for mark in marks if mark is not None), default=None)

    def _commit(self, parts: list[Pending], records: int, fresh: list[int]) -> None:
        """Commit a batch: the work that is left, and how far everything has come."""
        to_tell = [part for part in parts if type(self._steps[part.step].fn).on_commit is not DoFn.on_commit]
        self.done = not self._pending
        self._journal.advance(
            fresh,
            records,
            checkpoint=self._checkpoint(to_tell),
            watermark=self.watermark,
            status="done" if self.done else "running",
        )
        self._fresh = 0
        self._forget()
        self._acknowledge(to_tell)

    def _checkpoint(self, parts: list[Pending]) -> dict[str, Any]:
        """Store the work that is left, and what sources are to hear of."""
        return self._journal.put(dump({"committed": [to_json(part) for part in parts]}, self._pending))

    def _forget(self) -> None:
        for step in self._steps:
            step.forget()

    def _acknowledge(self, parts: list[Pending]) -> None:
        """Tell sources that what was read of them is committed."""
        for part in parts:
            step = self._steps[part.step]
            with blame(lambda step=step, part=part: f"{step.name}.on_commit() of {show(part.restriction)}"):  # type: ignore[misc]
                step.here().on_commit(part.element, part.restriction)


def _to_try(work: list[Pending], now: float) -> list[Pending]:
    """Return work with what is due as such that nobody has tried yet; once tried, it is due at some time, never at 0.

    So a stream whose work is due again and again can tell when all of it was tried and nothing came.
    """
    return [attrs.evolve(one, due=0) if 0 < one.due <= now else one for one in work]
