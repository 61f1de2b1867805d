"""How much memory do workers and the driver need: for one text file of gigabytes, for a hundred thousand small ones?

python benchmarks/memory.py [--gigabytes 4] [--files 100000]
"""

import argparse
import os
import platform
import resource
import sys
import tempfile
import time

from pyspark import SparkConf, SparkContext

from sdf import LiveRunner, StagedRunner, run_sdf
from sdf.io import MatchFiles, ReadLines


def peak_megabytes():
    """Return the most memory that this process had resident so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def total_and_peak(lengths):
    """Add up a partition; give the sum and the worker's peak."""
    yield sum(lengths), peak_megabytes()


def write_lines(path, size):
    """Write lines of 0 to 199 characters, about ``size`` bytes."""
    lines = b"".join(b"x" * (number * 7919 % 200) + b"\n" for number in range(10_000))
    with open(path, "wb") as file:
        for _ in range(-(-size // len(lines))):
            file.write(lines)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--gigabytes", type=float, default=4.0)
    options.add_argument("--files", type=int, default=100_000)
    options = options.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster("local[2]").setAppName("memory")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, Spark {sc.version}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "big.txt")
        write_lines(path, int(options.gigabytes * 1e9))
        for name, runner in (("LiveRunner", LiveRunner()), ("StagedRunner", StagedRunner())):
            began = time.perf_counter()
            read = run_sdf(sc.parallelize([path], 1), ReadLines(), runner=runner)
            found = read.map(len).mapPartitions(total_and_peak).collect()
            seconds = time.perf_counter() - began
            read.unpersist()
            print(
                f"one file of {os.path.getsize(path) / 1e9:.1f} GB, {name}: "
                f"{sum(total for total, _ in found):,} characters in {seconds:.1f} s, "
                f"workers at most {max(peak for _, peak in found):.0f} MB",
                flush=True,
            )
        os.remove(path)
        before = peak_megabytes()
        many = os.path.join(folder, "many")
        for number in range(options.files):
            directory = os.path.join(many, str(number % 100))
            os.makedirs(directory, exist_ok=True)
            with open(os.path.join(directory, f"{number}.txt"), "w") as file:
                file.write(f"{number}\n")
        began = time.perf_counter()
        files = run_sdf(sc.parallelize([many], 1), MatchFiles(), runner=LiveRunner())
        lines = run_sdf(files, ReadLines(), runner=LiveRunner())
        assert lines.map(int).sum() == options.files * (options.files - 1) // 2
        seconds = time.perf_counter() - began
        print(
            f"{options.files:,} files of one line, LiveRunner: {seconds:.1f} s, "
            f"driver at most {peak_megabytes():.0f} MB, {before:.0f} MB before"
        )
    sc.stop()


if __name__ == "__main__":
    main()
