"""Compressed files for the tests: made of pieces, so that it is known where blocks begin, and read in parts."""

import bz2
import struct
import zlib
from itertools import pairwise

import attrs

BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")


def bgzf_block(text, level=6, extra=b""):
    """Return one block; ``extra`` are subfields before the one of BGZF."""
    deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
    body = deflate.compress(text) + deflate.flush()
    size = 12 + len(extra) + 6 + len(body) + 8
    head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<H", len(extra) + 6) + extra
    return head + b"BC" + struct.pack("<HH", 2, size - 1) + body + struct.pack("<II", zlib.crc32(text), len(text))


def bgzf(pieces, level=6, end=BGZF_END):
    return b"".join(bgzf_block(piece, level) for piece in pieces) + end


def bzip2(pieces):
    """Return one stream for each piece, of levels 1 to 9 in turn."""
    return b"".join(bz2.compress(piece, 1 + place % 9) for place, piece in enumerate(pieces))


def read_part(fn, element, part):
    """Return what a part gives; it must have been read to its end."""
    tracker = fn.create_tracker(element, part)
    outputs = list(fn.process(element, tracker))
    tracker.check_done()
    return outputs


def restriction_of(fn, element):
    return fn.get_initial_restriction(element)


def read_cut(fn, element, *cuts):
    """Return what the parts of an element give that come of cutting its restriction at positions."""
    whole = restriction_of(fn, element)
    ends = [whole.start, *cuts, whole.stop]
    parts = [attrs.evolve(whole, start=start, stop=stop) for start, stop in pairwise(ends)]
    return [output for part in parts for output in read_part(fn, element, part)]


def zstd_block(text, last, run=0):
    """Return a block that holds its text as it is, or one byte that stands for a run of so many."""
    size = run or len(text)
    return struct.pack("<I", size << 3 | (2 if run else 0) | last)[:3] + text


def zstd_frame(blocks, checksum=b""):
    """Return a frame of blocks that hold their texts as they are; a text and a number is a run of one byte."""
    parts = [block if isinstance(block, tuple) else (block, 0) for block in blocks]
    body = [zstd_block(text, place == len(parts) - 1, run) for place, (text, run) in enumerate(parts)]
    return b"\x28\xb5\x2f\xfd" + (b"\x04" if checksum else b"\0") + b"\x58" + b"".join(body) + checksum


def zstd_skippable(content, number=0):
    return bytes([0x50 + number]) + b"\x2a\x4d\x18" + struct.pack("<I", len(content)) + content
