"""The state of a stream in the journal: the remaining work and the watermark.

The pin of each step of a batch is written ahead here, and the batch is committed when the sink has it. A drain changes
the remaining work without a batch. The change is written in place of the next batch's first pin: another driver may be
at that batch, and only one of the two can go on.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark import RDD

from sdf.errors import blame, show
from sdf.journal.chain import blobs_of, canonical, sha256
from sdf.journal.clock import Clock
from sdf.journal.journal import START, Journal
from sdf.journal.pending import Pending, from_json, steady, to_json
from sdf.journal.remaining import Remaining
from sdf.model.dofn import DoFn
from sdf.spark.stream.given import Given
from sdf.spark.stream.pins import Pin, failed_to_json
from sdf.spark.stream.steps import Step
from sdf.storage.places import Storage

__all__ = ["Checkpoint"]

log = logging.getLogger("sdf.stream")

_FIRST = "pin-0"
_CHANGED = "changed"


class Checkpoint:
    """The state of one stream.

    Args:
        storage: holds the journal.
        steps: the steps of the chain.
        given: tags and side inputs.
        now: the clock; it is set to the time of the journal's last block, or of a pin, if it is behind.
        idle_seconds: work that has read nothing for so long does not hold the watermark; None: it always does.

    Attributes:
        journal: the journal.
        remaining: the remaining work.
        fresh: number of parts that the stream begins with and that no committed batch has counted yet.
        watermark: the last watermark; None without estimators.
        done: whether all work has come to its end.
        follows: whether a driver that has died has begun the next batch.
    """

    def __init__(
        self, storage: Storage, steps: Sequence[Step], given: Given, now: Clock, idle_seconds: float | None
    ) -> None:
        self._steps = steps
        self._given = given
        self._idle = None if idle_seconds is None else int(idle_seconds * 1000)
        names = [step.name for step in steps]
        self.journal = Journal(
            storage,
            config={"fns": names},
            inputs=[f"{number} {name}" for number, name in enumerate(names)],
            clock=now,
        )
        now.reach(self.journal.head.data["time"])
        self._now = now
        self._elements: str | None = None  # names those that the stream began with; None for those of a scan
        self._pinned = 0  # pins of the next batch that are in the journal
        self.remaining = Remaining()
        self.fresh = 0
        self.watermark: Any = None
        self.done = False
        self.follows = False

    @property
    def batch(self) -> int:
        """The number of the last commit, 0 for none; the next batch gets the next number."""
        return self.journal.head.seq

    def begin(self, rdd: RDD[Any]) -> None:
        """Take the state from the journal; only a new journal starts with the elements."""
        head = self.journal.head.data
        if self.journal.was_at is not None:
            log.warning(
                "the stream goes on in %s; its last driver had this checkpoint in %s. If one of them is a copy, and "
                "another stream goes on with the other one, each record comes twice, under two keys: run only one",
                self.journal.root,
                self.journal.was_at,
            )
        self.follows = self.journal.ahead(_FIRST) is not None
        if head["kind"] == "commit":
            self._check_elements(rdd, head.get("elements"))
            self.watermark = head["watermark"]
            self.done = head["status"] == "done"
            if head["checkpoint"] is not None:
                blobs = blobs_of(head["checkpoint"])
                self.remaining, committed = Remaining.load(self.journal.get, blobs, head["time"])
                for work in self.remaining:
                    work.since, work.is_behind = self._now(), True
                self._acknowledge(committed)
            return
        start = self.journal.ahead(START)
        if start is None:
            start = [to_json(one) for one in self._steps[0].expand(rdd, 0)]
            start = self.journal.write_ahead(START, start)
        if not self._steps[0].fn.scans:
            self._elements = self.journal.write_ahead("elements", _named(rdd))
        self.remaining.add(map(from_json, start), self._now())
        self.fresh = len(self.remaining)

    def _check_elements(self, rdd: RDD[Any], began_with: str | None) -> None:
        """Warn if the elements are not those that the stream began with: it goes on with those, and no others."""
        self._elements = began_with
        if began_with is not None and _named(rdd) != began_with:
            log.warning(
                "the elements given now are not those that the stream in %s began with. It goes on with those, and "
                "reads no other ones: give new elements a checkpoint of their own, or let WatchFiles find new files",
                self.journal.root,
            )

    def planned_change(self) -> dict[str, Any] | None:
        """Return the change that a dead driver has written in place of the next batch, None if there is none."""
        planned = self.journal.ahead(_FIRST) if self.follows else None
        return None if planned is None else planned.get(_CHANGED)

    def plan_change(
        self, *, gone: Sequence[int] = (), parts: Sequence[Pending] = (), watermark: Any = None
    ) -> dict[str, Any]:
        """Write in place of the next batch that some remaining work is gone, and that there is other work instead.

        Args:
            gone: ids of work.
            parts: what is to be done instead.
            watermark: the watermark from then on; None for no change.

        Raises:
            JournalFencedError: if another driver has begun the next batch.
        """
        changed = {"gone": list(gone), "left": [to_json(part) for part in parts], "watermark": watermark}
        if self.journal.write_ahead(_FIRST, {_CHANGED: changed}) != {_CHANGED: changed}:
            raise self.journal.fenced()
        return changed

    def commit_change(self, changed: dict[str, Any]) -> None:
        """Commit a change that was written."""
        self.remaining.remove(changed["gone"])
        self.remaining.add(map(from_json, changed["left"]), self._now())
        if changed["watermark"] is not None:
            self.watermark = changed["watermark"]
        self.commit()

    def pin(self, step: int) -> Pin | None:
        """Return the pin of a step of the next batch that a dead driver has written, None if there is none."""
        pin = self.journal.ahead(f"pin-{step}") if self.follows else None
        if pin is None:
            return None
        self._pinned = step + 1
        return self._pin(step, pin)

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
            mine = {**pins[step].to_json(), "given": self._given.facts(step), "time": self._now()}
            written = self.journal.write_ahead(f"pin-{step}", mine)
            if written != mine:
                if step + 1 < len(pins):
                    raise self.journal.fenced()
                pin = self._pin(step, written)
        self._pinned = len(pins)
        return pin

    def _pin(self, step: int, pin: dict[str, Any]) -> Pin:
        if _CHANGED in pin:
            raise self.journal.fenced()
        self._now.reach(pin.get("time", 0))  # pins had none before
        return Pin.from_json(self._given.admit(step, pin, self.journal.next_seq))

    def note(self, pins: Sequence[Pin]) -> None:
        """Take over how the work went that was run and gave nothing; the journal need not know."""
        now = self._now()
        for tried in (one for pin in pins for one in pin.tried):
            work = self.remaining[tried.id]
            work.due, work.delay = now + tried.delay, tried.delay
            work.watermark, work.seen, work.tried, work.is_behind = tried.watermark, tried.seen, True, False

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
        reached = self.reached()
        if reached is not None:  # a batch that comes again has the watermark that it had
            self.watermark = self.journal.write_ahead("watermark", reached)

    def reached(self) -> Any:
        """Return the watermark as the remaining work has it now; None without estimators."""
        now = self._now()
        busy = (one for one in self.remaining if self._idle is None or now - one.since < self._idle)
        lowest = self.lowest(one.now for one in busy)
        if lowest is None or not math.isfinite(lowest):  # an estimator without records may say minus infinity
            return self.watermark
        return lowest if self.watermark is None else max(self.watermark, lowest)

    def lowest(self, work: Iterable[Pending]) -> Any:
        """Return the lowest watermark of some work, None if it has none."""
        marks = (self._steps[one.step].watermark(one) for one in work)
        return min((mark for mark in marks if mark is not None), default=None)

    def commit(self, pins: Sequence[Pin] = (), lost: Sequence[str] = ()) -> None:
        """Commit a batch: what each step has read, what was lost, what came late, and the remaining work.

        Without pins only the remaining work has changed.
        """
        parts = [part for pin in pins for parts in pin.tasks for part in parts]
        to_acknowledge = [part for part in parts if type(self._steps[part.step].fn).on_commit is not DoFn.on_commit]
        records = [pin.records() for pin in pins] or [0] * len(self._steps)
        late = sum(pin.late for pin in pins)
        failed = [failed_to_json(block) for pin in pins for block in pin.failed]
        self.done = not self.remaining
        self.journal.advance(
            [self.fresh, *records[:-1]],
            records[-1],
            checkpoint=self.remaining.store(self.journal.put, to_acknowledge),
            watermark=self.watermark,
            status="done" if self.done else "running",
            **({"elements": self._elements} if self._elements else {}),
            **({"lost": list(lost)} if lost else {}),
            **({"late": late} if late else {}),
            **({"failed": failed} if failed else {}),
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


def _named(rdd: RDD[Any]) -> str:
    """Return a name of some elements: of others it is another one, whatever their order."""
    return sha256(canonical(sorted(map(steady, rdd.collect()), key=json.dumps)))[:16]
