"""The restriction of a followed partition, and its tracker.

A topic that was deleted and made anew has offsets that the former one had, too. So a restriction knows the message that
was read last: in a topic that was made anew, another message has its offset.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any, ClassVar

import attrs

from sdf import UNBOUNDED, OffsetRange, Progress
from sdf.errors import show
from sdf.io.follow.growing import GrowingTracker
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


class KafkaTracker(GrowingTracker):
    """Tracks claims of messages that came together. After a claim only what comes next can be split off."""

    _unread = "messages from {} of {} were not read"
    _spent: ClassVar[dict[str, Any]] = {"until": None}

    def __init__(self, tail: KafkaTail) -> None:
        super().__init__(tail)
        self._claimed = False

    def try_claim(self, position: Messages | int) -> bool:
        start = position if isinstance(position, int) else position.start
        if self._refused or not start < self._part.stop:
            self._refused = True
            return False
        if isinstance(position, int) or start != self._next.start:
            raise ValueError(f"{show(position)} does not follow {self._next.start}")
        self._claimed = True
        self._next = attrs.evolve(position.rest, stop=self._part.stop)
        self._part = attrs.evolve(self._part, lost=position.lost)
        return True

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[KafkaTail, KafkaTail] | None:
        start, stop = self._part.start, self._part.stop
        if fraction_of_remainder == 0 or self._refused or self._claimed or stop is UNBOUNDED:
            return super().try_split(fraction_of_remainder)
        cut = start + max(1, int((stop - start) * fraction_of_remainder))
        return self._cut_off(attrs.evolve(self._part, start=cut, mark=None)) if cut < stop else None

    def _residual(self) -> Any:
        return attrs.evolve(self._next, until=None)

    def progress(self) -> Progress:
        stop = self._part.stop
        left = None if stop is UNBOUNDED else max(0, stop - self._next.start)
        return Progress(self._next.start - self._part.start, left)
