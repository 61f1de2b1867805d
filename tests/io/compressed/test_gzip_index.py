"""Seek indices of gzip files: made once, used again as long as the file is the same, and never trusted blindly."""

import gzip
import os
import random
import re
import shutil
import stat
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem
from support.compressed_files import read_cut, read_part, restriction_of

from sdf import run_direct
from sdf.errors import ReadError, SourceError
from sdf.io import ReadLines
from sdf.io.compressed.gzip_index import SeekIndices, default_directory

TEXT = random.Random(7).randbytes(400_000).hex().encode().replace(b"7", b"\n")
LINES = TEXT.split(b"\n") if not TEXT.endswith(b"\n") else TEXT.split(b"\n")[:-1]


@pytest.fixture(autouse=True)
def made(tmp_path, monkeypatch):
    """A temporary directory of the test's own, the smallest distance between seek points, and the files indexed."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("sdf.io.compressed.gzip_index._CHUNK_BYTES", 1024)
    made = []
    make = SeekIndices._make
    monkeypatch.setattr(SeekIndices, "_make", lambda self, *file: (made.append(file[0]), make(self, *file))[1])
    return made


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(TEXT))
    return str(path)


def fn_with(**options):
    return ReadLines(encoding=None, block_size=50_000, **options)


def indices_in(directory):
    return sorted(directory.glob("*.gzip-index"))


def test_text_is_read_from_anywhere(path):
    """In parts that begin between seek points."""
    fn = fn_with()
    for cuts in ([1], [50_000, 50_001, 99_999], list(range(0, len(TEXT), 33_333))):
        assert read_cut(fn, path, *cuts) == LINES


def test_position_is_the_offset_in_the_text(path):
    """As if the file were not compressed."""
    fn = ReadLines(with_position=True, block_size=1000)
    given = read_cut(fn, path, 100_000, 200_000)
    for (_, offset), line in given[::500]:
        assert TEXT[offset : offset + len(line) + 1] == line.encode() + b"\n"


def test_index_is_made_once_for_all_parts_and_runs(path, made):
    """Later ones find it."""
    assert run_direct([path, path], fn_with(), split_every=1) == LINES * 2
    assert run_direct([path], fn_with()) == LINES
    assert len(made) == 1


def test_note_says_what_the_index_cost_or_that_it_was_found(path):
    """It goes into the report of the run."""
    notes = [restriction_of(fn_with(), path).note for _ in range(2)]
    assert re.fullmatch(r"gzip: seek index made in \d+\.\d s, \d\.\d MB", notes[0])
    assert notes[1] == "gzip: seek index found"


@pytest.mark.parametrize("place", ["directory", "file://directory", "memory://indices"])
def test_index_is_kept_where_the_user_says(path, made, tmp_path, place):
    """In a directory that need not be there yet, or behind a URL."""
    fn = fn_with(index_dir=place.replace("directory", f"{tmp_path}/a/b"))
    assert run_direct([path], fn) == LINES
    assert run_direct([path], fn) == LINES
    assert len(made) == 1
    assert len(indices_in(tmp_path / "a" / "b")) == (0 if "memory" in place else 1)
    assert not os.path.exists(tmp_path / f"sdf-gzip-index-{os.getuid()}")


def test_nothing_but_the_index_is_left_in_its_directory(path, tmp_path):
    """It gets its name only when all of it is written."""
    run_direct([path], fn_with(index_dir=str(tmp_path / "a")))
    assert list((tmp_path / "a").iterdir()) == indices_in(tmp_path / "a")


def test_index_that_is_gone_when_a_part_is_read_is_made_again(path, made, tmp_path):
    """So it is on another machine, which has a temporary directory of its own."""
    fn = fn_with(index_dir=str(tmp_path / "a"))
    whole = restriction_of(fn, path)
    indices_in(tmp_path / "a")[0].unlink()
    assert read_part(fn, path, whole) == LINES
    assert len(made) == 2


@pytest.mark.parametrize("change", ["size", "mtime", "inode"])
def test_index_of_the_file_before_it_changed_is_not_used(path, made, change):
    """Any difference in what is known of the file will do."""
    assert run_direct([path], fn_with()) == LINES
    other = gzip.compress(TEXT[::-1])
    if change == "size":
        Path(path).write_bytes(other + gzip.compress(b"more"))
    elif change == "mtime":
        os.utime(path, (1, 1))
    else:
        shutil.copy(path, path + "2")
        os.utime(path + "2", (os.stat(path).st_atime, os.stat(path).st_mtime))
        os.replace(path + "2", path)
    expected = gzip.decompress(Path(path).read_bytes()).split(b"\n")
    assert b"\n".join(run_direct([path], fn_with())) == b"\n".join(expected).removesuffix(b"\n")
    assert len(made) == 2


@pytest.mark.parametrize("damage", ["empty", "cut off", "changed", "another file's", "anything"])
def test_damaged_or_foreign_index_is_made_again(path, made, tmp_path, damage):
    """It is never trusted blindly, and the good one takes its place."""
    fn = fn_with(index_dir=str(tmp_path / "a"))
    other = tmp_path / "other.gz"
    other.write_bytes(gzip.compress(TEXT[::-1]))
    run_direct([str(other)], fn)
    foreign = indices_in(tmp_path / "a")[0].read_bytes()
    run_direct([path], fn)
    [index] = [found for found in indices_in(tmp_path / "a") if found.read_bytes() != foreign]
    good = index.read_bytes()
    flipped = bytearray(good)
    flipped[-9] ^= 4
    bad = {"empty": b"", "cut off": good[:-9], "changed": flipped, "another file's": foreign, "anything": b"x\ny"}
    index.write_bytes(bad[damage])
    assert run_direct([path], fn) == LINES
    assert len(made) == 3
    assert index.read_bytes() == good


def test_default_directory_is_the_user_s_alone():
    """What others could write there would be trusted."""
    assert stat.S_IMODE(os.stat(default_directory()).st_mode) == 0o700


@pytest.mark.parametrize("flaw", ["open", "link"])
def test_default_directory_that_others_could_have_made_is_refused(path, tmp_path, flaw):
    """The temporary directory is everybody's."""
    place = tmp_path / f"sdf-gzip-index-{os.getuid()}"
    if flaw == "open":
        place.mkdir()
        place.chmod(0o777)
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="must be a directory of this user's that is open to no one else"):
        run_direct([path], fn_with())


def test_what_rapidgzip_does_not_take_is_read_in_one_piece(path):
    """Zeros after the last member, for one, which gzip passes over; the note says why."""
    with open(path, "ab") as file:
        file.write(bytes(100))
    whole = restriction_of(fn_with(), path)
    assert (whole.start, whole.stop, whole.codec) == (0, 1, "gzip")
    assert whole.note.startswith("gzip: read in one piece; no seek index can be made: ")
    assert read_part(fn_with(), path, whole) == LINES


@pytest.mark.parametrize(
    "members", [[TEXT, b"", b"short\n"], [b"", TEXT], [b"short\n", TEXT, b""]], ids=["a", "b", "c"]
)
def test_members_after_the_first_are_part_of_the_text(path, members):
    """Whether the last one is all there is shown by its checksum, if its size does not tell."""
    Path(path).write_bytes(b"".join(map(gzip.compress, members)))
    fn = fn_with()
    assert restriction_of(fn, path).codec == "gzip index"
    assert b"\n".join(read_cut(fn, path, 77_777)) + b"\n" == b"".join(members).rstrip(b"\n") + b"\n"


@pytest.mark.parametrize("lost", [1, 8, 9, 100, 390])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_file_that_is_cut_off_gets_no_index(path, monkeypatch, tmp_path, threads, lost):
    """rapidgzip takes the members that are whole for all of it, and says nothing."""
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(threads))
    monkeypatch.setattr("sdf.io.compressed.gzip_index._CORES_TO_SHARE", 2)
    data = b"".join(gzip.compress(TEXT[at : at + 700]) for at in range(0, 7000, 700))
    Path(path).write_bytes(data[:-lost])
    whole = restriction_of(fn_with(), path)
    assert whole.codec == "gzip"
    assert not indices_in(tmp_path / f"sdf-gzip-index-{os.getuid()}")
    with pytest.raises(ReadError, match=re.escape(path)):
        read_part(fn_with(), path, whole)


@pytest.mark.parametrize(
    "tail", [bytes(8), bytes(4096), gzip.compress(b""), gzip.compress(b"short\n")], ids=["8", "4096", "empty", "short"]
)
def test_a_file_that_is_torn_and_goes_on_gets_no_index(path, tmp_path, tail):
    """With zeros, as a disk that has lost power leaves it, or with another member, as an appending writer does."""
    packed = gzip.compress(TEXT)
    accepted = []
    for cut in range(1000, len(packed), len(packed) // 50):
        Path(path).write_bytes(packed[:cut] + tail)
        whole = restriction_of(fn_with(), path)
        try:
            accepted.append((cut, whole.codec, len(read_part(fn_with(), path, whole))))
        except ReadError:
            assert whole.codec == "gzip"
    assert accepted == []
    assert not indices_in(tmp_path / f"sdf-gzip-index-{os.getuid()}")


@pytest.mark.parametrize("flaw", ["file", "below a file", "name too long"])
def test_a_directory_that_cannot_be_is_an_error_that_names_it(path, tmp_path, flaw):
    """And says which would do."""
    (tmp_path / "f").touch()
    place = tmp_path / {"file": "f", "below a file": "f/d", "name too long": "x" * 300}[flaw]
    message = f"ReadLines cannot read the seek index of a gzip file in index_dir {str(place)!r}: "
    with pytest.raises(SourceError, match=re.escape(message) + ".* Pass as index_dir a directory that"):
        run_direct([path], fn_with(index_dir=place))


def test_a_directory_that_cannot_be_written_is_an_error_that_names_it(path, tmp_path, monkeypatch):
    """And says which would do."""

    def refuse(self, path, exist_ok=False):
        raise PermissionError(f"no directory {path}")

    monkeypatch.setattr(LocalFileSystem, "makedirs", refuse)
    message = (
        f"ReadLines cannot write the seek index of a gzip file in index_dir '{tmp_path}/d': PermissionError: no dir"
    )
    with pytest.raises(SourceError, match=re.escape(message) + ".* Pass as index_dir a directory that this user may"):
        run_direct([path], fn_with(index_dir=tmp_path / "d"))


CELL = 256 << 10
NOISE = random.Random(3).randbytes(CELL + 1).replace(b"\r", b" ")


@pytest.mark.parametrize(
    ("members", "short"),
    [
        ([b""], True),
        ([b"a\n" * 10], True),
        ([b"a" * CELL], True),
        ([b"a" * (CELL + 1)], False),
        ([NOISE[: CELL - 1000]], True),
        ([NOISE], False),
        ([NOISE[:5000], b"short\n"], True),
        ([b"a\n" * 10_000_000, NOISE[:100_000]], False),
        ([TEXT, b""], False),
        ([b"a\n" * 10] * 3, True),
    ],
)
def test_a_text_of_one_cell_needs_no_index(path, made, members, short):
    """With an index it is one claim, too. The text of all members counts."""
    Path(path).write_bytes(b"".join(map(gzip.compress, members)))
    fn = ReadLines(encoding=None)
    whole = restriction_of(fn, path)
    assert (whole.codec, len(made)) == (("gzip", 0) if short else ("gzip index", 1))
    text = b"".join(members)
    assert read_part(fn, path, whole) == (text.removesuffix(b"\n").split(b"\n") if text else [])
    assert not (short and whole.note)


def test_a_short_text_that_is_to_be_split_gets_an_index(path):
    """Into parts of the reader's block size."""
    Path(path).write_bytes(gzip.compress(b"a\n" * 10))
    assert restriction_of(ReadLines(block_size=4), path).codec == "gzip index"


@pytest.mark.parametrize("lost", [1, 4, 9, 15])
def test_a_short_file_that_is_cut_off_is_an_error(path, lost):
    """As a long one."""
    Path(path).write_bytes(gzip.compress(b"a\n" * 10)[:-lost])
    with pytest.raises(ReadError, match=re.escape(path)):
        run_direct([path], ReadLines())
