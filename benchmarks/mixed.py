"""Does a run of a million elements, of which a thousand are dear, come close to the ideal?

Dear elements wait for 100 ms, the others for 10 microseconds, a hundred of them together, as nothing can sleep for less
than some fifty. So eight slots need no eight cores. But two cores then share sdf's own CPU time for all elements, which
eight cores would share on a cluster. With ``--slots 2`` each slot has a core here, too. The dear lie at random, or all
in a row. The ideal is a plain mapPartitions over the same elements, with as many dear ones in each slot, dealt by hand;
flatMap is the same over the elements as they lie. Elements are one block each: they cannot be cut, only moved.

A second table has few elements, of which one partition takes half of the ideal makespan to be expanded.

    python benchmarks/mixed.py
    python benchmarks/mixed.py --slots 2 --elements 250000 --dear 250
"""

import random
import time

from harness import Bench, in_turn

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_sdf

DEAR_SECONDS = 0.1
CHEAP_SECONDS = 10e-6
TOGETHER = 100
LIMIT = 1.1
LATE_LIMIT = 1.2


_owed = 0.0  # seconds that this process has not waited yet; a sleep that was too long is taken off


def spend(element):
    """Spend the seconds of an element, which is negative if it is dear."""
    global _owed
    _owed += DEAR_SECONDS if element < 0 else CHEAP_SECONDS
    if _owed >= TOGETHER * CHEAP_SECONDS:
        began = time.perf_counter()
        time.sleep(_owed)
        _owed -= time.perf_counter() - began


class SpendFn(DoFn):
    """Element: a number; one block."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        if tracker.try_claim(0):
            spend(element)
            yield element


class LateFn(DoFn):
    """Element: the seconds that it takes to be expanded, and then to be processed."""

    def get_initial_restriction(self, element):
        time.sleep(element[0])
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        if tracker.try_claim(0):
            time.sleep(element[1])
            yield element


def wait_all(elements):
    for before, after in elements:
        time.sleep(before + after)
        yield before, after


def late(bench, sc, slots, seconds, count):
    """A partition whose elements are expanded late, beside others that are expanded at once."""
    each = seconds / 16
    elements = [(seconds / 32 if number < 16 else 0.0, each) for number in range(16 * slots)]
    table = bench.table(
        f"{len(elements)} elements of {each:g} s on {slots} slots; one partition is expanded in {seconds / 2:g} s",
        {"": "{}", "s": "{:.2f}", "over the ideal": "{:.3f}"},
    )
    dealt = sc.parallelize([elements[slot::slots] for slot in range(slots)], slots).flatMap(wait_all)
    runs = {
        "ideal": dealt.count,
        "Staged": lambda: count(elements, StagedRunner(), LateFn()),
        "Live": lambda: count(elements, LiveRunner(), LateFn()),
    }
    taken = in_turn(runs, 1, warm_up=False)
    for way, one in taken.items():
        table.row(way, one.median, one.median / taken["ideal"].median)
    for way in ("Staged", "Live"):
        bench.claim(
            f"{way}Runner over the ideal, a partition is expanded late",
            taken[way].median / taken["ideal"].median,
            at_most=LATE_LIMIT,
        )


def spend_all(elements):
    for element in elements:
        spend(element)
        yield element


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--slots", 8)
    bench.option("--elements", 1_000_000, quick=20_000)
    bench.option("--dear", 1000, quick=20)
    bench.option("--late-seconds", 16.0, quick=0.5, help="of work per slot, where a partition is expanded late")
    given = bench.begin()
    sc = bench.spark(given.slots)
    each = given.elements // given.dear
    dealt = [-number if number % each == 1 else number for number in range(given.elements)]
    dear = [number for number in dealt if number < 0]
    cheap = [number for number in dealt if number >= 0]
    at_random = dealt.copy()
    random.Random(0).shuffle(at_random)
    middle = len(cheap) // 2
    in_a_row = [*cheap[:middle], *dear, *cheap[middle:]]
    lying = {"at random": at_random, "in a row": in_a_row}
    ideal = sc.parallelize(dealt, given.slots).mapPartitions(spend_all)
    table = bench.table(
        f"{given.elements:,} elements of {CHEAP_SECONDS * 1e6:g} us, {given.dear:,} of them of {DEAR_SECONDS:g} s, on "
        f"{given.slots} slots; makespan over the ideal",
        {"the dear lie": "{}", "ideal": "{:.2f} s", "flatMap": "{:.3f}", "Staged": "{:.3f}", "Live": "{:.3f}"},
    )

    def count(elements, runner, fn=None):
        result = run_sdf(sc.parallelize(elements, given.slots), fn or SpendFn(), runner=runner)
        found = result.count()
        result.unpersist()
        return found

    count(range(100), StagedRunner())  # starts the workers
    for name, elements in lying.items():
        runs = {
            "ideal": ideal.count,
            "flatMap": sc.parallelize(elements, given.slots).mapPartitions(spend_all).count,
            "Staged": lambda elements=elements: count(elements, StagedRunner()),
            "Live": lambda elements=elements: count(elements, LiveRunner()),
        }
        taken = in_turn(runs, given.rounds, warm_up=False)
        over = {way: taken[way].median / taken["ideal"].median for way in ("flatMap", "Staged", "Live")}
        table.row(name, taken["ideal"].median, *over.values())
        for way in ("Staged", "Live"):
            bench.claim(f"{way}Runner over the ideal, the dear {name}", over[way], at_most=LIMIT)
    late(bench, sc, given.slots, given.late_seconds, count)
    bench.end()


if __name__ == "__main__":
    main()
