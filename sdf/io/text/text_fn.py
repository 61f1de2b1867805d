"""Text in files: which records belong to which part, and how they are found. Subclasses parse the records.

A file is divided into cells of at most `CELL_BYTES`. A cell is the block of a claim: its position is its first byte,
and its records are those that start in it, however long the last one is. So a claim costs nothing per record, memory
holds one cell and one record, and a part that begins anywhere begins with the next cell. The cells of a file, or of a
`FileBlock`, never depend on how it is split.

The first record of a cell follows the first delimiter that ends at the cell's start or in the cell. That is right only
if delimiters cannot overlap, so those that could are refused.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import attrs

from sdf import TaggedOutput
from sdf.errors import InvalidValueError, ReadError, show
from sdf.io.compressed.compression import BLOCKS, GZIP_INDEX, CompressedFn
from sdf.io.files.file_fn import FileBlock, FileRange
from sdf.io.files.signatures import signature, unmarked_wide
from sdf.io.options import as_size
from sdf.io.text.block_text import read_blocks
from sdf.io.text.delimited import Delimited, check_delimiter

__all__ = ["CELL_BYTES", "BadRecord", "Cells", "Pieces", "TextFn"]

Pieces = Iterator[tuple[int, bytes]]  # whole records, with the offset of the first

CELL_BYTES = 1 << 18  # benchmarks/throughput.py: a cell that is read, decoded and split stays in the CPU cache


@attrs.frozen
class BadRecord:
    """A record that could not be read, yielded with the tag ``bad``.

    Attributes:
        path: path of its file.
        offset: offset of its first byte; for compressed text see `sdf.io.compressed.compression`.
        data: its bytes as they are in the file, without the delimiter; the CR of a line that ends in CRLF is kept.
        error: type and text of the exception.
    """

    path: str
    offset: int
    data: bytes
    error: str


@attrs.frozen
class Cells:
    """The cells of the bytes ``[start, stop)``: one begins every ``block_size`` bytes, and every ``cell_size`` inside.

    Attributes:
        start: offset where the first cell starts.
        stop: offset where the last cell ends.
        block_size: bytes in each part that the file is split into at the start of the run.
        cell_size: the most bytes in a cell; counting starts again in each of those parts.
    """

    start: int
    stop: int
    block_size: int
    cell_size: int

    @classmethod
    def of(cls, element: Any, restriction: FileRange, block_size: int | None, cell_size: int = CELL_BYTES) -> Cells:
        start, stop = (element.start, element.stop) if isinstance(element, FileBlock) else (0, restriction.file.size)
        return cls(start, stop, block_size or cell_size, cell_size)

    def after(self, position: int) -> int:
        """Return the start of the first cell after a position; ``stop`` if there is none."""
        block, inside = divmod(position - self.start, self.block_size)
        in_block = min((inside // self.cell_size + 1) * self.cell_size, self.block_size)
        return min(self.start + block * self.block_size + in_block, max(self.stop, position + 1))

    def at_or_after(self, position: int) -> int:
        """Return the start of the first cell at or after a position."""
        return self.start if position <= self.start else self.after(position - 1)

    def claimed(self, position: int, tracker: Any) -> Iterator[tuple[int, int]]:
        """Claim one cell after the other, from a position on; yield where each begins and ends."""
        cell = self.at_or_after(position)
        while tracker.try_claim(cell):
            end = self.after(cell)
            yield cell, end
            cell = end


class TextFn(CompressedFn):
    """Base of readers of records that end in a delimiter. A subclass defines `records`.

    Args:
        delimiter: the bytes that end a record.
        with_position: yield ``((path, offset), record)`` instead of ``record``. In a bzip2, BGZF or zstd file the
            offset counts no bytes, but increases: see `sdf.io.compressed.compression`.
        with_block_id: yield ``(id, output)`` instead of each output, with the `FileBlock.id` of the block that the
            record starts in: of the element, or of a part of ``block_size`` bytes of it; else of the whole file.
        on_error: ``"raise"``, or ``"tag"`` to yield a record that cannot be read as a `BadRecord` with the tag ``bad``.
        max_record_bytes: a longer record, with its delimiter, is an error: memory holds a whole record.
        options: see `CompressedFn`: ``compression``, ``index_dir``, ``block_size``, ``storage_options``.
    """

    cell_bytes = CELL_BYTES
    _whole_for = ""  # the option that demands that files are read in one piece

    def __init__(
        self,
        *,
        delimiter: bytes = b"\n",
        with_position: bool = False,
        with_block_id: bool = False,
        on_error: str = "raise",
        max_record_bytes: int = 1 << 28,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        who = type(self).__name__
        check_delimiter(delimiter, who)
        if on_error not in ("raise", "tag"):
            raise InvalidValueError(f"{who} on_error must be 'raise' or 'tag' (got {show(on_error)}).")
        self.delimiter = delimiter
        self.with_position = with_position
        self.with_block_id = with_block_id
        self.on_error = on_error
        self.max_record_bytes = as_size(max_record_bytes, f"{who} max_record_bytes")

    def read_whole(self, option: str) -> None:
        """Read each file in one piece, from its start, because an option demands that; called by ``__init__``."""
        if self.block_size is not None:
            raise InvalidValueError(
                f"{type(self).__name__} block_size is of no use with {option}: files are not split then."
            )
        self._whole_for = option

    def get_initial_restriction(self, element: Any) -> FileRange:
        if not self._whole_for:
            return super().get_initial_restriction(element)
        if isinstance(element, FileBlock):
            raise InvalidValueError(
                f"{type(self).__name__} with {self._whole_for} reads files from their start, not blocks of them (got "
                f"{show(element)}). Leave out FileBlocks."
            )
        return attrs.evolve(self.in_one_piece(element), note=f"{self._whole_for}: read in one piece")

    def restriction_size(self, element: Any, restriction: FileRange) -> float | None:
        return restriction.file.size if self._whole_for else super().restriction_size(element, restriction)

    def records(self, path: str, offset: int, data: bytes) -> Iterable[Any]:
        """Return the outputs for whole records.

        Args:
            path: path of their file.
            offset: offset of the first record.
            data: the records, each with its delimiter; the last record of a file may have none.
        """
        raise NotImplementedError

    def bad(self, path: str, offset: int, data: bytes, error: Exception) -> TaggedOutput:
        """Return the output in place of a record that cannot be read, or raise, as ``on_error`` says.

        Raises:
            ReadError: naming file, offset and cause.
        """
        if self.on_error == "tag":
            return TaggedOutput("bad", BadRecord(path, offset, data, f"{type(error).__name__}: {error}"))
        raise ReadError(
            f"{path} at byte {offset}: {self.flaw(error)} (in {show(data)}). {self.advice(error, offset, data)}"
            f"To go on without such records pass on_error='tag', and tags=('bad',) to the runner."
        ) from error

    def flaw(self, error: Exception) -> str:
        """Return the message: what is wrong with a record, and where in it."""
        return str(error)

    def advice(self, error: Exception, offset: int, data: bytes) -> str:
        """Return advice on bytes that are not this kind of text, as a sentence and a space; "" for other errors."""
        if offset == 0 and (sentence := signature(data)):
            return f"{sentence} "
        return self.encoding_advice() if isinstance(error, UnicodeDecodeError) else ""

    def has_text(self, path: str, data: bytes) -> bool:
        """Return whether records at the start of a file hold more than a byte order mark.

        Raises:
            ReadError: if it is UTF-16 or UTF-32 without a mark. Letters of ASCII would be read with NULs between them.
        """
        strict = getattr(self, "errors", "strict") == "strict" and b"\0" not in self.delimiter
        if strict and unmarked_wide(data):
            raise ReadError(f"{path}: {signature(data)} To read its NULs as characters pass errors='replace'.")
        return data != codecs.BOM_UTF8 or getattr(self, "encoding", None) != "utf-8"

    def encoding_advice(self) -> str:
        """Return advice on other encodings, as a sentence and a space; "" if the reader has no option ``encoding``."""
        known = getattr(self, "encoding", None)
        if known is None:
            return ""
        return (
            f"If the text is not {known}, name its encoding: {type(self).__name__}(encoding='latin-1'), say. To read "
            f"it all the same pass errors='replace'. "
        )

    def block_from(self, element: Any, restriction: FileRange, position: int) -> int:
        if restriction.codec == "":
            return Cells.of(element, restriction, self.block_size).at_or_after(position)
        if restriction.codec == GZIP_INDEX:
            return Cells(0, restriction.stop, self.block_size or CELL_BYTES, CELL_BYTES).at_or_after(position)
        return position

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        return chain.from_iterable(self._records(element, tracker))  # saves one generator step per record

    def _records(self, element: Any, tracker: Any) -> Iterator[Iterable[Any]]:
        restriction: FileRange = tracker.current_restriction()
        path = restriction.file.path
        with self.open(restriction) as file:
            for offset, data in self._pieces(element, restriction, tracker, file):
                outputs = self.records(path, offset, data)
                yield self.named(element, restriction, offset, outputs) if self.with_block_id else outputs

    def named(self, element: Any, restriction: FileRange, offset: int, outputs: Iterable[Any]) -> Iterator[Any]:
        """Yield outputs with the id of the block that holds the record at ``offset``; bad records as they are."""
        block = self.block_of(element, restriction, offset).id
        for output in outputs:
            yield output if isinstance(output, TaggedOutput) else (block, output)

    def _pieces(self, element: Any, restriction: FileRange, tracker: Any, file: io.BufferedReader) -> Pieces:
        """Return whole records, claimed block by block, with the offset of the first; the codec decides how."""
        if restriction.codec == "":
            return self._blocks(element, restriction, tracker, file)
        if restriction.codec in BLOCKS:
            return self._packed(restriction, tracker, file)
        if restriction.codec == GZIP_INDEX:
            return self._indexed(restriction, tracker, file)
        return self._in_one_piece(restriction, tracker, file)

    def _packed(self, restriction: FileRange, tracker: Any, file: io.BufferedReader) -> Pieces:
        blocks = BLOCKS[restriction.codec](file, restriction.file.size, restriction.file.path)
        return read_blocks(blocks, tracker, self.delimiter, self.max_record_bytes, restriction.file.path)

    def _indexed(self, restriction: FileRange, tracker: Any, file: io.BufferedReader) -> Pieces:
        """Read the text of a gzip file through its index, like an uncompressed file."""
        text, size = self.indexed_text(restriction, file)
        with text:
            unpacked = attrs.evolve(restriction, file=attrs.evolve(restriction.file, size=size))
            yield from self._blocks(None, unpacked, tracker, text)

    def _in_one_piece(self, restriction: FileRange, tracker: Any, file: io.BufferedReader) -> Pieces:
        if not tracker.try_claim(restriction.start):
            return
        with self.unpack(restriction, file) as text:
            records = Delimited(text, 0, self.delimiter, self.max_record_bytes, restriction.file.path)
            start = 0
            while data := records.read(start + CELL_BYTES):
                yield start, data
                start = records.at

    def _blocks(self, element: Any, restriction: FileRange, tracker: Any, file: io.BufferedReader) -> Pieces:
        """Claim one cell after the other; yield the records of each, with the offset of the first."""
        cells = Cells.of(element, restriction, self.block_size)
        records: Delimited | None = None  # None until the start of a record is found
        for cell, end in cells.claimed(restriction.start, tracker):
            if records is None:
                start = self._first_start(file, cell, end)
                if start is not None:
                    file.seek(start)
                    records = Delimited(file, start, self.delimiter, self.max_record_bytes, restriction.file.path)
            if records is not None and records.at < end:
                start = records.at
                data = records.read(end)
                if data:
                    yield start, data

    def _first_start(self, file: io.BufferedReader, cell: int, end: int) -> int | None:
        """Return the offset of the first record that starts in ``[cell, end)``; None if none does."""
        if cell == 0:
            return 0
        before = max(0, cell - len(self.delimiter))
        file.seek(before)
        found = file.read(end - before).find(self.delimiter)
        start = before + found + len(self.delimiter)
        return start if found >= 0 and start < end else None
