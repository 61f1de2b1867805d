"""Finds a followed file: where it is now, how long it is, and whether it has ended.

A new file may get the inode number of a deleted one, and a truncated file may grow beyond its old size. So a file is
also recognized by the generation of its number, by its first bytes and by the bytes that were read last. A program that
has not opened the new file yet may still write to a renamed one. So a renamed file has ended only when nobody has
written to it for a while. A missing file may come back, too. What was not read of a file that was compressed, or copied
and cut short, is in its copy (`sdf.io.follow.copies`).
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import attrs

from sdf import UNBOUNDED
from sdf.errors import ReadError, SourceError
from sdf.io.compressed.compression import named_kind
from sdf.io.files.file_systems import file_system, is_local
from sdf.io.files.pinned import FileInfo, as_file_info, look_up
from sdf.io.follow.clock import seconds_since
from sdf.io.follow.compressed_text import CompressedText
from sdf.io.follow.copies import find_copy, is_same, listed, may_be, rotated_after, was_read
from sdf.io.follow.generation import generation
from sdf.io.follow.tail_parts import Tail

__all__ = ["FileState", "Finder"]

_LOOKS = 3  # while a file or its copy is renamed or compressed, a look may find it under neither name
_MISSED = 8  # looks, a scan interval apart: by then WatchFiles, even if late, has missed the file in three scans


@attrs.frozen
class FileState:
    """A file as it is now.

    Attributes:
        file: the open file, the same even if another takes its name, or the text of a compressed one; an empty one if
            it is missing or written anew.
        size: bytes in ``file``; for a missing file, the bytes that were read of it; 0 if it was written anew.
        rest: what remains to be read, with what this look found out. Its file is another one if one of the same name
            goes on as the missing one, as a backup does.
        ended: whether the file gets no more bytes.
        lost: why unread bytes may be lost; "" if none can be.
        generation: of the inode number of ``file``; 0 if unknown, or if it is a copy.
    """

    file: Any
    size: int
    rest: Tail
    ended: bool = False
    lost: str = ""
    generation: int = 0


@attrs.frozen
class Finder:
    """Finds files that may have been renamed.

    Attributes:
        storage_options: for fsspec.
        rotated_seconds: a renamed file has ended after so many seconds without a write.
        by_name: whether to continue with the file that takes the name of a renamed or missing file.
        compressed: whether a file with a name such as ``a.log.gz`` is compressed.
    """

    storage_options: Mapping[str, Any]
    rotated_seconds: float
    by_name: bool
    compressed: bool

    @contextmanager
    def look(self, at: Tail) -> Iterator[FileState]:
        """Open a file where it is now."""
        state = self._state(at)
        with state.file:
            yield state

    def located(self, file: FileInfo) -> FileInfo:
        """Return a file with ``real`` set, if it is local and ``real`` is not set yet."""
        fs, inner = file_system(file.path, self.storage_options, "TailLines")
        return attrs.evolve(file, real=os.path.realpath(inner)) if not file.real and is_local(fs, "TailLines") else file

    def _state(self, at: Tail) -> FileState:
        file: FileInfo = at.file
        later: tuple[FileInfo, ...] = ()
        for path in chain.from_iterable(self._names(at) for _ in range(_LOOKS)):
            found = self._open(path, file)
            if found is None:
                continue
            opened, there = found
            number = generation(opened)
            if 0 not in (number, at.generation) and number != at.generation:
                opened.close()  # a later file got the inode number
                if path == file.path and self.by_name and not at.after:
                    later = (self.located(there),)
                continue
            kind = named_kind(file.path) if self.compressed else ""
            if kind:
                return self._unpacked(CompressedText(opened, kind, path, "TailLines"), _touched(opened, there), at)
            if is_same(opened, there.size, at):
                if there.mtime is not None and file.mtime is not None and there.mtime < file.mtime:
                    at = attrs.evolve(at, file=attrs.evolve(file, mtime=there.mtime))  # the clock was set back
                if path == file.path:
                    return FileState(opened, there.size, _seen(at), generation=number)
                quiet, looks = self._is_quiet(at, _touched(opened, there))
                after = self._after(at)
                ended = quiet and bool(after or not self.by_name)
                rest = _seen(at, after=after, moved=not self.by_name, **looks)
                return FileState(opened, there.size, rest, ended, generation=number)
            opened.close()
            if path == file.path and not at.moved:
                watch = None if file.watch is None else attrs.evolve(file.watch, head=b"")
                known = bool(at.after) and at.after[-1].version == there.version
                after = at.after if known else (*at.after, attrs.evolve(self.located(there), watch=watch))
                lost = "was cut short or written anew"
                nothing = FileState(io.BytesIO(), 0, _seen(at, after=after), ended=True, lost=lost)
                return self._copied(at, after) or nothing
        after = later or self._after(at)
        return self._restored(at) or self._copied(at, after) or self._missing(at, after)

    def _unpacked(self, text: CompressedText, touched: float, at: Tail) -> FileState:
        """Return the state of a compressed file, which gets no more bytes once it can be read to its end."""
        rest = _seen(at, moved=at.moved, after=self._after(at))
        try:
            return FileState(text, text.size(), rest, ended=True)
        except ReadError:
            text.close()
            quiet, looks = self._is_quiet(at, touched)  # else it may not be complete yet
            rest = attrs.evolve(rest, **looks)
            lost = "is left out, since it cannot be decompressed to its end,"
            return FileState(io.BytesIO(), at.start - at.base, rest, quiet, lost=lost)

    def _restored(self, at: Tail) -> FileState | None:
        """Return the state of a file that has come back with another inode number; None if it has not.

        It is looked for where a name is followed, or a part that was read is read again. Any other `FileInfo` with
        another number is a new element, which `WatchFiles` gives.
        """
        now = self._now(at.file.path)
        if now is None or not at.head or at.after or (at.stop is UNBOUNDED and not self.by_name):
            return None
        fs, inner = file_system(at.file.path, self.storage_options, "TailLines")
        if not is_local(fs, "TailLines"):
            return None
        try:
            opened = fs.open(inner, "rb")
        except (FileNotFoundError, NotADirectoryError):
            return None
        if is_same(opened, now.size, at) and (at.stop is UNBOUNDED or now.size >= at.stop - at.base):
            number = generation(opened)
            rest = _seen(at, file=self.located(now), generation=number)
            return FileState(opened, now.size, rest, generation=number)
        opened.close()
        return None

    def _copied(self, at: Tail, after: tuple[FileInfo, ...]) -> FileState | None:
        """Return the state of a file of which there is only a copy; None if there is none."""
        looks = (find_copy(at, self.storage_options, compressed=self.compressed) for _ in range(_LOOKS))
        found = next(filter(None, looks), None)
        if found is None:
            return None
        copy, size, entry = found
        lost, between = "", self._rotated_after(at, entry) if after and not at.after else ()
        if self.by_name:
            after = (*between, *after)
        elif between:  # a watch may give it, or leave it out
            lost = "was copied and cut short more than once"
        rest = _seen(at, after=after, moved=at.moved)
        return FileState(copy, size, rest, ended=bool(after or not self.by_name), lost=lost)

    def _missing(self, at: Tail, after: tuple[FileInfo, ...]) -> FileState:
        """Return the state of a file that was found neither under its name nor near it."""
        nothing, inside, lost = io.BytesIO(), at.start - at.base, "has gone"
        if self.by_name:
            return FileState(nothing, inside, _seen(at, after=after, moved=at.moved), bool(after), lost)
        watch = at.file.watch
        if watch is not None and not os.path.exists(watch.root):
            # for example, a volume is not mounted
            return FileState(nothing, inside, _seen(at, moved=at.moved), lost=lost)
        looks = self._looks(at, 0.0, None if watch is None else watch.interval_seconds)
        return FileState(nothing, inside, _seen(at, moved=at.moved, **looks), looks["missed"] >= _MISSED, lost)

    def _is_quiet(self, at: Tail, touched: float) -> tuple[bool, dict[str, Any]]:
        """Return whether nobody has touched a file for `rotated_seconds`, and what to remember for later looks.

        Of a file whose time is yet to come, only looks spread over that time tell: its host has another clock, or the
        clock was set back.
        """
        seconds = seconds_since(touched)
        if seconds is not None:
            return seconds > self.rotated_seconds, {}
        looks = self._looks(at, touched, None)
        return looks["missed"] >= _MISSED, looks

    def _looks(self, at: Tail, touched: float, apart: float | None) -> dict[str, Any]:
        """Count one more look that found a file as those before it, unless it comes too soon after the last one.

        Looks are ``apart`` seconds apart; None: spread over `rotated_seconds`. A stream that was down made none, and a
        step of the clock is one at most.
        """
        missed, at_least = at.missed if at.touched == touched else 0, self.rotated_seconds / _MISSED
        now = time.time()
        if missed and 0 <= now - at.missed_at < (at_least if apart is None else apart):
            return {"touched": touched, "missed": missed, "missed_at": at.missed_at}
        return {"touched": touched, "missed": missed + 1, "missed_at": now}

    def _after(self, at: Tail) -> tuple[FileInfo, ...]:
        """Return the files that have taken the name of a file, in order, as far as a look found them."""
        last = (at.after or (at.file,))[-1]
        now = self._now(last.path) if self.by_name else None
        if now is None or now.version == last.version:
            return at.after
        return (*at.after, *self._rotated_after(at), self.located(now))

    def _rotated_after(self, at: Tail, copy: Any = None) -> tuple[FileInfo, ...]:
        """Return the files that had the name, and lost it, between the last look and this one.

        Args:
            at: how far the stream is.
            copy: the entry of the copy of the file that had the name at the last look; None: that file is there.
        """
        last = (at.after or (at.file,))[-1]
        fs, inner = file_system(last.path, self.storage_options, "TailLines")
        if not is_local(fs, "TailLines"):
            return ()
        near = list(listed(fs, inner, at.file.real))
        there = copy or next((entry for entry in near if may_be(entry, last)), None)
        known = (*(() if copy else (at.file,)), *at.after)
        found = [] if there is None else rotated_after(there, near)
        return tuple(
            self.located(as_file_info(entry["name"] if named_kind(entry["name"]) else last.path, entry))
            for entry in found
            if not (any(may_be(entry, file) for file in known) or was_read(entry, at, fs))
        )

    def _now(self, path: str) -> FileInfo | None:
        try:
            return look_up(path, self.storage_options, "TailLines")
        except SourceError as error:
            if error.__cause__ is not None and not isinstance(error.__cause__, FileNotFoundError):
                raise  # a file that cannot be reached need not be missing
            return None

    def _names(self, at: Tail) -> Iterator[str]:
        """Yield the name of a file, then the names that it may have now, by its inode number."""
        yield at.file.path
        fs, inner = file_system(at.file.path, self.storage_options, "TailLines")
        near = listed(fs, inner, at.file.real)
        yield from (entry["name"] for entry in near if may_be(entry, at.file))

    def _open(self, path: str, file: FileInfo) -> tuple[Any, FileInfo] | None:
        """Open ``path`` and look it up; None unless it is ``file`` by version both before and after the open."""
        before = self._now(path)
        if before is None or before.version != file.version:
            return None
        fs, inner = file_system(path, self.storage_options, "TailLines")
        try:
            opened = fs.open(inner, "rb")
        except (FileNotFoundError, NotADirectoryError):
            return None
        now = self._now(path)
        if now is None or now.version != file.version:
            opened.close()
            return None
        return opened, now


def _seen(at: Tail, **found: Any) -> Tail:
    """Return what remains of a file after a look that found this, and nothing else."""
    return attrs.evolve(at, **{"after": (), "moved": False, "missed": 0, "missed_at": 0.0, "touched": 0.0, **found})


def _touched(opened: Any, there: FileInfo) -> float:
    """Return when an open file was last written or renamed, in seconds since the epoch; 0 if unknown."""
    try:
        return os.fstat(opened.fileno()).st_ctime  # programs cannot set the ctime
    except (AttributeError, OSError):  # it has no file descriptor
        return there.mtime or 0.0
