"""Compressed text: every codec gives what Python's own library gives, in whatever parts it is read."""

import bz2
import gzip
import os
import pickle
import random
import re
import sys
from itertools import combinations
from pathlib import Path

import pytest
import zstandard
from support.compressed_files import bgzf, bzip2, read_cut, read_part, restriction_of

from sdf import run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, MissingExtraError, ReadError, SourceChangedError
from sdf.io import FileBlocks, ReadLines
from sdf.io.files.file_fn import FileBlock
from sdf.io.files.pinned import look_up
from sdf.testing import check_dofn

TEXT = b"\xef\xbb\xbfone\r\n\ntwo<>\n<\xc3\xa9>\n" + b"long " * 4 + b"\n<><>\nlast"
PIECES = [TEXT[at : at + 7] for at in range(0, len(TEXT), 7)]


def gzip_members(pieces):
    return b"".join(map(gzip.compress, pieces))


def zstd_frames(pieces):
    return b"".join(map(zstandard.ZstdCompressor(write_checksum=True).compress, pieces))


def zstd_frame(pieces):
    return zstd_frames([b"".join(pieces)])


CODECS = {
    "bzip2": (".bz2", bzip2),
    "bgzf": (".gz", bgzf),
    "gzip index": (".gz", gzip_members),
    "gzip": (".gz", gzip_members),
    "zstd frames": (".zst", zstd_frames),
    "zstd": (".zst", zstd_frame),
}
BLOCKS = ("bzip2", "bgzf", "zstd frames")
UNPACK = {".bz2": bz2.decompress, ".gz": gzip.decompress}


@pytest.fixture(params=CODECS)
def codec(request, monkeypatch):
    """Each codec; plain gzip has two, with rapidgzip and without, also for a short text."""
    monkeypatch.setattr("sdf.io.compressed.compression.has_short_text", lambda *_: False)
    if request.param == "gzip":
        monkeypatch.setitem(sys.modules, "rapidgzip", None)
    return request.param


@pytest.fixture(autouse=True)
def _index_dir(tmp_path, monkeypatch):
    """A temporary directory of the test's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def make(tmp_path, codec):
    """Write a file of pieces, each compressed by itself."""

    def write(pieces):
        suffix, compress = CODECS[codec]
        path = tmp_path / f"file{suffix}"
        path.write_bytes(compress(pieces))
        return str(path)

    return write


def lines(text, delimiter=None):
    found = text.replace(b"\r\n", b"\n").split(b"\n") if delimiter is None else text.split(delimiter)
    return found if found[-1] else found[:-1]


def cuts_of(fn, path):
    whole = restriction_of(fn, path)
    return range(whole.start, whole.stop + 1)


# What is read


def test_codec_follows_from_name_and_content(codec, make):
    """Of files named .gz those of BGZF blocks are read as such."""
    assert restriction_of(ReadLines(), make(PIECES)).codec == codec


@pytest.mark.parametrize("delimiter", [None, b"<>"])
def test_whole_file_gives_what_the_plain_file_gives(codec, make, tmp_path, delimiter):
    """The byte order mark is dropped, CRLF ends a line, the last one needs no end."""
    plain = tmp_path / "plain.txt"
    plain.write_bytes(TEXT)
    fn = ReadLines(delimiter=delimiter)
    assert run_direct([make(PIECES)], fn) == run_direct([str(plain)], fn)


@pytest.mark.parametrize("delimiter", [None, b"<>"])
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow("the same test with fewer cuts"))])
def test_every_cut_gives_the_records_of_the_whole(make, delimiter, step):
    """Each exactly once and in order, wherever the restriction is cut."""
    path = make(PIECES)
    fn = ReadLines(encoding=None, delimiter=delimiter, block_size=3)
    for cut in cuts_of(fn, path)[::step]:
        assert read_cut(fn, path, cut) == lines(TEXT, delimiter), cut


def test_nested_cuts_give_the_records_of_the_whole(make):
    """Three parts, at any two cuts of some."""
    path = make(PIECES[:6])
    fn = ReadLines(encoding=None, delimiter=b"<>", block_size=4)
    for cuts in combinations(cuts_of(fn, path)[::13], 2):
        assert read_cut(fn, path, *cuts) == lines(b"".join(PIECES[:6]), b"<>"), cuts


@pytest.mark.parametrize("options", [{}, {"with_position": True}, {"delimiter": b"<>", "block_size": 5}], ids=str)
def test_contract_holds(codec, make, options):
    """check_dofn() splits after every claim, at several fractions and next to the following block."""
    checked = check_dofn(ReadLines(**options), make(PIECES))
    assert checked.records >= 4
    one_block = codec in ("gzip", "zstd") or (codec == "gzip index" and "block_size" not in options)
    assert (checked.splits == 0) == one_block


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("block_size", [None, 5])
def test_checkpoints_after_every_claim_change_nothing(make, block_size, seed):
    """In whatever order the parts run."""
    fn = ReadLines(encoding=None, block_size=block_size)
    assert sorted(run_direct([make(PIECES)], fn, split_every=1, seed=seed)) == sorted(lines(TEXT))


@pytest.mark.parametrize(
    "pieces", [[b""], [b"", b"a\n", b""], [b"\n"], [b"a\n"], [b"a", b"", b"", b"b\n", b"c"]], ids=str
)
def test_empty_pieces_hold_nothing(make, pieces):
    """Neither first, nor last, nor between."""
    path = make(pieces)
    fn = ReadLines(encoding=None)
    for cut in cuts_of(fn, path):
        assert read_cut(fn, path, cut) == lines(b"".join(pieces)), cut


def test_byte_order_mark_after_an_empty_piece_is_dropped(make):
    """The first record of a file has offset 0, whichever block it lies in."""
    fn = ReadLines(with_position=True)
    path = make([b"", b"\xef\xbb\xbfa\nb\n"])
    given = run_direct([path], fn)
    assert [record for _, record in given] == ["a", "b"]
    assert given[0][0] == (path, 0)


def test_empty_file_has_no_records(codec, make, tmp_path):
    """Nothing was written to it, not even a header."""
    path = make([])
    Path(path).write_bytes(b"")
    assert run_direct([path], ReadLines()) == []


def test_positions_increase_and_do_not_depend_on_the_parts(make):
    """With them one finds a record again."""
    path = make(PIECES)
    fn = ReadLines(with_position=True, block_size=3)
    whole = read_part(fn, path, restriction_of(fn, path))
    offsets = [offset for (_, offset), _ in whole]
    assert offsets == sorted(set(offsets))
    for cut in cuts_of(fn, path)[::5]:
        assert read_cut(fn, path, cut) == whole


def test_large_file_gives_what_the_library_gives(codec, make):
    """Blocks of the size that they usually have; the file is cut at places that have nothing to do with them."""
    draw = random.Random(3)
    text = b"".join(b"%x\n" % draw.getrandbits(draw.choice([8, 80, 800])) for _ in range(12000))
    step = 200_000 if codec == "bzip2" else 60_000
    path = make([text[at : at + step] for at in range(0, len(text), step)])
    unpack = UNPACK.get("." + path.rpartition(".")[2])
    if unpack is not None:
        assert unpack(Path(path).read_bytes()) == text
    fn = ReadLines(encoding=None, block_size=100_003)
    assert run_direct([path], fn) == lines(text)
    assert sorted(run_direct([path], fn, split_every=1, seed=0)) == sorted(lines(text))


# Blocks of files as elements


@pytest.mark.parametrize("size", [1, 9, 40, 10**6])
def test_file_blocks_give_the_records_of_the_whole(codec, make, size):
    """A block owns the compressed blocks that begin in it; it may hold none."""
    path = make(PIECES)
    if codec not in (*BLOCKS, "zstd") and size < 10**6:
        return
    blocks = run_direct([path], FileBlocks(size))
    assert run_direct(blocks, ReadLines(encoding=None)) == lines(TEXT)


def test_block_of_what_has_no_blocks_is_refused(codec, make):
    """Byte 10 of such a file is the start of nothing."""
    if codec in (*BLOCKS, "zstd"):
        return
    file = look_up(make(PIECES), {}, "x")
    message = "ReadLines cannot read a block of a gzip file (got FileBlock("
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        run_direct([FileBlock(file, 10, 20)], ReadLines())


# What the report says


def test_note_says_what_was_done_in_one_piece(codec, make):
    """And how to split it; what splits anyway needs no remark."""
    note = {
        "bzip2": "",
        "bgzf": "",
        "gzip index": r"gzip: seek index made in \d+\.\d s, \d+\.\d MB",
        "gzip": re.escape("gzip: read in one piece; to split it: pip install 'rapidgzip>=0.16'"),
        "zstd frames": "",
        "zstd": "zstd: read in one piece, for it is one frame; pzstd writes many",
    }[codec]
    assert re.fullmatch(note, restriction_of(ReadLines(), make(PIECES)).note)


def test_what_is_read_in_one_piece_has_the_size_of_its_file(codec, make):
    """Its one position would make it look small beside files of which bytes are counted."""
    path = make(PIECES)
    fn = ReadLines()
    whole = restriction_of(fn, path)
    expected = look_up(path, {}, "x").size if codec in ("gzip", "zstd") else whole.stop - whole.start
    assert fn.restriction_size(path, whole) == expected


# Options


@pytest.mark.parametrize("compression", ["bzip2", "bgzf", "gzip", "zstd", None])
def test_compression_can_be_named(tmp_path, compression):
    """Then the name of the file does not matter."""
    path = tmp_path / "file.gz"
    compress = {"bzip2": bzip2, "bgzf": bgzf, "gzip": gzip_members, "zstd": zstd_frames, None: b"".join}[compression]
    path.write_bytes(compress(PIECES))
    assert run_direct([str(path)], ReadLines(encoding=None, compression=compression)) == lines(TEXT)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"compression": "xz"}, InvalidValueError, "ReadLines compression must be one of ('infer', 'bzip2', "),
        ({"compression": ["gzip"]}, InvalidValueError, "ReadLines compression must be one of ('infer', 'bzip2', "),
        ({"index_dir": 3}, InvalidTypeError, "ReadLines index_dir must be a path or a URL, or None (got 3)."),
    ],
)
def test_wrong_options_are_refused(options, kind, message):
    """At once, with what is allowed."""
    with pytest.raises(kind, match=re.escape(message)):
        ReadLines(**options)


def test_missing_library_for_zstd_is_named(tmp_path, monkeypatch):
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = tmp_path / "file.zst"
    path.write_bytes(zstd_frames(PIECES))
    with pytest.raises(MissingExtraError, match=r"ReadLines needs zstandard.*pip install 'zstandard>=0\.22'"):
        run_direct([str(path)], ReadLines())


def test_text_of_a_file_can_be_opened_whatever_its_compression(codec, make):
    """From its start, for readers that need more than records."""
    path = make(PIECES)
    fn = ReadLines(block_size=8)
    for restriction in (restriction_of(fn, path), fn.in_one_piece(path)):
        with fn.open_text(pickle.loads(pickle.dumps(restriction))) as text:
            assert text.read() == TEXT


# Broken files


def test_a_file_that_is_cut_off_is_an_error(codec, make):
    """At any byte, unless what is left is a file of its own: it ends between two streams, members, frames or blocks."""
    path = make(PIECES[:4])
    data = Path(path).read_bytes()
    compress = CODECS[codec][1]
    bare = compress if codec != "bgzf" else (lambda pieces: bgzf(pieces, end=b""))
    whole = {len(bare(PIECES[:count])): count for count in range(5)} if codec != "zstd" else {}
    fn = ReadLines(encoding=None)
    for size in range(1, len(data)):
        Path(path).write_bytes(data[:size])
        if size in whole:
            assert read_part(fn, path, restriction_of(fn, path)) == lines(b"".join(PIECES[: whole[size]]))
        else:
            with pytest.raises(ReadError, match=re.escape(path)):
                read_part(fn, path, restriction_of(fn, path))


@pytest.mark.parametrize("pieces", [2, pytest.param(4, marks=pytest.mark.slow("the same test with a smaller file"))])
def test_a_changed_byte_is_an_error_or_changes_nothing(codec, make, pieces):
    """Whichever byte it is, and also if each block is read as a part of its own."""
    path = make(PIECES[:pieces])
    data = Path(path).read_bytes()
    fn = ReadLines(encoding=None)
    for place in range(len(data)):
        Path(path).write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            whole = restriction_of(fn, path)
            cuts = range(whole.start + 1, whole.stop) if codec in BLOCKS else []
            assert read_cut(fn, path, *cuts) == lines(b"".join(PIECES[:pieces])), place
        except ReadError as error:
            assert path in str(error)  # noqa: PT017


def test_what_is_no_such_file_is_an_error(codec, make):
    """Its name says gzip, say, but somebody only renamed it."""
    path = make(PIECES)
    Path(path).write_bytes(TEXT)
    with pytest.raises(ReadError, match=re.escape(path)):
        run_direct([path], ReadLines())


def test_a_file_that_changed_is_an_error(make):
    """What was planned for the old one is not read from the new one."""
    path = make(PIECES)
    fn = ReadLines()
    whole = restriction_of(fn, path)
    os.truncate(path, 30)
    with pytest.raises(SourceChangedError, match="has shrunk"):
        read_part(fn, path, whole)


def test_a_file_that_shrinks_while_its_text_is_read_is_no_damaged_one(codec, make):
    """The error says that it was changed."""
    draw = random.Random(0)
    path = make([draw.randbytes(40_000) for _ in range(10)])
    fn = ReadLines()
    text = fn.open_text(fn.in_one_piece(path))
    with pytest.raises(SourceChangedError, match="has shrunk"):
        _read_while_it_shrinks(path, text)


def _read_while_it_shrinks(path, opening):
    with opening as text:
        text.read(10)
        os.truncate(path, 200_000)
        text.read()


def test_what_was_appended_belongs_to_a_later_read(codec, make):
    """The size was pinned when the restriction was made."""
    path = make(PIECES)
    fn = ReadLines(encoding=None)
    whole = restriction_of(fn, path)
    Path(path).write_bytes(Path(path).read_bytes() + CODECS[codec][1]([b"more\n"]))
    assert read_part(fn, path, whole) == lines(TEXT)


def test_a_longer_record_than_allowed_is_refused(make):
    """As in a plain file: it would have to be held in memory."""
    path = make([b"a\n" + b"x" * (3 << 20)])
    with pytest.raises(ReadError, match="has more than 2000000 bytes"):
        run_direct([path], ReadLines(max_record_bytes=2_000_000))


@pytest.mark.parametrize("window", [28, 31])
def test_zstd_of_long_distances_is_read(tmp_path, window):
    """As zstd --long writes it: its window is larger than the library allows unless told."""
    parameters = zstandard.ZstdCompressionParameters(window_log=window, enable_ldm=True, compression_level=1)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()  # which is not told the size
    path = tmp_path / "f.zst"
    path.write_bytes(compressor.compress(b"a\nb\n") + compressor.flush())
    assert zstandard.get_frame_parameters(path.read_bytes()).window_size == 1 << window
    assert run_direct([str(path)], ReadLines()) == ["a", "b"]


@pytest.mark.parametrize(("suffix", "kind"), [(".gz", "gzip"), (".bz2", "bzip2"), (".zst", "zstd")])
def test_text_that_only_has_the_name_of_a_compressed_file_is_told_apart(tmp_path, suffix, kind):
    """With the option that reads it."""
    path = tmp_path / f"f{suffix}"
    path.write_bytes(b"id,v\n1,x\n")
    with pytest.raises(ReadError, match=f"or it is not {kind} as its name says: compression=None reads"):
        run_direct([str(path)], ReadLines())
    assert run_direct([str(path)], ReadLines(compression=None)) == ["id,v", "1,x"]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_bytes_after_the_end_of_a_compressed_file_are_told_apart(tmp_path, suffix, pack):
    """Such as the newline of a program that copied it as text."""
    path = tmp_path / f"f{suffix}"
    path.write_bytes(pack(b"1\n") + b"\r\n")
    with pytest.raises(ReadError, match="or something was appended to it"):
        run_direct([str(path)], ReadLines())


@pytest.mark.parametrize("frames", [1, 2])
def test_zstd_with_a_dictionary_is_told_apart(tmp_path, frames):
    """In one piece, and in frames."""
    words = [b"line %d some words to learn %d\n" % (i, i % 7) * 3 for i in range(3000)]
    packed = zstandard.ZstdCompressor(dict_data=zstandard.train_dictionary(2000, words)).compress(words[0])
    (tmp_path / "f.zst").write_bytes(packed * frames)
    with pytest.raises(ReadError, match="or it needs a dictionary, which no reader takes"):
        run_direct([str(tmp_path / "f.zst")], ReadLines())
