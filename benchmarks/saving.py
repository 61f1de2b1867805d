"""What does it cost to save results so that they outlive the driver? Lines to Parquet, a minute's run, a long log.

Measured beside `save_sdf` in the same run: `run_sdf` with Spark's own writer, and Spark alone on the same lines, all
with the same codec. Then the time that a run of a minute spends in sinks and log; and what a resume costs of a run that
has committed very many parts.

    python benchmarks/saving.py
"""

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Bench, in_turn, write_lines

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_sdf, save_sdf
from sdf.io import ReadLines
from sdf.saving.run_log import RunLog
from sdf.saving.saving import Saving
from sdf.sinks import ParquetFiles

RESUME = """
import resource, sys, time
from sdf import DoFn, OffsetRange
from sdf.saving.run_log import RunLog
from sdf.saving.history import History
from sdf.scheduling.run_state import RunState
from sdf.storage.disk import Disk

class Fn(DoFn):
    def get_initial_restriction(self, element):
        return OffsetRange(0, element)
    def process(self, element, tracker):
        pass

began = time.perf_counter()
history = History(RunLog(Disk(sys.argv[1]), driver="resume", clock=lambda: 0))
left = history.replay(RunState(Fn()))
print(len(left), time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
"""


class WaitFn(DoFn):
    """Element: its number and a count. Waits a hundredth of a second for each record."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            time.sleep(0.01)
            yield {"element": element[0], "i": i}


class TimedFiles(ParquetFiles):
    """Says in its messages how many seconds it took, without those in which it waited for records."""

    def write(self, records, place):
        waited = 0.0

        def waiting():
            nonlocal waited
            for _ in itertools.count():
                began = time.perf_counter()
                record = next(records, None)
                waited += time.perf_counter() - began
                if record is None:
                    return
                yield record

        began = time.perf_counter()
        message = super().write(waiting(), place)
        return message and {**message, "seconds": time.perf_counter() - began - waited}


class Clock:
    """Adds up the seconds that calls of a method take, and what its sinks said."""

    def __init__(self, kind, name):
        self.kind, self.name, self.seconds, self.method = kind, name, 0.0, getattr(kind, name)

    def __enter__(self):
        def timed(of, *given):
            began = time.perf_counter()
            try:
                return self.method(of, *given)
            finally:
                self.seconds += time.perf_counter() - began

        setattr(self.kind, self.name, timed)
        return self

    def __exit__(self, *error):
        setattr(self.kind, self.name, self.method)


def make_log(path, parts):
    """Write the log of a run over one element of which so many parts are committed, each in a segment of its own."""
    from sdf.execution.expansion import expand
    from sdf.execution.invoker import Residual
    from sdf.saving.history import History
    from sdf.saving.log_records import Segment, split_record
    from sdf.storage.disk import Disk

    class Fn(WaitFn):
        def get_initial_restriction(self, element):
            return OffsetRange(0, element)

    log = RunLog(Disk(path), driver="bench", clock=lambda: 0)
    history = History(log)
    log.append([["begin", "app", {}], ["prepared"], *history.of_elements([expand(Fn(), 10 * parts)])])
    records = []
    for part in range(parts - 1):
        cut = 10 * part + 10
        residuals = [Residual(OffsetRange(cut, 10 * parts))]
        records.append(split_record(part, OffsetRange(cut - 10, cut), residuals, lambda: 0))
        message = {"files": 1, "bytes": 123456, "names": [[f"{part:032x}-0.parquet", 123456]]}
        records.append(history.of_segment([part], Segment((message,), (1000,), 60.0)))
        if len(records) >= 400:
            log.append(records)
            records = []
    log.append(records)


def main():
    bench = Bench(__doc__)
    bench.option("--megabytes", 500, quick=20)
    bench.option("--seconds", 60, quick=5)
    bench.option("--parts", 1_000_000, quick=10_000)
    bench.option("--cores", 2)
    given = bench.begin()
    sc = bench.spark(given.cores)
    from pyspark.sql import SparkSession

    spark = SparkSession(sc)
    numbers = itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "lines.txt")
        write_lines(path, given.megabytes * 1_000_000)
        size = os.path.getsize(path)

        def target():
            for old in Path(folder).glob("*out-*"):
                shutil.rmtree(old)
            return f"{folder}/out-{next(numbers)}"

        def saved(runner):
            return save_sdf(sc.parallelize([path]), ReadLines(), ParquetFiles(target()), runner=runner).records

        def written(lines):
            lines.write.option("compression", "zstd").parquet(target())
            return spark.read.parquet(f"{folder}/out-*").count()

        def ours(runner):
            lines = run_sdf(sc.parallelize([path]), ReadLines(), runner=runner)
            count = written(lines.map(lambda line: (line,)).toDF("value string"))
            lines.unpersist()
            return count

        ways = {
            "save_sdf, LiveRunner": lambda: saved(LiveRunner()),
            "save_sdf, StagedRunner": lambda: saved(StagedRunner()),
            "run_sdf with LiveRunner, toDF, write": lambda: ours(LiveRunner()),
            "run_sdf with StagedRunner, toDF, write": lambda: ours(StagedRunner()),
            "spark.read.text, write": lambda: written(spark.read.text(path)),
        }
        taken = in_turn(ways, given.rounds)
        table = bench.table(
            f"lines of one file of {size / 1e9:.2f} GB to Parquet, zstd",
            {"": "{}", "seconds": "{:.2f}", "MB/s": "{:.0f}", "spread": "{:.0%}"},
        )
        for name, one in taken.items():
            table.row(name, one.median, size / 1e6 / one.median, one.spread)
        for runner in ("LiveRunner", "StagedRunner"):
            own = taken[f"save_sdf, {runner}"].median
            of_run = taken[f"run_sdf with {runner}, toDF, write"].median
            bench.claim(
                f"lines to Parquet: save_sdf over run_sdf and Spark's writer, {runner}", of_run / own, at_least=1.0
            )
        alone = taken["spark.read.text, write"].median
        bench.claim(
            "lines to Parquet: save_sdf over Spark alone", alone / taken["save_sdf, LiveRunner"].median, at_least=1.0
        )

        table = bench.table(
            f"a run of {given.seconds} s on {given.cores} slots that wait, a commit every tenth of that",
            {"": "{}", "seconds": "{:.2f}", "sinks": "{:.3f}", "log": "{:.3f}", "end": "{:.3f}", "share": "{:.2%}"},
        )
        for name, runner in {"LiveRunner": LiveRunner(), "StagedRunner": StagedRunner()}.items():
            count = given.seconds * given.cores * 100
            elements = [(0, count * 3 // 4), *((1 + i, count // 40) for i in range(10))]
            seconds = []
            with Clock(RunLog, "append") as log, Clock(Saving, "finish") as end:
                commit = Saving.commit

                def noted(saving, ids, messages, records, took, commit=commit, seconds=seconds):
                    seconds.append(sum(message["seconds"] for message in messages if message))
                    commit(saving, ids, messages, records, took)

                Saving.commit = noted
                began = time.perf_counter()
                save_sdf(
                    sc.parallelize(elements),
                    WaitFn(),
                    TimedFiles(target()),
                    commit_seconds=given.seconds / 10,
                    runner=runner,
                )
                took = time.perf_counter() - began
                Saving.commit = commit
            share = (sum(seconds) / given.cores + log.seconds + end.seconds) / took
            table.row(name, took, sum(seconds), log.seconds, end.seconds, share)
            bench.claim(f"share of a run in sinks, log and commit, {name}", share, at_most=0.02)

        make_log(f"{folder}/log", given.parts)
        megabytes = sum(file.stat().st_size for file in Path(folder, "log").rglob("*") if file.is_file()) / 1e6
        left, seconds, peak = map(
            float, subprocess.check_output([sys.executable, "-c", RESUME, f"{folder}/log"]).split()
        )
        assert left == 1
        table = bench.table(
            f"a log of {given.parts:,} committed parts, each a segment of its own",
            {"log, MB": "{:.1f}", "resume, seconds": "{:.2f}", "peak, MB": "{:.0f}"},
        )
        table.row(megabytes, seconds, peak)
        bench.claim("log of the parts, MB", megabytes, at_most=150)
        bench.claim("resume, seconds", seconds, at_most=20)
        bench.claim("resume, peak MB", peak, at_most=1000)
    bench.end()


if __name__ == "__main__":
    main()
