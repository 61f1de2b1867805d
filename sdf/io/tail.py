"""TailLines: follows a file that grows, from byte to byte, in streams.

Positions are bytes read since the beginning, over all files that had the name: where a file was replaced, as log
rotation does, or cut short, the next byte of the stream is the first of the new one. A block is some whole lines, and
how long it is the reader finds out; so a claim names both its ends. A line that has no end yet is left for later.

A file system may give the number of a file that has gone to the next one, and a file that was cut short may grow again
beyond what it was. So a file is known by its first bytes, too.
"""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import attrs

from sdf import UNBOUNDED, RestrictionTracker
from sdf.errors import InvalidValueError, ReadError, SourceChangedError, SourceError, show
from sdf.io.files import FileBlock
from sdf.io.lines import ReadLines
from sdf.io.pinned import FileInfo, file_system, look_up

__all__ = ["Tail", "TailLines"]

_PIECE_BYTES = 1 << 20
_HEAD_BYTES = 64

log = logging.getLogger("sdf.io.tail")


@attrs.frozen
class Tail:
    """The bytes ``[start, stop)`` of all that a file name has had.

    Attributes:
        start: the first.
        stop: the one after the last, or UNBOUNDED.
        base: where the first byte of the present file is.
        file: the present file, as it was when it was first seen.
        head: its first bytes, as far as they were read, up to a few.
    """

    start: int
    stop: Any
    base: int
    file: FileInfo
    head: bytes = b""


@attrs.frozen
class Piece:
    """Whole lines of a file from ``start`` to ``stop``, the position of a claim; ``file`` goes on, from ``base``."""

    start: int
    stop: int
    base: int
    file: FileInfo
    head: bytes


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
        if not position.start < self._tail.stop or self._refused:
            self._refused = True
            return False
        self._next = Tail(position.stop, self._tail.stop, position.base, position.file, position.head)
        if position.base == self._tail.base:
            self._tail = attrs.evolve(self._tail, head=position.head)
        return True

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[Tail, Tail] | None:
        if self._refused or fraction_of_remainder != 0 or not self._next.start < self._tail.stop:
            return None
        residual = self._next
        self._tail = attrs.evolve(self._tail, stop=residual.start)
        return self._tail, residual

    def check_done(self) -> None:
        if not self._refused and self._next.start < self._tail.stop:
            raise ValueError(f"bytes from {self._next.start} of {show(self._tail)} were not read")

    def is_bounded(self) -> bool:
        return self._tail.stop is not UNBOUNDED


class TailLines(ReadLines):
    """Follows files line by line, in streams. Element: a path, `FileInfo`, or `FileBlock` to begin at its start.

    Gives a line when it has its end. Where the file is replaced by another of its name, it first reads on in the old
    one, if that is still in the directory under another name, and gives what is there as the last line; then it begins
    with the new one. A file that gets shorter is begun anew.

    Args:
        poll_seconds: how long to wait where nothing is new.
        options: as for `ReadLines`, but compressed files cannot be followed.

    Source: `tail -F`; rotation as logrotate does it.
    """

    def __init__(self, *, poll_seconds: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        if not isinstance(poll_seconds, (int, float)) or not 0 <= poll_seconds < 1e9:
            raise InvalidValueError(f"TailLines poll_seconds must be a number >= 0 (got {show(poll_seconds)}).")
        self.poll_seconds = poll_seconds

    def get_initial_restriction(self, element: Any) -> Tail:  # type: ignore[override]
        start = element.start if isinstance(element, FileBlock) else 0
        return Tail(start, UNBOUNDED, 0, self.file_of(element))

    def split_restriction(self, element: Any, restriction: Any) -> Iterator[Any]:
        yield restriction

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        return TailTracker(restriction)

    def remark(self, element: Any, restriction: Any) -> str:
        return ""

    def truncate(self, element: Any, restriction: Tail) -> Tail:
        """Keep what is there now."""
        _, size, _ = self._look(restriction)
        return attrs.evolve(restriction, stop=max(restriction.start, restriction.base + size))

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        at: Tail = tracker.current_restriction()
        growing = at.stop is UNBOUNDED
        inside = at.start - at.base
        path, size, after = self._look(at)
        end = size if growing else at.stop - at.base
        if size < end:
            raise SourceChangedError(
                f"{at.file.path}: bytes up to {end} were planned to be read, but only {size} of that file are there. "
                f"Keep rotated files for as long as a stream may have to read them again."
            )
        while inside < end:
            data = self._lines(path, inside, end, to_the_end=not growing or after is not None)
            if not data:
                break
            head = at.head + data[: max(0, _HEAD_BYTES - inside)] if len(at.head) == inside else at.head
            if not tracker.try_claim(Piece(at.base + inside, at.base + inside + len(data), at.base, at.file, head)):
                return
            at = attrs.evolve(at, head=head)
            yield from self.records(at.file.path, inside, data)
            inside += len(data)
        if growing and after is not None and tracker.try_claim(_begin(at.base + inside, after)):
            tracker.defer_remainder()  # a part never lies in two files
        elif growing:
            tracker.defer_remainder(self.poll_seconds)

    def _look(self, at: Tail) -> tuple[str, int, FileInfo | None]:
        """Return where the bytes of a file are now, how many, and the file that has come in its place, if one has."""
        file, inside = at.file, at.start - at.base
        now = self._now(file)
        if now is not None and now.version == file.version:
            same = now.size >= inside and self._read(file.path, 0, len(at.head)) == at.head
            return (file.path, now.size, None) if same else (file.path, 0, now)
        moved = self._moved(file)
        if moved is not None:
            return moved.path, moved.size, now
        if now is not None:
            log.warning("%s was replaced after byte %d; what followed in the old file is lost", file.path, inside)
        return file.path, inside, now

    def _lines(self, path: str, start: int, end: int, *, to_the_end: bool) -> bytes:
        """Return some whole lines, none if there is none; what is left at the end is one if nothing will follow."""
        for size in (_PIECE_BYTES, end - start):
            data = self._read(path, start, min(end, start + size))
            if to_the_end and start + len(data) == end:
                return data
            if self.delimiter in data:
                return data[: data.rfind(self.delimiter) + len(self.delimiter)]
            if len(data) > self.max_record_bytes:
                raise ReadError(
                    f"{path} at byte {start}: a line has more than {self.max_record_bytes} bytes so far. If the "
                    f"delimiter is right, allow more with max_record_bytes."
                )
        return b""

    def _now(self, file: FileInfo) -> FileInfo | None:
        try:
            return look_up(file.path, self.storage_options, "TailLines")
        except SourceError as error:
            if error.__cause__ is not None and not isinstance(error.__cause__, FileNotFoundError):
                raise  # that it cannot be reached does not say that it has gone
            return None

    def _moved(self, file: FileInfo) -> FileInfo | None:
        """Return the same file under another name in its directory, None if it is not there."""
        fs, inner = file_system(file.path, self.storage_options, "TailLines")
        for entry in fs.ls(os.path.dirname(inner), detail=True):
            if entry["type"] == "file" and str(entry.get("ino")) == file.version and entry["name"] != inner:
                return attrs.evolve(file, path=entry["name"], size=entry["size"])
        return None

    def _read(self, path: str, start: int, stop: int) -> bytes:
        fs, inner = file_system(path, self.storage_options, "TailLines")
        with fs.open(inner, "rb") as file:
            file.seek(start, io.SEEK_SET)
            data: bytes = file.read(stop - start)
        return data


def _begin(position: int, file: FileInfo) -> Piece:
    """Return the claim that says that another file goes on here."""
    return Piece(position, position, position, file, b"")
