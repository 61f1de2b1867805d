"""Streams of real sources that grow: Kafka topics, a table; stopped and gone on with; and a look that is asked for."""

import gzip
import sqlite3
import threading
import time

import pytest
from support.brokers import Brokers
from support.streaming import grouped

from sdf import Pace, Until, stream_sdf
from sdf.errors import ReadError
from sdf.io import TailKafka, TailLines, TailTable, WatchFiles, WatchTopics

NEVER = 3600.0


class Sink:
    """Keeps the records of each batch under its number."""

    def __init__(self):
        self.batches, self.came = {}, threading.Event()

    def __call__(self, batch):
        records = batch.rdd.collect()
        assert self.batches.setdefault(batch.id, records) == records
        self.came.set()

    def records(self):
        return [record for _, records in sorted(self.batches.items()) for record in records]


def test_a_topic_is_followed_with_a_partition_that_comes_later(sc, tmp_path):
    """Each message once, over three calls; the group hears how far the journal is."""
    kafka = pytest.importorskip("confluent_kafka")
    cluster = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    config = {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0, "group.id": "lag"}
    sink, sent = Sink(), []

    def send(count, partitions):
        for _ in range(count):
            for partition in partitions:
                sent.append((partition, b"%d" % len(sent)))
                cluster.produce("topic", sent[-1][1], partition=partition)
        assert cluster.flush(10) == 0

    def run():
        stream_sdf(
            sc.parallelize(["topic"], 1),
            [WatchSomeTopics(config, interval_seconds=0), TailKafka(config, poll_seconds=0.05)],
            checkpoint=tmp_path / "journal",
            foreach_batch=sink,
            pace=Pace(batch_seconds=0.2),
            until=Until(idle=True),
        )
        return sorted((record.partition, record.value) for record in sink.records())

    class WatchSomeTopics(WatchTopics):
        """Sees fewer partitions than there are, as before they were added: these brokers cannot add any."""

        there = 2

        def _partitions(self, consumer, topic, **options):
            return super()._partitions(consumer, topic, **options)[: self.there]

    cluster.list_topics("topic", timeout=10)
    send(30, [0, 1])
    assert run() == sorted(sent)
    send(20, [0, 1, 2])
    WatchSomeTopics.there = 3
    assert run() == sorted(sent)
    send(10, [0])
    assert run() == sorted(sent)
    asking = kafka.Consumer(config)
    told = asking.committed([kafka.TopicPartition("topic", number) for number in range(3)], timeout=10)
    asking.close()
    assert [one.offset for one in told] == [60, 50, 20]


def test_brokers_that_are_away_do_not_end_a_stream(sc, tmp_path):
    """It looks for them again and again, and goes on where it was."""
    kafka = pytest.importorskip("confluent_kafka")
    brokers, sink, stop = Brokers(), Sink(), threading.Event()
    gone, looks = tmp_path / "gone", tmp_path / "looks"
    looks.mkdir()

    class HastyTail(TailKafka):
        """Waits long for an answer only while there are brokers; counts the looks that got none."""

        def process(self, element, tracker):
            self.timeout_seconds = 0.5 if gone.exists() else 30.0
            yield from super().process(element, tracker)

        def _look_later(self, at, tracker, error):
            (looks / str(at.looks)).touch()
            super()._look_later(at, tracker, error)

    config = {"bootstrap.servers": brokers.servers, "log_level": 0}
    producer = kafka.Producer(config)

    def send(value):
        producer.produce("topic", value, partition=0)
        assert producer.flush(60) == 0

    def await_values(*values):
        while [record.value for record in sink.records()] != list(values):
            assert sink.came.wait(120)
            sink.came.clear()

    send(b"1")
    run = threading.Thread(
        target=stream_sdf,
        args=(
            sc.parallelize(["topic"], 1),
            [
                WatchTopics(config, interval_seconds=0.2, timeout_seconds=3),
                HastyTail(config, poll_seconds=0.1),
            ],
        ),
        kwargs=grouped(checkpoint=tmp_path / "journal", foreach_batch=sink, batch_seconds=0.2, stop=stop),
    )
    run.start()
    await_values(b"1")
    gone.touch()
    brokers.go()
    while not (looks / "2").exists():
        assert run.is_alive()
        time.sleep(0.05)
    gone.unlink()
    brokers.come()
    send(b"2")
    await_values(b"1", b"2")
    stop.set()
    run.join(60)
    brokers.end()


def test_a_table_is_followed_by_a_growing_key(sc, tmp_path):
    """Each row once, over several calls."""
    pytest.importorskip("sqlalchemy")
    path, sink = tmp_path / "a.db", Sink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT)")
    for upto in (0, 500, 500, 1700):
        known = len(sink.records())
        connection.executemany("INSERT INTO rows VALUES (?, ?)", [(n * 3, f"row {n}") for n in range(known, upto)])
        connection.commit()
        stream_sdf(
            sc.parallelize(["rows"], 1),
            TailTable(f"sqlite:///{path}", key="id", poll_seconds=0.05),
            checkpoint=tmp_path / "journal",
            foreach_batch=sink,
            pace=Pace(batch_seconds=0.1),
            until=Until(idle=True),
        )
        assert sink.records() == [{"id": n * 3, "name": f"row {n}"} for n in range(upto)]
    connection.close()


def test_a_scan_can_be_asked_for(sc, tmp_path):
    """Without it the next would be an hour later; the event is cleared, so that it can be set again."""
    logs, sink = tmp_path / "logs", Sink()
    logs.mkdir()
    stop, wake = threading.Event(), threading.Event()
    run = threading.Thread(
        target=stream_sdf,
        args=(sc.parallelize([str(logs)], 1), [WatchFiles(interval_seconds=NEVER), TailLines(poll_seconds=NEVER)]),
        kwargs=grouped(checkpoint=tmp_path / "journal", foreach_batch=sink, batch_seconds=0.1, stop=stop, wake=wake),
    )
    (logs / "0").write_text("line 0\n")
    run.start()
    for number in range(2):
        assert sink.came.wait(60)
        assert sink.records() == [f"line {line}" for line in range(number + 1)]
        time.sleep(0.3)  # nothing is looked at meanwhile
        sink.came.clear()
        (logs / str(number + 1)).write_text(f"line {number + 1}\n")
        assert not sink.came.wait(0.7)
        wake.set()
    assert sink.came.wait(60)
    assert not wake.is_set()
    stop.set()
    run.join(60)
    assert not run.is_alive()
    assert sink.records() == [f"line {line}" for line in range(3)]


def test_compressed_files_in_a_watched_directory(sc, tmp_path):
    """The one that was followed is known; what was never followed is read once; and other options count on resume."""
    logs, sink = tmp_path / "logs", Sink()
    logs.mkdir()

    def run(**options):
        stream_sdf(
            sc.parallelize([str(logs)], 1),
            [WatchFiles(interval_seconds=0.2, modified="ignore", **options), TailLines(poll_seconds=0.1)],
            checkpoint=tmp_path / "journal",
            foreach_batch=sink,
            pace=Pace(batch_seconds=0.1),
            until=Until(idle=True),
        )
        return sink.records()

    (logs / "app.log").write_text("1\n")
    (logs / "old.log.gz").write_bytes(gzip.compress(b"0\n"))
    assert sorted(run()) == ["0", "1"]
    (logs / "app.log").unlink()
    (logs / "app.log.1.gz").write_bytes(gzip.compress(b"1\n2\n"))
    (logs / "bad.gz").write_bytes(b"no gzip")
    assert sorted(run()) == ["0", "1", "2"]
    (logs / "app.log").write_text("3\n")
    (logs / "other.log").write_text("4\n")
    assert sorted(run(regex=r"(?!other).*")) == ["0", "1", "2", "3"]
    assert sorted(run()) == ["0", "1", "2", "3", "4"]


def test_a_pattern_may_change_when_a_stream_resumes(sc, tmp_path):
    """What was seen was seen; elements that came or went are left as they were."""
    logs, sink = tmp_path / "logs", Sink()
    logs.mkdir()

    def run(*patterns):
        stream_sdf(
            sc.parallelize([str(logs / pattern) for pattern in patterns], 1),
            [WatchFiles(interval_seconds=0.2, modified="ignore"), TailLines(poll_seconds=0.1)],
            checkpoint=tmp_path / "journal",
            foreach_batch=sink,
            pace=Pace(batch_seconds=0.1),
            until=Until(idle=True),
        )
        return sorted(sink.records())

    def write(*names):
        for name in names:
            (logs / name).write_text(f"{name}\n")

    write("a.log", "a.txt")
    assert run("*") == ["a.log", "a.txt"]
    write("b.log", "b.txt")
    assert run("*.log") == ["a.log", "a.txt", "b.log"]
    write("c.log", "c.txt")
    assert run("*.log", "*.txt") == ["a.log", "a.txt", "b.log", "c.log"]


def test_a_byte_that_is_no_text_can_be_read_all_the_same(sc, tmp_path):
    """The stream goes on as the message says: with another option, and without losing what it has read."""
    logs, sink = tmp_path / "logs", Sink()
    logs.mkdir()
    (logs / "good").write_bytes(b"1\n")
    (logs / "bad").write_bytes(b"2\n\xff\n3\n")

    def run(**options):
        stream_sdf(
            sc.parallelize([str(logs)], 1),
            [WatchFiles(interval_seconds=0.2, modified="ignore"), TailLines(poll_seconds=0.1, **options)],
            checkpoint=tmp_path / "journal",
            foreach_batch=sink,
            pace=Pace(batch_seconds=0.1),
            until=Until(idle=True),
        )
        return sorted(sink.records())

    for _ in range(2):
        with pytest.raises(ReadError, match="To read it all the same pass errors='replace'"):
            run()
    assert run(errors="replace") == ["1", "2", "3", "\ufffd"]


@pytest.mark.parametrize("by", ["path", "watch"])
def test_a_drain_gives_a_last_line_that_has_no_end(sc, tmp_path, by):
    """Also if the stream has looked at it before, and found nothing new."""
    (tmp_path / "in").mkdir()
    path, sink = tmp_path / "in" / "a.log", Sink()
    path.write_text("one\nlast")
    chain = [TailLines(poll_seconds=0.05)]
    if by == "watch":
        chain.insert(0, WatchFiles(interval_seconds=0.1, modified="ignore"))

    def run(**options):
        return stream_sdf(
            sc.parallelize([str(path if by == "path" else path.parent)]),
            chain,
            checkpoint=tmp_path / "journal",
            foreach_batch=sink,
            **grouped(batch_seconds=0.1, idle=True, **options),
        )

    assert not run().done
    assert sink.records() == ["one"]
    assert run(drain=True).done
    assert sink.records() == ["one", "last"]
