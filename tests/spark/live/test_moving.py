"""Saved runs with lanes on a cluster whose executors come and go: real ones."""

import logging
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from support.killing import kill_jvm, my_jvm
from support.saving import FolderSink, rows
from support.signalled import SignalledFn, claims_noted

from sdf import DoFn, LiveRunner, OffsetRange, run_sdf, save_sdf
from sdf.lanes import segments
from sdf.spark.jobs import slot_counter

SETTINGS = {"spark_default_parallelism": None, "spark_deploy_maxExecutorRetries": "-1"}


def kill_executor():
    """As if its machine were gone: a worker that outlives its executor would commit what it has done."""
    kill_jvm()
    os.kill(os.getpid(), signal.SIGKILL)


def kill_host():
    """As `kill_executor`, with all workers of the executor."""
    workers = Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read_text().split()
    kill_jvm()
    for pid in [os.getppid(), *(int(pid) for pid in workers if int(pid) != os.getpid()), os.getpid()]:
        os.kill(pid, signal.SIGKILL)


class WaitsFn(DoFn):
    """Element: its name and a count of blocks of 5 ms. Does something once, at one block.

    Args:
        path: where it notes that.
        at: the blocks.
        what: what it does there.
    """

    def __init__(self, path, at, what):
        self.path, self.at, self.what = str(path), at, what

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            if i in self.at:
                try:
                    os.close(os.open(f"{self.path}-{i}", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    self.what()
            time.sleep(0.005)
            yield element[0], i


def saved(sc, fn, tmp_path, blocks, **options):
    """Run it; return its report, and check that each record is there once."""
    runner = LiveRunner(**options.pop("runner", {}))
    summary = save_sdf(sc.parallelize([("a", blocks)]), fn, FolderSink(tmp_path / "out"), runner=runner, **options)
    assert rows(tmp_path / "out") == [("a", i) for i in range(blocks)]
    return summary.report


def kinds(report):
    return Counter(kind for _, _, kind in report.executors)


@pytest.fixture(scope="module")
def start_clean(start_spark):
    """Start contexts, as `start_spark` does, in a JVM that keeps none of their settings: it keeps its first ones."""
    start_spark("local[1]")
    return start_spark


@pytest.fixture
def growing(start_clean):
    """A context whose cluster has one executor, and gets up to two more while tasks wait."""
    settings = {
        "spark_dynamicAllocation_enabled": "true",
        "spark_dynamicAllocation_shuffleTracking_enabled": "true",
        "spark_dynamicAllocation_initialExecutors": "1",
        "spark_dynamicAllocation_minExecutors": "1",
        "spark_dynamicAllocation_maxExecutors": "3",
    }
    return start_clean("local-cluster[3,1,1024]", **settings, **SETTINGS)


def test_executors_that_come_get_lanes(growing, tmp_path):
    """With no option set, though Spark brings them only while tasks wait."""
    report = saved(growing, WaitsFn(tmp_path, (), None), tmp_path, 8000)
    assert kinds(report)["joined"] >= 1
    assert report.slots >= 2
    assert report.slots_over_time[0][1] == 1


def test_a_lazy_run_with_more_lanes_than_slots_uses_executors_that_come(growing, tmp_path):
    """Until they do, the others run the work of all lanes."""
    result = run_sdf(growing.parallelize([("a", 8000)]), WaitsFn(tmp_path, (), None), runner=LiveRunner(lanes=3))
    assert sorted(result.collect()) == [("a", i) for i in range(8000)]
    assert result.report.slots >= 2
    assert result.report.slots_over_time[0][1] == 1


def test_lanes_leave_executors_that_are_decommissioned(start_clean, tmp_path, caplog):
    """At their next claim, with what they did committed: nothing is claimed twice. Another executor comes."""
    sc = start_clean("local-cluster[2,1,1024]", spark_decommission_enabled="true", **SETTINGS)
    caplog.set_level(logging.INFO, "sdf.coordinator")
    (tmp_path / "noted").mkdir()
    fn = SignalledFn(tmp_path / "noted", my_jvm, signal.SIGPWR, {40})
    report = saved(sc, fn, tmp_path, 2000, commit_seconds=60)
    assert claims_noted(tmp_path / "noted") == dict.fromkeys((("a", i) for i in range(2000)), 1)
    assert kinds(report)["decommissioned"] == 1
    assert "is told to leave" in caplog.text
    assert report.retries == 0
    assert report.records == 2000
    assert "1 decommissioned" in str(report)


def await_lanes(noted, count):
    while len([path for path in noted.iterdir() if not path.suffix]) < count:
        time.sleep(0.01)


def test_all_lanes_of_an_executor_leave_together(start_clean, tmp_path, caplog):
    """Both slots of one of two executors, once all four lanes work."""
    sc = start_clean("local-cluster[2,2,1024]", spark_decommission_enabled="true", **SETTINGS)
    caplog.set_level(logging.INFO, "sdf.coordinator")
    noted = tmp_path / "noted"
    noted.mkdir()

    def to():
        await_lanes(noted, 4)
        return my_jvm()

    report = saved(sc, SignalledFn(noted, to, signal.SIGPWR, {40}), tmp_path, 4000, commit_seconds=60)
    assert claims_noted(noted) == dict.fromkeys((("a", i) for i in range(4000)), 1)
    assert kinds(report)["decommissioned"] == 1
    assert caplog.text.count("is told to leave") == 2
    assert report.retries == 0


def test_all_lanes_of_an_executor_are_lost_together(start_clean, tmp_path):
    """Both slots of one of two executors: what neither had committed is run again, and each record is there once."""
    sc = start_clean("local-cluster[2,2,1024]", **SETTINGS)
    noted = tmp_path / "noted"
    noted.mkdir()

    def to():
        await_lanes(noted, 4)
        kill_host()

    report = saved(sc, SignalledFn(noted, to, None, {40}), tmp_path, 4000, commit_seconds=60)
    assert kinds(report)["lost"] == 1
    assert report.retries == 2
    assert report.lost_seconds > 0


class TakesItsExecutorAlongFn(DoFn):
    """Element: a name; one block. That of "bad" kills the JVM above the child in which it runs, whenever it runs."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        for i in tracker.claims():
            if element == "bad":
                kill_jvm(above=os.getppid())
                time.sleep(600)
            yield element, i


def test_a_block_that_takes_its_executor_along_is_set_aside(start_clean, tmp_path, monkeypatch):
    """Nobody is left to tell: after some losses it runs alone, in jobs that fail, at last while all rest."""
    monkeypatch.setattr(segments, "MOST_LOSSES", 2)
    sc = start_clean("local-cluster[2,1,1024]", spark_task_maxFailures="1", **SETTINGS)
    good = [str(number) for number in range(20)]
    sink = FolderSink(tmp_path / "out")
    elements = sc.parallelize(["bad", *good])
    fn, options = TakesItsExecutorAlongFn(), {"on_failure": "quarantine", "commit_seconds": 1}
    summary = save_sdf(elements, fn, sink, runner=LiveRunner(), **options)
    assert rows(tmp_path / "out") == sorted((name, 0) for name in good)
    (block,) = summary.failures
    assert (block.element, block.restriction) == ("bad", OffsetRange(0, 1))
    assert "its executors were lost" in block.error
    assert block.attempts in (3, 4)  # as part of lanes, perhaps alone beside others, and twice on an idle cluster


@pytest.fixture
def standalone(start_clean, tmp_path, monkeypatch):
    """A cluster of two hosts, and a context on it."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    from standalone import Standalone, wait_for_slots

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
            wait_for_slots(slot_counter(sc), 2)
            yield cluster, sc
        finally:
            start_clean("local[1]")  # before the cluster is gone


class WaitsForHostsFn(WaitsFn):
    """Notes its process. Blocks take 50 ms more until the hosts have moved, so the run outlasts the start of a host."""

    def process(self, element, tracker):
        for claimed in super().process(element, tracker):
            Path(self.path, str(os.getpid())).touch()
            yield claimed
            if not Path(self.path, "moved").exists():
                time.sleep(0.05)


def test_hosts_come_and_go(standalone, tmp_path):
    """A third host joins a standalone cluster, and has a lane; then one is killed, and the other one decommissioned."""
    cluster, sc = standalone
    first, second = cluster.present()
    noted, ended = tmp_path / "noted", threading.Event()
    noted.mkdir()

    def move():
        cluster.add()
        while len(list(noted.iterdir())) < 3:  # a lane each
            if ended.wait(0.1):
                return
        cluster.kill(first)
        cluster.decommission(second)
        (noted / "moved").touch()

    mover = threading.Thread(target=move)
    mover.start()
    try:
        report = saved(sc, WaitsForHostsFn(noted, (), None), tmp_path, 6000, commit_seconds=3)
    finally:
        ended.set()
        mover.join()
    assert kinds(report) == {"joined": 1, "lost": 1, "decommissioned": 1}
    assert report.slots == 3


def test_losses_of_executors_do_not_add_up_to_sparks_limit(start_clean, tmp_path, caplog):
    """A job fails when one task has failed twice here; five executors are lost, and the run ends."""
    sc = start_clean("local-cluster[2,1,1024]", spark_task_maxFailures="2", **SETTINGS)
    caplog.set_level(logging.INFO, "sdf.coordinator")
    fn = WaitsFn(tmp_path / "killed", range(150, 3000, 600), kill_executor)
    report = saved(sc, fn, tmp_path, 3000, commit_seconds=1)
    assert kinds(report)["lost"] == 5
    assert "is told to leave" in caplog.text  # the retries of what was lost
    assert report.retries >= 1
    assert "5 lost" in str(report)
