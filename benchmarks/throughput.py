"""How many records a second go through a lane? Lines of one big file, and a DoFn that only counts.

Measured beside it in the same run: sc.textFile on the same file; a bare loop over the file in one plain Python process
per core, which does not decode the lines; and plain flatMap over the counting loop with the same tracker. Beam's local
runner is in `peers.py`.

    python benchmarks/throughput.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import Bench, Timed, in_turn, write_lines

from sdf import DoFn, LiveRunner, OffsetRange, OffsetRangeTracker, StagedRunner, run_sdf
from sdf.io import ReadLines

BARE = """
import os, sys, time
path, number, of = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
size = os.path.getsize(path)
start, stop, total, lines = size * number // of, size * (number + 1) // of, 0, 0
began = time.perf_counter()
with open(path, "rb") as file:
    if start:
        file.seek(start - 1)
        file.readline()
    wanted = stop - file.tell()
    for line in file:
        total += len(line)
        lines += 1
        if total >= wanted:
            break
print(total - lines, time.perf_counter() - began)
"""


LONGER = 10


class CountFn(DoFn):
    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield element[0], i


class ClaimsFn(CountFn):
    def process(self, element, tracker):
        for i in tracker.claims():
            yield element[0], i


def count_unsplit(element):
    """The same loop without a tracker, for flatMap."""
    for i in range(element[1]):
        yield element[0], i


def count_plainly(element):
    """The same loop with the same tracker, for flatMap."""
    tracker = OffsetRangeTracker((0, element[1]))
    for i in range(element[1]):
        if not tracker.try_claim(i):
            return
        yield element[0], i


def total_length(lines):
    """Sum up without the function of Spark's that map() calls for each record."""
    yield sum(map(len, lines))


def bare_loop(path, processes):
    """Sum up the lengths of the lines in plain Python processes, a part of the file each, without their start."""
    started = [
        subprocess.Popen([sys.executable, "-c", BARE, path, str(number), str(processes)], stdout=subprocess.PIPE)
        for number in range(processes)
    ]
    told = [process.communicate()[0].split() for process in started]
    return Timed(sum(int(total) for total, _ in told), max(float(seconds) for _, seconds in told))


def main():
    bench = Bench(__doc__)
    bench.option("--megabytes", 1000, quick=100)
    bench.option("--count", 5_000_000, quick=500_000)
    bench.option("--cores", 2)
    given = bench.begin()
    sc = bench.spark(given.cores)

    def sdf(elements, fn, runner):
        return run_sdf(sc.parallelize(elements), fn, runner=runner)

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "lines.txt")
        write_lines(path, given.megabytes * 1_000_000)
        size = os.path.getsize(path)
        ways = {
            "sc.textFile": lambda: sc.textFile(path).map(len).sum(),
            "LiveRunner": lambda: sdf([path], ReadLines(), LiveRunner()).map(len).sum(),
            "sc.textFile, mapPartitions": lambda: sc.textFile(path).mapPartitions(total_length).sum(),
            "LiveRunner, mapPartitions": lambda: (
                sdf([path], ReadLines(), LiveRunner()).mapPartitions(total_length).sum()
            ),
            "bare loop": lambda: bare_loop(path, given.cores),
        }
        taken = in_turn(ways, given.rounds)
    table = bench.table(
        f"the lengths of the lines of one file of {size / 1e9:.2f} GB, summed up",
        {"": "{}", "seconds": "{:.2f}", "MB/s": "{:.0f}", "over sc.textFile": "{:.2f} x", "spread": "{:.0%}"},
    )
    for name, one in taken.items():
        table.row(name, one.median, size / 1e6 / one.median, taken["sc.textFile"].median / one.median, one.spread)
    for how in ("", ", mapPartitions"):
        live = taken[f"LiveRunner{how}"].median
        bench.claim(f"lines{how}: LiveRunner over sc.textFile", taken[f"sc.textFile{how}"].median / live, at_least=3.5)
        bench.claim(f"lines{how}: LiveRunner over a bare loop", taken["bare loop"].median / live, at_least=0.8)

    elements = [("a", given.count), ("b", given.count)]

    def staged():
        result = sdf(elements, CountFn(), StagedRunner())
        count = result.count()
        result.unpersist()
        return count

    def compared(title, plain, elements, ways):
        """Show how fast each way counts; return the seconds of each."""
        taken = in_turn(ways, given.rounds)
        table = bench.table(
            title, {"": "{}", "seconds": "{:.2f}", "M/s": "{:.2f}", "over flatMap": "{:.2f} x", "spread": "{:.0%}"}
        )
        outputs = sum(count for _, count in elements)
        for name, one in taken.items():
            table.row(name, one.median, outputs / one.median / 1e6, taken[plain].median / one.median, one.spread)
        return {name: one.median for name, one in taken.items()}

    taken = compared(
        f"CountFn, 2 x {given.count:,} outputs, counted",
        "plain flatMap",
        elements,
        {
            "plain flatMap": lambda: sc.parallelize(elements, 2).flatMap(count_plainly).count(),
            "LiveRunner": lambda: sdf(elements, CountFn(), LiveRunner()).count(),
            "StagedRunner": staged,
        },
    )
    bench.claim("CountFn: LiveRunner over plain flatMap", taken["plain flatMap"] / taken["LiveRunner"], at_least=0.9)
    many = [(name, LONGER * count) for name, count in elements]  # so that the start of two jobs does not count
    taken = compared(
        f"CountFn with claims(), 2 x {LONGER * given.count:,} outputs, counted, beside a range without a tracker",
        "plain flatMap",
        many,
        {
            "plain flatMap": lambda: sc.parallelize(many, 2).flatMap(count_unsplit).count(),
            "LiveRunner": lambda: sdf(many, ClaimsFn(), LiveRunner()).count(),
        },
    )
    bench.claim(
        "claims(): LiveRunner over flatMap of a range", taken["plain flatMap"] / taken["LiveRunner"], at_least=0.9
    )
    bench.end()


if __name__ == "__main__":
    main()
