"""How close to the ideal makespan does a run come, for six kinds of work, beside what one would do without sdf?

The ideal is a plain mapPartitions over the same work units, dealt out evenly by hand, as many of each kind to each
slot. Every number is a ratio to it, measured in turn within this run. Either few slots compute (``--kind cpu``, one
slot per core) or more slots wait (``--kind wait``).

    python benchmarks/skew.py --kind cpu --slots 2 --seconds 5
    python benchmarks/skew.py --kind wait --slots 8 --seconds 60 --ways LiveRunner
    python benchmarks/skew.py --kind wait --slots 4 --seconds 2 --busy 4 --only giant --ways StagedRunner LiveRunner
"""

import hashlib
import itertools
import multiprocessing
import time
from contextlib import contextmanager

from harness import Bench, in_turn

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_sdf

WAYS = PLAIN, BY_HAND, STAGED, LIVE = ["flatMap", "32-per-slot", "StagedRunner", "LiveRunner"]
LIMITS = {
    1.0: {STAGED: 1.5},
    2.0: {STAGED: 1.25},
    5.0: {LIVE: 1.15},
    20.0: {LIVE: 1.04, STAGED: 1.15},
    60.0: {LIVE: 1.04},
}  # by seconds per slot


class Spend:
    """Spends seconds: sleeps, or computes until its thread has had so much of a core.

    Work that is counted in steps would be another one whenever the machine has another speed, as a shared one has.
    """

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, seconds):
        if self.kind == "wait":
            time.sleep(seconds)
        elif seconds:
            ends = time.thread_time() + seconds
            while time.thread_time() < ends:
                hashlib.pbkdf2_hmac("sha256", b"block", b"salt", 20)


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
        blocks = max(1, round(total / block_seconds))
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


@contextmanager
def busy(number):
    """Keep so many processes busy beside the runs."""
    processes = [multiprocessing.get_context("spawn").Process(target=_burn, daemon=True) for _ in range(number)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _burn():
    while True:
        pass


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--kind", "cpu", choices=["cpu", "wait"])
    bench.option("--slots", 2)
    bench.option("--seconds", 5.0, quick=0.2, help="of work per slot")
    bench.option("--ways", WAYS, choices=WAYS, help="beside the ideal")
    bench.option("--only", "", quick="giant", help="workloads with this in their name")
    bench.option("--busy", 0, help="processes beside the runs that compute")
    given = bench.begin()
    if not any(given.only in workload.name for workload in workloads(given.seconds, given.slots)):
        bench.refuse(f"--only must be in the name of a workload (got {given.only!r})")
    sc = bench.spark(given.slots)
    spend = Spend(given.kind)
    warm = actions(sc, workloads(min(0.5, given.seconds), given.slots)[0], spend, given.slots)
    in_turn({way: warm[way] for way in ("ideal", *given.ways)}, 0)
    table = bench.table(
        f"{given.slots} slots that {'compute' if given.kind == 'cpu' else 'wait'}, {given.seconds:g} s of work each; "
        f"makespan over the ideal, median of {given.rounds}, not warmed up but for the first",
        {"": "{}", "ideal": "{:.2f} s", **dict.fromkeys(given.ways, "{:.3f}")},
    )
    for workload in workloads(given.seconds, given.slots):
        if given.only not in workload.name:
            continue
        runs = actions(sc, workload, spend, given.slots)
        with busy(given.busy):
            taken = in_turn({way: runs[way] for way in ("ideal", *given.ways)}, given.rounds, warm_up=False)
        over = {way: taken[way].median / taken["ideal"].median for way in given.ways}
        table.row(workload.name, taken["ideal"].median, *over.values())
        what = f"{workload.name}, {given.slots} slots that {given.kind}, {given.seconds:g} s"
        if given.busy:
            what += f", beside {given.busy} busy processes"
            if {STAGED, LIVE} <= {*over}:
                bench.claim(f"{STAGED} over {LIVE}, {what}", over[STAGED] / over[LIVE], at_most=1.6)
            continue
        for way, at_most in LIMITS.get(given.seconds, {}).items():
            if way in over:
                bench.claim(f"{way}, {what}", over[way], at_most=at_most)
        if BY_HAND in over:
            for way in {STAGED, LIVE} & {*over}:
                bench.claim(f"{way} over {BY_HAND}, {what}", over[way] / over[BY_HAND], at_most=1.05)
        if workload.name == "uniform" and {PLAIN, LIVE} <= {*over}:  # what splitting costs where it gains nothing
            bench.claim(f"{LIVE} over {PLAIN}, {what}", over[LIVE] / over[PLAIN], at_most=1.03)
    bench.end()


if __name__ == "__main__":
    main()
