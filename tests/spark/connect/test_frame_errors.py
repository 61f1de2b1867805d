"""What goes wrong with runs over DataFrames: what the error says, and that nothing is left running or half done."""

import re
import threading
import time

import pytest
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from sdf import DoFn, OffsetRange, RateLimit, StagedRunner, TaggedOutput, run_sdf, save_sdf
from sdf.errors import BadRecordError, InvalidTypeError, InvalidValueError, ProcessError, UnpicklableError
from sdf.sinks import JsonLinesFiles, ParquetFiles, Place, SinkRun, Token
from sdf.spark.frames import StagedRows


class OneFn(DoFn):
    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        for _ in tracker.claims():
            yield (1,)


class SaysFn(OneFn):
    """Raises an error with a text."""

    def __init__(self, text):
        self.text = text

    def process(self, element, tracker):
        for _ in tracker.claims():
            raise ValueError(self.text)
        yield


@pytest.fixture
def classic(sc):
    from pyspark.sql import SparkSession

    return SparkSession(sc)


@pytest.fixture(params=["connect", "classic"])
def spark(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize(
    "text",
    ["\u6f22" * 2000, "lone \udc80", "\\u6f22 \\\\ C:\\new\n\tnext line", "x" * 100_000],
    ids=["headers of 18 kB", "what UTF-8 cannot write", "backslashes", "long"],
)
def test_the_text_of_an_error_reaches_the_client_as_it_is(connect, tmp_path, text):
    """Spark Connect sends a part of it in a header, and drops the connection if that is too long."""
    with pytest.raises(ProcessError) as caught:
        save_sdf(connect.range(1), SaysFn(text), JsonLinesFiles(tmp_path / "out"))
    told = text.encode("utf-8", "backslashreplace").decode()
    assert str(caught.value).endswith(f"raised ValueError: {told}")
    assert f"ValueError: {told}" in str(caught.value.__cause__)


def test_an_unavailable_server_of_the_users_is_not_that_of_spark(connect, tmp_path):
    """The error is the user's, and the other tasks are interrupted."""

    class HalfFn(OneFn):
        def process(self, element, tracker):
            for _ in tracker.claims():
                if element:
                    raise ValueError("<_InactiveRpcError of RPC that terminated with: status = StatusCode.UNAVAILABLE>")
                for _ in range(1200):
                    (tmp_path / "running").touch()
                    time.sleep(0.1)
            yield

    with pytest.raises(ProcessError, match="UNAVAILABLE"):
        save_sdf(connect.range(2), HalfFn(), JsonLinesFiles(tmp_path / "out"), runner=StagedRunner(slots=2))
    for _ in range(60):  # Spark gives a Python worker two seconds
        (tmp_path / "running").unlink(missing_ok=True)
        time.sleep(0.5)
        if not (tmp_path / "running").exists():
            break
    assert not (tmp_path / "running").exists()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("a foo", r"schema 'a foo' is none that Spark takes: \[UNSUPPORTED_DATATYPE\]"),
        ("a", r"schema 'a' is none that Spark takes: \[PARSE_SYNTAX_ERROR\]"),
        ("a char(3)", r"schema 'a char\(3\)' is none that Spark takes: .*char/varchar"),
        ("a int, b int, A int", r"is none that Spark reads from Parquet files: \[COLUMN_ALREADY_EXISTS\].*`a`"),
        ("s struct<a: int, A: int>", r"\[COLUMN_ALREADY_EXISTS\].*`a`"),
        (StructType([StructField("a", IntegerType())] * 2), r"\[COLUMN_ALREADY_EXISTS\].*`a`"),
        ("a time", r"is none that Spark reads from Parquet files: \[UNSUPPORTED_TIME_TYPE\]"),
        ("a interval year to month", r"has a type that cannot be staged: \[UNSUPPORTED_DATA_TYPE"),
    ],
)
def test_a_schema_that_cannot_be_is_refused_before_any_work(spark, tmp_path, schema, message):
    with pytest.raises(InvalidValueError, match=message):
        run_sdf(spark.range(1), OneFn(), schema=schema, staging=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_columns_that_differ_in_case_are_two_where_spark_says_so(classic, tmp_path):
    spark = classic.newSession()
    spark.conf.set("spark.sql.caseSensitive", "true")

    class TwoFn(OneFn):
        def process(self, element, tracker):
            for _ in tracker.claims():
                yield {"a": 1, "A": 2}

    result = run_sdf(spark.range(1), TwoFn(), schema="a int, A int", staging=tmp_path)
    assert [tuple(row) for row in result.collect()] == [(1, 2)]


class GivesFn(OneFn):
    def __init__(self, record):
        self.record = record

    def process(self, element, tracker):
        for _ in tracker.claims():
            yield self.record


def test_a_column_that_is_not_null_takes_no_none(spark, tmp_path):
    """However deep; the DataFrame that reads what is staged cannot say it, as Spark reads every column as nullable."""
    deep = StructType().add("a", StructType().add("deep", ArrayType(IntegerType(), containsNull=False)))
    for schema, record, path in (("a int not null", (None,), "a"), (deep, {"a": {"deep": [1, None]}}, "a.deep[]")):
        message = rf"in field '{re.escape(path)}' None stands where the schema has NOT NULL"
        with pytest.raises(BadRecordError, match=message):
            run_sdf(spark.range(1), GivesFn(record), schema=schema, staging=tmp_path)


@pytest.mark.parametrize("staging", ["dbfs:/tmp", "file:/tmp"])
def test_a_url_without_slashes_is_refused(connect, tmp_path, monkeypatch, staging):
    """It would make a directory of that name on the client."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValueError, match=rf"a URL with // \(got '{staging}'\)"):
        run_sdf(connect.range(1), OneFn(), schema="n int", staging=staging)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("staging", ["webhdfs://node:9870/x", "hdfs://node/x"])
def test_staging_on_hdfs_is_refused(connect, staging):
    """Before any work: workers write there by WebHDFS, and the JVM cannot read that."""
    with pytest.raises(InvalidValueError, match=rf"staging cannot be on HDFS \(got '{staging}'\).* read hdfs://"):
        run_sdf(connect.range(1), OneFn(), schema="n int", staging=staging)


TAGS = ("..", "../../x", "a[b]", "_x", "a=1")


class TagsFn(OneFn):
    def process(self, element, tracker):
        for _ in tracker.claims():
            yield (-1,)
            for number, tag in enumerate(TAGS):
                yield TaggedOutput(tag, (number,))


FOLDERS = ["plain", "a[b]c", "{a,b}", "star*", "what?", "back\\slash", "p=1", "50%"]
ALONE = pytest.mark.slow("the same test with all these names in one")


@pytest.mark.parametrize("folder", ["p=1 " + "".join(FOLDERS), *(pytest.param(name, marks=ALONE) for name in FOLDERS)])
def test_any_name_of_staging_can_be_read(classic, tmp_path, folder):
    """Spark takes paths for globs."""
    (tmp_path / "starry").mkdir()
    result = run_sdf(classic.range(1), OneFn(), schema="n int", staging=tmp_path / folder)
    assert [tuple(row) for row in result.collect()] == [(1,)]


def test_a_tag_of_any_name_stays_in_the_directory_of_its_run(classic, tmp_path):
    schemas = dict.fromkeys(["main", *TAGS], "n int")
    results = run_sdf(classic.range(1), TagsFn(), schema=schemas, tags=TAGS, staging=tmp_path / "staging")
    assert {name: [tuple(row) for row in result.collect()] for name, result in results.items()} == {
        "main": [(-1,)],
        **{tag: [(number,)] for number, tag in enumerate(TAGS)},
    }
    assert len(list((tmp_path / "staging").iterdir())) == len(list(tmp_path.iterdir())) == 1


def test_an_element_that_cannot_be_made_is_named(connect, tmp_path):
    def fails(row):
        return row.id / 0

    with pytest.raises(ProcessError, match=r"element= raised ZeroDivisionError for Row\(id=0\): division"):
        run_sdf(connect.range(1), OneFn(), schema="n int", staging=tmp_path, element=fails)


def test_an_element_function_that_does_not_pickle_is_refused(classic, tmp_path):
    lock = threading.Lock()
    with pytest.raises(UnpicklableError, match=r"run_sdf\(\) element= cannot be sent to the workers"):
        run_sdf(classic.range(1), OneFn(), schema="n int", staging=tmp_path, element=lambda row: (lock, row))
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_pickle_is_named_as_it_is_with_an_rdd(spark, tmp_path):
    with pytest.raises(UnpicklableError, match=r"SaysFn cannot be sent to the workers: attribute 'text' \(lock"):
        run_sdf(spark.range(1), SaysFn(threading.Lock()), schema="n int", staging=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_stream_is_refused(spark, tmp_path):
    with pytest.raises(InvalidTypeError, match=re.escape("run_sdf() needs a DataFrame that ends")):
        run_sdf(spark.readStream.format("rate").load(), OneFn(), schema="n int", staging=tmp_path)


def test_a_rate_limit_needs_max_tasks(connect, tmp_path):
    """A task may wait for a slot, so there may be more tasks than slots."""
    limit = {"api": RateLimit("api", per_second=20)}

    class CallsFn(OneFn):
        def process(self, element, tracker, api):
            for _ in tracker.claims():
                yield (1,)

    def saved(**options):
        runner = StagedRunner(**options)
        return save_sdf(connect.range(1), CallsFn(), JsonLinesFiles(tmp_path / "out"), runner=runner, side_inputs=limit)

    with pytest.raises(InvalidValueError, match=r"needs max_tasks .* slots= is no bound"):
        saved(slots=2)
    assert saved(max_tasks=2).records == 1


def test_a_record_that_does_not_fit_is_no_reason_for_an_option_that_run_sdf_does_not_have(tmp_path):
    """It has no output for such records, so the advice is another one than that of a sink that the user gave."""
    import pyarrow

    for kind, advised in ((ParquetFiles, "With on_error='tag'"), (StagedRows, "Give schema= a type that holds it")):
        sink = kind(tmp_path / kind.__name__, schema=pyarrow.schema([("a", pyarrow.int32())]))
        token = Token("app", 0)
        sink.prepare(SinkRun(token, "main", resumed=False))
        with pytest.raises(BadRecordError, match="in field 'a'") as caught:
            sink.write(iter([{"a": "x"}]), Place(token, "main", "seg-0", None))
        assert advised in str(caught.value)
        assert ("on_error" in str(caught.value)) == (kind is ParquetFiles)
