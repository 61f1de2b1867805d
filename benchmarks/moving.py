"""How long does a saved run take on a cluster half of whose hosts go every minute, over the ideal of the slots there?

A standalone cluster on loopback addresses, one slot a host. On a seeded schedule half of the hosts go, each killed with
SIGKILL or decommissioned, and as many come. The work waits, so one machine is enough; half of it is one element.
The ideal: the time in which the slots that were there, by Spark's executor events, add up to the seconds of the work.
Also: how long after an executor came, by these events, Spark launched the first task there, a lane, and its first work
item began. What lies between the two is Spark's start of a first task: that of Python, and classes that the JVM loads.

    python benchmarks/moving.py
    python benchmarks/moving.py --quick
"""

import json
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from harness import Bench
from standalone import Standalone, wait_for_slots

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, save_sdf
from sdf.sinks import JsonLinesFiles
from sdf.spark.jobs import slot_counter

BLOCK_SECONDS = 0.05
APART_SECONDS = 3.0  # or the JVMs of hosts that come together share the cores of this one machine while they start
MOST_WAIT_SECONDS = 2.0  # of an executor that has come, for work


class WaitFn(DoFn):
    """Element: its name and a number of blocks. The first work item on each host tells when it began, by a file."""

    def __init__(self, folder):
        self.folder = folder

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        with suppress(FileExistsError):  # it is not the first on this host
            Path(self.folder, os.environ["SPARK_LOCAL_IP"]).touch(exist_ok=False)
        for i in tracker.claims():
            time.sleep(BLOCK_SECONDS)
            yield {"element": element[0], "block": i}


class Schedule(threading.Thread):
    """Until it is told to stop: every so many seconds half of the hosts go, and as many come."""

    def __init__(self, cluster, seed, every_seconds, most_times):
        super().__init__(daemon=True)
        self.cluster, self.every_seconds, self.most_times = cluster, every_seconds, most_times
        self.random = random.Random(seed)
        self.ended = threading.Event()
        self.counts = Counter()

    def run(self):
        for _ in range(self.most_times):
            if self.ended.wait(self.every_seconds):
                return
            hosts = self.cluster.present()
            for host in self.random.sample(hosts, len(hosts) // 2):
                what = self.random.choice(["killed", "decommissioned"])
                self.cluster.kill(host) if what == "killed" else self.cluster.decommission(host)
                self.counts[what] += 1
                self.cluster.add()
                self.counts["added"] += 1
                self.ended.wait(APART_SECONDS)

    def stop(self):
        self.ended.set()
        self.join()


def elements_of(seconds):
    """Return elements of so many seconds of waiting: a giant of half of them, and small ones."""
    blocks = round(seconds / BLOCK_SECONDS)
    small = blocks // 2 // 40
    return [("giant", blocks - 40 * small), *((str(number), small) for number in range(40))]


def executors_of(sc):
    """Return of each executor, by Spark's events: its host, when it came and went (None: it is there), its slots."""
    listed = sc._jsc.sc().statusStore().executorList(False)
    found = []
    for executor in (listed.apply(number) for number in range(listed.size())):
        if executor.id() != "driver":
            gone = executor.removeTime().get().getTime() / 1000 if executor.removeTime().isDefined() else None
            host = executor.hostPort().partition(":")[0]
            found.append((host, executor.addTime().getTime() / 1000, gone, executor.totalCores()))
    return found


def ideal_seconds(executors, work_seconds, began):
    """Return when the slots that were there add up to the seconds of the work."""
    changes = []
    for _, came, gone, cores in executors:
        changes.append((max(0.0, came - began), cores))
        if gone is not None:
            changes.append((max(0.0, gone - began), -cores))
    done, slots, before = 0.0, 0, 0.0
    for at, change in sorted(changes):
        if done + slots * (at - before) >= work_seconds:
            break
        done, slots, before = done + slots * (at - before), slots + change, at
    return before + (work_seconds - done) / slots


def first_work(executors, folder, ended):
    """Return of each executor that came during the run how long after that it got a task, and its work began.

    Both are None if that never happened. Executors are left out that came before any work had begun, or were there for
    less than two seconds of the run.
    """
    began = {path.name: path.stat().st_mtime for path in Path(folder, "work").iterdir()}
    launched = {}
    (events,) = Path(folder, "events").iterdir()
    for line in events.open():
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskStart":
            launched.setdefault(event["Task Info"]["Host"], event["Task Info"]["Launch Time"] / 1000)
    return [
        tuple(None if host not in found else found[host] - came for found in (launched, began))
        for host, came, gone, _ in executors
        if came > min(began.values()) and min(ended, gone or ended) - came >= MOST_WAIT_SECONDS
    ]


def measure(runner, hosts, seconds, every_seconds, seed, folder):
    """Run it once.

    Returns:
        The makespan, the ideal, what happened to hosts, how long each that came waited for work, and the report.
    """
    with Standalone(folder) as cluster:
        for _ in range(hosts):
            cluster.add()
        Path(folder, "events").mkdir()
        log = {"enabled": "true", "dir": f"{folder}/events", "compress": "false", "rolling_enabled": "false"}
        sc = cluster.context(1, **{f"spark_eventLog_{name}": value for name, value in log.items()})
        try:
            wait_for_slots(slot_counter(sc), hosts)
            elements = elements_of(hosts * seconds)
            schedule = Schedule(cluster, seed, every_seconds, round(seconds / every_seconds))
            schedule.start()
            began = time.time()
            out, work = f"{folder}/out", Path(folder, "work")
            work.mkdir()
            try:
                summary = save_sdf(
                    sc.parallelize(elements, 4), WaitFn(str(work)), JsonLinesFiles(out), runner=runner, commit_seconds=3
                )
            finally:
                schedule.stop()
            makespan = time.time() - began
            executors = executors_of(sc)
            ideal = ideal_seconds(executors, sum(blocks for _, blocks in elements) * BLOCK_SECONDS, began)
            check(out, elements)
        finally:
            sc.stop()
        waited = first_work(executors, folder, began + makespan)
        return makespan, ideal, schedule.counts, waited, summary.report


def check(out, elements):
    """Raise AssertionError unless each block was saved once."""
    lines = (json.loads(line) for path in Path(out).rglob("*.jsonl*") for line in path.open())
    saved = Counter((row["element"], row["block"]) for row in lines)
    assert saved == {(name, i): 1 for name, blocks in elements for i in range(blocks)}, "not exactly once"


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--hosts", 4)
    bench.option("--seconds", 300, quick=30)
    bench.option("--every-seconds", 60, quick=10)
    bench.option("--seed", 1)
    given = bench.begin()
    table = bench.table(
        f"{given.hosts} hosts of one slot, {given.seconds} s of waiting each, half go every {given.every_seconds} s",
        {
            "runner": "{}", "s": "{:.1f}", "ideal": "{:.1f}", "of the ideal": "{:.2f}", "hosts": "{}",
            "lost s": "{:.1f}", "came": "{}", "without work": "{}", "task after s, median": "{:.2f}",
            "at most": "{:.2f}", "work after s, median": "{:.2f}", "at most ": "{:.2f}",
        },
    )  # fmt: skip
    taken = {}
    for runner in (LiveRunner(), StagedRunner()):
        folder, name = tempfile.mkdtemp(prefix="moving"), type(runner).__name__
        try:
            seconds, ideal, counts, waited, report = measure(
                runner, given.hosts, given.seconds, given.every_seconds, given.seed, folder
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        taken[name] = seconds / ideal
        hosts = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
        given_task, worked = ([each[kind] for each in waited if each[1] is not None] for kind in (0, 1))
        table.row(
            name, seconds, ideal, taken[name], hosts, report.lost_seconds, len(waited), len(waited) - len(worked),
            *(figure for some in (given_task, worked) for figure in (statistics.median(some), max(some))),
        )  # fmt: skip
        if isinstance(runner, LiveRunner):
            bench.claim(
                "moving cluster: LiveRunner, executors that came and got no work", len(waited) - len(worked), at_most=0
            )
            bench.claim(
                "moving cluster: LiveRunner, s until an executor got a lane", max(given_task), at_most=MOST_WAIT_SECONDS
            )
        print(report, flush=True)
    bench.claim("moving cluster: LiveRunner over the ideal", taken["LiveRunner"], at_most=1.3)
    bench.end()


if __name__ == "__main__":
    main()
