"""The door to Spark: each name of Spark's internals that sdf uses is there, and does what it is used for."""

import importlib
import os
import pickle
import re
import socket
import struct
import sys

import pyspark
import pytest
from pyspark import RDD, TaskContext
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from sdf.errors import InvalidValueError, MissingExtraError
from sdf.spark.as_tasks_end import AsTasksEnd
from sdf.spark.door import (
    arrow,
    broadcasts,
    context,
    errors,
    executors,
    hadoop,
    jobs,
    pickling,
    rdds,
    versions,
)
from sdf.storage import namenode

SCHEMA = StructType([StructField("n", LongType()), StructField("at", TimestampType())])


class Told(rdds.Hooked, rdds.PipelinedRDD):
    title = "named here"
    allowed = True

    def job_begins(self):
        if not self.allowed:
            raise LookupError("not now")


def doubled(_, records):
    return (2 * one for one in records)


def test_the_context_and_its_jvm(sc):
    """The JVM's context is this one."""
    assert context.in_jvm(sc).version() == pyspark.__version__
    assert not context.is_stopped(sc)
    assert not context.has_ended(sc)
    assert context.active_context() is sc
    assert os.path.isdir(context.folder_of(sc))
    assert int(context.java_of(sc).split(".")[0]) >= 17
    context.collect_garbage()


def test_a_task_takes_the_values_of_another(sc):
    """And answers with them."""

    def both(_):
        before = context.task_values()["_partitionId"]
        context.use_task_values({"_partitionId": 17})
        return before, TaskContext.get().partitionId()

    assert sc.parallelize([0, 0], 2).map(both).collect() == [(0, 17), (1, 17)]
    assert context.task_values() is None


def test_hadoops_client_keeps_files(sc, tmp_path, monkeypatch):
    """As a storage does; here on a disk, where it would not fence two drivers."""
    with pytest.raises(
        InvalidValueError, match=r"job cannot be there \(got .*\): of two drivers .* not known of org\."
    ):
        hadoop.hadoop_files(f"file://{tmp_path}", "job")
    local = re.compile("org.apache.hadoop.*LocalFileSystem")
    monkeypatch.setattr(hadoop, "_classes", lambda files: set())
    files = hadoop.hadoop_files(f"file://{tmp_path}", "job")
    assert local.fullmatch(files._files.getClass().getName())
    files.create("b/1", b"one")
    files.create("b/1", b"one")  # as after a reply that was lost
    with pytest.raises(FileExistsError, match=r"b/1: FileAlreadyExistsException: "):
        files.create("b/1", b"two")
    files.replace("b/2.tmp-1", bytes(range(256)))
    assert (files.names("b"), files.half_written("b"), files.names("none")) == (["b/1"], ["b/2.tmp-1"], [])
    assert (files.read("b/2.tmp-1"), files.size("b/1"), files.size("b")) == (bytes(range(256)), 3, None)
    files.remove("b/1")
    with pytest.raises(FileNotFoundError):
        files.read("b/1")
    assert {path.name for path in (tmp_path / "b").iterdir() if path.suffix != ".crc"} == {"2.tmp-1"}


def test_hadoops_client_asks_again_after_a_connection_was_reset(sc, tmp_path, monkeypatch):
    """As a NameNode that is killed resets it."""
    monkeypatch.setattr(hadoop, "_classes", lambda files: set())
    monkeypatch.setattr(namenode, "_PAUSE_SECONDS", (0, 0))
    files = hadoop.hadoop_files(f"file://{tmp_path}", "job")

    def ask():
        client = sc._jvm.java.net.Socket("127.0.0.1", server.getsockname()[1])
        connection, _ = server.accept()
        with connection:
            if next(resets):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return client.getInputStream().read()

    with socket.create_server(("127.0.0.1", 0)) as server:
        resets = iter([True, False])
        assert files._asked("x", ask) == -1
        assert next(resets, None) is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nosuch://x/y", r"Hadoop's client says UnsupportedFileSystemException: No FileSystem for scheme"),
        ("s3a://bucket/y", r"Hadoop's client says .*S3AFileSystem not found. .*hadoop-aws for s3a://"),
        ("hdfs://no.such.host.invalid:1/y", r"Hadoop's client says \w+: .*no\.such\.host"),
    ],
)
def test_hadoops_client_says_why_a_place_is_none(sc, url, said):
    """At once, with the place and who asked for it."""
    with pytest.raises(InvalidValueError, match=rf"job cannot be there \(got '{url}'\): {said}"):
        hadoop.hadoop_files(url, "job")


def test_hadoops_client_needs_a_jvm(monkeypatch):
    """A Connect client has none; nor has a program before its SparkContext."""
    monkeypatch.setattr(hadoop, "active_context", lambda: None)
    with pytest.raises(InvalidValueError, match=r"^job cannot be there .* in the JVM of a SparkContext, and"):
        hadoop.hadoop_files("hdfs:///x", "job")


def test_a_broadcast_is_there_until_it_is_destroyed(sc):
    """Its file is the driver's; the JVM refers to its object."""
    sent = sc.broadcast([1, 2])
    is_there = broadcasts.presence_in_jvm(sc, sent)
    assert os.path.getsize(broadcasts.file_of(sent)) > 0
    assert is_there()
    broadcasts.destroy(sc, sent)
    with pytest.raises(errors.JavaError):
        sent._jbroadcast.value()


def test_slots_of_executors(sc):
    """On a local master, the driver's."""
    assert executors.slots_of_executors(sc) == sc.defaultParallelism


def test_no_job_waits(sc):
    """As none runs."""
    assert jobs.is_waiting(sc, "no such tag") is False


def test_an_rdd_is_told_of_jobs(sc):
    """It has its title in the JVM, and can refuse."""
    rdd = Told(sc.parallelize([1, 2], 1), doubled)
    assert rdd.collect() == [2, 4]
    assert rdd.name() == "named here"
    assert rdd.map(lambda one: one + 1).collect() == [3, 5]
    rdd.allowed = False
    with pytest.raises(LookupError, match="not now"):
        rdd.collect()


def test_compute_stores_all_partitions(sc):
    """Of an RDD that is persisted: what comes next computes none."""
    computed = sc.accumulator(0)
    rdd = sc.parallelize([1, 2], 2).map(lambda one: computed.add(one)).persist()
    rdds.compute(rdd)
    assert computed.value == 3
    assert rdd.count() == 2
    assert computed.value == 3
    rdd.unpersist()


def test_a_forgotten_accumulator(sc):
    """PySpark's registry does not keep it."""
    values = sc.accumulator([], AsTasksEnd(None))
    before = len(pyspark.accumulators._accumulatorRegistry)
    rdds.forget(values)
    assert len(pyspark.accumulators._accumulatorRegistry) == before - 1


def loud(records):
    return pickle.dumps([f"{one}!" for one in records])


def test_a_serializer_with_a_function(sc):
    """Workers write with it, and it is equal to the context's own, so union() keeps batches as they are."""
    rdd: RDD = sc.parallelize(["a"], 1).map(str)
    ours = pickling.serializer_with(sc.serializer, loud)
    assert ours == sc.serializer
    rdds.use_serializer(rdd, ours)
    assert rdd.collect() == ["a!"]
    assert pickling.serializer_with("another one", loud) == "another one"


def test_types_of_arrow():
    """Times are of UTC."""
    pyarrow = pytest.importorskip("pyarrow")
    assert arrow.arrow_schema(SCHEMA).types == [pyarrow.int64(), pyarrow.timestamp("us", "UTC")]


def test_an_arrow_that_spark_does_not_take(monkeypatch):
    """Spark says which one it needs."""
    pyarrow = pytest.importorskip("pyarrow")
    assert arrow.arrow_hindrance() == ""
    monkeypatch.setattr(pyarrow, "__version__", "1.0")
    assert "1.0" in arrow.arrow_hindrance()


def test_the_java_of_a_connect_server(connect):
    """And what a function gives in each task there."""
    from sdf.spark.door.connect import java_of_server, texts_of_tasks

    assert int(java_of_server(connect).split(".")[0]) >= 17
    assert texts_of_tasks(connect, 3, lambda number: f"task {number}") == ["task 0", "task 1", "task 2"]


def test_data_sources():
    """The classes are Spark's own, and filters come with a planner of queries only."""
    data_sources = pytest.importorskip("sdf.spark.door.data_sources", exc_type=MissingExtraError)
    names = {name for name in data_sources.__all__ if name[0].isupper()}
    if not versions.has_spark("4.1"):
        assert data_sources.Filter.__module__ == data_sources.__name__
        names -= {"EqualNullSafe", "EqualTo", "Filter", "In", "StringStartsWith"}
        names -= {"GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"}
    assert {getattr(data_sources, name).__module__ for name in names} == {"pyspark.sql.datasource"}
    assert data_sources.hands_over_filters() is False
    assert data_sources.value_of(data_sources.InputPartition(3)) == 3
    assert data_sources.value_of(None) is None


@pytest.mark.parametrize(
    ("module", "lacks", "version", "said"),
    [
        ("data_sources", "pyspark.sql.datasource", "3.5.9", "for data sources in Python, needs Spark 4.0 or later"),
        ("data_streams", "pyspark.sql.streaming.datasource", "4.1.4", "readStream of a data source needs Spark 4.2"),
    ],
)
def test_interfaces_that_a_spark_lacks_are_told_at_their_import(monkeypatch, module, lacks, version, said):
    """With what works without."""
    monkeypatch.delitem(sys.modules, f"sdf.spark.door.{module}", raising=False)
    monkeypatch.setitem(sys.modules, lacks, None)
    package, _, name = lacks.rpartition(".")
    monkeypatch.delattr(importlib.import_module(package), name, raising=False)
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(MissingExtraError, match=rf"{said}.*got pyspark {version}\)\. .* without it"):
        importlib.import_module(f"sdf.spark.door.{module}")


@pytest.mark.parametrize("version", ["4.1.4", "3.5.9", "4.2.0.dev1"])
def test_what_a_spark_lacks_names_the_version(monkeypatch, version):
    """Not an ImportError of Spark's module."""
    monkeypatch.setattr(pyspark, "__version__", version)
    versions.need_spark("3.5", "this", "")
    if version.startswith("4.2"):
        versions.need_spark("4.2", "readStream", "")
        return
    with pytest.raises(
        MissingExtraError, match=rf"^readStream needs Spark 4.2 or later \(got pyspark {version}\)\. So."
    ):
        versions.need_spark("4.2", "readStream", "So.")


def test_texts_of_errors(sc):
    """The JVM's message, without its stack."""
    with pytest.raises(errors.FAILURES) as caught:
        sc.parallelize([1], 1).map(lambda one: one / 0).collect()
    assert "ZeroDivisionError" in errors.text_of(caught.value)
    assert isinstance(caught.value, (errors.JavaError, errors.SparkError))
