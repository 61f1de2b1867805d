"""FileBlocks: the file splitter. It lists the parts of a file and never opens it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sdf.io.files.file_fn import FileBlock, FileFn, FileRange
from sdf.io.options import as_size

__all__ = ["FileBlocks"]

_BLOCK_BYTES = 128 << 20


class FileBlocks(FileFn):
    """Splits files. Element: a path or `FileInfo`. Position: the first byte of a block. Gives `FileBlock`.

    Blocks begin at the multiples of the block size. The last block of a file may be short; an empty file has none.
    Every reader takes a block as its element, and reads the records that start in it.

    Args:
        block_size: bytes in a block; by default 128 MiB, as a block of HDFS has.
        storage_options: arguments for the file system, as fsspec takes them.

    Source: FileSplitter of Apache Apex Malhar.
    """

    def __init__(self, block_size: int = _BLOCK_BYTES, *, storage_options: Mapping[str, Any] | None = None) -> None:
        super().__init__(storage_options=storage_options)
        self.size = as_size(block_size, "FileBlocks block_size")

    def process(self, element: Any, tracker: Any) -> Iterator[FileBlock]:
        restriction: FileRange = tracker.current_restriction()
        file, size = restriction.file, self.size
        start = self.block_from(element, restriction, restriction.start)
        while tracker.try_claim(start):
            before = FileBlock(file, start - size, start).id if start else None
            yield FileBlock(file, start, min(start + size, file.size), before)
            start += size

    def block_from(self, element: Any, restriction: FileRange, position: int) -> int:
        return -(-position // self.size) * self.size
