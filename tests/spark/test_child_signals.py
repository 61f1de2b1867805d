"""What signals do to a worker that runs its work in a child, and to the child. Real processes."""

import os
import pickle
import signal
import subprocess
import sys
import time

import pytest
from support.killing import is_there

from sdf.quarantine.failures import DIED, KILLED
from sdf.spark.child import run_in_child

WORKER = """
import ctypes, os, pickle, signal, time
from sdf.spark.child import run_in_child

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has the tests ignore it

def work(child):
    child.started(1)
    child.give(os.getpid())
    if os.environ.get("HOLDS_GIL"):
        ctypes.PyDLL(None).sleep(600)  # as C code that never lets other threads run
    time.sleep(600)

for pid in run_in_child(work, block_seconds=None, load=pickle.loads):
    print(pid, flush=True)
"""


@pytest.mark.parametrize("holds_gil", ["", "1"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_the_child_ends_with_its_worker(number, holds_gil):
    """A worker that Spark ends leaves no process that goes on to write, or hangs for ever."""
    environment = {**os.environ, "HOLDS_GIL": holds_gil}
    with subprocess.Popen([sys.executable, "-c", WORKER], stdout=subprocess.PIPE, text=True, env=environment) as worker:
        child = int(worker.stdout.readline())
        assert is_there(child)
        worker.send_signal(number)
        assert worker.wait(60) == -number
    until = time.monotonic() + 60
    while is_there(child) and time.monotonic() < until:
        time.sleep(0.01)
    try:
        assert not is_there(child)
    finally:
        if is_there(child):
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(("number", "how"), [(signal.SIGTERM, DIED), (signal.SIGSEGV, DIED), (signal.SIGKILL, KILLED)])
def test_a_signal_to_the_child_is_a_failure_of_what_it_ran(number, how):
    """The worker goes on, and knows the work item and the position claimed last; SIGKILL may be for others' memory."""

    def work(child):
        child.started(3)
        child.claimed(pickle.dumps(17))
        child.give("runs")
        os.kill(os.getpid(), number)
        time.sleep(600)

    given, failure = run_in_child(work, block_seconds=None, load=pickle.loads)
    assert (given, failure.item_id, failure.how, failure.claimed) == ("runs", 3, how, 17)
    assert signal.Signals(number).name in failure.error
