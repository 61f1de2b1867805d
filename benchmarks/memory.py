"""How much memory do workers and the driver need: for one text file of gigabytes, for a hundred thousand small ones?

The usual run is smaller, so that it ends within a minute. The full run is

    python benchmarks/memory.py --gigabytes 4 --files 100000
"""

import os
import tempfile

from harness import Bench, forget_peak, in_turn, peak_megabytes, write_lines

from sdf import LiveRunner, StagedRunner, run_sdf
from sdf.io import MatchFiles, ReadLines


def total_and_peak(lengths):
    """Add up a partition; give the sum and the worker's peak."""
    yield sum(lengths), peak_megabytes()


def write_many(folder, number):
    """Write files of one line, in a hundred directories."""
    for directory in range(100):
        os.makedirs(os.path.join(folder, str(directory)))
    for one in range(number):
        with open(os.path.join(folder, str(one % 100), f"{one}.txt"), "w") as file:
            file.write(f"{one}\n")


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--gigabytes", 1.0, quick=0.02)
    bench.option("--files", 20_000, quick=200)
    given = bench.begin()
    sc = bench.spark(2)
    table = bench.table("memory at most", {"": "{}", "s": "{:.1f}", "worker MB": "{:.0f}", "driver MB": "{:.0f}"})
    peaks, drivers = {}, {}

    def characters(path, name, runner):
        forget_peak()
        read = run_sdf(sc.parallelize([path], 1), ReadLines(), runner=runner)
        found = read.map(len).mapPartitions(total_and_peak).collect()
        read.unpersist()
        peaks[name] = max(peaks.get(name, 0.0), *(peak for _, peak in found))
        drivers[name] = max(drivers.get(name, 0.0), peak_megabytes())
        return sum(total for total, _ in found)

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "big.txt")
        write_lines(path, int(given.gigabytes * 1e9))
        runners = {"LiveRunner": LiveRunner(), "StagedRunner": StagedRunner()}
        taken = in_turn(
            {name: lambda name=name: characters(path, name, runners[name]) for name in runners},
            given.rounds,
            warm_up=False,
        )
        for name, one in taken.items():
            table.row(f"{given.gigabytes:g} GB, {name}", one.median, peaks[name], drivers[name])
        bench.claim(f"MB of a worker that reads {given.gigabytes:g} GB", max(peaks.values()), at_most=200)
        os.remove(path)
        many = os.path.join(folder, "many")
        write_many(many, given.files)
        forget_peak()

        def read_many():
            files = run_sdf(sc.parallelize([many], 1), MatchFiles(), runner=LiveRunner())
            total = run_sdf(files, ReadLines(), runner=LiveRunner()).map(int).sum()
            assert total == given.files * (given.files - 1) // 2
            return total

        taken = in_turn({"LiveRunner": read_many}, given.rounds, warm_up=False)
        table.row(f"{given.files:,} files, LiveRunner", taken["LiveRunner"].median, None, peak_megabytes())
        bench.claim(f"MB of the driver that reads {given.files:,} files", peak_megabytes(), at_most=1000)
    bench.end()


if __name__ == "__main__":
    main()
