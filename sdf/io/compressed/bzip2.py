"""bzip2: finds its blocks and decompresses them.

A block begins with the 48 bits of pi, at any bit of a byte. Nothing states its size: it ends where the next block
begins, or where its stream ends, which the 48 bits of the square root of pi mark. The search for both looks for bytes,
once for each of the eight bits of a byte where they can begin. It costs 7% of the time of decompressing; a library for
bit arrays would cost 50%. A block is then decompressed as a stream of its own: a header, the bits of the block, an end
mark and the block's checksum. Parallel bzip2 decompressors do the same. The checksum also rejects false blocks.

A false block mark inside a real block is detected: the bits after it cannot be decompressed, and an earlier block goes
on past it. If no earlier block does, the file is damaged. Not detected is a whole block with a valid checksum that
somebody put inside another one on purpose.
"""

from __future__ import annotations

import bz2
from collections.abc import Iterator

from sdf.errors import ReadError
from sdf.io.compressed.blocks import NOT_PACKED, CompressedBlocks

__all__ = ["Bzip2Blocks"]

_BLOCK = 0x314159265359
_END = 0x177245385090
_MAGIC_BITS = 48
_EMPTY_STREAM_BITS = 8 * 14  # a header of 4 bytes, an end mark of 6, a checksum of 4
_LEAST_BYTES = 1 << 8  # appended batches may be small streams: of more bytes, most is searched for each of them
_SCAN_BYTES = 1 << 20
_MOST_BYTES = 3 << 20  # no block is longer: it has at most 900,000 symbols of at most 20 bits
_MOST_ENDS = 8  # false ends, after the first, that make a block count as damaged; one is expected every 2**48 bits


_Decoded = tuple[bytes, int]  # the text of a block, and the bit after its last bit


class Bzip2Blocks(CompressedBlocks):
    """The blocks of a bzip2 file, of one stream or several. Position: the byte in which a block's first bit lies.

    Other bytes after the last stream are an error. Python's bz2 ignores them.
    """

    shift = 26  # a block of 900,000 bytes, of which 5 can stand for 259, gives up to 47 million bytes of text

    _bit = 0  # where the next block begins
    _decoded: _Decoded | None = None  # that block, if it is decompressed already

    def at_or_after(self, start: int, stop: int) -> int:
        self.is_first = start == 0
        if start == 0:
            self._bit = self._first_of_stream(0)
            return self._bit // 8
        for bit in self._blocks_in(start, stop):
            if bit % _EMPTY_STREAM_BITS == 8 * 4 and bit == self._first_of_stream(0):
                self.is_first = True
            decoded = self._decode(bit)
            if decoded is not None or not self._is_inside(bit):
                self._bit, self._decoded = bit, decoded
                return bit // 8
        return stop

    def read(self) -> tuple[bytes, int]:
        decoded = self._decoded or self._decode(self._bit)
        if decoded is None:
            self._damaged(self._bit // 8, "this bzip2 block cannot be decompressed")
        self._decoded = None
        text, end = decoded
        self._bit = self._after(end)
        return text, self._bit // 8

    def _first_of_stream(self, start: int) -> int:
        """Return the bit of the first block in the stream at a byte or in later streams; the end of the file if none.

        Raises:
            ReadError: if no stream begins at the byte.
        """
        header = self._read(start, 4)
        if header[:3] == b"BZh" and header[3:].isdigit() and header[3:] != b"0":
            return self._after(8 * (start + 4))
        if start:
            flaw = "bytes behind the last stream, which are no bzip2 stream"
            return self._damaged(start, flaw, besides=", or something was appended to it")
        besides = f", or {NOT_PACKED['bzip2']}"
        return self._damaged(start, "no bzip2 stream begins here", besides=besides)

    def _after(self, bit: int) -> int:
        """Return the bit where the next block begins; ``bit`` is where a block or the header of a stream ends."""
        start = bit // 8
        follows = int.from_bytes(self._read(start, 7).ljust(7, b"\0"), "big") >> (8 - bit % 8) & (1 << _MAGIC_BITS) - 1
        if follows == _BLOCK:
            return bit
        after = -(-(bit + _MAGIC_BITS + 32) // 8)  # an end mark, a checksum, and bits that fill the byte
        if follows != _END:
            self._damaged(start, "neither a bzip2 block nor the end of a stream")
        if after > self.size:
            raise ReadError(
                f"{self._path} at byte {start}: the checksum of the stream that ends here is not all there. The file "
                f"is cut off."
            )
        return 8 * self.size if after == self.size else self._first_of_stream(after)

    def _decode(self, bit: int) -> _Decoded | None:
        """Decompress the block that begins at a bit; return None if no block does, or it is damaged."""
        for tried, (end, data) in enumerate(self._ends(bit)):
            text = _decompress(data, bit % 8, end - bit)
            if text is not None:
                return text, end
            if tried == _MOST_ENDS:
                break
        return None

    def _ends(self, bit: int) -> Iterator[tuple[int, bytes]]:
        """Yield the bits where the block at a bit may end, each with the bytes from its first up to there or more."""
        start = bit // 8
        data = b""
        found = bit
        while len(data) < _MOST_BYTES:
            searched = max(0, len(data) - 6)
            more = self._read(start + len(data), max(_LEAST_BYTES, 3 * len(data)))
            if not more:
                return
            data += more
            for at in sorted(_search(data, _BLOCK, searched) + _search(data, _END, searched)):
                if 8 * start + at > found:
                    found = 8 * start + at
                    yield found, data

    def _blocks_in(self, start: int, stop: int) -> Iterator[int]:
        """Yield the bits in bytes ``[start, stop)`` at which a block seems to begin."""
        while start < stop:
            size = min(_SCAN_BYTES, stop - start)
            data = self._read(start, size + 6)
            yield from (8 * start + at for at in sorted(_search(data, _BLOCK, 0)) if at < 8 * size)
            start += size

    def _is_inside(self, bit: int) -> bool:
        """Return whether a bit lies inside a block, so that no block begins there."""
        before = [found for found in self._blocks_in(max(0, bit // 8 - _MOST_BYTES), bit // 8 + 1) if found < bit]
        for found in reversed(before):
            decoded = self._decode(found)
            if decoded is not None:
                _, end = decoded
                return end > bit
        return False


def _search(data: bytes, magic: int, start: int) -> list[int]:
    """Return the bits where a magic number of 48 bits begins, searching from byte ``start`` on."""
    found = []
    for shift in range(8):
        shifted = (magic << 8 - shift).to_bytes(7, "big")
        whole = shifted[:6] if shift == 0 else shifted[1:6]  # the bytes that hold bits of the magic number only
        lead = 0 if shift == 0 else 1
        at = data.find(whole, start + lead)
        while at >= 0:
            begin = at - lead
            bits = int.from_bytes(data[begin : begin + 7].ljust(7, b"\0"), "big")
            if bits >> 8 - shift & (1 << _MAGIC_BITS) - 1 == magic and 8 * begin + shift + _MAGIC_BITS <= 8 * len(data):
                found.append(8 * begin + shift)
            at = data.find(whole, at + 1)
    return found


def _decompress(data: bytes, start: int, size: int) -> bytes | None:
    """Return the text of the block of ``size`` bits at bit ``start`` of ``data``; None if no block is there."""
    if size < _MAGIC_BITS + 32:
        return None
    stop = start + size
    bits = int.from_bytes(data[: -(-stop // 8)], "big") >> -stop % 8 & (1 << size) - 1
    checksum = bits >> size - _MAGIC_BITS - 32 & (1 << 32) - 1
    stream = (bits << _MAGIC_BITS | _END) << 32 | checksum  # the checksum of a stream of one block is the block's
    size += _MAGIC_BITS + 32
    decompressor = bz2.BZ2Decompressor()
    try:
        text = decompressor.decompress(b"BZh9" + (stream << -size % 8).to_bytes(-(-size // 8), "big"))
    except OSError:  # the data is invalid
        return None
    return text if decompressor.eof and not decompressor.unused_data else None
