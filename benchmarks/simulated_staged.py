"""StagedRunner under simulated time: the real bundles, planner and ledger, Spark's queue of tasks, and its slots."""

import math
from collections import Counter, deque

import attrs
from simulated import Driver, Launcher, SlotFn, Timeline, entered

from sdf.execution.bundle import Bundle
from sdf.execution.timekeeper import TICK_SECONDS, Timekeeper
from sdf.scheduling.factoring import Limits, Tuning
from sdf.scheduling.run_state import RunState
from sdf.scheduling.stage_planner import StagePlanner

FIRST_BUDGET_SECONDS = 0.5  # as `sdf.spark.staged.runner` has it, which needs Spark
_LOOKS = 20  # at a task that takes long, instead of forty a second


@attrs.define(eq=False)
class Stage:
    """Tasks that were submitted together."""

    plan: object
    submitted_at: float
    is_timed: bool = False  # the planner has learnt what starting it took


@attrs.frozen(eq=False)
class Task:
    """One task of a stage."""

    stage: Stage
    number: int
    id: int

    @property
    def plan(self):
        return self.stage.plan.tasks[self.number]


class Attempt:
    """An attempt at a task in a slot."""

    def __init__(self, simulation, task, slot):
        self.simulation, self.task, self.slot = simulation, task, slot
        self.timeline = simulation.timeline
        self.began = self.timeline.now
        self.over = False
        self.steps = 0  # how often it went on; what was due before it did is not any more
        self.fn = SlotFn(simulation.world, simulation.world.slots[slot], self.timeline)
        self.bundle = Bundle(self.fn, task.plan.items, clock=self.timeline.clock)
        budget, least = simulation.budget_seconds(task), task.stage.plan.min_piece_seconds
        self.timekeeper = Timekeeper(self.bundle, budget, least, clock=self.timeline.clock)
        self.every_seconds = max(TICK_SECONDS, budget / _LOOKS)
        self.outputs = self.bundle.outputs()
        self.goes_on()
        self.looks()

    def goes_on(self):
        """Do what there is to do until now; come back when what runs then has ended."""
        self.steps += 1
        if next(self.outputs, self) is self:
            self.over = True
            self.simulation.ended(self)
        else:
            self.timeline.at(self.fn.ends, self.ends, self.steps)

    def ends(self, step):
        if step == self.steps and not self.over:
            self.goes_on()

    def looks(self):
        if self.over:
            return
        keeper, now = self.timekeeper, self.timeline.now
        if now > self.began:
            self.goes_on()
            if self.over:
                return
            keeper.look()
            self.goes_on()  # what was cut off ends earlier
            if self.over:
                return
        if keeper.handed_back:
            later = now + self.every_seconds
        elif now < keeper.budget_ends:
            later = min(now + self.every_seconds, max(keeper.budget_ends, now + TICK_SECONDS))
        else:
            later = now + keeper.look_seconds
        self.timeline.at(later, self.looks)


class StagedSimulation:
    """Plans stages as StagedRunner does; a task waits in the queue until a slot is free.

    Args:
        world: what there is to do, and where.
        driver_clock: see `Driver`.

    Attributes:
        sent: how many tasks were started.
        stages: and how many stages.
    """

    def __init__(self, world, **driver_clock):
        self.world = world
        self.timeline = Timeline()
        self.driver = Driver(self.timeline, **driver_clock)
        self.work = RunState(SlotFn(world))
        self.planner = StagePlanner(self.work, Tuning(FIRST_BUDGET_SECONDS, 0.2, None), Limits(1, None, None))
        self.driver(entered, world, self.work, self.planner.backlog)
        self.starts = Launcher(world.overheads)
        self.free, self.queue, self.receipts = [], deque(), []
        self.running = {}  # by slot
        self.retries = Counter()  # by task
        self.stored = [[] for _ in world.slots]  # when each block was, and how long it took
        self.slots = self.stages = self.sent = 0
        self.wakes_at = math.inf
        for number, slot in enumerate(world.slots):
            self.timeline.at(max(self.driver.free, slot.begins), self.comes, number)
            for at in world.lost_at[number]:
                self.timeline.at(at, self.loses, number)

    def run(self):
        """Return the makespan."""
        self.timeline.run(lambda: len(self.planner.backlog) or len(self.planner.in_flight))
        self.work.ledger.prove()
        return self.timeline.now + self._computing_again(self.timeline.now)

    def _computing_again(self, now):
        """Return how long it takes to compute the blocks that were lost after they were stored, when they are read."""
        lost = [
            seconds
            for slot, stored in enumerate(self.stored)
            for end, seconds in stored
            if any(end < at <= now for at in self.world.lost_at[slot])
        ]
        return max(sum(lost) / len(self.world.slots), *lost) if lost else 0.0

    # The driver's thread.

    def wakes(self, at):
        """Let the driver have its turn then, or once it is free."""
        at = max(at, self.driver.free)
        if at < self.wakes_at:
            self.wakes_at = at
            self.timeline.at(at, self.turn)

    def turn(self):
        """Commit what has come, then plan a stage for the slots that are idle or soon will be, and submit it."""
        if self.timeline.now != self.wakes_at:
            return
        self.wakes_at = math.inf
        self.driver(self._commits)
        stage = self.driver(lambda now: self.planner.plan(self.slots, now, now))
        if stage is not None:
            tasks = self.driver(self._assigns, stage)
            self.driver.waits(self.world.overheads.stage_seconds)
            self.timeline.at(self.driver.free + self.world.overheads.job_seconds, self.queues, tasks)
            self.wakes(self.driver.free)
        seconds = self.planner.seconds_until_due(self.driver.free)
        if seconds < math.inf:
            self.wakes(self.driver.free + max(seconds, 0.001))

    def _commits(self, now):
        for task, outcome, seconds in self.receipts:
            stage = task.stage
            if not (stage.is_timed or self.retries[task.id]) and task.number < stage.plan.idle:
                self.planner.started(max(0.0, now - stage.submitted_at - seconds))
            stage.is_timed = True
            self.planner.in_flight.remove(stage.plan.ends[task.number])
            for item, _ in self.work.commit(task.id, 0, outcome):
                self.planner.backlog.push(item)
        self.receipts = []

    def _assigns(self, now, plan):
        stage = Stage(plan, now)
        tasks = [Task(stage, number, self.sent + number) for number in range(len(plan.tasks))]
        for task in tasks:
            self.work.ledger.assign(task.id, task.plan.items)
        self.stages, self.sent = self.stages + 1, self.sent + len(tasks)
        return tasks

    # Spark and its slots.

    def comes(self, slot):
        self.slots += 1
        self.free.append(slot)
        self.launches()
        self.wakes(self.timeline.now)

    def queues(self, tasks):
        self.queue.extend(tasks)
        self.launches()

    def launches(self):
        while self.free and self.queue:
            self.timeline.at(self.starts(self.timeline.now), self.begins, self.queue.popleft(), self.free.pop())

    def begins(self, task, slot):
        self.running[slot] = attempt = Attempt(self, task, slot)
        if attempt.over:
            del self.running[slot]

    def loses(self, slot):
        """A slot is lost for a while; Spark runs its task again."""
        attempt = self.running.pop(slot, None)
        if slot in self.free:
            self.free.remove(slot)
        elif attempt is None:
            return
        self.slots -= 1
        self.timeline.at(self.timeline.now + self.world.overheads.restart_seconds, self.comes, slot)
        if attempt is not None:
            attempt.over = True
            self.retries[attempt.task.id] += 1
            self.queue.appendleft(attempt.task)
            self.launches()

    def budget_seconds(self, task):
        return task.plan.budget_seconds

    def ended(self, attempt):
        now = self.timeline.now
        self.running.pop(attempt.slot, None)
        self.stored[attempt.slot].append((now, now - attempt.began))
        self.free.append(attempt.slot)
        self.launches()
        receipt = attempt.task, attempt.bundle.outcome(), now - attempt.began
        self.timeline.at(now + self.world.overheads.message_seconds, self.receives, receipt)

    def receives(self, receipt):
        self.receipts.append(receipt)
        self.wakes(self.timeline.now)
