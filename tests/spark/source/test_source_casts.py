"""Text as values: records whose values are text, such as those of CSV, are cast to the schema of a read."""

import datetime
import decimal
import time

import pyarrow
import pyarrow.parquet
import pytest

from sdf.errors import MissingExtraError

pytest.importorskip("sdf.spark.source", exc_type=MissingExtraError)

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sdf.errors import InvalidTypeError, InvalidValueError
from sdf.io import ReadCsv, ReadJsonLines, ReadParquet
from sdf.spark.source import data_source
from sdf.spark.source.rows import ArrowRows
from sdf.spark.source.texts import Texts

pytestmark = pytest.mark.usefixtures("sc")  # without a context PySpark parses no schema

FLIGHTS = """origin,dep_delay,ratio,paid,left,at,unused
EWR,2,0.5,1.10,true,2013-01-01,x
JFK,,,,,,
LGA,-1,1e3,2,FALSE,2013-02-03,y
"""
SCHEMA = "origin string, dep_delay int, ratio double, paid decimal(10,2), left boolean, at date"
ROWS = [
    ("EWR", 2, 0.5, decimal.Decimal("1.10"), True, datetime.date(2013, 1, 1)),
    ("JFK", None, None, None, None, None),
    ("LGA", -1, 1000.0, decimal.Decimal("2.00"), False, datetime.date(2013, 2, 3)),
]


@pytest.fixture(scope="module")
def spark(module_sc):
    return SparkSession(module_sc)


@pytest.fixture
def load(spark, tmp_path):
    """Read files of such a text through a data source."""

    def load(fns, text, schema, *, read_schema=None, **options):
        (tmp_path / "a.txt").write_text(text)
        spark.dataSource.register(data_source(fns, schema))
        reader = spark.read.format("sdf").options(**options)
        return (reader if read_schema is None else reader.schema(read_schema)).load(str(tmp_path / "a.txt"))

    return load


@pytest.mark.parametrize("reader", [ReadCsv(), ReadCsv(quoted_newlines=True)], ids=["cells", "whole"])
def test_csv_is_cast_to_the_schema(load, reader):
    """Columns by name; an empty text is null, unless it is a string."""
    assert sorted(load(reader, FLIGHTS, SCHEMA).collect()) == ROWS


def test_as_sparks_own_reader_casts(load, spark, tmp_path):
    """The same rows, but for the empty string, which is null there."""
    frame = load(ReadCsv(), FLIGHTS, SCHEMA + ", unused string")
    theirs = spark.read.csv(str(tmp_path / "a.txt"), schema=SCHEMA + ", unused string", header=True)
    assert sorted(frame.replace({"": None}, subset=["unused"]).collect()) == sorted(theirs.collect())


def test_each_read_may_choose_its_columns(load):
    """With a schema of its own, in its order."""
    frame = load(ReadCsv(), FLIGHTS, SCHEMA, read_schema="dep_delay long, origin string")
    assert sorted(frame.collect(), key=str) == [(-1, "LGA"), (2, "EWR"), (None, "JFK")]


def test_json_has_dates_as_text(load):
    """And numbers, as some programs write them."""
    text = '{"at": "2013-01-01", "n": "7"}\n{"at": null, "n": 8}\n'
    rows = load(ReadJsonLines(), text, "at date, n int").collect()
    assert sorted(rows, key=str) == [(None, 8), (datetime.date(2013, 1, 1), 7)]


def test_parquet_of_texts(load, spark, tmp_path):
    """Its batches are cast too."""
    pyarrow.parquet.write_table(pyarrow.table({"n": ["1", "NA"]}), tmp_path / "a.parquet")
    spark.dataSource.register(data_source(ReadParquet(), "n int"))
    read = spark.read.format("sdf").option("nullValue", "NA")
    assert sorted(read.load(str(tmp_path / "a.parquet")).collect(), key=str) == [(1,), (None,)]
    with pytest.raises(PySparkException, match=r"column 'n' must be of type int32 \(got 'NA'\)"):
        spark.read.format("sdf").load(str(tmp_path / "a.parquet")).collect()


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
def test_texts_of_batches_are_cast_however_arrow_stores_them(kind):
    """As those of rows; what does not cast is named."""
    types = {"dictionary": pyarrow.dictionary(pyarrow.int8(), pyarrow.string())}
    if kind not in types and not hasattr(pyarrow, kind):
        pytest.skip("this pyarrow has no views")

    def batches(*texts):
        made = pyarrow.array(texts, types.get(kind) or getattr(pyarrow, kind)())
        rows = ArrowRows(StructType.fromDDL("a int"), "RecordsFn", Texts())
        return [
            row for batch in rows.batches([pyarrow.RecordBatch.from_pydict({"a": made})]) for row in batch.to_pylist()
        ]

    assert batches("7", "", None) == [{"a": 7}, {"a": None}, {"a": None}]
    with pytest.raises(InvalidTypeError, match=r"column 'a' must be of type int32 \(got 'x'\)"):
        batches("7", "x")


NOT_CAST = "origin,dep_delay\nEWR,2\nJFK,NA\nLGA,3.5\n"


def test_what_does_not_cast_is_an_error(load):
    """That names file, byte, column, text and the options that help."""
    with pytest.raises(PySparkException) as caught:
        load(ReadCsv(), NOT_CAST, "origin string, dep_delay int", numPartitions=1).collect()
    assert f"a.txt at byte {NOT_CAST.index('JFK')}: column 'dep_delay' must be of type int32 (got 'NA')" in str(
        caught.value
    )
    assert "nullValue" in str(caught.value)
    assert "mode='PERMISSIVE'" in str(caught.value)


def test_a_column_that_is_not_read_need_not_cast(load):
    """As in Spark."""
    assert sorted(load(ReadCsv(), NOT_CAST, "origin string").collect()) == [("EWR",), ("JFK",), ("LGA",)]


@pytest.mark.parametrize(
    "reader", [ReadCsv(), ReadCsv(with_block_id=False, quoted_newlines=True)], ids=["cells", "whole"]
)
@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({"nullValue": "NA"}, "o,d\nEWR,2\nJFK,NA\nNA,3\n", [("EWR", 2), ("JFK", None), (None, 3)]),
        ({"mode": "PERMISSIVE"}, "o,d\nEWR,2\nJFK,NA\nLGA,3.5\n", [("EWR", 2), ("JFK", None), ("LGA", None)]),
        ({"mode": "failfast"}, "o,d\nEWR,2\n", [("EWR", 2)]),
    ],
    ids=str,
)
def test_options_for_nulls(load, reader, options, text, expected):
    """Named as those of Spark's reader of CSV, and with their values."""
    assert sorted(load(reader, text, "o string, d int", **options).collect(), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {"mode": "DROPMALFORMED"},
            "the option mode of the data source 'sdf' must be 'FAILFAST', .* .got 'DROPMALFORMED'",
        ),
        ({"timeZone": "Mars"}, "the option timeZone of the data source 'sdf' must be a zone .* .got 'Mars'"),
    ],
)
def test_options_that_make_no_sense(load, options, error):
    """Named when the query is planned."""
    with pytest.raises(PySparkException, match=error):
        load(ReadCsv(), NOT_CAST, "origin string", **options).collect()


def test_a_column_that_no_text_can_be(load):
    """Such as an array: known when the query is planned."""
    with pytest.raises(PySparkException, match=r"column 'dep_delay' of type list<.*> cannot be read from text"):
        load(ReadCsv(), NOT_CAST, "dep_delay array<int>").collect()


def test_a_schema_with_a_column_that_the_file_lacks(load):
    """An error, and not nulls: a name that is misspelt would else never show."""
    with pytest.raises(PySparkException, match=r"a.txt has no column 'delay'; it has \['origin', 'dep_delay'\]"):
        load(ReadCsv(), NOT_CAST, "delay int").collect()


# Without a query.


def cast(kind, *values, **options):
    """Cast texts as a column of a record."""
    batches = ArrowRows(StructType.fromDDL(f"a {kind}"), "RecordsFn", Texts.of(options, "sdf")).batches(
        [(v,) for v in values]
    )
    return [row["a"] for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("tinyint", "-128", -128), ("smallint", "7", 7), ("int", "7", 7), ("long", "9223372036854775807", 2**63 - 1),
        ("float", "0.5", 0.5), ("double", "1e-3", 0.001), ("double", "-Infinity", float("-inf")),
        ("decimal(5,2)", "1.5", decimal.Decimal("1.50")), ("boolean", "True", True), ("boolean", "false", False),
        ("date", "2026-01-02", datetime.date(2026, 1, 2)),
        ("timestamp_ntz", "2026-01-02 03:04:05.678", datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)),
        ("int", "", None), ("string", "", ""), ("int", None, None), ("int", 7, 7),
    ],
)  # fmt: skip
def test_every_type(kind, text, value):
    """A value that is no text stays what it is."""
    assert cast(kind, text) == [value]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("tinyint", "128"), ("int", "1.0"), ("int", " 1"), ("int", "1_0"), ("int", "one"), ("int", "0x1F"),
        ("double", "1,5"), ("double", "1e400"), ("float", "1e39"),
        ("decimal(5,2)", "1.005"), ("decimal(5,2)", "1000"), ("boolean", "yes"), ("date", "2026-02-30"),
        ("date", "01/02/2026"), ("timestamp", "noon"), ("timestamp_ntz", "2026-01-02T03:04:05Z"),
    ],
)  # fmt: skip
def test_what_loses_something_does_not_cast(kind, text):
    """Among texts that do; in mode PERMISSIVE it is null."""
    good = {"boolean": "true", "date": "2026-01-02"}.get(kind, "2026-01-02" if kind.startswith("time") else "1")
    with pytest.raises(InvalidTypeError, match=r"the record \(.*\), which does not fit .* column 'a' must be of type"):
        cast(kind, good, text)
    assert cast(kind, good, text, mode="PERMISSIVE")[1:] == [None]


UTC = datetime.timezone.utc


@pytest.mark.parametrize(
    ("text", "zone", "value"),
    [
        ("2026-07-02 03:04:05", "Europe/Berlin", datetime.datetime(2026, 7, 2, 1, 4, 5, tzinfo=UTC)),
        ("2026-07-02T03:04:05+01:00", "Europe/Berlin", datetime.datetime(2026, 7, 2, 2, 4, 5, tzinfo=UTC)),
        ("2026-07-02", "UTC", datetime.datetime(2026, 7, 2, tzinfo=UTC)),
        (
            "2026-10-25 02:30:00",
            "Europe/Berlin",
            datetime.datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
        ),  # the first of two
        ("2026-03-29 02:30:00", "Europe/Berlin", datetime.datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),  # there is none
    ],
)
def test_times(text, zone, value):
    """In the zone that they name, else in that of the read."""
    assert cast("timestamp", text, timeZone=zone) == [value]
    assert cast("timestamp", "2026-01-01T00:00:00Z", text, timeZone=zone)[1:] == [value]


@pytest.fixture
def local_zone(monkeypatch):
    """Put this process in another zone of time."""

    def put(zone):
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield put
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("zone", "hour"), [("UTC", 3), ("Europe/Berlin", 1), ("Asia/Tokyo", 18)])
def test_times_are_in_the_zone_of_the_worker_else(local_zone, zone, hour):
    """Those of a text; a DoFn says which instant it means."""
    local_zone(zone)
    (found,) = cast("timestamp", "2026-07-02 03:00:00")
    assert found.hour == hour
    with pytest.raises(InvalidTypeError, match="has no time zone, but"):
        cast("timestamp", datetime.datetime(2026, 7, 2, 3))


def test_a_mode_that_there_is_not():
    """Told before anything is read."""
    with pytest.raises(InvalidValueError, match="option mode of the data source 'mine' must be 'FAILFAST'"):
        Texts.of({"mode": ""}, "mine")


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_a_time_that_python_does_not_have_names_its_column(kind):
    """The year 0, which Arrow casts, is common where nothing is meant."""
    rows = ArrowRows(StructType().add("at", kind), "ReadFn", Texts(None, False, "UTC"))
    with pytest.raises(InvalidTypeError, match=r"column 'at' must be of type .* \(got '0000-01-01'\).*out of range"):
        list(rows.batches([{"at": "2024-01-01"}, {"at": "0000-01-01"}]))
