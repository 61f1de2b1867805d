"""Text in compressed blocks: which records belong to which block, and how they are read.

A record belongs to the block that holds the first byte of the delimiter before it; the first record of a file belongs
to the first block. So a part looks for the first delimiter that begins in its blocks, never at what lies before, and
reads on into the blocks after its last one until that one's last record has ended. Whether a delimiter begins in a
block does not depend on how the file was split, since no two delimiters can overlap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

import attrs

from sdf.io.text.delimited import Delimited

__all__ = ["Block", "BlockText", "Blocks", "read_blocks"]


class Blocks(Protocol):
    """A compressed file: finds its blocks and decompresses one after the other.

    Attributes:
        shift: how many bits of a record's position are for its place in its block.
        is_first: whether the block found by `at_or_after` is the first of the file.
        size: of the file; also the position of the block after the last.
    """

    shift: int
    is_first: bool
    size: int

    def at_or_after(self, start: int, stop: int) -> int:
        """Return the position of the first block in ``[start, stop)``, and go there; ``stop`` or more if none is."""

    def read(self) -> tuple[bytes, int]:
        """Return what the block holds at which it stands, and the position of the next, and go there.

        Raises:
            ReadError: naming file and position, if the block is damaged or no other follows it.
        """


@attrs.frozen
class Block:
    """A decompressed block: ``[start, stop)`` of the text that begins where a part begins.

    Attributes:
        position: of the block in the compressed file.
        start: of its first byte.
        stop: after its last byte.
        after: the position of the next block.
    """

    position: int
    start: int
    stop: int
    after: int


class BlockText:
    """What blocks hold, from one on to the end of the file, as a stream; each is decompressed once.

    Args:
        blocks: they stand at ``position``.
        position: of the block to begin with.
    """

    def __init__(self, blocks: Blocks, position: int) -> None:
        self._blocks = blocks
        self._after = position
        self._known: deque[Block] = deque()  # decompressed blocks, from the one claimed last on
        self._stop = 0
        self._ahead = b""  # decompressed and not read

    def next_block(self) -> Block:
        """Return the block after the one returned before."""
        if self._known:
            self._known.popleft()
        if not self._known:
            self._ahead += self._decompress()
        return self._known[0]

    def _decompress(self) -> bytes:
        position = self._after
        text, self._after = self._blocks.read()
        start, self._stop = self._stop, self._stop + len(text)
        self._known.append(Block(position, start, self._stop, self._after))
        return text

    def position(self, offset: int) -> int:
        """Return the position of a byte that is not before the current block: its block's, shifted, plus its place.

        The first byte of a file has position 0, wherever its block begins: a reader of records knows the first of a
        file by that.
        """
        if self._blocks.is_first and offset == 0:
            return 0
        block = next(block for block in self._known if offset < block.stop)
        return (block.position << self._blocks.shift) + offset - block.start

    def peek(self, size: int) -> bytes:
        """Return what `read` would."""
        pieces = [self._ahead]
        known = len(self._ahead)
        while known < size and self._after < self._blocks.size:
            pieces.append(self._decompress())
            known += len(pieces[-1])
        self._ahead = b"".join(pieces)
        return self._ahead[:size]

    def read(self, size: int, /) -> bytes:
        data = self.peek(size)
        self._ahead = self._ahead[len(data) :]
        return data

    def readline(self, size: int, /) -> bytes:
        pieces = []
        while size and self.peek(1):
            end = self._ahead.find(b"\n", 0, size) + 1 or min(size, len(self._ahead))
            pieces.append(self.read(end))
            size -= end
            if pieces[-1].endswith(b"\n"):
                break
        return b"".join(pieces)


def read_blocks(blocks: Blocks, tracker: Any, delimiter: bytes, longest: int, path: str) -> Iterator[tuple[int, bytes]]:
    """Claim one block after the other and yield its records, with the position of the first.

    Those that begin in a later block, since only the delimiter before them begins in the claimed one, come apart from
    the others, so that positions within one yield can be counted on from its first.

    Args:
        blocks: of the file.
        tracker: of the part to read; its positions are those of blocks.
        delimiter: ends a record.
        longest: how many bytes a record may have.
        path: of the file.
    """
    start, stop = tracker.current_restriction().start, tracker.current_restriction().stop
    position = blocks.at_or_after(start, stop)
    text = BlockText(blocks, position)
    where = f"{path}, counted in the text from compressed byte {position} on"
    records = Delimited(text, 0, delimiter, longest, where) if blocks.is_first else None
    while tracker.try_claim(position):
        block = text.next_block()
        if records is None:
            size = block.stop - block.start
            found = text.peek(size + len(delimiter) - 1).find(delimiter)
            text.read(size if found < 0 else found + len(delimiter))
            if found >= 0:
                records = Delimited(text, block.start + found + len(delimiter), delimiter, longest, where)
        if records is not None:
            yield from _records_of(block, text, records, delimiter)
        position = block.after


def _records_of(block: Block, text: BlockText, records: Delimited, delimiter: bytes) -> Iterator[tuple[int, bytes]]:
    start = records.at
    data = records.read(max(start, block.stop + len(delimiter)))
    apart = 0  # where the record begins that begins after the block; it is the last, if there is one
    if start < block.stop:
        found = data.find(delimiter, max(0, block.stop - start - len(delimiter)))
        apart = found + len(delimiter) if 0 <= found < block.stop - start else len(data)
    for begin, piece in ((0, data[:apart]), (apart, data[apart:])):
        if piece:
            yield text.position(start + begin), piece
