"""How well do the policies schedule on many slots? The real planner and the real coordinator under simulated time.

Slots have speeds of their own, elements have costs with a heavy tail (Pareto), units of an element cost the same. What
runs is simulated event by event: tasks and lanes take time, messages take a delay, and what the driver decides is
timed, by the CPU that this process spends in the planner, the ledger and the coordinator.

    python benchmarks/simulate.py [--slots 10 100 1000] [--elements-per-slot 100] [--seconds 600] [--alpha 1.5]
    python benchmarks/simulate.py --slots 10000 --only LiveRunner
"""

import argparse
import heapq
import itertools
import math
import platform
import random
import resource
import time

from sdf import DoFn, OffsetRange
from sdf.expansion import Expanded
from sdf.invoker import Residual
from sdf.items import Outcome, Part
from sdf.planner import Backlog, Limits, Tuning, deal, plan_stage, tasks_allowed
from sdf.spark.beats import LOOK_SECONDS, Beats
from sdf.spark.coordinator import Coordinator
from sdf.spark.messages import Ask, Assign, Back, Beat, Declined, Hello, Ready, Sealed, Split, Verdict, read, write
from sdf.values import Parts
from sdf.work import Work

MESSAGE_SECONDS = 0.001  # one way
JOB_SECONDS = 0.1  # until the tasks of a stage run
UNITS = 10_000  # of each element
NAMES = "plain", "32 per slot by hand", "StagedRunner", "LiveRunner"


class UnitsFn(DoFn):
    """Element: a number. What it costs is in `Costs`, which only the simulated slots know."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNITS)

    def process(self, element, tracker):
        raise NotImplementedError("nothing runs here")


class World:
    """The costs of the elements and the speeds of the slots; the same for all policies."""

    def __init__(self, slots, elements, seconds, alpha, spread):
        choose = random.Random(slots)
        raw = [choose.paretovariate(alpha) for _ in range(elements)]
        self.speeds = [choose.uniform(1 - spread, 1 + spread) for _ in range(slots)]
        scale = seconds * sum(self.speeds) / sum(raw)
        self.unit_seconds = [one * scale / UNITS for one in raw]  # on a slot of speed 1
        self.ideal = seconds

    def seconds_of(self, item, slot):
        """Return how long a unit of a work item takes on a slot."""
        return self.unit_seconds[item.element] / self.speeds[slot]


class Driver:
    """Times what the driver does."""

    def __init__(self):
        self.seconds = 0.0
        self.calls = 0

    def __call__(self, function, *args):
        began = time.thread_time()
        result = function(*args)
        self.seconds += time.thread_time() - began
        self.calls += 1
        return result


def work_of(world):
    work = Work(UnitsFn())
    backlog = Backlog(work.costs)
    whole = OffsetRange(0, UNITS)
    for item in work.add(Expanded(number, whole, ((whole, UNITS),)) for number in range(len(world.unit_seconds))):
        backlog.push(item)
    return work, backlog


def plain(world, pieces=1):
    """Return the makespan of Spark's own scheduling: tasks in order, each to the next free slot."""
    free = [(0.0, slot) for slot in range(len(world.speeds))]
    for unit_seconds in world.unit_seconds:
        for _ in range(pieces):
            at, slot = heapq.heappop(free)
            heapq.heappush(free, (at + unit_seconds * UNITS / pieces / world.speeds[slot], slot))
    return max(at for at, _ in free)


def staged(world):
    """Simulate StagedRunner: return makespan, the driver's time, and how many tasks there were."""
    driver = Driver()
    slots = len(world.speeds)
    work, backlog = driver(work_of, world)
    tuning, limits = Tuning(0.5, 0.2, None), Limits(1, None, None)
    free, events, numbers = list(range(slots)), [], itertools.count()
    ends = {}
    now = 0.0
    while len(backlog) or events:
        if len(backlog) and free:
            running = sum(max(0.0, end - now) for end in ends.values())
            planned = driver(_plan, work, backlog, slots, running, now, tuning, limits, slots - len(free))
            for plan in planned:
                slot, task = free.pop(), next(numbers)
                work.ledger.assign(task, plan.items)
                end, outcome = run_task(world, plan, slot, now + JOB_SECONDS)
                ends[task] = now + JOB_SECONDS + plan.expected_seconds
                heapq.heappush(events, (end, task, slot, outcome))
        now, task, slot, outcome = heapq.heappop(events)
        for item, _ in driver(work.commit, task, 0, outcome):
            backlog.push(item)
        del ends[task]
        free.append(slot)
        while events and events[0][0] <= now + 0.01:
            _, task, slot, outcome = heapq.heappop(events)
            for item, _ in driver(work.commit, task, 0, outcome):
                backlog.push(item)
            del ends[task]
            free.append(slot)
    work.ledger.prove()
    return now, driver, next(numbers)


def _plan(work, backlog, slots, running, now, tuning, limits, in_flight):
    known = work.costs.mean() is not None
    width = tasks_allowed(slots, backlog.seconds() + running, tuning, limits, costs_known=known)
    return plan_stage(
        backlog, work.costs, tasks=width - in_flight, width=width, running_seconds=running, elapsed_seconds=now,
        tuning=tuning, limits=limits, cut=work.cut,
    )  # fmt: skip


def run_task(world, plan, slot, began):
    """Return when a task ends and its outcome: it splits at the first claim after its budget."""
    now, parts, done = began, [], 0.0
    for started, item in enumerate(plan.items, start=1):
        each = world.seconds_of(item, slot)
        start, stop = item.restriction
        if now + each * (stop - start) - began <= plan.budget_seconds + 0.2:
            now += each * (stop - start)
            done += stop - start
            continue
        at = min(stop, start + max(1, math.ceil((plan.budget_seconds - (now - began)) / each)))
        now += each * (at - start)
        done += at - start
        if at < stop:
            parts.append(
                Part(
                    item.id, OffsetRange(start, at), (Residual(OffsetRange(at, stop)),), at - start, each * (at - start)
                )
            )
        if now - began >= plan.budget_seconds:
            return now, Outcome(started, tuple(parts), done, now - began)
    return now, Outcome(len(plan.items), tuple(parts), done, now - began)


class SimulatedLane:
    """A lane that takes simulated time: what `sdf.spark.lane` does, without running anything."""

    def __init__(self, simulation, number):
        self.simulation = simulation
        self.number = number
        self.queue, self.offered, self.offer = [], [], None
        self.item = None
        self.began = self.at = 0.0
        self.start = self.stop = 0
        self.each = 0.0
        self.epoch = 0
        self.beats = Beats(0.0)
        self.totals = [0, 0, 0.0, 0.0]
        self.ran = []
        self.sealed_at = None

    def say(self, message):
        self.simulation.to_driver(self, write(message))

    def units(self, now):
        return min(self.stop - self.start, int((now - self.began) / self.each))

    def go_on(self, now):
        """Start what is next, or ask for more."""
        if self.queue:
            self.item = item = self.queue.pop(0)
            self.start, self.stop = item.restriction
            self.each = self.simulation.world.seconds_of(item, self.number)
            self.began = now
            self.wake(now)
        else:
            self.item = None
            records, items, units, seconds = self.totals
            self.say(Ready(records, items, units, seconds, tuple(self.ran)))
            self.ran = []

    def wake(self, now):
        self.epoch += 1
        self.simulation.at(self.began + self.each * (self.stop - self.start), self.ends, self.epoch)
        self.simulation.at(now + LOOK_SECONDS, self.looks, self.epoch)

    def ends(self, now, epoch):
        if epoch != self.epoch or self.item is None or self.offer is not None:
            return
        units, seconds = self.stop - self.start, now - self.began
        self.totals = [self.totals[0] + units, self.totals[1] + 1, self.totals[2] + units, self.totals[3] + seconds]
        self.ran.append((self.item.id, self.began, seconds, float(units), units))
        self.epoch += 1
        self.go_on(now)

    def looks(self, now, epoch):
        """Beat if that is due. An item's units cost the same here, so nothing changes until then."""
        if epoch != self.epoch or self.item is None:
            return
        left = max(0.0, self.each * (self.stop - self.start) - (now - self.began))
        beat = Beat(self.item.id, True, float(self.units(now)), now - self.began, left, len(self.queue))
        next_at = self.beats.news_at  # it may be news that is not due yet
        if self.beats.due(beat, now):
            self.say(beat)
            self.beats.said(beat, now)
            next_at = self.beats.next_at
        self.simulation.at(max(next_at, now + LOOK_SECONDS), self.looks, epoch)

    def receive(self, now, message):
        if isinstance(message, Assign):
            self.queue.extend(message.items)
            if self.item is None:
                self.go_on(now)
        elif isinstance(message, Ask):
            self.answer(now, message.worth_seconds)
        elif isinstance(message, Verdict):
            self.judged(now, message.accepted)
        elif isinstance(message, Sealed):
            self.sealed_at = now

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
        if not at < middle < self.stop or (self.stop - middle) * self.each < worth:
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
        slots = len(world.speeds)
        work, backlog = self.driver(work_of, world)
        shares = self.driver(lambda: deal(backlog, work.costs, slots, cut=work.cut))
        self.planning_seconds = self.driver.seconds
        self.lanes = [SimulatedLane(self, number) for number in range(slots)]
        self.coordinator = Coordinator(work, shares, send=self.to_lane, min_piece_seconds=0.05, patience_seconds=10.0)

    def at(self, when, action, *args):
        heapq.heappush(self.events, (when, next(self.numbers), action, args))

    def to_lane(self, name, message):
        self.messages += 1
        self.at(self.now + MESSAGE_SECONDS, self.lanes[name].receive, message)

    def to_driver(self, lane, payload):
        self.messages += 1
        self.at(self.now + MESSAGE_SECONDS, self.arrives, lane.number, payload)

    def arrives(self, now, name, payload):
        self.driver(self._received, now, name, payload)

    def _received(self, now, name, payload):
        message = read(payload)
        if isinstance(message, Hello):
            self.coordinator.connected(name, message, now)
        else:
            self.coordinator.received(name, message, now)

    def ticks(self, now):
        self.driver(self.coordinator.tick, now)
        if not self.coordinator.sealed():
            self.at(now + 0.02, self.ticks)

    def run(self):
        for lane in self.lanes:
            lane.say(Hello(lane.number, "worker", 0.0))
            self.at(0.002, lambda now, lane: lane.go_on(now), lane)
        self.at(0.02, self.ticks)
        while self.events:
            self.now, _, action, args = heapq.heappop(self.events)
            action(self.now, *args)
        assert self.coordinator.sealed()
        return max(lane.sealed_at for lane in self.lanes)


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--slots", type=int, nargs="+", default=[10, 100, 1000])
    options.add_argument("--elements-per-slot", type=int, default=100)
    options.add_argument("--seconds", type=float, default=600.0, help="of work per slot")
    options.add_argument("--alpha", type=float, default=1.5, help="of the Pareto costs")
    options.add_argument("--spread", type=float, default=0.2, help="of the slots' speeds")
    options.add_argument("--only", nargs="*", default=list(NAMES))
    given = options.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}")
    print(f"{given.seconds:g} s per slot, {given.elements_per_slot} elements per slot, Pareto {given.alpha:g}")
    print(f"{'slots':>7} {'policy':22}{'over ideal':>11}{'messages':>12}{'driver':>9}{'of a core':>11}{'memory':>10}")
    for slots in given.slots:
        world = World(slots, slots * given.elements_per_slot, given.seconds, given.alpha, given.spread)
        for name in given.only:
            messages, driver = 0, Driver()
            if name == "plain":
                makespan = plain(world)
            elif name.startswith("32"):
                makespan = plain(world, max(1, 32 // given.elements_per_slot))
            elif name == "StagedRunner":
                makespan, driver, messages = staged(world)
            else:
                simulation = Simulation(world)
                makespan = simulation.run()
                driver, messages = simulation.driver, simulation.messages
            print(
                f"{slots:7} {name:22}{makespan / world.ideal:11.3f}{messages:12,}{driver.seconds:8.1f}s"
                f"{driver.seconds / makespan:11.2%}{peak_megabytes():8.0f}MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
