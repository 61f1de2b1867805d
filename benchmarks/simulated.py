"""Policies under simulated time: slots of changing speed that fail now and then, and the real planner and coordinator.

What runs is simulated event by event: tasks and lanes take time, messages take a delay. What the driver decides is done
by the code that does it in a run, and timed.
"""

import heapq
import itertools
import math
import random
import time
from bisect import bisect_right

from sdf import DoFn, OffsetRange
from sdf.expansion import Expanded
from sdf.invoker import Residual
from sdf.items import Outcome, Part
from sdf.planner import Backlog, Limits, Tuning, deal, plan_stage, tasks_allowed
from sdf.spark.beats import LOOK_SECONDS, Beats
from sdf.spark.coordinator import Coordinator
from sdf.spark.messages import Ask, Assign, Back, Beat, Declined, Hello, Ready, Sealed, Split, Verdict, read, write
from sdf.values import Parts
from sdf.work import Work, enter

MESSAGE_SECONDS = 0.001  # one way
JOB_SECONDS = 0.1  # until the tasks of a stage run
RESTART_SECONDS = 5.0  # until Spark runs a task again whose slot was lost
UNITS = 10_000  # of each element


class UnitsFn(DoFn):
    """Element: a number. What it costs is in the `World`, which only the simulated slots know."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNITS)

    def process(self, element, tracker):
        raise NotImplementedError("nothing runs here")


class Slot:
    """How much work a slot has done by when: its speed is another one every ``period`` seconds."""

    def __init__(self, speeds, period):
        self.speeds = speeds
        self.period = period
        self.done = [0.0, *itertools.accumulate(speed * period for speed in speeds)]

    def by(self, at):
        """Return the work that it could have done by a moment."""
        period = min(int(at / self.period), len(self.speeds) - 1)
        return self.done[period] + (at - period * self.period) * self.speeds[period]

    def after(self, at, work):
        """Return when it has done so much work from a moment on."""
        wanted = self.by(at) + work
        period = min(bisect_right(self.done, wanted) - 1, len(self.speeds) - 1)
        return period * self.period + (wanted - self.done[period]) / self.speeds[period]

    def speed(self, at):
        return self.speeds[min(int(at / self.period), len(self.speeds) - 1)]

    def changes(self, at):
        """Return when its speed changes next."""
        return (int(at / self.period) + 1) * self.period


class World:
    """The costs of the elements and the speeds of the slots; the same for all policies.

    Args:
        slots: how many.
        elements: how many.
        seconds: what the ideal makespan is.
        alpha: of the Pareto distribution of the elements' costs.
        spread: speeds are from 1 - spread to 1 + spread.
        period: seconds after which a slot has another speed.
        losses: how often each slot is lost in the ideal makespan, on average.
    """

    def __init__(self, slots, elements, seconds, alpha, spread, period, losses):
        choose = random.Random(slots)
        raw = [choose.paretovariate(alpha) for _ in range(elements)]
        periods = int(3 * seconds / period) + 1
        self.slots = [
            Slot([choose.uniform(1 - spread, 1 + spread) for _ in range(periods)], period) for _ in range(slots)
        ]
        scale = sum(slot.by(seconds) for slot in self.slots) / sum(raw)
        self.unit_work = [one * scale / UNITS for one in raw]
        self.ideal = seconds
        self.lost_at = [sorted(self._losses(choose, losses, seconds)) for _ in range(slots)]

    @staticmethod
    def _losses(choose, losses, seconds):
        at = 0.0
        while losses and (at := at + choose.expovariate(losses / seconds)) < 3 * seconds:
            yield at

    def run(self, slot, began, work):
        """Return when a slot has done some work that it begins anew whenever it is lost."""
        for lost in self.lost_at[slot]:
            if lost <= began:
                continue
            if self.slots[slot].after(began, work) <= lost:
                break
            began = lost + RESTART_SECONDS
        return self.slots[slot].after(began, work)


class Driver:
    """Times what the driver does."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self, function, *args):
        began = time.perf_counter()
        result = function(*args)
        self.seconds += time.perf_counter() - began
        return result


def work_of(world):
    """Return the work as a runner has it once the elements are expanded."""
    work = Work(UnitsFn())
    backlog = Backlog(work.costs)
    whole = OffsetRange(0, UNITS)
    enter(work, backlog, [Expanded(number, whole, ((whole, UNITS),)) for number in range(len(world.unit_work))])
    return work, backlog


def plain(world, pieces=1):
    """Return the makespan of Spark's own scheduling: tasks in order, each to the next free slot."""
    free = [(0.0, slot) for slot in range(len(world.slots))]
    for unit_work in world.unit_work:
        for _ in range(pieces):
            at, slot = heapq.heappop(free)
            heapq.heappush(free, (world.run(slot, at, unit_work * UNITS / pieces), slot))
    return max(at for at, _ in free)


def staged(world):
    """Simulate StagedRunner: return makespan, the driver's seconds, and how many tasks there were."""
    driver = Driver()
    slots = len(world.slots)
    work, backlog = driver(work_of, world)
    tuning, limits = Tuning(0.5, 0.2, None), Limits(1, None, None)
    free, events, numbers = list(range(slots)), [], itertools.count()
    expected = {}  # when each task that runs is expected to end
    now = 0.0
    while len(backlog) or events:
        if len(backlog) and free:
            running = sum(max(0.0, end - now) for end in expected.values())
            planned = driver(_plan, work, backlog, slots, running, now, tuning, limits, slots - len(free))
            for plan in planned:
                slot, task = free.pop(), next(numbers)
                driver(work.ledger.assign, task, plan.items)
                end, outcome = _run_task(world, plan, slot, now + JOB_SECONDS)
                expected[task] = now + JOB_SECONDS + plan.expected_seconds
                heapq.heappush(events, (end, task, slot, outcome))
        now = events[0][0]
        while events and events[0][0] <= now + 0.01:
            _, task, slot, outcome = heapq.heappop(events)
            for item, _ in driver(work.commit, task, 0, outcome):
                backlog.push(item)
            del expected[task]
            free.append(slot)
    work.ledger.prove()
    return now, driver.seconds, next(numbers)


def _plan(work, backlog, slots, running, now, tuning, limits, in_flight):
    known = work.costs.mean() is not None
    width = tasks_allowed(slots, backlog.seconds() + running, tuning, limits, costs_known=known)
    return plan_stage(
        backlog, work.costs, tasks=width - in_flight, width=width, running_seconds=running, elapsed_seconds=now,
        tuning=tuning, limits=limits, cut=work.cut,
    )  # fmt: skip


def _run_task(world, plan, slot, began):
    """Return when a task ends, and its outcome; if its slot is lost it begins anew."""
    while True:
        end, outcome = _attempt(world, plan, world.slots[slot], began)
        lost = [at for at in world.lost_at[slot] if began < at < end]
        if not lost:
            return end, outcome
        began = lost[0] + RESTART_SECONDS


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


class SimulatedLane:
    """An attempt at a lane that takes simulated time: what `sdf.spark.lane` does, without running anything."""

    def __init__(self, simulation, number, now):
        self.simulation = simulation
        self.number = number
        self.slot = simulation.world.slots[number]
        self.lost = self.sealed = False
        self.queue, self.offered, self.offer = [], [], None
        self.item = None
        self.began = self.each = 0.0
        self.start = self.stop = 0
        self.epoch = 0  # of what is due when
        self.beats = Beats(now)
        self.totals = [0, 0, 0.0, 0.0]
        self.ran = []
        self.say(Hello(number, "worker", now))
        self.go_on(now)

    def say(self, message):
        self.simulation.to_driver(self, write(message))

    def units(self, now):
        return min(self.stop - self.start, int((self.slot.by(now) - self.slot.by(self.began)) / self.each + 1e-6))

    def seconds_left(self, now):
        """Return what a lane would estimate: by the mean cost or by the latest, whichever is higher."""
        done = self.slot.by(now) - self.slot.by(self.began)
        slowest = min(self.slot.speed(now), done / (now - self.began)) if done > 0 else self.slot.speed(now)
        return max(0.0, self.each * (self.stop - self.start) - done) / slowest

    def go_on(self, now):
        """Start what is next, or ask for more."""
        if self.queue:
            self.item = item = self.queue.pop(0)
            self.start, self.stop = item.restriction
            self.each = self.simulation.world.unit_work[item.element]
            self.began = now
            self.wake(now)
        else:
            self.item = None
            self.say(Ready(*self.totals, tuple(self.ran)))
            self.ran = []

    def wake(self, now):
        self.epoch += 1
        self.simulation.at(self.slot.after(self.began, self.each * (self.stop - self.start)), self.ends, self.epoch)
        self.simulation.at(now + LOOK_SECONDS, self.looks, self.epoch)

    def ends(self, now, epoch):
        if epoch != self.epoch or self.item is None or self.offer is not None or self.lost:
            return
        units, seconds = self.stop - self.start, now - self.began
        self.totals = [self.totals[0] + units, self.totals[1] + 1, self.totals[2] + units, self.totals[3] + seconds]
        self.ran.append((self.item.id, self.began, seconds, float(units), units))
        self.epoch += 1
        self.go_on(now)

    def looks(self, now, epoch):
        """Beat if that is due; look again when that may be."""
        if epoch != self.epoch or self.item is None or self.lost:
            return
        left = self.seconds_left(now)
        beat = Beat(self.item.id, True, float(self.units(now)), now - self.began, left, len(self.queue))
        next_at = self.beats.news_at  # it may be news that is not due yet
        if self.beats.due(beat, now):
            self.say(beat)
            self.beats.said(beat, now)
            next_at = min(self.beats.next_at, self.slot.changes(now) + LOOK_SECONDS)
        self.simulation.at(max(next_at, now + LOOK_SECONDS), self.looks, epoch)

    def receive(self, now, message):
        if self.lost:
            return
        if isinstance(message, Assign):
            self.queue.extend(message.items)
            if self.item is None:
                self.go_on(now)
        elif isinstance(message, Ask):
            self.answer(now, message.worth_seconds)
        elif isinstance(message, Verdict):
            self.judged(now, message.accepted)
        elif isinstance(message, Sealed):
            self.sealed = True
            self.simulation.unsealed -= 1

    def answer(self, now, worth):
        if self.offer is None and self.queue:
            self.offered, self.queue = self.queue, []
            self.offer = Back(tuple(item.id for item in self.offered))
            self.say(self.offer)
            return
        if self.item is None or self.offer is not None:
            self.say(Declined("nothing ran"))
            return
        at = self.start + self.units(now) + 1
        middle = at + (self.stop - at) // 2
        if not at < middle < self.stop or self.seconds_left(now) / 2 < worth:
            self.say(Declined("too little was left"))
            return
        describe = Parts(self.item.restriction).describe
        told = ((describe(OffsetRange(middle, self.stop)), 0.0, describe(None)),)
        kept = describe(OffsetRange(self.start, middle))
        self.stop = middle
        self.offer = Split(self.item.id, True, kept, told, float(self.units(now)), now - self.began)
        self.say(self.offer)

    def judged(self, now, accepted):
        assert accepted, "nobody doubles lanes here"
        self.offer = None
        self.offered = []
        if self.item is not None:
            self.wake(now)


class Simulation:
    """LiveRunner: lanes, messages with a delay, and the coordinator in between."""

    def __init__(self, world):
        self.world = world
        self.driver = Driver()
        self.events, self.numbers, self.messages = [], itertools.count(), 0
        self.now = 0.0
        slots = len(world.slots)
        work, backlog = self.driver(work_of, world)
        shares = self.driver(lambda: deal(backlog, work.costs, slots, cut=work.cut))
        self.coordinator = Coordinator(work, shares, send=self.to_lane, min_piece_seconds=0.05, patience_seconds=10.0)
        self.lanes = {}
        self.unsealed = slots

    def at(self, when, action, *args):
        heapq.heappush(self.events, (when, next(self.numbers), action, args))

    def to_lane(self, name, message):
        self.messages += 1
        self.at(self.now + MESSAGE_SECONDS, name.receive, message)

    def to_driver(self, lane, payload):
        self.messages += 1
        self.at(self.now + MESSAGE_SECONDS, self.arrives, lane, payload)

    def arrives(self, now, lane, payload):
        if not lane.lost:
            self.driver(self._received, now, lane, payload)

    def _received(self, now, lane, payload):
        message = read(payload)
        if isinstance(message, Hello):
            self.coordinator.connected(lane, message, now)
        else:
            self.coordinator.received(lane, message, now)

    def ticks(self, now):
        if self.coordinator.waiting():
            self.driver(self.coordinator.tick, now)
        self.at(now + 0.02, self.ticks)

    def begins(self, now, number):
        self.lanes[number] = SimulatedLane(self, number, now)

    def loses(self, now, number):
        """The slot of a lane is lost; Spark runs the lane again, if it has not ended."""
        lane = self.lanes.get(number)
        if lane is None or lane.lost or lane.sealed:
            return
        lane.lost = True
        self.driver(self.coordinator.lost, lane, now)
        self.at(now + RESTART_SECONDS, self.begins, number)

    def run(self):
        """Return the makespan."""
        for number, lost_at in enumerate(self.world.lost_at):
            self.at(0.0, self.begins, number)
            for at in lost_at:
                self.at(at, self.loses, number)
        self.at(0.02, self.ticks)
        while self.unsealed:
            self.now, _, action, args = heapq.heappop(self.events)
            action(self.now, *args)
        return self.now
