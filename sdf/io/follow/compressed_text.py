"""CompressedText: the text of a compressed file as a file that can be sought, for files that were followed.

Only decompressing a file from its start shows what is at a position. So a seek backwards begins again.
"""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

from sdf.errors import ReadError
from sdf.io.compressed.unpacked import unpack

__all__ = ["CompressedText", "text_of"]

_CHUNK_BYTES = 1 << 20


class CompressedText(io.RawIOBase):
    """See the module's docstring. It closes the compressed file.

    Args:
        packed: the compressed file, open, which can be sought.
        kind: ``"bzip2"``, ``"gzip"`` or ``"zstd"``.
        path: of the file, for error messages.
        who: name of the connector, for error messages.
    """

    def __init__(self, packed: Any, kind: str, path: str, who: str) -> None:
        self._packed = packed
        self._again = kind, path, who
        self._at = 0
        self._text = self._from_start()

    def _from_start(self) -> io.BufferedReader:
        self._packed.seek(0)
        self._at = 0
        return unpack(self._packed, *self._again)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if offset < self._at:
            self._text = self._from_start()
        while self._at < offset and self.read(min(_CHUNK_BYTES, offset - self._at)):
            pass
        return self._at

    def read(self, size: int = -1) -> bytes:
        data = self._text.read(size)
        self._at += len(data)
        return data

    def read1(self, size: int) -> bytes:
        """Return some bytes of what comes next, as soon as there are some; none at the end."""
        data = self._text.read1(size)
        self._at += len(data)
        return data

    def size(self) -> int:
        """Return the number of bytes in the text, by decompressing all of it.

        Raises:
            ReadError: if the file is damaged, or not complete yet.
        """
        while self.read(_CHUNK_BYTES):
            pass
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._packed.close()
        super().close()


def text_of(packed: Any, kind: str, size: int, path: str, who: str) -> tuple[bytes, bool]:
    """Return the first bytes of a compressed file's text, and whether there can be no other; close the file.

    Fewer than ``size`` bytes are all there is, or all that is there so far: the file may be damaged or not complete.
    """
    text = b""
    with CompressedText(packed, kind, path, who) as opened, suppress(ReadError):
        while len(text) < size:
            more = opened.read1(size - len(text))
            if not more:
                return text, True
            text += more
    return text, len(text) == size
