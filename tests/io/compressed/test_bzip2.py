"""bzip2: where blocks begin, what looks like one, and what is damaged."""

import bz2
import contextlib
import io
import random
import re
from pathlib import Path

import pytest
from support.compressed_files import bzip2, read_cut, read_part, restriction_of

from sdf.errors import ReadError
from sdf.io import ReadLines
from sdf.io.compressed.bzip2 import Bzip2Blocks

BLOCK = 0x314159265359
END = 0x177245385090
FN = ReadLines(encoding=None)


class Bits:
    """Bits, written one number after the other."""

    def __init__(self):
        self.value = self.size = 0

    def add(self, value, size):
        self.value = self.value << size | value
        self.size += size

    def bytes(self):
        return (self.value << -self.size % 8).to_bytes(-(-self.size // 8), "big")


def checksum(data):
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte << 24
        for _ in range(8):
            register = (register << 1 ^ (0x04C11DB7 if register >> 31 else 0)) & 0xFFFFFFFF
    return register ^ 0xFFFFFFFF


def crafted_stream(symbols, check=0):
    """Return a stream of one block in which symbols, none of them 255, stand as they are: their codes have 8 bits."""
    bits = Bits()
    bits.add(int.from_bytes(b"BZh1", "big"), 32)
    bits.add(BLOCK, 48)
    bits.add(check, 32)
    bits.add(0, 1 + 24)  # not randomised, the text begins in row 0
    bits.add(0xFFFF, 16)
    for row in range(16):
        bits.add(0xFFFF if row < 15 else 0xFFFC, 16)  # of the 256 bytes all but two are used, so there are 256 symbols
    selectors = (len(symbols) + 1 + 49) // 50
    bits.add(2, 3)
    bits.add(selectors, 15)
    bits.add(0, selectors)
    for _ in range(2):
        bits.add(8, 5)
        bits.add(0, 256)
    for symbol in [*symbols, 255]:
        bits.add(symbol, 8)
    bits.add(END, 48)
    bits.add(check, 32)
    return bits.bytes()


def looks_like_blocks(inside):
    """Return a stream that holds some bytes in the middle of its block."""
    draw = random.Random(1)
    symbols = bytes(draw.randrange(2, 255) for _ in range(40))
    symbols += inside + symbols
    decompressor, text, data = bz2.BZ2Decompressor(), b"", crafted_stream(symbols)
    with contextlib.suppress(OSError):  # the checksum is wrong; until the last byte the text is given all the same
        while True:
            text += decompressor.decompress(data, 1)
            data = b""
    for last in range(256):
        data = crafted_stream(symbols, checksum(text + bytes([last])))
        with contextlib.suppress(OSError):
            bz2.decompress(data)
            return data
    raise AssertionError


@pytest.fixture
def write(tmp_path):
    def write(data):
        path = tmp_path / "file.bz2"
        path.write_bytes(data)
        return str(path)

    return write


def blocks_of(data, start=0):
    """Return the positions of the blocks, and what they hold, read on from a position."""
    blocks = Bzip2Blocks(io.BufferedReader(io.BytesIO(data)), len(data), "x")
    position = blocks.at_or_after(start, len(data))
    found = []
    while position < len(data):
        text, after = blocks.read()
        found.append((position, text))
        position = after
    return found


LINES = random.Random(2).randbytes(310_000).hex().encode().replace(b"7", b"\n")
MULTI = bz2.compress(LINES, 1)


def test_blocks_of_one_stream_are_found_at_any_bit():
    """Read on from any block, or from the byte after the one before, they are the same."""
    found = blocks_of(MULTI)
    assert b"".join(text for _, text in found) == LINES
    assert len(found) == 7
    for place, (position, _) in enumerate(found):
        assert blocks_of(MULTI, position) == found[place:]
        assert blocks_of(MULTI, position + 1) == found[place + 1 :]


def test_cuts_around_blocks_give_the_records_of_the_whole(write):
    """Of a stream of several blocks, whose records go on from block to block."""
    path = write(MULTI)
    expected = bz2.decompress(MULTI).split(b"\n")
    positions = [position for position, _ in blocks_of(MULTI)]
    for cuts in ([1, 4], [5, 6], positions, [p + 1 for p in positions], [p - 1 for p in positions]):
        assert read_cut(FN, path, *sorted(cuts)) == expected


@pytest.mark.parametrize("size", range(3560, 3640, 4))
def test_end_of_a_block_is_found_across_reads(size):
    """What is read at once first, 4 KiB, may end within the bits that say so."""
    pieces = [random.Random(size).randbytes(size), b"next"]
    found = blocks_of(bzip2(pieces))
    assert [text for _, text in found] == pieces


@pytest.mark.parametrize("scanned", [1, 5, 64])
def test_start_of_a_block_is_found_across_reads(monkeypatch, scanned):
    """So also where a part looks for its first block."""
    monkeypatch.setattr("sdf.io.compressed.bzip2._SCAN_BYTES", scanned)
    data = bzip2([b"a", b"bb", b"ccc"])
    found = blocks_of(data)
    assert blocks_of(data, 5) == found[1:]
    assert blocks_of(data, found[1][0] + 1) == found[2:]


@pytest.mark.parametrize("inside", [BLOCK, END], ids=["block", "end"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_what_looks_like_a_block_inside_of_one_is_none(write, inside, times):
    """A block is only what can be decompressed and has the checksum that it says; so wherever the file is cut."""
    crafted = looks_like_blocks((inside.to_bytes(6, "big") + b"and so on") * times)
    data = bz2.compress(b"a\nb\n") + crafted + bz2.compress(b"c\nd")
    text = bz2.decompress(data)
    assert len(blocks_of(data)) == 3
    path = write(data)
    fn = ReadLines(encoding=None, delimiter=b"\n")
    for cut in range(1, len(data)):
        assert b"\n".join(read_cut(fn, path, cut)) == text, cut


def test_a_damaged_block_is_not_taken_for_something_inside_of_another(write):
    """A part that begins with it raises, although the part before it read everything before it."""
    pieces = [b"one\n" * 9, b"two\n" * 9, b"three\n" * 9]
    data = bytearray(bzip2(pieces))
    position = blocks_of(bytes(data))[1][0]
    data[position + 20] ^= 1
    path = write(bytes(data))
    whole = restriction_of(FN, path)
    for start in (position - 3, position):
        with pytest.raises(ReadError, match=re.escape(f"{path} at byte {position}: this bzip2 block cannot be")):
            read_part(FN, path, type(whole)(start, whole.stop, whole.file, whole.codec))


def test_streams_without_blocks_before_the_first_are_no_blocks(write):
    """What begins after them is the first block of the file, also for a part that does not begin at its start."""
    data = bz2.compress(b"") * 3 + bz2.compress(b"a\nb\n") + bz2.compress(b"") + bz2.compress(b"c\n")
    path = write(data)
    for cut in range(1, len(data)):
        assert read_cut(FN, path, cut) == [b"a", b"b", b"c"], cut


def test_position_of_a_record_is_that_of_its_block_and_its_place_there(write):
    """The first block counts as 0."""
    path = write(bzip2([b"a\nb", b"b\nc\n", b"d\n"]))
    fn = ReadLines(with_position=True)
    given = read_part(fn, path, restriction_of(fn, path))
    second, third = (position for position, _ in blocks_of(Path(path).read_bytes())[1:])
    assert given == [
        ((path, 0), "a"),
        ((path, 2), "bb"),
        ((path, (second << 26) + 2), "c"),
        ((path, third << 26), "d"),
    ]


def test_a_block_of_runs_fits_into_the_bits_for_its_place():
    """900,000 bytes, in which runs are counted, may stand for 46 million."""
    text = b"\0" * 45_800_000
    found = blocks_of(bz2.compress(text, 9))
    assert len(found[0][1]) > 1 << 25
    assert len(found[0][1]) < 1 << Bzip2Blocks.shift
    assert b"".join(text for _, text in found) == text


@pytest.mark.parametrize("junk", [b"\0", b"junk after the end", b"BZh9", b"BZh0" + bytes(20)])
def test_what_follows_the_last_stream_is_an_error(write, junk):
    """It may be all that is left of another stream."""
    path = write(bz2.compress(b"a\n") + junk)
    with pytest.raises(ReadError, match="is damaged or cut off"):
        read_part(FN, path, restriction_of(FN, path))


def test_what_follows_the_last_stream_is_called_that(write):
    """With its place."""
    stream = bz2.compress(b"a\n")
    path = write(stream + b"junk")
    with pytest.raises(ReadError, match=f"at byte {len(stream)}: bytes behind the last stream, which are no bzip2"):
        read_part(FN, path, restriction_of(FN, path))


@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_a_checksum_that_is_cut_off_is_called_that(write, lost):
    """The place is one in the file."""
    stream = bz2.compress(b"a\n")
    path = write(stream[:-lost])
    with pytest.raises(ReadError, match="the checksum of the stream that ends here is not all there") as raised:
        read_part(FN, path, restriction_of(FN, path))
    assert int(re.search(r"at byte (\d+):", str(raised.value))[1]) < len(stream) - lost
