"""The text of a compressed file as a file object; for damaged data, the error names the file and the position."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Any

from sdf.errors import ReadError
from sdf.extras import need
from sdf.io.compressed.blocks import NOT_PACKED
from sdf.io.compressed.zstd import ZSTD_WINDOW_BYTES

__all__ = ["Unpacked", "unpack"]

_BUFFER_BYTES = 1 << 16
_ZSTD_INPUT_BYTES = 1 << 10  # decompressed at once: 4 bytes can stand for 128 KiB, so the text is less than 32 MiB


class Unpacked(io.RawIOBase):
    """Decompressed text as a file; the decompressor's errors are raised as `ReadError`.

    Args:
        inner: the decompressor's file object.
        errors: the exceptions that ``inner`` raises for a damaged file.
        path: of the compressed file.
        kind: its compression.
    """

    def __init__(self, inner: Any, errors: tuple[type[Exception], ...], path: str, kind: str) -> None:
        self._inner = inner
        self._errors = errors
        self._path = path
        self._kind = kind

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._inner.seekable())

    def readinto(self, buffer: Any) -> int:
        try:
            count: int = self._inner.readinto(buffer)
        except self._errors as error:
            at = self._inner.tell()
            besides = "something was appended to it" if at else NOT_PACKED[self._kind]
            raise ReadError(
                f"{self._path} cannot be decompressed after byte {at} of its text: {error}. The file is damaged or cut "
                f"off, or {besides}."
            ) from error
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._inner.seek(offset, whence))

    def tell(self) -> int:
        return int(self._inner.tell())

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()


def unpack(file: io.BufferedReader, kind: str, path: str, who: str) -> io.BufferedReader:
    """Return the text of a compressed file, from its start on, in bounded memory.

    Args:
        file: the compressed file, at its start.
        kind: ``"bzip2"``, ``"gzip"`` or ``"zstd"``.
        path: of the file, for error messages.
        who: name of the connector, for error messages.
    """
    inner: Any
    errors: tuple[type[Exception], ...]
    if kind == "bzip2":
        inner, errors = bz2.BZ2File(file), (OSError, EOFError)
    elif kind == "gzip":
        inner, errors = gzip.GzipFile(fileobj=file, mode="rb"), (gzip.BadGzipFile, EOFError, zlib.error)
    else:
        zstandard = need("zstandard", who)
        inner, errors = _Frames(file, zstandard), (zstandard.ZstdError, EOFError)
    return io.BufferedReader(Unpacked(inner, errors, path, kind), _BUFFER_BYTES)


class _Frames(io.RawIOBase):
    """The text of zstd frames. The library's own stream does not report a file that ends inside a frame."""

    def __init__(self, file: io.BufferedReader, zstandard: Any) -> None:
        self._texts = self._decompress(file, zstandard)
        self._text = memoryview(b"")
        self._at = 0

    @staticmethod
    def _decompress(file: io.BufferedReader, zstandard: Any) -> Iterator[bytes]:
        decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
        frame = None
        while data := file.read(_ZSTD_INPUT_BYTES):
            while data:
                frame = frame or decompressor.decompressobj()
                yield frame.decompress(data)
                data = frame.unused_data
                if frame.eof:
                    frame = None
        if frame is not None:
            raise EOFError("the file ends before its last frame does")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text:
            text = next(self._texts, None)
            if text is None:
                return 0
            self._text = memoryview(text)
        count = min(len(buffer), len(self._text))
        buffer[:count] = self._text[:count]
        self._text = self._text[count:]
        self._at += count
        return count

    def tell(self) -> int:
        return self._at
