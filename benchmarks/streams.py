"""What does a stream cost: how many batches a second, how many records, how late is a line, and does memory stay flat?

python benchmarks/streams.py [--batches 2000] [--megabytes 300] [--seconds 60]
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from pyspark import SparkConf, SparkContext

from sdf import UNBOUNDED, DoFn, OffsetRange, stream_sdf
from sdf.io import TailLines

WRITE_FAST = """
import sys, time
line = b"x" * 99 + b"\\n"
with open(sys.argv[1], "ab", buffering=0) as file:
    for _ in range(int(sys.argv[2])):
        file.write(line * 10_000)
"""
WRITE_STEADILY = """
import sys, time
began = time.monotonic()
with open(sys.argv[1], "ab", buffering=0) as file:
    while time.monotonic() - began < float(sys.argv[2]):
        file.write(b"%d\\n" % time.time_ns())
        time.sleep(0.02)
"""


class TickFn(DoFn):
    """Claims one position in each batch, and gives a record at every ``every``-th of them."""

    def __init__(self, every):
        self.every = every

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNBOUNDED)

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        if tracker.try_claim(start) and start % self.every == 0:
            yield start
        if stop is UNBOUNDED:
            tracker.defer_remainder()


def resident_megabytes(pid):
    """Return how much memory a process has resident."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def heap_megabytes(sc):
    """Return how much of the JVM's heap is in use once it has been cleaned up."""
    sc._jvm.System.gc()
    runtime = sc._jvm.Runtime.getRuntime()
    return (runtime.totalMemory() - runtime.freeMemory()) / 1e6


def batches_per_second(sc, folder, batches):
    """Run batches that do next to nothing; print how many a second, and the memory of the driver on the way."""
    for every, name in ((10**9, "without records"), (1, "of one record")):
        stop_at, done = batches if every == 1 else batches // 4, 0
        checkpoint = Path(folder, f"ticks-{every}")
        while done < stop_at:
            part = min(stop_at - done, max(1, stop_at // 4))
            began = time.perf_counter()
            stream_sdf(
                sc.parallelize([0], 1),
                TickFn(every),
                checkpoint=checkpoint,
                foreach_batch=lambda batch: batch.rdd.count(),
                batch_seconds=1e-6,
                max_batches=part,
            )
            seconds = time.perf_counter() - began
            done += part
            print(
                f"batches {name}, {done - part + 1} to {done}: {part / seconds:.1f} a second; driver: Python "
                f"{resident_megabytes(os.getpid()):.0f} MB, heap of the JVM {heap_megabytes(sc):.0f} MB",
                flush=True,
            )


def follow(sc, folder, program, argument, batch_seconds, on_records):
    """Follow a file that a program writes, until the program and the stream have come to their ends."""
    path = Path(folder, "growing.txt")
    path.write_bytes(b"")
    stop, handled = threading.Event(), [0]

    def sink(batch):
        handled[0] += on_records(batch.rdd)

    def end_after(writer):
        writer.wait()
        lines = path.read_bytes().count(b"\n")
        while handled[0] < lines:
            time.sleep(0.05)
        stop.set()

    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        writer = subprocess.Popen([sys.executable, "-c", program, str(path), str(argument)])
        threading.Thread(target=end_after, args=(writer,), daemon=True).start()
        began = time.perf_counter()
        summary = stream_sdf(
            sc.parallelize([str(path)], 1),
            TailLines(poll_seconds=0.05),
            checkpoint=checkpoint,
            foreach_batch=sink,
            batch_seconds=batch_seconds,
            stop=stop,
        )
        return summary, time.perf_counter() - began


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--batches", type=int, default=2000)
    options.add_argument("--megabytes", type=int, default=300)
    options.add_argument("--seconds", type=float, default=60.0, help="of the measurement of latency")
    options = options.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster("local[2]").setAppName("streams")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, Spark {sc.version}")
    with tempfile.TemporaryDirectory() as folder:
        summary, seconds = follow(sc, folder, WRITE_FAST, options.megabytes, 1.0, lambda rdd: rdd.count())
        print(
            f"following a file that grows by {options.megabytes} MB: {summary.records:,} lines of 100 bytes in "
            f"{seconds:.1f} s and {summary.batches} batches, {summary.records / seconds:,.0f} a second",
            flush=True,
        )
        late = []

        def note(rdd):
            lines = rdd.collect()
            now = time.time_ns()
            late.extend((now - int(line)) / 1e9 for line in lines)
            return len(lines)

        follow(sc, folder, WRITE_STEADILY, options.seconds, 1.0, note)
        percentiles = statistics.quantiles(late, n=100)
        print(
            f"from append to sink at batches of 1 s: median {percentiles[49]:.2f} s, 99th percentile "
            f"{percentiles[98]:.2f} s, of {len(late):,} lines",
            flush=True,
        )
        batches_per_second(sc, folder, options.batches)
    sc.stop()


if __name__ == "__main__":
    main()
