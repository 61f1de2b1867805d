"""Text in compressed blocks: which records belong to which block, and how they are read.

A record belongs to the block that holds the first byte of the delimiter before it; the first record of a file belongs
to the first block. So a part starts at the first delimiter that begins in its blocks; it never reads earlier blocks.
After its last block it reads on until the last record of that block ends. Delimiters cannot overlap, so whether one
begins in a block does not depend on how the file was split.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import attrs

from sdf.io.compressed.blocks import CompressedBlocks
from sdf.io.text.delimited import Delimited

__all__ = ["Block", "BlockText", "read_blocks"]


@attrs.frozen
class Block:
    """A decompressed block: the bytes ``[start, stop)`` of a text that is counted from the start of a part.

    Attributes:
        position: position of the block in the compressed file.
        start: offset of its first byte in the text.
        stop: offset after its last byte in the text.
        after: position of the next block in the compressed file.
        is_end: whether reading can start at the next block, so that a part may end with this one.
    """

    position: int
    start: int
    stop: int
    after: int
    is_end: bool


class BlockText:
    """The text of blocks, from one block to the end of the file, as a stream; each block is decompressed once.

    Args:
        blocks: the blocks of the file, moved to ``position``.
        position: position of the first block to read.
    """

    def __init__(self, blocks: CompressedBlocks, position: int) -> None:
        self._blocks = blocks
        self._after = position
        self._known: deque[Block] = deque()  # decompressed blocks, from the last claimed one on
        self._stop = 0
        self._text = b""  # what was decompressed last
        self._read = 0  # bytes of it that were read: to cut them off at each read would copy the rest each time

    def claimed(self, tracker: Any) -> Iterator[Block]:
        """Yield the blocks of a part, each after the claim that it belongs to."""
        position = self._after
        while tracker.try_claim(position):
            block = self._next_block()
            yield block
            while not block.is_end:
                block = self._next_block()
                yield block
            position = block.after

    def _next_block(self) -> Block:
        """Return the block after the one returned before."""
        if self._known:
            self._known.popleft()
        if not self._known:
            self._text = self._text[self._read :] + self._decompress()
            self._read = 0
        return self._known[0]

    def _decompress(self) -> bytes:
        position = self._after
        text, self._after = self._blocks.read()
        start, self._stop = self._stop, self._stop + len(text)
        self._known.append(Block(position, start, self._stop, self._after, self._blocks.is_start))
        return text

    def position(self, offset: int) -> int:
        """Return the position ``(block << shift) + place`` of a byte in the current block or a later one.

        The first byte of a file has position 0, wherever its block begins: readers recognize the first record by it.
        """
        if self._blocks.is_first and offset == 0:
            return 0
        block = next(block for block in self._known if offset < block.stop)
        return (block.position << self._blocks.shift) + offset - block.start

    def peek(self, size: int) -> bytes:
        """Return the bytes that `read` would return, without consuming them."""
        known = len(self._text) - self._read
        if known < size and self._after < self._blocks.size:
            pieces = [self._text[self._read :]]
            while known < size and self._after < self._blocks.size:
                pieces.append(self._decompress())
                known += len(pieces[-1])
            self._text, self._read = b"".join(pieces), 0
        return self._text[self._read : self._read + size]

    def read(self, size: int, /) -> bytes:
        data = self.peek(size)
        self._read += len(data)
        return data

    def readline(self, size: int, /) -> bytes:
        pieces = []
        while size and self.peek(1):
            stop = min(self._read + size, len(self._text))
            end = self._text.find(b"\n", self._read, stop) + 1 or stop
            pieces.append(self.read(end - self._read))
            size -= len(pieces[-1])
            if pieces[-1].endswith(b"\n"):
                break
        return b"".join(pieces)


def read_blocks(
    blocks: CompressedBlocks, tracker: Any, delimiter: bytes, longest: int, path: str
) -> Iterator[tuple[int, bytes]]:
    """Claim blocks one after the other and yield their records, with the position of the first.

    A record may begin in a later block if the delimiter before it begins in the claimed block. It is yielded apart from
    the others, so that the position of each record in one yield follows from the first.

    Args:
        blocks: the blocks of the file.
        tracker: tracker of the part to read; its positions are those of blocks.
        delimiter: the bytes that end a record.
        longest: the most bytes that a record may have.
        path: path of the file.
    """
    start, stop = tracker.current_restriction().start, tracker.current_restriction().stop
    position = blocks.at_or_after(start, stop)
    text = BlockText(blocks, position)
    where = f"{path}, counted in the text from compressed byte {position} on"
    records = Delimited(text, 0, delimiter, longest, where) if blocks.is_first else None
    for block in text.claimed(tracker):
        if records is None:
            size = block.stop - block.start
            found = text.peek(size + len(delimiter) - 1).find(delimiter)
            text.read(size if found < 0 else found + len(delimiter))
            if found >= 0:
                records = Delimited(text, block.start + found + len(delimiter), delimiter, longest, where)
        if records is not None:
            yield from _records_of(block, text, records, delimiter)


def _records_of(block: Block, text: BlockText, records: Delimited, delimiter: bytes) -> Iterator[tuple[int, bytes]]:
    start = records.at
    data = records.read(max(start, block.stop + len(delimiter)))
    apart = 0  # start in `data` of the record, the last one, that begins after the block; len(data) if there is none
    if start < block.stop:
        found = data.find(delimiter, max(0, block.stop - start - len(delimiter)))
        apart = found + len(delimiter) if 0 <= found < block.stop - start else len(data)
    for begin, piece in ((0, data[:apart]), (apart, data[apart:])):
        if piece:
            yield text.position(start + begin), piece
