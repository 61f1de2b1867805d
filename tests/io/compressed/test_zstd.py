"""zstd: where frames begin, what looks like one, and what lies between them."""

import io
import random
import re
import shutil
import struct
import subprocess
import tracemalloc
from itertools import accumulate
from pathlib import Path

import pytest
import zstandard
from support.compressed_files import read_cut, read_part, restriction_of, zstd_frame, zstd_skippable

from sdf import run_direct
from sdf.errors import ReadError
from sdf.io import FileBlocks, ReadCsv, ReadJsonLines, ReadLines
from sdf.io.compressed import compression, zstd
from sdf.io.compressed.zstd import ZstdFrames
from sdf.testing import check_dofn

FN = ReadLines(encoding=None)
DRAW = random.Random(5)
MORE = pytest.mark.slow("the same test with fewer files")
HEX = DRAW.randbytes(3 << 20).hex().encode().replace(b"7", b"\n")


@pytest.fixture
def write(tmp_path):
    def write(data):
        path = tmp_path / "file.zst"
        path.write_bytes(data)
        return str(path)

    return write


def unpack(data):
    """Return the text, as the library reads it."""
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read()


def at_or_after(data, start):
    return ZstdFrames(io.BufferedReader(io.BytesIO(data)), len(data), "x").at_or_after(start, len(data))


def check_starts(data, starts, positions):
    """Look for the first frame from each of some positions."""
    for position in positions:
        assert at_or_after(data, position) == min(at for at in [*starts, len(data)] if at >= position), position


def joined(pieces):
    """Return a file of frames and skippable frames, and where its frames begin."""
    starts = accumulate(map(len, pieces[:-1]), initial=0)
    return b"".join(pieces), [at for at, piece in zip(starts, pieces, strict=True) if piece.startswith(b"\x28\xb5")]


def around(starts, data):
    return sorted({at + more for at in starts for more in (-9, -1, 0, 1, 9) if 0 <= at + more <= len(data)})


# Where frames begin


def test_frames_are_found_from_inside_of_a_file():
    """From any byte, one finds the next; the file is larger than what is looked at."""
    compress = zstandard.ZstdCompressor(level=1, write_checksum=True).compress
    data, starts = joined([compress(HEX[at : at + 400_000]) for at in range(0, len(HEX), 400_000)])
    assert len(data) > 2 * zstd._BACK_BYTES
    check_starts(data, starts, [*around(starts, data), *range(0, len(data), 299_993)])


@pytest.mark.parametrize("checksum", [b"", b"1234"])
def test_large_frames_are_found_without_looking_far_back(monkeypatch, checksum):
    """Whether a checksum ends the frame is told by its header, which nobody has to see."""
    blocks = [DRAW.randbytes(100_000) for _ in range(40)]
    data, starts = joined([zstd_frame(blocks, checksum) for _ in range(3)])
    chains = ZstdFrames._chains
    looks = []
    monkeypatch.setattr(ZstdFrames, "_chains", lambda *given: looks.append(given) or chains(*given))
    check_starts(data, starts, [starts[1] - 9, starts[2] - 9, starts[2]])
    assert len(looks) == 3


@pytest.mark.parametrize("checksum", [False, True])
def test_frames_inside_of_frames_are_none(write, checksum):
    """Data that does not get smaller is stored as it is, and that may be another zstd file."""
    compress = zstandard.ZstdCompressor(level=1, write_checksum=checksum).compress
    inner = b"".join(compress(HEX[at : at + 30_000]) for at in range(0, len(HEX), 30_000))
    data, starts = joined([compress(inner[at : at + 500_000]) for at in range(0, len(inner), 500_000)])
    assert data.count(b"\x28\xb5\x2f\xfd") > len(starts) + 200
    check_starts(data, starts, [*around(starts, data), *range(0, len(data), 99_991)])
    path = write(data)
    fn = ReadLines(encoding=None, delimiter=b"\n")
    for cut in range(5000, len(data), len(data) // 5):
        assert b"\n".join(read_cut(fn, path, cut)) == inner.removesuffix(b"\n")


def small_file(draw):
    """Return a small file that is hard to read from its middle, and where its frames begin.

    Its blocks hold frames, headers of blocks, zeros; a frame may end where the one around it does.
    """

    def text(depth):
        kinds = [
            bytes(draw.randrange(6)),
            draw.randbytes(2),
            b"\x09\0\0a",
            b"\x28\xb5\x2f\xfd",
            b"\x51\x2a\x4d\x18\0\0\0\0",
        ]
        if depth < 2:
            kinds.append(frame(depth + 1))
        return b"".join(draw.choices(kinds, k=draw.randrange(4)))[-16:]

    def frame(depth):
        blocks = [
            (b"\0", draw.randrange(17)) if draw.random() < 0.2 else text(depth) for _ in range(draw.randrange(1, 4))
        ]
        return zstd_frame(blocks, draw.choice([b"", b"\x28\xb5\x2f\xfe"]))

    def skippable():
        return zstd_skippable(draw.choice([bytes(16), b"", b"\x28\xb5\x2f\xfd\0\0"]), draw.randrange(16))

    return joined([frame(0) if draw.random() < 0.7 else skippable() for _ in range(draw.randrange(4, 40))])


@pytest.mark.parametrize(
    ("seed", "files"), [(0, 20), *(pytest.param(seed, 60, marks=MORE) for seed in range(4))], ids=str
)
def test_all_chains_that_could_pass_are_followed_until_one_is_left(monkeypatch, seed, files):
    """Small files as bad as they get, from every byte, with little looked back at; blocks have at most 16 bytes."""
    monkeypatch.setattr(zstd, "_BLOCK_BYTES", 16)
    monkeypatch.setattr(zstd, "_SKIPPED_BYTES", 16)
    monkeypatch.setattr(zstd, "_BACK_BYTES", 4)
    first_frame = ZstdFrames._first_frame
    seen = []
    monkeypatch.setattr(ZstdFrames, "_first_frame", lambda *given: seen.append(first_frame(*given)) or seen[-1])
    draw = random.Random(seed)
    for _ in range(files):
        data, starts = small_file(draw)
        check_starts(data, starts, range(len(data) + 1))
    assert seen.count(None) > files  # had to look back farther


# How they are read


def test_every_cut_of_frames_of_several_blocks_gives_the_records_of_the_whole(write):
    """A part begins with a frame, not with any block of one."""
    frames = [zstd_frame([b"a\nb", b"", b"b\nc"]), zstd_frame([b"", b"c\n", (b"\n", 3)]), zstd_frame([b"d", b"e\nf"])]
    path = write(b"".join(frames))
    text = unpack(b"".join(frames))
    assert text == b"a\nbb\ncc\n\n\n\nde\nf"
    for cut in range(len(b"".join(frames)) + 1):
        assert read_cut(FN, path, cut) == text.split(b"\n"), cut
    checked = check_dofn(ReadLines(with_position=True), path)
    assert checked.complete
    assert checked.splits > 0


def test_position_of_a_record_is_that_of_its_block_and_its_place_in_there(write):
    """The first block of a frame begins with the frame. The records of the first block count from 0, as in bzip2."""
    first, second = zstd_frame([b"a\nb", b"b\nc\nd\n"]), zstd_frame([b"e\n"])
    path = write(zstd_skippable(b"x") + first + second)
    fn = ReadLines(with_position=True)
    later = 9 + len(zstd_frame([b"a\nb"]))
    assert read_part(fn, path, restriction_of(fn, path)) == [
        ((path, 0), "a"),
        ((path, 2), "bb"),  # counted on from the first record
        ((path, (later << 17) + 2), "c"),
        ((path, (later << 17) + 4), "d"),
        ((path, (9 + len(first)) << 17), "e"),
    ]


def test_byte_order_mark_after_a_skippable_frame_is_dropped(write):
    """In whichever part the first frame is: the one that begins with the file, or one that begins before the frame."""
    path = write(zstd_skippable(b"abc") + zstd_frame([b"\xef\xbb\xbfa\n"]) + zstd_frame([b"b\n"]))
    for cut in range(20):
        assert read_cut(ReadLines(), path, cut) == ["a", "b"]


def test_the_text_of_a_frame_is_not_held_in_memory(write):
    """Only a block of it, however long the frame is."""
    line = b"x" * 999 + b"\n"
    frame = zstandard.compress(line * 40_000)
    path = write(frame * 2)
    part = restriction_of(FN, path)
    assert part.codec == "zstd frames"
    tracemalloc.start()
    try:
        assert sum(1 for _ in FN.process(path, FN.create_tracker(path, part))) == 80_000
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(shutil.which("pzstd") is None, reason="needs pzstd")
def test_what_pzstd_writes_is_split(tmp_path):
    """Each of its frames stands behind a skippable frame with its size."""
    plain = tmp_path / "file.txt"
    plain.write_bytes(HEX * 4)
    subprocess.run(["pzstd", "-q", "-1", "-p", "2", str(plain)], check=True, stderr=subprocess.DEVNULL)
    path = str(tmp_path / "file.txt.zst")
    whole = restriction_of(FN, path)
    assert whole.codec == "zstd frames"
    parts = [read_part(FN, path, part) for part in ReadLines(block_size=3 << 20).split_restriction(path, whole)]
    assert sum(map(bool, parts)) > 1
    assert [line for part in parts for line in part] == run_direct([str(plain)], FN)


def seekable(pieces):
    """Return a file in the seekable format: frames, and a skippable frame with their sizes."""
    frames = [zstandard.compress(piece) for piece in pieces]
    entries = [struct.pack("<II", len(frame), len(piece)) for frame, piece in zip(frames, pieces, strict=True)]
    return b"".join(frames) + zstd_skippable(
        b"".join(entries) + struct.pack("<IBI", len(pieces), 0, 0x8F92EAB1), number=14
    )


@pytest.mark.parametrize(
    ("fn", "line"),
    [(FN, b"%d\n"), (ReadJsonLines(), b'{"a": %d}\n'), (ReadCsv(header=["a", "b"]), b"%d,x\n")],
    ids=["lines", "JSON", "CSV"],
)
def test_the_seekable_format_is_read_at_every_cut(tmp_path, write, fn, line):
    """Its seek table holds no text; cuts may fall into it."""
    lines = [line % number for number in range(60)]
    text = b"".join(lines)
    path = write(seekable([text[at : at + 50] for at in range(0, len(text), 50)]))
    (tmp_path / "plain").write_bytes(text)
    expected = run_direct([str(tmp_path / "plain")], fn)
    assert len(expected) == 60
    for cut in range(Path(path).stat().st_size + 1):
        assert read_cut(fn, path, cut) == expected, cut


def test_file_blocks_of_a_file_of_one_frame_are_read(write):
    """The frame belongs to the first of them."""
    path = write(zstandard.compress(b"a\nb\n" * 50 + bytes(range(256))))
    blocks = run_direct([path], FileBlocks(40))
    assert len(blocks) > 5
    assert len(run_direct(blocks[:1], FN)) == len(run_direct(blocks, FN)) > 100


# What the report says


@pytest.mark.parametrize("more", [b"", zstd_skippable(b"more")])
def test_a_file_of_one_frame_is_read_in_one_piece(write, more):
    """The remark says so, and what writes many."""
    whole = restriction_of(FN, write(zstd_skippable(b"x") + zstd_frame([b"a\n", b"b\n"]) + more))
    assert (whole.start, whole.stop, whole.codec) == (0, 1, "zstd")
    assert whole.note == "zstd: read in one piece, for it is one frame; pzstd writes many"


def test_no_one_looks_far_for_the_end_of_the_first_frame(write, monkeypatch):
    """Of a large frame nobody knows that it is the only one, until somebody has read it. The remark tells its size."""
    monkeypatch.setattr(compression, "_LOOK_BYTES", 2 << 20)
    path = write(zstandard.ZstdCompressor(level=1).compress(DRAW.randbytes(3 << 20)) + zstd_frame([b"a\n"]))
    whole = restriction_of(FN, path)
    assert (whole.codec, whole.note) == ("zstd frames", "zstd: its first frame has more than 2 MiB")
    monkeypatch.setattr(compression, "_LOOK_BYTES", 4 << 20)
    assert restriction_of(FN, path).note == ""


# What is no frame


def test_a_long_skippable_frame_between_frames_is_an_error(write):
    """A part that begins after it could not know where frames begin; the part before it tells, wherever one cuts."""
    before = zstd_frame([b"a\n"]) * 2
    data = before + zstd_skippable(bytes(zstd._SKIPPED_BYTES + 1)) + zstd_frame([b"b\n"])
    path = write(data)
    message = f"{path} at byte {len(before)}: a skippable frame of {zstd._SKIPPED_BYTES + 9} bytes."
    for cut in (3, 15, 30, len(data) // 2, len(data) - 3):
        with pytest.raises(ReadError, match=re.escape(message)):
            read_cut(FN, path, cut)


@pytest.mark.parametrize("size", [0, 1])
def test_a_long_skippable_frame_at_the_end_is_a_seek_table_or_an_error(write, size):
    """A seek table of more than a hundred thousand frames is that long."""
    end = b"\0\xb1\xea\x92\x8f" + b"x" * size
    path = write(zstd_frame([b"a\n"]) + zstd_frame([b"b\n"]) + zstd_skippable(bytes(zstd._SKIPPED_BYTES) + end))
    if size == 0:
        assert run_direct([path], ReadLines()) == ["a", "b"]
    else:
        with pytest.raises(ReadError, match="a skippable frame of"):
            run_direct([path], ReadLines())


def test_skippable_frames_that_are_not_too_long_are_passed_over(write):
    """As long as what is looked at for chains; what is in them is no frame."""
    inner = (zstd_frame([b"x\n"]) * (1 << 20))[: zstd._SKIPPED_BYTES]
    data, starts = joined([zstd_frame([b"a\n"]), zstd_skippable(inner), *[zstd_frame([b"b\n"])] * 3])
    check_starts(data, starts, around(starts, data))
    path = write(data)
    assert read_cut(FN, path, *around(starts[1:], data)) == [b"a", b"b", b"b", b"b"]


@pytest.mark.parametrize(
    ("data", "place", "flaw"),
    [
        (zstd_frame([b"a\n"]) + b"junk", 11, "no zstd frame begins here"),
        (b"junk", 0, "no zstd frame begins here"),
        (b"\x28\xb5\x2f\xfd\x08\x58\x01\0\0", 0, "this header of a frame is none that is known"),
        (zstd_frame([b"a\n"]) * 2 + b"\x50\x2a\x4d\x18\x05\0\0\0abc", 22, "this skippable frame is not all there"),
        (zstd_frame([b"a\n"]) + zstd_frame([b"b\n"])[:-5] + b"\x07\0\0", 17, "no block begins here"),
        (zstd_frame([b"a\n"]) + zstd_frame([b"b\n"])[:-1], 17, "this block is not all there"),
        (zstd_frame([b"a\n"]) + zstd_frame([b"b\n"], b"1234"), 11, "Restored data doesn't match checksum"),
        (b"\x28\xb5\x2f\xfd\x20\x09" + zstd_frame([b"a\n"])[6:] + zstd_frame([b"b\n"]), 0, "Data corruption detected"),
        (zstd_frame([b"a\n"]) + zstd_frame([b"b\n"], b"12"), 17, "this block is not all there"),
    ],
)
def test_damage_is_an_error_that_names_its_place(write, data, place, flaw):
    """With what is wrong there."""
    path = write(data)
    with pytest.raises(ReadError, match=re.escape(f"{path} at byte {place}: ") + f".*{flaw}.* damaged or cut off"):
        run_direct([path], FN)


def test_damage_before_a_start_is_an_error():
    """Where the chain from the start of the file breaks, nobody can tell what is a frame."""
    data = zstd_frame([b"a\n"]) + b"junk" + zstd_frame([b"b\n"])
    with pytest.raises(ReadError, match="at byte 15: no unbroken chain of frames leads here"):
        at_or_after(data, 12)
