"""An attempt in a child process: what its end of the pipe fails at. Real processes, no Spark."""

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
