"""CompressedBlocks: what the readers of blocks have in common, whatever the compression."""

from __future__ import annotations

import io
from typing import NoReturn

from sdf.errors import ReadError

__all__ = ["CompressedBlocks"]


class CompressedBlocks:
    """The blocks of a compressed file.

    Args:
        file: the compressed file.
        size: its size in bytes.
        path: its path, for error messages.

    Attributes:
        besides: what else may be wrong with a file than that it is damaged or cut off, for error messages.
    """

    besides = ""

    def __init__(self, file: io.BufferedReader, size: int, path: str) -> None:
        self._file = file
        self._path = path
        self.size = size
        self.is_first = False

    def _read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size)

    def _damaged(
        self, position: int, flaw: str, cause: Exception | None = None, *, besides: str | None = None
    ) -> NoReturn:
        besides = self.besides if besides is None else besides
        raise ReadError(f"{self._path} at byte {position}: {flaw}. The file is damaged or cut off{besides}.") from cause
