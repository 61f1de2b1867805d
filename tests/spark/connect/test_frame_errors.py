"""What goes wrong with runs over DataFrames: what the error says, and that nothing is left running or half done."""

import re
import threading
import time

import pytest

from sdf import DoFn, OffsetRange, StagedRunner, run_sdf, save_sdf
from sdf.errors import InvalidTypeError, ProcessError, UnpicklableError
from sdf.sinks import JsonLinesFiles


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
    assert str(caught.value).endswith(f"raised ValueError: {text}")
    assert f"ValueError: {text}" in str(caught.value.__cause__)


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


def test_a_stream_is_refused(spark, tmp_path):
    with pytest.raises(InvalidTypeError, match=re.escape("run_sdf() needs a DataFrame that ends")):
        run_sdf(spark.readStream.format("rate").load(), OneFn(), schema="n int", staging=tmp_path)
