"""ReadRecords and ReadSlices: bytes in pieces of a fixed length, counted from the start of the file or of each block.

Both claim cells, as text readers do (`Cells`), so the only work per piece is to slice it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from sdf.errors import InvalidValueError, ReadError, show
from sdf.io.files.file_fn import FileFn, FileRange
from sdf.io.options import as_size
from sdf.io.text.text_fn import CELL_BYTES, Cells

__all__ = ["FixedFn", "ReadRecords", "ReadSlices"]

_SLICE_BYTES = 1 << 20


class FixedFn(FileFn):
    """Base of readers of pieces of ``length`` bytes. A subclass defines `span`.

    Args:
        length: bytes in a piece.
        with_position: yield ``((path, offset), piece)`` instead of ``piece``.
        with_block_id: yield ``(id, output)`` instead of each output, with the `FileBlock.id` of the block that it
            starts in: of the element, or of a part of ``block_size`` bytes of it; else of the whole file.
        options: as for `FileFn`: ``block_size``, ``storage_options``.
    """

    def __init__(
        self, length: int, *, with_position: bool = False, with_block_id: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        self.length = as_size(length, f"{type(self).__name__} length")
        self.with_position = with_position
        self.with_block_id = with_block_id

    @abstractmethod
    def span(self, restriction: FileRange, cell: int, end: int) -> tuple[int, int]:
        """Return the offset where the first piece of the cell ``[cell, end)`` starts, and where the last one stops."""

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        restriction: FileRange = tracker.current_restriction()
        path, length = restriction.file.path, self.length
        cell_size = max(1, CELL_BYTES // length) * length  # whole pieces, or a cell would cut a slice in two
        cells = Cells.of(element, restriction, self.block_size, cell_size)
        with self.open(restriction) as file:
            for cell, end in cells.claimed(restriction.start, tracker):
                start, stop = self.span(restriction, cell, end)
                if start < stop:
                    file.seek(start)
                    data = file.read(stop - start)
                    pieces = range(0, len(data), length)
                    outputs: Any = [data[at : at + length] for at in pieces]
                    if self.with_position:
                        outputs = [((path, start + at), piece) for at, piece in zip(pieces, outputs, strict=True)]
                    if self.with_block_id:
                        block = self.block_of(element, restriction, cell).id
                        outputs = [(block, output) for output in outputs]
                    yield from outputs


class ReadRecords(FixedFn):
    """Reads records of a fixed length. Element: a path, `FileInfo` or `FileBlock`. Position: the first byte of a cell.

    Records start at the multiples of ``length`` in the file, and belong to the part that they start in. The last record
    of a file may be short.

    Args:
        length: bytes in a record.
        partial: ``"keep"`` a short last record, or make it an ``"error"``.
        options: as for `FixedFn`: ``with_position``, ``with_block_id``, ``block_size``, ``storage_options``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        ReadError: when it runs, for a short record with ``partial="error"``.

    Source: FixedWidthBlockReader of Apache Apex Malhar, FixedLengthInputFormat of Apache Hadoop.
    """

    def __init__(self, length: int, *, partial: str = "keep", **options: Any) -> None:
        super().__init__(length, **options)
        if partial not in ("keep", "error"):
            raise InvalidValueError(f"ReadRecords partial must be 'keep' or 'error' (got {show(partial)}).")
        self.partial = partial

    def span(self, restriction: FileRange, cell: int, end: int) -> tuple[int, int]:
        length, size = self.length, restriction.file.size
        start, stop = (-(-position // length) * length for position in (cell, end))
        if stop > size and start < size and self.partial == "error":
            last = stop - length
            raise ReadError(
                f"{restriction.file.path} at byte {last}: the last record has {size - last} bytes, ReadRecords expects "
                f"{length}. If the length is right the file is cut off; partial='keep' reads it all the same."
            )
        return start, min(stop, size)


class ReadSlices(FixedFn):
    """Cuts blocks into slices. Element: a path, `FileInfo` or `FileBlock`. Position: the first byte of a cell.

    A block is a part of ``block_size`` bytes of the element if that is set, else the element, if that is a `FileBlock`,
    or the whole file. Slices start at the multiples of ``length`` in their block. The last slice of a block may be
    short: for a length of 4, 13 bytes in blocks of 10 give slices of 4, 4, 2 and 3.

    Args:
        length: bytes in a slice; by default 1 MiB. Memory holds a whole slice.
        options: as for `FixedFn`: ``with_position``, ``with_block_id``, ``block_size``, ``storage_options``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.

    Source: FSSliceReader of Apache Apex Malhar.
    """

    def __init__(self, length: int = _SLICE_BYTES, **options: Any) -> None:
        super().__init__(length, **options)

    def span(self, restriction: FileRange, cell: int, end: int) -> tuple[int, int]:
        return cell, end
