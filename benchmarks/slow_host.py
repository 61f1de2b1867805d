"""How long does a run take with one of four workers made five times slower, over the ideal that the speeds allow?

The worker process is stopped (SIGSTOP) and continued (SIGCONT) in turns. The work waits in steps of a few milliseconds,
so one machine is enough. Each record tells which process gave it, and when. From that come the real speed of each
worker, in blocks per second of its blocks, and the ideal: all blocks / the sum of the speeds.
"""

import os
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from harness import Bench

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_sdf

STEPS, STEP_SECONDS = 10, 0.005  # of a block; short steps, as one that ends while its process is stopped is not late
TURN_SECONDS = 0.1  # a stop and a go


class WaitFn(DoFn):
    """Element: its name and a number of blocks. Each process tells its id by a file in ``folder``."""

    def __init__(self, folder):
        self.folder = folder

    def setup(self):
        Path(self.folder, str(os.getpid())).touch()

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for i in tracker.claims():
            began = time.time()
            for _ in range(STEPS):
                time.sleep(STEP_SECONDS)
            yield element[0], i, os.getpid(), began, time.time()


class Slow(threading.Thread):
    """Makes the process that has the lowest id of those in a folder slower, until the end of a with statement."""

    def __init__(self, folder, workers, times):
        super().__init__(daemon=True)
        self.folder, self.workers, self.times = folder, workers, times
        self.pid = None
        self.ended = threading.Event()

    def run(self):
        while len(pids := sorted(int(path.name) for path in Path(self.folder).iterdir())) < self.workers:
            if self.ended.wait(0.01):
                return
        self.pid = pids[0]
        stopped = TURN_SECONDS * (1 - 1 / self.times)
        while not self.ended.is_set():
            try:
                if stopped > 0:
                    os.kill(self.pid, signal.SIGSTOP)
                    self.ended.wait(stopped)
                    os.kill(self.pid, signal.SIGCONT)
            except ProcessLookupError:
                return  # Spark has replaced it
            self.ended.wait(TURN_SECONDS - stopped)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


def speeds_of(records):
    """Return the blocks per second of each process while it ran blocks."""
    blocks, seconds = Counter(), Counter()
    for _, _, pid, began, ended in records:
        blocks[pid] += 1
        seconds[pid] += ended - began
    return {pid: blocks[pid] / seconds[pid] for pid in blocks}


def measure(sc, runner, elements, slots, times):
    """Run it once.

    Returns:
        The seconds, the ideal, how many times slower the slow worker was than the median of the others, its
        process id, the report.
    """
    with tempfile.TemporaryDirectory(prefix="slow") as folder:
        with Slow(folder, slots, times) as slow:
            began = time.perf_counter()
            result = run_sdf(sc.parallelize(elements, slots), WaitFn(folder), runner=runner)
            records = result.collect()
            seconds = time.perf_counter() - began
        blocks = Counter((name, i) for name, i, *_ in records)
        assert blocks == {(name, i): 1 for name, number in elements for i in range(number)}, "not exactly once"
        speeds = speeds_of(records)
        assert slow.pid is not None, "no worker was slow"
        others = statistics.median(speed for pid, speed in speeds.items() if pid != slow.pid)
        slower = others / speeds[slow.pid] if slow.pid in speeds else float("inf")
        print(f"blocks a second: {', '.join(f'{speed:.1f}' for speed in sorted(speeds.values()))}", flush=True)
        return seconds, len(records) / sum(speeds.values()), slower, slow.pid, result.report


def named(report, pid):
    """Return 1 if the report names the slow worker, and nobody else, as slow."""
    return int([host.name.rpartition("/")[2] for host in report.slow_hosts] == [str(pid)])


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--slots", 4)
    bench.option("--seconds", 20, quick=3)
    bench.option("--times", 5)
    bench.option("--runners", ["live", "staged"])
    given = bench.begin()
    sc = bench.spark(given.slots)
    table = bench.table(
        f"{given.slots} workers, one {given.times} times slower; {given.seconds} s of waiting a slot",
        {"run": "{}", "s": "{:.1f}", "ideal": "{:.1f}", "of the ideal": "{:.2f}", "slower": "{:.1f}", "splits": "{:d}"},
    )
    blocks = round(given.slots * given.seconds / STEPS / STEP_SECONDS)
    kinds = {
        "one element": [("giant", blocks)],
        "200 elements": [(str(number), blocks // 200) for number in range(200)],
    }
    runners = [{"live": LiveRunner, "staged": StagedRunner}[name]() for name in given.runners]
    for runner in runners:  # starts the workers, which import what they need
        measure(sc, runner, [("warm-up", given.slots * STEPS)], given.slots, 1)
    for runner in runners:
        for kind, elements in kinds.items():
            name = f"{type(runner).__name__}, {kind}"
            for _ in range(given.rounds):
                seconds, ideal, slower, pid, report = measure(sc, runner, elements, given.slots, given.times)
                table.row(name, seconds, ideal, seconds / ideal, slower, report.splits)
                print(report, flush=True)
                if isinstance(runner, LiveRunner):
                    bench.claim(f"{name}: over the ideal", seconds / ideal, at_most=1.15)
                    bench.claim(f"{name}: slow hosts named", named(report, pid), at_least=1)
    bench.end()


if __name__ == "__main__":
    main()
