"""LineFiles: what the sinks that write lines have in common: they write a batch of records at a time."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import attrs

from sdf.errors import BadRecordError, InvalidValueError, show
from sdf.extras import need
from sdf.sinks.files import FileSink
from sdf.sinks.segments import Batches, Segment
from sdf.sinks.sink import Place

__all__ = ["LineFiles"]

_ENDINGS = {None: "", "gzip": ".gz", "zstd": ".zst"}
_GZIP_LEVEL = 6  # of the gzip program
_GZIP_WINDOW = 31  # the largest window, 15, and 16 for the format of gzip


def _as_compression(name: Any) -> str | None:
    """Return the name of a compression; raise InvalidValueError, or MissingExtraError if its library is missing."""
    if name is not None and name not in ("gzip", "zstd"):
        raise InvalidValueError(f"compression of lines must be None, 'gzip' or 'zstd' (got {show(name)}).")
    if name == "zstd":
        need("zstandard", "a sink")
    return None if name is None else str(name)


@attrs.frozen
class LineFiles(FileSink):
    """Base of the sinks that write each record as a line.

    Attributes:
        compression: None, "gzip" or "zstd".
        kind: the ending of the names of files that are not compressed; of the class.
    """

    kind = ""

    compression: str | None = attrs.field(default=None, kw_only=True, converter=_as_compression)

    @property
    def ending(self) -> str:
        return f"{self.kind}{_ENDINGS[self.compression]}"

    @abstractmethod
    def as_lines(self, records: list[Any]) -> bytes:
        """Return records as lines with their ends; raise BadRecordError, which need not say which of them is bad."""

    def write_segment(self, records: Iterator[Any], place: Place, segment: Segment) -> None:
        batches = Batches(records)
        batch = batches.take()
        while batch:
            packer = _compressor(self.compression)
            while batch and segment.size < self.target_bytes:
                data = self._encoded(batch, batches.taken - len(batch))
                segment.write(packer.compress(data))
                batches.weighed(len(batch), len(data))
                batch = batches.take()
            segment.write(packer.flush())
            segment.end_file()

    def _encoded(self, batch: list[Any], first: int) -> bytes:
        """Return a batch as lines; if that fails, find the record that does not fit by trying one after the other."""
        try:
            return self.as_lines(batch)
        except BadRecordError:
            for number, record in enumerate(batch, first):
                try:
                    self.as_lines([record])
                except BadRecordError as error:
                    named = BadRecordError(f"record {number} of this segment: {error}")
                    named.number = number
                    raise named from error.__cause__
            raise


class _Plain:
    """Compresses nothing."""

    def compress(self, data: bytes) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


def _compressor(compression: str | None) -> Any:
    """Return an object for one file: ``compress(data)`` and, at the end, ``flush()`` return what to write."""
    if compression == "gzip":
        return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    if compression == "zstd":
        return need("zstandard", "a sink").ZstdCompressor().compressobj()
    return _Plain()
