"""How close is a run to the ideal makespan, with one element that has 90 % of the work, and without skew?

Every number is a ratio of times taken in turn within this run, on the same work units: fixed amounts of computing, not
of time. The ideal is the same units dealt out evenly by hand, as many to each core, in a plain mapPartitions.

    python benchmarks/skew.py [--seconds 22] [--rounds 2] [--cores 2]
"""

import argparse
import hashlib
import os
import platform
import statistics
import sys
import time

from pyspark import SparkConf, SparkContext

from sdf import DoFn, OffsetRange, run_sdf

BLOCK_SECONDS = 0.02
ELEMENTS = 100


def burn(steps):
    """Compute for a while; the same number of steps is the same work.

    In C, so that the time does not depend on what Python's allocator did before: a loop over Python integers is 5 %
    slower here as soon as its results are kept in a list, with or without sdf.
    """
    return hashlib.pbkdf2_hmac("sha256", b"block", b"salt", steps)[0]


class BurnFn(DoFn):
    """Element: (number, blocks). Position: a block. Output: one record per block."""

    def __init__(self, steps):
        self.steps = steps

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for block in range(*tracker.current_restriction()):
            if not tracker.try_claim(block):
                return
            yield burn(self.steps)


def steps_per_block(sc, cores):
    """Return how many steps take BLOCK_SECONDS while all cores compute."""
    steps = 50_000

    def timed(_):
        began = time.perf_counter()
        burn(steps)
        return time.perf_counter() - began

    seconds = sc.parallelize(range(8 * cores), cores).map(timed).collect()
    return int(steps * BLOCK_SECONDS / statistics.median(seconds))


def timed(action, blocks):
    began = time.perf_counter()
    assert action() == blocks
    return time.perf_counter() - began


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=22.0, help="of work per core")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--cores", type=int, default=2)
    options = options.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(f"local[{options.cores}]").setAppName("skew")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    cores = options.cores
    steps = steps_per_block(sc, cores)
    blocks = round(options.seconds * cores / BLOCK_SECONDS)
    small = max(1, blocks // 10 // (ELEMENTS - 1))
    big = blocks - small * (ELEMENTS - 1)
    skewed = [(0, big), *((number, small) for number in range(1, ELEMENTS))]
    even = [(number, blocks // ELEMENTS) for number in range(ELEMENTS)]
    even_blocks = ELEMENTS * (blocks // ELEMENTS)

    def plain(elements):
        return sc.parallelize(elements, 16 * cores).flatMap(lambda element: (burn(steps) for _ in range(element[1])))

    def dealt_out(count):
        return sc.parallelize(range(count), cores).mapPartitions(lambda numbers: (burn(steps) for _ in numbers))

    def staged(elements):
        result = run_sdf(sc.parallelize(elements), BurnFn(steps))
        count = result.count()
        result.unpersist()
        return count

    runs = {
        "ideal: dealt out evenly by hand": lambda: timed(lambda: dealt_out(blocks).count(), blocks),
        "skewed, plain flatMap": lambda: timed(lambda: plain(skewed).count(), blocks),
        "skewed, run_sdf": lambda: timed(lambda: staged(skewed), blocks),
        "even, mapPartitions": lambda: timed(lambda: dealt_out(even_blocks).count(), even_blocks),
        "even, run_sdf": lambda: timed(lambda: staged(even), even_blocks),
    }
    dealt_out(10 * cores).count(), staged([(0, 10), (1, 10)])  # warm up workers and class loading
    seconds = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            seconds[name].append(run())
    ideal = statistics.median(seconds["ideal: dealt out evenly by hand"])
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, Spark {sc.version}")
    print(f"{cores} slots, {blocks} blocks of {BLOCK_SECONDS * 1000:.0f} ms, {options.rounds} rounds in turn")
    print(f"{'':34}{'median s':>9}{'min':>8}{'max':>8}{'of ideal':>10}")
    for name, taken in seconds.items():
        median = statistics.median(taken)
        base = ideal if not name.startswith("even") else statistics.median(seconds["even, mapPartitions"])
        print(f"{name:34}{median:9.2f}{min(taken):8.2f}{max(taken):8.2f}{median / base:10.3f}")
    sc.stop()


if __name__ == "__main__":
    main()
