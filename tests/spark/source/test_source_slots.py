"""How many partitions a read of a data source has: never as many as the client has cores."""

import os
import subprocess
import sys

import pytest

from sdf.errors import MissingExtraError

pytest.importorskip("sdf.spark.source", exc_type=MissingExtraError)

from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id
from support.fns import CountFn

from sdf.errors import InvalidTypeError, InvalidValueError
from sdf.spark.source import data_source
from sdf.spark.source.slots import UNKNOWN_SLOTS, Slots

COUNTED = "name string, i long"
WORK = [("a", 70_000), ("b", 10)]


def partitions(spark, source, **options):
    """Count the partitions that give a row."""
    spark.dataSource.register(source)
    rows = spark.read.format("sdf").options(**options).load()
    return rows.select(spark_partition_id().alias("number")).distinct().count()


@pytest.fixture
def spark(module_sc):
    return SparkSession(module_sc)


@pytest.fixture
def no_context(monkeypatch):
    """As in a process without a SparkContext, until the test says otherwise."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    return monkeypatch


@pytest.mark.parametrize(
    ("slots", "options", "expected"),
    [(None, {}, 4), (7, {}, 7), (7, {"numPartitions": 3}, 3), (None, {"numPartitions": 5}, 5)],
)
def test_the_option_of_a_read_comes_before_the_slots(spark, slots, options, expected):
    """Then those that were given, then those of Spark."""
    assert partitions(spark, data_source(CountFn(), COUNTED, elements=WORK, slots=slots), **options) == expected


def test_a_source_that_is_made_before_spark_has_the_slots_of_spark(spark, no_context):
    """They are counted when it is registered."""
    source = data_source(CountFn(), COUNTED, elements=WORK)
    no_context.undo()
    assert partitions(spark, source) == 4


def test_without_a_context_the_number_is_fixed(no_context):
    """Whatever cores this process has."""
    no_context.setattr(os, "cpu_count", lambda: 5)
    assert cloudpickle.loads(cloudpickle.dumps(Slots(None))).number() == UNKNOWN_SLOTS
    assert cloudpickle.loads(cloudpickle.dumps(Slots(6))).number() == 6


def test_a_number_that_was_found_stays(module_sc, no_context):
    """Spark sends the class on, to processes that have no context."""
    no_context.undo()
    sent = cloudpickle.dumps(Slots(None))
    no_context.setattr(SparkContext, "_active_spark_context", None)
    assert cloudpickle.loads(cloudpickle.dumps(cloudpickle.loads(sent))).number() == 4


CLIENT = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id
from support.fns import CountFn
from sdf.spark.source import data_source

source = data_source(CountFn(), "name string, i long", elements=[("a", 70_000)])
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.dataSource.register(source)
rows = spark.read.format("sdf").load()
print(rows.count(), rows.select(spark_partition_id().alias("number")).distinct().count())
"""


@pytest.mark.slow("test_without_a_context_the_number_is_fixed")
def test_a_client_of_spark_connect_gets_the_fixed_number(connect_server):
    """Where nothing tells how many slots the server has."""
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, connect_server.url],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert client.stdout.split() == ["70000", str(UNKNOWN_SLOTS)]


@pytest.mark.parametrize(
    ("slots", "error", "text"),
    [
        (0, InvalidValueError, r"slots must be >= 1 \(got 0\)"),
        ("4", InvalidTypeError, r"slots must be an integer, or None \(got '4'\)"),
        (True, InvalidTypeError, r"slots must be an integer, or None \(got True\)"),
    ],
)
def test_slots_that_make_no_sense(slots, error, text):
    """Named at once."""
    with pytest.raises(error, match=text):
        data_source(CountFn(), COUNTED, slots=slots)
