"""data_sink: rows of a DataFrame go into a sink all at once, or not at all."""

import datetime
import decimal
import json
import sqlite3
from pathlib import Path

import pyarrow
import pyarrow.dataset
import pytest

from sdf.errors import MissingExtraError

pytest.importorskip("sdf.spark.source", exc_type=MissingExtraError)

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import array, col, create_map, struct, udf
from pyspark.sql.types import IntegerType
from support.warm import WARM_SQL

from sdf.errors import InvalidTypeError, InvalidValueError, UnpicklableError
from sdf.sinks import DeltaTable, JsonLinesFiles, ParquetFiles, Sink, SqlTable
from sdf.spark.source import data_sink


@pytest.fixture(scope="module")
def spark(module_retrying_sc):
    return SparkSession(module_retrying_sc)


@pytest.fixture(scope="module")
def module_retrying_sc(start_spark):
    """Slots that run a failed task again."""
    return start_spark("local[4,4]", **WARM_SQL)


@pytest.fixture
def write(spark):
    """Write a DataFrame into a sink."""

    def write(frame, sink, mode="append"):
        spark.dataSource.register(data_sink(sink))
        frame.write.format("sdf").mode(mode).save()

    return write


ROWS = [(i, f"n{i}", None if i % 3 else i / 2) for i in range(1000)]


@pytest.fixture
def frame(spark):
    return spark.createDataFrame(ROWS, "id int, name string, x double").repartition(3)


def test_files_of_parquet(write, frame, spark, tmp_path):
    """With the schema of the DataFrame, also of columns that have no value."""
    write(frame.withColumn("none", col("x") + None), ParquetFiles(str(tmp_path / "out")))
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.schema.simpleString() == "struct<id:int,name:string,x:double,none:double>"
    assert sorted(found.drop("none").collect(), key=lambda row: row.id) == ROWS


def test_files_of_json(write, frame, tmp_path):
    """Each row is an object, and so is a map, wherever it is."""
    frame = frame.withColumn("map", create_map("name", struct(array(create_map("name", "id")).alias("in"))))
    write(frame, JsonLinesFiles(str(tmp_path / "out")))
    lines = [line for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    found = sorted(map(json.loads, lines), key=lambda row: row["id"])
    assert found == [{"id": i, "name": name, "x": x, "map": {name: {"in": [{name: i}]}}} for i, name, x in ROWS]


def test_a_table_of_delta_is_made_and_added_to(write, frame, tmp_path):
    """Without Delta's packages for the JVM; its types are those of the DataFrame."""
    deltalake = pytest.importorskip("deltalake")
    for _ in range(2):
        write(frame, DeltaTable(str(tmp_path / "table")))
    table = deltalake.DeltaTable(str(tmp_path / "table"))
    assert [(field.name, field.type.type) for field in table.schema().fields] == [
        ("id", "integer"), ("name", "string"), ("x", "double"),
    ]  # fmt: skip
    assert table.version() == 1
    assert pyarrow.table(table.to_pyarrow_table()).num_rows == 2000


def test_a_table_of_a_database(write, frame, tmp_path):
    """The rows come in one transaction."""
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT, x REAL)")
    connection.close()
    write(frame, SqlTable(f"sqlite:///{path}", "rows"))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT * FROM rows ORDER BY id").fetchall() == ROWS
    connection.close()


def test_every_type(write, spark, tmp_path):
    """As Spark's own files have them."""
    frame = spark.sql(
        "SELECT CAST(1 AS tinyint) a, CAST(2 AS long) b, CAST('1.5' AS decimal(5,2)) c, DATE '2026-01-02' d, "
        "TIMESTAMP '2026-01-02 03:04:05.678' e, TIMESTAMP_NTZ '2026-01-02 03:04:05' f, true g, X'00ff' h, "
        "array(1, 2) i, named_struct('k', 'v') j, map('k', 1) k"
    )
    write(frame, ParquetFiles(str(tmp_path / "out")))
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.dtypes == frame.dtypes
    assert found.collect() == frame.collect()
    assert found.first().c == decimal.Decimal("1.50")
    assert found.first().d == datetime.date(2026, 1, 2)


def test_no_rows(write, frame, spark, tmp_path):
    """Files without rows, which have the schema."""
    write(frame.where("id < 0"), ParquetFiles(str(tmp_path / "out")))
    assert spark.read.parquet(str(tmp_path / "out")).columns == ["id", "name", "x"]


def failing(path, times):
    """Return a function of Spark that fails at one row, so many times."""

    def fail(i):
        if i == 500 and len(list(Path(path).iterdir())) < times:
            (Path(path) / f"{len(list(Path(path).iterdir()))}").touch()
            raise ValueError("no more")
        return i

    return udf(fail, IntegerType())


def test_a_task_that_fails_once_leaves_no_row_twice(write, frame, spark, tmp_path):
    """What its first attempt wrote does not count."""
    (tmp_path / "failures").mkdir()
    write(frame.withColumn("id", failing(tmp_path / "failures", 1)("id")), ParquetFiles(str(tmp_path / "out")))
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(1000))
    assert len(list((tmp_path / "failures").iterdir())) == 1


def test_a_query_that_fails_leaves_nothing(write, frame, tmp_path):
    """And the same write can then be made."""
    (tmp_path / "failures").mkdir()
    (tmp_path / "target").mkdir()
    for path, sink in (("out", ParquetFiles), ("table", DeltaTable)):
        target = tmp_path / "target" / path
        with pytest.raises(PySparkException, match="no more"):
            write(frame.withColumn("id", failing(tmp_path / "failures", 99)("id")), sink(str(target)))
        assert [one for one in target.rglob("*") if one.is_file()] == []
    write(frame, ParquetFiles(str(tmp_path / "target" / "out")))
    assert pyarrow.dataset.dataset(tmp_path / "target" / "out").count_rows() == 1000


class FailingSink(Sink):
    """Commits into a file, and fails thereafter."""

    def __init__(self, path):
        self.path = path

    def identity(self):
        return None

    def prepare(self, run):
        pass

    def write(self, records, place):
        return len(list(records))

    def commit(self, messages, token):
        Path(self.path).write_text(str(sum(messages)))
        raise OSError("the network")

    def abort(self, messages, token):
        Path(self.path).unlink()


def test_what_a_failed_commit_may_have_made_is_not_removed(write, frame, tmp_path):
    """Spark aborts then, but nobody knows whether the rows are visible."""
    with pytest.raises(PySparkException, match="the network"):
        write(frame, FailingSink(str(tmp_path / "committed")))
    assert (tmp_path / "committed").read_text() == "1000"


def test_nothing_is_overwritten(write, frame, tmp_path):
    """Told before a task runs."""
    with pytest.raises(PySparkException, match=r"ParquetFiles adds to its target .* \(got mode\('overwrite'\)\)"):
        write(frame, ParquetFiles(str(tmp_path / "out")), mode="overwrite")
    assert not (tmp_path / "out").exists()


def test_a_target_that_is_not_empty(write, frame, tmp_path):
    """For a sink that does not append."""
    write(frame, ParquetFiles(str(tmp_path / "out")))
    with pytest.raises(PySparkException, match="writes to a directory that is empty or not there yet"):
        write(frame, ParquetFiles(str(tmp_path / "out")))
    assert pyarrow.dataset.dataset(tmp_path / "out").count_rows() == 1000


@pytest.mark.parametrize(
    ("sink", "options", "error", "text"),
    [
        ("out", {}, InvalidTypeError, r"needs a sink, such as ParquetFiles\('out'\) \(got 'out'\)"),
        (ParquetFiles("out"), {"name": ""}, InvalidTypeError, "name must be a name such as 'sdf'"),
        (
            ParquetFiles("out", schema={"a": pyarrow.int64()}, on_error="tag"),
            {},
            InvalidValueError,
            "ParquetFiles has on_error='tag'",
        ),
        (FailingSink(i for i in ()), {}, UnpicklableError, "FailingSink"),
    ],
)
def test_arguments_that_make_no_sense(sink, options, error, text):
    """Named at once."""
    with pytest.raises(error, match=text):
        data_sink(sink, **options)


# Dear: it may be the first to start the Connect server.
def test_a_client_of_spark_connect_writes(connect, tmp_path):
    """The sink is sent to the server."""
    connect.dataSource.register(data_sink(ParquetFiles(str(tmp_path / "out")), name="files"))
    connect.range(1000).write.format("files").mode("append").save()
    assert pyarrow.dataset.dataset(tmp_path / "out").count_rows() == 1000
