"""ReadAvro: every record once, however a file is cut, and what is damaged is neither lost nor doubled."""

import io
import os
import re
import sys
import zlib
from collections import Counter

import attrs
import fastavro
import fsspec
import pytest

from sdf import DoFn, TaggedOutput, run_direct
from sdf.errors import (
    InvalidTypeError,
    InvalidValueError,
    MissingExtraError,
    ReadError,
    SourceChangedError,
    UnclaimedWorkError,
)
from sdf.execution.invoker import Invoker
from sdf.io import avro as avro_module
from sdf.io.avro import ReadAvro
from sdf.io.files.blocks import FileBlocks
from sdf.io.files.pinned import FileInfo
from sdf.io.text.text_fn import BadRecord
from sdf.testing import check_dofn

FINER = pytest.param(1, marks=pytest.mark.slow("the same test with larger steps"))

MARKER = b"0123456789abcdef"
FRACTIONS = (0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999)
ROWS = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
}


class AvroReader(DoFn):
    """The reader of the article that introduced splittable DoFns; if it is to, it claims the end of the file, too."""

    def __init__(self, *, claims_end):
        self.claims_end = claims_end

    def get_initial_restriction(self, filename):
        return (0, os.path.getsize(filename))

    def process(self, filename, tracker):
        with open(filename, "rb") as file:
            start, _ = tracker.current_restriction()
            for block in fastavro.block_reader(file):
                if block.offset >= start:
                    if not tracker.try_claim(block.offset):
                        return
                    yield from block
        if self.claims_end:
            tracker.try_claim(tracker.current_restriction().stop)


def rows(count):
    return [{"id": number * 1000, "name": None if number % 3 == 0 else "x" * (number % 7)} for number in range(count)]


# Records that hold the marker: at their start, at their end, twice, alone, before what is almost a block.
MARKED = [
    b"a" + MARKER,
    MARKER + b"b",
    MARKER,
    b"plain",
    MARKER * 2,
    MARKER + b"\x02\x04abc",
    MARKER + b"\x02\x04ab" + MARKER[:-1] + b"x",
    MARKER + b"\x80" * 12,
    MARKER[1:] + MARKER,
    MARKER + b"\x03\x01" + b"z" * 20,
]

FILES = {  # schema, records, bytes after which a block ends
    "a block for each record": (ROWS, rows(7), 1),
    "a few records in each block": (ROWS, rows(30), 60),
    "one block": (ROWS, rows(9), 10_000),
    "no record": (ROWS, [], 1),
    "records without bytes": ("null", [None] * 5, 1),
    "markers in records, each a block": ("bytes", MARKED, 1),
    "markers in records, some in each block": ("bytes", MARKED, 50),
    "markers in records, one block": ("bytes", MARKED, 10_000),
}
CODECS = ("null", "deflate", "bzip2", "xz", "snappy", "zstandard", "lz4")


def has_codec(codec):
    try:
        fastavro.writer(io.BytesIO(), "null", [None], codec=codec)
    except ValueError:
        return False
    return True


def avro(schema, records, sync_interval, codec="null"):
    """Return the bytes of a file."""
    file = io.BytesIO()
    fastavro.writer(file, schema, records, codec=codec, sync_interval=sync_interval, sync_marker=MARKER)
    return file.getvalue()


def blocks_of(data):
    """Return the offset and the size of each block of a file."""
    return [(block.offset, block.size) for block in fastavro.block_reader(io.BytesIO(data))]


def outputs_of(fn, element, restriction, at=0, fraction=0):
    """Return the outputs of a restriction; with ``at``, split it and each residual after so many claims."""
    residuals = []

    def on_claim(claims, _position):
        if claims == at:
            residuals.append(invoker.split(fraction))

    invoker = Invoker(fn, element, restriction, on_claim=on_claim)
    outputs = [("bad", out.value) if isinstance(out, TaggedOutput) else out for out in invoker.run()]
    for residual in filter(None, residuals):
        outputs += outputs_of(fn, element, residual.restriction, at, fraction)
    return outputs


def parts_of(fn, path, cut):
    """Return the restrictions on both sides of a cut."""
    whole = fn.get_initial_restriction(path)
    return attrs.evolve(whole, stop=cut), attrs.evolve(whole, start=cut)


def read_cut(fn, path, cut):
    """Return the outputs of the two parts that a cut makes, those of the first part first."""
    first, second = parts_of(fn, path, cut)
    return outputs_of(fn, path, first) + outputs_of(fn, path, second)


@pytest.fixture
def write(tmp_path):
    """Write a file and return its path."""

    def write(data, name="file.avro"):
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


@pytest.fixture(params=FILES)
def small(request, write):
    """A small file: its path and its records."""
    schema, records, sync_interval = FILES[request.param]
    return write(avro(schema, records, sync_interval)), records


# Splits


@pytest.mark.parametrize("step", [3, FINER])
def test_every_cut_gives_each_record_once(small, step):
    """Over every cut of the bytes, the two parts give the records of the whole, in order."""
    path, records = small
    cuts = range(0, os.path.getsize(path) + 1, step)
    assert [cut for cut in cuts if read_cut(ReadAvro(), path, cut) != records] == []


@pytest.mark.parametrize("step", [11, FINER])
def test_every_size_of_file_block_gives_each_record_once(small, step):
    """Over every size of FileBlock, the blocks give the records of the whole."""
    path, records = small
    sizes = range(step, os.path.getsize(path) + 2, step)
    wrong = [size for size in sizes if run_direct(run_direct([path], FileBlocks(size)), ReadAvro()) != records]
    assert wrong == []


def test_every_first_split_gives_each_record_once(small):
    """Over sizes of the parts that a file is split into from the start."""
    path, records = small
    sizes = range(1, os.path.getsize(path) + 2, 5)
    assert [size for size in sizes if run_direct([path], ReadAvro(block_size=size)) != records] == []


@pytest.mark.parametrize("at", [1, 2, 3])
def test_splits_of_splits_while_it_runs_give_each_record_once(small, at):
    """A restriction, its residual, the residual's and so on, each split after so many claims."""
    path, records = small
    fn = ReadAvro()
    whole = fn.get_initial_restriction(path)
    wrong = [fraction for fraction in FRACTIONS if outputs_of(fn, path, whole, at, fraction) != records]
    assert wrong == []


def test_a_block_belongs_to_the_part_that_it_starts_in(write):
    """The position is the byte after the marker: a cut there moves the block, a cut one byte further does not."""
    data = avro(ROWS, rows(4), 1)
    path, fn = write(data), ReadAvro()
    at = blocks_of(data)[2][0]
    firsts = [parts_of(fn, path, cut)[0] for cut in (at - 1, at, at + 1)]
    assert [len(outputs_of(fn, path, first)) for first in firsts] == [2, 2, 3]


@pytest.mark.parametrize("options", [{}, {"on_error": "tag"}, {"with_position": True}], ids=str)
def test_the_contract_holds(small, options):
    """check_dofn finds nothing."""
    path, records = small
    fn = ReadAvro(**options)
    assert check_dofn(fn, path, tags=("bad",)).records == len(records)


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_split_after_every_claim_gives_each_record_once(small, seed):
    """In whatever order the parts run."""
    path, records = small
    found = run_direct([path], ReadAvro(), split_every=1, seed=seed)
    assert Counter(map(repr, found)) == Counter(map(repr, records))


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 200_000])
def test_blocks_around_and_beyond_the_chunks_of_the_search(write, size):
    """A marker is found wherever it lies in what is read at once."""
    records = [b"x" * size, b"y" * size, b"z"]
    data = avro("bytes", records, 1)
    path = write(data)
    cuts = {min(at + step, len(data)) for at, _ in blocks_of(data) for step in range(-18, 60)}
    assert [cut for cut in sorted(cuts) if read_cut(ReadAvro(), path, cut) != records] == []


def copies():
    """Return files of three records, the middle one with a copy of blocks in it, by what is special about it."""
    copy = avro("bytes", [b"inner%d" % number for number in range(4)], 1)
    first = blocks_of(copy)[0][0]
    middles = {
        "a file": copy,
        "two files": copy * 2,
        "blocks alone": copy[first:],
        "a block that is cut off": copy[:-20],
        "blocks with markers in them": avro("bytes", MARKED, 1),
        "one block of several records": avro("bytes", [b"a", b"b", b"c"], 1000),
        "a copy of a copy": avro("bytes", [b"a", copy, b"b"], 1),
    }
    return {
        **{name: [b"first", middle, b"last"] for name, middle in middles.items()},
        "the last record": [b"first", b"second", copy],
    }


@pytest.mark.parametrize("sync_interval", [1, 10_000])
@pytest.mark.parametrize("name", copies())
def test_blocks_in_a_record_are_not_read_as_blocks(write, name, sync_interval):
    """Over every cut of a file with a copy of blocks in a record, with the very marker of the file."""
    records = copies()[name]
    path = write(avro("bytes", records, sync_interval))
    cuts = range(os.path.getsize(path) + 1)
    assert [cut for cut in cuts if read_cut(ReadAvro(), path, cut) != records] == []


def test_a_large_copy_in_a_record_is_not_read_as_blocks(write):
    """A copy that goes on for almost a mebibyte, over cuts in it and at its ends."""
    copy = avro("bytes", [b"%06d" % number * 1000 for number in range(150)], 1)
    records = [b"first", copy, *(b"x" * 1000 for _ in range(300))]
    data = avro("bytes", records, 1)
    path = write(data)
    cuts = range(0, len(data), len(data) // 40)
    assert [cut for cut in cuts if read_cut(ReadAvro(), path, cut) != records] == []


@pytest.mark.parametrize("sync_interval", [1, 10_000])
def test_copied_blocks_that_are_believed_are_an_error(write, monkeypatch, sync_interval):
    """From the part before, which knows where the block ends; here whoever begins in the middle believes one block."""
    monkeypatch.setattr(avro_module, "_BELIEVED_BYTES", 1)
    refused = 0
    for records in copies().values():
        path = write(avro("bytes", records, sync_interval))
        for cut in range(os.path.getsize(path) + 1):
            try:
                found = read_cut(ReadAvro(), path, cut)
            except ReadError:
                found = read_cut(ReadAvro(walk=True), path, cut)
                refused += 1
            assert found == records
    assert refused > 100


def test_a_walk_from_the_header_goes_on_from_the_one_before(write, monkeypatch):
    """Parts of a file with its marker in every record: together they read each block a few times."""
    monkeypatch.setattr(avro_module, "_BELIEVED_BYTES", 1000)
    records = [MARKER + b"x" * 80] * 1000
    path = write(avro("bytes", records, 1))
    read, original = [], avro_module._AvroFile.read
    monkeypatch.setattr(avro_module._AvroFile, "read", lambda self, at: read.append(at) or original(self, at))
    assert run_direct([path], ReadAvro(block_size=1000)) == records
    assert len(read) < 20_000


def test_a_snappy_block_has_the_checksum_of_its_text(write):
    """fastavro does not compare it."""
    data = bytearray(avro("bytes", [bytes(range(256))], 1, "snappy"))
    data[data.index(bytes(range(50, 60)))] ^= 1
    with pytest.raises(ReadError, match=r"the Avro block at byte .* its CRC-32 is 0x.*, but should be 0x"):
        run_direct([write(bytes(data))], ReadAvro())


def test_a_part_in_the_middle_reads_nothing_before_it(write, monkeypatch):
    """Blocks that follow each other for long enough are believed without the way from the header."""
    data = avro("bytes", [b"x" * 1000] * 4000, 1)
    path = write(data)
    read, original = [], avro_module._AvroFile.read
    monkeypatch.setattr(avro_module._AvroFile, "read", lambda self, at: read.append(at) or original(self, at))
    start = len(data) // 2
    _, second = parts_of(ReadAvro(), path, start)
    outputs_of(ReadAvro(), path, second)
    assert min(read) >= start


# What it gives


@pytest.mark.parametrize("codec", [codec for codec in CODECS if has_codec(codec)])
def test_records_are_those_of_fastavro(write, codec):
    """For every codec that fastavro has here, cut as FileBlocks of 1 kB."""
    path = write(avro(ROWS, rows(2000), 700, codec))
    with open(path, "rb") as file:
        expected = list(fastavro.reader(file))
    assert expected == rows(2000)
    assert run_direct(run_direct([path], FileBlocks(1000)), ReadAvro()) == expected


def test_records_have_the_types_of_the_schema(write):
    """Logical types, nested records and unions come as fastavro makes them."""
    schema = {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
            {"name": "next", "type": ["null", "Event"]},
        ],
    }
    last = {"day": 20_000, "tags": {"a": [1.5]}, "next": None}
    path = write(avro(schema, [{**last, "next": last}] * 3, 1))
    with open(path, "rb") as file:
        assert run_direct([path], ReadAvro(), split_every=1) == list(fastavro.reader(file))


def test_reader_schema_resolves_the_records(write):
    """Fields that are not asked for go, those with a default come."""
    path = write(avro(ROWS, rows(5), 1))
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "id", "type": "double"}, {"name": "new", "type": "string", "default": "-"}],
    }
    expected = [{"id": float(row["id"]), "new": "-"} for row in rows(5)]
    assert run_direct([path], ReadAvro(reader_schema=schema), split_every=1) == expected


def test_position_names_file_and_avro_block(write):
    """Records of one block have the same position."""
    data = avro(ROWS, rows(6), 20)
    path = write(data)
    blocks = list(fastavro.block_reader(io.BytesIO(data)))
    assert len(blocks) > 1
    expected = [((path, block.offset), record) for block in blocks for record in block]
    assert run_direct([path], ReadAvro(with_position=True)) == expected


def test_a_file_of_no_bytes_has_no_records(write):
    """There is nothing to read in it."""
    assert run_direct([write(b"")], ReadAvro()) == []


def test_files_are_opened_through_fsspec():
    """Here in memory."""
    with fsspec.open("memory://test_avro/file.avro", "wb") as file:
        file.write(avro(ROWS, rows(5), 1))
    assert run_direct(["memory://test_avro/file.avro"], ReadAvro(), split_every=1) == rows(5)


# What is no block, or does not decode


def damaged_files():
    """Return files in which block 2 is damaged, by what is wrong with it."""
    data = avro(ROWS, rows(6), 1)
    at, size = blocks_of(data)[2]
    packed = avro(ROWS, rows(6), 1, "deflate")
    packed_at, _ = blocks_of(packed)[2]

    def put(into, offset, what):
        return into[:offset] + what + into[offset + len(what) :]

    return {
        "a union that has no such branch": put(data, at + 4, b"\x08"),
        "more records than it has": put(data, at, b"\x08"),
        "fewer than no records": put(data, at, b"\x01"),
        "fewer records than it has": put(data, at, b"\x00"),
        "fewer compressed records": put(packed, packed_at, b"\x00"),
        "compressed bytes": put(packed, packed_at + 2, b"\xff\xff"),
        "a size that is too small": put(data, at + 1, b"\x02"),
        "a size beyond the file": put(data, at + 1, b"\x7e"),
        "a size below zero": put(data, at + 1, b"\x01"),
        "a size without an end": put(data, at + 1, b"\xff" * (size - 17)),
        "its marker": put(data, at + size - 16, b"-" * 16),
        "all of it": put(data, at, bytes(size)),
    }


DAMAGED = damaged_files()


@pytest.mark.parametrize("flaw", DAMAGED)
def test_a_damaged_block_is_tagged_once_and_the_others_are_read(write, flaw):
    """Over every cut: all records but those of the block, and one BadRecord, from the part that it starts in."""
    path = write(DAMAGED[flaw])
    fn = ReadAvro(on_error="tag")
    whole = outputs_of(fn, path, fn.get_initial_restriction(path))
    bad = [out[1] for out in whole if isinstance(out, tuple)]
    lost = 2 if flaw in ("its marker", "all of it") else 1  # the next block cannot be found without the marker
    assert [out for out in whole if not isinstance(out, tuple)] == rows(6)[:2] + rows(6)[2 + lost :]
    starts = [at for at, _ in blocks_of(avro(ROWS, rows(6), 1, "deflate" if "compressed" in flaw else "null"))]
    start, stop = starts[2], starts[2 + lost]
    assert bad == [BadRecord(path, start, DAMAGED[flaw][start:stop], bad[0].error)]
    cuts = range(os.path.getsize(path) + 1)
    assert [cut for cut in cuts if read_cut(fn, path, cut) != whole] == []


@pytest.mark.parametrize("flaw", DAMAGED)
def test_a_damaged_block_raises_in_the_part_that_it_starts_in(write, flaw):
    """Over every cut: one of the parts raises, so that it cannot be overlooked."""
    path = write(DAMAGED[flaw])
    fn = ReadAvro()
    wrong = []
    for cut in range(os.path.getsize(path) + 1):
        raised = 0
        for part in parts_of(fn, path, cut):
            try:
                outputs_of(fn, path, part)
            except ReadError:
                raised += 1
        if raised != 1:
            wrong.append(cut)
    assert wrong == []


def test_a_marker_in_a_damaged_block_begins_no_block(write):
    """What is bad goes on to the next block."""
    records = [b"first", MARKER + b"z" * 40 + MARKER, b"last"]
    data = avro("bytes", records, 1)
    at, size = blocks_of(data)[1]
    path = write(data[: at + 1] + b"\x02" + data[at + 2 :])  # a size of one byte
    fn = ReadAvro(on_error="tag")
    whole = outputs_of(fn, path, fn.get_initial_restriction(path))
    assert [out if isinstance(out, bytes) else (out[1].offset, len(out[1].data)) for out in whole] == [
        b"first",
        (at, size),
        b"last",
    ]
    assert [cut for cut in range(len(data) + 1) if read_cut(fn, path, cut) != whole] == []


@pytest.mark.parametrize("rest", [b"\xff", b"\x02\xff", b"\x02\xff\xff\xff"])
def test_a_file_that_ends_in_a_number_says_so(write, rest):
    """The count or the size of the last block has no end."""
    data = avro(ROWS, rows(2), 1)
    outputs = run_direct([write(data + rest)], ReadAvro(on_error="tag"), tags=("bad",), split_every=1)
    assert outputs["main"] == rows(2)
    assert [(bad.offset, bad.data) for bad in outputs["bad"]] == [(len(data), rest)]


@pytest.mark.parametrize("kept", [1, 2, 3, 10, 18, 19])
def test_a_file_that_ends_in_a_block_says_so(write, kept):
    """What is left of the last block is bad, not forgotten."""
    data = avro(ROWS, rows(5), 1)
    at, size = blocks_of(data)[-1]
    assert kept < size
    path = write(data[: at + kept])
    with pytest.raises(ReadError, match=re.escape(f"{path}: the Avro block at byte {at} cannot be read")):
        run_direct([path], ReadAvro())
    outputs = run_direct([path], ReadAvro(on_error="tag"), tags=("bad",), split_every=1)
    assert outputs["main"] == rows(4)
    assert [(bad.offset, bad.data) for bad in outputs["bad"]] == [(at, data[at : at + kept])]


@pytest.mark.parametrize("step", [3, FINER])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_whatever_byte_is_damaged_parts_give_what_the_whole_gives(write, codec, step):
    """Every byte after the header is changed in turn, and the file cut near there."""
    data = avro(ROWS, rows(5), 1, codec)
    header = blocks_of(data)[0][0]
    fn = ReadAvro(on_error="tag")
    wrong = []
    for place in range(header, len(data), step):
        for flipped in (0x01, 0x80):
            path = write(data[:place] + bytes([data[place] ^ flipped]) + data[place + 1 :])
            whole = outputs_of(fn, path, fn.get_initial_restriction(path))
            cuts = {place - 17, place, place + 1, place + 20}
            wrong += [(place, cut) for cut in cuts if read_cut(fn, path, min(cut, len(data))) != whole]
    assert wrong == []


def test_the_error_names_file_offset_cause_and_way_out(write):
    """What one needs to look for the damage, or to go on without."""
    data = DAMAGED["compressed bytes"]
    at = blocks_of(avro(ROWS, rows(6), 1, "deflate"))[2][0]
    path = write(data)
    message = f"{path}: the Avro block at byte {at} cannot be read: error: Error -3 while decompressing data"
    with pytest.raises(ReadError, match=re.escape(message)) as caught:
        run_direct([path], ReadAvro())
    assert "pass on_error='tag', and tags=('bad',) to the runner." in str(caught.value)
    assert isinstance(caught.value.__cause__.__cause__, zlib.error)


def test_no_record_of_a_bad_block_is_given(write):
    """Its first records decode, but whoever repairs the block would have them twice."""
    data = avro(ROWS, rows(8), 10_000)
    at, size = blocks_of(data)[0]
    path = write(data[:at] + b"\x12" + data[at + 1 :])  # nine records, not eight
    outputs = run_direct([path], ReadAvro(on_error="tag"), tags=("bad",))
    (bad,) = outputs.pop("bad")
    assert outputs == {"main": []}
    assert bad == BadRecord(path, at, b"\x12" + data[at + 1 : at + size], bad.error)


def test_what_is_given_of_a_long_damage_has_a_bound(write):
    """Where no block follows, not all of the file is held in memory."""
    data = avro(ROWS, rows(2), 1)
    path = write(data + b"x" * 3_000_000)
    outputs = run_direct([path], ReadAvro(on_error="tag"), tags=("bad",))
    assert outputs["main"] == rows(2)
    assert [(bad.offset, bad.data) for bad in outputs["bad"]] == [(len(data), b"x" * (1 << 20))]


@pytest.mark.parametrize("data", [b"x", b"id,name\n1,a\n" * 100, b"Obj\x02" + b"x" * 100, b"PAR1" * 50])
@pytest.mark.parametrize("on_error", ["raise", "tag"])
def test_a_file_that_is_not_avro_says_so(write, data, on_error):
    """Whatever is to become of bad blocks."""
    path = write(data)
    with pytest.raises(ReadError, match=re.escape(f"{path} is not an Avro file")):
        run_direct([path], ReadAvro(on_error=on_error))


def test_every_damage_of_the_header_that_stops_fastavro_is_a_read_error(write):
    """A header that was cut off, at any byte."""
    data = avro(ROWS, rows(1), 1)
    for kept in range(4, blocks_of(data)[0][0]):
        path = write(data[:kept])
        with pytest.raises(ReadError, match=re.escape(f"{path}: its Avro header cannot be read")):
            run_direct([path], ReadAvro())


@pytest.mark.parametrize("on_error", ["raise", "tag"])
def test_a_codec_that_nobody_knows_is_named(write, on_error):
    """There is nothing to install."""
    path = write(avro(ROWS, rows(3), 1).replace(b"\x08null", b"\x08nope", 1))
    with pytest.raises(ReadError, match=re.escape(f"{path}: its header names the codec 'nope', which fastavro does ")):
        run_direct([path], ReadAvro(on_error=on_error))


@pytest.mark.skipif(has_codec("snappy"), reason="needs a codec that is not installed")
@pytest.mark.parametrize("on_error", ["raise", "tag"])
def test_a_codec_that_is_missing_here_is_not_the_fault_of_the_blocks(write, on_error):
    """It is an error though bad blocks are tagged: all of them would be bad."""
    path = write(avro(ROWS, rows(3), 1).replace(b"\x08null", b"\x0csnappy", 1))
    with pytest.raises(ReadError, match=re.escape(f"{path}: fastavro cannot read the codec 'snappy' here: ")):
        run_direct([path], ReadAvro(on_error=on_error))


# Files that change


def test_what_is_appended_belongs_to_a_later_read(write):
    """A FileInfo pins the size."""
    data = avro(ROWS, rows(5), 1)
    path = write(data[: blocks_of(data)[3][0]])
    fn = ReadAvro()
    file = fn.file_of(path)
    with open(path, "ab") as more:
        more.write(data[blocks_of(data)[3][0] :])
    assert run_direct([file], fn) == rows(3)
    assert run_direct([path], fn) == rows(5)


@pytest.mark.parametrize("change", ["shrunk", "replaced", "gone"])
def test_a_file_that_has_changed_since_it_was_planned_raises(write, change):
    """The restriction pins the file."""
    data = avro(ROWS, rows(5), 1)
    path = write(data)
    fn = ReadAvro()
    restriction = fn.get_initial_restriction(path)
    if change == "shrunk":
        os.truncate(path, len(data) - 20)
    elif change == "replaced":
        os.replace(write(data, "other.avro"), path)
    else:
        os.remove(path)
    with pytest.raises(SourceChangedError, match=re.escape(path)):
        outputs_of(fn, path, restriction)


@pytest.mark.parametrize("on_error", ["raise", "tag"])
def test_a_file_that_shrinks_while_it_is_read_raises(write, on_error):
    """Nothing is taken for a bad block."""
    path = write(avro("bytes", [b"x" * 100_000] * 5, 1))
    fn = ReadAvro(on_error=on_error)
    outputs = Invoker(fn, path, fn.get_initial_restriction(path)).run()
    next(outputs)
    os.truncate(path, 150_000)
    with pytest.raises(SourceChangedError, match=re.escape(path)):
        list(outputs)


# Options


@pytest.mark.parametrize("on_error", ["skip", None, True])
def test_on_error_must_be_known(on_error):
    """The message names both."""
    message = f"ReadAvro on_error must be 'raise' or 'tag' (got {on_error!r})."
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        ReadAvro(on_error=on_error)


@pytest.mark.parametrize("walk", [1, None, "yes"])
def test_walk_must_be_true_or_false(walk):
    """A mistake shows where it is made."""
    with pytest.raises(InvalidTypeError, match="ReadAvro walk must be True or False"):
        ReadAvro(walk=walk)


@pytest.mark.parametrize("schema", [5, {}, {"type": "nope"}], ids=str)
def test_reader_schema_must_be_a_schema(schema):
    """It is looked at before anything runs."""
    with pytest.raises(
        InvalidValueError, match=re.escape(f"ReadAvro reader_schema must be an Avro schema (got {schema!r})")
    ):
        ReadAvro(reader_schema=schema)


@pytest.mark.parametrize(("size", "error"), [("1", InvalidTypeError), (0, InvalidValueError)])
def test_block_size_must_be_a_number_of_bytes(size, error):
    """As for every reader of files."""
    with pytest.raises(error, match="ReadAvro block_size must be"):
        ReadAvro(block_size=size)


def test_without_fastavro_the_error_says_how_to_install_it(monkeypatch, write):
    """On the driver when it is made, on a worker when it runs."""
    made = ReadAvro()
    restriction = made.get_initial_restriction(write(avro(ROWS, rows(1), 1)))
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'fastavro>=1.9'")):
        ReadAvro()
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'fastavro>=1.9'")):
        outputs_of(made, restriction.file.path, restriction)


def test_planning_opens_no_file():
    """Names and sizes are enough."""
    file = FileInfo("/nowhere/file.avro", 100)
    fn = ReadAvro(block_size=30)
    restriction = fn.get_initial_restriction(file)
    parts = [(part.start, part.stop) for part in fn.split_restriction(file, restriction)]
    assert parts == [(0, 30), (30, 60), (60, 90), (90, 100)]


def test_the_reader_of_the_article_needs_a_last_claim(write):
    """As it stands there, it seems to leave what follows the start of the last block; a claim of the end mends that."""
    path = write(avro(*FILES["a few records in each block"]))
    with pytest.raises(UnclaimedWorkError, match="at the end of the input claim the restriction's stop"):
        run_direct([path], AvroReader(claims_end=False))
    assert run_direct([path], AvroReader(claims_end=True)) == rows(30)
    check_dofn(AvroReader(claims_end=True), path)
