"""What do progress and the report of a run cost?

Progress: the same run with a function that gets it, and without, in turn. The report: what is noted for each work item,
timed by itself, times the work items of the run, over the seconds that its slots were busy; and making it at the end.

    python benchmarks/report.py [--rounds 5]
"""

import argparse
import os
import platform
import statistics
import sys
import time

from pyspark import SparkConf, SparkContext

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_sdf
from sdf.items import WorkItem
from sdf.running import Running


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
            kept.append(running.ran(0, 0.0, 1.0, 1))
            assert not running.slow_blocks()

    return statistics.median(seconds_of(note) for _ in range(5)) / 10_000


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=5)
    options = options.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster("local[2]").setAppName("report").set("spark.ui.enabled", "false")
    sc = SparkContext(conf=conf.set("spark.ui.showConsoleProgress", "false"))
    sc.setLogLevel("ERROR")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, Spark {sc.version}")
    noting = noting_seconds()
    print(f"noting a work item takes {noting * 1e6:.1f} µs")
    cases = {
        "10,000 elements of 1 ms, live": (ComputeFn(), [1] * 10_000, LiveRunner()),
        "10,000 elements of 1 ms, staged": (ComputeFn(), [1] * 10_000, StagedRunner()),
        "one element of 8 s, live": (ComputeFn(), [8000], LiveRunner()),
        "2 x 5 million records, live": (CountFn(), [5_000_000] * 2, LiveRunner()),
    }
    print(f"{'':34}{'run':>9}{'progress':>10}{'noting':>9}{'report':>10}{'page':>10}{'together':>10}")
    for name, (fn, elements, runner) in cases.items():
        reports = []

        def run(progress, fn=fn, elements=elements, runner=runner, reports=reports):
            result = run_sdf(sc.parallelize(elements, 2), fn, runner=runner, progress=progress)
            result.count()
            reports.append(result)

        run(False)
        taken = {progress: [] for progress in ("without", "with")}
        for _ in range(options.rounds):
            taken["without"].append(seconds_of(lambda run=run: run(False)))
            taken["with"].append(seconds_of(lambda run=run: run(lambda progress: None)))
        without, shown = (statistics.median(taken[way]) for way in ("without", "with"))
        report = reports[-1].report
        making = seconds_of(lambda reports=reports: reports[-1].report)
        saving = seconds_of(lambda report=report: report.save(os.devnull))
        share = noting * len(report.pieces) / report.busy_seconds
        together = share + making / without + max(0.0, shown / without - 1)
        print(
            f"{name:34}{without:8.2f}s{shown / without - 1:10.2%}{share:9.2%}{making * 1e3:8.1f}ms{saving * 1e3:8.0f}ms"
            f"{together:10.2%}",
            flush=True,
        )
    sc.stop()


if __name__ == "__main__":
    main()
