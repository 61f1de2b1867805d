"""What does a stream cost: how many batches a second, how many records, how late is a line, and does memory stay flat?

The usual run is smaller. The run of the claims is

    python benchmarks/streams.py --batches 2000 --megabytes 300 --seconds 60
"""

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from harness import Bench, resident_megabytes

from sdf import UNBOUNDED, DoFn, OffsetRange, Pace, Until, stream_sdf
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


def heap_megabytes(sc):
    """Return how much of the JVM's heap is in use once it has been cleaned up."""
    sc._jvm.System.gc()
    runtime = sc._jvm.Runtime.getRuntime()
    return (runtime.totalMemory() - runtime.freeMemory()) / 1e6


def ticks(bench, sc, folder, batches):
    """Run batches that do next to nothing, in quarters: how many a second, and the memory of the driver on the way."""
    table = bench.table(
        "batches that do next to nothing; the driver's memory after them",
        {"batches": "{}", "a second": "{:.1f}", "Python MB": "{:.0f}", "heap of the JVM MB": "{:.0f}"},
    )
    for every, name, number in ((10**9, "without records", batches // 4), (1, "of one record", batches)):
        memory = []
        for quarter in range(4):
            part = number * (quarter + 1) // 4 - number * quarter // 4
            began = time.perf_counter()
            stream_sdf(
                sc.parallelize([0], 1),
                TickFn(every),
                checkpoint=Path(folder, f"ticks-{every}"),
                foreach_batch=lambda batch: batch.rdd.count(),
                pace=Pace(batch_seconds=1e-6),
                until=Until(max_batches=part),
            )
            seconds = time.perf_counter() - began
            memory.append((resident_megabytes(), heap_megabytes(sc)))
            table.row(f"{part} {name}, quarter {quarter + 1}", part / seconds, *memory[-1])
    for place, what in enumerate(("Python's memory", "the JVM's heap")):
        bench.claim(
            f"{what} after the last quarter of {batches:,} batches, over the first",
            memory[-1][place] / memory[0][place],
            at_most=1.1,
        )


def follow(sc, folder, program, argument, on_records):
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
            pace=Pace(batch_seconds=1.0),
            until=Until(stop=stop),
        )
        return summary, time.perf_counter() - began


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--batches", 400, quick=16, above=15)
    bench.option("--megabytes", 100, quick=1, help="by which the file grows")
    bench.option("--seconds", 20.0, quick=1.0, help="of the measurement of latency")
    given = bench.begin()
    sc = bench.spark(2)
    with tempfile.TemporaryDirectory() as folder:
        growing = bench.table(
            "following a file that grows by lines of 100 bytes",
            {"lines": "{:,}", "batches": "{}", "s": "{:.1f}", "lines a second": "{:,.0f}"},
        )
        late = bench.table(
            "from append to sink at batches of 1 s",
            {"lines": "{:,}", "median s": "{:.2f}", "99th percentile s": "{:.2f}"},
        )
        for _ in range(given.rounds):
            summary, seconds = follow(sc, folder, WRITE_FAST, given.megabytes, lambda rdd: rdd.count())
            growing.row(summary.records, summary.batches, seconds, summary.records / seconds)
        for _ in range(given.rounds):
            delays = []

            def note(rdd, delays=delays):
                lines = rdd.collect()
                now = time.time_ns()
                delays.extend((now - int(line)) / 1e9 for line in lines)
                return len(lines)

            follow(sc, folder, WRITE_STEADILY, given.seconds, note)
            percentiles = statistics.quantiles(delays, n=100)
            late.row(len(delays), percentiles[49], percentiles[98])
        for number in range(given.rounds):
            ticks(bench, sc, Path(folder, str(number)), given.batches)
    bench.end()


if __name__ == "__main__":
    main()
