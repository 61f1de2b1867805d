"""ParquetFiles: what is read back by others is what was written, or the record that does not fit is named."""

import dataclasses
import datetime as dt
import math
import threading
import weakref
from collections import OrderedDict, defaultdict, namedtuple
from decimal import Decimal

import attrs
import cloudpickle
import pytest
from support.sinking import TOKEN, place, prepare, save

from sdf.errors import BadRecordError, InvalidTypeError, InvalidValueError, SinkError
from sdf.sinks import ParquetFiles, Token

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
UTC = dt.timezone.utc
NOW = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
Point = namedtuple("Point", "x y")


@attrs.frozen
class Attrs:
    x: int
    y: str


@dataclasses.dataclass
class Data:
    x: int
    y: str


@dataclasses.dataclass(eq=False)
class Image:
    image: bytes


class Row(tuple):
    """As pyspark.sql.Row, without Spark."""

    def __new__(cls, **fields):
        row = super().__new__(cls, fields.values())
        row.__fields__ = list(fields)
        return row


def table(sink):
    return pq.read_table(sink.path)


@pytest.fixture
def out(tmp_path):
    """Give a function that saves records; each result has a path of its own."""

    def run(records, *more, reject=None, **options):
        sink = ParquetFiles(tmp_path / f"{len(list(tmp_path.iterdir()))}", **options)
        save(sink, records, *more, reject=reject)
        return table(sink)

    return run


# Read back by others


def test_others_read_what_was_written(tmp_path):
    """pyarrow, DuckDB and pandas, from several files."""
    records = [
        {"id": number, "name": f"n{number}", "x": number / 2, "tags": ["a"] * (number % 3)} for number in range(3000)
    ]
    sink = ParquetFiles(tmp_path / "out", target_bytes=1, row_group_bytes=20_000)
    messages = save(sink, records[:2000], records[2000:])
    assert messages[0]["files"] > 1
    assert sorted(table(sink).to_pylist(), key=lambda row: row["id"]) == records
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql(f"select * from '{sink.path}/*.parquet' order by id").fetchall()
    assert found == [tuple(record.values()) for record in records]
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(sink.path).sort_values("id")
    assert frame["name"].tolist() == [record["name"] for record in records]
    assert frame["x"].sum() == sum(record["x"] for record in records)


@pytest.mark.parametrize("compression", [None, "snappy", "gzip", "brotli", "lz4", "zstd"])
def test_compression(compression, tmp_path):
    """The file says which."""
    sink = ParquetFiles(tmp_path / "out", compression=compression)
    save(sink, ["a"])
    [file] = (tmp_path / "out").glob("*.parquet")
    found = pq.ParquetFile(file).metadata.row_group(0).column(0).compression
    assert found == (compression or "uncompressed").upper()


def test_a_row_group_has_its_size(tmp_path):
    """So that a reader can share the work."""
    sink = ParquetFiles(tmp_path / "out", row_group_bytes=100_000)
    save(sink, [f"{number:096}" for number in range(10_000)])
    [file] = (tmp_path / "out").glob("*.parquet")
    metadata = pq.ParquetFile(file).metadata
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert sum(rows) == 10_000
    assert max(rows) <= 1100


# Kinds of records

XY = [("x", pa.int64()), ("y", pa.string())]


@pytest.mark.parametrize(
    "records",
    [
        [{"x": 1, "y": "a"}, {"y": "b", "x": 2}, {"x": 3}],
        [OrderedDict(x=1, y="a"), defaultdict(None, x=2, y="b"), {"x": 3}],
        [Point(1, "a"), Point(2, "b"), Point(3, None)],
        [Attrs(1, "a"), Attrs(2, "b"), Attrs(3, None)],
        [Data(1, "a"), Data(2, "b"), Data(3, None)],
        [Row(x=1, y="a"), Row(y="b", x=2), Row(x=3)],
        [{"x": 1, "y": "a"}, Attrs(2, "b"), {"x": 3, "y": None}],
        [pa.RecordBatch.from_pylist([{"x": 1, "y": "a"}]), Data(2, "b"), pa.table({"x": [3]})],
    ],
)
@pytest.mark.parametrize("schema", [None, pa.schema(XY)], ids=["found", "given"])
def test_records_by_name(out, records, schema):
    """What is missing is null, whatever the order."""
    found = out(records, schema=schema)
    assert found.schema.remove_metadata() == pa.schema(XY)
    assert found.to_pylist() == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}, {"x": 3, "y": None}]


@pytest.mark.parametrize("kind", [tuple, list])
def test_records_by_position(out, kind):
    """With the names of the schema, or numbers."""
    records = [kind([1, "a"]), kind([2, None])]
    assert out(records, schema=dict(XY)).to_pylist() == [{"x": 1, "y": "a"}, {"x": 2, "y": None}]
    assert out(records).to_pylist() == [{"_1": 1, "_2": "a"}, {"_1": 2, "_2": None}]


def test_named_tuples_go_by_name(out):
    """Their order may be another than that of the schema, and some fields may be missing."""
    assert out([Point("a", 1)], schema={"y": pa.int64(), "x": pa.string(), "z": pa.int8()}).to_pylist() == [
        {"y": 1, "x": "a", "z": None}
    ]


@pytest.mark.parametrize("records", [["a", None, "b"], [b"a"], [1, 2], [1.5, 2, None], [True], [NOW]])
def test_records_without_fields(out, records):
    """They make one column."""
    assert out(records).to_pydict() == {"value": records}
    assert out(records, schema={"line": out(records).schema.field(0).type}).to_pydict() == {"line": records}


def test_many_record_batches(out):
    """Their rows are written as they are; large ones are cut into row groups."""
    batch = pa.RecordBatch.from_pydict({"x": list(range(1000))})
    assert out([batch, batch.slice(5, 7), pa.Table.from_batches([batch])], row_group_bytes=500)["x"].to_pylist() == [
        *range(1000),
        *range(5, 12),
        *range(1000),
    ]


def test_a_record_batch_may_have_narrower_types(out):
    """What is stored in another way, and is the same."""
    batch = pa.record_batch({
        "a": pa.array([1], pa.int8()), "b": pa.array(["x"]).dictionary_encode(), "c": pa.array([None]),
        "d": pa.array([NOW], pa.timestamp("ms"), safe=False), "e": pa.array(["x"], pa.large_string()),
    })  # fmt: skip
    schema = {"a": pa.int64(), "b": pa.string(), "c": pa.date32(), "d": pa.timestamp("us"), "e": pa.string()}
    assert out([batch], schema=schema).schema.types == list(schema.values())


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"x": [1], "z": [2]}, "in field 'z' .* is not one of the columns x, y"),
        ({"x": ["1"]}, "in field 'x' '1' is no value of type int64"),
        ({"y": [1]}, "in field 'y' 1 is no value of type string"),
        ({"x": pa.array([2**63], pa.uint64())}, "of type uint64 does not fit int64"),
    ],
)
def test_a_record_batch_that_does_not_fit(out, columns, error):
    """Nothing is parsed, printed or dropped to make it fit."""
    with pytest.raises(BadRecordError, match=error) as raised:
        out([{"x": 1}, pa.table(columns)], schema=dict(XY))
    assert raised.value.number == 1


# Values: what fits, and what does not

FITS = [
    (pa.int64(), [1, -(2**63), 2**63 - 1, None]),
    (pa.uint64(), [2**64 - 1]),
    (pa.int8(), [-128, 127]),
    (pa.float64(), [1.5, math.inf, -0.0, 1e300]),
    (pa.float32(), [1.5, math.inf, 2.0**100]),
    (pa.string(), ["", "ä\0\n"]),
    (pa.large_string(), ["a"]),
    (pa.binary(), [b"", b"\xff"]),
    (pa.binary(2), [b"ab", None]),
    (pa.bool_(), [True, False, None]),
    (pa.decimal128(5, 2), [Decimal("1.25"), Decimal("-999.99")]),
    (pa.date32(), [NOW.date()]),
    (pa.time64("us"), [NOW.time()]),
    (pa.timestamp("us"), [NOW, dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31), None]),
    (pa.timestamp("us", "UTC"), [NOW.replace(tzinfo=UTC)]),
    (pa.timestamp("ms"), [NOW.replace(microsecond=5000)]),
    (pa.duration("us"), [dt.timedelta(days=-5, microseconds=1)]),
    (pa.list_(pa.int64()), [[], [1, None], None]),
    (pa.large_list(pa.string()), [["ab"]]),
    (pa.list_(pa.int64(), 2), [[1, 2], [3, None]]),
    (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        [{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}],
    ),
    (pa.list_(pa.struct([("a", pa.int64())])), [[{"a": 1}, None], None, []]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], [], None]),
]


@pytest.mark.parametrize(("kind", "values"), FITS, ids=lambda one: str(one) if isinstance(one, pa.DataType) else "")
def test_values_that_fit(out, kind, values):
    """They are read as they were."""
    given = [dict(value) if isinstance(value, list) and pa.types.is_map(kind) else value for value in values]
    found = out([{"x": value} for value in given], schema={"x": kind})
    assert found.schema.field("x").type == kind
    assert found["x"].to_pylist() == values


CONVERTED = [
    (pa.float64(), [1, 2**53], [1.0, 2.0**53]),
    (pa.int64(), [1.0, -0.0, 2], [1, 0, 2]),
    (pa.decimal128(5, 2), [1], [Decimal("1.00")]),
    (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))],
     [dt.datetime(2024, 1, 1, tzinfo=UTC)]),
    (pa.list_(pa.int64()), [(1, 2)], [[1, 2]]),
    (pa.binary(), [bytearray(b"a"), memoryview(b"b")], [b"a", b"b"]),
    (pa.struct([("x", pa.int64()), ("y", pa.string())]), [Attrs(1, "a"), Data(2, "b"), (3, "c"), {"y": "d"}],
     [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}, {"x": 3, "y": "c"}, {"x": None, "y": "d"}]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "expected"), CONVERTED)
def test_values_that_mean_the_same(out, kind, values, expected):
    """They are converted without loss."""
    assert out([{"x": value} for value in values], schema={"x": kind})["x"].to_pylist() == expected


def test_nan_stays_nan(out):
    """It is not null."""
    assert math.isnan(out([math.nan], schema={"x": pa.float64()})["x"][0].as_py())


def test_numbers_of_numpy(out):
    """And its arrays, as lists."""
    np = pytest.importorskip("numpy")
    record = {"a": np.int32(5), "b": np.float32(1.5), "c": np.bool_(True), "d": np.arange(3), "e": np.str_("x")}
    assert out([record]).to_pylist() == [{"a": 5, "b": 1.5, "c": True, "d": [0, 1, 2], "e": "x"}]


def test_a_duration_of_numpy_is_no_integer(tmp_path):
    """Its unit would be lost."""
    np = pytest.importorskip("numpy")
    with pytest.raises(BadRecordError, match="no type is known for timedelta64"):
        save(ParquetFiles(tmp_path / "out"), [{"x": np.timedelta64(5, "ns")}])


MISFITS = [
    (pa.int64(), 1.5, "1.5 is no value of type int64"),
    (pa.int64(), math.nan, "nan is no value of type int64"),
    (pa.int64(), "1", "'1' is no value of type int64"),
    (pa.int64(), True, "True is no value of type int64"),
    (pa.int64(), 2**63, "9223372036854775808 does not fit int64"),
    (pa.int64(), 1e30, "does not fit int64"),
    (pa.int8(), 128, "128 does not fit int8"),
    (pa.uint8(), -1, "-1 does not fit uint8"),
    (pa.float64(), 2**53 + 1, "9007199254740993 does not fit double"),
    (pa.float64(), 10**400, "does not fit double"),
    (pa.float64(), True, "True is no value of type double"),
    (pa.float64(), Decimal(1), "is no value of type double"),
    (pa.float32(), 1e39, "1e\\+39 is too large for float"),
    (pa.string(), b"a", "b'a' is no value of type string"),
    (pa.string(), 1, "1 is no value of type string"),
    (pa.string(), "\ud800", "does not fit string"),
    (pa.binary(), "a", "'a' is no value of type binary"),
    (pa.binary(2), b"abc", "b'abc' does not fit fixed_size_binary"),
    (pa.bool_(), 1, "1 is no value of type bool"),
    (pa.decimal128(5, 1), Decimal("1.25"), "does not fit decimal128"),
    (pa.decimal128(5, 1), 1.5, "1.5 is no value of type decimal128"),
    (pa.date32(), NOW, "is no value of type date32"),
    (pa.timestamp("us"), NOW.date(), "is no value of type timestamp"),
    (pa.timestamp("us"), NOW.replace(tzinfo=UTC), "has a time zone, but timestamp\\[us\\] must have none"),
    (pa.timestamp("us", "UTC"), NOW, "has no time zone, but timestamp\\[us, tz=UTC\\] must have one"),
    (pa.timestamp("ms"), NOW, "has a fraction that timestamp\\[ms\\] cannot hold"),
    (pa.timestamp("us"), 5, "5 is no value of type timestamp"),
    (pa.timestamp("ns"), dt.datetime(9999, 1, 1), "does not fit timestamp\\[ns\\]"),
    (pa.time32("s"), NOW.time(), "has a fraction that time32\\[s\\] cannot hold"),
    (pa.time64("us"), NOW.time().replace(tzinfo=UTC), "has a time zone"),
    (pa.duration("s"), dt.timedelta(microseconds=1), "has a fraction that duration\\[s\\] cannot hold"),
    (pa.list_(pa.string()), "ab", "'ab' is no value of type list"),
    (pa.list_(pa.int64()), {1}, "\\{1\\} is no value of type list"),
    (pa.list_(pa.int64()), [1, "a"], "in field 'x\\[\\]' 'a' is no value of type int64"),
    (pa.list_(pa.int64(), 2), [1], "\\[1\\] has 1 entries, not the 2"),
    (pa.struct([("a", pa.int64())]), {"a": "b"}, "in field 'x.a' 'b' is no value of type int64"),
    (pa.struct([("a", pa.int64())]), {"b": 1}, "has the field 'b', which the schema does not have: a"),
    (pa.struct([("a", pa.int64())]), (1, 2), "has 2 fields, but 1 are expected: a"),
    (pa.struct([("a", pa.int64())]), 5, "5 is no row with the fields a"),
    (pa.map_(pa.string(), pa.int64()), {1: 1}, "in field 'x key' 1 is no value of type string"),
    (pa.map_(pa.string(), pa.int64()), {"a": "b"}, "in field 'x\\[\\]' 'b' is no value of type int64"),
    (pa.map_(pa.string(), pa.int64()), {None: 1}, "has the key None"),
]


@pytest.mark.parametrize(("kind", "value", "error"), MISFITS)
def test_values_that_do_not_fit(tmp_path, kind, value, error):
    """The message names the field, the value and the type, also among many that fit; the number is exact."""
    sink = ParquetFiles(tmp_path / "out", schema={"x": kind, "number": pa.int64()})
    prepare(sink)
    records = [{"x": None, "number": number} for number in range(500)]
    records[321]["x"] = value
    with pytest.raises(BadRecordError, match=f"cannot write record 321 of this segment: .*{error}") as raised:
        sink.write(iter(records), place())
    assert raised.value.number == 321


@pytest.mark.parametrize(("kind", "value", "error"), MISFITS)
def test_what_does_not_fit_is_put_aside(out, kind, value, error):
    """And all else is written, in order."""
    bad = []
    records = [{"x": None, "number": number} for number in range(100)]
    records[0]["x"] = records[57]["x"] = records[99]["x"] = value
    found = out(records, schema={"x": kind, "number": pa.int64()}, on_error="tag", reject=bad.append)
    assert bad == [records[0], records[57], records[99]]
    assert found["number"].to_pylist() == [number for number in range(100) if number not in (0, 57, 99)]


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"x": 1, "z": 2}, "has the field 'z', which the schema does not have: x, y"),
        (Point(1, 2)._replace(), "in field 'y' 2 is no value of type string"),
        ((1,), "\\(1,\\) has 1 fields, but 2 are expected: x, y"),
        ("a", "'a' is no row with the fields x, y"),
        (None, "None is no row"),
    ],
)
def test_records_that_do_not_fit(out, record, error):
    """A field too many is not dropped."""
    with pytest.raises(BadRecordError, match=error) as raised:
        out([{"x": 1}, record], schema=dict(XY))
    assert raised.value.number == 1


def test_a_field_that_is_there_twice_is_not_dropped(out):
    """As a Row of a join can have it."""
    row = Row(x=1, other=2)
    row.__fields__ = ["x", "x"]
    with pytest.raises(BadRecordError, match="has two fields of the name 'x'"):
        out([row], schema=dict(XY))


# The schema that is found

FOUND = [
    ([1, None], pa.int64()),
    ([1, 1.5], pa.float64()),
    ([Decimal("1.5"), Decimal("100.25")], pa.decimal128(38, 18)),
    ([NOW], pa.timestamp("us")),
    ([NOW.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")),
    ([NOW.date()], pa.date32()),
    ([NOW.time()], pa.time64("us")),
    ([dt.timedelta(1)], pa.duration("us")),
    ([None], pa.string()),
    ([[]], pa.list_(pa.string())),
    ([[1], [2.5], None], pa.list_(pa.float64())),
    ([{"a": 1}, {"b": "x"}, None], pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ([(1, "a")], pa.struct([("_1", pa.int64()), ("_2", pa.string())])),
    ([Attrs(1, "a")], pa.struct([("x", pa.int64()), ("y", pa.string())])),
    ([[{"a": [True]}]], pa.list_(pa.struct([("a", pa.list_(pa.bool_()))]))),
]


@pytest.mark.parametrize(("values", "kind"), FOUND, ids=lambda one: str(one) if isinstance(one, pa.DataType) else "")
def test_types_that_are_found(out, values, kind):
    """Nullable, and never of type null."""
    field = out([{"x": value} for value in values]).schema.field("x")
    assert field.type == kind or str(field.type) == str(kind).replace("item", "element")
    assert field.nullable


@pytest.mark.parametrize(
    ("records", "number", "error"),
    [
        ([{"x": 1}, {"x": "a"}], 1, "in field 'x' 'a' is no value of type int64. The schema was found from the first"),
        ([{"x": NOW}, {"x": NOW.date()}], 1, "in field 'x' .* is no value of type timestamp"),
        ([{"x": NOW}, {"x": NOW.replace(tzinfo=UTC)}], 1, "has a time zone"),
        ([{"x": True}, {"x": 1}], 1, "is no value of type bool"),
        ([{"x": 1}, "a"], 1, "'a' is no (row|value)"),
        ([{"x": object}], 0, "in field 'x' .* no type is known for type"),
        ([{"x": {1}}], 0, "no type is known for set"),
        ([{1: 1}], 0, "has the key 1, but names of fields are strings"),
        ([{"x": {}}], 0, "has no fields; give a schema"),
        ([{}], 0, "has no fields; give a schema"),
        ([pa.table({"x": pa.array([None], pa.month_day_nano_interval())})], 0, "'x' has type .* Parquet cannot hold"),
        ([2**63], 0, "does not fit int64"),
        ([*[{"x": None}] * 1500, {"x": 5}], 1500, "5 is no value of type string. The schema was found"),
        ([*[{"x": 1}] * 1500, {"x": 1, "y": 2}], 1500, "has the field 'y'"),
    ],
)
def test_records_without_a_common_schema(tmp_path, records, number, error):
    """The first one that does not go with those before it is named."""
    sink = ParquetFiles(tmp_path / "out")
    prepare(sink)
    with pytest.raises(BadRecordError, match=error) as raised:
        sink.write(iter(records), place())
    assert raised.value.number == number


def test_records_are_put_aside_only_if_there_is_a_schema():
    """Else the first records, of whichever attempt, would decide which are good."""
    with pytest.raises(InvalidValueError, match="on_error='tag' needs a schema"):
        ParquetFiles("/out", on_error="tag")


def test_all_segments_have_the_schema_of_the_first(tmp_path):
    """A later one that finds another has to fit."""
    sink = ParquetFiles(tmp_path / "out")
    save(sink, [{"x": 1.5, "y": None}], [{"x": 1}], [{"y": "a"}])
    schemas = {str(pq.read_schema(file)) for file in (tmp_path / "out").glob("*.parquet")}
    assert schemas == {"x: double\ny: string"}


def test_of_two_schemas_proposed_at_once_one_wins(tmp_path):
    """The other attempt takes it, or fails; never are there two."""
    for turn in range(20):
        sink, messages, errors = ParquetFiles(tmp_path / f"{turn}"), [], []
        prepare(sink)
        start = threading.Barrier(2)

        def write(name, record, sink=sink, messages=messages, errors=errors, start=start):
            def records():
                start.wait()
                yield record

            try:
                messages.append(sink.write(records(), place(name)))
            except BadRecordError as error:
                errors.append(error)

        proposals = [{"x": 1, "y": 1}, {"x": "a"}] if turn % 2 else [{"x": 1, "y": 1}, {"y": 1.0, "x": 2}]
        workers = [threading.Thread(target=write, args=(f"{n}", record)) for n, record in enumerate(proposals)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert (len(messages), len(errors)) == ((1, 1) if turn % 2 else (2, 0))
        sink.commit(messages, TOKEN)
        schemas = {str(pq.read_schema(file)) for file in (tmp_path / f"{turn}").glob("*.parquet")}
        assert len(schemas) == 1


def test_large_records_do_not_pile_up(tmp_path):
    """No more are in memory than make some megabytes, once it is known how large they are."""
    sink, alive, most = ParquetFiles(tmp_path / "out", row_group_bytes=1), weakref.WeakSet(), []
    prepare(sink)

    def records():
        for _ in range(300):
            alive.add(image := Image(bytes(1 << 20)))
            yield image
            del image
            most.append(len(alive))

    sink.write(records(), place())
    assert max(most[140:]) < 15


# Given schemas, and other options


def test_a_given_schema_keeps_what_must_not_be_null(out):
    """The files say so; see test_exact_values.py for what fits."""
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    assert out([{"x": 1}], schema=schema).schema == schema


def test_a_given_schema_is_there_without_records(out):
    """One file without rows, so that readers find it; and none if no schema was given."""
    found = out([], [], schema=dict(XY))
    assert found.schema == pa.schema(XY)
    assert found.num_rows == 0


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"x": int}, r"schema must map names to types of pyarrow.*'x': <class 'int'>"),
        ({1: pa.int64()}, r"schema must map names to types of pyarrow"),
        ("x bigint", r"schema must be a pyarrow.Schema or a dict of names to types \(got 'x bigint'\)"),
        ({}, "must have columns"),
        (pa.schema([("x", pa.int64()), ("x", pa.int64())]), "each with a name of its own"),
        ({"x": pa.null()}, "'x' has type null; null is no type of a column"),
        ({"x": pa.list_(pa.null())}, "null is no type of a column"),
        ({"x": pa.struct([])}, "'x' has type struct<>"),
        ({"x": pa.month_day_nano_interval()}, "'x' has type month_day_nano_interval"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(schema, error):
    """When the sink is made."""
    with pytest.raises((InvalidTypeError, InvalidValueError), match=error):
        ParquetFiles("/out", schema=schema)


@pytest.mark.parametrize(
    "options", [{"compression": "rar"}, {"on_error": "skip"}, {"row_group_bytes": 0}, {"row_group_bytes": 1.5}]
)
def test_an_option_that_cannot_be_is_refused(options):
    """With its name and what was given."""
    [(name, value)] = options.items()
    with pytest.raises((InvalidTypeError, InvalidValueError), match=f"ParquetFiles {name} must be .*got {value!r}"):
        ParquetFiles("/out", **options)


def test_tagging_needs_an_output(tmp_path):
    """Or the records would be lost."""
    sink = ParquetFiles(tmp_path / "out", schema={"x": pa.int64()}, on_error="tag")
    prepare(sink)
    with pytest.raises(InvalidValueError, match="on_error='tag' needs a run with an output 'bad'"):
        sink.write(iter([]), place())


def test_a_sink_goes_to_the_workers(tmp_path):
    """It is a value."""
    sink = ParquetFiles(tmp_path / "out", schema=dict(XY))
    assert cloudpickle.loads(cloudpickle.dumps(sink)) == sink
    assert "schema" not in sink.identity()  # a run that a schema has stopped goes on with another


@pytest.mark.parametrize("first", [None, {"x": pa.int64()}, {"x": pa.timestamp("s")}], ids=["found", "given", "coarse"])
def test_a_run_that_a_schema_has_stopped_goes_on_with_one_that_fits(tmp_path, first):
    """If nothing was written; all workers write with the new one."""
    sink = ParquetFiles(tmp_path / "out", schema=first)
    prepare(sink)
    with pytest.raises(BadRecordError):
        sink.write(iter([{"x": 1}, {"x": "a"}, {"x": "b", "z": 2}]), place("lost"))
    second = attrs.evolve(sink, schema={"x": pa.string(), "z": pa.int64()})
    prepare(second, resumed=True)
    third = attrs.evolve(sink, schema=None)  # another driver, which need not say it again
    message = third.write(iter([{"x": "a"}, {"x": "b", "z": 2}]), place("next"))
    second.commit([message], TOKEN)
    assert table(sink).schema.names == ["x", "z"]


KINDS = [{"x": pa.timestamp("s")}, {"x": pa.timestamp("ms")}, {"x": pa.timestamp("s"), "y": pa.string()}, None]


@pytest.mark.parametrize("when", ["resumed", "committed", "done", "retried"])
@pytest.mark.parametrize("kind", KINDS, ids=["same", "other", "more", "none"])
def test_files_that_are_written_keep_their_schema(tmp_path, when, kind):
    """Another one is refused as long as they are there, and says which they have; none is that of theirs."""
    sink = ParquetFiles(tmp_path / "out", schema=KINDS[0])
    prepare(sink)
    message = sink.write(iter([{"x": NOW.replace(microsecond=0)}]), place())
    if when != "resumed":
        sink.commit([message], TOKEN)
    if when in ("done", "retried"):
        sink.clean(TOKEN)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    again = attrs.evolve(sink, schema=kind)
    fits = kind in (KINDS[0], None) or (kind == KINDS[1] and when != "resumed")  # Parquet has no seconds

    def go_on():
        if when == "done":
            again.check_result(TOKEN)
        else:
            prepare(again, token=Token("run", 1) if when == "retried" else TOKEN, resumed=True)

    if fits:
        go_on()
    else:
        with pytest.raises(SinkError, match=r"another schema than that of the files .* they have \[.* .got schema=\["):
            go_on()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")} == before


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    """Wherever the writer of pyarrow meets it."""
    from sdf.sinks import on_disk

    class Full:
        def __init__(self, *args):
            self.file = open(*args)  # noqa: SIM115
            self.close = self.file.close
            self.closed = False

        def write(self, data):
            raise OSError(28, "No space left on device")

        def __getattr__(self, name):
            return getattr(self.file, name)

    monkeypatch.setattr(on_disk, "open", Full, raising=False)
    sink = ParquetFiles(tmp_path / "out", schema={"x": pa.string()})
    prepare(sink)
    with pytest.raises(SinkError, match=r"No space left on device.*run again to resume"):
        sink.write(iter(["a"]), place())


def test_only_a_later_version_of_the_same_run_adds(tmp_path):
    """The commit of another run is refused, whatever its version."""
    sink = ParquetFiles(tmp_path / "out")
    save(sink, ["a"])
    prepare(sink, token=Token("run", 1))
    with pytest.raises(SinkError, match="the result of this run"):
        prepare(sink, token=Token("another", 1))
    with pytest.raises(SinkError, match="not of this run"):
        prepare(sink, token=Token("another", 0))
