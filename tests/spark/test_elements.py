"""What is given as elements and is no RDD: the error says how to make one of it, or that there is none."""

import logging
import re

import pytest
from support.fns import CountFn

from sdf import LiveRunner, StagedRunner, retry_failed, run_sdf, stream_sdf
from sdf.errors import InvalidTypeError, InvalidValueError
from sdf.io import ReadLines
from sdf.sinks import TextFiles
from sdf.spark.elements import big_element


def stream(elements):
    stream_sdf(elements, CountFn(), checkpoint="none", foreach_batch=print)


RUNS = pytest.mark.parametrize("run", [lambda elements: run_sdf(elements, CountFn()), stream], ids=["run", "stream"])


class Connected:
    """Stands for pyspark.sql.connect.dataframe.DataFrame, whose module needs more than is installed here."""

    def __repr__(self):
        raise AssertionError("the repr of a DataFrame may run it")


Connected.__module__, Connected.__qualname__, Connected.__name__ = "pyspark.sql.connect.dataframe", *["DataFrame"] * 2


def test_a_dataframe_has_an_rdd(sc):
    """Its elements are Rows, which most DoFns do not expect. (run_sdf and save_sdf take DataFrames.)"""
    from pyspark.sql import SparkSession

    session = SparkSession(sc)
    try:
        with pytest.raises(InvalidTypeError, match=re.escape("Pass df.rdd, whose elements are Rows; where the DoFn")):
            stream(session.createDataFrame([("a", 1)], "name string, size int"))
    finally:
        session._jvm.SparkSession.clearDefaultSession()


def test_spark_connect_has_no_rdds():
    """To advise df.rdd there would lead nowhere."""
    with pytest.raises(InvalidTypeError) as caught:
        stream(Connected())
    text = str(caught.value)
    assert ("Spark Connect has none" in text, "run_sdf() and save_sdf() take" in text, "df.rdd" in text) == (
        True,
        True,
        False,
    )


@RUNS
def test_anything_else_is_shown(run):
    """With the usual way to an RDD."""
    with pytest.raises(InvalidTypeError, match=re.escape("needs an RDD of elements (got [1]). Use sc.parallelize(")):
        run([1])


@RUNS
def test_elements_come_first(run):
    """And the DoFn second."""
    with pytest.raises(InvalidTypeError, match=re.escape("takes the elements first, an RDD, and then the DoFn (got <")):
        run(CountFn())


@pytest.mark.parametrize("runner", ["live", LiveRunner], ids=["name", "class"])
def test_a_runner_is_an_instance(sc, runner):
    """Neither its name nor its class."""
    with pytest.raises(InvalidTypeError, match=re.escape("Pass an instance, such as runner=LiveRunner().")):
        run_sdf(sc.parallelize([("a", 1)]), CountFn(), runner=runner)


def warnings_of(caplog, run):
    with caplog.at_level(logging.WARNING, logger="sdf.elements"):
        run()
    return [record.getMessage() for record in caplog.records if record.name == "sdf.elements"]


class DataFn(CountFn):
    """Element: (name, N, data)."""


@pytest.mark.parametrize("runner", [StagedRunner(), LiveRunner()], ids=lambda runner: type(runner).__name__)
def test_a_big_element_is_warned_of_once(sc, caplog, runner):
    """On the driver, with the DoFn, the element and its size, whatever number of big ones there are."""
    elements = [("a", 1, b"x"), ("big", 1, b"x" * 3_000_000), ("bigger", 1, b"x" * 4_000_000)]
    (text,) = warnings_of(caplog, lambda: run_sdf(sc.parallelize(elements, 1), DataFn(), runner=runner))
    assert re.match(r"DataFn: element \('big', 1, b'xxx.{,60}\.\.\.x+'\) has 2\.9 MiB, pickled\. An element is", text)


def test_a_big_element_of_a_stream_is_warned_of_once(sc, caplog, tmp_path):
    """Each step has its elements."""
    elements = sc.parallelize([("big", 1, b"x" * 3_000_000)], 1)
    said = warnings_of(
        caplog,
        lambda: stream_sdf(elements, DataFn(), checkpoint=tmp_path / "journal", foreach_batch=lambda batch: None),
    )
    assert [text.split(",")[0] for text in said] == ["DataFn: element ('big'"]


def test_many_small_elements_are_not_warned_of(sc, caplog):
    """Together they are more than a big one."""
    elements = sc.parallelize([("x" * 1000 + str(i), 0) for i in range(3000)], 1)
    assert warnings_of(caplog, lambda: run_sdf(elements, CountFn())) == []


@pytest.mark.parametrize("at", [0, 99, 100, 250])
def test_a_big_one_among_many_is_found(at):
    """They are measured many at a time."""
    elements = ["x" * 20_000] * 251
    elements[at] = "y" * 2_000_000
    assert big_element(elements).shown.startswith("'yyy")


def test_an_rdd_whose_context_was_stopped(start_spark):
    """Spark itself fails with an error of Py4J or of NoneType, which names no cause."""
    sc = start_spark("local[1]")
    elements = sc.parallelize([3])
    sc.stop()
    for run in (
        lambda: run_sdf(elements, ReadLines()),
        lambda: stream_sdf(elements, ReadLines(), checkpoint="none", foreach_batch=print),
        lambda: retry_failed(sc, ReadLines(), TextFiles("none")),
    ):
        with pytest.raises(InvalidValueError, match="whose SparkContext was stopped"):
            run()
