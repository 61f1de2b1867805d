"""Whose fault an error is: a block's, or nobody's who could be set aside."""

import urllib.error

import pytest
from support.clock import Clock

from sdf import DoFn, OffsetRange
from sdf.errors import ProcessError
from sdf.execution.bundle import Bundle
from sdf.execution.work_items import WorkItem
from sdf.quarantine.blocks import failure_of
from sdf.quarantine.failures import RAISED


class RaisingFn(DoFn):
    """Raises its element at position 2 of 4."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 4)

    def process(self, element, tracker):
        for at in tracker.claims():
            if at == 2 and element is not None:
                raise element
            yield at


def bundle_of(element, fn=RaisingFn):
    return Bundle(fn(), [WorkItem(7, 0, element, OffsetRange(0, 4), 4)], clock=Clock())


def failure_at_end(bundle):
    with pytest.raises(ProcessError) as caught:
        list(bundle.outputs())
    return failure_of(bundle, caught.value)


def test_what_process_raises_convicts_the_block_claimed_last():
    """With what it says."""
    failure = failure_at_end(bundle_of(FileNotFoundError("no such page")))
    assert (failure.item_id, failure.how, failure.claimed) == (7, RAISED, 2)
    assert "FileNotFoundError: no such page" in failure.error


def test_an_outage_of_the_source_convicts_none():
    """URLError is an OSError, but no ConnectionError."""
    assert failure_at_end(bundle_of(urllib.error.URLError(ConnectionRefusedError("refused")))) is None


@pytest.mark.parametrize("hook", ["start_bundle", "finish_bundle"])
def test_a_hook_of_the_bundle_convicts_none(hook):
    """It is not the block's that ran last: each block would be set aside, one after the other."""

    def breaks(self):
        raise ValueError("no license")

    assert failure_at_end(bundle_of(None, type("BreakFn", (RaisingFn,), {hook: breaks}))) is None


@pytest.mark.parametrize("begun", [True, False])
def test_memory_that_runs_out_for_records_convicts_the_part_that_runs(begun):
    """They have left `process`, so the position claimed last is no hint. Before any work began there is no part."""
    bundle = bundle_of(None)
    outputs = bundle.outputs()
    if begun:
        next(outputs)
    failure = failure_of(bundle, MemoryError())
    if not begun:
        assert failure is None
    else:
        assert (failure.item_id, failure.how, failure.claimed) == (7, RAISED, None)
        assert "memory ran out" in failure.error
