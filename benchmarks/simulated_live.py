"""LiveRunner under simulated time: the real lanes, the real coordinator, and messages with a delay in between."""

import math
from collections import deque

from simulated import Driver, Launcher, SlotFn, Timeline, entered

from sdf.lanes.coordinator import Coordinator
from sdf.lanes.heartbeat import LOOK_SECONDS
from sdf.lanes.lane import WAIT, Lane
from sdf.lanes.messages import Hello, read, write
from sdf.scheduling.factoring import deal
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue

_TICK_SECONDS = 0.02
_SEEN_SECONDS = 0.3  # after so long the latest cost (`Running.note`) is that of the speed which the slot has now


class SimulatedLane:
    """An attempt at a lane in a slot.

    It looks only when there may be something to say: in between its slot goes on at the same speed.
    """

    def __init__(self, simulation, number, slot):
        self.simulation = simulation
        self.timeline = simulation.timeline
        self.slot = simulation.world.slots[slot]
        self.fn = SlotFn(simulation.world, self.slot, self.timeline)
        self.number = number
        self.over = self.idle = False
        self.steps = 0  # how often it went on; what was due before it did is not any more
        self.looks_at = None
        self.send(Hello(number, "worker", self.timeline.now))
        segment_seconds = simulation.commit_seconds
        self.lane = Lane(self.fn, clock=self.timeline.clock, send=self.send, segment_seconds=segment_seconds)
        self.outputs = self._outputs()
        self.goes_on()

    def send(self, message):
        self.simulation.to_driver(self, write(message))

    def _outputs(self):
        """Yield what one work item after the other gives, and `WAIT` where there is nothing to run."""
        while (running := self.lane.advance()) is not None:
            if running is WAIT:
                yield WAIT
            else:
                with running.outputs() as outputs:
                    yield from outputs

    def goes_on(self):
        """Do what there is to do until now; come back when what runs then has ended."""
        given = next(self.outputs, self)
        self.steps += 1
        self.over = given is self
        self.idle = given is WAIT
        if self.over:
            self.simulation.ended(self)
        elif not self.idle:
            self.timeline.at(self.fn.ends, self.ends, self.steps)

    def ends(self, step):
        if step == self.steps and not self.over:
            self.goes_on()
            self.looks_in(LOOK_SECONDS)

    def receive(self, message):
        if self.over:
            return
        self.goes_on()
        self.lane.receive(message)
        self.goes_on()
        self.looks_in(LOOK_SECONDS)

    def look(self):
        self.lane.look()

    def further_looks(self):
        """Return when else there is something to look at."""
        return ()

    def looks_in(self, seconds):
        self.looks_at = self.timeline.now + seconds
        self.timeline.at(self.looks_at, self.looks)

    def looks(self):
        """Look, and come back when the lane may have news: its slot changes its speed, or its heartbeat is due."""
        if self.over or self.idle or self.timeline.now != self.looks_at:
            return
        now, before = self.timeline.now, self.lane.heartbeats.next_at
        self.goes_on()
        if self.over or self.idle:
            return
        self.look()
        beats, changes = self.lane.heartbeats, self.slot.changes(now)
        times = [
            beats.next_at,
            changes + LOOK_SECONDS,
            changes - self.slot.period + _SEEN_SECONDS,
            self.fn.opens + LOOK_SECONDS,
            *self.further_looks(),
        ]
        if beats.next_at == before:  # there may be news that must wait
            times.append(beats.news_at)
        self.looks_in(max(LOOK_SECONDS, min([at for at in times if at > now]) - now))


class LiveSimulation:
    """Lanes, messages with a delay, and the coordinator in between.

    Args:
        world: what there is to do, and where.
        saved, commit_seconds: see `Coordinator`.
        driver_clock: see `Driver`.

    Attributes:
        sent: how many messages, either way.
    """

    lane_class = SimulatedLane

    def __init__(self, world, *, saved=None, commit_seconds=math.inf, **driver_clock):
        self.world = world
        self.commit_seconds = commit_seconds
        self.timeline = Timeline()
        self.driver = Driver(self.timeline, wake_seconds=world.overheads.wake_seconds, **driver_clock)
        self.sent, self.outbox = 0, []
        self.unended = len(world.slots)  # LiveRunner(lanes=...) has as many lanes as there will be slots
        work = self.work = RunState(SlotFn(world))
        backlog = WorkQueue(work.costs)
        self.driver(entered, world, work, backlog)
        shares = self.driver(lambda _: deal(backlog, work.costs, self.unended, cut=work.cut))
        self.starts = Launcher(world.overheads)
        self.free, self.queue = [], deque(range(self.unended))  # slots, and the lanes that Spark is to run
        self.coordinator = Coordinator(
            work, shares, send=self.to_lane, min_piece_seconds=0.05, patience_seconds=60.0,
            saved=saved, commit_seconds=commit_seconds,
        )  # fmt: skip
        self.lanes, self.running = {}, {}  # by lane, and by slot

    def to_lane(self, name, message):
        self.sent += 1
        self.outbox.append((name, message))

    def decides(self, function, *args):
        """Let the driver decide; what it says goes out once it has."""
        self.driver(function, *args)
        for lane, message in self.outbox:
            self.timeline.at(self.driver.free + self.world.overheads.message_seconds, lane.receive, message)
        self.outbox = []

    def to_driver(self, lane, payload):
        self.sent += 1
        self.timeline.at(self.timeline.now + self.world.overheads.message_seconds, self.arrives, lane, payload)

    def arrives(self, lane, payload):
        if self.lanes.get(lane.number) is lane:
            self.decides(self._received, lane, payload)

    def _received(self, now, lane, payload):
        message = read(payload)
        if isinstance(message, Hello):
            self.coordinator.connected(lane, message, now)
        else:
            self.coordinator.received(lane, message, now)

    def ticks(self):
        if self.coordinator.waiting():
            self.decides(self.coordinator.tick)
        self.timeline.at(self.timeline.now + _TICK_SECONDS, self.ticks)

    # Spark and its slots.

    def comes(self, slot):
        self.free.append(slot)
        self.launches()

    def launches(self):
        while self.free and self.queue:
            self.timeline.at(self.starts(self.timeline.now), self.begins, self.queue.popleft(), self.free.pop())

    def begins(self, number, slot):
        self.lanes[number] = self.running[slot] = self.lane_class(self, number, slot)

    def ended(self, lane):
        """A lane has ended, which frees its slot."""
        self.unended -= 1
        (slot,) = (slot for slot, running in self.running.items() if running is lane)
        del self.running[slot]
        self.comes(slot)

    def loses(self, slot):
        """A slot is lost for a while; Spark runs its lane again, if that has not ended."""
        lane = self.running.pop(slot, None)
        if slot in self.free:
            self.free.remove(slot)
        elif lane is None:
            return
        self.timeline.at(self.timeline.now + self.world.overheads.restart_seconds, self.comes, slot)
        if lane is not None:
            lane.over = True
            del self.lanes[lane.number]
            self.decides(lambda now: self.coordinator.lost(lane, now))
            self.queue.append(lane.number)
            self.launches()

    def run(self):
        """Return the makespan."""
        for slot, lost_at in enumerate(self.world.lost_at):
            self.timeline.at(max(self.driver.free, self.world.slots[slot].begins), self.comes, slot)
            for at in lost_at:
                self.timeline.at(at, self.loses, slot)
        self.timeline.at(_TICK_SECONDS, self.ticks)
        self.timeline.run(lambda: self.unended)
        return self.timeline.now
