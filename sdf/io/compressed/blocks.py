"""CompressedBlocks: what the readers of blocks have in common, whatever the compression."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from typing import NoReturn

from sdf.errors import ReadError

__all__ = ["NOT_PACKED", "CompressedBlocks"]

_UNREADABLE = "it is not {} as its name says: compression=None reads a file as it is"
NOT_PACKED = {kind: _UNREADABLE.format(kind) for kind in ("bzip2", "gzip", "zstd")}
NOT_PACKED["zstd"] = f"it needs a dictionary, which no reader takes, or {NOT_PACKED['zstd']}"


class CompressedBlocks(ABC):
    """A compressed file: finds its blocks and decompresses one after the other.

    Args:
        file: the compressed file.
        size: its size in bytes.
        path: its path, for error messages.

    Attributes:
        shift: number of bits of a record's position that hold its place in its block.
        is_first: whether the block found by `at_or_after` is the first of the file.
        is_start: whether reading can start at the current block, so that a part may begin with it.
        size: size of the file in bytes; also the position after the last block.
        besides: what else may be wrong with a file than that it is damaged or cut off, for error messages.
    """

    shift: int
    is_start = True
    besides = ""

    def __init__(self, file: io.BufferedReader, size: int, path: str) -> None:
        self._file = file
        self._path = path
        self.size = size
        self.is_first = False

    @abstractmethod
    def at_or_after(self, start: int, stop: int) -> int:
        """Move to the first block in ``[start, stop)`` at which reading can start, and return its position.

        If there is none, that is ``stop`` or more.
        """

    @abstractmethod
    def read(self) -> tuple[bytes, int]:
        """Return the text of the current block and the position of the next block, and move there.

        Raises:
            ReadError: naming file and position, if the block is damaged or not followed by a block or the file's end.
        """

    def _read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size)

    def _damaged(
        self, position: int, flaw: str, cause: Exception | None = None, *, besides: str | None = None
    ) -> NoReturn:
        besides = self.besides if besides is None else besides
        raise ReadError(f"{self._path} at byte {position}: {flaw}. The file is damaged or cut off{besides}.") from cause
