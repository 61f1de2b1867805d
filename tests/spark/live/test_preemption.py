"""Lanes of a saved run whose Python workers are told to end, as those of a machine that is taken away."""

import logging
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from support.killing import parent_of
from support.saving import FolderSink, rows
from support.signalled import SignalledFn, claims_noted

from sdf import DoFn, LiveRunner, OffsetRange, save_sdf
from sdf.lanes import segments
from sdf.spark.live import rounds
from sdf.spark.live.preemption import told_to_end


def grandparent():
    return parent_of(os.getppid())


QUARANTINE = {"on_failure": "quarantine"}  # each lane in a child of the worker


@pytest.mark.parametrize(
    ("to", "number", "options"),
    [
        (os.getpid, signal.SIGTERM, {}),
        (os.getpid, signal.SIGHUP, {}),
        (os.getpid, signal.SIGTERM, QUARANTINE),
        (os.getppid, signal.SIGTERM, QUARANTINE),
        (os.getppid, signal.SIGHUP, QUARANTINE),
    ],
    ids=["worker SIGTERM", "worker SIGHUP", "child SIGTERM", "worker of child SIGTERM", "worker of child SIGHUP"],
)
def test_a_worker_that_is_told_to_end_loses_nothing(sc, tmp_path, to, number, options):
    """It commits what it has done, and others do the rest; without retries of tasks a worker that dies ends the run."""
    summary = told_to_end_four_times(sc, tmp_path, to, number, options)
    assert summary.report.retries == 0


in_child = pytest.mark.slow("the same test of a worker without a child, and the worker of a child that is told to end")


@pytest.mark.parametrize(
    ("to", "options"),
    [pytest.param(os.getppid, {}, id="worker"), pytest.param(grandparent, QUARANTINE, id="child", marks=in_child)],
)
def test_workers_whose_daemon_is_told_to_end_lose_nothing(start_spark, tmp_path, to, options):
    """Those that it has just forked, which have no lane yet, die with it: Spark starts those tasks again."""
    told_to_end_four_times(start_spark("local[4,4]"), tmp_path, to, signal.SIGTERM, options)


def told_to_end_four_times(sc, tmp_path, to, number, options):
    """Save what gets four signals; check that each block was claimed and saved once; return the summary."""
    noted = tmp_path / "noted"
    noted.mkdir()
    elements = [("a", 300), ("b", 300), ("c", 0)]
    summary = save_sdf(
        sc.parallelize(elements, 2),
        SignalledFn(noted, to, number, {40, 200}),
        FolderSink(tmp_path / "out"),
        runner=LiveRunner(lanes=2),
        commit_seconds=60,
        **options,
    )
    everything = {(name, i) for name, count in elements for i in range(count)}
    assert len(list(noted.glob("*.signalled"))) == 4
    assert claims_noted(noted) == dict.fromkeys(everything, 1)
    assert rows(tmp_path / "out") == sorted(everything)
    assert not summary.failures
    return summary


def test_another_lane_takes_the_place_of_one_that_left(sc, tmp_path):
    """Spark counts that one as done, and its slot would stay empty until all others have ended."""
    (tmp_path / "noted").mkdir()
    fn = SignalledFn(tmp_path / "noted", os.getpid, signal.SIGTERM, {5})
    runner = LiveRunner(lanes=2)
    summary = save_sdf(sc.parallelize([("a", 1000)]), fn, FolderSink(tmp_path / "out"), runner=runner)
    assert summary.records == 1000
    assert len(summary.report.tasks) == summary.report.lanes == 3  # one of them has left
    assert summary.report.records == 1000


class TellsTooEarlyFn(SignalledFn):
    """The first child tells its worker to end, before it has a lane."""

    def setup(self):
        if multiprocessing.parent_process() is not None and first(self.path):
            os.kill(os.getppid(), signal.SIGTERM)
            time.sleep(1)  # until the worker has told the child


class TellsAndDiesFn(SignalledFn):
    """The child that comes to block 5 first tells its worker to end, and dies."""

    def process(self, element, tracker):
        for record in super().process(element, tracker):
            if record[1] == 5 and first(self.path):
                os.kill(os.getppid(), signal.SIGTERM)
                os._exit(7)
            yield record


def first(path):
    try:
        os.close(os.open(f"{path}/once.signalled", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


@pytest.mark.parametrize("fn", [TellsTooEarlyFn, TellsAndDiesFn])
def test_a_worker_that_is_told_to_end_while_it_has_no_lane_leaves_all_the_same(sc, tmp_path, caplog, fn):
    """Its child has none yet, or has just died: the lane that is there next leaves, and another takes its place."""
    caplog.set_level(logging.INFO, "sdf.coordinator")
    (tmp_path / "noted").mkdir()
    summary = save_sdf(
        sc.parallelize([("a", 1000)]),
        fn(tmp_path / "noted", None, None, ()),
        FolderSink(tmp_path / "out"),
        runner=LiveRunner(lanes=2),
        **QUARANTINE,
    )
    assert rows(tmp_path / "out") == [("a", i) for i in range(1000)]
    assert not summary.failures
    assert (tmp_path / "noted" / "once.signalled").exists()
    assert re.search(r"lane \d+ on \S+ leaves", caplog.text)


class TakesItsWorkerAlongFn(DoFn):
    """Element: a name; one block. That of "bad" kills its worker and the child in which it runs, whenever it runs."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        for i in tracker.claims():
            if element == "bad":
                for pid in (os.getppid(), os.getpid()):
                    os.kill(pid, signal.SIGKILL)
            yield element, i


def test_a_block_that_takes_its_worker_along_is_set_aside(sc, tmp_path, monkeypatch):
    """Nobody is left to tell: after some losses it runs alone, in jobs that fail, at last while all rest.

    Without retries of tasks the death of a worker fails a job. Here it counts as the loss of an executor. The other
    lane of that job stays connected for some time. Jobs that end meanwhile do not count as jobs that commit nothing.
    """
    monkeypatch.setattr(segments, "MOST_LOSSES", 2)
    monkeypatch.setattr(rounds, "_EXECUTOR_LOST", "Python worker exited unexpectedly")
    good = [str(number) for number in range(20)]
    elements = sc.parallelize(["bad", *good], 2)
    fn, options = TakesItsWorkerAlongFn(), {"on_failure": "quarantine", "commit_seconds": 1}
    summary = save_sdf(elements, fn, FolderSink(tmp_path / "out"), runner=LiveRunner(lanes=2), **options)
    assert rows(tmp_path / "out") == sorted((name, 0) for name in good)
    (block,) = summary.failures
    assert (block.element, block.restriction) == ("bad", OffsetRange(0, 1))
    assert "its executors were lost" in block.error
    assert block.attempts in (3, 4)  # as part of lanes, perhaps alone beside others, and twice while all rest


HANGS = """
import os, signal, time
from sdf.spark.live import preemption

preemption._GRACE_SECONDS = 1
with preemption.told_to_end(lambda: print("told", flush=True)):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600)
"""


def test_a_worker_whose_block_hangs_ends_all_the_same():
    """After some time of grace, in which it may come to its next claim."""
    done = subprocess.run([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGALRM, "told\n")


def test_the_handlers_of_before_are_there_again():
    """Also after an error, and none is set by another thread than the main one."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    called = []

    def fails():
        with told_to_end(lambda: called.append(True)):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert called == [True, True]
    assert [signal.getsignal(number) for number in numbers] == before
    assert signal.alarm(0) == 0

    def elsewhere():
        with told_to_end(called.clear):
            called.append([signal.getsignal(number) for number in numbers])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert called[-1] == before


def test_an_alarm_of_the_user_stays():
    """Nobody was told to end."""
    signal.alarm(1000)
    try:
        with told_to_end(lambda: None):
            pass
        assert signal.alarm(0) > 0
    finally:
        signal.alarm(0)
