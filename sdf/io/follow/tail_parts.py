"""Parts of a file that is followed, and what tracks them.

Positions are those of `TailLines`: bytes over all files that had the name. A part lies in one file, so that it can be
read again; only what a drained stream has still to read goes on in the next one, and is cut there.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import attrs

from sdf import UNBOUNDED, RestrictionTracker
from sdf.errors import show
from sdf.io.files.pinned import FileInfo

__all__ = ["Piece", "Tail", "TailTracker"]


@attrs.frozen
class Tail:
    """The bytes ``[start, stop)`` of all that a file name has had.

    Attributes:
        start: the first.
        stop: the one after the last, or UNBOUNDED.
        base: where the first byte of the present file is.
        file: the present file, as it was when it was first seen.
        head: its first bytes, as far as they were read, up to a few.
        last: those that were read last, up to a few.
        moved: whether it had another name when it was last seen, where what comes in its place is not followed.
        ended: whether nothing follows ``start``, which was found out: whoever runs this again need not look.
        missed: how many looks in a row, some time apart, have missed it.
        missed_at: when the last of them was, in seconds since the epoch; 0 while it is there.
        after: the files that have had its name since, in their order; of a stream that is drained, those that are
            still to be read to their sizes, up to ``stop``.
    """

    start: int
    stop: Any
    base: int
    file: FileInfo
    head: bytes = b""
    last: bytes = b""
    moved: bool = False
    ended: bool = False
    missed: int = 0
    missed_at: float = 0.0
    after: tuple[FileInfo, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read, and so nothing to look at."""
        return self.ended or not self.start < self.stop


@attrs.frozen
class Piece:
    """Some whole lines, the position of a claim: where they start, and what is left behind them."""

    start: int
    rest: Tail


class TailTracker(RestrictionTracker):
    """Tracks pieces; only what comes after the last one can be cut off, and only once the time is up."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._next = attrs.evolve(tail)
        self._refused = False

    def current_restriction(self) -> Tail:
        return self._tail

    def try_claim(self, position: Piece) -> bool:
        if position.start != self._next.start:
            raise ValueError(f"{show(position)} does not follow {self._next.start}")
        if self._refused or not position.start < self._tail.stop:
            self._refused = True
            return False
        self._next = attrs.evolve(position.rest, stop=self._tail.stop)
        if self._next.base == self._tail.base:
            self._tail = attrs.evolve(self._tail, head=self._next.head)
        return True

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[Tail, Tail] | None:
        if self._refused or fraction_of_remainder != 0 or not self._next.start < self._tail.stop:
            return None
        residual = self._next
        self._tail = attrs.evolve(self._tail, stop=residual.start, after=())
        return self._tail, residual

    def check_done(self) -> None:
        if not self._refused and not self._tail.ended and self._next.start < self._tail.stop:
            raise ValueError(f"bytes from {self._next.start} of {show(self._tail)} were not read")

    def is_bounded(self) -> bool:
        return self._tail.ended or self._tail.stop is not UNBOUNDED
