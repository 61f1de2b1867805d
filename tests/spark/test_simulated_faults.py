"""Faults of the simulation (`tests/simulation/faults.py`) that no other test provokes with real Spark."""

import gc
import os
import socket
import time
from collections import Counter

import pytest
from support.failing import FailsAt, kill_worker, once
from support.fns import SlowCountFn, expected
from support.saving import FolderSink, rows

from sdf import LiveRunner, Quarantine, StagedRunner, run_sdf, save_sdf
from sdf.spark.live.link import Link

SKEWED = [("big", 100), *((str(i), 2) for i in range(8))]
RUNNERS = pytest.mark.parametrize("runner", [StagedRunner(), LiveRunner()], ids=lambda runner: type(runner).__name__)


@pytest.fixture(scope="module")
def retries(start_spark):
    """Four slots in this process, and three more tries for a task that fails."""
    return start_spark("local[4,4]")


def break_connection():
    (link,) = [each for each in gc.get_objects() if type(each) is Link]
    link._socket.shutdown(socket.SHUT_RDWR)


def test_a_lane_whose_connection_breaks_is_run_again(retries, tmp_path):
    """It goes on until it notices; what it did after that counts no more."""
    fn = FailsAt(tmp_path / "marker", 20, break_connection)
    result = run_sdf(retries.parallelize(SKEWED), fn, runner=LiveRunner())
    first = result.collect()
    assert (tmp_path / "marker").exists()
    assert Counter(first) == expected(SKEWED)
    assert result.report.retries == 1
    assert result.collect() == first


def test_no_block_is_blamed_for_a_process_that_was_killed_beside_others(retries, tmp_path):
    """Once, as by the system when others have taken the memory: in the next try it does not fail."""
    fn = FailsAt(tmp_path / "marker", 20, kill_worker)
    summary = save_sdf(retries.parallelize(SKEWED), fn, FolderSink(tmp_path / "out"), on_failure=Quarantine())
    assert (tmp_path / "marker").exists()
    assert summary.failures == ()
    assert Counter(rows(tmp_path / "out")) == expected(SKEWED)


class TroubledSink(FolderSink):
    """Does something in one of its writes, once."""

    trouble = None

    def write(self, records, place):
        message = super().write(records, place)
        if once(f"{self.path}.marker"):
            self.trouble()
        return message


class RaisingSink(TroubledSink):
    def trouble(self):
        raise OSError("no space left")


class SlowSink(TroubledSink):
    def trouble(self):
        time.sleep(1.0)


@RUNNERS
@pytest.mark.parametrize("sink", [RaisingSink, SlowSink])
def test_a_sink_that_raises_or_is_slow_once(retries, tmp_path, runner, sink):
    """What it had written is not in the result, unless its message is logged: each record is there once."""
    elements = retries.parallelize(SKEWED)
    save_sdf(elements, SlowCountFn(), sink(tmp_path / "out"), runner=runner, commit_seconds=0.3)
    assert os.path.exists(f"{tmp_path}/out.marker")
    assert Counter(rows(tmp_path / "out")) == expected(SKEWED)
