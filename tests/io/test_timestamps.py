"""Connectors with timestamps: the watermark of what they follow is the highest timestamp so far."""

import math
import sqlite3

import pytest

from sdf.errors import InvalidTypeError, ProcessError
from sdf.execution.invoker import Invoker
from sdf.io import KafkaRecord, TailKafka, TailLines, TailTable, TopicPartition


def time_of(line):
    return int(line.split()[0])


def read(fn, element, restriction=None, watermark=None):
    """Return what there is, the watermark of what is left, and that."""
    attempt = Invoker(fn, element, restriction or fn.get_initial_restriction(element), watermark=watermark)
    found = list(attempt.run())
    (left,) = attempt.residuals
    return found, left.watermark, left.restriction


def test_lines_move_the_watermark_of_their_file(tmp_path):
    """It never goes back, and goes on where the part before has left it."""
    path, fn = tmp_path / "a.log", TailLines(timestamp=time_of)
    path.write_text("5 a\n9 b\n7 late\n")
    found, watermark, left = read(fn, str(path))
    assert (found, watermark) == (["5 a", "9 b", "7 late"], 9)
    path.write_text(path.read_text() + "8 late too\n")
    assert read(fn, str(path), left, watermark)[:2] == (["8 late too"], 9)


def test_a_file_without_lines_has_seen_no_time(tmp_path):
    """So it holds the watermark of the stream, until it is taken for idle."""
    (tmp_path / "a.log").write_text("")
    assert read(TailLines(timestamp=time_of), str(tmp_path / "a.log"))[1] == -math.inf


def test_without_a_function_there_is_no_watermark(tmp_path):
    """As before."""
    (tmp_path / "a.log").write_text("5 a\n")
    assert read(TailLines(), str(tmp_path / "a.log"))[1] is None


@pytest.mark.parametrize("time_of", [str, lambda line: math.nan, lambda line: None])
def test_a_time_that_is_no_number_is_named(tmp_path, time_of):
    """NaN would hold the watermark for ever, since no time is above it."""
    (tmp_path / "a.log").write_text("5 a\n")
    with pytest.raises(InvalidTypeError, match=r"timestamp= must return a number, .* for the record '5 a'"):
        read(TailLines(timestamp=time_of), str(tmp_path / "a.log"))


def test_rows_move_the_watermark_of_their_table(tmp_path):
    """By a column, for example."""
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, at INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, 30), (2, 20)])
    fn = TailTable(f"sqlite:///{tmp_path}/t.db", key="k", timestamp=lambda row: row["at"])
    fn.setup()
    assert read(fn, "t")[1] == 30


def test_messages_move_the_watermark_of_their_partition():
    """By the time that the broker or the producer gave them."""
    kafka = pytest.importorskip("confluent_kafka")
    brokers = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    servers = ",".join(f"{one.host}:{one.port}" for one in brokers.list_topics(timeout=30).brokers.values())
    for at in (3000, 8000, 5000):
        brokers.produce("t", "x", partition=0, timestamp=at)
    brokers.flush(30)
    fn = TailKafka({"bootstrap.servers": servers}, timestamp=lambda record: record.timestamp_ms / 1000)
    fn.setup()
    found, watermark, _ = read(fn, TopicPartition("t", 0))
    fn.teardown()
    assert (len(found), type(found[0]), watermark) == (3, KafkaRecord, 8.0)


def test_a_time_that_cannot_be_found_is_an_error_of_the_record(tmp_path):
    """With DoFn and element."""
    (tmp_path / "a.log").write_text("no time\n")
    with pytest.raises(ProcessError, match=r"TailLines\.process\(\) .*a\.log.*invalid literal for int"):
        read(TailLines(timestamp=time_of), str(tmp_path / "a.log"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TailLines(timestamp="ts"),
        lambda: TailTable("sqlite://", key="k", timestamp="ts"),
        lambda: TailKafka({"bootstrap.servers": "x"}, timestamp="ts"),
    ],
)
def test_what_is_no_function_is_named(make):
    """Before anything is read."""
    with pytest.raises(InvalidTypeError, match=r"timestamp must be a function from a record.*got 'ts'"):
        make()
