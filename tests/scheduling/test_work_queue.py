"""The backlog: biggest first, and what it weighs follows what is known of costs."""

import random

import attrs
import pytest
from support.planning import costs_of, cut_off, drain, item_of, queue_of, ran

from sdf.execution.work_items import Outcome, Part
from sdf.model.restrictions import OffsetRange
from sdf.scheduling import work_queue as backlog_module
from sdf.scheduling.cost_model import CostModel
from sdf.scheduling.work_queue import WorkQueue


def test_backlog_gives_the_biggest_first():
    """By estimated seconds."""
    backlog = queue_of(costs_of(), [item_of(0, 0, 3), item_of(1, 0, 9), item_of(2, 0, 1), item_of(3, 0, 5)])
    assert [item.id for item in drain(backlog)] == [1, 3, 0, 2]


@pytest.mark.parametrize("seed", range(20))
def test_backlog_gives_the_biggest_first_however_many_come_meanwhile(monkeypatch, seed):
    """Those that were sorted, those that came later, and equal ones of both."""
    monkeypatch.setattr(backlog_module, "_MANY", 5)
    choose, backlog, model = random.Random(seed), WorkQueue(costs_of()), []
    sorts = 0
    for number in range(500):
        for _ in range(choose.choice((0, 1, 1, 2, 12))):
            item = item_of(number * 100 + len(model), 0, choose.randrange(1, 30))
            backlog.push(item)
            model.append(item)
        if model:
            model.sort(key=lambda item: (-item.size, item.id))
            assert backlog.pop() == model.pop(0)
        assert len(backlog) == len(model)
        assert backlog.seconds() == pytest.approx(sum(item.size for item in model))
        sorts += bool(backlog._whole._sorted)
    assert sorts


def test_equal_work_items_come_in_the_order_of_their_ids():
    """Planning is repeatable."""
    backlog = queue_of(costs_of(), [item_of(number, 0, 5) for number in (3, 1, 2, 0)])
    assert [item.id for item in drain(backlog)] == [0, 1, 2, 3]


def test_backlog_ranks_by_seconds_where_the_cost_is_known():
    """A small slow one comes before a big fast one."""
    costs = costs_of(1.0)
    costs.observe(Outcome(1, (Part(9, OffsetRange(0, 1), (), 1, 100.0),), 0, 0.0))
    slow = item_of(10, 0, 2, parent=9)
    costs.inherit(slow)
    assert [item.id for item in drain(queue_of(costs, [item_of(0, 0, 50), slow]))] == [10, 0]


def test_backlog_ranks_what_has_not_begun_by_what_it_costs_beside_its_units():
    """A small one costs three seconds, whatever its size; what was cut off costs two."""
    costs = CostModel()
    for number, size in enumerate((1, 10, 100)):
        ran(costs, number, size, 3.0)
    ran(costs, 3, 1, 2.0, whole=False)
    assert [
        item.id for item in drain(queue_of(costs, [item_of(9, 0, 1), *cut_off(costs, item_of(10, 1, 2, parent=3))]))
    ] == [9, 10]


def test_backlog_knows_its_seconds():
    """Units by the mean, or by their own cost."""
    costs = costs_of(0.5)
    costs.observe(Outcome(1, (Part(9, OffsetRange(0, 1), (), 1, 3.0),), 0, 0.0))
    slow = item_of(10, 0, 2, parent=9)
    costs.inherit(slow)
    backlog = queue_of(costs, [item_of(0, 0, 50), slow])
    assert (backlog.seconds(), costs.seconds_of(slow), costs.seconds_of(item_of(0, 0, 50))) == pytest.approx(
        (31.0, 6.0, 25.0)
    )


def test_backlog_is_empty_and_free_of_rounding_when_all_was_taken():
    """Sums of floats do not leave a remainder."""
    backlog = queue_of(costs_of(), [attrs.evolve(item_of(i, 0, 5), size=0.1 * i) for i in range(30)])
    drain(backlog)
    assert (len(backlog), backlog.seconds()) == (0, 0.0)


def test_a_giant_that_was_taken_takes_nothing_of_the_rest_with_it():
    """A sum of floats that was 1e17 has lost what is less than 16."""
    backlog = queue_of(costs_of(), [attrs.evolve(item_of(i, 0, 5), size=size) for i, size in enumerate((1e17, 3, 2))])
    backlog.pop()
    assert backlog.seconds() == 5.0


def test_what_was_cut_before_anything_was_known_is_weighed_once_it_is():
    """A unit counted as a second."""
    costs = costs_of()
    backlog = queue_of(costs, [item_of(0, 0, 50), *cut_off(costs, item_of(10, 0, 2, parent=9))])
    ran(costs, 7, 1, 0.5)
    assert backlog.seconds() == 26.0


def test_unknown_sizes_count_as_one():
    """Each work item is a unit."""
    backlog = queue_of(costs_of(0.5), [item_of(i, 0, 5, size=None) for i in range(4)])
    assert backlog.seconds() == 2.0


def test_the_backlog_weighs_again_what_follows():
    """What was thought to be the least comes first, once what lies before it has shown what it costs."""
    costs = CostModel()
    ran(costs, 7, 1, 1.0)
    dear, cheap = cut_off(costs, item_of(1, 4, 9, parent=0), item_of(3, 4, 99, parent=2))
    backlog = WorkQueue(costs)
    for item in (dear, cheap):
        backlog.push(item)
    assert backlog.seconds() == 5.0 + 95.0
    ran(costs, 0, 4, 4000.0)
    ran(costs, 2, 4, 4.0)
    assert backlog.seconds() == 5000.0 + 95.0
    assert [backlog.pop(), backlog.pop()] == [dear, cheap]


def test_where_much_waits_it_is_not_all_weighed_again_for_each_that_costs_something_else(monkeypatch):
    """64 for each change on average, however many wait; what they cost together is known but for the last changes."""
    costs, weighed = CostModel(), []
    ran(costs, 9999, 1, 1.0)
    backlog = WorkQueue(costs)
    for piece in cut_off(costs, *(item_of(2 * number + 1, 0, 1, parent=2 * number) for number in range(640))):
        backlog.push(piece)
    for number in range(640):
        ran(costs, 2 * number, 1, 1.0)
    assert backlog.seconds() == pytest.approx(640)
    seconds_of = costs.seconds_of
    monkeypatch.setattr(costs, "seconds_of", lambda item: weighed.append(item) or seconds_of(item))
    for changes in range(1, 641):
        ran(costs, 2 * (changes - 1), 1, 3.0)
        assert 640 + 2 * (changes - 20) <= backlog.seconds() <= 640.1 + 2 * changes
    assert 640 <= len(weighed) <= 64 * 640
