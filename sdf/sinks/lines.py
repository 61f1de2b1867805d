"""Lines: how the sinks that write lines write a segment, a batch of records at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sdf.errors import BadRecordError
from sdf.sinks.compression import compressor
from sdf.sinks.segments import Batches, Segment

__all__ = ["write_lines"]


def write_lines(
    records: Iterator[Any],
    as_lines: Callable[[list[Any]], bytes],
    segment: Segment,
    *,
    compression: str | None,
    target_bytes: int,
) -> None:
    """Write records as lines.

    Args:
        records: the records.
        as_lines: returns some records as lines with their ends; raises BadRecordError, which need not say which.
        segment: the files.
        compression: None, "gzip" or "zstd".
        target_bytes: begin a new file when one has this size.

    Raises:
        BadRecordError: with the number of the record.
    """
    batches = Batches(records)
    batch = batches.take()
    while batch:
        packer = compressor(compression)
        while batch and segment.size < target_bytes:
            data = _encoded(batch, as_lines, batches.taken - len(batch))
            segment.write(packer.compress(data))
            batches.weighed(len(batch), len(data))
            batch = batches.take()
        segment.write(packer.flush())
        segment.end_file()


def _encoded(batch: list[Any], as_lines: Callable[[list[Any]], bytes], first: int) -> bytes:
    """Return a batch as lines; if that fails, find the record that does not fit by trying one after the other."""
    try:
        return as_lines(batch)
    except BadRecordError:
        for number, record in enumerate(batch, first):
            try:
                as_lines([record])
            except BadRecordError as error:
                named = BadRecordError(f"record {number} of this segment: {error}")
                named.number = number
                raise named from error.__cause__
        raise
