"""ReadWarc: the records of a whole read, wherever a file is cut, and whatever its records hold; against warcio."""

import bz2
import gzip
import io
import random
import re
from pathlib import Path

import attrs
import pytest

from sdf import run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, ReadError
from sdf.io import FileBlocks, ReadWarc, WarcRecord
from sdf.io.warc import plain
from sdf.testing import check_dofn

CONTENTS = [
    b"one",
    b"",
    b"WARC/1.0\r\n",
    b"the third\r\n\r\n",
    b"\x1f\x8b\x08",
    b"\nWARC/1.1\r\nContent-Length: 3\r\n\r\n",
]


def record(content, *headers, version=b"1.0"):
    lines = [b"WARC/" + version, *headers, b"Content-Length: %d" % len(content)]
    return b"".join(line + b"\r\n" for line in lines) + b"\r\n" + content + b"\r\n\r\n"


def packed(data, level=9):
    return gzip.compress(data, level, mtime=0)


def write(folder, records, kind, level=9):
    path = folder / ("a.warc.gz" if kind == "gzip" else "a.warc")
    path.write_bytes(b"".join(packed(one, level) for one in records) if kind == "gzip" else b"".join(records))
    return str(path)


def part(fn, path, start, stop):
    restriction = attrs.evolve(fn.get_initial_restriction(path), start=start, stop=stop)
    return [record.content for record in fn.process(path, fn.create_tracker(path, restriction))]


def size_of(path):
    return ReadWarc().get_initial_restriction(path).stop


def wrong_cuts(fn, path, expected):
    """Return the bytes at which a cut gives other records."""
    size = size_of(path)
    return [cut for cut in range(size + 1) if part(fn, path, 0, cut) + part(fn, path, cut, size) != expected]


both = pytest.mark.parametrize("kind", ["plain", "gzip"])


@both
def test_every_cut_gives_the_records_of_the_whole(tmp_path, kind):
    """At every byte, with contents that look much like records and members."""
    path = write(tmp_path, map(record, CONTENTS), kind)
    assert [one.content for one in run_direct([path], ReadWarc())] == CONTENTS
    assert wrong_cuts(ReadWarc(), path, CONTENTS) == []


@both
def test_parts_of_every_size_give_the_records_of_the_whole(tmp_path, kind):
    """From parts of a byte on."""
    path = write(tmp_path, map(record, CONTENTS[:4]), kind)
    for block_size in range(1, size_of(path) + 1):
        assert [one.content for one in run_direct([path], ReadWarc(block_size=block_size))] == CONTENTS[:4]


@both
def test_it_can_be_split_anywhere(tmp_path, kind):
    """check_dofn splits it at every claim."""
    checked = check_dofn(ReadWarc(), write(tmp_path, map(record, CONTENTS), kind))
    assert (checked.complete, checked.claims >= len(CONTENTS), checked.splits > 0) == (True, True, True)


@both
def test_file_blocks(tmp_path, kind):
    """The records that start in a block may end in the next."""
    path = write(tmp_path, map(record, CONTENTS), kind)
    blocks = run_direct([path], FileBlocks(50))
    assert [one.content for one in run_direct(blocks, ReadWarc())] == CONTENTS


@both
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_records_are_those_of_warcio(tmp_path, kind, version):
    """It has written them, too: version, headers in their order, and content."""
    warcio = pytest.importorskip("warcio")
    archive = pytest.importorskip("warcio.archiveiterator")
    file = io.BytesIO()
    writer = warcio.WARCWriter(file, gzip=kind == "gzip", warc_version=version)
    writer.write_record(writer.create_warcinfo_record("a.warc", {"software": "a test", "format": "WARC"}))
    for number in range(20):
        http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + b"page %d \xff" % number * number
        made = writer.create_warc_record(f"http://a.org/{number}", "response", payload=io.BytesIO(http))
        writer.write_record(made)
    path = tmp_path / ("a.warc.gz" if kind == "gzip" else "a.warc")
    path.write_bytes(file.getvalue())
    theirs = [
        (one.rec_headers.protocol, tuple(one.rec_headers.headers), one.raw_stream.read())
        for one in archive.ArchiveIterator(io.BytesIO(file.getvalue()), no_record_parse=True)
    ]
    found = [(f"WARC/{one.version}", one.headers, one.content) for one in run_direct([str(path)], ReadWarc())]
    assert (found, len(found)) == (theirs, 21)
    assert check_dofn(ReadWarc(), str(path)).complete


def test_headers():
    """Any case, the first of several; a line may go on in the next; UTF-8, or else Latin-1."""
    data = record(b"", b"WARC-Type: resource", b"A: 1", b"a:2", b"Long: b", b"\t c", b"U: \xc3\xa9", b"L: \xe9")
    head, size = plain.read_head(io.BufferedReader(io.BytesIO(data)))
    assert (head.version, size, head.get("warc-type"), head.get("no", "-"), head.get("A")) == (
        "1.0", 0, "resource", "-", "1"
    )  # fmt: skip
    assert head.headers[1:6] == (("A", "1"), ("a", "2"), ("Long", "b c"), ("U", "é"), ("L", "é"))


def test_long_content_is_not_shown():
    """In messages and notebooks."""
    assert len(repr(WarcRecord("1.0", (), b"x" * 1000))) < 200


@both
def test_with_position(tmp_path, kind):
    """Path and offset of the record, or of its member."""
    one, two = record(b"one"), record(b"two")
    path = write(tmp_path, [one, two], kind)
    found = run_direct([path], ReadWarc(with_position=True))
    second = len(packed(one)) if kind == "gzip" else len(one)
    assert [(position, record.content) for position, record in found] == [((path, 0), b"one"), ((path, second), b"two")]


@pytest.mark.parametrize("size", [0, 1])
def test_an_empty_file_has_no_records(tmp_path, size):
    """Also one of several parts."""
    (tmp_path / "a.warc").write_bytes(b"")
    assert run_direct([str(tmp_path / "a.warc")], ReadWarc(block_size=size or None)) == []


@pytest.mark.parametrize("ends", [b"", b"\r\n", b"\n\n", b"\r\n" * 3], ids=repr)
def test_line_ends_after_the_last_record(tmp_path, ends):
    """Some writers forget them."""
    path = write(tmp_path, [record(b"one"), record(b"two")[:-4] + ends], "plain")
    assert wrong_cuts(ReadWarc(), path, [b"one", b"two"]) == []


@pytest.mark.parametrize("ends", [b"", b"\n", b"\n\n", b"\r\n" * 3], ids=repr)
def test_line_ends_between_records(tmp_path, ends):
    """Not as the standard wants them; then parts walk."""
    path = write(tmp_path, [one[:-4] + ends for one in map(record, CONTENTS[:4])], "plain")
    expected = [*CONTENTS[:3], CONTENTS[3]]
    assert wrong_cuts(ReadWarc(), path, expected) == []


# Records that hold WARC files


@both
@pytest.mark.parametrize("level", [0, 9], ids=["stored", "compressed"])
def test_a_record_that_holds_a_whole_file(tmp_path, kind, level):
    """It is crawled like any other."""
    inner = b"".join(packed(record(b"in %d" % one)) if kind == "gzip" else record(b"in %d" % one) for one in range(3))
    contents = [b"first", inner, b"last"]
    path = write(tmp_path, map(record, contents), kind, level)
    if kind == "plain" or level == 0:
        assert inner in Path(path).read_bytes()  # so there is something to be mistaken
    assert wrong_cuts(ReadWarc(), path, contents) == []


@pytest.mark.parametrize("digits", [5, 18, 30])
def test_a_content_that_begins_like_a_record_of_any_length(tmp_path, digits):
    """What stands in a crawled page must not stop a run: no file system can seek so far."""
    contents = [b"first", b"\nWARC/1.0\r\nContent-Length: %b\r\n\r\n" % (b"9" * digits), b"last"]
    assert wrong_cuts(ReadWarc(), write(tmp_path, map(record, contents), "plain"), contents) == []


@pytest.mark.parametrize("digits", [5, 18, 30])
def test_a_record_of_a_wild_length_is_told_by_a_walk(tmp_path, digits):
    """The parts behind it would walk over it."""
    damaged = record(b"first").replace(b": 5", b": " + b"9" * digits)
    path = write(tmp_path, [damaged, record(b"last")], "plain")
    with pytest.raises(ReadError, match="the WARC record at byte 0 cannot be read: the file ends inside of its conten"):
        part(ReadWarc(walk=True), path, len(damaged), size_of(path))


@pytest.fixture
def trap(tmp_path):
    """A plain file with a record that ends in a record without its line ends: those around it are taken for its own."""
    return write(tmp_path, map(record, [b"first", b"\r\n" + record(b"inner")[:-4], b"last"]), "plain")


def test_a_record_that_would_be_taken_for_a_file_is_an_error(trap):
    """Also where nothing is split: what a run does must not depend on that."""
    inside = Path(trap).read_bytes().index(b"\r\n\r\n\r\nWARC") + 6
    at = len(record(b"first"))
    message = f"{trap}: the WARC record at byte {at} holds WARC records itself, at byte {inside}, which a part"
    with pytest.raises(ReadError, match=re.escape(message)):
        run_direct([trap], ReadWarc())


def test_walk_reads_it_all_the_same(trap):
    """Each part goes from header to header, so nothing is taken for what it is not."""
    assert wrong_cuts(ReadWarc(walk=True), trap, [b"first", b"\r\n" + record(b"inner")[:-4], b"last"]) == []


def test_records_are_trusted_after_a_while(tmp_path, monkeypatch):
    """A part in the middle of a large file does not read to its end."""
    monkeypatch.setattr(plain, "_BELIEVED_BYTES", 50)
    records = [*map(record, CONTENTS[:4] * 3), b"damaged"]
    path = write(tmp_path, records, "plain")
    start = len(b"".join(records[:2]))
    assert part(ReadWarc(), path, start - 1, start + 1) == [CONTENTS[2]]


def test_an_inner_file_longer_than_what_is_trusted_is_an_error(tmp_path, monkeypatch):
    """It would be taken for the records of the file."""
    monkeypatch.setattr(plain, "_BELIEVED_BYTES", 50)
    path = write(tmp_path, [record(record(b"a") + record(b"b") + record(b"c"))], "plain")
    with pytest.raises(ReadError, match=r"holds WARC records itself, at byte 33, .* Pass walk=True"):
        run_direct([path], ReadWarc())


def test_each_of_many_beginnings_in_a_record_is_looked_at_once(tmp_path, monkeypatch):
    """Lines that only begin as records do, and records that follow each other for almost as long as is trusted."""
    inner = b"".join(record(b"%d" % number) for number in range(100)) + b"no record"
    path = write(tmp_path, [record(inner), record(b"WARC/1.0\r\n" * 500)], "plain")
    monkeypatch.setattr(plain, "_BELIEVED_BYTES", len(inner))
    heads = []
    read_head = plain.read_head
    monkeypatch.setattr(plain, "read_head", lambda file: heads.append(file.tell()) or read_head(file))
    assert run_direct([path], ReadWarc())[0].content == inner
    assert len(heads) == 2 + 100 + 1 + 500


# Members with more than a record, or less


def test_a_member_with_several_records_is_a_block(tmp_path):
    """As in a file that was compressed as a whole."""
    path = str(tmp_path / "a.warc.gz")
    whole = b"".join(map(record, CONTENTS))
    (tmp_path / "a.warc.gz").write_bytes(packed(whole) + packed(whole))
    assert check_dofn(ReadWarc(), path).claims <= 3
    assert wrong_cuts(ReadWarc(), path, 2 * CONTENTS) == []


def test_a_member_that_ends_inside_of_a_record_is_an_error(tmp_path):
    """It says which program helps."""
    data = record(b"0123456789")
    (tmp_path / "a.warc.gz").write_bytes(packed(data[:-8]) + packed(data[-8:]))
    with pytest.raises(ReadError, match=r"should have 10 bytes, but ends after 6\..* 'warcio recompress' writes"):
        run_direct([str(tmp_path / "a.warc.gz")], ReadWarc())


# Damage


def is_told(path, size, cut):
    """Return whether one of two parts raises."""
    try:
        part(ReadWarc(), path, 0, cut)
        part(ReadWarc(), path, cut, size)
    except ReadError:
        return True
    return False


@both
def test_damage_is_told_wherever_the_file_is_cut(tmp_path, kind):
    """No part passes over a record because its beginning is no longer one: the part before it looks for it."""
    records = [record(b"one"), record(b"two"), record(b"three")]
    path = write(tmp_path, records, kind)
    data = Path(path).read_bytes()
    starts = [sum(len(packed(one) if kind == "gzip" else one) for one in records[:number]) for number in range(3)]
    silent = []
    for start in starts:
        for at in (start, start + 2, start + (12 if kind == "gzip" else 7)):
            Path(path).write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
            silent += [(at, cut) for cut in range(len(data) + 1) if not is_told(path, len(data), cut)]
    assert silent == []


@both
def test_a_file_that_is_cut_off_is_told_wherever_it_is_cut(tmp_path, kind):
    """At any byte of its last record, but its last line ends."""
    records = [record(b"one"), record(b"two")]
    path = write(tmp_path, records, kind)
    data = Path(path).read_bytes()
    first = len(packed(records[0]) if kind == "gzip" else records[0])
    for size in range(first + 1, len(data) - (0 if kind == "gzip" else 4)):
        Path(path).write_bytes(data[:size])
        assert [cut for cut in (0, 1, first, first + 1, size) if not is_told(path, size, cut)] == []


@pytest.mark.parametrize(
    ("data", "flaw"),
    [
        (b"HTTP/1.1 200 OK\r\n", "it should begin with a line such as WARC/1.0, but begins with b'HTTP/1.1 200 OK\\r'"),
        (b"WARC/1.0\r\nA: 1\r\n", "its headers do not end"),
        (b"WARC/1.0\r\nA: 1\r\n\r\n", "its header Content-Length must be a number of bytes, but is missing"),
        (b"WARC/1.0\r\nContent-Length: -1\r\n\r\n", "must be a number of bytes, but is '-1'"),
        (b"WARC/1.0\r\nContent-Length: 2\r\ncontent-length: 1\r\n\r\n", "a number of bytes, but is '1' and '2'"),
        (b"WARC/1.0\r\nContent-Length\r\n\r\n", "its header b'Content-Length' has no colon"),
        (record(b"one")[:-5], "its content should have 3 bytes, but ends after 2"),
        (record(b"one") + b"two", "no record follows it, at byte 38"),
        (packed(record(b"one")), "It is gzip: pass compression='gzip'."),
        (bz2.compress(record(b"one")), "It is bzip2, and ReadWarc reads plain files and gzip with a member for each"),
    ],
)
def test_errors_say_what_is_wrong(tmp_path, data, flaw):
    """With file and byte."""
    (tmp_path / "a.warc").write_bytes(data)
    path = str(tmp_path / "a.warc")
    message = f"{path}: the WARC record at byte 0 cannot be read: "
    with pytest.raises(ReadError, match=re.escape(message)) as caught:
        run_direct([path], ReadWarc())
    assert flaw in str(caught.value)


@both
def test_a_content_that_is_too_long(tmp_path, kind):
    """Memory would hold it."""
    path = write(tmp_path, [record(b"0123456789")], kind)
    assert len(run_direct([path], ReadWarc(max_record_bytes=10))) == 1
    with pytest.raises(ReadError, match="its content has 10 bytes, more than max_record_bytes=9; pass more if"):
        run_direct([path], ReadWarc(max_record_bytes=9))


def test_a_member_whose_checksum_is_wrong(tmp_path):
    """zlib's words, and where."""
    data = bytearray(packed(record(b"one")))
    data[-5] ^= 1
    (tmp_path / "a.warc.gz").write_bytes(data)
    with pytest.raises(ReadError, match=r"in the gzip member at byte 0 cannot be read: .*incorrect data check"):
        run_direct([str(tmp_path / "a.warc.gz")], ReadWarc())


def test_a_long_inner_file_that_is_stored_as_it_is(tmp_path):
    """Its members begin in the bytes of the outer member, but a chain of them breaks where a stored block ends."""
    noise = random.Random(0).randbytes
    inner = b"".join(packed(record(noise(size))) for size in [1000] * 90 + [70_000, 1000])
    path = write(tmp_path, [record(b"first"), record(inner), record(b"last")], "gzip", level=0)
    data = Path(path).read_bytes()
    starts = [found.start() for found in re.finditer(rb"\x1f\x8b\x08", data)]
    assert len(starts) > 90
    for start in starts:
        last = part(ReadWarc(), path, start, len(data))[-1:]
        assert (part(ReadWarc(), path, start, start + 1), last) in (
            ([], [b"last"]), ([b"first"], [b"last"]), ([inner], [b"last"]), ([b"last"], [b"last"])
        )  # fmt: skip


def test_bytes_that_begin_a_member_by_chance(tmp_path):
    """They are passed over: the part does not read the file from its start, where it would come upon the damage."""
    path = write(tmp_path, [record(b"first"), record(packed(b"no WARC")), record(b"last")], "gzip", level=0)
    data = Path(path).read_bytes()
    Path(path).write_bytes(b"damaged!" + data[8:])
    assert part(ReadWarc(), path, data.index(packed(b"no WARC")), len(data)) == [b"last"]


@pytest.mark.parametrize("compression", ["bzip2", "", 1])
def test_wrong_compression(compression):
    """Options are checked at once."""
    with pytest.raises(InvalidValueError, match="ReadWarc compression must be 'infer', 'gzip' or None"):
        ReadWarc(compression=compression)


def test_wrong_walk():
    """A number, say."""
    with pytest.raises(InvalidTypeError, match=r"ReadWarc walk must be True or False \(got 1\)"):
        ReadWarc(walk=1)


def test_the_name_need_not_tell_the_compression(tmp_path):
    """The option does."""
    (tmp_path / "a").write_bytes(packed(record(b"one")))
    assert len(run_direct([str(tmp_path / "a")], ReadWarc(compression="gzip"))) == 1
