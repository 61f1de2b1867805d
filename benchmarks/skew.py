"""How close to the ideal makespan does a run come, for six kinds of work, beside what one would do without sdf?

The ideal is the same work units, dealt out evenly by hand, as many of each kind to each slot, in a plain mapPartitions.
Every number is a ratio to it, taken in turn within this run. On few slots that compute (``--kind cpu``, one slot per
core) or on more slots that wait (``--kind wait``).

    python benchmarks/skew.py --kind cpu --slots 2 --seconds 5 20
    python benchmarks/skew.py --kind wait --slots 8 --seconds 5 20 60 --skip flatMap
"""

import argparse
import hashlib
import itertools
import os
import platform
import statistics
import sys
import time

from pyspark import SparkConf, SparkContext

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_sdf

PLAIN, BY_HAND, STAGED, LIVE = "flatMap", "32 per slot by hand", "StagedRunner", "LiveRunner"


class Spend:
    """Spends seconds: computes in C, so that the time does not depend on what Python's allocator did, or sleeps."""

    def __init__(self, kind, steps_per_second):
        self.kind = kind
        self.steps_per_second = steps_per_second

    def __call__(self, seconds):
        if self.kind == "wait":
            time.sleep(seconds)
        else:
            hashlib.pbkdf2_hmac("sha256", b"block", b"salt", max(1, int(seconds * self.steps_per_second)))


class Workload:
    """Elements (first, last) of one range of blocks, and what a block costs."""

    def __init__(self, name, elements, block_seconds, hot=(0, 0), hot_seconds=0.0):
        self.name = name
        self.elements = elements
        self.block_seconds = block_seconds
        self.hot = hot
        self.hot_seconds = hot_seconds
        self.together = max(1, round(0.001 / block_seconds))  # cheap blocks are spent so many at a time

    def seconds(self, block):
        if self.hot[0] <= block < self.hot[1]:
            return self.hot_seconds
        return self.block_seconds * self.together if block % self.together == 0 else 0.0

    def blocks(self):
        return self.elements[-1][1]

    def dealt_out(self, slots):
        """Return for each slot as many blocks of each kind."""
        kinds = {}
        for block in range(self.blocks()):
            kinds.setdefault(self.seconds(block), []).append(block)
        return [[block for kind in kinds.values() for block in kind[slot::slots]] for slot in range(slots)]

    def cut(self, pieces):
        """Return about so many even ranges."""
        if len(self.elements) >= pieces:
            return self.elements
        each = -(-self.blocks() // pieces)
        return [(start, min(start + each, self.blocks())) for start in range(0, self.blocks(), each)]


def workloads(seconds, slots):
    """Return the six, each with ``seconds`` of work per slot."""
    total = seconds * slots

    def skewed(name, share, factor, hot_seconds):
        block_seconds = hot_seconds / factor
        blocks = round(total / (block_seconds * (1 - share + share * factor)))
        start = int(blocks * 0.62)
        hot = (start, start + round(blocks * share))
        return Workload(name, [(0, blocks)], block_seconds, hot, hot_seconds)

    def even(name, elements, block_seconds):
        blocks = round(total / block_seconds)
        bounds = [blocks * number // elements for number in range(elements + 1)]
        return Workload(name, list(itertools.pairwise(bounds)), block_seconds)

    return [
        even("one giant element", 1, 0.02),
        skewed("hot 5 %, 50 times", 0.05, 50, 0.05),
        skewed("narrow 0.5 %, 1000 times", 0.005, 1000, 0.05),
        even("coarse blocks of 1 s", 1, 1.0),
        even("10,000 small elements", 10_000, total / 10_000),
        even("uniform", 100, 0.02),
    ]


class SpendFn(DoFn):
    """Element: (first, last) block. One record per block."""

    def __init__(self, workload, spend):
        self.workload = workload
        self.spend = spend

    def get_initial_restriction(self, element):
        return OffsetRange(*element)

    def process(self, element, tracker):
        for block in range(*tracker.current_restriction()):
            if not tracker.try_claim(block):
                return
            self.spend(self.workload.seconds(block))
            yield block


def spend_all(blocks, workload, spend):
    for block in blocks:
        spend(workload.seconds(block))
        yield block


def steps_per_second(sc, slots):
    """Return how many steps take a second while all cores compute."""
    steps = 50_000

    def timed(_):
        began = time.perf_counter()
        hashlib.pbkdf2_hmac("sha256", b"block", b"salt", steps)
        return time.perf_counter() - began

    return steps / statistics.median(sc.parallelize(range(16 * slots), slots).map(timed).collect())


def actions(sc, workload, spend, slots):
    """Return for each way a function that runs the work and counts its records."""

    def ideal():
        shares = sc.parallelize(workload.dealt_out(slots), slots)
        return shares.flatMap(lambda blocks: spend_all(blocks, workload, spend)).count()

    def flat_map(elements, tasks):
        return lambda: (
            sc.parallelize(elements, tasks).flatMap(lambda each: spend_all(range(*each), workload, spend)).count()
        )

    def sdf(runner):
        def run():
            result = run_sdf(sc.parallelize(workload.elements), SpendFn(workload, spend), runner=runner)
            count = result.count()
            result.unpersist()
            return count

        return run

    pieces = workload.cut(32 * slots)
    return {
        "ideal": ideal,
        PLAIN: flat_map(workload.elements, min(len(workload.elements), 16 * slots)),
        BY_HAND: flat_map(pieces, 32 * slots),
        STAGED: sdf(StagedRunner()),
        LIVE: sdf(LiveRunner()),
    }


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--kind", choices=["cpu", "wait"], default="cpu")
    options.add_argument("--slots", type=int, default=2)
    options.add_argument("--seconds", type=float, nargs="+", default=[5.0], help="of work per slot")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--skip", nargs="*", default=[], help="ways to leave out, such as flatMap")
    options.add_argument("--only", default="", help="workloads with this in their name")
    options = options.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(f"local[{options.slots}]").setAppName("skew")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    spend = Spend(options.kind, steps_per_second(sc, options.slots) if options.kind == "cpu" else 0)
    ways = [way for way in (PLAIN, BY_HAND, STAGED, LIVE) if way not in options.skip]
    for run in actions(sc, workloads(0.5, options.slots)[0], spend, options.slots).values():
        run()  # warm up workers and class loading
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, Spark {sc.version}")
    print(f"{options.slots} slots that {options.kind}; makespan over ideal, median of {options.rounds}")
    print(f"{'':28}{'ideal s':>9}" + "".join(f"{way:>21}" for way in ways), flush=True)
    for seconds in options.seconds:
        for workload in workloads(seconds, options.slots):
            if options.only not in workload.name:
                continue
            runs = actions(sc, workload, spend, options.slots)
            taken = {way: [] for way in ("ideal", *ways)}
            for _ in range(options.rounds):
                for way in taken:
                    began = time.perf_counter()
                    assert runs[way]() == workload.blocks()
                    taken[way].append(time.perf_counter() - began)
            median = {way: statistics.median(times) for way, times in taken.items()}
            row = "".join(f"{median[way] / median['ideal']:21.3f}" for way in ways)
            print(f"{workload.name:28}{median['ideal']:9.2f}{row}", flush=True)
    sc.stop()


if __name__ == "__main__":
    main()
