"""Lanes of a saved run whose Python workers are told to end, as those of a machine that is taken away."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from support.saving import FolderSink, rows
from support.signalled import SignalledFn, claims_noted

from sdf import LiveRunner, save_sdf
from sdf.spark.live.preemption import told_to_end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_worker_that_is_told_to_end_loses_nothing(sc, tmp_path, number):
    """It commits what it has done, and others do the rest; without retries of tasks a worker that dies ends the run."""
    summary = told_to_end_four_times(sc, tmp_path, os.getpid, number)
    assert summary.report.retries == 0


def test_workers_whose_daemon_is_told_to_end_lose_nothing(start_spark, tmp_path):
    """Those that it has just forked, which have no lane yet, die with it: Spark starts those tasks again."""
    told_to_end_four_times(start_spark("local[4,4]"), tmp_path, os.getppid, signal.SIGTERM)


def told_to_end_four_times(sc, tmp_path, to, number):
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
    )
    everything = {(name, i) for name, count in elements for i in range(count)}
    assert len(list(noted.glob("*.signalled"))) == 4
    assert claims_noted(noted) == dict.fromkeys(everything, 1)
    assert rows(tmp_path / "out") == sorted(everything)
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
