"""ReadTar: the files that tarfile gives, wherever an archive is cut, whatever its members hold; damage is told."""

import gzip
import io
import os
import random
import re
import tarfile
from pathlib import Path

import attrs
import pytest

from sdf import run_direct
from sdf.errors import InvalidValueError, ReadError, SourceChangedError
from sdf.io import FileBlocks, FileInfo, MatchFiles, ReadLines, ReadTar
from sdf.io.compressed.compression import named_kind
from sdf.io.files.pinned import open_file
from sdf.io.tar import _Archive
from sdf.testing import check_dofn

FILES = {"a": b"one", "empty": b"", "d/" + "long " * 60: b"\xff" * 600, "\u20ac": b"last"}
formats = pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a.tar")


def write(path, files, form=tarfile.PAX_FORMAT, others=(tarfile.DIRTYPE, tarfile.SYMTYPE, b"V", b"D")):
    """Write an archive that ends in one block of zeros, with members of other kinds between the files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form, pax_headers={"comment": "for all"}) as archive:
        for name, content in files.items():
            for kind in others:
                other = tarfile.TarInfo("other")
                other.type, other.linkname = kind, "a"
                archive.addfile(other)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        end = archive.offset
    Path(path).write_bytes(packed.getvalue()[: end + 512])
    return path


def theirs(path):
    with tarfile.open(path) as archive:
        return [(member.name, archive.extractfile(member).read()) for member in archive if member.isreg()]


def linked(path, members):
    """Write an archive of files and of hard links, from names to bytes, or to the name of a file."""
    with tarfile.open(path, mode="w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.LNKTYPE, content
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return path


def part(fn, path, start, stop):
    restriction = attrs.evolve(fn.get_initial_restriction(path), start=start, stop=stop)
    return list(fn.process(path, fn.create_tracker(path, restriction)))


@formats
def test_files_are_those_of_tarfile(path, form):
    """Long names, too, and without what is no file."""
    files = {name: content for name, content in FILES.items() if form != tarfile.USTAR_FORMAT or len(name) < 100}
    found = run_direct([write(path, files, form)], ReadTar())
    assert found == theirs(path) == list(files.items())


@pytest.mark.parametrize("step", [31, pytest.param(1, marks=pytest.mark.slow("the same test with fewer cuts"))])
def test_every_cut_gives_the_files(path, step):
    """At any byte; headers and contents have 512 bytes or several times that."""
    files = {"a": b"one", "b": b"", "c": b"three" * 200}
    size = os.path.getsize(write(path, files, tarfile.USTAR_FORMAT, others=[tarfile.DIRTYPE]))
    wrong = [
        cut
        for cut in {*range(0, size + 1, step), *range(511, size + 1, 512), *range(512, size + 1, 512), size}
        if part(ReadTar(), path, 0, cut) + part(ReadTar(), path, cut, size) != [*files.items()]
    ]
    assert wrong == []


@formats
def test_it_can_be_split_anywhere(path, form):
    """check_dofn splits it at every claim."""
    checked = check_dofn(ReadTar(), write(path, {"a": b"one", "b": b"", "c": b"three" * 200}, form))
    assert (checked.complete, checked.records, checked.splits > 0) == (True, 3, True)


@pytest.mark.parametrize("block_size", [100, 512, 700, 5000])
def test_file_blocks(path, block_size):
    """The members that start in a block may end in the next."""
    blocks = run_direct([write(path, FILES)], FileBlocks(block_size))
    assert run_direct(blocks, ReadTar()) == list(FILES.items())


def test_an_archive_in_an_archive_is_a_file(path):
    """Though its headers lie where those of a member could."""
    inner = Path(write(path, FILES)).read_bytes()
    files = {"first": b"1", "inner.tar": inner, "last": b"2"}
    size = os.path.getsize(write(path, files))
    cuts = range(0, size + 1, 512)
    wrong = [
        cut for cut in cuts if part(ReadTar(), path, 0, cut) + part(ReadTar(), path, cut, size) != [*files.items()]
    ]
    assert wrong == []


def test_with_position(path):
    """Path, and where the member's first header begins."""
    ((_, at), found), *_ = run_direct([write(path, FILES)], ReadTar(with_position=True))
    with tarfile.open(path) as archive:
        assert (at, found) == (archive.getmember("a").offset, ("a", b"one"))


LINES = {"a.txt": b"1\n2\n", "d/b c.txt": b"3\n", "d/_hidden": b"4\n", "d/e/f.txt": b"5\n6\n7\n"}


@pytest.fixture(params=["disk", "S3"])
def archive(request, path):
    """The path of an archive of lines."""
    write(path, LINES, others=[tarfile.DIRTYPE])
    if request.param == "disk":
        return path
    server = request.getfixturevalue("s3_server")
    url = f"s3://{server.bucket()}/a.tar"
    server.fs().put(path, url)
    return url


@pytest.mark.parametrize(
    ("pattern", "expected"), [("", "123567"), ("d/*.txt", "3"), ("**/*.txt", "123567"), ("d", "3567")]
)
def test_members_are_files_for_every_reader(archive, path, pattern, expected):
    """MatchFiles lists them by patterns; their sizes and contents are those that tarfile gives."""
    files = run_direct([f"tar://{pattern}::{archive}"], MatchFiles())
    assert "".join(run_direct(files, ReadLines())) == expected
    there = {name: len(content) for name, content in theirs(path)}
    assert {file.path.partition("::")[0].removeprefix("tar://"): file.size for file in files}.items() <= there.items()


def test_a_member_is_compressed_if_its_own_name_says_so(path):
    """Not if that of its archive does. A cache in front has no name."""
    write(path, {"a.txt.gz": gzip.compress(b"one\ntwo\n")})
    for members in ([f"tar://a.txt.gz::{path}"], run_direct([f"tar://*.gz::{path}"], MatchFiles())):
        assert run_direct(members, ReadLines()) == ["one", "two"]
    assert named_kind("tar://a.txt::a.tar.gz") == ""
    assert [named_kind(f"simplecache::{url}") for url in ("s3://b/a.gz", "tar://a.gz::b.tar")] == ["gzip", "gzip"]


def test_a_member_can_be_split_anywhere(archive):
    """As any other file."""
    checked = check_dofn(ReadLines(block_size=2, with_position=True), f"tar://d/e/f.txt::{archive}")
    assert (checked.complete, checked.records, checked.splits > 0) == (True, 3, True)


def test_a_member_that_has_changed_is_an_error(path):
    """Its size and its time are pinned."""
    write(path, {"a.txt": b"1\n2\n"})
    files = run_direct([f"tar://::{path}"], MatchFiles())
    write(path, {"a.txt": b"1\n"})
    with pytest.raises(SourceChangedError, match="has shrunk from 4 to 2 bytes"):
        run_direct(files, ReadLines())


def test_a_name_that_occurs_twice(path):
    """tar appends the new version of a file."""
    one, two = (Path(write(path, {"a": content})).read_bytes() for content in (b"old", b"new"))
    Path(path).write_bytes(one[:-512] + two)
    assert run_direct([path], ReadTar()) == [("a", b"old"), ("a", b"new")]


def test_a_hard_link_is_the_file_that_it_stands_for(path):
    """As tar extracts it, at every cut: of the last file of that name before it, or of what another link stands for."""
    members = [("a", b"old"), ("l1", "a"), ("a", b"new"), ("l2", "a"), ("l3", "l1"), ("b", b""), ("l4", "b")]
    size = os.path.getsize(linked(path, members))
    expected = [*members[:1], ("l1", b"old"), ("a", b"new"), ("l2", b"new"), ("l3", b"old"), ("b", b""), ("l4", b"")]
    cuts = range(0, size + 1, 512)
    assert [cut for cut in cuts if part(ReadTar(), path, 0, cut) + part(ReadTar(), path, cut, size) != expected] == []


def test_a_hard_link_to_nothing_is_an_error(path):
    """Its file is in another archive, say."""
    with pytest.raises(ReadError, match="it is a link to 'lost', and no such file comes before it"):
        run_direct([linked(path, [("l", "lost")])], ReadTar())


def test_a_member_of_an_unknown_type_is_a_file(path):
    """As for GNU tar; but the rest of one that began in another volume is an error."""
    member = tarfile.TarInfo("a")
    for member.type in (b"Z", b"M"):
        member.size = 3
        with tarfile.open(path, mode="w") as archive:
            archive.addfile(member, io.BytesIO(b"one"))
        if member.type == b"Z":
            assert run_direct([path], ReadTar()) == [("a", b"one")]
        else:
            with pytest.raises(ReadError, match="it goes on from another volume; join the volumes first"):
                run_direct([path], ReadTar())


def test_an_empty_file_has_no_members(path):
    """An archive without members neither."""
    Path(path).write_bytes(b"")
    assert run_direct([path], ReadTar()) == []
    Path(path).write_bytes(bytes(10240))
    assert run_direct([path], ReadTar()) == []


def test_members_that_were_passed_are_forgotten(path):
    """tarfile would keep them all, a kilobyte for each."""
    file = FileInfo(write(path, FILES), os.path.getsize(path))
    with open_file(file) as opened:
        archive = _Archive(opened, file)
        assert [len(archive._tar.members) for _ in archive.members()] == [0] * 20


def test_a_member_that_is_too_long(path):
    """Memory would hold it."""
    write(path, {"a": b"0123456789"})
    assert len(run_direct([path], ReadTar(max_member_bytes=10))) == 1
    with pytest.raises(ReadError, match="it has 10 bytes, more than max_member_bytes=9; pass more if it is that long"):
        run_direct([path], ReadTar(max_member_bytes=9))


def test_an_archive_that_is_cut_off_is_an_error(path):
    """At any place, also between two members, where tarfile sees nothing wrong."""
    data = Path(write(path, {"a": b"one", "b": b"two"})).read_bytes()
    for size in [*range(1, len(data), 100), *range(512, len(data), 512)]:
        Path(path).write_bytes(data[:size])
        with pytest.raises(ReadError, match=f"{path}: the member at byte"):
            run_direct([path], ReadTar())


def test_a_damaged_header_is_an_error_wherever_the_archive_is_cut(path):
    """tarfile takes one for the end of the archive, and says nothing."""
    data = bytearray(Path(write(path, {"a": b"one", "b": b"two"})).read_bytes())
    at = data.rindex(b"b\0\0\0")
    data[at + 120] ^= 1
    Path(path).write_bytes(data)
    assert theirs(path) == [("a", b"one")]
    for cut in range(0, len(data), 128):
        with pytest.raises(ReadError, match="neither a header begins here"):
            _ = part(ReadTar(), path, 0, cut), part(ReadTar(), path, cut, len(data))


def test_archives_one_after_the_other_are_an_error(path):
    """The second would be lost."""
    data = Path(write(path, {"a": b"one"})).read_bytes()
    Path(path).write_bytes(data + data)
    with pytest.raises(ReadError, match="the archive ends here, but something follows"):
        run_direct([path], ReadTar())


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: data[::-1]], ids=["gzip", "noise"])
def test_what_is_no_archive_is_an_error(path, pack):
    """If it is compressed, the message says so."""
    noise = random.Random(0).randbytes(2000)
    Path(path).write_bytes(pack(noise))
    advice = "seems to be compressed: unpack it first." if pack is gzip.compress else "is damaged or cut off, or no tar"
    with pytest.raises(ReadError, match=re.escape(f"{path}: the member at byte 0 cannot be read: ") + f".*{advice}"):
        run_direct([path], ReadTar())


def test_wrong_size():
    """Options are checked at once."""
    with pytest.raises(InvalidValueError, match="ReadTar max_member_bytes must be >= 1"):
        ReadTar(max_member_bytes=0)
