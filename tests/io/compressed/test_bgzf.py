"""BGZF: where blocks begin, what looks like one, and what is damaged."""

import gzip
import io
import random
import re
from itertools import pairwise

import pytest
from support.compressed_files import BGZF_END, bgzf, bgzf_block, read_cut, read_part, restriction_of

from sdf.errors import ReadError
from sdf.io import ReadLines
from sdf.io.compressed.bgzf import BgzfBlocks, block_size

FN = ReadLines(encoding=None)
HEX = random.Random(5).randbytes(300_000).hex().encode().replace(b"7", b"\n")


@pytest.fixture
def write(tmp_path):
    def write(data):
        path = tmp_path / "file.bgz"
        path.write_bytes(data)
        return str(path)

    return write


def starts_of(data):
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + block_size(data, starts[-1]))
    return starts


def at_or_after(data, start):
    return BgzfBlocks(io.BufferedReader(io.BytesIO(data)), len(data), "x").at_or_after(start, len(data))


def check_starts(data):
    starts = starts_of(data)
    for before, start in pairwise(starts):
        for position in {before + 1, (before + start) // 2, start - 1, start}:
            assert at_or_after(data, position) == start
        edge = start - (1 << 16) + 1  # what is looked at may end within a head
        if edge > 0:
            assert at_or_after(data, edge) == min(found for found in starts if found >= edge)


def test_blocks_are_found_from_inside_of_a_file():
    """From any byte, one finds the next; the file is larger than what is looked at."""
    check_starts(bgzf([HEX[at : at + 60_000] for at in range(0, len(HEX), 60_000)]))


def test_blocks_that_are_stored_inside_of_blocks_are_none(write):
    """Data that does not get smaller is stored as it is, and that may be another BGZF file."""
    inner = bgzf([HEX[at : at + 3000] for at in range(0, len(HEX), 3000)])
    data = bgzf([inner[at : at + 65_000] for at in range(0, len(inner), 65_000)], level=0)
    assert data.count(BGZF_END[:4]) > 200
    check_starts(data)
    path = write(data)
    fn = ReadLines(encoding=None, delimiter=b"\n")
    for cut in range(5000, len(data), 37_777):
        assert b"\n".join(read_cut(fn, path, cut)) == inner


def test_a_stored_header_that_leads_to_the_next_block_is_none():
    """It does not matter where it says that the next block is: the chain is followed from before it."""
    pieces = [HEX[at : at + 65_000] for at in range(0, 520_000, 65_000)]
    fakes = []
    for piece in pieces:
        fake = bytearray(bgzf_block(b""))[:18]
        size = 65_000 - 30_000 + 5 + 8  # an empty stored block, checksum and size
        fake[16:18] = (size - 1).to_bytes(2, "little")
        fakes.append(piece[:30_000] + bytes(fake) + piece[30_018:])
    data = bgzf(fakes, level=0)
    starts = starts_of(data)
    place = data.index(fakes[3][30_000:30_018], starts[3])
    assert place + block_size(data, place) == starts[4]
    check_starts(data)
    assert at_or_after(data, place) == starts[4]


def test_a_stored_header_that_leads_past_the_end_is_none():
    """It is the first thing that looks like a block in what is looked at, but its chain does not end with the file."""
    fake = bytearray(bgzf_block(b""))[:18]
    fake[16:18] = b"\xff\xff"
    pieces = [HEX[:60_000], HEX[:40_000] + bytes(fake) + HEX[:25_000], HEX[:900], HEX[:100]]
    data = bgzf(pieces, level=0)
    starts = starts_of(data)
    place = data.index(fake)
    assert starts[1] < starts[3] - (1 << 16) < place
    assert place + (1 << 16) > len(data)
    assert at_or_after(data, starts[3]) == starts[3]


def test_a_block_that_is_shorter_than_it_says_is_an_error(write):
    """What lies between its end and the next block is nothing that anyone wrote."""
    block = bytearray(bgzf_block(b"a\n") + b"junk")
    block[16:18] = (len(block) - 1).to_bytes(2, "little")
    path = write(bytes(block) + BGZF_END)
    with pytest.raises(ReadError, match=re.escape(f"{path} at byte 0: this block is not one of {len(block)} bytes")):
        read_part(FN, path, restriction_of(FN, path))


def test_other_subfields_before_the_one_of_bgzf_are_passed_over(write):
    """The extra field may hold more than the size of the block."""
    extra = b"XY\x03\x00abc" + b"BC\x01\x00z"
    data = bgzf_block(b"a\n", extra=extra) + bgzf_block(b"b\n", extra=extra) + BGZF_END
    assert gzip.decompress(data) == b"a\nb\n"
    path = write(data)
    fn = ReadLines(encoding=None, compression="bgzf")
    for cut in range(len(data)):
        assert read_cut(fn, path, cut) == [b"a", b"b"]


def test_position_of_a_record_is_its_virtual_offset(write):
    """That of its block, shifted by 16 bits, and its place in there."""
    first, second = bgzf_block(b"a\nb"), bgzf_block(b"b\nc\n")
    path = write(first + second + bgzf_block(b"d\n") + BGZF_END)
    fn = ReadLines(with_position=True)
    assert read_part(fn, path, restriction_of(fn, path)) == [
        ((path, 0), "a"),
        ((path, 2), "bb"),
        ((path, (len(first) << 16) + 2), "c"),
        ((path, len(first + second) << 16), "d"),
    ]


def test_a_member_that_is_plain_gzip_is_an_error(write):
    """The message says how to read such a file; nothing after that member is read, wherever one begins."""
    data = bgzf([b"a\n"]) + gzip.compress(b"b\n") + bgzf([b"c\n"])
    path = write(data)
    place = len(bgzf([b"a\n"]))
    message = f"{path} at byte {place}: no block begins here."
    with pytest.raises(ReadError, match=re.escape(message) + r".* compression='gzip' reads"):
        read_part(FN, path, restriction_of(FN, path))
    whole = restriction_of(FN, path)
    for start in range(place + 1, len(data)):
        with pytest.raises(ReadError, match="no unbroken chain of blocks leads to"):
            read_part(FN, path, type(whole)(start, whole.stop, whole.file, whole.codec))


def test_damage_before_or_after_a_start_is_an_error():
    """Nobody could tell which of two chains is the right one."""
    data = bytearray(bgzf([HEX[at : at + 60_000] for at in range(0, len(HEX), 60_000)]))
    starts = starts_of(bytes(data))
    data[starts[5]] = 0
    with pytest.raises(ReadError, match="no unbroken chain of blocks leads here"):
        at_or_after(bytes(data), starts[4] + 1)


@pytest.mark.parametrize(("end", "note"), [(BGZF_END, ""), (b"", "bgzf: no end marker, the file may be cut off")])
def test_a_file_without_the_end_marker_is_noted(write, end, note):
    """A writer that died between two blocks leaves a file that is whole as far as it goes."""
    path = write(bgzf([b"a\n", b"b\n"], end=end))
    assert restriction_of(FN, path).note == note
    assert read_part(FN, path, restriction_of(FN, path)) == [b"a", b"b"]
