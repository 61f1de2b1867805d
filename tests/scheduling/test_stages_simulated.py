"""StagedRunner's planning under simulated time: how close does it come to the ideal where a range has a dear part?"""

import heapq
import itertools
import math
import random
from bisect import bisect_left, bisect_right
from collections import deque

import attrs
import pytest
from support.planning import RangeFn

from sdf.execution.expansion import Expanded
from sdf.execution.invoker import Residual
from sdf.execution.work_items import Outcome, Part, Ran
from sdf.model.restrictions import OffsetRange
from sdf.scheduling.factoring import Limits, Tuning
from sdf.scheduling.run_state import RunState, enter
from sdf.scheduling.stage_planner import StagePlanner

SUBMIT_SECONDS, START_SECONDS = 0.03, 0.05  # the driver is busy with a stage, and Spark until its tasks are ready
LAUNCH_SECONDS = 0.02  # of a task that is ready, on a slot that is idle; and of its receipt, on the way back
TICK_SECONDS = 0.025  # at most so late a task sees that its budget is spent
TUNING, LIMITS = Tuning(0.5, 0.2, None), Limits(1, None, None)


@attrs.frozen
class Blocks:
    """One range of blocks, of which a share is dearer than the others."""

    slots: int
    seconds: float  # of work per slot
    share: float
    times: float
    at: float  # of the range, where the dear ones begin

    def ends(self):
        """Return how much work there is up to each block; a dear one takes 50 ms."""
        each = 0.05 / self.times
        blocks = round(self.slots * self.seconds / (each * (1 - self.share + self.share * self.times)))
        first = int(blocks * self.at)
        dear = range(first, first + round(blocks * self.share))
        return [0.0, *itertools.accumulate(0.05 if block in dear else each for block in range(blocks))]


def attempt(ends, plan, min_piece_seconds):
    """Return how long a task runs, and what it did: when its budget is spent it stops at the end of a block."""
    now, units, ran, parts = 0.0, 0, [], []
    for item in plan.items:
        if now >= plan.budget_seconds:
            break
        start, stop = item.restriction
        at = stop
        if now + ends[stop] - ends[start] > plan.budget_seconds + min_piece_seconds:
            at = min(stop, bisect_right(ends, ends[start] + plan.budget_seconds - now))
        seconds = ends[at] - ends[start]
        now, units = now + seconds, units + at - start
        ran.append(Ran(item.id, 0.0, seconds, at - start, 0))
        if at < stop:
            late = min(max(start, bisect_left(ends, ends[at] - 0.25)), at - 1)  # a quarter of a second before
            at_its_end = (ends[at] - ends[late]) / (at - late) * (at - start)
            rest = (Residual(OffsetRange(at, stop)),)
            parts.append(Part(item.id, OffsetRange(start, at), rest, at - start, max(seconds, at_its_end)))
    return now, Outcome(len(ran), tuple(parts), units, now, tuple(ran))


class Driver:
    """Plans as StagedRunner does, and Spark's queue of tasks with its slots, under simulated time.

    Its methods are what happens at a time; each returns a list of what is to happen next, and when.
    """

    def __init__(self, ends, slots, seed):
        self.ends = ends
        self.slots = self.idle = slots
        self.random = random.Random(seed)
        self.work = RunState(RangeFn())
        self.planner = StagePlanner(self.work, TUNING, LIMITS)
        self.ends_expected = {}  # by task
        self.began = {}  # by task that found a slot idle: its stage, and when that was submitted
        self.queue, self.told = deque(), []
        self.busy_until, self.stages, self.numbers = 0.0, 0, itertools.count()

    def queued(self, now, tasks):
        self.queue += tasks
        return self.launched(now)

    def launched(self, now):
        found = []
        while self.idle and self.queue:
            self.idle -= 1
            task, plan, min_piece_seconds = self.queue.popleft()
            seconds, outcome = attempt(self.ends, plan, min_piece_seconds)
            seconds += self.random.random() * TICK_SECONDS if outcome.parts else 0.0
            found.append((now + LAUNCH_SECONDS + seconds, self.ended, (task, seconds, outcome)))
        return found

    def ended(self, now, *ran):
        self.idle += 1
        return [(now + LAUNCH_SECONDS, self.received, ran), *self.launched(now)]

    def received(self, now, *ran):
        self.told.append(ran)
        return [(max(now, self.busy_until), self.planned, ())]

    def planned(self, now):
        if now < self.busy_until:
            return [(self.busy_until, self.planned, ())]
        for task, seconds, outcome in self.told:
            stage, began = self.began.get(task, (None, 0.0))
            if stage is not None:
                self.planner.started(now - began - seconds)
                self.began = {one: of for one, of in self.began.items() if of[0] != stage}
            self.planner.in_flight.remove(self.ends_expected.pop(task))
            for item, _ in self.work.commit(task, 0, outcome):
                self.planner.backlog.push(item)
        self.told = []
        stage = self.planner.plan(self.slots, now, now)
        found = [] if stage is None else self.submitted(now, stage)
        seconds = self.planner.seconds_until_due(now)
        return [*found, (now + max(seconds, 0.001), self.planned, ())] if seconds < math.inf else found

    def submitted(self, now, stage):
        tasks = [(next(self.numbers), plan, stage.min_piece_seconds) for plan in stage.tasks]
        for (task, plan, _), end in zip(tasks, stage.ends, strict=True):
            self.work.ledger.assign(task, plan.items)
            self.ends_expected[task] = end
        self.began |= {task: (self.stages, now) for task, *_ in tasks[: stage.idle]}
        self.stages += 1
        self.busy_until = now + SUBMIT_SECONDS
        return [(self.busy_until + START_SECONDS, self.queued, (tasks,)), (self.busy_until, self.planned, ())]


def simulate(ends, elements, slots, seed):
    """Return how long a run takes, over the ideal, and in how many stages."""
    driver = Driver(ends, slots, seed)
    parts = [((OffsetRange(*each), each[1] - each[0]),) for each in elements]
    enter(driver.work, driver.planner.backlog, [Expanded(each[0], each[0][0], each) for each in parts])
    order = itertools.count()
    events = [(0.0, next(order), driver.planned, ())]
    while len(driver.planner.backlog) or driver.ends_expected:
        now, _, happens, arguments = heapq.heappop(events)
        for at, what, given in happens(now, *arguments):
            heapq.heappush(events, (at, next(order), what, given))
    driver.work.ledger.prove()
    return now * slots / ends[-1], driver.stages


@pytest.mark.thorough
@pytest.mark.parametrize("at", [0.05, 0.2, 0.33, 0.5, 0.62, 0.8, 0.94])
@pytest.mark.parametrize(("share", "times"), [(0.05, 50), (0.005, 1000)])
@pytest.mark.parametrize(("slots", "seconds", "most"), [(2, 20, 1.15), (8, 20, 1.15), (2, 60, 1.1), (8, 60, 1.1)])
def test_a_dear_part_is_shared_out(slots, seconds, most, share, times, at):
    """Wherever it lies."""
    ends = Blocks(slots, seconds, share, times, at).ends()
    over, stages = simulate(ends, [(0, len(ends) - 1)], slots, seed=0)
    assert 1 <= over <= most, stages


@pytest.mark.thorough
@pytest.mark.parametrize(("slots", "most"), [(2, 1.13), (8, 1.13)])
@pytest.mark.parametrize("elements", [1, 100, 2000])
def test_a_short_run_of_even_work_loses_little_between_its_stages(slots, most, elements):
    """The next stage is there when the tasks end: with 5 s per slot up to 1.2 if it were planned only then."""
    blocks = 2000
    bounds = [blocks * number // elements for number in range(elements + 1)]
    ends = [slots * 5 * block / blocks for block in range(blocks + 1)]
    over, stages = simulate(ends, list(itertools.pairwise(bounds)), slots, seed=0)
    assert 1 <= over <= most, stages
