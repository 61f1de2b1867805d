"""The same records on every kind of master, and when a real executor dies."""

import os
import signal
from collections import Counter

import pytest
from pyspark import SparkContext
from support.fns import EVERY_FN, SlowCountFn, expected
from support.killing import kill_my_executor
from support.saving import FolderSink, rows

from sdf import StagedRunner, run_direct, run_sdf, save_sdf
from sdf.spark.jobs import slot_counter

ELEMENTS = [("a", 0), ("b", 1), ("c", 120), ("d", 7), ("c", 3)]
SKEWED = [("big", 400), *((str(i), 2) for i in range(20))]
CLUSTER = "local-cluster[2,1,1024]"


ELSE = [
    pytest.param("local[4]", marks=pytest.mark.slow("the same test on one slot")),
    pytest.param(CLUSTER, marks=pytest.mark.slow("test_every_kind_of_restriction_on_executors")),
]


@pytest.fixture(scope="module", params=["local[1]", *ELSE])
def master(request, start_spark):
    return start_spark(request.param)


@pytest.fixture
def cluster(start_spark):
    """The cluster of the test before, where that has left one: it starts executors for those that died."""
    sc = SparkContext._active_spark_context
    return sc if sc is not None and sc.master == CLUSTER else start_spark(CLUSTER)


def test_run_sdf_equals_run_direct_equals_the_generator(master):
    """As multisets, for every kind of restriction."""
    for fn in EVERY_FN:
        result = run_sdf(master.parallelize(ELEMENTS, 3), fn)
        assert Counter(result.collect()) == Counter(run_direct(ELEMENTS, fn)) == expected(ELEMENTS)
        result.unpersist()


def test_work_is_split_and_nothing_is_lost(master):
    """A straggler is cut into pieces, here too."""
    result = run_sdf(master.parallelize(SKEWED), SlowCountFn(), runner=StagedRunner(budget_seconds=0.2))
    assert Counter(result.collect()) == expected(SKEWED)
    assert result.report.splits >= 3
    result.unpersist()


class KillsExecutor(SlowCountFn):
    """Kills its executor once, after it has given some records of the middle of the big element."""

    def __init__(self, marker):
        super().__init__()
        self.marker = marker

    def process(self, element, tracker):
        for name, i in super().process(element, tracker):
            if name == "big" and i == 230:
                kill_my_executor(self.marker)
            yield name, i


# Dear: executors are processes with a JVM, and new ones are started for those that die.
def test_an_executor_dies_during_a_stage(cluster, tmp_path):
    """Tasks that had ended on the dead executor are replayed, those that ran there are run again."""
    sc = cluster
    marker = str(tmp_path / "killed")
    result = run_sdf(sc.parallelize(SKEWED), KillsExecutor(marker), runner=StagedRunner(budget_seconds=0.2))
    assert os.path.exists(marker)
    assert Counter(result.collect()) == Counter(result.collect()) == expected(SKEWED)


@pytest.mark.slow("test_blocks_lost_before_the_first_action_and_again_later: without executors")
def test_an_executor_dies_after_the_run(cluster, tmp_path):
    """What it had stored is replayed from the pinned parts, at the next action and the one after."""
    sc = cluster
    result = run_sdf(sc.parallelize(SKEWED), SlowCountFn(), runner=StagedRunner(budget_seconds=0.2))
    for number in range(2):
        marker = str(tmp_path / str(number))
        assert sc.parallelize([marker], 1).map(lambda path: kill_my_executor(path) or "back").collect() == ["back"]
        assert os.path.exists(marker)
        assert Counter(result.collect()) == expected(SKEWED)


@pytest.mark.slow("test_lanes_are_counted_once_the_executors_are_there")
def test_a_cluster_of_one_slot_has_one(start_spark):
    """Spark's default parallelism is never less than two there."""
    sc = start_spark("local-cluster[1,1,1024]", spark_default_parallelism=None)
    assert sc.defaultParallelism == 2
    assert slot_counter(sc)() == 1
    result = run_sdf(sc.parallelize(ELEMENTS), SlowCountFn())
    assert result.count() == 131
    assert result.report.slots == 1


class ShortLivedFn(SlowCountFn):
    """Its worker dies when a task claims its 200th block."""

    def __init__(self):
        super().__init__(0.01)

    def start_bundle(self):
        self.claims = 0

    def process(self, element, tracker):
        for record in super().process(element, tracker):
            self.claims += 1
            if self.claims == 200:
                os.kill(os.getpid(), signal.SIGKILL)
            yield record


@pytest.mark.slow("test_a_task_has_half_the_budget_with_each_retry_down_to_a_second")
def test_tasks_of_a_saved_run_get_shorter_until_workers_live_long_enough(start_spark, tmp_path):
    """With the same budget again a task would die as often as Spark tries it, which ends the run."""
    sc = start_spark("local[2,4]")
    elements = [("a", 700), ("b", 700)]
    summary = save_sdf(sc.parallelize(elements, 2), ShortLivedFn(), FolderSink(tmp_path / "out"), runner=StagedRunner())
    assert summary.records == 1400
    assert summary.repeated_seconds > 0
    assert Counter(rows(tmp_path / "out")) == expected(elements)
