"""TextFiles: strings, one a line."""

from __future__ import annotations

from typing import Any

import attrs

from sdf.errors import BadRecordError, show
from sdf.sinks.lines import LineFiles

__all__ = ["TextFiles"]


@attrs.frozen
class TextFiles(LineFiles):
    r"""Writes each record, a str without a line end, as a line of UTF-8 that ends with ``\n``.

    Args:
        path: the directory to make, as a path or a URL; it must be empty or not there.
        compression: None, "gzip" or "zstd".
        target_bytes: begin a new file when one has this size.

    Raises:
        BadRecordError: when it runs, for a record that is no str, has a line end, or a lone surrogate.
        InvalidTypeError, InvalidValueError: for a wrong option.
        SinkError: when it runs, if the target is not empty or cannot be written.
    """

    kind = ".txt"

    def as_lines(self, records: list[Any]) -> bytes:
        try:
            text = "\n".join(records)
        except TypeError as error:
            raise BadRecordError(
                f"TextFiles writes strings (got {show(records[0])}). Use str() or json.dumps()."
            ) from error
        if text.count("\n") != len(records) - 1 or "\r" in text:
            raise BadRecordError(
                f"TextFiles writes a record as one line, so it must have no line end (got {show(records[0])}). Use "
                f"JsonLinesFiles, or escape it."
            )
        try:
            return f"{text}\n".encode()
        except UnicodeEncodeError as error:
            raise BadRecordError(f"TextFiles writes UTF-8, which cannot hold {show(records[0])}: {error}.") from error
