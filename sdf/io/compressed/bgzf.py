"""BGZF, blocked gzip: finds its blocks and decompresses them.

A block is a gzip member of at most 64 KiB. Its header states the size of the block, so one block leads to the next.
Bytes that look like a header need not be one: incompressible data is stored as it is, for example the blocks of another
BGZF file. But a chain of such inner headers breaks where the block around them ends. So a reader that starts inside of
a file looks for headers in the 64 KiB before its start, in which a block must begin. It takes the first header whose
chain is unbroken until 64 KiB after the start. If there is none, the file is damaged.

Source: the SAM/BAM specification, "The BGZF compression format".
"""

from __future__ import annotations

import io
import zlib

from sdf.io.compressed.blocks import CompressedBlocks

__all__ = ["BgzfBlocks", "block_size", "has_end_marker"]

_MAGIC = b"\x1f\x8b\x08\x04"  # gzip, deflate, with an extra field
_MOST_BYTES = 1 << 16
_END_MARKER = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")  # a block of no text
_USUAL_HEAD_BYTES = 18  # of a header with BGZF's extra field only


class BgzfBlocks(CompressedBlocks):
    """The blocks of a BGZF file. Position: the first byte of a block."""

    shift = 16
    besides = ", or parts of it are plain gzip; those compression='gzip' reads"

    _position = 0

    def at_or_after(self, start: int, stop: int) -> int:
        self.is_first = start == 0
        self._position = self._find(start) if start else 0
        return self._position

    def _find(self, start: int) -> int:
        begin = max(0, start - _MOST_BYTES)
        window = self._read(begin, start + 2 * _MOST_BYTES - begin)  # a header is no longer than a block
        if begin == 0:
            found = self._follow(window, 0, 0, start)  # a block begins with the file
            return self._damaged(0, f"no unbroken chain of blocks leads to byte {start}") if found is None else found
        at = window.find(_MAGIC)
        while 0 <= at <= start - begin:
            found = self._follow(window, begin, at, start)
            if found is not None:
                return found
            at = window.find(_MAGIC, at + 1)
        return self._damaged(start, "no unbroken chain of blocks leads here")

    def _follow(self, window: bytes, begin: int, at: int, start: int) -> int | None:
        """Return the first block at or after ``start`` in the chain from ``at`` on; None if that breaks too early."""
        found = None
        while begin + at < min(start + _MOST_BYTES, self.size):
            if found is None and begin + at >= start:
                found = begin + at
            size = block_size(window, at)
            if size is None:
                return None
            at += size
        if begin + at > self.size:
            return None
        return begin + at if found is None else found

    def read(self) -> tuple[bytes, int]:
        position = self._position
        head = self._read(position, _USUAL_HEAD_BYTES)
        head += self._file.read(max(0, _head_size(head, 0) - len(head)))
        size = block_size(head)
        if size is None:
            self._damaged(position, "no block begins here")
        decompressor = zlib.decompressobj(31)
        try:
            text = decompressor.decompress(head + self._file.read(size - len(head)))  # verifies the checksum too
        except zlib.error as error:
            self._damaged(position, str(error), error)
        if not decompressor.eof or decompressor.unused_data:
            self._damaged(position, f"this block is not one of {size} bytes, as it says")
        self._position = position + size
        return text, self._position


def block_size(data: bytes, at: int = 0) -> int | None:
    """Return the size of the BGZF block that begins at ``at``; None if none does or ``data`` cuts off its header."""
    stop = at + _head_size(data, at)
    if not data.startswith(_MAGIC, at) or len(data) < stop:
        return None
    field = at + 12
    while field + 4 <= stop:
        length = int.from_bytes(data[field + 2 : field + 4], "little")
        if data[field : field + 2] == b"BC" and length == 2:
            size = int.from_bytes(data[field + 4 : field + 6], "little") + 1
            return size if size > stop - at else None
        field += 4 + length
    return None


def has_end_marker(file: io.BufferedReader, size: int) -> bool:
    """Return whether a file ends in the block of no text that whoever writes BGZF adds at the end."""
    file.seek(max(0, size - len(_END_MARKER)))
    return file.read() == _END_MARKER


def _head_size(data: bytes, at: int) -> int:
    return 12 + int.from_bytes(data[at + 10 : at + 12], "little")
