"""What does a run cost beyond its work?

Empty jobs; what a stage and a split add to work that sleeps; what a record costs beyond a plain loop with the same
tracker; what many small files cost.

    python benchmarks/startup.py [--slots 2]
    python benchmarks/startup.py --slots 8
"""

import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

from harness import Bench, in_turn

from sdf import DoFn, LiveRunner, OffsetRange, OffsetRangeTracker, StagedRunner, run_sdf
from sdf.io import MatchFiles, ReadLines
from sdf.spark.staged import run as staged

PLAIN, WITH_TRACKER = "plain mapPartitions", "mapPartitions with a tracker"
BLOCK_SECONDS = 0.005  # in the mean


def waits(number):
    """Return the seconds of so many blocks, the longest first: what a part has shown is never what its rest costs."""
    chosen = random.Random(number)
    raw = [min(chosen.paretovariate(0.7), 30.0) for _ in range(number)]
    return sorted((one * BLOCK_SECONDS * number / sum(raw) for one in raw), reverse=True)


class CountFn(DoFn):
    """Element: how many records."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield i


class WaitFn(DoFn):
    """Element: the seconds of its blocks. One record per block."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, len(element))

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            time.sleep(element[i])
            yield i


def count_plainly(elements):
    for element in elements:
        yield from range(element)


def count_with_tracker(elements):
    for element in elements:
        tracker = OffsetRangeTracker((0, element))
        for i in range(element):
            if not tracker.try_claim(i):
                return
            yield i


def wait_plainly(shares):
    for share in shares:
        for seconds in share:
            time.sleep(seconds)
            yield seconds


class Startup:
    """What is measured with one SparkContext."""

    def __init__(self, bench, given):
        self.bench = bench
        self.given = given
        self.sc = bench.spark(given.slots)

    def sdf(self, elements, fn, runner):
        """Run elements; return the records counted, and the report."""
        result = run_sdf(self.sc.parallelize(elements, self.given.slots), fn, runner=runner)
        count = result.count()
        result.unpersist()
        return count, result.report

    def plainly(self, elements, function):
        return self.sc.parallelize(elements, self.given.slots).mapPartitions(function).count()

    def count(self, records, rounds):
        """Count so many records per slot; return the seconds of each way."""
        elements = [records] * self.given.slots
        runs = {
            PLAIN: lambda: self.plainly(elements, count_plainly),
            WITH_TRACKER: lambda: self.plainly(elements, count_with_tracker),
            "LiveRunner": lambda: self.sdf(elements, CountFn(), LiveRunner())[0],
            "StagedRunner": lambda: self.sdf(elements, CountFn(), StagedRunner())[0],
        }
        return {name: one.median for name, one in in_turn(runs, rounds).items()}

    def nothing(self):
        """Return the seconds that each way takes to do nothing."""
        taken = self.count(0, self.given.jobs)
        table = self.bench.table(
            f"nothing to do for {self.given.slots} elements, the median of {self.given.jobs}",
            {"": "{}", "ms": "{:.0f}", "ms beyond a plain job": "{:.0f}"},
        )
        for name, seconds in taken.items():
            table.row(name, seconds * 1000, (seconds - taken[PLAIN]) * 1000)
        return taken

    def stages(self, idle):
        """Measure what Spark takes of a stage: `simulate.py` has these figures as options."""
        submitted = []
        submit = staged.StagedRun._submit

        def timed(run, plan):
            began = time.perf_counter()
            submit(run, plan)
            submitted.append(time.perf_counter() - began)

        with mock.patch.object(staged.StagedRun, "_submit", timed):
            self.sdf([waits(round(self.given.seconds * self.given.slots / BLOCK_SECONDS))], WaitFn(), StagedRunner())
        tasks = self.given.tasks

        def launch():
            return self.sc._jsc.sc().range(0, tasks, 1, tasks).count()

        launched = in_turn({"launch": launch}, self.given.rounds)["launch"].median / tasks
        taken = statistics.median(submitted)
        table = self.bench.table("what Spark takes of a stage", {"": "{}", "ms": "{:.2f}"})
        table.row("until it has taken one (--stage-ms)", taken * 1000)
        table.row("then, with nothing to do, until it has ended (--job-ms is less)", (idle[PLAIN] - taken) * 1000)
        table.row("between two tasks, in the JVM (--launch-ms)", launched * 1000)

    def records(self, idle):
        """Measure what a record costs, less what nothing costs."""
        number = self.given.records
        taken = self.count(number, self.given.rounds)
        cores = min(self.given.slots, os.cpu_count())
        each = {name: (taken[name] - idle[name]) * cores / (number * self.given.slots) * 1e9 for name in taken}
        table = self.bench.table(
            f"{number:,} records per slot, of which each is claimed but by the first, less what nothing costs",
            {"": "{}", "s": "{:.2f}", "ns a record and core": "{:.0f}", "ns beyond plain": "{:.0f}"},
        )
        for name, one in each.items():
            table.row(name, taken[name], one, one - each[PLAIN])

    def pieces(self, idle):
        """Measure what stages and splits cost: seconds over the ideal, less what nothing costs, by their number."""
        slots = self.given.slots
        blocks = waits(round(self.given.seconds * slots / BLOCK_SECONDS))
        reports = {}

        def run(name, runner):
            count, reports[name] = self.sdf([blocks], WaitFn(), runner)
            return count

        runs = {
            "ideal": lambda: self.plainly([blocks[slot::slots] for slot in range(slots)], wait_plainly),
            "StagedRunner": lambda: run("StagedRunner", StagedRunner(budget_seconds=0.2, min_piece_seconds=0.05)),
            "LiveRunner": lambda: run("LiveRunner", LiveRunner(min_piece_seconds=0.001)),
        }
        taken = {name: one.median for name, one in in_turn(runs, self.given.rounds, warm_up=False).items()}
        table = self.bench.table(
            f"one element of {self.given.seconds:g} s of waiting per slot, cut small; beyond the ideal and nothing",
            {
                "": "{}",
                "s": "{:.2f}",
                "beyond s": "{:.2f}",
                "stages": "{}",
                "splits": "{}",
                "ms a stage or split": "{:.1f}",
            },
        )
        table.row("ideal", taken["ideal"], None, None, None, None)
        for name, report in reports.items():
            beyond = taken[name] - taken["ideal"] - (idle[name] - idle[PLAIN])
            number = report.stages if name == "StagedRunner" else report.splits
            table.row(name, taken[name], beyond, report.stages, report.splits, beyond / max(1, number) * 1000)

    def files(self):
        """Read many small files."""
        number = self.given.files
        with tempfile.TemporaryDirectory() as folder:
            for one in range(number):
                Path(folder, f"{one}.txt").write_text(f"{one}\nsecond\n")

            def read(runner):
                files = run_sdf(self.sc.parallelize([folder], 1), MatchFiles(), runner=LiveRunner())
                lines = run_sdf(files, ReadLines(), runner=runner)
                count = lines.count()
                lines.unpersist()
                return count

            runs = {
                "sc.textFile": lambda: self.sc.textFile(folder).count(),
                "sc.wholeTextFiles": lambda: (
                    self.sc.wholeTextFiles(folder).flatMap(lambda pair: pair[1].splitlines()).count()
                ),
                "MatchFiles, ReadLines, LiveRunner": lambda: read(LiveRunner()),
                "MatchFiles, ReadLines, StagedRunner": lambda: read(StagedRunner()),
            }
            taken = in_turn(runs, self.given.rounds, warm_up=False)
        table = self.bench.table(f"{number:,} files of two lines", {"": "{}", "s": "{:.2f}", "ms a file": "{:.2f}"})
        for name, one in taken.items():
            table.row(name, one.median, one.median / number * 1000)


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--slots", 2)
    bench.option("--jobs", 10, quick=2, help="of nothing, of each way")
    bench.option("--records", 1_000_000, quick=20_000, help="per slot")
    bench.option("--seconds", 4.0, quick=0.5, help="of waiting, per slot")
    bench.option("--files", 300, quick=20)
    bench.option("--tasks", 10_000, quick=200, help="of a stage that does nothing")
    given = bench.begin()
    startup = Startup(bench, given)
    idle = startup.nothing()
    startup.pieces(idle)
    startup.stages(idle)
    startup.records(idle)
    startup.files()
    bench.end()


if __name__ == "__main__":
    main()
