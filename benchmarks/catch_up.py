"""How fast does a stream catch up, and does what is new elsewhere wait for it?

A backlog is read by the stream, and beside it by `run_sdf`, which knows its end. Both count the records.

The run of the claims is

    python benchmarks/catch_up.py --megabytes 2000 --rounds 3
"""

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

from harness import Bench

from sdf import UNBOUNDED, DoFn, LiveRunner, OffsetRange, Pace, StagedRunner, Until, run_sdf, stream_sdf
from sdf.io import ReadKafka, ReadLines, TailKafka, TailLines, TopicPartition

MESSAGES = 90_000  # a broker for tests keeps no more
MESSAGE_SECONDS = 0.0005  # that a program waits for each
POSITION_SECONDS = 0.01
BATCHES_SECONDS = (1.0, 5.0)
WRITE_STEADILY = """
import sys, time
while True:
    with open(sys.argv[1], "a") as file:
        file.write(f"{time.time_ns()}\\n")
    time.sleep(0.05)
"""


class WaitsFn(DoFn):
    """Element: how many positions are there. Each takes a while."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNBOUNDED)

    def split_backlog(self, element, restriction, parts, length):
        start = restriction.start
        step = length or max(1, -(-(element - start) // parts))
        cuts = range(start, min(element, start + step * parts), step)[1:]
        return [OffsetRange(*ends) for ends in pairwise((start, *cuts, UNBOUNDED))]

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for i in range(start, element if stop is UNBOUNDED else stop):
            if not tracker.try_claim(i):
                return
            time.sleep(POSITION_SECONDS)
            yield i
        if stop is UNBOUNDED:
            tracker.defer_remainder(0.05)


class SlowTailKafka(TailKafka):
    """Waits for each message, as a program does that asks another one about it."""

    def process(self, element, tracker):
        yield from waiting(super().process(element, tracker))


class SlowReadKafka(ReadKafka):
    """The same for a read that ends."""

    def process(self, element, tracker):
        yield from waiting(super().process(element, tracker))


def waiting(records):
    for record in records:
        time.sleep(MESSAGE_SECONDS)
        yield record.offset


def caught_up(sc, element, fn, batch_seconds, sink=lambda batch: batch.rdd.count()):
    """Return how many records a stream gave of an element, in how many batches, and seconds until the sink had them."""
    ended = []

    def timed(batch):
        sink(batch)
        ended.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as checkpoint:
        began = time.perf_counter()
        summary = stream_sdf(
            sc.parallelize([element], 1),
            fn,
            checkpoint=checkpoint,
            foreach_batch=timed,
            pace=Pace(batch_seconds=batch_seconds),
            until=Until(idle=True),
            progress=False,
        )
        return summary.records, summary.batches, ended[-1] - began


def beside(bench, sc, rounds, what, element, tail, read):
    """Catch up with an element, and read it with run_sdf; both in turn."""
    table = bench.table(
        f"{what}: a stream that catches up, beside a read that knows the end",
        {"way": "{}", "records": "{:,}", "batches": "{}", "s": "{:.2f}", "speed of StagedRunner": "{:.2f}"},
    )
    seconds = {}
    run_sdf(sc.parallelize([element], 1), read, progress=False).count()  # starts Python in each slot
    for _ in range(rounds):
        for name, runner in (("StagedRunner", StagedRunner()), ("LiveRunner", LiveRunner())):
            began = time.perf_counter()
            count = run_sdf(sc.parallelize([element], 1), read, runner=runner, progress=False).count()
            seconds.setdefault(name, []).append(time.perf_counter() - began)
            table.row(name, count, None, seconds[name][-1], seconds["StagedRunner"][-1] / seconds[name][-1])
        for batch_seconds in BATCHES_SECONDS:
            records, batches, took = caught_up(sc, element, tail, batch_seconds)
            assert records == count
            seconds.setdefault(batch_seconds, []).append(took)
            name = f"stream, batch_seconds={batch_seconds:g}"
            table.row(name, records, batches, took, seconds["StagedRunner"][-1] / took)
    bench.claim(
        f"{what}: speed of a stream that catches up at batch_seconds=5, over a read by run_sdf",
        statistics.median(seconds["StagedRunner"]) / statistics.median(seconds[5.0]),
        at_least=0.8,
    )


def told_apart(records):
    """Count the lines of the big file, and give the others."""
    count, others = 0, []
    for line in records:
        if len(line) < 30:
            others.append(line)
        else:
            count += 1
    yield count, others


def elsewhere(bench, sc, folder, big, batch_seconds, table):
    """Append lines to another file while a stream catches up with a big one: how late do they come?"""
    path, delays, lines, stop = Path(folder, "other.log"), [], [0], threading.Event()
    path.write_bytes(b"")

    def sink(batch):
        fresh = []
        for count, others in batch.rdd.mapPartitions(told_apart).collect():
            lines[0] += count
            fresh += others
        now = time.time_ns()
        delays.extend((now - int(line)) / 1e9 for line in fresh)
        if lines[0] >= total:
            stop.set()

    total = big.read_bytes().count(b"\n")
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = subprocess.Popen([sys.executable, "-c", WRITE_STEADILY, str(path)])
        try:
            stream_sdf(
                sc.parallelize([str(big), str(path)], 2),
                TailLines(poll_seconds=0.05),
                checkpoint=checkpoint,
                foreach_batch=sink,
                pace=Pace(batch_seconds=batch_seconds),
                until=Until(stop=stop),
                progress=False,
            )
        finally:
            writer.kill()
            writer.wait()
    percentiles = statistics.quantiles(delays, n=100)
    table.row(f"batch_seconds={batch_seconds:g}", len(delays), percentiles[49], percentiles[98])
    for name, value, times in (("median", percentiles[49], 2), ("99th percentile", percentiles[98], 3)):
        bench.claim(
            f"{name} of how late a line elsewhere is, in s, at batch_seconds={batch_seconds:g}",
            value,
            at_most=times * batch_seconds + 1,
        )


def slots(bench, sc, count, number, batch_seconds):
    """How much of the time of all slots is spent at work?"""
    table = bench.table(
        f"slots that wait, one backlog, batch_seconds={batch_seconds:g}",
        {"slots": "{}", "records": "{:,}", "batches": "{}", "s": "{:.2f}", "fewest busy": "{}", "busy share": "{:.2f}"},
    )
    positions = int(count * number * batch_seconds / POSITION_SECONDS)
    tasks = []

    def sink(batch):
        tasks.append(sum(batch.rdd.mapPartitions(lambda part: [any(True for _ in part)]).collect()))

    records, batches, took = caught_up(sc, positions, WaitsFn(), batch_seconds, sink)
    assert records == positions
    busy = positions * POSITION_SECONDS / (count * took)
    fewest = min(tasks[1:-1], default=0)  # the first one knows nothing yet, the last one has what is left
    table.row(count, records, batches, took, fewest, busy)
    bench.claim(
        f"fewest of {count} slots that a batch keeps busy, but for the first and the last", fewest, at_least=count
    )


def kafka():
    """Return a topic with a backlog, what keeps it alive, and its configuration."""
    import confluent_kafka

    cluster = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0, "linger.ms": 50})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    for number in range(MESSAGES):
        cluster.produce("topic", b"%d" % number, partition=1)
        if number % 1000 == 0:
            cluster.poll(0)
    assert cluster.flush(60) == 0
    return cluster, {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--megabytes", 500, quick=20, help="of the file")
    bench.option("--slots", 64, quick=8, help="that wait")
    bench.option("--batches", 6, quick=3, help="that the slots work")
    given = bench.begin()
    with tempfile.TemporaryDirectory() as folder:
        big = Path(folder, "big.log")
        with big.open("wb") as file:
            block = b"".join(b"%-98d|\n" % number for number in range(10_000))
            for _ in range(given.megabytes):
                file.write(block)
        sc = bench.spark(2)
        beside(
            bench,
            sc,
            given.rounds,
            f"a file of {given.megabytes} MB",
            str(big),
            TailLines(poll_seconds=0.05),
            ReadLines(),
        )
        late = bench.table(
            "lines appended elsewhere while a stream catches up",
            {"way": "{}", "lines": "{:,}", "median s": "{:.2f}", "99th percentile s": "{:.2f}"},
        )
        for batch_seconds in BATCHES_SECONDS:
            elsewhere(bench, sc, folder, big, batch_seconds, late)
        sc.stop()
    sc = bench.spark(8)
    cluster, config = kafka()
    tail, read = SlowTailKafka(config, poll_seconds=0.05), SlowReadKafka(config)
    beside(bench, sc, given.rounds, "a partition, messages that wait", TopicPartition("topic", 1), tail, read)
    del cluster
    sc.stop()
    slots(bench, bench.spark(given.slots), given.slots, given.batches, 5.0)
    bench.end()


if __name__ == "__main__":
    main()
