"""Filters of a query: a reader leaves out what cannot match, and no row of the result is missing for that."""

import datetime
import decimal
import itertools
import sqlite3

import pyarrow
import pyarrow.parquet
import pytest

from sdf.spark.door.versions import has_spark

if not has_spark("4.1"):
    pytest.skip("Spark hands over filters from 4.1 on", allow_module_level=True)

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import StringType, StructType

from sdf import run_direct
from sdf.io import ReadCsv, ReadParquet, ReadTable
from sdf.spark.source import data_source
from sdf.spark.source.filters import ranges_of

SCHEMA = StructType().add("id", "long").add("name", "string").add("x", "double").add("low", StringType("UTF8_LCASE"))
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def spark(module_sc):
    return SparkSession(module_sc)


@pytest.fixture
def pushing(spark):
    """Have Spark hand over filters."""
    spark.conf.set(PUSHDOWN, True)
    yield spark
    spark.conf.unset(PUSHDOWN)


@pytest.mark.parametrize(
    ("filters", "ranges"),
    [
        ([EqualTo(("id",), 5)], {"id": (5, 5)}),
        ([EqualNullSafe(("id",), 5)], {"id": (5, 5)}),
        ([EqualNullSafe(("id",), None)], {}),
        ([GreaterThan(("id",), 5), LessThanOrEqual(("id",), 9)], {"id": (5, 9)}),
        ([GreaterThanOrEqual(("id",), 5), GreaterThan(("id",), 7)], {"id": (7, None)}),
        ([LessThan(("id",), 5), LessThan(("x",), 0.5)], {"id": (None, 5), "x": (None, 0.5)}),
        ([EqualTo(("id",), 5), EqualTo(("id",), 7)], {"id": (7, 5)}),
        ([In(("id",), (5, None, 3, 9))], {"id": (3, 9)}),
        ([In(("id",), (None,))], {}),
        ([StringStartsWith(("name",), "ab")], {"name": ("ab", "ac")}),
        ([StringStartsWith(("name",), "a\U0010ffff")], {"name": ("a\U0010ffff", "b")}),
        ([StringStartsWith(("name",), "\U0010ffff")], {"name": ("\U0010ffff", None)}),
        ([StringStartsWith(("name",), "\ud7ff")], {"name": ("\ud7ff", "\ue000")}),
        ([GreaterThan(("x",), float("nan"))], {}),
        ([In(("x",), (1.0, float("nan")))], {}),
        ([Not(EqualTo(("id",), 5)), IsNotNull(("id",)), StringEndsWith(("name",), "b")], {}),
        ([EqualTo(("id", "part"), 5)], {}),
        ([EqualTo(("low",), "a")], {}),
        ([EqualTo(("id",), 5), EqualTo(("id",), "5")], {"id": (5, 5)}),
    ],
    ids=str,
)
def test_filters_as_ranges(filters, ranges):
    """All values that they let through lie in them; a filter that gives no range is left to Spark."""
    assert ranges_of(filters, SCHEMA) == ranges


@pytest.fixture
def spoiled(tmp_path):
    """A file of Parquet in ten row groups of ten, of which all but the fourth cannot be read."""
    path = tmp_path / "a.parquet"
    table = pyarrow.table(
        {"id": range(100), "name": [f"n{i:02}" for i in range(100)], "x": [i / 2 for i in range(100)]}
    )
    pyarrow.parquet.write_table(table, path, row_group_size=10, compression="none", use_dictionary=False)
    metadata, data = pyarrow.parquet.read_metadata(path), bytearray(path.read_bytes())
    for group, column in itertools.product(set(range(10)) - {3}, range(3)):
        chunk = metadata.row_group(group).column(column)
        data[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size] = bytes(
            chunk.total_compressed_size
        )
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id = 35", [35]), ("id between 31 and 33", [31, 32, 33]), ("id in (30, 39)", [30, 39]),
        ("name like 'n3%' and id % 3 = 0", [30, 33, 36, 39]), ("name = 'n31'", [31]),
    ],
)  # fmt: skip
def test_row_groups_that_cannot_match_are_not_read(pushing, spoiled, where, expected):
    """They could not be: what they hold is spoiled."""
    pushing.dataSource.register(data_source(ReadParquet(), "id int, name string, x double"))
    rows = pushing.read.format("sdf").load(str(spoiled)).where(where).collect()
    assert sorted(row.id for row in rows) == expected


def test_a_session_that_does_not_hand_over_filters_reads_all(spark, tmp_path):
    """Spark would refuse a reader that accepts filters."""
    pyarrow.parquet.write_table(pyarrow.table({"id": range(100)}), tmp_path / "a.parquet", row_group_size=10)
    spark.dataSource.register(data_source(ReadParquet(), "id int"))
    assert spark.read.format("sdf").load(str(tmp_path)).where("id = 35").count() == 1


def test_a_reader_without_ranges_is_filtered_by_spark(pushing, tmp_path):
    """Such as that of CSV."""
    (tmp_path / "a.csv").write_text("id\n1\n2\n3\n")
    pushing.dataSource.register(data_source(ReadCsv(), "id int"))
    assert pushing.read.format("sdf").load(str(tmp_path)).where("id >= 2").count() == 2


DAY = datetime.date(2026, 1, 1)
COLUMNS = {
    "int8": (pyarrow.int8(), [1, 5, None, 9]),
    "int64": (pyarrow.int64(), [-5, 0, None, 1 << 40]),
    "text": (pyarrow.string(), ["a", "b", None, "ÿ"]),
    "double": (pyarrow.float64(), [-1.0, 0.5, None, float("nan")]),
    "decimal": (
        pyarrow.decimal128(5, 2),
        [decimal.Decimal("-1.00"), decimal.Decimal("0.50"), None, decimal.Decimal("9.00")],
    ),
    "date": (pyarrow.date32(), [DAY, DAY + datetime.timedelta(1), None, DAY + datetime.timedelta(9)]),
    "at": (
        pyarrow.timestamp("us"),
        [datetime.datetime(2026, 1, day) for day in (1, 2)] + [None, datetime.datetime(2026, 2, 1)],
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_no_row_in_a_range_is_left_out(tmp_path, name):
    """In every range of values that there are, for row groups of every two of them. NaN is greater than all others."""
    kind, values = COLUMNS[name]
    given = list(itertools.product(values, repeat=2))
    table = pyarrow.table({name: pyarrow.array(list(itertools.chain.from_iterable(given)), kind)})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    reader = ReadParquet().for_schema(table.schema, None)
    left_out = 0
    for low, high in itertools.product([one for one in values if one == one], repeat=2):  # None is no bound
        found = run_direct([tmp_path / "a.parquet"], reader.for_ranges({name: (low, high)}))
        there = [row[name] for batch in found for row in batch.to_pylist()]
        expected = [value for pair in given for value in pair if in_range(value, low, high)]
        assert [str(value) for value in there if in_range(value, low, high)] == list(map(str, expected))
        left_out += table.num_rows - len(there)
    assert left_out


def in_range(value, low, high):
    if value is None:
        return False
    if value != value:
        return high is None
    return (low is None or value >= low) and (high is None or value <= high)


@pytest.mark.parametrize(
    ("stored", "schema", "bounds"),
    [
        (pyarrow.array(["1"]), pyarrow.int64(), (35, 35)),
        (pyarrow.array([0.7]), pyarrow.float32(), (0.699999988079071, 0.699999988079071)),
        (pyarrow.array([decimal.Decimal("0.1")]), pyarrow.float64(), (0.1, 0.1)),
    ],
)
def test_values_that_are_cast_are_not_compared(tmp_path, stored, schema, bounds):
    """A text is no number, and casting to another type of floats rounds."""
    pyarrow.parquet.write_table(pyarrow.table({"a": stored}), tmp_path / "a.parquet")
    reader = ReadParquet().for_schema(pyarrow.schema([("a", schema)]), None).for_ranges({"a": bounds})
    assert len(run_direct([tmp_path / "a.parquet"], reader)) == 1


@pytest.fixture(params=["INTEGER", "TEXT"])
def table(request, tmp_path):
    """A table by a key of either type, from 100 on; and a function from a number to a key."""
    key = int if request.param == "INTEGER" else str
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute(f"CREATE TABLE rows (id {request.param} PRIMARY KEY, n INTEGER)")
        connection.executemany("INSERT INTO rows VALUES (?, ?)", [(key(i), i) for i in range(100, 200)])
    connection.close()
    return ReadTable(f"sqlite:///{tmp_path / 'a.db'}", key="id", chunk_rows=7), key


@pytest.mark.parametrize(
    ("low", "high"),
    [(None, None), (120, None), (None, 130), (120, 130), (199, 199), (130, 120), (0, 99), (200, 300), (50, 105)],
)
def test_only_the_keys_in_a_range_are_read(table, low, high):
    """Exactly these, however it is split."""
    reader, key = table
    bounds = tuple(None if bound is None else key(f"{bound:03}") for bound in (low, high))
    rows = run_direct(["rows"], reader.for_ranges({"id": bounds}), split_every=2, seed=3)
    expected = [n for n in range(100, 200) if in_range(n, low, high)]
    assert sorted(row["n"] for row in rows) == expected


def test_bounds_of_another_type_than_the_key(table):
    """They are Spark's: the column is cast after it is read."""
    reader, _ = table
    assert len(run_direct(["rows"], reader.for_ranges({"id": (150.5, b"x"), "n": (1, 1)}))) == 100


def test_an_empty_table_within_a_range(tmp_path):
    """It has no keys to compare."""
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY)")
    connection.close()
    reader = ReadTable(f"sqlite:///{tmp_path / 'a.db'}", key="id")
    assert run_direct(["rows"], reader.for_ranges({"id": (1, 5)})) == []


def test_a_query_reads_the_keys_that_it_asks_for(pushing, tmp_path):
    """A row with another key, whose value is no number, is not read."""
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, at DATE)")
        connection.executemany("INSERT INTO rows VALUES (?, ?)", [(1, "never"), (5, "2026-01-02"), (9, "never")])
    connection.close()
    url = f"sqlite:///{tmp_path / 'a.db'}"
    pushing.dataSource.register(data_source(ReadTable(url, key="id"), "id int, at date"))
    rows = pushing.read.format("sdf").load("rows").where("id > 2 and id < 8").collect()
    assert rows == [(5, datetime.date(2026, 1, 2))]
