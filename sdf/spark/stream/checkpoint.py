"""The state of a stream in the journal: the remaining work and the watermark.

The pin of each step of a batch is written ahead here, and the batch is committed when the sink has it. A drain changes
the remaining work without a batch. The change is written in place of the next batch's first pin: another driver may be
at that batch, and only one of the two can go on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark import RDD

from sdf.errors import blame, show
from sdf.journal.chain import blobs_of
from sdf.journal.journal import START, Journal
from sdf.journal.pending import Pending, from_json, to_json
from sdf.journal.remaining import Remaining
from sdf.model.dofn import DoFn
from sdf.sinks.sink import Sink
from sdf.spark.stream.batch_sink import BatchSink
from sdf.spark.stream.clock import Clock
from sdf.spark.stream.losses import Losses
from sdf.spark.stream.pins import Pin
from sdf.spark.stream.steps import Step
from sdf.storage.places import Storage

__all__ = ["Checkpoint"]

_FIRST = "pin-0"
_CHANGED = "changed"


class Checkpoint:
    """The state of one stream.

    Args:
        storage: holds the journal.
        steps: the steps of the chain.
        now: the clock; it is set to the time of the journal's last block if it is behind.

    Attributes:
        remaining: the remaining work.
        fresh: number of parts that the stream begins with and that no committed batch has counted yet.
        watermark: the last watermark; None without estimators.
        done: whether all work has come to its end.
        follows: whether a driver that has died has begun the next batch.
    """

    def __init__(self, storage: Storage, steps: Sequence[Step], now: Clock) -> None:
        self._steps = steps
        names = [step.name for step in steps]
        self._journal = Journal(
            storage,
            config={"fns": names},
            inputs=[f"{number} {name}" for number, name in enumerate(names)],
            clock=now,
        )
        now.reach(self._journal.head.data["time"])
        self._now = now
        self._pinned = 0  # pins of the next batch that are in the journal
        self.remaining = Remaining()
        self.fresh = 0
        self.watermark: Any = None
        self.done = False
        self.follows = False

    def sink(self, sink: Sink, run_id: str) -> BatchSink:
        """Return what writes the batches of a run into a sink."""
        return BatchSink(sink, self._journal, run_id)

    def losses(self, *, skips_short: bool) -> Losses:
        """Return what notes the losses of a run."""
        return Losses(self._journal, skips_short=skips_short)

    @property
    def driver(self) -> str:
        """The name of this driver."""
        return self._journal.driver

    @property
    def batch(self) -> int:
        """The number of the last commit, 0 for none; the next batch gets the next number."""
        return self._journal.head.seq

    def begin(self, rdd: RDD[Any]) -> None:
        """Take the state from the journal; only a new journal starts with the elements."""
        head = self._journal.head.data
        self.follows = self._journal.ahead(_FIRST) is not None
        if head["kind"] == "commit":
            self.watermark = head["watermark"]
            self.done = head["status"] == "done"
            if head["checkpoint"] is not None:
                blobs = blobs_of(head["checkpoint"])
                self.remaining, committed = Remaining.load(self._journal.get, blobs, head["time"])
                self._acknowledge(committed)
            return
        start = self._journal.ahead(START)
        if start is None:
            start = [to_json(one) for one in self._steps[0].expand(rdd, 0)]
            start = self._journal.write_ahead(START, start)
        self.remaining.add(map(from_json, start), 0)
        self.fresh = len(self.remaining)

    def follow_change(self) -> bool:
        """Commit the change that a dead driver has planned; return False if there is none."""
        planned = self._journal.ahead(_FIRST) if self.follows else None
        if planned is None or _CHANGED not in planned:
            return False
        self._change(planned[_CHANGED])
        return True

    def change(self, gone: Sequence[int], parts: Sequence[Pending]) -> None:
        """Commit that some remaining work is gone, and that there are parts in its place.

        Raises:
            JournalFencedError: if another driver has begun the next batch.
        """
        changed = {"gone": list(gone), "left": [to_json(part) for part in parts]}
        if self._journal.write_ahead(_FIRST, {_CHANGED: changed}) != {_CHANGED: changed}:
            raise self._journal.fenced()
        self._change(changed)

    def _change(self, changed: dict[str, Any]) -> None:
        self.remaining.remove(changed["gone"])
        self.remaining.add(map(from_json, changed["left"]), self._now())
        self._commit([], [])

    def pin(self, step: int) -> Pin | None:
        """Return the pin of a step of the next batch that a dead driver has written, None if there is none."""
        pin = self._journal.ahead(f"pin-{step}") if self.follows else None
        if pin is None:
            return None
        self._pinned = step + 1
        return self._pin(pin)

    def write_pins(self, pins: Sequence[Pin]) -> Pin:
        """Write the pins of the first steps of the next batch, as far as they are not written yet.

        A void pin is written only before another one: a driver that follows that must not run the void step again.

        Returns:
            The last pin, or the one that counts instead since another driver was first.

        Raises:
            JournalFencedError: if another driver was first with a pin before the last, or with a change.
        """
        pin = pins[-1]
        for step in range(self._pinned, len(pins)):
            mine = pins[step].to_json()
            written = self._journal.write_ahead(f"pin-{step}", mine)
            if written != mine:
                if step + 1 < len(pins):
                    raise self._journal.fenced()
                pin = self._pin(written)
        self._pinned = len(pins)
        return pin

    def _pin(self, pin: dict[str, Any]) -> Pin:
        if _CHANGED in pin:
            raise self._journal.fenced()
        return Pin.from_json(pin)

    def key(self, pins: Sequence[Pin]) -> str:
        """Return what names the content of the next batch: see `sdf.spark.stream.micro_batches.Batch`."""
        return self._journal.key([pin.content() for pin in pins])

    def note(self, pins: Sequence[Pin]) -> None:
        """Take over how the work went that was run and gave nothing; the journal need not know."""
        now = self._now()
        for tried in (one for pin in pins for one in pin.tried):
            work = self.remaining[tried.id]
            work.due, work.delay = now + tried.delay, tried.delay
            work.watermark, work.seen, work.tried = tried.watermark, tried.seen, True

    def void(self) -> None:
        """Give up the batch, since it read nothing."""
        for step in self._steps:
            step.forget()

    def reach(self, pins: Sequence[Pin]) -> None:
        """Take over the remaining work of a batch that read something, and raise the watermark, before the commit."""
        for pin in pins:
            self.remaining.remove(pin.taken)
            self.remaining.add(pin.left, self._now())
        for work in self.remaining:
            work.tried = False
        lowest = self.lowest(one.now for one in self.remaining)
        if lowest is not None and math.isfinite(lowest):  # an estimator without records may say minus infinity
            self.watermark = lowest if self.watermark is None else max(self.watermark, lowest)

    def commit(self, pins: Sequence[Pin], lost: Sequence[str]) -> None:
        """Commit a batch: what each step has read, what was lost, and the remaining work."""
        parts = [part for pin in pins for parts in pin.tasks for part in parts]
        self._commit(parts, [pin.records for pin in pins], lost)

    def lowest(self, work: Iterable[Pending]) -> Any:
        """Return the lowest watermark of some work, None if it has none."""
        marks = (self._steps[one.step].watermark(one) for one in work)
        return min((mark for mark in marks if mark is not None), default=None)

    def _commit(self, parts: list[Pending], records: list[int], lost: Sequence[str] = ()) -> None:
        """Commit the remaining work, with the parts that were read and the number of records of each step."""
        to_acknowledge = [part for part in parts if type(self._steps[part.step].fn).on_commit is not DoFn.on_commit]
        records = records or [0] * len(self._steps)
        self.done = not self.remaining
        self._journal.advance(
            [self.fresh, *records[:-1]],
            records[-1],
            checkpoint=self.remaining.store(self._journal.put, to_acknowledge),
            watermark=self.watermark,
            status="done" if self.done else "running",
            **({"lost": list(lost)} if lost else {}),
        )
        self.fresh, self._pinned, self.follows = 0, 0, False
        self.void()
        self._acknowledge(to_acknowledge)

    def _acknowledge(self, parts: list[Pending]) -> None:
        """Call `on_commit` for committed parts."""
        for part in parts:
            step = self._steps[part.step]
            with blame(lambda step=step, part=part: f"{step.name}.on_commit() of {show(part.restriction)}"):  # type: ignore[misc]
                step.here().on_commit(part.element, part.restriction)
