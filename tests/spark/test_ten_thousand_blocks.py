"""10,000 blocks of which 30 raise, 5 kill their process and 2 hang: real runs, on every kind of master."""

import itertools
import json
import math
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from sdf import DoFn, OffsetRange, Quarantine, save_sdf
from sdf.sinks import JsonLinesFiles
from sdf.spark.jobs import slot_counter

pytestmark = pytest.mark.soak

BLOCKS = 10_000
BLOCK_SECONDS = 2.0
KILLS = ["exits", "is killed", "crashes"]
ELEMENTS = {0: 1, 1: 7, 2: 200}  # by seed, how many elements the blocks belong to
SETTINGS = {
    "spark_default_parallelism": None,
    "spark_excludeOnFailure_enabled": "true",  # not there on local[N], where one failed task ends a job
}


class SomeBadFn(DoFn):
    """Element: its name, and its first and last block. Some blocks do what ``bad`` says, and note that they ran.

    Args:
        noted: a file; gets a line from each bad block that is run.
        bad: what each bad block does, by its number.
    """

    def __init__(self, noted, bad):
        self.noted, self.bad = str(noted), bad

    def get_initial_restriction(self, element):
        return OffsetRange(*element[1:])

    def process(self, element, tracker):
        for block in tracker.claims():
            what = self.bad.get(block)
            if what is not None:
                with open(self.noted, "a") as file:  # a short line is written at once
                    file.write(f"{what}\n")
            if what == "raises":
                raise ValueError(f"cannot read {block}")
            if what == "exits":
                os._exit(7)
            if what == "is killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "crashes":
                os.kill(os.getpid(), signal.SIGSEGV)
            if what == "hangs":
                time.sleep(600)
            yield {"element": element[0], "block": block}


@pytest.fixture(scope="module", params=["local[2]", "local-cluster[2,2,1024]", "standalone"])
def cluster(request, start_spark, tmp_path_factory):
    """A context of two slots in this process, or of two executors with two slots each."""
    from standalone import Standalone, wait_for_slots  # of the benchmarks, which the workers cannot import

    start_spark("local[1]")  # the JVM keeps the settings of its first context
    if request.param != "standalone":
        sc = start_spark(request.param, **SETTINGS)
        wait_for_slots(slot_counter(sc), 2 if request.param == "local[2]" else 4)
        yield sc
        return
    of_executors = {"spark_driver_host": "127.0.0.1", "spark_executor_cores": "2", "spark_executor_memory": "512m"}
    with Standalone(tmp_path_factory.mktemp("cluster")) as standalone:
        for _ in range(2):
            standalone.add(cores=2)
        try:
            sc = start_spark(standalone.master, **of_executors, **SETTINGS)
            wait_for_slots(slot_counter(sc), 4)
            yield sc
        finally:
            start_spark("local[1]")  # before the cluster is gone


def executors_of(sc):
    """Return what Spark knows of its executors, of those that are gone, too."""
    found = sc._jsc.sc().statusStore().executorList(False)
    return [found.apply(number) for number in range(found.size())]


@pytest.mark.parametrize("seed", ELEMENTS)
def test_the_bad_blocks_are_set_aside_and_all_others_are_saved_once(cluster, seed, tmp_path):
    """With about k * (log2 n + 1) runs of work that failed, at most; none of them is a failed task to Spark."""
    chance = random.Random(seed)
    places = chance.sample(range(BLOCKS), 37)
    bad = dict.fromkeys(places[:30], "raises") | {place: chance.choice(KILLS) for place in places[30:35]}
    bad |= dict.fromkeys(places[35:], "hangs")
    bounds = [0, *sorted(chance.sample(range(1, BLOCKS), ELEMENTS[seed] - 1)), BLOCKS]
    elements = [(str(number), *pair) for number, pair in enumerate(itertools.pairwise(bounds))]
    failed_before = sum(executor.failedTasks() for executor in executors_of(cluster))

    began = time.monotonic()
    summary = save_sdf(
        cluster.parallelize(elements, 4),
        SomeBadFn(tmp_path / "noted", bad),
        JsonLinesFiles(str(tmp_path / "out")),
        on_failure=Quarantine(block_seconds=BLOCK_SECONDS),
        commit_seconds=5.0,
    )
    seconds = time.monotonic() - began

    executors = executors_of(cluster)
    failed_tasks = sum(executor.failedTasks() for executor in executors) - failed_before
    runs = Counter((tmp_path / "noted").read_text().split("\n")[:-1])
    print(
        f"{cluster.master.replace('spark://', 'standalone ')}, seed {seed}: {seconds:.1f} s, "
        f"{summary.records:,} records of {len(elements)} elements, {len(summary.failures)} blocks set aside; "
        f"{runs.total()} runs of work that failed ({', '.join(f'{count} {what}' for what, count in runs.items())}); "
        f"{failed_tasks} tasks that failed to Spark"
    )
    names = {block: name for name, start, stop in elements for block in range(start, stop)}
    aside = sorted((block.element[0], *block.restriction) for block in summary.failures)
    assert aside == sorted((names[block], block, block + 1) for block in bad)
    lines = (json.loads(line) for path in Path(tmp_path, "out").rglob("*.jsonl") for line in path.open())
    saved = Counter((line["element"], line["block"]) for line in lines)
    assert saved == {(names[block], block): 1 for block in range(BLOCKS) if block not in bad}
    assert summary.records == BLOCKS - len(bad)
    assert {*runs} == {*bad.values()}
    assert runs.total() <= len(bad) * (math.log2(BLOCKS) + 1)
    assert failed_tasks == 0
    assert not any(executor.isExcluded() or not executor.isActive() for executor in executors)
