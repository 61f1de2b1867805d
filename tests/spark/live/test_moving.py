"""Lanes on a cluster whose executors come, go and die: real ones."""

import logging
import os
import re
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark import TaskContext
from support.failing import FailsAt, kill_executor
from support.fns import EVERY_FN, SlowCountFn, expected
from support.killing import descendants, kill_jvm, kill_my_executor, my_jvm
from support.saving import FolderSink, rows
from support.signalled import SignalledFn, claims_noted

from sdf import DoFn, LiveRunner, OffsetRange, Quarantine, run_sdf, save_sdf
from sdf.spark.jobs import slot_counter

SETTINGS = {"spark_default_parallelism": None, "spark_deploy_maxExecutorRetries": "-1"}
SKEWED = [("big", 300), *((str(i), 2) for i in range(20))]
CLUSTER = "local-cluster[2,2,1024]"
started = []  # at most one context on the cluster


def kill_host():
    """As `kill_executor`, with all workers of the executor."""
    workers = Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read_text().split()
    kill_jvm()
    for pid in [os.getppid(), *(int(pid) for pid in workers if int(pid) != os.getpid()), os.getpid()]:
        os.kill(pid, signal.SIGKILL)


class BlocksFn(DoFn):
    """Element: its name and a count of blocks."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for i in tracker.claims():
            self.run(i)
            yield element[0], i

    def run(self, block):
        """Do what a block does."""


class AwaitsGoFn(BlocksFn):
    """Notes its executor and stage, a dot a block.

    Blocks take 50 ms until there is a file "go": the run outlasts what is waited for.

    Args:
        path: the folder of the notes and the file.
    """

    def __init__(self, path):
        self.path = str(path)

    def run(self, block):
        with Path(self.path, f"{my_jvm()} {TaskContext.get().stageId()}").open("a") as note:
            note.write(".")
        if not Path(self.path, "go").exists():
            time.sleep(0.05)


@contextmanager
def meanwhile(act):
    """Run ``act`` beside the block.

    It gets a function that waits for a condition, and raises once the block is over.
    """
    over, errors = threading.Event(), []

    def wait(condition):
        while not condition():
            if over.wait(0.02):
                raise TimeoutError("the run was over before that")

    def run():
        try:
            act(wait)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not errors


def executors(noted):
    """Return the executors that have run something, and the last stage of each."""
    return dict(sorted([int(word) for word in path.name.split()] for path in noted.iterdir() if " " in path.name))


def blocks_run(noted):
    """Return how many blocks each executor has run in each stage."""
    return [path.stat().st_size for path in noted.iterdir() if " " in path.name]


def await_lanes(noted, count):
    while len([path for path in noted.iterdir() if not path.suffix]) < count:
        time.sleep(0.01)


def saved(sc, fn, tmp_path, blocks, **options):
    """Run it; return its report, and check that each record is there once."""
    summary = save_sdf(
        sc.parallelize([("a", blocks)], 1), fn, FolderSink(tmp_path / "out"), runner=LiveRunner(), **options
    )
    assert rows(tmp_path / "out") == [("a", i) for i in range(blocks)]
    return summary.report


def kinds(report):
    return Counter(kind for _, _, kind in report.executors)


@pytest.fixture
def noted(tmp_path):
    """A folder."""
    (tmp_path / "noted").mkdir()
    return tmp_path / "noted"


@pytest.fixture(scope="module")
def start_clean(start_spark):
    """Start contexts, as `start_spark` does, in a JVM that keeps none of their settings: it keeps its first ones."""
    start_spark("local[1]")
    return start_spark


@pytest.fixture
def new_cluster(start_clean):
    """Two executors of two slots each, which are about to start. A job fails when one task has failed twice."""
    sc = start_clean(CLUSTER, spark_decommission_enabled="true", spark_task_maxFailures="2", **SETTINGS)
    started[:] = [sc]
    return sc


@pytest.fixture
def cluster(request):
    """The same, once both are there; those that the tests before have lost are replaced."""
    usable = started and started[0]._jsc is not None
    sc = started[0] if usable else request.getfixturevalue("new_cluster")
    wait_for_slots(sc, 4)
    return sc


def wait_for_slots(sc, slots):
    from standalone import wait_for_slots  # of the benchmarks, which the workers cannot import

    wait_for_slots(slot_counter(sc), slots)


# What only the executors' processes show: they find classes that the driver has sent, and can be lost.


# Dear: it starts the cluster of the tests below.
def test_lanes_are_counted_once_the_executors_are_there(new_cluster, tmp_path):
    """A context does not wait for them; the job that expands the elements does."""
    there = tmp_path / "there"
    assert slot_counter(new_cluster)() < 4

    def tell():
        wait_for_slots(new_cluster, 4)
        there.touch()

    def await_executors(element):
        while not there.exists():
            time.sleep(0.01)
        return element

    teller = threading.Thread(target=tell)
    teller.start()
    lanes = run_sdf(new_cluster.parallelize(SKEWED, 6).map(await_executors), SlowCountFn(), runner=LiveRunner())
    teller.join()
    assert lanes.getNumPartitions() == 4


def test_every_kind_of_restriction_on_executors(cluster):
    """The restrictions' classes are this test's, known to the driver and to the executors."""
    elements = [("a", 0), ("b", 1), ("c", 120), ("d", 7)]
    for fn in EVERY_FN:
        result = run_sdf(cluster.parallelize(elements, 3), fn, runner=LiveRunner())
        assert Counter(result.collect()) == expected(elements)


early = pytest.mark.slow("test_an_executor_dies[160]")


@pytest.mark.parametrize("at", [pytest.param(20, marks=early), 160])
def test_an_executor_dies(cluster, tmp_path, at):
    """Its lanes run again elsewhere, during the run and after it."""
    fn = FailsAt(tmp_path / "marker", at, kill_executor)
    result = run_sdf(cluster.parallelize(SKEWED), fn, runner=LiveRunner())
    first = result.collect()
    assert os.path.exists(tmp_path / "marker")
    assert Counter(first) == expected(SKEWED)
    assert result.report.retries >= 1
    assert result.collect() == first


@pytest.mark.slow("test_preemption.py::test_workers_whose_daemon_is_told_to_end_lose_nothing")
def test_an_executor_that_is_told_to_end_loses_nothing_of_a_saved_run(cluster, tmp_path, noted):
    """As Kubernetes does it, which signals only the JVM: its workers commit, though they cannot tell Spark."""
    saved(cluster, SignalledFn(noted, my_jvm, signal.SIGTERM, {40}), tmp_path, 400, commit_seconds=60)
    assert len(list(noted.glob("*.signalled"))) == 1
    assert claims_noted(noted) == dict.fromkeys((("a", i) for i in range(400)), 1)


@pytest.mark.slow("test_live.py::test_a_cached_block_that_is_lost_is_computed_again")
def test_a_cached_block_dies_with_its_executor(cluster, tmp_path):
    """It is computed again from the lane's content, and is the same. Spark reads a block where it is cached."""
    result = run_sdf(cluster.parallelize(SKEWED), SlowCountFn(), runner=LiveRunner()).cache()
    first = result.collect()
    marker = str(tmp_path / "killed")
    assert result.mapPartitions(lambda records: kill_my_executor(marker) or records).collect() == first
    assert os.path.exists(marker)
    assert Counter(first) == expected(SKEWED)
    assert result.collect() == first
    assert result.report.replays >= 1
    result.unpersist()


# Dear: Spark tells of a decommissioned executor only where there are executors.
def test_all_lanes_of_an_executor_leave_together(cluster, tmp_path, noted, caplog):
    """When it is decommissioned, at their next claim, with what they did committed: nothing is claimed twice.

    Both slots of one of two executors, once all four lanes work. Another executor comes.
    """
    caplog.set_level(logging.INFO, "sdf.coordinator")

    def to():
        await_lanes(noted, 4)
        return my_jvm()

    report = saved(cluster, SignalledFn(noted, to, signal.SIGPWR, {40}), tmp_path, 3000, commit_seconds=60)
    assert claims_noted(noted) == dict.fromkeys((("a", i) for i in range(3000)), 1)
    assert kinds(report)["decommissioned"] == 1
    assert caplog.text.count("is told to leave") == 2
    assert report.retries == 0
    assert report.records == 3000
    assert "1 decommissioned" in str(report)


@pytest.mark.slow("test_losses_of_executors_do_not_add_up_to_sparks_limit")
def test_all_lanes_of_an_executor_are_lost_together(cluster, tmp_path, noted):
    """Both slots of one of two executors: what neither had committed is run again, and each record is there once."""

    def to():
        await_lanes(noted, 4)
        kill_host()

    report = saved(cluster, SignalledFn(noted, to, None, {40}), tmp_path, 4000, commit_seconds=60)
    assert kinds(report)["lost"] == 1
    assert report.retries == 2
    assert report.lost_seconds > 0


# Dear: Spark counts losses of real executors.
def test_losses_of_executors_do_not_add_up_to_sparks_limit(cluster, tmp_path, noted, caplog):
    """A job fails when one task has failed twice here; the executor of a retry is lost as well, and the run ends.

    The retry has left before: another lane runs in its place.
    """
    caplog.set_level(logging.INFO, "sdf.coordinator")

    def kill(pid):
        for each in [pid, *descendants([pid])]:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def replaced(lost):
        """Return the executor that came in place of another one, once it runs a lane in place of a retry."""
        stages = executors(noted)
        (came,) = set(stages) - lost or [None]
        return came and stages[came] > min(stages.values()) and came

    def lose(wait):
        wait(lambda: len(executors(noted)) == 2 and min(blocks_run(noted)) >= 20)  # a second: the driver has seen both
        first = set(executors(noted))
        kill(min(first))
        wait(lambda: replaced(first))
        kill(replaced(first))
        (noted / "go").touch()

    with meanwhile(lose):
        report = saved(cluster, AwaitsGoFn(noted), tmp_path, 4000, commit_seconds=1)
    assert kinds(report)["lost"] == 2
    assert re.search(r"lane \d+ on \S+ is told to leave(.|\n)*lane \d+ on \S+ leaves", caplog.text)  # a retry
    assert report.retries >= 1
    assert report.lost_seconds > 0
    assert "2 lost" in str(report)


# Contexts of their own.


@pytest.fixture
def growing(start_clean):
    """A context whose cluster has one executor, and gets another one while tasks wait."""
    settings = {
        "spark_dynamicAllocation_enabled": "true",
        "spark_dynamicAllocation_shuffleTracking_enabled": "true",
        "spark_dynamicAllocation_initialExecutors": "1",
        "spark_dynamicAllocation_minExecutors": "1",
        "spark_dynamicAllocation_maxExecutors": "2",
    }
    return start_clean("local-cluster[2,1,1024]", **settings, **SETTINGS)


def goes_on_with(noted, count):
    """Return what makes blocks short once so many executors run some."""

    def act(wait):
        wait(lambda: len(executors(noted)) == count)
        (noted / "go").touch()

    return act


# Dear: only real executors come as Spark asks for them.
def test_executors_that_come_get_lanes(growing, tmp_path, noted):
    """With no option set, though Spark brings them only while tasks wait."""
    with meanwhile(goes_on_with(noted, 2)):
        report = saved(growing, AwaitsGoFn(noted), tmp_path, 3000)
    assert kinds(report)["joined"] >= 1
    assert report.slots == 2
    assert report.slots_over_time[0][1] == 1


@pytest.mark.slow("test_executors_that_come_get_lanes")
def test_a_lazy_run_with_more_lanes_than_slots_uses_executors_that_come(growing, noted):
    """Until they do, the others run the work of all lanes."""
    result = run_sdf(growing.parallelize([("a", 3000)], 1), AwaitsGoFn(noted), runner=LiveRunner(lanes=2))
    with meanwhile(goes_on_with(noted, 2)):
        assert sorted(result.collect()) == [("a", i) for i in range(3000)]
    assert result.report.slots == 2
    assert result.report.slots_over_time[0][1] == 1


class TakesItsHostAlongFn(DoFn):
    """Element: a name; one block. That of "bad" kills its executor, with all processes, whenever it runs."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        for i in tracker.claims():
            if element == "bad":  # in a child of the worker
                for pid in (my_jvm(above=os.getppid()), os.getppid(), os.getpid()):
                    os.kill(pid, signal.SIGKILL)
            yield element, i


@pytest.mark.slow("test_preemption.py::test_a_block_that_takes_its_worker_along_is_set_aside")
def test_a_block_that_takes_its_executor_along_is_set_aside(start_clean, tmp_path):
    """Nobody is left to tell: each time Spark gives up a stage, and what it named then runs alone."""
    sc = start_clean("local-cluster[2,1,1024]", spark_task_maxFailures="1", **SETTINGS)
    good = [str(number) for number in range(20)]
    sink = FolderSink(tmp_path / "out")
    elements = sc.parallelize(["bad", *good])
    summary = save_sdf(elements, TakesItsHostAlongFn(), sink, on_failure=Quarantine())
    assert rows(tmp_path / "out") == sorted((name, 0) for name in good)
    (block,) = summary.failures
    assert (block.element, block.restriction) == ("bad", OffsetRange(0, 1))
    assert "its executor or worker was lost" in block.error
    assert block.attempts in (3, 4)  # as part of lanes, perhaps alone beside others, and twice on an idle cluster


@pytest.fixture
def standalone(start_clean, tmp_path):
    """A cluster of two hosts, and a context on it."""
    from standalone import Standalone  # of the benchmarks, which the workers cannot import

    settings = {
        "spark_driver_host": "127.0.0.1",
        "spark_executor_cores": "1",
        "spark_executor_memory": "512m",
        "spark_decommission_enabled": "true",
    }
    (tmp_path / "cluster").mkdir()
    with Standalone(tmp_path / "cluster") as cluster:
        for _ in range(2):
            cluster.add()
        try:
            sc = start_clean(cluster.master, **settings, spark_default_parallelism=None)
            wait_for_slots(sc, 2)
            yield cluster, sc
        finally:
            start_clean("local[1]")  # before the cluster is gone


@pytest.mark.slow("test_executors_that_come_get_lanes, test_all_lanes_of_an_executor_leave_together")
def test_hosts_come_and_go(standalone, tmp_path, noted):
    """A third host joins a standalone cluster, and has a lane; then one is killed, and the other one decommissioned."""
    cluster, sc = standalone
    first, second = cluster.present()

    def move(wait):
        cluster.add()
        wait(lambda: len(executors(noted)) == 3)  # a lane each
        cluster.kill(first)
        cluster.decommission(second)
        (noted / "go").touch()

    with meanwhile(move):
        report = saved(sc, AwaitsGoFn(noted), tmp_path, 6000, commit_seconds=3)
    assert kinds(report) == {"joined": 1, "lost": 1, "decommissioned": 1}
    assert report.slots == 3
