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
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

import attrs

from sdf import UNBOUNDED, RestrictionTracker
from sdf.errors import InvalidValueError, ReadError, SourceChangedError, SourceError
from sdf.io.files import FileBlock, FileRange, as_seconds
from sdf.io.lines import ReadLines
from sdf.io.pinned import FileInfo, file_system, is_local, look_up
from sdf.io.tailparts import Piece, Tail, TailTracker

__all__ = ["TailLines"]

_PIECE_BYTES = 1 << 20
_KNOWN_BYTES = 64  # of a file, at its start and before what is to be read
_LOOKS = 3  # a file that is renamed just then may be missing under both its names

log = logging.getLogger("sdf.io.tail")


@attrs.frozen
class Sight:
    """A file as it is now.

    Attributes:
        file: it is open, and stays the same whatever takes its name; empty if it has gone.
        size: how many bytes there are.
        ended: whether no more will come.
        after: the file that goes on, if it has ended.
        moved: whether it is followed under another name than its own.
        missing_since: when it was found to be missing; None if it is there.
        lost: why there may have been more of them, if so.
    """

    file: Any
    size: int
    ended: bool = False
    after: FileInfo | None = None
    moved: bool = False
    missing_since: float | None = None
    lost: str = ""


class TailLines(ReadLines):
    """Follows files line by line, in streams. Element: a path, `FileInfo`, or `FileBlock` to begin at its start.

    Gives a line when it has its end. Of a path, whatever file has that name is followed: where another comes in its
    place, it first reads on in the old one, if that is in the directory, or right below, under another name, until it
    has been quiet for a while, and gives what is there as the last line; then it begins with the new one. Of a
    `FileInfo`, which `WatchFiles` gives, that file alone is followed, until it has been missing for a while, or was
    renamed and has been quiet. A file that gets shorter is begun anew. What may have been lost is said in the log.

    Args:
        poll_seconds: how long to wait where nothing is new.
        rotated_seconds: how long a file that was renamed must have been quiet, or one that has gone must have been
            missing, to have ended.
        options: as for `ReadLines`, but compressed files cannot be followed: one that is named so is an error, unless
            ``compression`` is None.

    Source: `tail -F`; rotation as logrotate does it.
    """

    def __init__(self, *, poll_seconds: float = 1.0, rotated_seconds: float = 10.0, **options: Any) -> None:
        super().__init__(**options)
        self.poll_seconds = as_seconds(poll_seconds, "TailLines poll_seconds")
        self.rotated_seconds = as_seconds(rotated_seconds, "TailLines rotated_seconds")

    def get_initial_restriction(self, element: Any) -> Tail:  # type: ignore[override]
        start = element.start if isinstance(element, FileBlock) else 0
        file = self.file_of(element)
        kind = self._kind(FileRange(start, file.size, file))
        if kind:
            raise InvalidValueError(
                f"TailLines cannot follow a {kind} file (got {file.path!r}). Leave such files out by the pattern, or "
                f"by the regex of WatchFiles; where only the name says so, pass compression=None."
            )
        return Tail(start, UNBOUNDED, 0, file)

    def split_restriction(self, element: Any, restriction: Any) -> Iterator[Any]:
        yield restriction

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        return TailTracker(restriction)

    def remark(self, element: Any, restriction: Any) -> str:
        return ""

    def truncate(self, element: Any, restriction: Tail) -> Tail | None:
        """Keep what is there now, also in the file that goes on, and a last line without its end."""
        if restriction.ended or restriction.stop is not UNBOUNDED:
            return restriction
        with self._look(element, restriction) as sight:
            end, after = max(restriction.start, restriction.base + sight.size), sight.after
        if after is not None and after.size:
            return attrs.evolve(restriction, stop=end + after.size, after=after)
        return attrs.evolve(restriction, stop=end) if restriction.start < end else None

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        at: Tail = tracker.current_restriction()
        if not at.is_empty:
            with self._look(element, at) as sight:
                yield from self._process(at, sight, tracker)

    def _process(self, at: Tail, sight: Sight, tracker: Any) -> Iterator[Any]:
        growing = at.stop is UNBOUNDED
        inside = at.start - at.base
        end = sight.size if growing else at.stop - at.base - (at.after.size if at.after is not None else 0)
        if sight.size < end > inside:
            raise SourceChangedError(
                f"{at.file.path}: bytes up to {end} were planned to be read, but only {sight.size} of that file are "
                f"there. Keep rotated files for as long as a stream may have to read them again."
            )
        rest = attrs.evolve(at, moved=at.moved or sight.moved, missing_since=sight.missing_since)
        while inside < end:
            data = self._lines(at.file.path, sight.file, inside, end, to_the_end=not growing or sight.ended)
            if not data:
                break
            head = rest.head + data[: max(0, _KNOWN_BYTES - inside)] if len(rest.head) == inside else rest.head
            last = (rest.last + data[-_KNOWN_BYTES:])[-_KNOWN_BYTES:]
            start = rest.start
            rest = attrs.evolve(rest, start=start + len(data), head=head, last=last)
            if not tracker.try_claim(Piece(start, rest)):
                return
            yield from self.records(at.file.path, inside, data)
            inside += len(data)
        here, has_read = rest.start, rest.start > at.start
        after = sight.after if growing else at.after
        if not growing and (after is None or inside < end):
            return
        if growing and not sight.ended:
            if has_read or rest == at or tracker.try_claim(Piece(here, rest)):
                tracker.defer_remainder(self.poll_seconds)
        elif after is None:
            if tracker.try_claim(Piece(here, attrs.evolve(rest, ended=True))):
                tracker.defer_remainder()  # so that this part has a stop, and comes again as it was
        elif has_read:
            tracker.defer_remainder()  # a part never lies in two files
        elif tracker.try_claim(Piece(here, Tail(here, at.stop, here, after))):
            tracker.defer_remainder()
        if growing and sight.ended and sight.lost:
            log.warning("%s %s after byte %d; if there was more, that is lost", at.file.path, sight.lost, inside)

    @contextmanager
    def _look(self, element: Any, at: Tail) -> Iterator[Sight]:
        sight = self._sight(element, at)
        with sight.file:
            yield sight

    def _sight(self, element: Any, at: Tail) -> Sight:
        by_name = isinstance(element, (str, os.PathLike))
        file = at.file
        for path in chain.from_iterable(self._names(file) for _ in range(_LOOKS)):
            found = self._open(path, file)
            if found is None:
                continue
            opened, there = found
            if self._is_same(opened, there.size, at):
                if path == file.path:
                    return Sight(opened, there.size)
                now = self._now(file.path)
                follows = now is not None or not by_name  # of a name whatever comes next; of a file nothing
                quiet = time.time() - _touched(opened, there) > self.rotated_seconds
                return Sight(opened, there.size, quiet and follows, now if by_name else None, moved=not by_name)
            opened.close()
            if path == file.path and not at.moved:
                return Sight(io.BytesIO(), 0, ended=True, after=there, lost="was cut short or written anew")
        now = self._now(file.path)
        nothing, inside = io.BytesIO(), at.start - at.base
        if by_name:
            return Sight(nothing, inside, now is not None, now, lost="has gone")
        since = time.time() if at.missing_since is None else at.missing_since
        ended = time.time() - since >= self.rotated_seconds  # a volume may be away for a moment
        return Sight(nothing, inside, ended, missing_since=since, lost="has gone")

    def _is_same(self, opened: Any, size: int, at: Tail) -> bool:
        """Tell whether a file begins as the one that was read, and has what was read last."""
        inside = at.start - at.base
        return (
            size >= inside
            and self._read(opened, 0, len(at.head)) == at.head
            and self._read(opened, inside - len(at.last), inside) == at.last
        )

    def _lines(self, path: str, opened: Any, start: int, end: int, *, to_the_end: bool) -> bytes:
        """Return some whole lines, none if there is none; what is left at the end is one if nothing will follow."""
        size = _PIECE_BYTES
        while True:
            data = self._read(opened, start, min(end, start + size))
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

    def _now(self, path: str) -> FileInfo | None:
        try:
            return look_up(path, self.storage_options, "TailLines")
        except SourceError as error:
            if error.__cause__ is not None and not isinstance(error.__cause__, FileNotFoundError):
                raise  # that it cannot be reached does not say that it has gone
            return None

    def _names(self, file: FileInfo) -> Iterator[str]:
        """Yield the name of a file, then those that it may have now."""
        yield file.path
        fs, inner = file_system(file.path, self.storage_options, "TailLines")
        folders = {os.path.dirname(inner): None}
        if is_local(fs, "TailLines"):
            folders[os.path.dirname(os.path.realpath(inner))] = None  # where the file of a link is renamed
        below = []
        for entry in chain.from_iterable(_entries(fs, folder) for folder in folders):
            if entry["type"] == "directory":
                below.append(entry["name"])
            elif _has_number(entry, file) and entry["name"] != inner:
                yield entry["name"]
        for name in below:  # such as archive/
            with suppress(PermissionError):
                yield from (entry["name"] for entry in _entries(fs, name) if _has_number(entry, file))

    def _open(self, path: str, file: FileInfo) -> tuple[Any, FileInfo] | None:
        """Open what has a name, and say what it is; None unless it is a file, from before to after it was opened."""
        before = self._now(path)
        if before is None or before.version != file.version:
            return None
        fs, inner = file_system(path, self.storage_options, "TailLines")
        try:
            opened = fs.open(inner, "rb")
        except FileNotFoundError:
            return None
        now = self._now(path)
        if now is None or now.version != file.version:
            opened.close()
            return None
        return opened, now

    def _read(self, opened: Any, start: int, stop: int) -> bytes:
        opened.seek(start, io.SEEK_SET)
        data: bytes = opened.read(stop - start)
        return data


def _entries(fs: Any, folder: str) -> list[Any]:
    """Return what is in a directory, nothing if it has gone."""
    try:
        entries: list[Any] = fs.ls(folder, detail=True)
    except FileNotFoundError:
        return []
    return entries


def _touched(opened: Any, there: FileInfo) -> float:
    """Return when an open file was last written or renamed, in seconds since the epoch; 0 if nothing tells."""
    try:
        status = os.fstat(opened.fileno())
    except (AttributeError, OSError):  # it has no number of the system's
        return there.mtime or 0.0
    return max(status.st_mtime, status.st_ctime)


def _has_number(entry: Any, file: FileInfo) -> bool:
    return entry["type"] == "file" and str(entry.get("ino")) == file.version
