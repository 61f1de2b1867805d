"""What do progress and the report of a run cost?

Progress, as a bar: the CPU time of all threads for it, over the seconds of the run. The report: the time to note one
work item, measured alone, times the work items of the run, over the seconds that its slots were busy; and the time to
make it at the end. Beside them the same run with a bar and without, in turn, and the spread of the runs without.

    python benchmarks/report.py
"""

import functools
import os
import statistics
import time
from unittest import mock

from harness import Bench, in_turn

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_sdf
from sdf.execution.measured_run import Running
from sdf.execution.work_items import WorkItem
from sdf.spark import display
from sdf.spark.live import runner as live
from sdf.spark.staged import run as staged


class CountFn(DoFn):
    """Element: a number of records."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield i


class ComputeFn(CountFn):
    """As CountFn, with a millisecond of work per record."""

    def process(self, element, tracker):
        for i in super().process(element, tracker):
            sum(range(60_000))
            yield i


def seconds_of(run):
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def noting_seconds():
    """Return what it takes to note one work item: the median of several times ten thousand."""
    item = WorkItem(0, 0, 1, OffsetRange(0, 1), 1.0)
    running = Running(CountFn(), item, side_inputs=None, clock=time.monotonic)
    with running.outputs() as outputs:
        list(outputs)

    def note():
        kept = []
        for _ in range(10_000):
            kept.append(running.ran(0, 0.0, 1.0))
            assert not running.slow_blocks()

    return statistics.median(seconds_of(note) for _ in range(5)) / 10_000


class CpuTime:
    """Adds up the CPU time of functions in the thread that calls them."""

    def __init__(self):
        self.seconds = 0.0

    def of(self, owner, name):
        """Return a patch of a method that adds up its time."""
        method = getattr(owner, name)

        @functools.wraps(method)
        def timed(*args, **kwargs):
            began = time.thread_time()
            try:
                return method(*args, **kwargs)
            finally:
                self.seconds += time.thread_time() - began

        return mock.patch.object(owner, name, timed)


def main():
    bench = Bench(__doc__)
    bench.option("--scale", 1.0, quick=0.05, help="of the runs")
    given = bench.begin()
    sc = bench.spark(2)
    noting = noting_seconds()
    bench.note(f"Noting a work item takes {noting * 1e6:.1f} µs.")
    small = [1] * int(10_000 * given.scale)
    cases = {
        f"{len(small):,} elements of 1 ms, live": (ComputeFn(), small, LiveRunner()),
        f"{len(small):,} elements of 1 ms, staged": (ComputeFn(), small, StagedRunner()),
        f"one element of {8 * given.scale:g} s, live": (ComputeFn(), [int(8000 * given.scale)], LiveRunner()),
        "2 ranges of records, live": (CountFn(), [int(5_000_000 * given.scale)] * 2, LiveRunner()),
    }
    table = bench.table(
        "Shares of the run; the last two columns: with the bar over without, and the spread without",
        {
            "": "{}", "run": "{:.2f} s", "pieces": "{:,}", "progress": "{:.2%}", "noting": "{:.2%}",
            "report": "{:.1f} ms", "page": "{:.0f} ms", "together": "{:.2%}", "with": "{:.3f}", "spread": "{:.1%}",
        },
    )  # fmt: skip
    for name, (fn, elements, runner) in cases.items():
        results, cpu, made = [], CpuTime(), CpuTime()

        def run(progress, fn=fn, elements=elements, runner=runner, results=results):
            result = run_sdf(sc.parallelize(elements, 2), fn, runner=runner, progress=progress)
            count = result.count()
            results[:] = [result]
            return count

        with (
            open(os.devnull, "w") as nowhere,
            mock.patch("sys.stderr", nowhere),
            cpu.of(live._Watch, "__call__"),
            cpu.of(staged.StagedRun, "_show"),
            made.of(staged.StagedRun, "_report"),
            cpu.of(display._Bar, "__call__"),
        ):
            taken = in_turn({"without": lambda run=run: run(False), "with": lambda run=run: run(True)}, given.rounds)
        without, shown = taken["without"], taken["with"]
        progress = cpu.seconds / (given.rounds + 1) / shown.median  # the round that warms up is timed too
        report = results[0].report
        making = seconds_of(lambda results=results: results[0].report) + made.seconds / (2 * given.rounds + 2)
        saving = seconds_of(lambda report=report: report.save(os.devnull))
        share = noting * len(report.pieces) / report.busy_seconds
        together = progress + share + making / without.median
        table.row(
            name, without.median, len(report.pieces), progress, share, making * 1e3, saving * 1e3, together,
            shown.median / without.median, without.spread,
        )  # fmt: skip
        bench.claim(f"progress and report, {name}, % of the run", 100 * together, at_most=1.0)
    bench.end()


if __name__ == "__main__":
    main()
