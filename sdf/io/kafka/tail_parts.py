"""The restriction of a followed partition, and its tracker.

A topic that was deleted and made anew has offsets that the former one had, too. So a restriction knows the message that
was read last: in a topic that was made anew, another message has its offset.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import attrs

from sdf import UNBOUNDED, OffsetRange, Progress, RestrictionTracker
from sdf.errors import show
from sdf.io.kafka.values import KafkaRecord
from sdf.io.stored import stored

__all__ = ["KafkaTail", "KafkaTracker", "Mark", "Messages"]

_DIGEST_BYTES = 8


@attrs.frozen
class Mark:
    """A message that was read: its offset, and a digest of what it holds."""

    offset: int
    digest: bytes

    @classmethod
    def of(cls, record: KafkaRecord) -> Mark:
        content = repr((record.timestamp_ms, record.key, record.value, record.headers)).encode()
        return cls(record.offset, hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest())


@stored
@attrs.frozen
class KafkaTail(OffsetRange):
    """Positions ``[start, stop)`` of a partition that is followed; they are its offsets, until it was made anew.

    Attributes:
        mark: the message that was read last; None if there is none.
        shift: the position of offset 0; not 0 if the topic was made anew, and the stream goes on with the new one.
        looks: how many looks in a row the brokers did not answer.
        until: if other tasks read what comes after it, where they begin: this part then ends there; else None.
        lost: why the messages of this part were lost, if they were not there when the part was first read; else "".
    """

    mark: Mark | None = None
    shift: int = 0
    looks: int = 0
    lost: str = ""
    until: int | None = None


@attrs.frozen
class Messages:
    """The position of a claim: where some messages start, and the restriction that remains after them.

    Attributes:
        start: position of the first one.
        rest: what remains.
        lost: as of `KafkaTail`, for the claimed part.
    """

    start: int
    rest: KafkaTail
    lost: str = ""


class KafkaTracker(RestrictionTracker):
    """Tracks claims of messages that came together. After a claim only what comes next can be split off."""

    def __init__(self, tail: KafkaTail) -> None:
        self._tail = tail
        self._next = tail
        self._claimed = False
        self._refused = False

    def current_restriction(self) -> KafkaTail:
        return self._tail

    def try_claim(self, position: Messages | int) -> bool:
        start = position if isinstance(position, int) else position.start
        if self._refused or not start < self._tail.stop:
            self._refused = True
            return False
        if isinstance(position, int) or start != self._next.start:
            raise ValueError(f"{show(position)} does not follow {self._next.start}")
        self._claimed = True
        self._next = attrs.evolve(position.rest, stop=self._tail.stop)
        self._tail = attrs.evolve(self._tail, lost=position.lost)
        return True

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[KafkaTail, KafkaTail] | None:
        if self._refused or not self._next.start < self._tail.stop:
            return None
        residual = attrs.evolve(self._next, until=None)
        if fraction_of_remainder != 0:
            if self._claimed or self._tail.stop is UNBOUNDED:
                return None
            stop: Any = self._tail.stop
            cut = self._tail.start + max(1, int((stop - self._tail.start) * fraction_of_remainder))
            if not cut < stop:
                return None
            residual = attrs.evolve(self._tail, start=cut, mark=None)
        self._tail = attrs.evolve(self._tail, stop=residual.start, until=None)
        return self._tail, residual

    def check_done(self) -> None:
        if not self._refused and self._next.start < self._tail.stop:
            raise ValueError(f"messages from {self._next.start} of {show(self._tail)} were not read")

    def progress(self) -> Progress:
        stop: Any = self._tail.stop
        left = None if stop is UNBOUNDED else max(0, stop - self._next.start)
        return Progress(self._next.start - self._tail.start, left)

    def is_bounded(self) -> bool:
        return self._tail.stop is not UNBOUNDED
