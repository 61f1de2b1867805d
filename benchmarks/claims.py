"""What does a claim cost as process() makes it, and what does the invoker add per record?

Beam's claims are measured beside it if apache_beam is installed.

    python benchmarks/claims.py [--count 1000000]
"""

import importlib.util

from harness import Bench, in_turn

from sdf import DoFn, OffsetRange, OffsetRangeTracker
from sdf.execution.invoker import Invoker


class CountFn(DoFn):
    def __init__(self, claim):
        self.claim = claim

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker):
        if not self.claim:
            tracker.try_claim(element - 1)
        for i in range(*tracker.current_restriction()):
            if self.claim and not tracker.try_claim(i):
                return
            yield i


class ClaimFn(CountFn):
    """Claims through what process() gets, and yields nothing."""

    def process(self, element, tracker):
        try_claim = tracker.try_claim
        for i in range(element):
            try_claim(i)
        return ()


class ClaimsFn(CountFn):
    """Yields the positions that `claims` delivers."""

    def process(self, element, tracker):
        for i in tracker.claims():  # noqa: UP028, as a DoFn that makes something of each
            yield i


class ClaimBlocksFn(CountFn):
    """Claims blocks, and yields nothing."""

    def process(self, element, tracker):
        for _ in tracker.claims(range(element)):
            pass
        return ()


class Granted:
    """Stands in for a tracker, for the bare generator."""

    def __init__(self, count):
        self.count = count

    def try_claim(self, position):
        return True

    def current_restriction(self):
        return 0, self.count


def alone(count):
    try_claim = OffsetRangeTracker((0, count)).try_claim
    for i in range(count):
        try_claim(i)


def beam(count):
    from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
    from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker

    tracker = OffsetRestrictionTracker(OffsetRange(0, count))
    try_claim = RestrictionTrackerView(ThreadsafeRestrictionTracker(tracker)).try_claim
    for i in range(count):
        try_claim(i)


def loop(count):
    for _ in range(count):
        pass


def invoke(fn, count):
    for _ in Invoker(fn, count, OffsetRange(0, count)).run():
        pass


def bare(count):
    for _ in CountFn(False).process(count, Granted(count)):
        pass


def main():
    bench = Bench(__doc__, rounds=5)
    bench.option("--count", 1_000_000, quick=100_000)
    has_beam = importlib.util.find_spec("apache_beam") is not None
    if has_beam:
        bench.name += "-beside-beam"
    given = bench.begin()
    runs = {
        "a loop": loop,
        "claim, the tracker alone": alone,
        "claim, as process() calls it": lambda count: invoke(ClaimFn(True), count),
        "record, a bare generator": bare,
        "record, through the invoker": lambda count: invoke(CountFn(False), count),
        "record, a position of claims()": lambda count: invoke(ClaimsFn(False), count),
        "claim, a block of claims(blocks)": lambda count: invoke(ClaimBlocksFn(True), count),
    }
    if has_beam:
        runs["claim, Beam"] = beam
    else:
        bench.note("Beam is not installed here: make bench-peers asks one that has it.")
    taken = in_turn({name: lambda run=run: run(given.count) for name, run in runs.items()}, given.rounds)
    each = {name: one.median / given.count * 1e9 for name, one in taken.items()}
    table = bench.table(
        f"the median of {given.rounds}, of {given.count:,} each; claims without the loop", {"": "{}", "ns": "{:.0f}"}
    )
    for name in each:
        if name.startswith("claim"):
            each[name] -= each["a loop"]
        table.row(name, each[name])
    bench.claim("a block of claims(blocks), in ns", each["claim, a block of claims(blocks)"], at_most=300)
    if has_beam:
        bench.claim(
            "a claim over one of Beam's", each["claim, as process() calls it"] / each["claim, Beam"], at_most=1.0
        )
    bench.end()


if __name__ == "__main__":
    main()
