"""Lanes and coordinator, step by step: what no random schedule can ask for."""

from collections import Counter

import pytest

from sdf.errors import DeferError
from sdf.execution import deferrals
from sdf.execution.work_items import DEFERRED
from simulation.scripted import Scripted
from simulation.user import BlocksFn


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_what_a_lane_was_given_begins_there_though_others_are_idle(lanes):
    """They ask for it before the lane has woken up; handed to the next one, it would never begin."""
    script = Scripted([("whole", 40)], lanes=lanes)
    for number in range(lanes):
        script.start(number)
    for _ in range(10):
        script.round()
    assert any(child.records for child in script.live())
    assert script.counts["Assign"] == 1
    assert script.counts["StealRequest"] > 0


@pytest.mark.parametrize("doubled", [False, True])
def test_a_lane_defers_thousands_of_times_whatever_becomes_of_its_parts(doubled):
    """Accepted, or refused since there are two attempts; the one that ends first is followed by the other."""
    script = Scripted([("defers", 2500)], lanes=1)
    for _ in range(1 + doubled):
        script.start(0)
    script.run()
    assert script.counts["completed"] == 1 + doubled
    assert script.results[0] == [("defers", number) for number in range(2500)]
    report = script.coordinator.report(script.clock.now)
    assert (len(report.pieces) == 1, report.records) == (doubled, 2500)


@pytest.mark.parametrize("rows", [20, 200])
def test_a_lane_is_told_of_each_row_that_defers_once(rows, monkeypatch):
    """Those behind it are not deferred with it, so none waits longer; and they come back to the lane at once."""
    monkeypatch.setattr(deferrals, "_MOST_IDLE", 5)
    script = Scripted(
        [(f"{row} refused", 1) for row in range(rows)], lanes=1, fn=BlocksFn(delay_seconds=0.005), rows=1000
    )
    script.start(0)
    script.run()
    assert Counter(script.results[0]) == Counter((f"{row} refused", 0) for row in range(rows))
    assert script.counts["Split"] == script.counts["Verdict"] == rows
    assert script.counts["Assign"] <= 2 * rows
    origins = Counter(item.origin for item in script.driver.work.ledger.items())
    assert origins == {DEFERRED: rows}


class OneGetsNowhereFn(BlocksFn):
    """One element defers each time that it runs."""

    def process(self, element, tracker):
        if element[0] == "7":
            tracker.defer_remainder(0)
            return
        yield from super().process(element, tracker)


def test_a_row_that_only_defers_is_an_error_that_names_it(monkeypatch):
    """As is an element by itself; those behind it are run."""
    monkeypatch.setattr(deferrals, "_MOST_IDLE", 5)
    script = Scripted([(f"{row}", 1) for row in range(20)], lanes=1, fn=OneGetsNowhereFn(), rows=1000)
    child = script.start(0)
    with pytest.raises(
        DeferError, match=r"deferred OffsetRange\(start=0, stop=1\) of element \('7', 1\) 6 times in a row"
    ):
        script.run()
    assert len(child.records) == 19


def test_a_row_that_ran_long_is_told_by_itself():
    """The others of its work item are one piece, whose seconds are their own."""
    script = Scripted([(f"{row}", 2) for row in range(20)], lanes=1, rows=1000)
    child = script.start(0)
    while script.live():
        script.round()
        if child.records[-1:] == [("7", 0)]:
            child.lane.look()
            script.clock.now += 10.0
            child.lane.look()
    pieces = script.coordinator.report(script.clock.now).pieces
    assert {piece.elements: piece.seconds > 5.0 for piece in pieces} == {1: True, 19: False}
    assert [piece.element for piece in pieces if piece.elements == 1] == [("7", 2)]
