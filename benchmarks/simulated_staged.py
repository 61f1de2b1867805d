"""StagedRunner under simulated time: the real planner and ledger, Spark's queue of tasks, and its slots."""

import heapq
import itertools
import math
from collections import deque

from simulated import Driver, Launcher, UnitsFn, entered

from sdf import OffsetRange
from sdf.execution.invoker import Residual
from sdf.execution.work_items import Outcome, Part
from sdf.scheduling.factoring import Limits, Tuning
from sdf.scheduling.run_state import RunState
from sdf.scheduling.stage_planner import StagePlanner


class StagedSimulation:
    """Plans stages as StagedRunner does; a task waits in the queue until a slot is free.

    Attributes:
        sent: how many tasks were started.
        stages: and how many stages.
    """

    def __init__(self, world):
        self.world = world
        self.driver = Driver()
        self.work = RunState(UnitsFn())
        self.planner = StagePlanner(self.work, Tuning(0.5, 0.2, None), Limits(1, None, None))
        self.driver(0.0, entered, world, self.work, self.planner.backlog)
        self.starts = Launcher(world.overheads)
        self.free, self.queue = [], deque()
        self.slots = self.stages = 0
        self.ends_expected = {}  # by task
        self.stored = [[] for _ in world.slots]  # when each block was, and how long it took
        self.events, self.order, self.sent = [], itertools.count(1), 0
        for number, slot in enumerate(world.slots):
            self.at(max(self.driver.free, slot.begins), self.comes, number)

    def at(self, when, action, *args):
        heapq.heappush(self.events, (when, next(self.order), action, args))

    def run(self):
        """Return the makespan."""
        now = 0.0
        while len(self.planner.backlog) or self.ends_expected:
            until = max(self.events[0][0], self.driver.free)
            while self.events and self.events[0][0] <= until:  # what comes while the driver is at it
                now, _, action, args = heapq.heappop(self.events)
                action(now, *args)
            self.plans(now)
        self.work.ledger.prove()
        return now + self._computing_again(now)

    def _computing_again(self, now):
        """Return how long it takes to compute the blocks that were lost after they were stored, when they are read."""
        lost = [
            seconds
            for slot, stored in enumerate(self.stored)
            for end, seconds in stored
            if any(end < at <= now for at in self.world.lost_at[slot])
        ]
        return max(sum(lost) / len(self.world.slots), *lost) if lost else 0.0

    def comes(self, now, slot):
        self.slots += 1
        self.free.append(slot)
        self.launches(now)

    def plans(self, now):
        """Plan a stage for the slots that are idle or soon will be, and submit it."""
        stage = self.driver(now, lambda at: self.planner.plan(self.slots, at, at))
        if stage is not None:
            self.stages += 1
            tasks = self.driver(now, self._assigns, stage)
            self.driver.waits(self.world.overheads.stage_seconds)
            for task, plan in tasks:
                self.at(self.driver.free + self.world.overheads.job_seconds, self.waits, task, plan)
        seconds = self.planner.seconds_until_due(now)
        if seconds < math.inf:
            self.at(now + max(seconds, 0.001), self.nothing)

    def _assigns(self, _now, stage):
        tasks = list(enumerate(stage.tasks, self.sent))
        self.sent += len(tasks)
        for (task, plan), end in zip(tasks, stage.ends, strict=True):
            self.work.ledger.assign(task, plan.items)
            self.ends_expected[task] = end
        return tasks

    def nothing(self, now):
        """It is time to plan."""

    def waits(self, now, task, plan):
        self.queue.append((task, plan))
        self.launches(now)

    def launches(self, now):
        while self.free and self.queue:
            slot, (task, plan) = self.free.pop(), self.queue.popleft()
            began, end, outcome = _run_task(self.world, plan, slot, self.starts(now))
            self.stored[slot].append((end, end - began))
            self.at(end, self.ends, task, slot, outcome)

    def ends(self, now, task, slot, outcome):
        self.free.append(slot)
        self.launches(now)
        self.driver(now, self.commits, task, outcome)

    def commits(self, _now, task, outcome):
        for item, _ in self.work.commit(task, 0, outcome):
            self.planner.backlog.push(item)
        self.planner.in_flight.remove(self.ends_expected.pop(task))


def _run_task(world, plan, slot, began):
    """Return when a task began and ends, and its outcome; if its slot is lost it begins anew."""
    while True:
        end, outcome = _attempt(world, plan, world.slots[slot], began)
        lost = [at for at in world.lost_at[slot] if began < at < end]
        if not lost:
            return began, end, outcome
        began = lost[0] + world.overheads.restart_seconds


def _attempt(world, plan, slot, began):
    """Return when an attempt ends, and its outcome: it splits at the first claim after its budget."""
    now, parts, units = began, [], 0.0
    until = began + plan.budget_seconds
    for started, item in enumerate(plan.items, start=1):
        each, (start, stop) = world.unit_work[item.element], item.restriction
        end = slot.after(now, each * (stop - start))
        if end <= until + 0.2:
            now, units = end, units + stop - start
            continue
        at = min(stop, start + max(1, math.ceil((slot.by(until) - slot.by(now)) / each)))
        before, now, units = now, slot.after(now, each * (at - start)), units + at - start
        if at < stop:
            rest = (Residual(OffsetRange(at, stop)),)
            parts.append(Part(item.id, OffsetRange(start, at), rest, at - start, now - before))
        if now >= until:
            return now, Outcome(started, tuple(parts), units, now - began)
    return now, Outcome(len(plan.items), tuple(parts), units, now - began)
