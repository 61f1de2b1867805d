"""ReadParquet: every row of every row group once, however a file is cut, and the rows that pyarrow reads."""

import math
import os
import re
import struct
import subprocess
import sys
from collections import Counter
from datetime import datetime, time

import attrs
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdf import run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, MissingExtraError, ReadError, SourceChangedError
from sdf.execution.invoker import Invoker
from sdf.io.files.blocks import FileBlocks
from sdf.io.files.pinned import FileInfo
from sdf.io.parquet import ReadParquet
from sdf.testing import check_dofn

FRACTIONS = (0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999)


def table(count):
    return pa.table({"id": range(count), "name": [None if i % 3 == 0 else "x" * (i % 7) for i in range(count)]})


NESTED = pa.table(
    {
        "id": [1, 2, 3],
        "place": [{"town": "a", "at": [1.5, None]}, None, {"town": None, "at": []}],
        "tags": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "dotted.name": ["x", "y", "z"],
    }
)


def in_groups(*counts):
    """Return the parts of a table that are the row groups of a file."""
    whole = table(sum(counts))
    return [whole.slice(sum(counts[:number]), count) for number, count in enumerate(counts)]


FILES = {  # row groups, how they are written
    "one row group": (in_groups(5), {}),
    "a row in each row group": (in_groups(1, 1, 1, 1), {}),
    "without dictionaries": (in_groups(2, 2, 2), {"use_dictionary": False, "compression": "none"}),
    "a dictionary for some columns": (in_groups(2, 2, 2), {"use_dictionary": ["name"], "compression": "gzip"}),
    "row groups without rows": (in_groups(0, 2, 0, 0, 3, 0), {}),
    "row groups without rows and pages": (in_groups(0, 2, 0, 0, 3, 0), {"use_dictionary": False}),
    "nothing but such row groups": (in_groups(0, 0), {}),
    "no row group": ([], {}),
    "nested columns": ([NESTED, NESTED.slice(1)], {"write_statistics": False, "store_schema": False}),
}


def write_groups(path, groups, **options):
    schema = groups[0].schema if groups else table(0).schema
    with pq.ParquetWriter(path, schema, **options) as writer:
        for group in groups:
            writer.write_table(group)
    return str(path)


def outputs_of(fn, element, restriction, at=0, fraction=0):
    """Return the outputs of a restriction; with ``at``, split it and each residual after so many claims."""
    residuals = []

    def on_claim(claims, _position):
        if claims == at:
            residuals.append(invoker.split(fraction))

    invoker = Invoker(fn, element, restriction, on_claim=on_claim)
    outputs = list(invoker.run())
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


@pytest.fixture(params=FILES)
def small(request, tmp_path):
    """A small file: its path and its rows."""
    groups, options = FILES[request.param]
    return write_groups(tmp_path / "file.parquet", groups, **options), [
        row for part in groups for row in part.to_pylist()
    ]


@pytest.fixture
def plain(tmp_path):
    """A file of three row groups with two rows each."""
    return write_groups(tmp_path / "plain.parquet", in_groups(2, 2, 2))


# Splits


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow("the same test with fewer cuts"))])
def test_every_cut_gives_each_row_once(small, step):
    """Over the cuts of the bytes, the two parts give the rows of the whole, in order."""
    path, rows = small
    cuts = {*range(0, os.path.getsize(path), step), os.path.getsize(path)}
    assert [cut for cut in cuts if read_cut(ReadParquet(), path, cut) != rows] == []


def test_every_size_of_file_block_gives_each_row_once(plain):
    """Over sizes of FileBlock, the blocks give the rows of the whole."""
    rows = table(6).to_pylist()
    sizes = range(11, os.path.getsize(plain) + 30, 7)
    wrong = [size for size in sizes if run_direct(run_direct([plain], FileBlocks(size)), ReadParquet()) != rows]
    assert wrong == []


def test_every_first_split_gives_each_row_once(plain):
    """Over sizes of the parts that a file is split into from the start."""
    sizes = range(11, os.path.getsize(plain) + 30, 7)
    rows = table(6).to_pylist()
    assert [size for size in sizes if run_direct([plain], ReadParquet(block_size=size)) != rows] == []


@pytest.mark.parametrize("at", [1, 2, 3])
def test_splits_of_splits_while_it_runs_give_each_row_once(small, at):
    """A restriction, its residual, the residual's and so on, each split after so many claims."""
    path, rows = small
    fn = ReadParquet()
    whole = fn.get_initial_restriction(path)
    assert [fraction for fraction in FRACTIONS if outputs_of(fn, path, whole, at, fraction) != rows] == []


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_row_group_belongs_to_the_part_that_it_starts_in(tmp_path, use_dictionary):
    """It starts with the first page of column 0, a dictionary if there is one; nothing lies before it but PAR1."""
    path = write_groups(tmp_path / "file.parquet", in_groups(2), use_dictionary=use_dictionary)
    found = [len(outputs_of(ReadParquet(), path, parts_of(ReadParquet(), path, cut)[0])) for cut in (4, 5)]
    assert found == [0, 2]


@pytest.mark.parametrize("options", [{}, {"with_position": True}, {"columns": ["id"]}], ids=str)
def test_the_contract_holds(small, options):
    """check_dofn finds nothing."""
    path, rows = small
    assert check_dofn(ReadParquet(**options), path).records == len(rows)


def test_the_contract_holds_for_batches(small):
    """A row group is a batch here."""
    path, rows = small
    assert check_dofn(ReadParquet(batches=True), path).records <= len(rows)


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_split_after_every_claim_gives_each_row_once(small, seed):
    """In whatever order the parts run."""
    path, rows = small
    found = run_direct([path], ReadParquet(), split_every=1, seed=seed)
    assert Counter(map(repr, found)) == Counter(map(repr, rows))


# What it gives


def test_rows_are_those_of_pyarrow(small):
    """As its own reader makes them of the whole file."""
    path, _ = small
    assert run_direct([path], ReadParquet(), split_every=1) == pq.read_table(path).to_pylist()


def test_batches_are_those_of_pyarrow(small):
    """Together they are the table that its own reader makes."""
    path, _ = small
    expected = pq.read_table(path)
    batches = run_direct([path], ReadParquet(batches=True), split_every=1)
    assert pa.Table.from_batches(batches, expected.schema).equals(expected)


def test_batches_have_a_bound(tmp_path):
    """A row group is read in batches of at most 16,384 rows, which is what memory holds."""
    path = write_groups(tmp_path / "file.parquet", in_groups(40_000, 10))
    sizes = [batch.num_rows for batch in run_direct([path], ReadParquet(batches=True))]
    assert sizes == [16_384, 16_384, 40_000 - 2 * 16_384, 10]


@pytest.mark.parametrize(
    "columns", [["id"], ("id",), ["place"], ["place.town"], ["place.at", "id"], ["dotted.name"], []], ids=str
)
def test_columns_are_selected_as_pyarrow_does(tmp_path, columns):
    """A field of a column is named with a dot."""
    path = write_groups(tmp_path / "file.parquet", [NESTED, NESTED])
    expected = pq.ParquetFile(path).read(columns=list(columns)).to_pylist()
    assert run_direct([path], ReadParquet(columns=columns)) == expected


@pytest.mark.parametrize("column", ["nope", "i", "place.nope", "place.", "dotted", ""])
def test_a_column_that_is_not_there_is_an_error(tmp_path, column):
    """pyarrow would leave it out; the message has what is there."""
    path = write_groups(tmp_path / "file.parquet", [NESTED])
    assert pq.ParquetFile(path).read(columns=["id", column]).column_names == ["id"]
    with pytest.raises(
        ReadError, match=re.escape(f": {path} has no column {column!r}; it has ['id', 'place', 'tags', 'dotted.name'].")
    ):
        run_direct([path], ReadParquet(columns=["id", column]))


def test_position_names_file_and_row_group(plain):
    """Also where row groups before it have no part in the restriction."""
    rows = table(6).to_pylist()
    expected = [((plain, number), row) for number in range(3) for row in rows[2 * number : 2 * number + 2]]
    fn = ReadParquet(with_position=True)
    assert run_direct([plain], fn, split_every=1) == expected
    batches = run_direct([plain], ReadParquet(with_position=True, batches=True))
    assert [(position, batch.num_rows) for position, batch in batches] == [((plain, i), 2) for i in range(3)]


def test_a_file_of_no_bytes_has_no_rows(tmp_path):
    """There is nothing to read in it."""
    (tmp_path / "empty.parquet").write_bytes(b"")
    assert run_direct([str(tmp_path / "empty.parquet")], ReadParquet()) == []


def test_files_are_opened_through_fsspec(plain):
    """Here in memory."""
    with fsspec.open("memory://test_parquet/file.parquet", "wb") as file, open(plain, "rb") as written:
        file.write(written.read())
    found = run_direct(["memory://test_parquet/file.parquet"], ReadParquet(), split_every=1)
    assert found == table(6).to_pylist()


# What is no Parquet, and files that change


@pytest.mark.parametrize("data", [b"x", b"id,name\n" * 100, b"PAR1" + b"x" * 100, b"PAR1" + b"x" * 100 + b"PAR1"])
def test_a_file_that_is_not_parquet_says_so(tmp_path, data):
    """The message names it."""
    path = tmp_path / "file.parquet"
    path.write_bytes(data)
    with pytest.raises(ReadError, match=re.escape(f"{path} cannot be read as Parquet: ")):
        run_direct([str(path)], ReadParquet())


def test_a_row_group_that_cannot_be_read_is_named(tmp_path):
    """With the byte that it starts at, and what pyarrow says."""
    path = write_groups(tmp_path / "file.parquet", in_groups(2, 2, 2))
    at = pq.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 20)
    message = f"{path}: row group 1 at byte {at} cannot be read as Parquet: "
    with pytest.raises(ReadError, match=re.escape(message)):
        run_direct([path], ReadParquet())


ENCRYPTED = """
import base64, sys
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.parquet.encryption as pe
from sdf import run_direct
from sdf.io import ReadParquet

class Keys(pe.KmsClient):
    def wrap_key(self, key, master):
        return base64.b64encode(key)

path, plaintext_footer = sys.argv[1], sys.argv[2] == "True"
table = pa.table({"id": range(9), "name": ["x"] * 9})
how = pe.EncryptionConfiguration(footer_key="f", column_keys={"k": ["id"]}, plaintext_footer=plaintext_footer)
keys = pe.CryptoFactory(lambda config: Keys()).file_encryption_properties(pe.KmsConnectionConfig(), how)
with pq.ParquetWriter(path, table.schema, encryption_properties=keys) as writer:
    writer.write_table(table)
run_direct([path], ReadParquet())
"""


@pytest.mark.parametrize(
    ("plaintext_footer", "message"), [(True, " has encrypted columns"), (False, " cannot be read as Parquet: ")]
)
def test_an_encrypted_file_says_so(tmp_path, plaintext_footer, message):
    """In a process of its own, since pyarrow ends the process of who asks where an encrypted column begins."""
    path = str(tmp_path / "file.parquet")
    command = [sys.executable, "-c", ENCRYPTED, path, str(plaintext_footer)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, f"ReadError: {path}{message}" in ran.stderr) == (1, True), ran.stderr


def test_two_columns_of_one_name_are_an_error(tmp_path):
    """A dict would lose one of them; a batch has both."""
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "b", "a"])
    path = write_groups(tmp_path / "file.parquet", [twice])
    with pytest.raises(ReadError, match=re.escape(f"{path} has two columns of one name")):
        run_direct([path], ReadParquet())
    assert run_direct([path], ReadParquet(columns=["b"])) == [{"b": 2}]
    assert [batch.num_columns for batch in run_direct([path], ReadParquet(batches=True))] == [3]


def test_a_date_that_python_cannot_hold_is_an_error(tmp_path):
    """The message has the file and the row group; a batch has the date."""
    path = write_groups(tmp_path / "file.parquet", [pa.table({"day": pa.array([10**7], pa.date32())})])
    with pytest.raises(ReadError, match=re.escape(f"{path}: row group 0 at byte 4 cannot be read as Parquet: Overf")):
        run_direct([path], ReadParquet())
    assert [batch.num_rows for batch in run_direct([path], ReadParquet(batches=True))] == [1]


def test_row_groups_that_start_at_one_byte_are_an_error(tmp_path):
    """No claim could tell them apart: here both are said to be where the first one is."""
    path = tmp_path / "file.parquet"
    write_groups(path, in_groups(2, 2), use_dictionary=False)
    metadata = pq.ParquetFile(path).metadata
    metadata.append_row_groups(metadata)
    data = path.read_bytes()[: -8 - int.from_bytes(path.read_bytes()[-8:-4], "little")]
    metadata.write_metadata_file(tmp_path / "footer")
    path.write_bytes(data + (tmp_path / "footer").read_bytes()[4:])
    with pytest.raises(
        ReadError, match=re.escape(f"{path}: its footer says that the row groups start at the bytes [4, 4, ")
    ):
        run_direct([str(path)], ReadParquet())


def test_row_groups_with_other_rows_in_all_than_the_file_are_an_error(tmp_path):
    """One bit of the footer makes two rows of six."""
    path = tmp_path / "file.parquet"
    write_groups(path, in_groups(6, 6), use_dictionary=False)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"\x16\x0c&")  # the rows of the second row group, and the field after them
    data[at + 1] ^= 1 << 3
    path.write_bytes(data)
    message = f"{path}: its footer says that the file has 12 rows, but that its row groups have 8 in all"
    with pytest.raises(ReadError, match=re.escape(message)):
        run_direct([str(path)], ReadParquet())


def test_a_row_group_outside_of_the_file_is_an_error(tmp_path):
    """A file of nothing but the footer of another, such as _metadata: no part would read its rows."""
    long = write_groups(tmp_path / "long.parquet", in_groups(20_000, 20_000))
    pq.ParquetFile(long).metadata.write_metadata_file(tmp_path / "_metadata")
    with pytest.raises(ReadError, match=re.escape(f"and the file has {os.path.getsize(tmp_path / '_metadata')} bytes")):
        run_direct([str(tmp_path / "_metadata")], ReadParquet())


@pytest.mark.parametrize("change", ["shrunk", "replaced", "gone"])
def test_a_file_that_has_changed_since_it_was_planned_raises(plain, tmp_path, change):
    """The restriction pins the file."""
    fn = ReadParquet()
    restriction = fn.get_initial_restriction(plain)
    if change == "shrunk":
        os.truncate(plain, os.path.getsize(plain) - 1)
    elif change == "replaced":
        os.replace(write_groups(tmp_path / "other", in_groups(2, 2, 2)), plain)
    else:
        os.remove(plain)
    with pytest.raises(SourceChangedError, match=re.escape(plain)):
        outputs_of(fn, plain, restriction)


def test_a_file_that_shrinks_while_it_is_read_raises(tmp_path):
    """Also where pyarrow stands between the file and the reader."""
    path = write_groups(tmp_path / "file.parquet", in_groups(50_000, 50_000), use_dictionary=False)
    fn = ReadParquet()
    outputs = Invoker(fn, path, fn.get_initial_restriction(path)).run()
    next(outputs)
    os.truncate(path, 1000)
    with pytest.raises(SourceChangedError, match=re.escape(path)):
        list(outputs)


# Options


@pytest.mark.parametrize("columns", ["id", [1], {"id"}, 5], ids=repr)
def test_columns_must_be_names(columns):
    """The message shows one way to write them."""
    message = f"ReadParquet columns must be a list of names, such as ['id'] (got {columns!r})."
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        ReadParquet(columns=columns)


@pytest.mark.parametrize(("size", "error"), [("1", InvalidTypeError), (0, InvalidValueError)])
def test_block_size_must_be_a_number_of_bytes(size, error):
    """As for every reader of files."""
    with pytest.raises(error, match="ReadParquet block_size must be"):
        ReadParquet(block_size=size)


def test_without_pyarrow_the_error_says_how_to_install_it(monkeypatch, plain):
    """On the driver when it is made, on a worker when it runs."""
    made = ReadParquet()
    restriction = made.get_initial_restriction(plain)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'pyarrow>=15'")):
        ReadParquet()
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'pyarrow>=15'")):
        outputs_of(made, plain, restriction)


def test_planning_opens_no_file():
    """Names and sizes are enough: footers are for the workers."""
    file = FileInfo("/nowhere/file.parquet", 100)
    fn = ReadParquet(block_size=30)
    restriction = fn.get_initial_restriction(file)
    parts = [(part.start, part.stop) for part in fn.split_restriction(file, restriction)]
    assert parts == [(0, 30), (30, 60), (60, 90), (90, 100)]


def test_pages_have_the_checksums_that_the_file_gives(tmp_path):
    """pyarrow compares them only where it is told to."""
    path = tmp_path / "a.parquet"
    table = pa.table({"a": range(1000, 3000)})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[data.index((1234).to_bytes(8, "little")) + 3] ^= 64
    path.write_bytes(data)
    with pytest.raises(ReadError, match=r"row group 0 .* CRC checksum verification failed"):
        run_direct([str(path)], ReadParquet())


FAR = datetime(9999, 12, 31)


def int96(path, *times):
    """Write nanoseconds since 1970 as INT96, in a column and in a struct; None for the last day of the year 9999."""
    given = pa.array([0 if time is None else time for time in times], pa.timestamp("ns"))
    nested = pa.StructArray.from_arrays([given, pa.array([math.nan] * len(times))], ["t", "x"])
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False, "store_schema": False}
    pq.write_table(pa.table({"t": given, "s": nested}), path, use_deprecated_int96_timestamps=True, **options)
    julian = 1721425
    old, new = (struct.pack("<qI", 0, day.toordinal() + julian) for day in (datetime(1970, 1, 1), FAR))
    path.write_bytes(path.read_bytes().replace(old, new))
    return str(path)


@pytest.mark.parametrize("batches", [False, True])
def test_int96_times_are_those_that_were_written(tmp_path, batches):
    """Beyond the reach of nanoseconds too; beside nanoseconds that is an error."""

    def read(*times):
        found = run_direct([int96(tmp_path / "a.parquet", *times)], ReadParquet(batches=batches))
        return [row for batch in found for row in batch.to_pylist()] if batches else found

    assert [(row["t"], row["s"]["t"]) for row in read(10**9, None)] == [
        (datetime(1970, 1, 1, 0, 0, 1),) * 2,
        (FAR, FAR),
    ]
    assert [row["t"].nanosecond for row in read(1, 2)] == [1, 2]
    with pytest.raises(ReadError, match="INT96 times outside of the years 1677 to 2262 beside times with nanoseconds"):
        read(1, None)


@pytest.mark.parametrize("nest", [lambda one: one, lambda one: [one], lambda one: {"f": one}, lambda one: [{"f": one}]])
def test_a_time_of_day_that_python_cannot_hold_is_an_error(tmp_path, nest):
    """pyarrow would cut its nanoseconds."""
    kind = in_nanoseconds(pa.array([nest(1000)]).type)
    storage = pa.array([nest(1000), nest(2001)])
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"t": storage.view(kind)}).slice(0, 1), path)
    assert run_direct([path], ReadParquet()) == [{"t": nest(time(microsecond=1))}]
    pq.write_table(pa.table({"t": storage.view(kind)}), path)
    with pytest.raises(ReadError, match="would lose data: 2001"):
        run_direct([path], ReadParquet())


def in_nanoseconds(kind):
    """Return a type whose leaves are times of day in nanoseconds."""
    if pa.types.is_struct(kind):
        return pa.struct([("f", in_nanoseconds(kind.field(0).type))])
    return pa.list_(in_nanoseconds(kind.value_type)) if pa.types.is_list(kind) else pa.time64("ns")


def test_statistics_of_a_nested_field_are_not_those_of_a_column_with_a_dot(tmp_path):
    """Both are a.b in the footer."""
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": [{"b": 100}], "a.b": [1]}), path)
    schema = pa.schema([("a.b", pa.int64())])
    for low, count in ((1, 1), (50, 0)):
        reader = ReadParquet().for_schema(schema, None).for_ranges({"a.b": (low, None)})
        assert sum(batch.num_rows for batch in run_direct([path], reader)) == count


def test_a_row_group_that_pyarrow_leaves_early_is_an_error(tmp_path):
    """A flipped bit in the header of a page makes it end there, without a word."""
    table = pa.table({"a": list(range(60))})
    pq.write_table(table, tmp_path / "right.parquet", row_group_size=20, write_page_checksum=True)
    right = (tmp_path / "right.parquet").read_bytes()
    rows, early = table.to_pylist(), 0
    group = pq.read_metadata(tmp_path / "right.parquet").row_group(1).column(0)
    begin = group.dictionary_page_offset
    for at in range(begin, begin + group.total_compressed_size):
        for bit in range(8):
            damaged = bytearray(right)
            damaged[at] ^= 1 << bit
            (tmp_path / "damaged.parquet").write_bytes(damaged)
            try:
                found = run_direct([str(tmp_path / "damaged.parquet")], ReadParquet())
            except ReadError as error:
                early += "should have 20 rows" in str(error)
            else:
                assert found == rows
    assert early
