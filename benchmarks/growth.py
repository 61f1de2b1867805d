"""How does each cost grow: with elements, with splits, with the length of a journal?

Runs of elements that do next to nothing, with both runners; the same with a tracker of one's own; runs of one range
that is cut into ever more pieces before it starts. The driver's memory holds what earlier runs have left, too. The
planner alone, without Spark, in its own process. The time to resume a stream's journal, which must not depend on the
journal's length.

    python benchmarks/growth.py
    python benchmarks/growth.py --elements 1000 10000 100000 1000000 10000000 --own 1000000
"""

import statistics
import tempfile
import time

from harness import (
    Bench,
    Timed,
    forget_peak,
    in_processes,
    in_turn,
    peak_megabytes,
    resident_megabytes,
    worker_seconds,
)

from sdf import DoFn, LiveRunner, OffsetRange, OffsetRangeTracker, StagedRunner, run_sdf
from sdf.execution.expansion import Expanded
from sdf.journal.journal import Journal
from sdf.scheduling.factoring import Limits, Tuning, deal, plan_stage
from sdf.scheduling.run_state import RunState, enter
from sdf.scheduling.work_queue import WorkQueue
from sdf.storage.disk import Disk

SLOTS = 2
RUNNERS = {"StagedRunner": StagedRunner(), "LiveRunner": LiveRunner()}
PLANNED_FOR = 1000  # slots
OPENS = 20  # of a journal of each length
TOLD = "MB of the driver", "MB of the report", "us over flatMap", "us of the driver's CPU", "us of the workers' CPU"
LIMITS = {
    ("elements", 1_000_000): (157.0, None, 4.0, 1.0, 4.0),
    ("elements", 10_000_000): (500.0,),
    ("elements with a tracker of their own", 1_000_000): (None, None, 15.0),
}


class OneFn(DoFn):
    """Claims one position of an element and gives one record."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        if tracker.try_claim(0):
            yield element


class OwnTracker(OffsetRangeTracker):
    """One's own, as sdf has not made it."""


class OwnFn(OneFn):
    """OneFn with a tracker of its own."""

    def create_tracker(self, element, restriction):
        return OwnTracker(restriction)


class PiecesFn(DoFn):
    """Element: how many pieces. Each claims one position, and gives one record."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def split_restriction(self, element, restriction):
        return (OffsetRange(at, at + 1) for at in range(element))

    def process(self, element, tracker):
        for at in range(*tracker.current_restriction()):
            if not tracker.try_claim(at):
                return
            yield at


def runs(bench, sc, given):
    """Run ever more elements, and ever more pieces of one element."""
    formats = {
        "": "{}",
        "s": "{:.2f}",
        "µs each": "{:.1f}",
        "driver MB at most": "{:,.0f}",
        "report MB": "{:,.2f}",
        "over flatMap µs each": "{:.1f}",
        "driver CPU µs each": "{:.2f}",
        "worker CPU µs each": "{:.1f}",
    }
    elements = bench.table(f"elements that do next to nothing, on {SLOTS} slots; the report as JSON", formats)
    own = bench.table(f"the same with a tracker of their own, on {SLOTS} slots", formats)
    splits = bench.table(f"one range that split_restriction cuts, on {SLOTS} slots", formats)

    def measure(table, what, number, rdd, fn):
        told = {}

        def run(name):
            forget_peak()
            began, driver, workers = time.perf_counter(), time.process_time(), worker_seconds()
            result = run_sdf(rdd, fn, runner=RUNNERS[name])
            count = result.count()
            seconds = time.perf_counter() - began
            result.unpersist()
            driver, workers = time.process_time() - driver, worker_seconds() - workers
            costs = [(each - plain) / number * 1e6 for each, plain in ((seconds, flat), (driver, 0), (workers, 0))]
            told[name] = peak_megabytes(), len(result.report.to_json()) / 1e6, *costs
            return Timed(count, seconds)

        began = time.perf_counter()
        rdd.flatMap(lambda element: [element]).count()
        flat = time.perf_counter() - began
        taken = in_turn({name: lambda name=name: run(name) for name in RUNNERS}, given.rounds, warm_up=number <= 1000)
        for name, one in taken.items():
            table.row(f"{number:,} {what}, {name}", one.median, one.median / number * 1e6, *told[name])
            for limit, what_of, figure in zip(LIMITS.get((what, number), ()), TOLD, told[name], strict=False):
                if limit is not None:
                    bench.claim(f"{what_of} of {number:,} {what}, {name}", figure, at_most=limit)

    for number in given.elements:
        measure(elements, "elements", number, sc.parallelize(range(number), SLOTS), OneFn())
    for number in given.own:
        measure(own, "elements with a tracker of their own", number, sc.parallelize(range(number), SLOTS), OwnFn())
    for number in given.pieces:
        measure(splits, "pieces", number, sc.parallelize([number], 1), PiecesFn())


def elements_of(start, stop):
    """Make elements as they come from the workers: each with a restriction of its own, of another size."""
    wholes = [OffsetRange(0, 100 + number % 900) for number in range(start, stop)]
    return [Expanded(start + place, whole, ((whole, whole.stop),)) for place, whole in enumerate(wholes)]


def plan(number, dealing):
    """Plan the first stage of so many elements for many slots, or deal them out; return seconds of each, and MB.

    The elements are made a thousand at a time, and the time for that does not count.
    """
    before = resident_megabytes()
    forget_peak()
    work = RunState(OneFn())
    backlog = WorkQueue(work.costs)
    adding = 0.0
    for start in range(0, number, 1000):
        elements = elements_of(start, min(start + 1000, number))
        began = time.perf_counter()
        enter(work, backlog, elements)
        adding += time.perf_counter() - began
    began = time.perf_counter()
    if dealing:
        planned = deal(backlog, work.costs, PLANNED_FOR, cut=work.cut)
    else:
        tuning, limits = Tuning(0.5, 0.2, None), Limits(1, None, None)
        planned = plan_stage(
            backlog, work.costs, tasks=PLANNED_FOR, width=PLANNED_FOR, running_seconds=0.0, elapsed_seconds=0.0,
            tuning=tuning, limits=limits, cut=work.cut,
        )  # fmt: skip
    assert len(planned) == PLANNED_FOR or number < PLANNED_FOR
    return adding, time.perf_counter() - began, peak_megabytes() - before


def planner(bench, given):
    """Plan ever more work items."""
    table = bench.table(
        f"the planner alone, for {PLANNED_FOR:,} slots; memory beyond what the process had before",
        {"work items": "{}", "add and push s": "{:.2f}", "plan s": "{:.2f}", "µs each": "{:.2f}", "MB": "{:,.0f}"},
    )
    for number in given.items:
        for name, dealing in (("plan_stage", False), ("deal", True)):
            found = [in_processes(1, plan, number, dealing)[0] for _ in range(given.rounds)]
            adding, planning, megabytes = (statistics.median(each) for each in zip(*found, strict=True))
            table.row(f"{number:,}, {name}", adding, planning, (adding + planning) / number * 1e6, megabytes)
            if number == max(given.items):
                claimed = f"{name} of {number:,} work items"
                bench.claim(f"s of {claimed}", adding + planning, at_most=5.0)
                bench.claim(f"MB of {claimed}", megabytes, at_most=1000.0)


def journal_at(folder):
    return Journal(Disk(folder), config={"fns": ["OneFn"]}, inputs=["a"], clock=lambda: int(time.time() * 1000))


def journals(bench, given):
    """Resume a journal that gets ever longer."""
    table = bench.table(
        "a journal's last block and its checkpoint, read to go on",
        {"commits": "{:,}", "ms": "{:.2f}", "commit ms": "{:.2f}"},
    )
    medians = []
    with tempfile.TemporaryDirectory() as folder:
        journal = journal_at(folder)
        for commits in given.commits:
            first, began = journal.next_seq, time.perf_counter()
            while journal.next_seq <= commits:
                checkpoint = journal.put(b"left %d" % journal.next_seq)
                journal.advance([1], 1, checkpoint=checkpoint, watermark=None, status="running")
            committing = (time.perf_counter() - began) / (commits + 1 - first)

            def resume():
                resumed = journal_at(folder)
                return resumed.get(resumed.head.data["checkpoint"])

            medians.append(in_turn({"resume": resume}, OPENS)["resume"].median)
            table.row(commits, medians[-1] * 1000, committing * 1000)
    bench.claim(
        f"resuming after {given.commits[-1]:,} commits, over {given.commits[0]}", medians[-1] / medians[0], at_most=3
    )


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--elements", [100, 1000, 10_000, 100_000], quick=[100, 1000, 10_000])
    bench.option("--own", [1000, 10_000], quick=[1000], help="elements with a tracker of their own")
    bench.option("--pieces", [10, 100, 1000, 10_000], quick=[10, 100])
    bench.option("--items", [10_000, 100_000, 1_000_000], quick=[10_000], help="for the planner alone")
    bench.option("--commits", [10, 100, 1000, 10_000], quick=[10, 30])
    given = bench.begin()
    planner(bench, given)
    journals(bench, given)
    runs(bench, bench.spark(SLOTS), given)
    bench.end()


if __name__ == "__main__":
    main()
