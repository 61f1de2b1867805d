"""An attempt in a child process: what its end of the pipe fails at. Real processes, no Spark."""

import os
import signal
import subprocess
import sys
import uuid
from functools import partial
from pathlib import Path

import pytest
from support.killing import is_there
from support.serving import until

from sdf import DoFn, OffsetRange
from sdf.errors import StageError
from sdf.execution.work_items import WorkItem
from sdf.quarantine.failures import RAISED, Failure
from sdf.quarantine.options import Quarantine
from sdf.spark.kept import take
from sdf.spark.payload import Carried, Payload, pickled_payload
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
    return list(attempts(run, Quarantine(), lambda failure: failure))


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


class Stuck(BaseException):
    """As a library in Rust raises: no Exception."""


class CountsFn(DoFn):
    """Gives the process that set it up, and the tasks that it has run; block 2 does what the element says."""

    def setup(self):
        self.process_id, self.tasks = os.getpid(), 0

    def start_bundle(self):
        self.tasks += 1

    def get_initial_restriction(self, element):
        return OffsetRange(0, 4)

    def process(self, element, tracker):
        for at in tracker.claims():
            if at == 2 and element == "exits":
                os._exit(3)
            if at == 2 and element is not None:
                raise element
            yield self.process_id, self.tasks


class ThrownAwayFn(CountsFn):
    keeps_setup = False


class TornDownFn(CountsFn):
    def __init__(self, path):
        self.path = str(path)

    def teardown(self):
        Path(self.path).write_text(str(self.process_id))


def task_of(payload, element, child):
    """Run one task, as `StageTask` does."""
    fn, side_inputs = payload.load()
    bundle = bundle_of(fn, [WorkItem(7, 0, element, OffsetRange(0, 4), 4)], side_inputs, child)
    with convicting(bundle, child):
        yield from bundle.outputs()


class Worker:
    """A Python worker with its tasks of one run."""

    def __init__(self, fn):
        self.payload = Payload(uuid.uuid4().hex, Carried(pickled_payload(fn, {}))).here()

    def run(self, element=None):
        """Return what the first record of a task says, and its failure, if any."""
        run = partial(task_of, self.payload, element)
        first, *_, last = attempts(run, Quarantine(), lambda failure: failure, run_id=self.payload.run_id)
        return first, last if isinstance(last, Failure) else None


@pytest.fixture
def worker():
    """Ends the process that is kept, as another run does."""
    yield Worker(CountsFn())
    take("another run", None)


def test_tasks_of_a_run_share_what_setup_has_made(worker):
    """Those of another run do not."""
    (first, _), _ = worker.run()
    assert [worker.run()[0] for _ in range(3)] == [(first, 2), (first, 3), (first, 4)]
    (other, tasks), _ = Worker(CountsFn()).run()
    assert (other != first, tasks) == (True, 1)
    assert not is_there(first)


def test_a_process_that_raised_keeps_what_setup_has_made(worker):
    """Its next task may succeed, and then it has proved that it works."""
    (first, _), failure = worker.run(ValueError("bad"))
    assert (failure.how, failure.claimed, failure.doubtful) == (RAISED, 2, False)
    assert worker.run() == ((first, 2), None)
    (again, tasks), failure = worker.run(ValueError("bad"))
    assert (again, tasks, failure.doubtful) == (first, 3, False)


def test_a_second_failure_in_a_row_is_doubtful_and_ends_the_process(worker):
    """The first may have broken the instance. In a new process the same block is convicted."""
    (first, _), _ = worker.run(ValueError("bad"))
    (again, tasks), failure = worker.run(ValueError("bad"))
    assert (again, tasks, failure.doubtful) == (first, 2, True)
    assert not failure.may_blame(7)
    (other, tasks), failure = worker.run(ValueError("bad"))
    assert (other != first, tasks, failure.doubtful) == (True, 1, False)
    assert failure.may_blame(7)


@pytest.mark.parametrize(
    ("fn", "what"),
    [
        (CountsFn(), MemoryError()),
        (CountsFn(), Stuck()),
        (CountsFn(), "exits"),
        (ThrownAwayFn(), ValueError("bad")),
    ],
)
def test_a_process_that_may_be_broken_is_not_kept(worker, fn, what):
    """Nor an instance that says so."""
    worker.payload = Worker(fn).payload
    (first, _), failure = worker.run(what)
    assert not failure.doubtful
    (other, tasks), failure = worker.run(what)
    assert (other != first, tasks, failure.doubtful) == (True, 1, False)
    assert not is_there(first)


def test_what_a_process_has_set_up_is_torn_down_when_another_run_begins(worker, tmp_path):
    """In that process."""
    worker.payload = Worker(TornDownFn(tmp_path / "torn down")).payload
    (first, _), _ = worker.run()
    Worker(CountsFn()).run()
    assert (tmp_path / "torn down").read_text() == str(first)


def test_a_process_that_dies_while_it_is_idle_is_replaced(worker):
    """No block is to blame."""
    (first, _), _ = worker.run()
    os.kill(first, signal.SIGKILL)
    until(lambda: not is_there(first))
    (other, tasks), failure = worker.run()
    assert (other != first, tasks, failure) == (True, 1, None)
