"""Pinned files: a file as it was when a run was planned, and its bytes of then or an error.

Files are opened through fsspec: local paths, ``s3://``, ``hdfs://``, ``https://`` and what else it knows. Its file
systems remember what they listed; here nothing is believed that is not asked for anew.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import attrs

from sdf.errors import MissingExtraError, SdfError, SourceChangedError, SourceError, without
from sdf.io.extras import need

__all__ = [
    "FileInfo",
    "Watch",
    "as_file_info",
    "check_file",
    "file_system",
    "is_local",
    "look_up",
    "open_file",
    "reaching",
]

_BUFFER_BYTES = 1 << 16
_AHEAD_BYTES = 8 << 20


@attrs.frozen
class Watch:
    """Who looks for a local file, and gives it anew when it comes back after it was forgotten.

    Attributes:
        root: the directory in which it looks; while that is away, nothing is known of the file.
        interval_seconds: how long after a scan the next is made.
    """

    root: str
    interval_seconds: float


@attrs.frozen
class FileInfo:
    """A file as it was when it was looked up; an element of every reader.

    A file that is replaced, shrinks, or is written again in the same size is found out. One that is written again in
    place, under its inode and without an entity tag, and is longer than before, looks as if it had been appended to: it
    is not found out.

    Attributes:
        path: as fsspec takes it, with its protocol unless it is local.
        size: in bytes; readers go no further, whatever is appended later.
        mtime: when it was modified, in seconds since the epoch; None where the file system does not tell.
        version: tells it from another file of that name: inode or entity tag; None where there is none.
        real: its path without links, of a local file that is to be followed; "" where nobody asked for it.
        watch: who gives it anew when it has been away; None if nobody does.
    """

    path: str
    size: int
    mtime: float | None = None
    version: str | None = None
    real: str = ""
    watch: Watch | None = None

    def __repr__(self) -> str:
        """Leave out what nobody asked for, and what the file system does not tell."""
        known = attrs.asdict(self, recurse=False, filter=lambda field, value: value != field.default)
        return f"FileInfo({', '.join(f'{name}={value!r}' for name, value in known.items())})"

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


def file_system(path: str, storage_options: Mapping[str, Any], who: str) -> tuple[Any, str]:
    """Return the file system of a path, which remembers no listing, and the path in there.

    Raises:
        MissingExtraError: if the library that speaks its protocol is not installed.
        SourceError: if there is no such protocol, or its file system cannot be reached.
    """
    fsspec = need("fsspec.core", who)
    try:
        if "://" in path:
            with reaching(path, who):
                fs, inner = fsspec.url_to_fs(path, **storage_options)
        else:  # not through url_to_fs(), to which the :: in a name chains two file systems
            fs = fsspec.filesystem("file", **storage_options)
            inner = fs._strip_protocol(path)
    except FileNotFoundError as error:  # of an archive
        raise SourceError(f"{who}: there is no file in which {path!r} could be: {error}.") from error
    fs.invalidate_cache()  # instances are shared and live long; what one of them listed before may have changed
    return fs, inner


def is_local(fs: Any, who: str) -> bool:
    """Tell whether a file system is that of this machine."""
    return isinstance(fs, need("fsspec.implementations.local", who).LocalFileSystem)


@contextmanager
def reaching(path: str, who: str) -> Iterator[None]:
    """Raise what a file system raises as an error that names the path; FileNotFoundError only if there is no file.

    Raises:
        MissingExtraError: for an ImportError.
        SourceError: for anything else, such as a permission that is missing or a server that does not answer.
    """
    try:
        yield
    except SdfError:
        raise
    except NotADirectoryError as error:  # of a path whose directory has become a file
        raise FileNotFoundError(*error.args) from error
    except ImportError as error:
        raise MissingExtraError(
            f"{who} needs a library for {path!r} that is not installed here: {error} (on the driver and on every "
            f"executor)."
        ) from error
    except Exception as error:
        cause: BaseException = error
        if isinstance(error, FileNotFoundError):
            told = error.__cause__  # over HTTP every failure is a FileNotFoundError, caused by what happened
            refused = isinstance(told, OSError) or getattr(told, "status", 404) not in (404, 410)
            if told is None or not refused or isinstance(told, FileNotFoundError):
                raise
            cause = told
        raise SourceError(
            f"{who} cannot reach {path!r}: {type(cause).__name__}: {without(path, str(cause))}. See that the path is "
            f"right, that this user may read it, and that its server answers."
        ) from error


def look_up(path: str, storage_options: Mapping[str, Any], who: str) -> FileInfo:
    """Return a file as it is now.

    Raises:
        SourceError: if it does not exist, cannot be reached, is no file, or does not tell its size.
    """
    fs, inner = file_system(path, storage_options, who)
    try:
        with reaching(path, who):
            info = fs.info(inner)
    except FileNotFoundError as error:
        raise SourceError(
            f"{who}: there is no file {path!r}. Patterns such as *.log and directories are for MatchFiles."
        ) from error
    if info["type"] == "directory":
        raise SourceError(f"{who}: {path!r} is a directory. Let MatchFiles list the files in it.")
    if info["type"] != "file":  # a pipe blocks whoever opens it, and a device has no end
        raise SourceError(
            f"{who}: {path!r} is no file, but a pipe, a socket or a device. Copy what it gives to a file."
        )
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
        SourceError: if it cannot be reached.
    """
    options = storage_options or {}
    fs, inner = check_file(file, options)
    # s3fs would read 50 MiB ahead, of which most belongs to another part
    much = "default_block_size" not in options and getattr(fs, "default_block_size", 0) > _AHEAD_BYTES
    try:
        with reaching(file.path, "a reader"):
            opened = fs.open(inner, "rb", **({"block_size": _AHEAD_BYTES} if much else {}))
    except FileNotFoundError as error:
        raise _gone(file) from error
    return io.BufferedReader(PinnedFile(opened, file, fs), _BUFFER_BYTES)


def check_file(file: FileInfo, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
    """Raise SourceChangedError unless a file is still what it was; return its file system and its path in there."""
    fs, inner = file_system(file.path, storage_options, "a reader")
    try:
        with reaching(file.path, "a reader"):
            info = fs.info(inner)
    except FileNotFoundError as error:
        raise _gone(file) from error
    if info["type"] != "file":
        raise SourceChangedError(
            f"{file.path} is no file any more; it was one of {file.size} bytes when this run was planned. Run it "
            f"again, and leave files alone while a run reads them."
        )
    file.check(as_file_info(file.path, info))
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
        with self._reading():
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
        with self._reading():
            self._opened.seek(self._at)  # what that returns is not the same everywhere
        return self._at

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:  # which advises to pass block_size=0 to fsspec: no file can be split then
            if self._file.path.startswith(("http://", "https://")) and not isinstance(error, SdfError):
                raise SourceError(
                    f"the server of {self._file.path!r} does not answer range requests, so only its first part can be "
                    f"read. Copy the file to a disk or an object store."
                ) from error
            raise

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
        super().close()
