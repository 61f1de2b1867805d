"""Rows of tables count as so many work items, wherever work is estimated by number, and in reports."""

import pickle
from array import array

import attrs
import pytest
from support.clock import Clock
from support.fns import CountFn

from sdf.execution.bulk.naming import Several
from sdf.execution.bulk.table import Table
from sdf.execution.bundle import Bundle
from sdf.execution.work_items import Outcome, Part, Ran, WorkItem
from sdf.reporting.findings import straggler
from sdf.reporting.pieces import PieceRun, counts, unsplit
from sdf.scheduling.cost_model import CostModel
from sdf.scheduling.work_queue import WorkQueue


def rows_of(number, rows, size):
    """Give a work item of so many rows, each of a size."""
    names = [(str(row), size) for row in range(rows)]
    blobs = tuple(pickle.dumps(names[at : at + 32]) for at in range(0, rows, 32))
    table = Table(0, blobs, array("q", [0] * rows), array("q", [size] * rows))
    return WorkItem(number, 1000 * number, table, table.whole(), rows * size)


def known(per_item):
    """Give the costs of a run whose rows take the same seconds, whatever their size."""
    costs = CostModel()
    for number, (rows, size) in enumerate([(100, 1), (200, 100), (50, 3)]):
        seconds = per_item * rows
        costs.observe(Outcome(1, (), rows * size, seconds, (Ran(number, 0.0, seconds, rows * size, 0, 0.0, rows),)))
    return costs


def test_what_rows_cost_by_number():
    """Not what their table costs."""
    costs = known(3.0)
    assert costs.mean_of_items() == 3.0
    assert costs.seconds_of(rows_of(9, 40, 5)) == pytest.approx(120, rel=0.05)
    assert costs.seconds_of(rows_of(9, 1, 5)) == pytest.approx(3, rel=0.05)


def test_a_row_that_is_told_by_itself_did_its_own_work():
    """Not that of all rows that ran with it; this task has split, so the work of all is told, too."""
    costs = CostModel()
    for number in range(30):
        costs.observe(Outcome(1, (), 1000, 500.0, (Ran(number, 0.0, 500.0, 1000, 0, 0.0, 100),)))
        part = Part(100 + number, None, (), 1000, 500.0)
        told = Ran(part.item_id, 0.0, 495.0, 990, 0, 0.0, 99), Ran(part.item_id, 0.0, 5.0, 10, 0, 0.0, 1, 7)
        costs.observe(Outcome(1, (part,), 1000, 500.0, told))
    assert costs.seconds_of(rows_of(999, 10, 100)) == pytest.approx(500, rel=0.05)


def test_rows_that_ran_in_part_are_as_many_as_have_begun():
    """Fifty of a hundred are not a half of fifty."""
    costs = CostModel()
    part = Part(0, None, (), 50, 100.0)
    costs.observe(Outcome(1, (part,), 50, 100.0, (Ran(0, 0.0, 100.0, 50, 0, 0.0, 50),)), [rows_of(0, 100, 1)])
    assert costs.mean_of_items() == pytest.approx(2.0)


@pytest.mark.parametrize(("times", "surprised"), [(0.25, True), (0.5, False), (2.0, False), (4.0, True)])
def test_rows_are_expected_to_take_as_many_times_as_long_as_one(times, surprised):
    """If they ran in part; one of them may be told by itself."""
    costs = known(3.0)
    part, seconds = Part(9, None, (), 40, 120.0 * times), 3.0 * times
    told = Ran(9, 0.0, 39 * seconds, 39, 0, 0.0, 39), Ran(9, 0.0, seconds, 1, 0, 0.0, 1, 7)
    costs.observe(Outcome(1, (part,), 40, 120.0 * times, told), [rows_of(9, 100, 1)])
    assert costs.surprised is surprised


@pytest.mark.parametrize(("times", "surprised"), [(0.25, True), (0.5, False), (2.0, False), (4.0, True)])
def test_rows_that_were_cut_off_are_expected_to_take_as_many_times_as_long_as_one(times, surprised):
    """If nothing is known of those that they were cut from."""
    costs = known(3.0)
    rest = attrs.evolve(rows_of(10, 40, 1), parent=9)
    costs.cut(rows_of(9, 100, 1), 0.6, rows_of(9, 60, 1), rest)
    costs.observe(Outcome(1, (), 40, 120.0 * times, (Ran(10, 0.0, 120.0 * times, 40, 0, 0.0, 40),)))
    assert costs.surprised is surprised


@pytest.mark.parametrize(("times", "surprised"), [(2.0, False), (4.0, True)])
def test_rows_before_those_that_were_given_back_are_expected_to_take_as_many_times_as_long_as_one(times, surprised):
    """They may be as dear as these."""
    costs = known(3.0)
    ran = (Ran(9, 0.0, 120.0 * times, 40, 0, 0.0, 40),)
    costs.observe(Outcome(1, (), 40, 120.0 * times, ran), gave_back=True)
    assert costs.surprised is surprised


def test_what_a_queue_of_rows_costs():
    """Added up; the dearest comes first."""
    costs = known(3.0)
    queue = WorkQueue(costs)
    for number, rows in enumerate([10, 300, 40], start=10):
        queue.push(rows_of(number, rows, 1))
    assert queue.seconds() == pytest.approx(3 * 350, rel=0.05)
    assert queue.pop().elements == 300
    assert queue.seconds() == pytest.approx(3 * 50, rel=0.05)


def test_rows_that_have_not_begun_are_given_back_if_they_are_many():
    """One work item took a second, so ten rows take ten."""
    for rows, refused in ((2, True), (20, False)):
        clock = Clock()
        alone = WorkItem(0, 0, ("x", 1000), CountFn().get_initial_restriction(("x", 1000)), 1000)
        bundle = Bundle(CountFn(), [alone, rows_of(1, rows, 1)], clock=clock)
        for number, _ in enumerate(bundle.outputs()):
            if number == 998:
                clock.now += 1
                bundle.hand_back(5.0)
        assert (bundle.outcome().started == 2) is refused


def piece(number, elements, seconds, name="x"):
    element = Several(elements, name) if elements > 1 else name
    return PieceRun(number, number, element, None, "initial", None, 0, 0.0, seconds, 1.0, 1, elements=elements)


def test_many_elements_are_no_straggler():
    """One of them is, if it took long by itself."""
    bulk = [piece(number, 1000, 10.0) for number in range(4)]
    assert straggler(bulk, 4) is None
    assert counts(bulk) == dict.fromkeys(range(4), 1000)
    assert straggler([piece(0, 1000, 40.0), piece(9, 1, 30.0, "dear")], 4).element == "dear"


def test_without_splitting_many_elements_go_to_all_slots():
    """As each of them is one."""
    schedule = unsplit([piece(0, 1000, 12.0), piece(1, 1, 2.0)], 4)
    assert max(end for _, _, end in schedule) == pytest.approx(5.0)
    assert len([one for one in schedule if one[0] == 0]) == 4
