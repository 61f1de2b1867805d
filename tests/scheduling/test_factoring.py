"""The planner: nothing is lost or doubled by planning, and budgets and bounds are kept."""

import random

import attrs
import pytest
from support.planning import Cutter, costs_of, drain, item_of, queue_of

from sdf.execution.work_items import Outcome, Part
from sdf.model.restrictions import OffsetRange, tiling_flaw
from sdf.scheduling.cost_model import CostModel
from sdf.scheduling.factoring import (
    Limits,
    PlannedTask,
    Tuning,
    deal,
    plan_stage,
    scaled,
    tasks_allowed,
)
from sdf.scheduling.work_queue import WorkQueue

TUNING = Tuning(first_budget_seconds=0.5, min_piece_seconds=0.25, budget_seconds=None)
NO_LIMITS = Limits(min_tasks=1, max_tasks=None, max_items=None)


def plan(backlog, costs, tasks=4, cut=None, **options):
    arguments = {"width": tasks, "running_seconds": 0.0, "tuning": TUNING, "limits": NO_LIMITS} | options
    return plan_stage(backlog, costs, tasks=tasks, cut=cut or Cutter(), **arguments)


def positions(items):
    return sorted(position for item in items for position in range(*item.restriction))


# tasks_allowed


@pytest.mark.parametrize(
    ("slots", "seconds", "known", "limits", "expected"),
    [
        (8, 100.0, True, NO_LIMITS, 8),
        (8, 100.0, False, NO_LIMITS, 8),
        (8, 0.0, False, NO_LIMITS, 8),
        (8, 0.0, True, NO_LIMITS, 1),
        (8, 0.5, True, NO_LIMITS, 3),
        (8, 1.0, True, NO_LIMITS, 5),
        (8, 100.0, True, Limits(1, 3, None), 3),
        (8, 100.0, True, Limits(12, None, None), 12),
        (8, 0.0, True, Limits(4, None, None), 4),
        (8, 100.0, True, Limits(2, 2, None), 2),
        (1, 100.0, True, NO_LIMITS, 1),
    ],
)
def test_tasks_allowed(slots, seconds, known, limits, expected):
    """One per slot, as far as the backlog feeds them, within the bounds."""
    assert tasks_allowed(slots, seconds, costs_of(1.0 if known else None), TUNING, limits) == expected


def test_once_an_estimate_was_wrong_no_slot_idles_for_another():
    """What is left may be dear."""
    costs = costs_of(1.0)
    costs.surprised = True
    assert tasks_allowed(8, 0.0, costs, TUNING, NO_LIMITS) == 8


def test_the_smallest_of_pieces_is_no_reason_to_overflow():
    """A float may be tiny, and an integer has no infinity."""
    tuning = attrs.evolve(TUNING, min_piece_seconds=5e-324)
    assert tasks_allowed(8, 1.0, costs_of(1.0), tuning, NO_LIMITS) == 8


# plan_stage


def test_an_empty_backlog_plans_nothing():
    """No task is better than an empty one."""
    costs = costs_of()
    assert plan(WorkQueue(costs), costs) == []


@pytest.mark.parametrize("tasks", [0, -1, -5])
def test_no_idle_slot_plans_nothing(tasks):
    """Slots may have gone away while tasks run."""
    costs = costs_of()
    backlog = queue_of(costs, [item_of(0, 0, 5)])
    assert (plan(backlog, costs, tasks=tasks, width=4), len(backlog)) == ([], 1)


def test_the_first_stage_shares_the_units_evenly():
    """As long as nothing is known each task gets R / P of the units, and a short budget."""
    costs = costs_of()
    tasks = plan(queue_of(costs, [item_of(0, 0, 800)]), costs)
    assert [(tuple(task.items[0].restriction), task.budget_seconds) for task in tasks] == [
        ((0, 200), 0.5),
        ((200, 400), 0.5),
        ((400, 600), 0.5),
        ((600, 800), 0.5),
    ]


def test_a_stage_takes_three_quarters_of_what_is_left():
    """Each of P tasks gets 3/4 of R / P seconds, which is also its budget."""
    costs = costs_of(1.0)
    backlog = queue_of(costs, [item_of(0, 0, 800)])
    tasks = plan(backlog, costs)
    assert ([(t.expected_seconds, t.budget_seconds) for t in tasks], backlog.seconds()) == ([(150, 150)] * 4, 200)


def test_running_work_counts_as_left():
    """R is the work left anywhere."""
    costs = costs_of(1.0)
    backlog = queue_of(costs, [item_of(0, 0, 800)])
    tasks = plan(backlog, costs, running_seconds=800.0)
    assert [task.budget_seconds for task in tasks] == [300] * 3
    assert backlog.seconds() == 0


def test_one_idle_slot_does_not_get_the_whole_backlog():
    """Handing the first idle slot all of it gave 0.31 of the ideal."""
    costs = costs_of(1.0)
    (task,) = plan(queue_of(costs, [item_of(0, 0, 800)]), costs, tasks=1, width=4)
    assert task.budget_seconds == 150


@pytest.mark.parametrize(("surprised", "longest"), [(False, 40), (True, 4)])
def test_no_task_is_planned_for_much_longer_than_the_run_has_taken(surprised, longest):
    """Estimates may be wrong, and for much less once one was; after 20 s of run."""
    costs = costs_of(1.0)
    costs.surprised = surprised
    tasks = plan(queue_of(costs, [item_of(0, 0, 800)]), costs, elapsed_seconds=20.0)
    assert [task.budget_seconds for task in tasks] == [longest] * 4


def test_a_run_that_has_just_begun_may_plan_tasks_of_some_tenths_of_a_second():
    """Also once an estimate was wrong: smaller ones cost a short run more than they bring."""
    costs = costs_of(1.0)
    costs.surprised = True
    tasks = plan(queue_of(costs, [item_of(0, 0, 800)]), costs, elapsed_seconds=0.5)
    assert {task.budget_seconds for task in tasks} == {0.4}


def test_no_piece_is_smaller_than_what_starting_a_stage_takes():
    """As far as that is more than the smallest piece that was asked for."""
    assert TUNING.with_least(0.1) == TUNING
    assert TUNING.with_least(1.5) == attrs.evolve(TUNING, min_piece_seconds=1.5)


def test_budget_seconds_is_the_longest():
    """A fixed limit holds."""
    costs = costs_of(1.0)
    tuning = attrs.evolve(TUNING, budget_seconds=30)
    tasks = plan(queue_of(costs, [item_of(0, 0, 800)]), costs, tuning=tuning)
    assert [(task.expected_seconds, task.budget_seconds) for task in tasks] == [(30, 30)] * 4


def test_budget_seconds_bounds_the_first_budget():
    """Also while nothing is known."""
    costs = costs_of()
    tuning = attrs.evolve(TUNING, budget_seconds=0.1)
    tasks = plan(queue_of(costs, [item_of(0, 0, 800)]), costs, tuning=tuning)
    assert [task.budget_seconds for task in tasks] == [0.1] * 4


def test_pieces_are_never_smaller_than_worth_a_task():
    """Towards the end a piece is min_piece_seconds."""
    costs = costs_of(0.01)
    tasks = plan(queue_of(costs, [item_of(0, 0, 60)]), costs)
    assert [(len(task.items), task.budget_seconds) for task in tasks] == [(1, 0.25), (1, 0.25)]


def test_small_work_items_are_packed():
    """Many in one task."""
    costs = costs_of(1.0)
    tasks = plan(queue_of(costs, [item_of(i, 0, 1) for i in range(80)]), costs)
    assert [len(task.items) for task in tasks] == [15] * 4


@pytest.mark.parametrize(("surprised", "items"), [(False, [8]), (True, [1] * 8)])
def test_once_an_estimate_was_wrong_small_work_items_are_spread(surprised, items):
    """They look as if all of them were not worth a task; any may be dear, and the others would wait behind it."""
    costs = costs_of(0.01)
    costs.surprised = surprised
    tasks = plan(queue_of(costs, [item_of(i, 0, 1) for i in range(8)]), costs, tasks=8)
    assert [len(task.items) for task in tasks] == items


def test_once_an_estimate_was_wrong_pieces_are_no_smaller_for_it():
    """They are cut as before."""
    costs = costs_of(0.01)
    costs.surprised = True
    tasks = plan(queue_of(costs, [item_of(0, 0, 100)]), costs, tasks=8)
    assert [tuple(task.items[0].restriction) for task in tasks] == [(0, 25), (25, 50), (50, 75), (75, 100)]


@pytest.mark.parametrize("max_items", [1, 3, 10, 1000])
@pytest.mark.parametrize("seconds_per_unit", [None, 1.0])
def test_max_items_bounds_a_stage(max_items, seconds_per_unit):
    """At most so many work items in one stage, and what is over stays."""
    costs = costs_of(seconds_per_unit)
    backlog = queue_of(costs, [item_of(i, 0, 1) for i in range(80)])
    tasks = plan(backlog, costs, limits=attrs.evolve(NO_LIMITS, max_items=max_items))
    planned = sum(len(task.items) for task in tasks)
    assert (planned <= max_items, planned > 0, planned + len(backlog)) == (True, True, 80)


@pytest.mark.parametrize("seconds_per_unit", [None, 1.0])
def test_without_max_items_a_stage_may_hold_more_than_the_backlog_did(seconds_per_unit):
    """Cutting makes work items: one in the backlog feeds every task."""
    costs = costs_of(seconds_per_unit)
    tasks = plan(queue_of(costs, [item_of(0, 0, 800)]), costs, tasks=8)
    assert [len(task.items) for task in tasks] == [1] * 8


def test_without_max_items_a_task_may_hold_any_number():
    """Thousands of small files go into one task."""
    costs = costs_of(0.001)
    (task,) = plan(queue_of(costs, [item_of(i, 0, 1) for i in range(20_000)]), costs, tasks=1)
    assert len(task.items) == 15_000


@pytest.mark.parametrize("seconds_per_unit", [None, 0.001, 1.0])
def test_a_work_item_that_cannot_be_cut_is_planned_whole(seconds_per_unit):
    """A cut that declines delays nothing."""
    costs = costs_of(seconds_per_unit)
    backlog = queue_of(costs, [item_of(i, 0, 800) for i in range(3)])
    tasks = plan(backlog, costs, cut=Cutter(declines=True))
    planned = [item.id for task in tasks for item in task.items]
    assert (sorted(planned + [item.id for item in drain(backlog)]), len(planned) > 0) == ([0, 1, 2], True)


def test_a_big_work_item_that_cannot_be_cut_waits_for_a_task_of_its_own():
    """It is not added to a task that has something to do already."""
    costs = costs_of(1.0)
    tuning = attrs.evolve(TUNING, budget_seconds=10)
    backlog = queue_of(costs, [item_of(0, 0, 9), item_of(1, 0, 9), item_of(2, 0, 500)])
    tasks = plan(backlog, costs, cut=Cutter(declines=True), tuning=tuning)
    assert [[item.id for item in task.items] for task in tasks] == [[2], [0], [1]]


def test_a_piece_inherits_what_is_known_of_its_whole():
    """The rest of a cut costs what the work item cost."""
    costs = costs_of(1.0)
    costs.observe(Outcome(1, (Part(7, OffsetRange(0, 1), (), 1, 5.0),), 0, 0.0))
    backlog = queue_of(costs, [item_of(7, 1, 101)])
    plan(backlog, costs)
    assert {costs.rates.rate(item.id) for item in drain(backlog)} == {5.0}


def test_a_cut_of_work_of_unknown_size_shares_out_what_it_was_expected_to_cost():
    """Each side counts as one unit again, as parts of a key range do; else it would be cut into dust."""
    costs = costs_of(1.0)
    costs.observe(Outcome(1, (Part(7, OffsetRange(0, 1), (), 1, 64.0),), 0, 0.0))
    backlog = queue_of(costs, [item_of(7, 0, 10**9, size=None)])
    tuning = attrs.evolve(TUNING, budget_seconds=1.0)
    pieces, seconds = 0, 0.0
    while len(backlog):
        for task in plan(backlog, costs, tuning=tuning):
            pieces += len(task.items)
            seconds += task.expected_seconds
        assert pieces < 200
    assert pieces >= 40
    assert seconds == pytest.approx(64.0)


@pytest.mark.parametrize("seconds_per_unit", [None, 1.0])
@pytest.mark.parametrize("size", [0, None])
def test_work_of_size_zero_or_unknown_is_planned(size, seconds_per_unit):
    """Empty files are work items too: no task is empty, and stages come to an end."""
    costs = costs_of(seconds_per_unit)
    backlog = queue_of(costs, [attrs.evolve(item_of(i, 0, 0), size=size) for i in range(10)])
    planned, stages = [], 0
    while len(backlog) and stages < 20:
        tasks = plan(backlog, costs)
        planned += [len(task.items) for task in tasks]
        stages += 1
    assert (sum(planned), min(planned, default=0) > 0) == (10, True)


def test_a_task_is_a_value():
    """What is planned can be compared."""
    assert PlannedTask((), 1.0, 2.0) == PlannedTask((), 1.0, 2.0)


def random_plan(seed):
    """Plan a random backlog; return the bounds, the tasks and all work items, and what was there before."""
    rng = random.Random(seed)
    costs = costs_of(rng.choice([None, 0.001, 0.1, 1.0, 50.0]))
    size = rng.choice(["known", "known", None])
    items, at = [], 0
    for number in range(rng.randint(1, 30)):
        length = rng.choice([0, 1, 2, 10, 100, 1000])
        items.append(item_of(number, at, at + length, size=size))
        at += length
        if rng.random() < 0.2:
            costs.observe(Outcome(1, (Part(number, None, (), 1, rng.random() * 10),), 0, 0))
    backlog = queue_of(costs, items)
    tuning = Tuning(0.5, rng.choice([0.01, 0.25, 5.0]), rng.choice([None, 0.5, 20.0]))
    limits = Limits(1, None, rng.choice([None, 1, 5, 100]))
    width = rng.randint(1, 12)
    tasks = rng.randint(1, width)
    planned = plan(
        backlog,
        costs,
        tasks=tasks,
        width=width,
        running_seconds=rng.choice([0.0, 10.0]),
        tuning=tuning,
        limits=limits,
        cut=Cutter(declines=rng.random() < 0.2),
    )
    return at, tasks, tuning, limits, planned, drain(backlog)


SEEDS = pytest.mark.parametrize("seed", range(150))


@SEEDS
def test_planning_loses_and_doubles_nothing(seed):
    """What was planned and what stays tile what was there."""
    end, _, _, _, planned, left = random_plan(seed)
    items = sorted([item for task in planned for item in task.items] + left, key=lambda item: tuple(item.restriction))
    assert tiling_flaw(OffsetRange(0, end), [item.restriction for item in items], None) is None


@SEEDS
def test_no_work_item_is_planned_twice(seed):
    """Ids are unique over tasks and backlog."""
    _, _, _, _, planned, left = random_plan(seed)
    ids = [item.id for task in planned for item in task.items] + [item.id for item in left]
    assert len(ids) == len(set(ids))


@SEEDS
def test_plans_keep_their_bounds(seed):
    """Number of tasks, work items a stage and budgets; no task is empty, and something is planned."""
    _, tasks, tuning, limits, planned, _ = random_plan(seed)
    count = sum(len(task.items) for task in planned)
    assert (
        0 < len(planned) <= tasks,
        all(task.items for task in planned),
        limits.max_items is None or count <= limits.max_items,
        all(0 < task.budget_seconds <= tuning.longest() for task in planned),
    ) == (True, True, True, True)


@SEEDS
def test_a_planned_task_expects_no_more_than_half_more_than_its_budget(seed):
    """Unless it is one work item that could not be cut."""
    _, _, _, _, planned, _ = random_plan(seed)
    over = [
        task for task in planned if task.expected_seconds > 1.5 * task.budget_seconds + 1e-9 and len(task.items) > 1
    ]
    assert over == []


def test_random_plans_exercise_what_they_claim_to():
    """Cuts, packed tasks and backlogs that stay all happen."""
    plans = [random_plan(seed) for seed in range(150)]
    cuts = sum(item.id > 1000 for *_, left in plans for item in left)
    packed = sum(len(task.items) > 1 for *_, planned, _ in plans for task in planned)
    assert (cuts > 0, packed > 0) == (True, True)


def simulate(seed, slots):
    """Run a backlog with hidden costs over virtual slots, each task stopping at its budget; return positions run."""
    rng = random.Random(seed)
    costs, cut = CostModel(), Cutter()
    slow = {number: rng.choice([0.001, 0.01, 0.5]) for number in range(20)}
    pending = [item_of(number, number * 1000, number * 1000 + rng.randint(0, 400)) for number in range(20)]
    done, stages = [], 0
    backlog = queue_of(costs, pending)
    while len(backlog) and stages < 10_000:
        stages += 1
        for task in plan(backlog, costs, tasks=slots, cut=cut):
            spent, units, parts, rest = 0.0, 0, [], []
            for number, item in enumerate(task.items):
                if number and spent >= task.budget_seconds:
                    rest.append(item)
                    continue
                start, stop = item.restriction
                cost = slow[start // 1000]
                run = max(1, min(stop - start, int((task.budget_seconds - spent) / cost))) if stop > start else 0
                done += range(start, start + run)
                spent += run * cost
                units += run
                if start + run < stop:
                    parts.append(Part(item.id, OffsetRange(start, start + run), (), run, run * cost))
                    cut.next_id += 1
                    rest.append(item_of(cut.next_id, start + run, stop, parent=item.id))
            costs.observe(Outcome(len(task.items), tuple(parts), units, spent))
            for item in rest:
                costs.inherit(item)
                backlog.push(item)
    return done, positions(pending)


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("seed", range(10))
def test_a_simulated_run_ends_with_all_of_it_done_once(seed, slots):
    """Stage by stage, whatever the hidden costs."""
    done, expected = simulate(seed, slots)
    assert sorted(done) == expected


@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
def test_deal_takes_all_and_deals_it_evenly(lanes):
    """One big range is cut into as many pieces as there are lanes, a unit more or less each."""
    costs = costs_of()
    shares = deal(queue_of(costs, [item_of(0, 0, 1000)]), costs, lanes, cut=Cutter())
    parts = [item.restriction for share in shares for item in share]
    assert tiling_flaw(OffsetRange(0, 1000), parts, lambda part: None) is None
    assert all(abs(sum(item.size for item in share) - 1000 / lanes) <= 1 for share in shares)


def test_deal_of_many_small_ones_cuts_none():
    """Each lane gets about as much."""
    costs = costs_of()
    items = [item_of(number, 0, 1 + number % 3) for number in range(100)]
    shares = deal(queue_of(costs, items), costs, 4, cut=Cutter())
    assert sorted(item.id for share in shares for item in share) == list(range(100))
    assert max(sum(item.size for item in share) for share in shares) <= 53


def test_deal_of_what_cannot_be_cut():
    """Every work item is in one share, though some shares stay empty."""
    costs = costs_of()
    items = [item_of(number, 0, 10) for number in range(3)]
    shares = deal(queue_of(costs, items), costs, 5, cut=Cutter(declines=True))
    assert sorted(item.id for share in shares for item in share) == [0, 1, 2]


def test_deal_of_work_items_without_size_or_work():
    """Nothing is lost."""
    costs = costs_of()
    items = [item_of(0, 0, 0), item_of(1, 0, 5, size=None), item_of(2, 0, 0), item_of(3, 0, 7)]
    shares = deal(queue_of(costs, items), costs, 2, cut=Cutter(declines=True))
    assert sorted(item.id for share in shares for item in share) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("bounds", "backlog", "tasks"),
    [
        *(((1, 16), backlog, tasks) for backlog, tasks in
          [(1, 1), (2, 2), (3, 2), (7, 4), (8, 8), (10, 8), (15, 8), (16, 16), (17, 16), (1000, 16)]),
        *(((5, 16), backlog, tasks) for backlog, tasks in [(3, 5), (5, 5), (7, 5), (8, 8)]),
        *(((3, 6), backlog, tasks) for backlog, tasks in [(3, 3), (5, 4), (6, 4), (7, 6)]),
    ],
)  # fmt: skip
def test_tasks_follow_the_backlog_in_powers_of_two(bounds, backlog, tasks):
    """Within bounds, which are applied last."""
    assert scaled(backlog, *bounds) == tasks
