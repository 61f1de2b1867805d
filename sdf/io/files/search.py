"""The search for bytes in a part of an open file, for readers that begin in its middle."""

from __future__ import annotations

import io
from collections.abc import Iterator

__all__ = ["occurrences"]

_CHUNK_BYTES = 1 << 16


def occurrences(file: io.BufferedReader, magic: bytes, start: int, stop: int) -> Iterator[int]:
    """Yield where some bytes begin in ``[start, stop)`` of a file; between two of them it may be read elsewhere."""
    while start < stop:
        size = min(_CHUNK_BYTES, stop - start)
        file.seek(start)
        data = file.read(size + len(magic) - 1)
        at = data.find(magic)
        while at >= 0:
            yield start + at
            at = data.find(magic, at + 1)
        start += size
