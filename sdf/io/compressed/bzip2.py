"""bzip2: where its blocks begin, and what one of them holds.

A block begins with 48 bits that stand for pi, at any bit of a byte, and nothing says how long it is: it ends where the
next begins, or its stream does, which 48 bits of the square root of pi say. Both are searched for as bytes, once for
each of the eight places in a byte where they can begin. That costs 7% of what decompressing costs; a library for arrays
of bits would need 50%. A block is then decompressed as a stream of its own, made of a header, its bits, an end and its
own checksum, as parallel decompressors of bzip2 do. So its checksum also tells blocks from what looks like one.

Bits that look like the beginning of a block, inside of another, are found out: what follows them cannot be
decompressed, and a block before them goes on past them. If none does, the file is damaged. What is not found out is a
whole block, its checksum included, that somebody put inside of another on purpose.
"""

from __future__ import annotations

import bz2
import io
from collections.abc import Iterator

import attrs

from sdf.errors import ReadError

__all__ = ["Bzip2Blocks"]

_BLOCK = 0x314159265359
_END = 0x177245385090
_MAGIC_BITS = 48
_EMPTY_STREAM_BITS = 8 * 14  # a header of 4 bytes, an end and a checksum
_LEAST_BYTES = 1 << 12
_SCAN_BYTES = 1 << 20
_MOST_BYTES = 3 << 20  # no block is longer: it has at most 900,000 symbols of at most 20 bits
_MOST_ENDS = 8  # of a block, before it is held for damaged; one that is not the right one comes once in 2**48 bits


@attrs.frozen
class _Decoded:
    text: bytes
    end: int  # the bit after its last


class Bzip2Blocks:
    """The blocks of a bzip2 file, of one stream or several. Position: the byte in which a block's first bit lies.

    Stricter than Python's bz2, which leaves out what follows the last stream and is no other: that is an error here.

    Args:
        file: the compressed file.
        size: of it.
        path: of it, for messages.
    """

    shift = 26  # a block of 900,000 bytes, in which 5 can stand for 259, holds up to 47 million

    def __init__(self, file: io.BufferedReader, size: int, path: str) -> None:
        self._file = file
        self._path = path
        self._bit = 0  # where the next block begins
        self._decoded: _Decoded | None = None  # that block, if it is known already
        self.size = size
        self.is_first = False

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
            raise ReadError(
                f"{self._path} at byte {self._bit // 8}: this bzip2 block cannot be decompressed. The file is damaged "
                f"or cut off."
            )
        self._decoded = None
        self._bit = self._after(decoded.end)
        return decoded.text, self._bit // 8

    def _read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size)

    def _first_of_stream(self, start: int) -> int:
        """Return where the first block of the stream at a byte begins; the end of the file if none has any.

        Raises:
            ReadError: if no stream begins there.
        """
        header = self._read(start, 4)
        if header[:3] == b"BZh" and header[3:].isdigit() and header[3:] != b"0":
            return self._after(8 * (start + 4))
        if start:
            raise ReadError(
                f"{self._path} at byte {start}: bytes behind the last stream, which are no bzip2 stream. The file is "
                f"damaged or cut off, or something was appended to it."
            )
        raise ReadError(
            f"{self._path} at byte {start}: no bzip2 stream begins here. The file is damaged or cut off, or it is not "
            f"one of bzip2; compression=None reads a file as it is."
        )

    def _after(self, bit: int) -> int:
        """Return where the next block begins, from where a block or the header of a stream has ended."""
        start = bit // 8
        follows = int.from_bytes(self._read(start, 7).ljust(7, b"\0"), "big") >> (8 - bit % 8) & (1 << _MAGIC_BITS) - 1
        if follows == _BLOCK:
            return bit
        after = -(-(bit + _MAGIC_BITS + 32) // 8)  # an end, a checksum, and bits that fill the byte
        if follows != _END:
            raise ReadError(
                f"{self._path} at byte {start}: neither a bzip2 block nor the end of a stream. The file is damaged or "
                f"cut off."
            )
        if after > self.size:
            raise ReadError(
                f"{self._path} at byte {start}: the checksum of the stream that ends here is not all there. The file "
                f"is cut off."
            )
        return 8 * self.size if after == self.size else self._first_of_stream(after)

    def _decode(self, bit: int) -> _Decoded | None:
        """Decompress the block that begins at a bit; None if there is none, or it is damaged."""
        for tried, (end, data) in enumerate(self._ends(bit)):
            text = _decompress(data, bit % 8, end - bit)
            if text is not None:
                return _Decoded(text, end)
            if tried == _MOST_ENDS:
                break
        return None

    def _ends(self, bit: int) -> Iterator[tuple[int, bytes]]:
        """Yield where the block at a bit may end, with the bytes from its first on, up to there or more."""
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
        """Tell whether a bit is inside of a block, and so is not the beginning of one."""
        before = [found for found in self._blocks_in(max(0, bit // 8 - _MOST_BYTES), bit // 8 + 1) if found < bit]
        for found in reversed(before):
            decoded = self._decode(found)
            if decoded is not None:
                return decoded.end > bit
        return False


def _search(data: bytes, magic: int, start: int) -> list[int]:
    """Return at which bits a magic number of 48 bits is found, from a byte on."""
    found = []
    for shift in range(8):
        shifted = (magic << 8 - shift).to_bytes(7, "big")
        whole = shifted[:6] if shift == 0 else shifted[1:6]  # the bytes that are all its own
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
    """Return what a block of ``size`` bits holds that begins at bit ``start`` of some bytes; None if that is none."""
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
    except OSError:  # how it says that the data is invalid
        return None
    return text if decompressor.eof and not decompressor.unused_data else None
