"""Thousands of elements in tables on real executors, while these and Python workers are killed.

What happened is counted. Some elements turn out dear, so that rows are cut inside, and some defer.
"""

import random
import time
from collections import Counter

import pytest
from support.fns import CountFn, expected
from support.killing import Killer, lose_blocks
from support.warm import PLAIN

from sdf import LiveRunner, StagedRunner, run_sdf
from sdf.execution.work_items import DEFERRED
from sdf.spark.jobs import slot_counter

RUNNERS = [StagedRunner(), LiveRunner(patience_seconds=2)]
every_runner = pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: type(runner).__name__)
DAEMON, EXECUTOR = "pyspark.daemon", "CoarseGrainedExecutorBackend"
TRIES = {"spark_task_maxFailures": "40", "spark_deploy_maxExecutorRetries": "-1"}
SPECULATES = {
    "spark_speculation": "true", "spark_speculation_interval": "100ms", "spark_speculation_multiplier": "1.1",
    "spark_speculation_quantile": "0.1", "spark_speculation_minTaskRuntime": "200ms",
}  # fmt: skip


class UnevenFn(CountFn):
    """Most elements take half a millisecond, dear ones two seconds, and twice that in the first attempt at a task.

    Some defer, or do not, each time that they run: the records are the same.
    """

    def process(self, element, tracker):
        from pyspark import TaskContext

        name, _ = element
        seconds = 0.0005
        if "dear" in name:
            seconds = 0.1 if TaskContext.get().attemptNumber() else 0.2
        for i in range(*tracker.current_restriction()):
            if "defers" in name and random.random() < 0.3:
                tracker.defer_remainder(0.02)
                return
            if not tracker.try_claim(i):
                return
            time.sleep(seconds)
            yield name, i


def elements_of(draw, thousands):
    """Return so many thousand elements, some of which are dear or defer, at places drawn at random."""
    kinds = [*["dear", *["defers"] * 7, *[""] * 3992] * (thousands // 4)]
    sizes = {"dear": 20, "defers": 4}
    draw.shuffle(kinds)
    return [(f"{number} {kind}", sizes.get(kind, number % 3)) for number, kind in enumerate(kinds)]


def tasks_of(sc):
    """Count the tasks that failed and those that were copies, of all jobs so far."""
    sc._jsc.sc().listenerBus().waitUntilEmpty()
    store, counts = sc._jsc.sc().statusStore(), Counter()
    jobs = store.jobsList(None)
    stages = {jobs.apply(job).stageIds().apply(0) for job in range(jobs.size())}
    for stage in stages:
        tasks = store.taskList(stage, 0, 100_000)
        for task in map(tasks.apply, range(tasks.size())):
            counts["failed tasks"] += task.status() == "FAILED"
            counts["copies"] += task.speculative()
    return counts


def run_once(sc, runner, seed, pids, thousands):
    """Run two actions while something is killed now and then; return what happened."""
    draw = random.Random(seed)
    elements = elements_of(draw, thousands)
    killer, before, counts = Killer(pids, seed), tasks_of(sc), Counter(runs=1)
    killer.start()
    try:
        result = run_sdf(sc.parallelize(elements, draw.choice([1, 3, 8])), UnevenFn(), runner=runner)
        first = result.collect()
        counts["lost blocks"] = lose_blocks(sc)  # of StagedRunner
        second = result.collect()
    finally:
        killer.ended.set()
        killer.join()
    assert Counter(first) == expected(elements), f"seed {seed}"
    assert Counter(second) == expected(elements), f"seed {seed}"
    assert second == first or isinstance(runner, StagedRunner), f"seed {seed}"
    report = result.report
    assert (report.elements, report.records) == (len(elements), len(first)), f"seed {seed}"
    counts.update(killer.killed)
    counts.update(tasks_of(sc) - before)
    counts["dear rows cut"] = sum("dear" in name for name, _ in report.split_elements)
    counts["deferred"] = sum(piece.origin == DEFERRED for piece in report.pieces)
    result.unpersist()
    return counts


def run_until(sc, runner, seeds, pids, happened, *, thousands=20):
    """Run some seeds, and more where chance left something out."""
    counts = Counter()
    for seed in range(1, 3 * seeds + 1):
        if seed > seeds and all(counts[what] for what in happened):
            break
        counts.update(run_once(sc, runner, seed, pids, thousands))
    print(f"{type(runner).__name__}: {dict(counts)}")
    assert [what for what in happened if not counts[what]] == [], counts


@pytest.fixture(scope="module")
def cluster(start_spark):
    """Two executors of two slots."""
    start_spark("local[1]")  # the JVM keeps the settings of its first context
    return start_spark("local-cluster[2,2,1024]", **TRIES, **PLAIN)


@every_runner
@pytest.mark.parametrize(
    "soaking",
    [
        pytest.param(False, marks=pytest.mark.slow("test_bulk_runs.py::test_a_lost_worker_loses_nothing")),
        pytest.param(True, marks=pytest.mark.soak),
    ],
)
def test_every_record_once_whatever_is_killed_when(cluster, runner, soaking):
    """At each action, also where all stored blocks were lost before it."""
    happened = ["failed tasks", "dear rows cut", "deferred"] + ["lost blocks"] * isinstance(runner, StagedRunner)
    happened += [DAEMON, EXECUTOR] * soaking
    seeds, thousands = (6, 20) if soaking else (1, 4)
    run_until(cluster, runner, seeds, [cluster._gateway.proc.pid], happened, thousands=thousands)


@pytest.mark.soak
@every_runner
def test_every_record_once_while_tasks_have_copies(start_spark, tmp_path, runner):
    """Spark copies a task only to another host; what runs there splits where it likes."""
    from standalone import Standalone, wait_for_slots  # of the benchmarks, which the workers cannot import

    start_spark("local[1]")  # the JVM keeps the settings of its first context
    of_executors = {"spark_driver_host": "127.0.0.1", "spark_executor_cores": "2", "spark_executor_memory": "512m"}
    with Standalone(tmp_path) as standalone:
        for _ in range(2):
            standalone.add(cores=2)
        try:
            sc = start_spark(standalone.master, **of_executors, **TRIES, **SPECULATES, **PLAIN)
            wait_for_slots(slot_counter(sc), 4)
            pids = [worker.pid for worker in standalone.workers.values()]
            run_until(sc, runner, 5, pids, [DAEMON, EXECUTOR, "failed tasks", "copies", "dear rows cut", "deferred"])
        finally:
            start_spark("local[1]", **dict.fromkeys([*TRIES, *SPECULATES, *of_executors]))  # before the cluster is gone
