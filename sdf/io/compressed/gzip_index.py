"""Seek indices of gzip files: made once, kept in a directory, found again as long as the file is the same.

gzip can only be decompressed from its start. An index holds, every few megabytes of text, where in the file that is and
the 32 KiB of text before it, on which what follows depends. With it the text can be read from anywhere, and at twice
the speed of Python's gzip. rapidgzip makes and uses it; its format is that of gztool.

What is kept is that, and before it a line that says of which file it is, with a checksum: an index that is damaged, or
of another file, or of the file before it changed, is made anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import struct
import tempfile
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import attrs

from sdf.errors import SourceError
from sdf.io.compressed.unpacked import Unpacked
from sdf.io.extras import need
from sdf.io.files.pinned import FileInfo, file_system

__all__ = ["SeekIndices", "default_directory", "indexed_text"]

_CHUNK_BYTES = 1 << 22  # of text between places to begin at: 1.7 MB of index for a GB of it, 25 MB of memory to read
_CORES_TO_SHARE = 4  # those that begin inside of a file need 2.5 times the work: two are no faster than one
_BUFFER_BYTES = 1 << 16
_NO_GZIP = (ValueError, RuntimeError)  # what rapidgzip raises where a file is not what it should be


class SeekIndices:
    """A directory of seek indices.

    Args:
        directory: a path or URL, None for `default_directory`.
        storage_options: for the file system of a URL.
        who: reads, for messages.

    Raises:
        MissingExtraError: if rapidgzip is not installed.
    """

    def __init__(self, directory: str | None, storage_options: Mapping[str, Any], who: str) -> None:
        self._rapidgzip = need("rapidgzip", who)
        self._who = who
        self._place = default_directory() if directory is None else directory
        self._fs, self._root = file_system(self._place, storage_options if "://" in self._place else {}, who)

    def get(self, info: FileInfo, file: io.BufferedReader) -> tuple[bytes | None, str]:
        """Return the index of a file, and a note that says that it was found, or what it cost.

        Args:
            info: which file it is.
            file: the file, open.

        Returns:
            None for the index, and a note that says why, if none can be made: the file is damaged, or not quite gzip.
        """
        key = json.dumps([1, *attrs.astuple(info)])
        path = f"{self._root.rstrip('/')}/{hashlib.sha256(key.encode()).hexdigest()[:32]}.gzip-index"
        with self._naming_the_directory("read"):
            index = self._load(path, key)
        if index is not None:
            return index, "gzip: seek index found"
        started = time.perf_counter()
        try:
            index = self._make(info, file)
        except _NO_GZIP as error:
            return None, f"gzip: read in one piece; no seek index can be made: {error}"
        with self._naming_the_directory("write"):
            self._keep(path, _line(key, index) + index)
        return index, f"gzip: seek index made in {time.perf_counter() - started:.1f} s, {len(index) / 1e6:.1f} MB"

    @contextmanager
    def _naming_the_directory(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise SourceError(
                f"{self._who} cannot {what} the seek index of a gzip file in index_dir {self._place!r}: "
                f"{type(error).__name__}: {error}. Pass as index_dir a directory that this user may write to, on every "
                f"host; without index_dir each host keeps its own in its temporary directory."
            ) from error

    def _load(self, path: str, key: str) -> bytes | None:
        try:
            with self._fs.open(path, "rb") as file:
                line, _, index = file.read().partition(b"\n")
        except FileNotFoundError:
            return None
        return index if line + b"\n" == _line(key, index) else None

    def _keep(self, path: str, data: bytes) -> None:
        """Write a file so that whoever finds it finds all of it."""
        self._fs.makedirs(self._root, exist_ok=True)
        unfinished = f"{path}.{uuid.uuid4().hex}"
        try:
            with self._fs.open(unfinished, "wb") as file:
                file.write(data)
            self._fs.mv(unfinished, path)
        except BaseException:
            if self._fs.exists(unfinished):
                self._fs.rm(unfinished)
            raise

    def _make(self, info: FileInfo, file: io.BufferedReader) -> bytes:
        """Read a gzip file to its end.

        Raises:
            ValueError, RuntimeError: if it is none.
        """
        cores = len(os.sched_getaffinity(0))
        threads = cores if cores >= _CORES_TO_SHARE else 1
        file.seek(max(0, info.size - 8))
        end = file.read(8)
        with closing(self._rapidgzip.RapidgzipFile(file, parallelization=threads, chunk_size=_CHUNK_BYTES)) as text:
            text.block_offsets()
            if not _is_whole(text, end):
                raise ValueError("it is cut off")
            index = io.BytesIO()
            text.export_index(index, self._rapidgzip.IndexFormat.GZTOOL)
        return index.getvalue()


def indexed_text(file: io.BufferedReader, index: bytes, path: str, who: str) -> tuple[io.BufferedReader, int]:
    """Return the text of a gzip file as a seekable file, and its size."""
    inner = need("rapidgzip", who).RapidgzipFile(file, parallelization=1, chunk_size=_CHUNK_BYTES)
    inner.import_index(io.BytesIO(index))
    return io.BufferedReader(Unpacked(inner, _NO_GZIP, path), _BUFFER_BYTES), inner.size()


def default_directory() -> str:
    """Return a directory of this user's in the machine's temporary directory; make it if need be.

    Raises:
        SourceError: if something there has its name that others could write to.
    """
    path = os.path.join(tempfile.gettempdir(), f"sdf-gzip-index-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if found.st_uid != os.getuid() or found.st_mode & 0o077:  # a link's mode is open to all
        raise SourceError(
            f"{path!r}, where seek indices of gzip files are kept, must be a directory of this user's that is open to "
            f"no one else (got mode {stat.filemode(found.st_mode)} of user {found.st_uid}). Remove it, or pass "
            f"index_dir."
        )
    return path


def _line(key: str, index: bytes) -> bytes:
    return f"{key} {zlib.crc32(index):08x}\n".encode()


def _is_whole(text: Any, end: bytes) -> bool:
    """Tell whether the text is what the last 8 bytes of its file say: rapidgzip is silent about a file that is cut off.

    They hold checksum and size, modulo 2**32, of the last member. Its checksum is looked at if it is not all of a
    large file.
    """
    size = text.size()
    checksum, last_size = struct.unpack("<II", end)
    if size % (1 << 32) == last_size and size > _CHUNK_BYTES:
        return True
    return any(_checksum(text, size - length) == checksum for length in range(last_size, size + 1, 1 << 32))


def _checksum(text: Any, start: int) -> int:
    checksum = 0
    text.seek(start)
    while data := text.read(_CHUNK_BYTES):
        checksum = zlib.crc32(data, checksum)
    return checksum
