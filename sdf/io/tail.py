"""TailLines: follows a file that grows, from byte to byte, in streams.

Positions are bytes read since the beginning, over all files that had the name: where a file was replaced, as log
rotation does, or cut short, the next byte of the stream is the first of the new one. A block is some whole lines, and
how long it is the reader finds out; so a claim names both its ends. A line that has no end yet is left for later.

A file system may give the number of a file that has gone to the next one, and a file that was cut short may grow again
beyond what it was. So a file is known by its first bytes, too, and by the last that were read. A file that was renamed
may still be written to, by a program that has not opened the new one yet. So it has ended only when it has been quiet
for a while.
"""

from __future__ import annotations

import io
import logging
import os
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import attrs

from sdf import UNBOUNDED, RestrictionTracker
from sdf.errors import ReadError, SourceChangedError, SourceError, show
from sdf.io.files import FileBlock, as_seconds
from sdf.io.lines import ReadLines
from sdf.io.pinned import FileInfo, file_system, look_up

__all__ = ["Tail", "TailLines"]

_PIECE_BYTES = 1 << 20
_KNOWN_BYTES = 64  # of a file, at its start and before what is to be read

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
        last: those that were read last, up to a few.
    """

    start: int
    stop: Any
    base: int
    file: FileInfo
    head: bytes = b""
    last: bytes = b""


@attrs.frozen
class Piece:
    """Whole lines of a file from ``start`` to ``stop``, the position of a claim; ``file`` goes on, from ``base``.

    Where ``stop`` is UNBOUNDED nothing will follow.
    """

    start: int
    stop: Any
    base: int
    file: FileInfo
    head: bytes
    last: bytes


@attrs.frozen
class Sight:
    """Where the bytes of a file are now.

    Attributes:
        path: of the file.
        size: how many there are.
        ended: whether no more will come.
        after: the file that goes on, if it has ended.
        lost: why there may have been more of them, if so.
    """

    path: str
    size: int
    ended: bool = False
    after: FileInfo | None = None
    lost: str = ""


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
        self._next = Tail(position.stop, self._tail.stop, position.base, position.file, position.head, position.last)
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

    Gives a line when it has its end. Of a path, whatever file has that name is followed: where another comes in its
    place, it first reads on in the old one, if that is in the directory under another name, until it has been quiet for
    a while, and gives what is there as the last line; then it begins with the new one. Of a `FileInfo`, which
    `WatchFiles` gives, that file alone is followed, until it has gone, or was renamed and has been quiet. A file that
    gets shorter is begun anew. What may have been lost is said in the log.

    Args:
        poll_seconds: how long to wait where nothing is new.
        rotated_seconds: how long a file that was renamed must have been quiet to have ended.
        options: as for `ReadLines`, but compressed files cannot be followed.

    Source: `tail -F`; rotation as logrotate does it.
    """

    def __init__(self, *, poll_seconds: float = 1.0, rotated_seconds: float = 10.0, **options: Any) -> None:
        super().__init__(**options)
        self.poll_seconds = as_seconds(poll_seconds, "TailLines poll_seconds")
        self.rotated_seconds = as_seconds(rotated_seconds, "TailLines rotated_seconds")

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
        size = self._look(element, restriction).size
        return attrs.evolve(restriction, stop=max(restriction.start, restriction.base + size))

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        at: Tail = tracker.current_restriction()
        growing = at.stop is UNBOUNDED
        inside = at.start - at.base
        sight = self._look(element, at)
        end = sight.size if growing else at.stop - at.base
        if sight.size < end:
            raise SourceChangedError(
                f"{at.file.path}: bytes up to {end} were planned to be read, but only {sight.size} of that file are "
                f"there. Keep rotated files for as long as a stream may have to read them again."
            )
        head, last, began = at.head, at.last, inside
        while inside < end:
            data = self._lines(sight.path, inside, end, to_the_end=not growing or sight.ended)
            if not data:
                break
            if len(head) == inside:
                head += data[: max(0, _KNOWN_BYTES - inside)]
            last = (last + data[-_KNOWN_BYTES:])[-_KNOWN_BYTES:]
            start = at.base + inside
            if not tracker.try_claim(Piece(start, start + len(data), at.base, at.file, head, last)):
                return
            yield from self.records(at.file.path, inside, data)
            inside += len(data)
        here = at.base + inside
        if not growing:
            return
        if not sight.ended:
            tracker.defer_remainder(self.poll_seconds)
        elif inside > began:
            tracker.defer_remainder()  # a part never lies in two files, and the end is one of its own
        elif sight.after is None:
            tracker.try_claim(Piece(here, UNBOUNDED, at.base, at.file, head, last))
        elif tracker.try_claim(Piece(here, here, here, sight.after, b"", b"")):
            tracker.defer_remainder()
        if sight.ended and sight.lost:
            log.warning("%s %s after byte %d; if there was more, that is lost", at.file.path, sight.lost, inside)

    def _look(self, element: Any, at: Tail) -> Sight:
        by_name = isinstance(element, (str, os.PathLike))
        file, inside = at.file, at.start - at.base
        now = self._now(file)
        if now is not None and now.version == file.version:
            if self._is_same(now.path, now.size, at):
                return Sight(file.path, now.size)
            return Sight(file.path, 0, ended=True, after=now, lost="was cut short or written anew")
        moved = self._moved(at)
        follows = now is not None or not by_name  # of a name whatever comes next; of a file nothing
        if moved is not None:
            quiet = moved.mtime is None or time.time() - moved.mtime > self.rotated_seconds
            return Sight(moved.path, moved.size, quiet and follows, now if by_name else None)
        return Sight(file.path, inside, follows, now if by_name else None, "has gone")

    def _is_same(self, path: str, size: int, at: Tail) -> bool:
        """Tell whether a file begins as the one that was read, and has what was read last."""
        inside = at.start - at.base
        return (
            size >= inside
            and self._read(path, 0, len(at.head)) == at.head
            and self._read(path, inside - len(at.last), inside) == at.last
        )

    def _lines(self, path: str, start: int, end: int, *, to_the_end: bool) -> bytes:
        """Return some whole lines, none if there is none; what is left at the end is one if nothing will follow."""
        size = _PIECE_BYTES
        while True:
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
            if start + size >= end:
                return b""
            size *= 2  # a long line; no more of the file than it takes

    def _now(self, file: FileInfo) -> FileInfo | None:
        try:
            return look_up(file.path, self.storage_options, "TailLines")
        except SourceError as error:
            if error.__cause__ is not None and not isinstance(error.__cause__, FileNotFoundError):
                raise  # that it cannot be reached does not say that it has gone
            return None

    def _moved(self, at: Tail) -> FileInfo | None:
        """Return the same file under another name in its directory, None if it is not there."""
        fs, inner = file_system(at.file.path, self.storage_options, "TailLines")
        try:
            entries = fs.ls(os.path.dirname(inner), detail=True)
        except FileNotFoundError:
            return None
        for entry in entries:
            same = entry["type"] == "file" and str(entry.get("ino")) == at.file.version and entry["name"] != inner
            if same and self._is_same(entry["name"], entry["size"], at):
                return attrs.evolve(at.file, path=entry["name"], size=entry["size"], mtime=float(entry["mtime"]))
        return None

    def _read(self, path: str, start: int, stop: int) -> bytes:
        fs, inner = file_system(path, self.storage_options, "TailLines")
        with fs.open(inner, "rb") as file:
            file.seek(start, io.SEEK_SET)
            data: bytes = file.read(stop - start)
        return data
