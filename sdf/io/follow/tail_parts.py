"""The restriction of a followed file, and its tracker.

Positions are those of `TailLines`: bytes over all files that had the name. A part lies in one file, so that it can be
read again. Only the remaining part of a drained stream may span several files; it is split where one ends.
"""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from sdf.errors import show
from sdf.io.files.pinned import FileInfo
from sdf.io.follow.growing import GrowingTracker
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
        missed: how many looks in a row, some time apart, have missed the file, or found it with a time to come.
        missed_at: time of the last such look, in seconds since the epoch; 0 while the file is there.
        touched: that time to come; 0 if there is none.
        after: the files that have had the name since, in order; for a drained stream, the files still to be read to
            their sizes, up to ``stop``.
        generation: of the present file's inode number; 0 if unknown.
        ends: of a part that was read, the few bytes before ``stop``, by which it is known when it is read again.
        before: version of the file that was read before the present one; None if there was none.
        before_generation: of the inode number of that file; 0 if unknown.
        before_head: the first few bytes of that file.
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
    before: str | None = None
    touched: float = 0.0
    before_generation: int = 0
    before_head: bytes = b""

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


class TailTracker(GrowingTracker):
    """Tracks pieces. A split must have fraction 0: its residual is all that comes after the last claimed piece."""

    _unread = "bytes from {} of {} were not read"
    _spent: ClassVar[dict[str, Any]] = {"after": (), "until": None}

    def try_claim(self, position: Piece) -> bool:
        if position.start != self._next.start:
            raise ValueError(f"{show(position)} does not follow {self._next.start}")
        if self._refused or not position.start < self._part.stop:
            self._refused = True
            return False
        self._next = attrs.evolve(position.rest, stop=self._part.stop)
        if self._next.base == self._part.base:
            self._part = attrs.evolve(self._part, head=self._next.head, ends=self._next.last)
        if position.lost:
            self._part = attrs.evolve(self._part, ends=b"", lost=position.lost)  # its end may not be there
        return True

    def _residual(self) -> Any:
        return attrs.evolve(self._next, until=None)
