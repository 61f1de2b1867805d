"""data_source: what SQL reads through a DoFn is what run_direct gives, in partitions of the planner; and streams."""

import datetime
import decimal
import itertools
import json
import os
import re
import shutil
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import attrs
import pyarrow
import pyarrow.parquet
import pytest

from sdf.errors import MissingExtraError

pytest.importorskip("sdf.spark.source", exc_type=MissingExtraError)

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType
from support.fns import EVERY_FN, CountFn, OddFn, OnlyDefersFn, expected

from sdf import UNBOUNDED, DoFn, GrowableOffsetRangeTracker, OffsetRange, run_direct
from sdf.errors import DeferError, InvalidTypeError, JournalError, UnpicklableError
from sdf.io import MatchFiles, ReadCsv, ReadJsonLines, ReadLines, ReadParquet, ReadTable, TailLines, WatchFiles
from sdf.io.text.text_fn import CELL_BYTES
from sdf.journal import clock
from sdf.journal.pending import Pending, from_json
from sdf.spark import serde
from sdf.spark.source import data_source
from sdf.spark.source.chain import Chain, Settings, finished
from sdf.spark.source.rows import ArrowRows
from sdf.spark.source.texts import Texts

ELEMENTS = [("a", 50), ("b", 0), ("c", 1), ("d", 300)]
COUNTED = "name string, i long"


@pytest.fixture(scope="module")
def spark(module_sc):
    return SparkSession(module_sc)


@pytest.fixture
def load(spark):
    """Register a data source and read through it."""

    def load(fns, schema, *paths, elements=None, **options):
        spark.dataSource.register(data_source(fns, schema, name="sdf", elements=elements))
        return spark.read.format("sdf").options(**options).load(*paths)

    return load


@pytest.mark.parametrize("fn", EVERY_FN, ids=lambda fn: type(fn).__name__)
def test_rows_are_the_records_of_run_direct(load, fn):
    """Of every kind of restriction."""
    rows = load(fn, COUNTED, elements=ELEMENTS).collect()
    assert Counter(map(tuple, rows)) == Counter(run_direct(ELEMENTS, fn)) == expected(ELEMENTS)


def test_elements_are_an_option_too(load, spark):
    """As JSON, whose lists are tuples, in place of those of the program."""
    load(CountFn(), COUNTED, elements=[("z", 9)])
    rows = spark.read.format("sdf").option("elements", json.dumps(ELEMENTS)).load().collect()
    assert Counter(map(tuple, rows)) == expected(ELEMENTS)


class RecordsFn(DoFn):
    """Element: a list of records, which it gives."""

    def __init__(self, records):
        self.records = records

    def get_initial_restriction(self, element):
        return OffsetRange(0, len(self.records))

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield self.records[i]


@pytest.fixture
def rows(spark):
    """Make rows of records, without a query."""

    def rows(schema, records):
        batches = ArrowRows(StructType.fromDDL(schema), "RecordsFn", Texts()).batches(records)
        return [row for batch in batches for row in batch.to_pylist()]

    return rows


@attrs.frozen
class Point:
    x: int
    y: str


@dataclass
class DataPoint:
    x: int
    y: str


BATCH = pyarrow.RecordBatch.from_pydict({"more": [1.5], "y": ["b"], "x": pyarrow.array([2], pyarrow.int32())})


@pytest.mark.parametrize(
    "record",
    [(2, "b"), [2, "b"], {"y": "b", "x": 2, "more": 3}, Row(y="b", x=2), Point(2, "b"), DataPoint(2, "b"), BATCH],
    ids=lambda record: type(record).__name__,
)
def test_records_become_rows(rows, record):
    """By place or by name; what the schema does not name is left out."""
    assert rows("x long, y string", [record]) == [{"x": 2, "y": "b"}]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("long", 5), ("double", 5), ("string", "a"), ("binary", b"a"), ("boolean", True),
        ("date", datetime.date(2026, 1, 2)),
        ("timestamp_ntz", datetime.datetime(2026, 1, 2, 3, 4, 5)), ("array<long>", [1, 2]), ("long", None),
    ],
)  # fmt: skip
def test_a_value_is_a_row_of_one_column(rows, kind, value):
    """Of every type, null too."""
    assert rows(f"a {kind}", [value]) == [{"a": value}]


def test_what_a_record_does_not_have_is_null(rows):
    """As in Spark's own readers of JSON."""
    assert rows("x long, y string", [{"x": 1}, {"y": "b"}]) == [{"x": 1, "y": None}, {"x": None, "y": "b"}]


def test_a_record_without_a_value_that_must_be_there_is_an_error(spark):
    """A column that is not null."""
    schema = StructType().add("x", "long", False).add("y", "string")
    with pytest.raises(InvalidTypeError, match=r"gave the record \{'y': 'b'\}, which does not fit"):
        list(ArrowRows(schema, "RecordsFn", Texts()).batches([{"x": 1}, {"y": "b"}]))


def test_rows_and_batches_may_mix(load):
    """In their order, over several batches of rows."""
    records = [*((i, "a") for i in range(2500)), BATCH, (3, "c")]
    rows = load(RecordsFn(records), "x long, y string", elements=[0], numPartitions=1).collect()
    assert rows == [*((i, "a") for i in range(2500)), (2, "b"), (3, "c")]


def test_times_are_those_of_spark(load):
    """A timestamp_ntz is a time without a zone, and as it is in each."""
    record = (datetime.datetime(2026, 1, 2, 3, 4, 5), datetime.date(2026, 1, 2))
    assert load(RecordsFn([record]), "t timestamp_ntz, d date", elements=[0]).collect() == [record]


def test_small_batches_are_joined(spark):
    """To some ten thousand rows, in their order; each batch costs Spark time."""
    small = [pyarrow.RecordBatch.from_pydict({"x": range(start, start + 1500)}) for start in range(0, 30_000, 1500)]
    batches = list(ArrowRows(StructType.fromDDL("x long"), "RecordsFn", Texts()).batches(small))
    assert [batch.num_rows for batch in batches] == [10_500, 10_500, 9_000]
    assert [x for batch in batches for x in batch.column("x").to_pylist()] == list(range(30_000))


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ((1,), "it has 1 values"),
        (7, "it is one value"),
        ({"z": 7}, "it has none of the columns"),
        ((1, 7), "in field 'y' 7 is no value of type string"),
        (("one", "b"), "column 'x' must be of type int64 (got 'one'). If that text stands for null"),
        ((1.5, "b"), "in field 'x' 1.5 is no value of type int64"),
        ((decimal.Decimal("1.5"), "b"), "in field 'x' Decimal('1.5') is no value of type int64"),
        ((1 << 70, "b"), "in field 'x' 1180591620717411303424 does not fit int64"),
        (BATCH.select(["x"]), "it has no column 'y'; it has ['x']"),
        (pyarrow.RecordBatch.from_pydict({"x": ["one"], "y": ["b"]}), "column 'x' must be of type int64 (got 'one')"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_record_that_does_not_fit_is_named(rows, record, why):
    """Among thousands that do."""
    shown = "" if isinstance(record, pyarrow.RecordBatch) else re.escape(repr(record))
    with pytest.raises(InvalidTypeError, match=rf"RecordsFn.process\(\) gave the .*{shown}.*{re.escape(why)}"):
        rows("x long, y string", [(0, "a")] * 2000 + [record])


@pytest.mark.parametrize(
    ("schema", "record"),
    [("x array<int>", ([1, 2.7],)), ("x map<string, long>", ({"a": 1.5},)), ("x struct<y: int>", ({"y": 1.5},))],
)
def test_nothing_is_rounded_within_a_value(rows, schema, record):
    """A number that does not fit is an error, however deep it lies."""
    with pytest.raises(InvalidTypeError, match="does not fit the schema"):
        rows(schema, [record])


def test_a_record_that_does_not_fit_fails_the_query(load):
    """With the message."""
    with pytest.raises(PySparkException, match=r"RecordsFn.process\(\) gave the record \('one',\), which does not fit"):
        load(RecordsFn([(1,), ("one",)]), "x long", elements=[0]).collect()


@pytest.fixture
def tree(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(
            "".join(f"line {number} {i:100}\n" for i in range(25_000 if number else 10))  # 2.7 MB
        )
        (tmp_path / f"{number}.jsonl").write_text("".join(f'{{"id": {i}, "file": {number}}}\n' for i in range(999)))
    (tmp_path / "a.csv").write_text("id,name\n1,one\n2,\n")
    return tmp_path


def test_files_of_a_pattern(load, tree):
    """Listed and pinned when the query is planned, then read by SQL."""
    frame = load(ReadLines(), "line string", str(tree / "*.txt"))
    files = run_direct([str(tree / "*.txt")], MatchFiles())
    assert Counter(line for (line,) in frame.collect()) == Counter(run_direct(files, ReadLines()))


def test_sql_over_files(load, spark, tree):
    """A view names the format and its options; a schema may name fewer columns than there are."""
    load(ReadJsonLines(), "id long, file int", str(tree / "*.jsonl"))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW logs USING sdf OPTIONS (path '{tree}/*.jsonl')")
    found = spark.sql("SELECT file, count(*), sum(id) FROM logs WHERE id >= 990 GROUP BY file ORDER BY file").collect()
    assert found == [(number, 9, sum(range(990, 999))) for number in range(4)]


def test_several_paths(load, tree):
    """Each is an element; a directory is listed."""
    (tree / "sub").mkdir()
    (tree / "sub" / "x.csv").write_text("id,name\n3,drei\n")
    frame = load(ReadCsv(), "id string, name string", [str(tree / "a.csv"), str(tree / "sub")])
    assert sorted(frame.collect()) == [("1", "one"), ("2", ""), ("3", "drei")]


def test_batches_of_parquet_are_passed_through(load, tmp_path):
    """Only the columns of the schema, in its types."""
    table = pyarrow.table({"id": range(5000), "name": [f"n{i}" for i in range(5000)], "more": [1.0] * 5000})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=700)
    frame = load(ReadParquet(batches=True, columns=["name", "id"]), "id long, name string", str(tmp_path))
    assert sorted(frame.collect()) == [(i, f"n{i}") for i in range(5000)]
    again = load(ReadParquet(), "name string", str(tmp_path))
    assert again.count() == 5000


def test_a_table(load, tmp_path):
    """Its name is the path of the read."""
    import sqlite3

    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO rows VALUES (?, ?)", [(i, f"n{i}") for i in range(1000)])
    connection.close()
    frame = load(ReadTable(f"sqlite:///{tmp_path / 'a.db'}", key="id"), "id long, name string", "rows")
    assert sorted(frame.collect()) == [(i, f"n{i}") for i in range(1000)]
    with pytest.raises(PySparkException, match=r"has no column 'nam'; it has \['id', 'name'\]"):
        load(ReadTable(f"sqlite:///{tmp_path / 'a.db'}", key="id"), "nam string", "rows").collect()
    few = load(ReadTable(f"sqlite:///{tmp_path / 'a.db'}", key="id", columns=["name"]), "name string", "rows")
    assert few.count() == 1000


@pytest.mark.parametrize(("options", "partitions"), [({}, 4), ({"numPartitions": 7}, 7), ({"numPartitions": 1}, 1)])
def test_work_is_dealt_out_into_partitions(load, options, partitions):
    """As many as there are slots, or as the option says, of the same size although one element has all of it."""
    frame = load(CountFn(), COUNTED, elements=[("a", 7000), ("b", 10)], **options)
    assert frame.rdd.getNumPartitions() == partitions
    counts = frame.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()
    assert sum(counts) == 7010
    assert max(counts) <= 7010 / partitions * 1.6


def test_nothing_to_read_is_no_row(load):
    """No elements, or elements without work."""
    assert load(CountFn(), COUNTED, elements=[]).collect() == []
    assert load(CountFn(), COUNTED, elements=[("a", 0)]).collect() == []


class LaterFn(CountFn):
    """As CountFn, two numbers at a time."""

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for i in range(start, min(start + 2, stop)):
            if not tracker.try_claim(i):
                return
            yield element[0], i
        tracker.defer_remainder(0.001)


def test_what_is_deferred_is_read_in_the_same_task(load):
    """A batch ends when all is read."""
    assert Counter(map(tuple, load(LaterFn(), COUNTED, elements=[("a", 9)]).collect())) == expected([("a", 9)])


def test_work_that_is_only_deferred_is_an_error(monkeypatch):
    """Instead of a task that never ends; it would take four minutes of pauses to tell."""
    monkeypatch.setattr("sdf.execution.deferrals._IDLE_SECONDS", 0)
    with pytest.raises(DeferError, match=r"OnlyDefersFn.process\(\) deferred .* without a claim"):
        list(finished(OnlyDefersFn(), [Pending(0, ("a", 1), OffsetRange(0, 1))]))


def test_a_record_with_a_tag_is_an_error(load):
    """It would be lost."""
    with pytest.raises(PySparkException, match="but a data source reads the main output only"):
        load(OddFn(), COUNTED, elements=[("a", 9)]).collect()


def test_work_without_an_end_is_for_streams(load):
    """The error comes when the query is planned."""
    with pytest.raises(PySparkException, match=r"EndlessFn.get_initial_restriction\(\) gave .* which has no end"):
        load(EndlessFn(), COUNTED, elements=["a"]).collect()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "the data source 'sdf' was given nothing to read"),
        ({"elements": "a"}, "the option elements of the data source 'sdf' must be a JSON list .got 'a'."),
        (
            {"path": "a", "numPartitions": "0"},
            "the option numPartitions of the data source 'sdf' must be an integer >= 1",
        ),
    ],
)
def test_options_that_make_no_sense(spark, options, error):
    """Named when the query is planned."""
    spark.dataSource.register(data_source(CountFn(), COUNTED))
    with pytest.raises(PySparkException, match=error):
        spark.read.format("sdf").options(**options).load().collect()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((CountFn, COUNTED), {}, InvalidTypeError, r"pass CountFn\(\)"),
        (([], COUNTED), {}, InvalidTypeError, "needs a DoFn or a sequence of them"),
        ((CountFn(), None), {}, InvalidTypeError, "schema must be a string such as"),
        ((CountFn(), COUNTED), {"name": ""}, InvalidTypeError, "name must be a name"),
        ((CountFn(), COUNTED), {"elements": "abc"}, InvalidTypeError, "elements must be a list"),
        ((RecordsFn([open]), COUNTED), {"elements": iter([time.sleep, (i for i in ())])}, UnpicklableError, "elements"),
    ],
)
def test_arguments_that_make_no_sense(arguments, options, error, text):
    """Named at once."""
    with pytest.raises(error, match=text):
        data_source(*arguments, **options)


def test_a_schema_may_be_a_struct_type(load):
    """With columns that are not null."""
    schema = StructType().add("name", "string", False).add("i", "long", False)
    frame = load(CountFn(), schema, elements=[("a", 2)])
    assert sorted(frame.collect()) == [("a", 0), ("a", 1)]
    assert frame.schema == schema


# Streams.


class EndlessFn(DoFn):
    """Element: a name. Gives numbers without an end, some at a time, then defers."""

    def __init__(self, at_a_time=5, delay_seconds=0.05):
        self.at_a_time, self.delay_seconds = at_a_time, delay_seconds

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNBOUNDED)

    def create_tracker(self, element, restriction):
        return GrowableOffsetRangeTracker(restriction)

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for i in range(start, start + self.at_a_time if stop is UNBOUNDED else stop):
            if not tracker.try_claim(i):
                return
            yield element, i
        if stop is UNBOUNDED:
            tracker.defer_remainder(self.delay_seconds)


def streams(module):
    """Import a module that reads streams, which Spark has from 4.2."""
    return pytest.importorskip(module, exc_type=MissingExtraError)


@pytest.fixture
def stream(spark, tmp_path):
    """Register a data source, and start a query that writes what it reads to files; give the query."""
    streams("sdf.spark.source.stream_reader")
    started = []

    def start(fns, schema, *paths, elements=None, trigger=None, **options):
        spark.dataSource.register(data_source(fns, schema, name="sdf", elements=elements))
        frame = spark.readStream.format("sdf").options(**{"numPartitions": 2, **options}).load(*paths)
        start.schema = schema
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer = writer.trigger(**(trigger or {"availableNow": True}))
        started.append(writer.start(str(tmp_path / "out")))
        while is_too_slow(started[-1]):
            started.append(writer.start(str(tmp_path / "out")))
        return started[-1]

    yield start
    for query in started:
        query.stop()


def is_too_slow(query):
    """Tell whether a query ended because Spark gives the Python that plans it ten seconds to begin, whatever runs."""
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(0.1)
    return query.exception() is not None and "Python worker failed to connect back" in str(query.exception())


@pytest.fixture
def written(spark, stream, tmp_path):
    """Give a function that reads the files of the sink, whose log says which of them count."""

    def read():
        if not (tmp_path / "out" / "_spark_metadata" / "0").exists():
            return []
        return sorted(map(tuple, spark.read.schema(stream.schema).parquet(str(tmp_path / "out")).collect()))

    return read


def until(holds):
    """Wait for what a stream is to do."""
    for _ in range(9000):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen in 15 minutes")


def ended(query):
    """Wait for the end of a query, and return the records of its batches."""
    assert query.awaitTermination(900)
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


@pytest.mark.slow("test_a_known_end_is_shared_out_and_bounded")
def test_available_now_reads_finite_work_and_ends(stream, written):
    """Each record once; started again, there is nothing more."""
    assert ended(stream(CountFn(), COUNTED, elements=ELEMENTS)) == [351]
    assert written() == sorted(expected(ELEMENTS).elements())
    assert ended(stream(CountFn(), COUNTED, elements=ELEMENTS)) == []
    assert written() == sorted(expected(ELEMENTS).elements())


@pytest.mark.slow("test_a_batch_has_at_most_so_much")
def test_a_batch_has_one_block_at_least(stream, tree):
    """Where the bound is less than the cell that ReadLines claims."""
    batches = ended(stream(ReadLines(), "line string", str(tree / "1.txt"), maxSizePerTrigger=1))
    assert sum(batches) == 25_000
    assert len(batches) == -(-(tree / "1.txt").stat().st_size // CELL_BYTES)


# Dear: Spark starts a Python process of its own for each stream, here for two.
def test_a_growing_file_is_followed_over_restarts(stream, written, tmp_path):
    """Whole lines, each once; a line without its end waits for it."""
    log, lines = tmp_path / "a.log", []

    def append(count):
        with open(log, "a") as file:
            for _ in range(count):
                lines.append((f"line {len(lines):06d}",))
                file.write(f"{lines[-1][0]}\n")

    append(1)
    with open(log, "a") as file:
        file.write("line")
    ended(stream(TailLines(), "line string", str(log)))
    assert written() == lines
    with open(log, "a") as file:
        file.write(" 000001\n")
    lines.append(("line 000001",))
    append(50_000)
    ended(stream(TailLines(), "line string", str(log)))
    assert written() == lines


@pytest.mark.slow("test_a_growing_file_is_followed_over_restarts")
def test_a_growing_file_is_followed_while_it_grows(stream, written, tmp_path):
    """And what a batch reads of it is bounded, to the megabyte of a claim."""
    log = tmp_path / "a.log"
    log.write_text("".join(f"line {number:06d}\n" for number in range(200_000)))  # 2.4 MB
    query = stream(
        TailLines(poll_seconds=0.05),
        "line string",
        str(log),
        trigger={"processingTime": "0 seconds"},
        maxSizePerTrigger=1,
    )
    until(lambda: len(written()) == 200_000)
    with open(log, "a") as file:
        file.write("more\n")
    until(lambda: len(written()) == 200_001)
    assert query.exception() is None
    batches = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert len(batches) == 4


def test_a_directory_is_watched(stream, written, tmp_path):
    """A chain: the files that one DoFn finds are followed by the next; files come and grow between the runs."""
    logs, lines = tmp_path / "logs", []
    logs.mkdir()
    for number in range(2):
        for name in range(number + 1):
            with open(logs / f"{name}.log", "a") as file:
                lines.append((f"{name} {number}",))
                file.write(f"{name} {number}\n")
        ended(stream([WatchFiles(modified="ignore"), TailLines()], "line string", str(logs)))
        assert written() == sorted(lines)


@pytest.mark.slow("test_a_directory_is_watched")
def test_files_are_records_too(stream, written, tmp_path):
    """A DoFn that gives attrs classes, with the columns that the schema names."""
    logs = tmp_path / "logs"
    for number in range(3):
        logs.mkdir(exist_ok=True)
        (logs / f"{number}.log").write_text("x" * number)
        ended(stream(WatchFiles(), "path string, size long", str(logs)))
        assert written() == [(str(logs / f"{name}.log"), name) for name in range(number + 1)]


def test_a_batch_that_failed_is_read_again_from_its_offset(stream, written, tmp_path):
    """The offset is in the log, the sink has nothing: the next run reads the same parts, though there is more now."""
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\n")
    query = stream(FailingTailLines(str(tmp_path / "fail")), "line string", str(log))
    (tmp_path / "fail").touch()
    with pytest.raises(PySparkException, match="told to fail"):
        ended(query)
    assert written() == []
    (offset,) = [path for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name == "0"]
    planned = offset.read_text()
    (tmp_path / "fail").unlink()
    with open(log, "a") as file:
        file.write("three\n")
    assert ended(stream(FailingTailLines(str(tmp_path / "fail")), "line string", str(log))) == [2, 1]
    assert written() == [("one",), ("three",), ("two",)]
    assert offset.read_text() == planned


class FailingTailLines(TailLines):
    """Fails on executors, where it reads what was found before, as long as there is a file of that name."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def process(self, element, tracker):
        if tracker.current_restriction().stop is not UNBOUNDED:
            for _ in range(100):
                if os.path.exists(self.path):
                    raise RuntimeError("told to fail")
                time.sleep(0.01)
        yield from super().process(element, tracker)


@pytest.mark.slow("test_a_growing_file_is_followed_over_restarts")
def test_work_without_an_end_goes_on_over_restarts(stream, written, spark):
    """Stopped anywhere, started again: no number is lost or comes twice."""
    for least in (20, 60):
        query = stream(EndlessFn(), COUNTED, elements=["a", "b"], trigger={"processingTime": "0 seconds"})
        until(lambda least=least: len(written()) > least)
        query.stop()
    found = written()
    assert found == [(name, i) for name in "ab" for i in range(sum(one == name for one, _ in found))]
    assert min(sum(one == name for one, _ in found) for name in "ab") > 10


class KnownEndFn(EndlessFn):
    """Element: a file that holds a number. Gives the numbers up to there; running it without an end is a mistake."""

    def truncate(self, element, restriction):
        return OffsetRange(restriction.start, int(Path(element).read_text()))

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        if stop is UNBOUNDED:
            assert start == int(Path(element).read_text()), "what is there was to be read on executors"
            tracker.defer_remainder(0.05)
            return
        yield from super().process("a", tracker)

    def on_commit(self, element, restriction):
        with open(f"{element}.committed", "a") as file:
            file.write(f"{restriction.start} {restriction.stop}\n")


# Dear: it starts two streams.
def test_a_known_end_is_shared_out_and_bounded(stream, written, tmp_path):
    """Without a run beside the driver; and the source hears of what is committed, once there is a batch after it."""
    path = tmp_path / "end"
    for end in (100, 1000):
        path.write_text(str(end))
        batches = ended(stream(KnownEndFn(), COUNTED, elements=[str(path)], maxSizePerTrigger=300))
        assert batches == {100: [100], 1000: [300, 300, 300]}[end]
        assert written() == [("a", i) for i in range(end)]
    heard = [tuple(map(int, line.split())) for line in path.with_suffix(".committed").read_text().splitlines()]
    assert {(0, 100), (100, 400), (400, 700)} <= set(heard)


def test_a_stream_without_work_to_come_stays_idle(stream, tmp_path):
    """No batches of nothing, and the source is not asked a hundred times a second."""
    (tmp_path / "a.log").touch()
    query = stream(
        CountingTailLines(str(tmp_path / "looks")), "line string", str(tmp_path / "a.log"),
        trigger={"processingTime": "0 seconds"},
    )  # fmt: skip
    until(lambda: (tmp_path / "looks").exists())
    time.sleep(2)
    assert (tmp_path / "looks").stat().st_size <= 12
    assert not any(progress.numInputRows for progress in query.recentProgress)
    assert not [path for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdigit()][1:]


class CountingTailLines(TailLines):
    """Notes in a file how often it looked."""

    def __init__(self, path):
        super().__init__(poll_seconds=0.3)
        self.path = path

    def process(self, element, tracker):
        with open(self.path, "a") as file:
            file.write(".")
        yield from super().process(element, tracker)


class SlowEndlessFn(EndlessFn):
    """Gives a number each hundredth of a second."""

    def process(self, element, tracker):
        for output in super().process(element, tracker):
            time.sleep(0.01)
            yield output


def reader(fn, elements, max_size=None):
    """Give the planner of a stream, without Spark around it."""
    settings = Settings((), serde.dumps(elements, "the elements"), 2, max_size, Texts())
    kind = streams("sdf.spark.source.stream_reader").StreamReader
    return kind(Chain.of([fn]), StructType().add("name", "string").add("i", "long"), settings)


def next_offset(planner, offset):
    """Give the offset that comes next, as a checkpoint keeps it."""
    return json.loads(json.dumps(planner.latestOffset(offset, planner.getDefaultReadLimit())))


def rows_of(planner, offset):
    """Give the rows of a batch, as the tasks read them."""
    shares = planner.partitions({}, offset)
    return [tuple(row.values()) for share in shares for batch in planner.read(share) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "ask",
    [next_offset, lambda planner, offset: planner.partitions({}, offset)],
    ids=["what comes", "what is read again"],
)
def test_a_checkpoint_of_another_stream_is_refused(spark, ask):
    """The work in it is not this one's."""
    first = reader(CountFn(), [("a", 3)])
    offset = next_offset(first, first.initialOffset())
    first.stop()
    another = reader(LaterFn(), [("a", 3)])
    with pytest.raises(
        JournalError, match=r"holds a stream through \['CountFn'\], this one reads through \['LaterFn'\]"
    ):
        ask(another, offset)
    another.stop()


def test_a_batch_has_at_most_so_much(spark):
    """Elements are cut to fit."""
    planner = reader(CountFn(), ELEMENTS, max_size=40)
    offset, batches = planner.initialOffset(), []
    while offset["left"]:
        offset = next_offset(planner, offset)
        batches.append(rows_of(planner, offset))
    planner.stop()
    assert max(map(len, batches)) <= 40
    assert len(batches) <= 11
    assert sorted(itertools.chain(*batches)) == sorted(expected(ELEMENTS).elements())


def test_what_is_found_in_a_second_is_several_parts(spark):
    """So that it can be shared out; they follow each other, and so does the work that is left."""
    planner = reader(SlowEndlessFn(at_a_time=10**9), ["a"])
    end = planner.latestOffset(planner.initialOffset(), streams("sdf.spark.door.data_streams").ReadAllAvailable())
    parts = [from_json(one).restriction for one in end["read"]]
    assert len(parts) >= 3
    (left,) = [from_json(one).restriction for one in end["left"]]
    assert [part.start for part in [*parts, left]] == [0, *(part.stop for part in parts)]
    end = json.loads(json.dumps(end))
    assert len(planner.partitions({}, end)) == 2
    assert sorted(i for _, i in rows_of(planner, end)) == list(range(left.start))
    planner.stop()


def test_elements_take_turns(spark):
    """Where the time is up, or the bound is reached, the next batch begins with those that were not looked at."""
    planner = reader(EndlessFn(at_a_time=10, delay_seconds=0), ["a", "b", "c"], max_size=10)
    offset, seen = planner.initialOffset(), []
    for _ in range(6):
        offset = next_offset(planner, offset)
        seen.append([(one["element"], one["records"]) for one in offset["read"]])
    assert seen == [[(name, 10)] for name in "abcabc"]
    planner.stop()


@pytest.mark.parametrize("step", [-(10**12), -3_600_000, 0, 10**12])
def test_a_stream_that_goes_on_waits_no_longer_than_was_asked(spark, monkeypatch, step):
    """Whatever its clock says now."""
    first = reader(EndlessFn(delay_seconds=3), ["a"])
    offset = next_offset(first, first.initialOffset())
    first.stop()
    monkeypatch.setattr(clock, "_wall", lambda real=clock._wall: real() + step)
    again = reader(EndlessFn(delay_seconds=3), ["a"])
    due = from_json(offset["left"][0]).due
    assert due > 0
    next_offset(again, offset)
    assert due - again._now() <= 3000
    again.stop()


def test_what_has_no_importable_class_is_pickled_into_the_offset(spark):
    """As values of classes of the program itself, or of a notebook."""
    lost = type("Lost", (), {"__module__": "nowhere", "number": 7})()
    planner = reader(EndlessFn(), [lost])
    (left,) = planner.initialOffset()["left"]
    assert left["element"][0] == "pickle"
    assert from_json(left).element.number == 7
    planner.stop()


def test_the_page_in_the_documentation_runs(spark, monkeypatch, capsys, tmp_path):
    """All its snippets in one program, and what they print is what it says."""
    root = Path(__file__).parents[3]
    shutil.copy(root / "README.md", tmp_path)
    shutil.copytree(root / "docs", tmp_path / "docs")
    monkeypatch.chdir(tmp_path)
    page = (root / "docs" / "dataframes.md").read_text()
    snippets = "".join(
        re.findall(r"^(?:```|<!--- invisible-code-block: )python\n(.*?)^(?:```|--->)", page, re.M | re.S)
    )
    exec(compile(snippets, "dataframes.md", "exec"), {"__name__": "dataframes"})
    printed = [line for line in capsys.readouterr().out.splitlines() if line[:1] not in "+|"]
    assert printed == re.findall(r"print\(.*\)  # (.*)", snippets)
