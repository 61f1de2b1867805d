"""Files: what names one, what pins it, how it is opened, and which part of it a work item reads.

A file may change while a run reads it, and a run may read a part again. So a reader first writes down what the file is
(`FileInfo`), and that travels in every restriction (`FileRange`): whoever opens the file later gets the bytes of then,
or an error. What was appended since belongs to a later read.

Files are opened through fsspec: local paths, ``s3://``, ``hdfs://``, ``https://`` and what else it knows.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from fractions import Fraction
from functools import partial
from typing import Any

import attrs

from sdf import DoFn, OffsetRangeTracker, Progress, RestrictionTracker
from sdf.errors import InvalidTypeError, InvalidValueError, SourceChangedError, SourceError, show
from sdf.io.extras import need

__all__ = [
    "FileBlock",
    "FileFn",
    "FileInfo",
    "FileRange",
    "FileRangeTracker",
    "as_options",
    "as_size",
    "file_system",
    "look_up",
    "open_file",
]

_BUFFER_BYTES = 1 << 16
_AHEAD_BYTES = 8 << 20


@attrs.frozen
class FileInfo:
    """A file as it was when it was looked up; an element of every reader.

    Attributes:
        path: as fsspec takes it, with its protocol unless it is local.
        size: in bytes; readers go no further, whatever is appended later.
        mtime: when it was modified, in seconds since the epoch; None where the file system does not tell.
        version: tells it from another file of that name: inode or entity tag; None where there is none.
    """

    path: str
    size: int
    mtime: float | None = None
    version: str | None = None

    def check(self, now: FileInfo) -> None:
        """Raise SourceChangedError if a file as it is ``now`` does not begin with what this one was."""
        if now.size < self.size:
            flaw = f"has shrunk from {self.size} to {now.size} bytes"
        elif self.version is not None and now.version is not None and self.version != now.version:
            flaw = f"was replaced: it was {self.version}, it is {now.version}"
        elif now.size == self.size and self.mtime is not None and self.mtime != now.mtime:
            flaw = f"was written again: mtime was {self.mtime}, it is {now.mtime}"
        else:
            return
        raise SourceChangedError(
            f"{self.path} {flaw}, since this run was planned. What was planned cannot be read any more: run it again, "
            f"and leave files alone while a run reads them (appending is fine)."
        )


@attrs.frozen
class FileBlock:
    """A part of a file, as `FileBlocks` gives it; an element of every reader.

    Attributes:
        file: the file it is a part of.
        start: offset of its first byte.
        stop: offset after its last byte.
        previous: id of the block before it, None of the first.
    """

    file: FileInfo
    start: int
    stop: int
    previous: str | None = None

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.file.path

    @property
    def file_size(self) -> int:
        """The size of the file in bytes."""
        return self.file.size

    @property
    def is_last(self) -> bool:
        """Whether the file ends with it."""
        return self.stop == self.file.size

    @property
    def id(self) -> str:
        """Names it: the same whenever the same file is split in the same way, another once the file has changed."""
        pinned = f"{self.file.size},{self.file.mtime},{self.file.version}"
        return f"{self.path}@{zlib.crc32(pinned.encode()):08x}:{self.start}-{self.stop}"


@attrs.frozen
class FileRange:
    """Positions ``[start, stop)`` of a file as it was: the restriction of all readers of files.

    Attributes:
        start: the first position.
        stop: the position after the last.
        file: what the file was when the restriction was made.
        codec: what positions are, and how to read from one: ``""`` for the offsets of bytes.
        note: a remark for the report of the run.
    """

    start: int
    stop: int
    file: FileInfo
    codec: str = ""
    note: str = ""


class FileRangeTracker(RestrictionTracker):
    """Tracks a `FileRange` as `OffsetRangeTracker` does its offsets; the file stays pinned.

    Args:
        restriction: the range.
        block_from: see `FileFn.block_from`. Splits are moved up to there: whatever is cut off has a block to read, and
            a runner is told where nothing can be cut off, or it would cut ever smaller parts with nothing in them.
    """

    def __init__(self, restriction: FileRange, block_from: Callable[[int], int] = int) -> None:
        self._whole = restriction
        self._offsets = OffsetRangeTracker((restriction.start, restriction.stop))
        self._block_from = block_from

    def current_restriction(self) -> FileRange:
        start, stop = self._offsets.current_restriction()
        return attrs.evolve(self._whole, start=start, stop=stop)

    def try_claim(self, position: int) -> bool:
        return self._offsets.try_claim(position)

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[FileRange, FileRange] | None:
        offsets = self._offsets
        start, stop = offsets.current_restriction()
        if offsets.refused or not start < stop:
            return None
        claimed = start + int(offsets.progress().completed) if offsets.started else start - 1
        cut = self._block_from(claimed + max(1, int((stop - claimed) * fraction_of_remainder)))
        if not cut < stop:
            return None
        pair = offsets.try_split(Fraction(cut - claimed, stop - claimed))
        if pair is None:
            return None
        return tuple(attrs.evolve(self._whole, start=start, stop=stop) for start, stop in pair)  # type: ignore[return-value]

    def check_done(self) -> None:
        self._offsets.check_done()

    def progress(self) -> Progress:
        return self._offsets.progress()


class FileFn(DoFn):
    """What readers of files share: their elements, the pinning, the first split. Subclass it with `process`.

    An element is a path, a `FileInfo`, which `MatchFiles` gives, or a `FileBlock`, which `FileBlocks` gives.

    Args:
        block_size: split each file into parts of so many bytes from the start; None leaves that to the runner, which
            cuts by what it sees.
        storage_options: arguments for the file system, as fsspec takes them.
    """

    def __init__(self, *, block_size: int | None = None, storage_options: Mapping[str, Any] | None = None) -> None:
        self.block_size = None if block_size is None else as_size(block_size, f"{type(self).__name__} block_size")
        self.storage_options = as_options(storage_options, type(self).__name__)

    def get_initial_restriction(self, element: Any) -> FileRange:
        if isinstance(element, FileBlock):
            return FileRange(element.start, element.stop, element.file)
        file = self.file_of(element)
        return FileRange(0, file.size, file)

    def split_restriction(self, element: Any, restriction: FileRange) -> Iterator[FileRange]:
        step = self.block_size or max(1, restriction.stop - restriction.start)
        for start in range(restriction.start, restriction.stop, step):
            yield attrs.evolve(restriction, start=start, stop=min(start + step, restriction.stop))

    def create_tracker(self, element: Any, restriction: FileRange) -> RestrictionTracker:
        return FileRangeTracker(restriction, partial(self.block_from, element, restriction))

    def block_from(self, element: Any, restriction: FileRange, position: int) -> int:
        """Return where the first block at or after a position begins, as far as that is known without the file.

        Override it where it is known. The default is the position: a block may begin anywhere.
        """
        return position

    def note(self, element: Any, restriction: FileRange) -> str:
        return restriction.note

    def file_of(self, element: Any) -> FileInfo:
        """Return the file that an element names, as it is now if the element is a path.

        Raises:
            InvalidTypeError: if it is something else.
            SourceError: if there is no such file.
        """
        if isinstance(element, FileBlock):
            return element.file
        if isinstance(element, FileInfo):
            return element
        if isinstance(element, (str, os.PathLike)):
            return look_up(os.fspath(element), self.storage_options, type(self).__name__)
        raise InvalidTypeError(
            f"{type(self).__name__} reads a path, a FileInfo or a FileBlock (got {show(element)}). Let MatchFiles list "
            f"the files, or map your elements to paths."
        )

    @contextmanager
    def open(self, restriction: FileRange) -> Iterator[io.BufferedReader]:
        """Open the file of a restriction, for a ``with`` statement; see `open_file`.

        Raises:
            SourceChangedError: also at the end, if the file changed meanwhile: what was read may be of both versions.
        """
        with open_file(restriction.file, self.storage_options) as file:
            try:
                yield file
            except Exception:  # which may come of the change
                _check(restriction.file, self.storage_options)
                raise
            _check(restriction.file, self.storage_options)


def as_size(value: Any, what: str) -> int:
    """Return a number of bytes; raise unless it is an integer >= 1."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidTypeError(f"{what} must be an integer, a number of bytes (got {show(value)}).")
    if value < 1:
        raise InvalidValueError(f"{what} must be >= 1 (got {value}).")
    return value


def as_options(value: Any, who: str) -> dict[str, Any]:
    """Return storage options, None as no options; raise unless they are a mapping."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidTypeError(f"{who} storage_options must be a mapping of names to values (got {show(value)}).")
    return dict(value or {})


def file_system(path: str, storage_options: Mapping[str, Any], who: str) -> tuple[Any, str]:
    """Return the file system of a path, which remembers no listing, and the path in there."""
    fsspec = need("fsspec.core", "files", who)
    if "://" in path:
        fs, inner = fsspec.url_to_fs(path, **storage_options)
    else:  # not through url_to_fs(), to which the :: in a name chains two file systems
        fs = fsspec.filesystem("file", **storage_options)
        inner = fs._strip_protocol(path)
    fs.invalidate_cache()  # instances are shared and live long; what one of them listed before may have changed
    return fs, inner


def look_up(path: str, storage_options: Mapping[str, Any], who: str) -> FileInfo:
    """Return a file as it is now.

    Raises:
        SourceError: if it does not exist, is a directory, or does not tell its size.
    """
    fs, inner = file_system(path, storage_options, who)
    try:
        info = fs.info(inner)
    except FileNotFoundError as error:
        raise SourceError(
            f"{who}: there is no file {path!r}. Patterns such as *.log and directories are for MatchFiles."
        ) from error
    if info["type"] == "directory":
        raise SourceError(f"{who}: {path!r} is a directory. Let MatchFiles list the files in it.")
    return as_file_info(path, info)


def as_file_info(path: str, info: Mapping[str, Any]) -> FileInfo:
    """Return what fsspec says of a file.

    Raises:
        SourceError: if its size is unknown.
    """
    if info.get("size") is None:
        raise SourceError(f"the server of {path!r} does not say how large it is, so no part of it can be read.")
    tag = next((info[key] for key in ("ETag", "etag", "generation") if info.get(key)), None)
    version = info.get("ino") if tag is None else tag
    mtime = _mtime(info)
    if tag is not None and mtime is not None:
        mtime //= 1  # where listings tell fractions of a second, looking up one file may not
    return FileInfo(path, int(info["size"]), mtime, None if version is None else str(version))


def _mtime(info: Mapping[str, Any]) -> float | None:
    if "Last-Modified" in info:
        return parsedate_to_datetime(info["Last-Modified"]).timestamp()
    keys = ("mtime", "LastModified", "last_modified", "modified", "created")
    mtime = next((info[key] for key in keys if key in info), None)
    if isinstance(mtime, datetime):
        return mtime.timestamp()
    return float(mtime) if isinstance(mtime, (int, float)) else None


def open_file(file: FileInfo, storage_options: Mapping[str, Any] | None = None) -> io.BufferedReader:
    """Open a file that is still what it was, and show no more of it than there was.

    Raises:
        SourceChangedError: if it has gone, shrunk or changed; reading raises it too.
    """
    options = storage_options or {}
    fs, inner = _check(file, options)
    # s3fs would read 50 MiB ahead, of which most belongs to another part
    much = "default_block_size" not in options and getattr(fs, "default_block_size", 0) > _AHEAD_BYTES
    try:
        opened = fs.open(inner, "rb", **({"block_size": _AHEAD_BYTES} if much else {}))
    except FileNotFoundError as error:
        raise _gone(file) from error
    return io.BufferedReader(PinnedFile(opened, file, fs), _BUFFER_BYTES)


def _check(file: FileInfo, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
    """Raise SourceChangedError unless a file is still what it was; return its file system and its path in there."""
    fs, inner = file_system(file.path, storage_options, "a reader")
    try:
        file.check(as_file_info(file.path, fs.info(inner)))
    except FileNotFoundError as error:
        raise _gone(file) from error
    return fs, inner


def _gone(file: FileInfo) -> SourceChangedError:
    return SourceChangedError(
        f"{file.path} has gone; it had {file.size} bytes when this run was planned. Keep files until a run ends."
    )


class PinnedFile(io.RawIOBase):
    """The first bytes of an open file, as many as there were."""

    def __init__(self, opened: Any, file: FileInfo, fs: Any) -> None:
        self._opened = opened
        self._file = file
        self._fs = fs  # kept: some file systems, such as an archive, close when they are collected
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._file.size - self._at)
        if size <= 0:
            return 0
        count: int = self._opened.readinto(memoryview(buffer)[:size])
        if not count:
            raise SourceChangedError(
                f"{self._file.path} ends at byte {self._at}; it had {self._file.size} bytes when this run was planned. "
                f"Leave files alone while a run reads them."
            )
        self._at += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = base + offset
        self._opened.seek(self._at)  # what that returns is not the same everywhere
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
        super().close()
