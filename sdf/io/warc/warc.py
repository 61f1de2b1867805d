"""ReadWarc: the records of WARC files, plain, or in gzip with a member for each record."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.io.compressed.compression import named_kind
from sdf.io.files.file_fn import FileRange, OpenedFn
from sdf.io.options import as_size
from sdf.io.warc.members import Members
from sdf.io.warc.plain import PlainRecords

__all__ = ["ReadWarc"]


class ReadWarc(OpenedFn):
    """Reads WARC. Element: a path, `FileInfo` or `FileBlock`. Gives `WarcRecord`.

    Position: the first byte of a record, or of its gzip member. If a member holds several records, they are one block.
    A part owns the records that start in it. Memory holds one record. An empty file has none.

    Records of all versions of the format are read, and all types: take the responses with
    ``filter(lambda record: record.get("WARC-Type") == "response")``.

    Args:
        compression: ``"gzip"``, None for plain records, or ``"infer"``: gzip if the name ends in ``.gz``.
        walk: find the first record of each part by going from header to header from the start of the file, where
            records are plain. Needed only for files with records that hold WARC records themselves, not compressed:
            without it, those raise an error.
        with_position: yield ``((path, offset), record)`` instead of ``record``.
        max_record_bytes: a longer content of a record is an error: memory holds a whole record.
        options: as for `FileFn`: ``block_size``, ``storage_options``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        ReadError: when it runs, if a record cannot be read, or if it holds WARC records itself.

    Source: ISO 28500, "The WARC File Format", https://iipc.github.io/warc-specifications/
    """

    def __init__(
        self,
        *,
        compression: str | None = "infer",
        walk: bool = False,
        with_position: bool = False,
        max_record_bytes: int = 1 << 28,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if compression not in ("infer", "gzip", None):
            raise InvalidValueError(f"ReadWarc compression must be 'infer', 'gzip' or None (got {show(compression)}).")
        if not isinstance(walk, bool):
            raise InvalidTypeError(f"ReadWarc walk must be True or False (got {show(walk)}).")
        self.compression = compression
        self.walk = walk
        self.with_position = with_position
        self.max_record_bytes = as_size(max_record_bytes, "ReadWarc max_record_bytes")

    def _read(self, file: io.BufferedReader, part: FileRange, tracker: Any) -> Iterator[Iterable[Any]]:
        info = part.file
        kind = named_kind(info.path) if self.compression == "infer" else self.compression
        blocks = (
            Members(file, info, self.max_record_bytes)
            if kind == "gzip"
            else PlainRecords(file, info, self.max_record_bytes, self.walk)
        )
        at = blocks.first(part.start, part.stop)
        while tracker.try_claim(at):
            for record in blocks.records(at):
                yield (((info.path, at), record) if self.with_position else record,)
            at = blocks.end
