"""The driver of a stream: batch after batch, each of which happens once whatever crashes.

A batch goes through the chain of DoFns step by step. Each step is planned, and the plan is written down; it is run
until its time is up, and what it read is pinned; what it gave are elements for the next step. When the last step is
pinned the sink gets its records, and when the sink has returned the batch is committed, with all the work that is left.
The journal (`sdf.journal`) says how far a batch had come when a driver died: the next driver goes on from there, under
the same batch id, with the same records.
"""

from __future__ import annotations

import logging
import numbers
import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import attrs
from pyspark import RDD, SparkContext

from sdf.disk import Disk
from sdf.dofn import DoFn
from sdf.errors import WatermarkError, blame, show
from sdf.journal import Journal
from sdf.pending import Pending, dump, from_json, load, to_json
from sdf.planner import scaled
from sdf.spark.clock import Clock
from sdf.spark.jobs import slot_counter
from sdf.spark.microbatch import Pin, Step

__all__ = ["Batch", "Pace", "Stream"]

log = logging.getLogger("sdf.stream")

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

    Attributes:
        batches: how many batches it has committed.
        records: how many records they had.
        watermark: the last one, None if there are no estimators.
        done: whether all work has come to its end.
    """

    def __init__(
        self,
        sc: SparkContext,
        fns: list[DoFn],
        checkpoint: str | os.PathLike[str],
        foreach_batch: Callable[[Batch], Any],
        pace: Pace,
    ) -> None:
        self._foreach_batch = foreach_batch
        self._pace = pace
        self._now = Clock()
        names = [type(fn).__name__ for fn in fns]
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
        self._tried_all = True  # whether the last batch took on all that was due when it began
        self.watermark: Any = None
        self.done = False
        self.batches = 0
        self.records = 0

    def close(self) -> None:
        """Leave no job and nothing stored behind."""
        for step in self._steps:
            step.close()

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
        start = self._journal.ahead("start")
        if start is None:
            start = [to_json(one) for one in self._steps[0].expand(rdd)]
            start = self._journal.write_ahead("start", start)
        self._pending = [from_json(one) for one in start]
        self._fresh = len(self._pending)

    def run(
        self, stopped: threading.Event, woken: threading.Event, max_batches: int | None, stop_when_idle: bool
    ) -> None:
        """Run batches until it is time to stop."""
        if stop_when_idle:
            self._wake()
        while not self.done and not stopped.is_set() and (max_batches is None or self.batches < max_batches):
            began = time.monotonic()
            if woken.is_set():
                woken.clear()
                self._wake()
            advanced = self._batch()
            if not advanced and stop_when_idle and self._tried_all:
                return
            due_in = self._due_in_seconds()
            pause = self._pace.batch_seconds - (time.monotonic() - began)
            if not self.done:
                self._pause(pause if advanced else max(pause, due_in), stopped, woken)

    def _wake(self) -> None:
        """Let all that is deferred be due."""
        self._pending = [attrs.evolve(one, due=0) for one in self._pending]

    def _pause(self, seconds: float, stopped: threading.Event, woken: threading.Event) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not woken.is_set():
            if stopped.wait(min(left, _LOOK_SECONDS)):
                return

    def drain(self) -> None:
        """Do what is left of finite work, drop what has no end, and close the journal."""
        left = []
        for one in self._pending:
            step = self._steps[one.step]
            with blame(lambda step=step, one=one: f"{step.name}.truncate() of {show(one.restriction)}"):  # type: ignore[misc]
                rest = step.here().truncate(one.element, one.restriction)
            if rest is not None:
                left.append(attrs.evolve(one, restriction=rest, due=0))
        self._pending = left
        while self._pending:
            time.sleep(min(max(0.0, self._due_in_seconds()), 3600.0))
            self._batch()
        if not self.done:
            self._commit([], 0, [0] * len(self._steps))

    def _due_in_seconds(self) -> float:
        """Return how long it takes until the first work is due; 0 if some is, or none is left."""
        earliest = min((one.due for one in self._pending), default=0)
        return max(0.0, (earliest - self._now()) / 1000)

    def _batch(self) -> bool:
        """Run one batch; return whether anything came of it."""
        now = self._now()
        self._tried_all = True
        number = self._journal.next_seq
        records = self._journal.head.data.get("output", {}).get("stop", 0)
        elements: RDD[Any] | None = None
        pins: list[Pin] = []
        fresh = [self._fresh] + [0] * (len(self._steps) - 1)
        left: list[Pending] = []
        for step in self._steps:
            pin, kept = self._step(step, number, elements, now)
            left += [*kept, *pin.left]
            pins.append(pin)
            if step.number + 1 < len(self._steps):
                fresh[step.number + 1] = pin.records
                elements = step.records(pin) if pin.records else None
        if not any(parts for pin in pins for parts in pin.tasks) and not self._fresh:
            self._journal.discard_ahead()
            self._pending = left
            self._forget()
            return False
        self._pending = left
        self._advance_watermark()
        if pins[-1].records:
            self._foreach_batch(Batch(number, self._steps[-1].records(pins[-1]), self.watermark))
        committed = [part for pin in pins for parts in pin.tasks for part in parts]
        self._commit(committed, pins[-1].records, fresh)
        self.batches += 1
        self.records += pins[-1].records
        self._fresh = 0
        log.info("batch %d: %d records, output at %d", number, pins[-1].records, records + pins[-1].records)
        return True

    def _step(self, step: Step, number: int, elements: RDD[Any] | None, now: int) -> tuple[Pin, list[Pending]]:
        """Run one step of a batch, or follow what is written of it; return what it read, and the work it left alone."""
        mine = [one for one in self._pending if one.step == step.number]
        plan = self._journal.ahead(f"plan-{step.number}")
        if plan is None:
            fresh = [] if elements is None else step.expand(elements)
            due = [place for place, one in enumerate(mine) if one.due <= now]
            room = len(due) + len(fresh) if self._pace.max_items is None else self._pace.max_items
            self._tried_all &= len(due) + len(fresh) <= room
            taken, admitted = due[:room], fresh[: max(0, room - len(due))]
            work = [*(mine[place] for place in taken), *admitted]
            if not work and not fresh:
                return Pin((), (), ()), mine
            tasks = step.plan(work, self._tasks(len(work))) if work else []
            plan = self._journal.write_ahead(
                f"plan-{step.number}",
                {
                    "tasks": [[to_json(one) for one in share] for share in tasks],
                    "taken": taken,
                    "later": [to_json(one) for one in fresh[len(admitted) :]],
                },
            )
        gone = set(plan["taken"])
        kept = [one for place, one in enumerate(mine) if place not in gone] + [from_json(one) for one in plan["later"]]
        written = self._journal.ahead(f"pin-{step.number}")
        if written is None:
            shares = [[from_json(one) for one in share] for share in plan["tasks"]]
            pin = step.run(number, shares, self._pace.batch_seconds, self._now()) if shares else Pin((), (), ())
            mine_too = pin.to_json()
            written = self._journal.write_ahead(f"pin-{step.number}", mine_too)
            if written == mine_too:
                return pin, kept
            step.forget()  # another driver was faster: what counts is what it read
        return Pin.from_json(written), kept

    def _tasks(self, work: int) -> int:
        slots = self._slots()
        most = self._pace.max_tasks or max(slots, self._pace.min_tasks or 0)
        return scaled(work, min(self._pace.min_tasks or slots, most), most)

    def _advance_watermark(self) -> None:
        """Move the watermark to the lowest of all work that is left; it never goes back."""
        held = []
        for one in self._pending:
            step = self._steps[one.step]
            if type(step.fn).create_watermark_estimator is DoFn.create_watermark_estimator:
                continue
            estimator = step.fn.create_watermark_estimator(one.element, one.restriction)
            if estimator is None:
                continue
            if one.watermark is not None:
                estimator.restore(one.watermark)
            current = estimator.current()
            if not isinstance(current, numbers.Real):
                raise WatermarkError(
                    f"{step.name}: in a stream a watermark must be a number, such as seconds since the epoch (got "
                    f"{show(current)})."
                )
            held.append(current)
        if held:
            lowest = min(held)
            self.watermark = lowest if self.watermark is None else max(self.watermark, lowest)

    def _commit(self, parts: list[Pending], records: int, fresh: list[int]) -> None:
        """Commit a batch: the work that is left, and how far everything has come."""
        heard = [part for part in parts if type(self._steps[part.step].fn).on_commit is not DoFn.on_commit]
        state = {"v": 1, "committed": [to_json(part) for part in heard]}
        self.done = not self._pending
        self._journal.advance(
            fresh,
            records,
            checkpoint=self._journal.put(dump(state, self._pending)),
            watermark=self.watermark,
            status="done" if self.done else "running",
        )
        self._forget()
        self._acknowledge(heard)

    def _forget(self) -> None:
        for step in self._steps:
            step.forget()

    def _acknowledge(self, parts: list[Pending]) -> None:
        """Tell sources that what was read of them is committed."""
        for part in parts:
            step = self._steps[part.step]
            with blame(lambda step=step, part=part: f"{step.name}.on_commit() of {show(part.restriction)}"):  # type: ignore[misc]
                step.here().on_commit(part.element, part.restriction)
