"""Pinned files: the state of a file when a run was planned; reading it gives the bytes of that time, or an error.

A local file is looked at and opened without fsspec, which takes far longer.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import attrs

from sdf.errors import SdfError, SourceChangedError, SourceError
from sdf.io.files.file_systems import disk, file_system, is_conditional, on_host, reaching
from sdf.io.stored import stored

__all__ = [
    "FileInfo",
    "Watch",
    "as_file_info",
    "check_file",
    "is_guarded",
    "look_up",
    "open_file",
]

_BUFFER_BYTES = 1 << 16
_AHEAD_BYTES = 8 << 20


@stored
@attrs.frozen
class Watch:
    """The `WatchFiles` that found a local file, and yields it again if the file returns after it was forgotten.

    Attributes:
        root: the watched directory; while that is missing, nobody knows whether the file still exists.
        interval_seconds: seconds from one scan to the next.
        head: the first few bytes of the file when it was found, by which it or a copy is known before it is read.
        generation: of its inode number; 0 if unknown.
    """

    root: str
    interval_seconds: float
    head: bytes = b""
    generation: int = 0


@attrs.frozen
class FileInfo:
    """A file as it was when it was looked up; an element of every reader.

    A change is detected if the file is replaced, shrinks, or is rewritten with the same size. It is not detected if the
    file is rewritten in place (same inode, no entity tag) and becomes longer: that looks like an append.

    Attributes:
        path: as fsspec takes it, with its protocol unless the file is local.
        size: in bytes; readers stop there, whatever is appended later.
        mtime: time of the last change, in seconds since the epoch; None if the file system does not report it.
        version: inode or entity tag, which differs for another file of that name; None if there is none.
        real: path of a local file with links resolved, set for files that are followed; otherwise "".
        watch: the watch that yields the file again after it was missing; None if there is none.
    """

    path: str
    size: int
    mtime: float | None = None
    version: str | None = None
    real: str = ""
    watch: Watch | None = None

    def __repr__(self) -> str:
        """Leave out attributes that have their default value."""
        known = attrs.asdict(self, recurse=False, filter=lambda field, value: value != field.default)
        return f"FileInfo({', '.join(f'{name}={value!r}' for name, value in known.items())})"

    def check(self, now: FileInfo) -> None:
        """Raise SourceChangedError unless the file as it is ``now`` may be this one, unchanged or appended to."""
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


def look_up(path: str, storage_options: Mapping[str, Any], who: str) -> FileInfo:
    """Return a file as it is now.

    Raises:
        SourceError: if it does not exist, cannot be reached, is no file, or has no known size.
    """
    fs, inner = file_system(path, storage_options, who)
    try:
        with reaching(path, who):
            if fs is disk() and (found := _regular(path, inner)):
                return found
            info = fs.info(inner)
    except FileNotFoundError as error:
        raise SourceError(
            f"{who}: there is no file {path!r}{on_host(fs, who)}. Patterns such as *.log and directories are for "
            f"MatchFiles."
        ) from error
    if info["type"] == "directory":
        raise SourceError(f"{who}: {path!r} is a directory. Let MatchFiles list the files in it.")
    if info["type"] != "file":  # opening a pipe blocks, and a device has no end
        raise SourceError(
            f"{who}: {path!r} is no file, but a pipe, a socket or a device. Copy what it gives to a file."
        )
    return as_file_info(path, info)


def _regular(path: str, inner: str) -> FileInfo | None:
    """Return a regular file of this host as it is now, None for anything else. The look of fsspec takes far longer."""
    there = os.lstat(inner)
    return FileInfo(path, there.st_size, there.st_mtime, str(there.st_ino)) if stat.S_ISREG(there.st_mode) else None


def as_file_info(path: str, info: Mapping[str, Any]) -> FileInfo:
    """Return a `FileInfo` made from fsspec's info of a file.

    Raises:
        SourceError: if its size is unknown.
    """
    if info.get("size") is None:
        raise SourceError(f"the server of {path!r} does not say how large it is, so no part of it can be read.")
    tag = next((info[key] for key in ("ETag", "etag", "generation") if info.get(key)), None)
    version = info.get("ino") if tag is None else tag
    mtime = _mtime(info)
    if tag is not None and mtime is not None:
        mtime //= 1  # listings may have fractions of a second, the lookup of one file may not
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
    """Open a pinned file after checking that it has not changed; reading ends at the pinned size.

    An object on S3 is not looked at: each request for its bytes has its entity tag as a condition (`is_guarded`).

    Raises:
        SourceChangedError: if the file is missing, has shrunk or changed; reading raises it too.
        SourceError: if the file cannot be reached.
    """
    options = storage_options or {}
    fs, inner = file_system(file.path, options, "a reader")
    if file.version is not None and is_conditional(fs):
        with reaching(file.path, "a reader"):
            guarded = _conditional(fs, inner, file)
        return io.BufferedReader(PinnedFile(guarded, file, fs, guarded=True), _BUFFER_BYTES)
    _check(file, fs, inner)
    # s3fs would read 50 MiB ahead, most of which belongs to other parts
    much = "default_block_size" not in options and getattr(fs, "default_block_size", 0) > _AHEAD_BYTES
    try:
        with reaching(file.path, "a reader"):
            if fs is disk():
                opened: Any = io.FileIO(inner)
            else:
                opened = fs.open(inner, "rb", **({"block_size": _AHEAD_BYTES} if much else {}))
    except FileNotFoundError as error:
        raise _gone(file, fs) from error
    return io.BufferedReader(PinnedFile(opened, file, fs), _BUFFER_BYTES)


def is_guarded(opened: io.BufferedReader) -> bool:
    """Return whether whatever was read is of the pinned file, or reading has raised."""
    return getattr(opened.raw, "guarded", False)


def _conditional(fs: Any, inner: str, file: FileInfo) -> Any:
    """Open an object as s3fs does with what it knows of the object: s3fs would ask for that first."""
    opened = fs.open(inner, "rb", block_size=_AHEAD_BYTES, size=file.size)
    opened.details = {"name": inner, "size": file.size, "ETag": file.version, "type": "file"}
    opened.read_kw = {**opened.read_kw, "IfMatch": file.version}
    return opened


def check_file(file: FileInfo, storage_options: Mapping[str, Any]) -> None:
    """Raise SourceChangedError if a file has changed."""
    _check(file, *file_system(file.path, storage_options, "a reader"))


def _check(file: FileInfo, fs: Any, inner: str) -> None:
    try:
        with reaching(file.path, "a reader"):
            if fs is disk() and (now := _regular(file.path, inner)):
                file.check(now)
                return
            info = fs.info(inner)
    except FileNotFoundError as error:
        raise _gone(file, fs) from error
    if info["type"] != "file":
        raise SourceChangedError(
            f"{file.path} is no file any more; it was one of {file.size} bytes when this run was planned. Run it "
            f"again, and leave files alone while a run reads them."
        )
    file.check(as_file_info(file.path, info))


def _gone(file: FileInfo, fs: Any) -> SourceChangedError:
    here = on_host(fs, "a reader")
    return SourceChangedError(
        f"{file.path} has gone; it had {file.size} bytes when this run was planned. Keep files until a run ends"
        f"{here and f', where all hosts see them: it is not{here}'}."
    )


class PinnedFile(io.RawIOBase):
    """An open file that ends at its pinned size, whatever was appended later.

    Attributes:
        guarded: see `is_guarded`.
    """

    def __init__(self, opened: Any, file: FileInfo, fs: Any, *, guarded: bool = False) -> None:
        self.guarded = guarded
        self._opened = opened
        self._file = file
        self._fs = fs  # kept: some file systems, such as an archive, close when garbage-collected
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._file.size - self._at)
        if size <= 0:
            return 0
        try:
            count: int = self._opened.readinto(memoryview(buffer)[:size])
        except ValueError as error:
            self._explain(error)
            raise
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
        try:
            self._opened.seek(self._at)  # its return value differs between file systems
        except ValueError as error:
            self._explain(error)
            raise
        return self._at

    def _explain(self, error: ValueError) -> None:
        """Raise a better error if there is one: the advice of fsspec, block_size=0, would make files indivisible."""
        if self._file.path.startswith(("http://", "https://")) and not isinstance(error, SdfError):
            raise SourceError(
                f"the server of {self._file.path!r} does not answer range requests, so only its first part can be "
                f"read. Copy the file to a disk or an object store."
            ) from error

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
        super().close()
