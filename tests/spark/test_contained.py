"""An attempt in a child process: what its end of the pipe fails at. Real processes, no Spark."""

import subprocess
import sys

import pytest

from sdf import DoFn, OffsetRange
from sdf.errors import StageError
from sdf.execution.work_items import WorkItem
from sdf.quarantine.failures import RAISED, Failure
from sdf.quarantine.options import Quarantine
from sdf.spark.staged.contained import attempts, bundle_of, convicting


class OneByOneFn(DoFn):
    """Gives its positions."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 4)

    def process(self, element, tracker):
        yield from tracker.claims()


class TooBig:
    """There is no memory for a copy of it."""

    def __reduce__(self):
        raise MemoryError


def given_by(run):
    return list(attempts(run, Quarantine(100, None), lambda failure: failure))


def test_memory_that_runs_out_as_records_are_sent_is_a_failure_of_what_ran():
    """They are pickled once more for the pipe; the run goes on, to find the block."""

    def run(child):
        bundle = bundle_of(OneByOneFn(), [WorkItem(7, 0, "a", OffsetRange(0, 4), 4)], {}, child)
        with convicting(bundle, child):
            for at in bundle.outputs():
                yield at if at < 2 else TooBig()

    first, second, failure = given_by(run)
    assert (first, second, type(failure)) == (0, 1, Failure)
    assert (failure.item_id, failure.how, failure.claimed) == (7, RAISED, None)


def test_memory_that_runs_out_for_anything_else_is_nobodys():
    """As for the receipt, after the last record."""

    def run(child):
        yield TooBig()

    with pytest.raises(StageError, match="MemoryError"):
        given_by(run)


SHORT_OF_MEMORY = """
import pickle, resource, sys
from sdf.spark.child import run_in_child

def work(child):
    child.started(3)
    child.give("runs")
    child.give(bytes(1 << 29))

outputs = run_in_child(work, block_seconds=None, load=pickle.loads)
assert next(outputs) == "runs"
(used,) = [int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize")]
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28), resource.RLIM_INFINITY))
for failure in outputs:
    print(failure.item_id, failure.how, failure.claimed, failure.error)
"""


def test_memory_that_runs_out_as_records_arrive_is_a_failure_of_what_ran():
    """The worker has no room for what its child has made."""
    ran = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY], capture_output=True, text=True, timeout=120)
    assert ran.stdout.startswith(f"3 {RAISED} None memory ran out as the worker took over its records"), ran.stderr
