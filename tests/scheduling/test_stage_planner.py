"""When the next stage is planned, and for how many tasks."""

import math

import pytest
from support.planning import RangeFn, drain

from sdf.execution.expansion import Expanded
from sdf.execution.invoker import Residual
from sdf.execution.work_items import Outcome, Part, Ran
from sdf.model.restrictions import OffsetRange
from sdf.scheduling.factoring import Limits, Tuning
from sdf.scheduling.run_state import RunState, enter
from sdf.scheduling.stage_planner import InFlight, StagePlanner

START_SECONDS = 0.15


def in_flight(ends):
    tasks = InFlight()
    for end in ends:
        tasks.add(end)
    return tasks


@pytest.mark.parametrize(
    ("width", "ends", "tasks"),
    [
        (4, [], 4),
        (4, [9.0, 9.0], 2),
        (4, [1.0, 9.0, 9.0, 9.0], 1),
        (4, [1.0, 1.2, 0.5, 9.0], 3),
        (4, [1.0, 1.0, 1.0, 1.0, 5.0, 5.0], 2),
        (4, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 0),
        (4, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], -1),
    ],
)
def test_what_is_about_to_end_is_followed_by_one_task_each(width, ends, tasks):
    """It is second 1. Those that wait for their turn are counted, and there is never more than one of them per slot."""
    assert in_flight(ends).idle_soon(width, now=1.0, start_seconds=0.15) == tasks


def test_the_next_stage_is_planned_before_the_first_task_ends():
    """Those that should have ended are waited for no longer."""
    ends = [9.0, 5.0, 1.0 + START_SECONDS / 2, 0.5]
    assert in_flight(ends).until_idle(now=1.0, start_seconds=START_SECONDS) == pytest.approx(4.0 - START_SECONDS)
    assert (
        in_flight([1.0]).until_idle(now=1.0, start_seconds=START_SECONDS)
        == in_flight([]).until_idle(now=1.0, start_seconds=START_SECONDS)
        == math.inf
    )


def test_seconds_in_flight_are_those_of_tasks_that_are_not_late():
    """Of one that takes longer than was expected nothing is known; what ended counts no more."""
    tasks = in_flight([9.0, 0.5, 3.0, 9.0])
    assert (len(tasks), tasks.seconds(now=1.0)) == (4, 8.0 + 2.0 + 8.0)
    tasks.remove(9.0)
    tasks.remove(0.5)
    assert (len(tasks), tasks.seconds(now=1.0)) == (2, 8.0 + 2.0)


class Run:
    """A run of stages over one element of 1,000 units of a second each, on four slots."""

    def __init__(self, *, min_tasks=1, max_tasks=None, tasks_per_slot=1):
        self.work = RunState(RangeFn())
        limits = Limits(min_tasks, max_tasks, None)
        self.planner = StagePlanner(self.work, Tuning(0.5, 0.2, None), limits, tasks_per_slot=tasks_per_slot)
        whole = OffsetRange(0, 1000)
        enter(self.work, self.planner.backlog, [Expanded(1000, whole, ((whole, 1000),))])
        self.stage = self.planner.plan(4, 0.0, 0.0)
        for task, planned in enumerate(self.stage.tasks):
            self.work.ledger.assign(task, planned.items)

    def first_ends(self):
        """One unit of the first task of the first stage was done in its budget; the others still run."""
        self.planner.started(START_SECONDS / 1.25)
        item = self.stage.tasks[0].items[0]
        start, stop = item.restriction
        rest = (Residual(OffsetRange(start + 1, stop)),)
        part = Part(item.id, OffsetRange(start, start + 1), rest, 1, 1.0)
        for rest, _ in self.work.commit(0, 0, Outcome(1, (part,), 1, 1.0)):
            self.planner.backlog.push(rest)
        self.planner.in_flight.remove(self.stage.ends[0])


def test_the_first_stage_has_a_task_per_slot_and_begins_now():
    """Nothing runs that could be followed."""
    run = Run()
    assert (len(run.stage.tasks), run.stage.ends, len(run.planner.in_flight)) == (4, (0.5,) * 4, 4)


def test_while_no_cost_is_known_a_stage_is_planned_for_idle_slots_only():
    """The tasks of the first stage are about to end, but what they leave could not be weighed."""
    run = Run()
    run.planner.backlog.push(run.work.ledger.item(run.stage.tasks[0].items[0].id))
    assert (run.planner.plan(4, 0.4, 0.4), run.planner.seconds_until_due(0.4)) == (None, math.inf)


def test_tasks_about_to_end_are_followed_in_the_same_stage():
    """One slot is idle at 0.5 s, and three are late; what follows these begins a little later."""
    run = Run()
    run.first_ends()
    stage = run.planner.plan(4, 0.5, 0.5)
    seconds = [task.expected_seconds for task in stage.tasks]
    assert stage.ends == tuple(0.5 + START_SECONDS + each for each in seconds)
    assert (len(stage.tasks), len(run.planner.in_flight)) == (4, 7)


@pytest.mark.parametrize("bounds", [{"max_tasks": 4}, {"tasks_per_slot": 2}, {"min_tasks": 6}])
def test_none_waits_for_a_slot_where_some_wait_anyway_or_none_may(bounds):
    """A bound on the tasks in flight, more of them than slots: what is idle is followed, and begins now."""
    run = Run(**bounds)
    run.first_ends()
    stage = run.planner.plan(4, 0.5, 0.5)
    (task,) = stage.tasks
    assert stage.ends == (0.5 + task.expected_seconds,)


def test_the_first_stage_gives_back_only_what_takes_longer_than_its_budget():
    """So a run that is over soon is one stage; later ones give back what is worth a task of its own."""
    run = Run()
    run.first_ends()
    assert (run.stage.min_piece_seconds, run.planner.plan(4, 0.5, 0.5).min_piece_seconds) == (0.6, 0.2)


def test_what_starting_a_stage_takes_is_learnt():
    """Pieces are worth that much at least, and what follows a task is planned that much earlier."""
    run = Run()
    run.first_ends()
    run.planner.started(4.0 - START_SECONDS / 1.25)
    stage = run.planner.plan(4, 0.5, 0.5)
    assert (run.planner.start_seconds, stage.min_piece_seconds, stage.idle) == (2.5, 2.5, 1)
    assert stage.ends == tuple(0.5 + 2.5 + task.expected_seconds for task in stage.tasks)
    run.planner.started(1.0)
    assert run.planner.start_seconds == 1.25 * 1.5


def test_no_piece_takes_less_than_four_openings():
    """Each piece of an element opens it again: reaches its first claim, to open a file for example."""
    run = Run()
    run.first_ends()
    run.work.costs.observe(Outcome(1, (), 1, 4.0, (Ran(0, 0.0, 4.0, 1, 1, 3.0),)))
    assert run.work.costs.opening_seconds == 1.5
    assert run.planner.plan(4, 0.5, 0.5).min_piece_seconds == 6.0


def test_an_empty_backlog_is_planned_for_never():
    """What runs may leave something, of which its end will tell."""
    run = Run()
    run.first_ends()
    drain(run.planner.backlog)
    assert (run.planner.plan(4, 0.1, 0.1), run.planner.seconds_until_due(0.1)) == (None, math.inf)


def test_a_stage_is_due_before_the_next_task_ends():
    """If there is something to follow it."""
    run = Run()
    run.first_ends()
    end = run.planner.plan(4, 0.5, 0.5).ends[0]
    due = run.planner.seconds_until_due(0.5)
    assert len(run.planner.backlog) > 0
    assert due == pytest.approx(end - START_SECONDS - 0.5)


def test_of_many_slots_a_few_idle_for_a_moment_until_a_stage_serves_more_of_them():
    """Else ten thousand slots are as many stages a minute; but none idles for longer than a quarter of a second."""
    work = RunState(RangeFn())
    planner = StagePlanner(work, Tuning(0.5, 0.2, 1000.0), Limits(1, None, None))
    elements = [Expanded(10**6, OffsetRange(0, 10**6), ((OffsetRange(0, 10**6), 10**6),)) for _ in range(2)]
    enter(work, planner.backlog, elements[:1])
    ends = list(planner.plan(256, 0.0, 0.0).ends)
    enter(work, planner.backlog, elements[1:])
    work.costs.observe(Outcome(1, (), 1, 1.0))
    for end in ends[:3]:
        planner.in_flight.remove(end)
    for _ in ends[3:]:
        planner.in_flight.remove(ends[-1])
        planner.in_flight.add(100.0)  # nobody else is about to end
    assert (planner.plan(256, 0.1, 0.1), planner.seconds_until_due(0.1)) == (None, pytest.approx(0.15))
    planner.in_flight.remove(100.0)
    assert len(planner.plan(256, 0.1, 0.1).tasks) == 4
    planner.in_flight.remove(100.0)
    assert planner.plan(256, 0.2, 0.2) is None
    assert len(planner.plan(256, 0.36, 0.36).tasks) == 1
    for _ in range(5):
        planner.in_flight.remove(100.0)
    assert len(planner.plan(256, 0.37, 0.37).tasks) == 5
