"""How long does a saved run take on a cluster half of whose hosts go every minute, over the ideal of the slots there?

A standalone cluster on loopback addresses, one slot a host. On a seeded schedule half of the hosts go, each killed with
SIGKILL or decommissioned, and as many come. The work waits, so one machine is enough; half of it is one element.
The ideal: the time in which the slots that were there, by Spark's executor events, add up to the seconds of the work.
"""

import json
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from harness import Bench
from standalone import Standalone, wait_for_slots

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, save_sdf
from sdf.sinks import JsonLinesFiles
from sdf.spark.jobs import slot_counter

BLOCK_SECONDS = 0.05


class WaitFn(DoFn):
    """Element: its name and a number of blocks."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
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

    def stop(self):
        self.ended.set()
        self.join()


def elements_of(seconds):
    """Return elements of so many seconds of waiting: a giant of half of them, and small ones."""
    blocks = round(seconds / BLOCK_SECONDS)
    small = blocks // 2 // 40
    return [("giant", blocks - 40 * small), *((str(number), small) for number in range(40))]


def ideal_seconds(sc, work_seconds, began):
    """Return when the slots that were there add up to the seconds of the work, by Spark's executor events."""
    changes = []
    executors = sc._jsc.sc().statusStore().executorList(False)
    for executor in (executors.apply(number) for number in range(executors.size())):
        if executor.id() != "driver":
            changes.append((max(0.0, executor.addTime().getTime() / 1000 - began), executor.totalCores()))
            if executor.removeTime().isDefined():
                gone = max(0.0, executor.removeTime().get().getTime() / 1000 - began)
                changes.append((gone, -executor.totalCores()))
    done, slots, before = 0.0, 0, 0.0
    for at, change in sorted(changes):
        if done + slots * (at - before) >= work_seconds:
            break
        done, slots, before = done + slots * (at - before), slots + change, at
    return before + (work_seconds - done) / slots


def measure(runner, hosts, seconds, every_seconds, seed, folder):
    """Run it once.

    Returns:
        The makespan, the ideal, what happened to hosts, and the report.
    """
    with Standalone(folder) as cluster:
        for _ in range(hosts):
            cluster.add()
        sc = cluster.context(1)
        try:
            wait_for_slots(slot_counter(sc), hosts)
            elements = elements_of(hosts * seconds)
            schedule = Schedule(cluster, seed, every_seconds, round(seconds / every_seconds))
            schedule.start()
            began = time.time()
            out = f"{folder}/out"
            try:
                summary = save_sdf(
                    sc.parallelize(elements, 4), WaitFn(), JsonLinesFiles(out), runner=runner, commit_seconds=3
                )
            finally:
                schedule.stop()
            makespan = time.time() - began
            ideal = ideal_seconds(sc, sum(blocks for _, blocks in elements) * BLOCK_SECONDS, began)
            check(out, elements)
        finally:
            sc.stop()
        return makespan, ideal, schedule.counts, summary.report


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
        {"runner": "{}", "s": "{:.1f}", "ideal": "{:.1f}", "of the ideal": "{:.2f}", "hosts": "{}", "lost s": "{:.1f}"},
    )
    taken = {}
    for runner in (LiveRunner(), StagedRunner()):
        folder, name = tempfile.mkdtemp(prefix="moving"), type(runner).__name__
        try:
            seconds, ideal, counts, report = measure(
                runner, given.hosts, given.seconds, given.every_seconds, given.seed, folder
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        taken[name] = seconds / ideal
        hosts = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
        table.row(name, seconds, ideal, taken[name], hosts, report.lost_seconds)
        print(report, flush=True)
    bench.claim("moving cluster: LiveRunner over the ideal", taken["LiveRunner"], at_most=1.3)
    bench.end()


if __name__ == "__main__":
    main()
