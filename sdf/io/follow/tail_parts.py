"""The restriction of a followed file, and its tracker.

Positions are those of `TailLines`: bytes over all files that had the name. A part lies in one file, so that it can be
read again. Only the remaining part of a drained stream may span several files; it is split where one ends.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import attrs

from sdf import UNBOUNDED, RestrictionTracker
from sdf.errors import show
from sdf.io.files.pinned import FileInfo
from sdf.io.stored import stored

__all__ = ["Piece", "Tail", "TailTracker"]


@stored
@attrs.frozen
class Tail:
    """The bytes ``[start, stop)``, counted over all files that had a name.

    Attributes:
        start: position of the first byte.
        stop: position after the last byte, or UNBOUNDED.
        base: position of the first byte of the present file.
        file: the present file, as it was when it was first seen.
        head: the first few bytes of the file, as far as they were read.
        last: the few bytes of the file that were read last.
        moved: whether the file had another name at the last look; set only if that file alone is followed.
        ended: whether the file was found to have nothing after ``start``; a replay then need not look.
        missed: how many looks in a row, some time apart, have missed the file.
        missed_at: time of the last such look, in seconds since the epoch; 0 while the file is there.
        after: the files that have had the name since, in order; for a drained stream, the files still to be read to
            their sizes, up to ``stop``.
        generation: of the present file's inode number; 0 if unknown.
        ends: of a part that was read, the few bytes before ``stop``, by which it is known when it is read again.
        until: if other tasks read what comes after it, where they begin: this part then ends there; else None.
        lost: what of this part was not there when it was first read, or may have been lost before; "" for nothing.
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
    generation: int = 0
    ends: bytes = b""
    lost: str = ""
    until: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read, so that the file need not be opened."""
        return self.ended or not self.start < self.stop


@stored
@attrs.frozen
class Piece:
    """The position of a claim: where some whole lines start, what remains after them, and ``lost`` as of `Tail`."""

    start: int
    rest: Tail
    lost: str = ""


class TailTracker(RestrictionTracker):
    """Tracks pieces. A split must have fraction 0: its residual is all that comes after the last claimed piece."""

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
            self._tail = attrs.evolve(self._tail, head=self._next.head, ends=self._next.last)
        if position.lost:
            self._tail = attrs.evolve(self._tail, ends=b"", lost=position.lost)  # its end may not be there
        return True

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[Tail, Tail] | None:
        if self._refused or fraction_of_remainder != 0 or not self._next.start < self._tail.stop:
            return None
        residual = attrs.evolve(self._next, until=None)
        self._tail = attrs.evolve(self._tail, stop=residual.start, after=(), until=None)
        return self._tail, residual

    def check_done(self) -> None:
        if not self._refused and not self._tail.ended and self._next.start < self._tail.stop:
            raise ValueError(f"bytes from {self._next.start} of {show(self._tail)} were not read")

    def is_bounded(self) -> bool:
        return self._tail.ended or self._tail.stop is not UNBOUNDED
