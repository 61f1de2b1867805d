"""LiveRunner under simulated time: lanes, messages with a delay, and the real coordinator in between."""

import heapq
import itertools

from simulated import Driver, Launcher, UnitsFn, entered

from sdf import OffsetRange
from sdf.lanes.coordinator import Coordinator
from sdf.lanes.heartbeat import LOOK_SECONDS, HeartbeatSchedule
from sdf.lanes.messages import (
    Assign,
    Declined,
    Fail,
    Heartbeat,
    Hello,
    Ready,
    Returned,
    Sealed,
    Split,
    StealRequest,
    Verdict,
    read,
    write,
)
from sdf.scheduling.factoring import deal
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue
from sdf.serialization.values import Parts


class SimulatedLane:
    """An attempt at a lane that takes simulated time: what `sdf.lanes.lane` does, without running anything."""

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
        self.beats = HeartbeatSchedule(now)
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
        """Heartbeat if that is due; look again when that may be."""
        if epoch != self.epoch or self.item is None or self.lost:
            return
        left = self.seconds_left(now)
        beat = Heartbeat(self.item.id, True, float(self.units(now)), now - self.began, left, len(self.queue))
        next_at = self.beats.news_at  # it may be news that is not due yet
        if self.beats.due(beat, now):
            self.say(beat)
            self.beats.sent(beat, now)
            next_at = min(self.beats.next_at, self.slot.changes(now) + LOOK_SECONDS)
        self.simulation.at(max(next_at, now + LOOK_SECONDS), self.looks, epoch)

    def receive(self, now, message):
        if self.lost:
            return
        if isinstance(message, Assign):
            self.queue.extend(message.items)
            if self.item is None:
                self.go_on(now)
        elif isinstance(message, StealRequest):
            self.answer(now, message.min_piece_seconds)
        elif isinstance(message, Verdict):
            self.judged(now, message.accepted)
        elif isinstance(message, Sealed):
            self.sealed = True
            self.simulation.unsealed -= 1
        elif isinstance(message, Fail):
            raise message.error

    def answer(self, now, worth):
        if self.offer is None and self.queue:
            self.offered, self.queue = self.queue, []
            self.offer = Returned(tuple(item.id for item in self.offered))
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


class LiveSimulation:
    """Lanes, messages with a delay, and the coordinator in between.

    Attributes:
        sent: how many messages, either way.
    """

    def __init__(self, world):
        self.world = world
        self.driver = Driver()
        self.events, self.numbers, self.sent = [], itertools.count(), 0
        self.now, self.outbox = 0.0, []
        slots = len(world.slots)  # LiveRunner(lanes=...) has as many lanes as there will be slots
        work = RunState(UnitsFn())
        backlog = WorkQueue(work.costs)
        self.driver(0.0, entered, world, work, backlog)
        shares = self.driver(0.0, lambda _: deal(backlog, work.costs, slots, cut=work.cut))
        self.starts = Launcher(world.overheads)
        self.coordinator = Coordinator(work, shares, send=self.to_lane, min_piece_seconds=0.05, patience_seconds=60.0)
        self.lanes = {}
        self.unsealed = slots

    def at(self, when, action, *args):
        heapq.heappush(self.events, (when, next(self.numbers), action, args))

    def to_lane(self, name, message):
        self.sent += 1
        self.outbox.append((name, message))

    def decides(self, now, function, *args):
        """Let the driver decide; what it says goes out once it has."""
        self.driver(now, function, *args)
        for lane, message in self.outbox:
            self.at(self.driver.free + self.world.overheads.message_seconds, lane.receive, message)
        self.outbox = []

    def to_driver(self, lane, payload):
        self.sent += 1
        self.at(self.now + self.world.overheads.message_seconds, self.arrives, lane, payload)

    def arrives(self, now, lane, payload):
        if not lane.lost:
            self.decides(now, self._received, lane, payload)

    def _received(self, now, lane, payload):
        message = read(payload)
        if isinstance(message, Hello):
            self.coordinator.connected(lane, message, now)
        else:
            self.coordinator.received(lane, message, now)

    def ticks(self, now):
        if self.coordinator.waiting():
            self.decides(now, self.coordinator.tick)
        self.at(now + 0.02, self.ticks)

    def begins(self, now, number):
        self.lanes[number] = SimulatedLane(self, number, now)

    def loses(self, now, number):
        """The slot of a lane is lost; Spark runs the lane again, if it has not ended."""
        lane = self.lanes.get(number)
        if lane is None or lane.lost or lane.sealed:
            return
        lane.lost = True
        self.decides(now, lambda at: self.coordinator.lost(lane, at))
        self.at(self.starts(now + self.world.overheads.restart_seconds), self.begins, number)

    def run(self):
        """Return the makespan."""
        for number, lost_at in enumerate(self.world.lost_at):
            self.at(self.starts(max(self.driver.free, self.world.slots[number].begins)), self.begins, number)
            for at in lost_at:
                self.at(at, self.loses, number)
        self.at(0.02, self.ticks)
        while self.unsealed:
            self.now, _, action, args = heapq.heappop(self.events)
            action(self.now, *args)
        return self.now
