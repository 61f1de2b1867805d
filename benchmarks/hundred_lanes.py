"""Does a hundred real lanes take what the simulation of a hundred lanes says, in time and in CPU of the driver?

25 executors of 4 slots on this machine, whose work waits. Then the same blocks in the simulation, each as long as a
real one took on average. The makespan is from the first lane that connected to the last that ended. The CPU is of the
coordinator's thread. A decision takes longer there than in the simulation, which makes one after the other: messages
come one by one, the thread sleeps in between, and other processes have the caches meanwhile. ``--wake-us`` is what that
costs a message; its default is from runs with 12 lanes on a quiet machine.

    python benchmarks/hundred_lanes.py
    python benchmarks/hundred_lanes.py --executors 3 --seconds 10
"""

import itertools
import os
import random
import sys
import threading
import time
from pathlib import Path

from harness import Bench
from simulated import Overheads, Ranges
from simulated_live import LiveSimulation

from sdf import DoFn, LiveRunner, OffsetRange, run_sdf

BLOCK_SECONDS = 0.05
ALPHA = 1.5  # of the Pareto distribution of the elements' sizes
OVERHEADS = {"job_seconds": 0.08, "stage_seconds": 0.022, "launch_seconds": 0.25e-3, "restart_seconds": 5.0}
MESSAGE_SECONDS = 1e-3


class WaitFn(DoFn):
    """Element: a range of blocks. Each waits; gives how long that took."""

    def get_initial_restriction(self, element):
        return OffsetRange(*element)

    def process(self, element, tracker):
        for _ in tracker.claims():
            began = time.perf_counter()
            time.sleep(BLOCK_SECONDS)
            yield time.perf_counter() - began


def elements_of(lanes, number, seconds):
    """Return ranges of blocks that follow each other, of sizes with a Pareto distribution."""
    choose = random.Random(lanes)
    raw = [choose.paretovariate(ALPHA) for _ in range(number)]
    scale = lanes * seconds / BLOCK_SECONDS / sum(raw)
    sizes = [max(1, round(scale * size)) for size in raw]
    return list(itertools.pairwise([0, *itertools.accumulate(sizes)]))


def start(executors, executor_slots):
    """Return a SparkContext whose executors, and their workers, are there."""
    from pyspark import SparkConf, SparkContext

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(f"local-cluster[{executors},{executor_slots},512]").setAppName("hundred lanes")
    conf.set("spark.executor.memory", "512m").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false")
    conf.set("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    conf.set("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    slots = executors * executor_slots

    def import_all(_):
        from sdf.spark.live import link  # noqa: F401, the lanes need it

        time.sleep(2.0)  # so that each slot gets one
        yield os.getpid()

    while len(set(sc.parallelize(range(slots), slots).mapPartitions(import_all).collect())) < slots:
        pass
    return sc


def coordinator_seconds():
    """Return the CPU seconds of the coordinator's thread so far; 0.0 before there is one."""
    threads = [thread for thread in threading.enumerate() if thread.name == "sdf-coordinator"]
    ticks = [Path(f"/proc/self/task/{each.native_id}/stat").read_text().rpartition(")")[2].split() for each in threads]
    return sum(int(each[11]) + int(each[12]) for each in ticks) / os.sysconf("SC_CLK_TCK")


def real(sc, elements, lanes):
    """Return the makespan, the mean seconds of a block, the coordinator's CPU seconds, and the report."""
    result = run_sdf(sc.parallelize(elements, 8), WaitFn(), runner=LiveRunner(lanes=lanes))
    before = coordinator_seconds()
    count, total = result.map(lambda seconds: (1, seconds)).reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]))
    cpu = coordinator_seconds() - before
    assert count == elements[-1][1], "not each block once"
    return result.report.seconds, total / count, cpu, result.report


def simulated(elements, lanes, block_seconds, wake_seconds):
    """Return the makespan, the CPU seconds of the driver, how many messages there were, and of splits."""
    overheads = Overheads(message_seconds=MESSAGE_SECONDS, wake_seconds=wake_seconds, **OVERHEADS)
    world = Ranges(lanes, [block_seconds] * elements[-1][1], elements, overheads)
    simulation = LiveSimulation(world)
    before, cpu = simulation.driver.free, simulation.driver.seconds
    makespan = simulation.run() - before
    return makespan, simulation.driver.seconds - cpu, simulation.sent, simulation.work.splits


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--executors", 25, quick=2)
    bench.option("--executor-slots", 4)
    bench.option("--elements", 20, help="per lane")
    bench.option("--seconds", 60.0, quick=5.0, help="of work per lane")
    bench.option("--wake-us", 125.0, above=-1e-9, help="of CPU, of a message that finds the coordinator asleep")
    given = bench.begin()
    lanes = given.executors * given.executor_slots
    elements = elements_of(lanes, lanes * given.elements, given.seconds)
    table = bench.table(
        f"{lanes} lanes, {len(elements):,} elements, {elements[-1][1]:,} blocks of {BLOCK_SECONDS * 1e3:g} ms",
        {
            "lanes": "{}", "s": "{:.2f}", "ideal": "{:.2f}", "over ideal": "{:.3f}", "splits": "{:,}",
            "messages": "{:,}", "driver": "{:.2f} s",
        },
    )  # fmt: skip
    sc = start(given.executors, given.executor_slots)
    real(sc, [(0, 4 * lanes)], lanes)  # the workers import what they need
    for _ in range(given.rounds):
        seconds, block_seconds, cpu, report = real(sc, elements, lanes)
        ideal = elements[-1][1] * block_seconds / lanes
        table.row("real", seconds, ideal, seconds / ideal, report.splits, None, cpu)
        said, decided, sent, splits = simulated(elements, lanes, block_seconds, given.wake_us / 1e6)
        table.row("simulated", said, ideal, said / ideal, splits, sent, decided)
        bench.claim("real makespan over the simulated one", seconds / said, at_least=0.9, at_most=1.1)
        bench.claim("real CPU of the driver over the simulated one", cpu / decided, at_least=0.9, at_most=1.1)
    sc.stop()
    bench.end()


if __name__ == "__main__":
    main()
