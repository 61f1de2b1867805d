"""How many records a second go through a lane? Lines of one big file, and a DoFn that only counts.

Beside it in the same run: sc.textFile on the same file; plain flatMap over the same loop with the same tracker; and, if
BEAM_PYTHON names a Python that has apache_beam, the same DoFn on Beam's local runner. Ratios are of medians.

    python benchmarks/throughput.py [--gigabytes 1] [--count 5000000] [--rounds 3]
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark import SparkConf, SparkContext

from sdf import DoFn, LiveRunner, OffsetRange, OffsetRangeTracker, StagedRunner, run_sdf
from sdf.io import ReadLines

BEAM = """
import sys, time
import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider

class Provider(RestrictionProvider):
    def initial_restriction(self, element):
        return OffsetRange(0, element[1])
    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)
    def restriction_size(self, element, restriction):
        return restriction.size()

class CountFn(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Provider())):
        restriction = tracker.current_restriction()
        for i in range(restriction.start, restriction.stop):
            if not tracker.try_claim(i):
                return
            yield element[0], i

count = int(sys.argv[1])
began = time.perf_counter()
with beam.Pipeline(runner="DirectRunner") as pipeline:
    (pipeline | beam.Create([("a", count), ("b", count)]) | beam.ParDo(CountFn())
     | beam.combiners.Count.Globally() | beam.Map(lambda n: print("counted", n)))
print("seconds", time.perf_counter() - began)
"""


class CountFn(DoFn):
    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield element[0], i


def count_plainly(element):
    """The same loop with the same tracker, for flatMap."""
    tracker = OffsetRangeTracker((0, element[1]))
    for i in range(element[1]):
        if not tracker.try_claim(i):
            return
        yield element[0], i


def write_lines(path, size):
    """Write lines of 0 to 199 characters, about ``size`` bytes."""
    lines = b"".join(b"x" * (number * 7919 % 200) + b"\n" for number in range(10_000))
    with open(path, "wb") as file:
        for _ in range(-(-size // len(lines))):
            file.write(lines)


def in_turn(runs, rounds):
    """Run each in turn, ``rounds`` times; check that all give the same; return the median seconds of each."""
    seconds, results = {name: [] for name in runs}, set()
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            results.add(run())
            seconds[name].append(time.perf_counter() - began)
    assert len(results) == 1, results
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def on_beam(count):
    """Return the seconds that Beam's local runner takes, None without Beam."""
    python = os.environ.get("BEAM_PYTHON")
    if not python:
        return None
    done = subprocess.run([python, "-c", BEAM, str(count)], capture_output=True, text=True, check=True)
    assert f"counted {2 * count}" in done.stdout, done.stderr
    return float(done.stdout.split()[-1])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--gigabytes", type=float, default=1.0)
    options.add_argument("--count", type=int, default=5_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--cores", type=int, default=2)
    options = options.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(f"local[{options.cores}]").setAppName("throughput")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, Spark {sc.version}")

    def sdf(elements, fn, runner):
        return run_sdf(sc.parallelize(elements), fn, runner=runner)

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "lines.txt")
        write_lines(path, int(options.gigabytes * 1e9))
        size = os.path.getsize(path)
        lines = {
            "sc.textFile": lambda: sc.textFile(path).map(len).sum(),
            "LiveRunner": lambda: sdf([path], ReadLines(), LiveRunner()).map(len).sum(),
        }
        in_turn(lines, 1)
        taken = in_turn(lines, options.rounds)
        print(f"lines of a file of {size / 1e9:.2f} GB, their lengths summed, median of {options.rounds}")
        for name, seconds in taken.items():
            ratio = taken["sc.textFile"] / seconds
            print(f"  {name:28}{seconds:8.2f} s{size / 1e6 / seconds:8.0f} MB/s{ratio:8.2f} x", flush=True)

    elements = [("a", options.count), ("b", options.count)]

    def staged():
        result = sdf(elements, CountFn(), StagedRunner())
        count = result.count()
        result.unpersist()
        return count

    counts = {
        "plain flatMap": lambda: sc.parallelize(elements, 2).flatMap(count_plainly).count(),
        "LiveRunner": lambda: sdf(elements, CountFn(), LiveRunner()).count(),
        "StagedRunner": staged,
    }
    in_turn(counts, 1)
    taken = in_turn(counts, options.rounds)
    beam = on_beam(options.count)
    if beam is not None:
        taken["Beam's local runner"] = beam
    print(f"CountFn, 2 x {options.count:,} outputs, counted")
    for name, seconds in taken.items():
        ratio = taken["plain flatMap"] / seconds
        print(f"  {name:28}{seconds:8.2f} s{2 * options.count / seconds / 1e6:8.2f} M/s{ratio:8.2f} x")
    if beam is not None:
        print(f"LiveRunner is {beam / taken['LiveRunner']:.1f} times as fast as Beam's local runner")
    sc.stop()


if __name__ == "__main__":
    main()
