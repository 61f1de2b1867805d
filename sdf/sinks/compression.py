"""Compression of files of lines, by the standard library or zstandard."""

from __future__ import annotations

import zlib
from typing import Any

from sdf.errors import InvalidValueError, show
from sdf.extras import need

__all__ = ["as_compression", "compressor", "ending_of"]

_ENDINGS = {None: "", "gzip": ".gz", "zstd": ".zst"}
_GZIP_LEVEL = 6  # of the gzip program
_GZIP_WINDOW = 31  # the largest window, 15, and 16 for the format of gzip


def as_compression(name: Any) -> str | None:
    """Return the name of a compression; raise InvalidValueError, or MissingExtraError if its library is missing."""
    if name is not None and name not in ("gzip", "zstd"):
        raise InvalidValueError(f"compression of lines must be None, 'gzip' or 'zstd' (got {show(name)}).")
    if name == "zstd":
        need("zstandard", "a sink")
    return None if name is None else str(name)


def ending_of(compression: str | None) -> str:
    """Return the ending of the names of files."""
    return _ENDINGS[compression]


class _Plain:
    """Compresses nothing."""

    def compress(self, data: bytes) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


def compressor(compression: str | None) -> Any:
    """Return an object for one file: ``compress(data)`` and, at the end, ``flush()`` return what to write."""
    if compression == "gzip":
        return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    if compression == "zstd":
        return need("zstandard", "a sink").ZstdCompressor().compressobj()
    return _Plain()
