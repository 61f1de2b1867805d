"""Losses: what a stream has lost, and batches that come again with fewer records than before.

A DoFn with ``fail_on_data_loss=False`` goes on when its data are gone. What was gone before a part was read is in the
part: its restriction has an attribute ``lost``, a text. What is gone after that shows when a batch comes again: it was
pinned by a driver that has died, and may have been delivered with all its records. So its records are counted before
the sink is called, and the numbers that are there now are written ahead into the journal. So are those of a batch that
nobody outside has had a record of, and of every batch with ``short_batches="give"``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable

import attrs

from sdf.journal.journal import Journal
from sdf.spark.stream.pins import Pin
from sdf.spark.stream.steps import Step

__all__ = ["Losses"]

log = logging.getLogger("sdf.stream")

_MOST_TOLD = 1000


class Losses:
    """What one call of `stream_sdf` has lost.

    Args:
        journal: of the stream.
        skips_short: whether ``foreach_batch`` gets no batch that has fewer records than were pinned.
        is_out: tells whether anyone outside may have records of the batch, which it must then keep. If not, it has
            those that it gives now: the user may have changed the function, since a sink has refused a record.

    Attributes:
        told: the latest losses, as texts.
        batch: those of the present batch.
        skips: whether ``foreach_batch`` does not get the present batch.
    """

    def __init__(self, journal: Journal, *, skips_short: bool, is_out: Callable[[], bool]) -> None:
        self._journal = journal
        self._is_out = is_out
        self._skips_short = skips_short
        self.told: deque[str] = deque(maxlen=_MOST_TOLD)
        self.batch: list[str] = []
        self.skips = False

    def begin(self) -> None:
        """Begin a batch."""
        self.batch, self.skips = [], False

    def settle(self, step: Step, pin: Pin) -> Pin:
        """Return a pin that a dead driver has written, with the number of records that are there now."""
        if pin.is_void or step.is_stored:
            return pin
        counts, looks = pin.counts, 0
        while (known := self._journal.ahead(f"lost-{step.number}-{looks}")) is not None:
            counts, looks = tuple(map(tuple, known)), looks + 1
        must_be_same = getattr(step.fn, "fail_on_data_loss", None)  # None: what it reads is not followed
        may_differ = not (self._is_out() if must_be_same is None else must_be_same)
        there = step.recount(pin) if may_differ else counts
        if there != counts:
            written = self._journal.write_ahead(f"lost-{step.number}-{looks}", list(map(list, there)))
            counts = tuple(map(tuple, written))
        if counts == pin.counts:
            return pin
        self.skips = self._skips_short
        before, after = sum(map(sum, pin.counts)), sum(map(sum, counts))
        self.batch.append(f"{step.name}: of {before} records that were read, {after} were there when they came again")
        return attrs.evolve(pin, counts=counts)

    def note(self, number: int, pins: Iterable[Pin]) -> None:
        """Note what was lost before the parts of batch ``number`` were read, and warn of all its losses."""
        parts = (part for pin in pins for parts in pin.tasks for part in parts)
        self.batch += [text for part in parts if (text := getattr(part.restriction, "lost", ""))]
        if self.skips:
            self.batch.append(f"batch {number} is short now, and foreach_batch did not get it (short_batches='skip')")
        self.told += self.batch
        for text in self.batch:
            log.warning("lost: %s", text)
