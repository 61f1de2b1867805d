"""Seek indices of gzip files: made once, kept in a directory, used again as long as the file is the same.

gzip can only be decompressed from its start. An index holds an entry point every few megabytes of text: its position in
the file, and the 32 KiB of text before it, which decompression needs. With an index the text can be read from anywhere,
at twice the speed of Python's gzip. rapidgzip makes and uses it, in gztool's format.

A stored index begins with a line that names the file, with a checksum of the index. An index that is damaged, or of
another file, or of an earlier version of the file, is made again.
"""

from __future__ import annotations

import gzip
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
from sdf.extras import need
from sdf.io.compressed.unpacked import Unpacked
from sdf.io.files.file_systems import file_system
from sdf.io.files.pinned import FileInfo

__all__ = ["SeekIndices", "default_directory", "has_short_text", "indexed_text"]

_CHUNK_BYTES = 1 << 22  # text between entry points: 1.7 MB of index for each GB of text, 25 MB of memory to read
_CORES_TO_SHARE = 4  # a thread that starts inside a file does 2.5 times the work: two are no faster than one
_BUFFER_BYTES = 1 << 16
_NO_GZIP = (ValueError, RuntimeError)  # raised by rapidgzip if a file is not valid gzip


class SeekIndices:
    """A directory of seek indices.

    Args:
        directory: a path or URL, None for `default_directory`.
        storage_options: for the file system of a URL.
        who: name of the connector, for error messages.

    Raises:
        MissingExtraError: if rapidgzip is not installed.
    """

    def __init__(self, directory: str | None, storage_options: Mapping[str, Any], who: str) -> None:
        self._rapidgzip = need("rapidgzip", who)
        self._who = who
        self._place = default_directory() if directory is None else directory
        self._fs, self._root = file_system(self._place, storage_options if "://" in self._place else {}, who)

    def get(self, info: FileInfo, file: io.BufferedReader) -> tuple[bytes | None, str]:
        """Return the index of a file, and a note for the report.

        Args:
            info: identifies the file.
            file: the open file.

        Returns:
            The index, and a note that it was found, or how long it took to make and its size. None and a note with the
            reason if no index can be made: the file is damaged, or not quite gzip.
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
        """Write a file under a temporary name and rename it, so that no reader sees half of it."""
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
        """Make the index of a gzip file by reading it to its end.

        Raises:
            ValueError, RuntimeError: if the file is not valid gzip.
        """
        cores = len(os.sched_getaffinity(0))
        threads = cores if cores >= _CORES_TO_SHARE else 1
        file.seek(max(0, info.size - 8))
        end = file.read(8)
        with closing(self._rapidgzip.RapidgzipFile(file, parallelization=threads, chunk_size=_CHUNK_BYTES)) as text:
            if not _is_whole(text, info.size, end):
                raise ValueError("it is cut off")
            index = io.BytesIO()
            text.export_index(index, self._rapidgzip.IndexFormat.GZTOOL)
        return index.getvalue()


def has_short_text(info: FileInfo, file: io.BufferedReader, most_bytes: int) -> bool:
    """Return whether a gzip file has at most ``most_bytes`` bytes of text. Damage before that byte gives True, too.

    Args:
        info: identifies the file.
        file: the open file.
        most_bytes: of the text.
    """
    if info.size > most_bytes:
        return False
    file.seek(0)
    try:
        return len(gzip.GzipFile(fileobj=file, mode="rb").read(most_bytes + 1)) <= most_bytes
    except (OSError, EOFError, zlib.error):  # whoever reads it tells of that
        return True


def indexed_text(file: io.BufferedReader, index: bytes, path: str, who: str) -> tuple[io.BufferedReader, int]:
    """Return the text of a gzip file as a seekable file, and its size."""
    inner = need("rapidgzip", who).RapidgzipFile(file, parallelization=1, chunk_size=_CHUNK_BYTES)
    inner.import_index(io.BytesIO(index))
    return io.BufferedReader(Unpacked(inner, _NO_GZIP, path, "gzip"), _BUFFER_BYTES), inner.size()


def default_directory() -> str:
    """Return a directory of this user's in the host's temporary directory; make it if it is missing.

    Raises:
        SourceError: if that path is not this user's directory, or other users have access to it.
    """
    path = os.path.join(tempfile.gettempdir(), f"sdf-gzip-index-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if found.st_uid != os.getuid() or found.st_mode & 0o077:  # rejects a link too: its mode is open to all
        raise SourceError(
            f"{path!r}, where seek indices of gzip files are kept, must be a directory of this user's that is open to "
            f"no one else (got mode {stat.filemode(found.st_mode)} of user {found.st_uid}). Remove it, or pass "
            f"index_dir."
        )
    return path


def _line(key: str, index: bytes) -> bytes:
    return f"{key} {zlib.crc32(index):08x}\n".encode()


def _is_whole(text: Any, file_bytes: int, end: bytes) -> bool:
    """Return whether rapidgzip has read a whole file: it does not report a truncated one.

    If the file ends inside a block of a member, rapidgzip stops before the end of the file. If the file ends between
    two blocks, the text does not agree with the last 8 bytes of the file. In a whole file these hold the checksum of
    the last member, and its size modulo 2**32. A text larger than a chunk is whole if its size equals the stored size.
    For any other text the function compares the checksum.
    """
    if max(text.block_offsets()) != 8 * file_bytes:  # the offsets are in bits
        return False
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
