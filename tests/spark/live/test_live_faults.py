"""Many runs on real executors while Python workers and executors are killed at random moments."""

import os
import random
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from support.fns import SlowCountFn, expected

from sdf import LiveRunner, run_sdf


def descendants(pid):
    """Return the command line of each process below ``pid``, by process id; nothing else is ever killed."""
    parents, commands = {}, {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_text()
                commands[int(entry.name)] = Path(entry.path, "cmdline").read_text()
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended
    below = {pid}
    for _ in range(6):
        below |= {child for child, parent in parents.items() if parent in below}
    return {child: commands[child] for child in below - {pid}}


class Killer(threading.Thread):
    """Kills a Python worker or an executor now and then, until it is told to stop."""

    def __init__(self, sc, seed):
        super().__init__(daemon=True)
        self.random = random.Random(seed)
        self.jvm = sc._gateway.proc.pid
        self.ended = threading.Event()
        self.killed = Counter()

    def run(self):
        while not self.ended.wait(self.random.uniform(0.1, 1.5)):
            kind = self.random.choices(["pyspark.daemon", "CoarseGrainedExecutorBackend"], [3, 1])[0]
            if self.killed.total() < 4 and self.killed["CoarseGrainedExecutorBackend"] < 2:
                self.kill(kind)

    def kill(self, kind):
        found = [pid for pid, command in descendants(self.jvm).items() if kind in command]
        if found:
            os.kill(self.random.choice(found), signal.SIGKILL)
            self.killed[kind] += 1


FAULTS = ("pyspark.daemon", "CoarseGrainedExecutorBackend", "splits", "retries", "replays")


@pytest.mark.parametrize("runs", [3, pytest.param(32, marks=pytest.mark.soak)])
def test_every_record_once_whatever_is_killed_when(start_spark, runs):
    """The same multiset in each run, and a second action gives the same lists while more is killed."""
    sc = start_spark("local-cluster[3,1,1024]", spark_task_maxFailures="40", spark_deploy_maxExecutorRetries="-1")
    counts = Counter()
    for seed in range(4 * runs):
        if seed >= runs and min(counts[happened] for happened in FAULTS) >= runs // 10 + 1:
            break  # where chance left something out, more runs bring it
        draw = random.Random(seed)
        elements = [
            ("big", draw.randint(300, 800)),
            *((str(n), draw.randint(0, 9)) for n in range(draw.randint(0, 25))),
        ]
        result = run_sdf(
            sc.parallelize(elements),
            SlowCountFn(),
            runner=LiveRunner(lanes=draw.choice([2, 3, 3, 5]), patience_seconds=2),
        )
        planned = result.report.splits
        killer = Killer(sc, seed)
        killer.start()
        try:
            first = result.collect()
            splits = result.report.splits - planned
            second = result.collect()
        finally:
            killer.ended.set()
            killer.join()
        assert Counter(first) == expected(elements), f"seed {seed}"
        assert second == first, f"seed {seed}"
        counts.update(killer.killed)
        counts.update(runs=1, splits=splits, retries=result.report.retries, replays=result.report.replays)
    print(dict(counts))
    for happened in FAULTS:
        assert counts[happened] >= runs // 10 + 1, counts  # it is few on a machine that is busy
