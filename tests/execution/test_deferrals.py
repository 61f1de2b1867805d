"""How long deferred work waits, and when deferring leads nowhere."""

import itertools

import pytest

from sdf.errors import DeferError
from sdf.execution import deferrals
from sdf.execution.deferrals import Deferrals
from sdf.execution.work_items import WorkItem
from sdf.model.restrictions import OffsetRange


def chain(times):
    """Return so many work items, each cut off from the one before it."""
    return [WorkItem(n, 0, "a", OffsetRange(0, 9), 9, n - 1 if n else None) for n in range(times + 1)]


def test_work_that_got_somewhere_waits_as_long_as_was_asked():
    """Also not at all."""
    deferred = Deferrals("Fn")
    item, residual = chain(1)
    deferred.note(item, OffsetRange(0, 3))
    assert [deferred.delay_seconds(residual, asked) for asked in (0.0, 7.5)] == [0.0, 7.5]


def test_pauses_of_work_that_gets_nowhere_double():
    """From 0.02 to 2.56 seconds; a longer one that was asked for stays."""
    deferred, seconds = Deferrals("Fn"), []
    items = chain(10)
    for item, residual in itertools.pairwise(items):
        deferred.note(item, None)
        seconds.append(deferred.delay_seconds(residual, 0.0))
    assert seconds == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 2.56, 2.56]
    assert deferred.delay_seconds(items[-1], 60.0) == 60.0


def test_work_that_is_cut_off_from_nothing_waits_as_long_as_was_asked():
    """Such as an element."""
    (item,) = chain(0)
    assert Deferrals("Fn").delay_seconds(item, 0.0) == 0.0


def test_a_claim_starts_the_count_anew():
    """Only deferrals in a row count."""
    deferred = Deferrals("Fn")
    first, second, third, fourth = chain(3)
    deferred.note(first, None)
    deferred.delay_seconds(second, 0.0)
    deferred.note(second, OffsetRange(0, 1))
    assert deferred.delay_seconds(third, 0.0) == 0.0
    deferred.note(third, None)
    assert deferred.delay_seconds(fourth, 0.0) == 0.02


def test_work_that_only_defers_is_an_error(monkeypatch):
    """It names the DoFn, the restriction, the element and the way out."""
    monkeypatch.setattr(deferrals, "_MOST_IDLE", 3)
    deferred = Deferrals("SleepyFn")
    items = chain(3)
    for item, residual in itertools.pairwise(items):
        deferred.note(item, None)
        deferred.delay_seconds(residual, 0.0)
    with pytest.raises(
        DeferError, match=r"SleepyFn.process\(\) deferred OffsetRange.* of element 'a' 4 times in a row"
    ):
        deferred.note(items[3], None)
