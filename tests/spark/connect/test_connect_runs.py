"""run_sdf and save_sdf over DataFrames: on a real Spark Connect server, and on classic Spark."""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet
import pytest

from sdf import DoFn, LiveRunner, OffsetRange, Quarantine, StagedRunner, TaggedOutput, retry_failed, run_sdf, save_sdf
from sdf.errors import ClaimError, InvalidTypeError, InvalidValueError, ProcessError
from sdf.sinks import JsonLinesFiles, ParquetFiles


class CountFn(DoFn):
    """Element: a name and a count."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for number in tracker.claims():
            yield {"name": element[0], "number": number}


@pytest.fixture(params=["connect", "classic"])
def spark(request):
    """A session of Spark Connect, and one of classic Spark."""
    if request.param == "connect":
        return request.getfixturevalue("connect")
    from pyspark.sql import SparkSession

    return SparkSession(request.getfixturevalue("sc"))


COUNTS = [("a", 5), ("b", 0), ("c", 1000)]
NUMBERS = [(name, number) for name, count in COUNTS for number in range(count)]


def rows(frame):
    return sorted((row.name, row.number) for row in frame.collect())


def test_results_are_a_dataframe_of_the_schema(spark, tmp_path):
    """It has the report of the run, too."""
    frame = spark.createDataFrame(COUNTS, "name string, count long")
    result = run_sdf(frame, CountFn(), schema="name string, number int", staging=tmp_path)
    assert rows(result) == NUMBERS
    assert result.schema.simpleString() == "struct<name:string,number:int>"
    assert result.report.elements == 3


def test_saved_once(spark, tmp_path):
    frame = spark.createDataFrame(COUNTS, "name string, count long")
    summary = save_sdf(frame, CountFn(), ParquetFiles(tmp_path / "out"))
    table = pyarrow.parquet.read_table(tmp_path / "out")
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == NUMBERS
    assert (summary.records, summary.resumed) == (1005, False)
    again = save_sdf(frame, CountFn(), ParquetFiles(tmp_path / "out"))
    assert (again.records, again.report) == (1005, None)


def test_an_element_is_a_row_or_the_value_of_the_only_column_or_what_element_makes_of_it(spark, tmp_path):
    class ShowsFn(DoFn):
        def get_initial_restriction(self, element):
            return OffsetRange(0, 1)

        def process(self, element, tracker):
            for _ in tracker.claims():
                yield type(element).__name__, str(element)

    pair, one = spark.createDataFrame([("a", 5)], "name string, count long"), spark.createDataFrame([(7,)], "n long")

    def shown(frame, **options):
        result = run_sdf(frame, ShowsFn(), schema="kind string, text string", staging=tmp_path, **options)
        return [tuple(row) for row in result.collect()]

    assert shown(pair) == [("Row", "Row(name='a', count=5)")]
    assert shown(one) == [("int", "7")]
    assert shown(pair, element=lambda row: row.name) == [("str", "a")]


class OddEvenFn(CountFn):
    def process(self, element, tracker, *, least=()):
        for row in super().process(element, tracker):
            if row["number"] >= sum(least):
                yield TaggedOutput("odd", row) if row["number"] % 2 else row


def test_each_output_is_a_dataframe_and_side_inputs_are_collected(spark, tmp_path):
    frame = spark.createDataFrame(COUNTS, "name string, count long")
    schema = "name string, number int"
    results = run_sdf(
        frame,
        OddEvenFn(),
        tags=["odd"],
        schema={"main": schema, "odd": schema},
        staging=tmp_path,
        side_inputs={"least": spark.createDataFrame([(1,), (2,)], "n long")},
    )
    assert rows(results["main"]) == [row for row in NUMBERS if row[1] >= 3 and row[1] % 2 == 0]
    assert rows(results["odd"]) == [row for row in NUMBERS if row[1] >= 3 and row[1] % 2]


BAD = {("a", 3): "raises", ("c", 500): "exits", ("c", 501): "takes its worker along"}


class BadFn(CountFn):
    """Does what `BAD` says at some numbers."""

    def process(self, element, tracker):
        for row in super().process(element, tracker):
            what = BAD.get((row["name"], row["number"]))
            if what == "raises":
                raise ValueError("no number")
            if what == "takes its worker along":
                os.kill(os.getppid(), signal.SIGKILL)
            if what:
                os._exit(7)
            yield row


def test_blocks_that_fail_are_a_dataframe(spark, tmp_path):
    """Of texts, as elements and restrictions may be of any type; all else is there once."""
    frame = spark.createDataFrame(COUNTS, "name string, count long")
    schema = "name string, number int"
    results = run_sdf(frame, BadFn(), schema=schema, staging=tmp_path, on_failure=Quarantine())
    assert rows(results["main"]) == [row for row in NUMBERS if row not in BAD]
    assert len(results["main"].report.failures) == 3
    failed = sorted((row.restriction, row.error) for row in results["failed"].collect())
    assert [restriction for restriction, _ in failed] == [
        "OffsetRange(start=3, stop=4)",
        "OffsetRange(start=500, stop=501)",
        "OffsetRange(start=501, stop=502)",
    ]
    for (_, error), part in zip(
        failed, ("ValueError: no number", "exit code 7", "executor or worker was lost"), strict=True
    ):
        assert part in error


def test_no_element_and_no_record_give_an_empty_dataframe(spark, tmp_path):
    for counts in ([], [("a", 0)]):
        frame = spark.createDataFrame(counts, "name string, count long")
        result = run_sdf(frame, CountFn(), schema="name string, number int", staging=tmp_path)
        assert result.collect() == []
        assert result.columns == ["name", "number"]


class SlowFn(CountFn):
    def process(self, element, tracker):
        for row in super().process(element, tracker):
            time.sleep(0.02)
            yield row


def test_a_straggler_is_split(spark, tmp_path):
    """One element has nearly all the work; its parts run in several tasks."""
    counts = [("big", 400), *((str(i), 1) for i in range(5))]
    frame = spark.createDataFrame(counts, "name string, count long")
    summary = save_sdf(frame, SlowFn(), JsonLinesFiles(tmp_path / "out"))
    assert summary.records == 405
    assert summary.report.splits >= 3
    assert len(summary.report.tasks) >= 4


class DefersFn(CountFn):
    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for number in range(start, stop):
            if number - start == 5:
                tracker.defer_remainder(0.01)
                return
            if not tracker.try_claim(number):
                return
            yield {"name": element[0], "number": number}


def test_what_is_deferred_is_done(spark, tmp_path):
    frame = spark.createDataFrame([("a", 17), ("b", 3)], "name string, count long")
    result = run_sdf(frame, DefersFn(), schema="name string, number int", staging=tmp_path)
    assert rows(result) == [("a", number) for number in range(17)] + [("b", number) for number in range(3)]


class RaisesFn(CountFn):
    def process(self, element, tracker):
        for row in super().process(element, tracker):
            yield row["number"] / (row["number"] - 3)


class ClaimsTwiceFn(CountFn):
    def process(self, element, tracker):
        for number in range(*tracker.current_restriction()):
            tracker.try_claim(number)
            tracker.try_claim(number)
            yield number


class RestrictsWrongFn(CountFn):
    def get_initial_restriction(self, element):
        return [1, 2][element[1]]


@pytest.mark.parametrize(
    ("fn", "error", "message"),
    [
        (RaisesFn(), ProcessError, r"RaisesFn\.process\(\) on OffsetRange.* of element .*'a'.* ZeroDivisionError"),
        (ClaimsTwiceFn(), ClaimError, r"ClaimsTwiceFn\.process\(\) on OffsetRange.* of element .*'a'"),
        (RestrictsWrongFn(), ProcessError, r"get_initial_restriction\(\).*IndexError"),
    ],
    ids=["process", "claim", "expansion"],
)
def test_an_error_names_the_dofn_and_the_element_and_ends_in_the_users_code(spark, tmp_path, fn, error, message):
    frame = spark.createDataFrame([("a", 9)], "name string, count long")
    with pytest.raises(error, match=message) as caught:
        save_sdf(frame, fn, JsonLinesFiles(tmp_path / "out"))
    assert Path(__file__).name in str(caught.value.__cause__)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"staging": "x"}, InvalidTypeError, r"needs schema=, that of the records"),
        ({"schema": 5, "staging": "x"}, InvalidTypeError, r"schema must be a string .* or a StructType \(got 5\)"),
        ({"schema": "n long"}, InvalidTypeError, r"needs staging=, a directory or URL .* \(got None\)"),
        (
            {"schema": {"main": "n long"}, "staging": "x", "tags": ["a"]},
            InvalidValueError,
            r"each output \['main', 'a'\]",
        ),
        ({"schema": "n long", "staging": "x", "element": 5}, InvalidTypeError, r"element must be a function of a Row"),
        ({"schema": "n long", "staging": "x", "runner": 5}, InvalidTypeError, r"runner must be a StagedRunner"),
    ],
)
def test_wrong_arguments_are_named_before_any_work(spark, tmp_path, monkeypatch, options, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        run_sdf(spark.createDataFrame([("a", 9)], "name string, count long"), CountFn(), **options)
    assert list(tmp_path.iterdir()) == []


def test_what_is_for_dataframes_is_refused_for_an_rdd(sc):
    for option in ({"schema": "n long"}, {"staging": "x"}, {"element": str}):
        with pytest.raises(InvalidTypeError, match=r"= is for .* DataFrame"):
            run_sdf(sc.parallelize([("a", 9)]), CountFn(), **option)


def test_lanes_are_refused_on_spark_connect(connect, tmp_path):
    """And run over a DataFrame of classic Spark (see `test_save_sdf.py`)."""
    frame = connect.createDataFrame([("a", 9)], "name string, count long")
    with pytest.raises(InvalidTypeError, match=r"cannot use a LiveRunner on Spark Connect.* Use StagedRunner\(\)"):
        save_sdf(frame, CountFn(), JsonLinesFiles(tmp_path / "out"), runner=LiveRunner())


def test_much_data_reaches_the_workers_of_a_server(connect, tmp_path):
    """A DoFn, a side input and elements that are too big for a plan."""

    class BigFn(CountFn):
        def __init__(self):
            self.ballast = bytes(3_000_000)

        def process(self, element, tracker, more):
            for _ in tracker.claims():
                yield len(self.ballast) + len(more) + len(element[0])

    frame = connect.createDataFrame([("x" * 3_000_000, 1)], "name string, count long")
    save_sdf(frame, BigFn(), JsonLinesFiles(tmp_path / "out"), side_inputs={"more": bytes(3_000_000)})
    (line,) = (line for path in (tmp_path / "out").glob("*.json*") for line in path.read_text().splitlines())
    assert json.loads(line) == 9_000_000


def test_a_failure_leaves_no_task_on_the_server(connect, tmp_path):
    """One task raises while others would go on for minutes."""

    class HalfFn(CountFn):
        def process(self, element, tracker):
            for row in super().process(element, tracker):
                if element[0] == "bad":
                    raise ValueError("no")
                for _ in range(1200):
                    (tmp_path / element[0]).touch()
                    time.sleep(0.1)
                yield row

    frame = connect.createDataFrame([("good", 1), ("bad", 1)], "name string, count long")
    with pytest.raises(ProcessError, match="no"):
        save_sdf(frame, HalfFn(), JsonLinesFiles(tmp_path / "out"), runner=StagedRunner(slots=2))
    for _ in range(60):  # Spark gives a Python worker two seconds
        (tmp_path / "good").unlink(missing_ok=True)
        time.sleep(0.5)
        if not (tmp_path / "good").exists():
            break
    assert not (tmp_path / "good").exists()


def test_given_slots_are_used(connect, tmp_path):
    frame = connect.createDataFrame([("big", 200)], "name string, count long")
    summary = save_sdf(frame, SlowFn(), JsonLinesFiles(tmp_path / "out"), runner=StagedRunner(slots=2))
    assert summary.report.slots == 2
    assert Counter(task.stage for task in summary.report.tasks)[0] == 2


def test_what_was_set_aside_is_retried(spark, tmp_path):
    """The session is all that it needs: the elements are in the checkpoint."""

    class BadFn(CountFn):
        bad = True

        def process(self, element, tracker):
            for one in super().process(element, tracker):
                if self.bad and one["number"] == 3:
                    raise ValueError("three")
                yield one

    frame, sink = spark.createDataFrame(COUNTS, "name string, count long"), ParquetFiles(tmp_path / "out")
    summary = save_sdf(frame, BadFn(), sink, on_failure=Quarantine())
    assert [block.restriction for block in summary.failures] == [OffsetRange(3, 4)] * 2
    BadFn.bad = False
    assert retry_failed(spark, BadFn(), sink).failures == ()
    table = pyarrow.parquet.read_table(tmp_path / "out")
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == NUMBERS
