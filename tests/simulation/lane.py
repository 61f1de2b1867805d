"""A lane: an attempt at it in a worker, its segments, and its connection to the driver."""

import pickle
from collections import deque

from sdf.errors import CoordinatorError
from sdf.execution.measured_run import Running
from sdf.lanes.heartbeat import LOOK_SECONDS
from sdf.lanes.lane import WAIT, Lane
from sdf.lanes.messages import Hello, read, write
from simulation.faults import Fault
from simulation.worker import Failed

MOST_BYTES = 10_000  # of a message of a lane


class Connection:
    """Messages both ways, each in order, and each with a delay.

    Args:
        world: the world.
        driver: has ``hears`` and ``loses``.
        child: the attempt at a lane.
    """

    def __init__(self, world, driver, child):
        self._world, self._driver, self._child = world, driver, child
        self.to_driver, self.to_lane = deque(), deque()
        self._driver_at = self._lane_at = 0.0  # when the last message arrives
        self.known = True  # the driver does not know yet that it is lost
        self.cut = False  # nothing gets through any more
        self._resets = True  # so a lane that sends learns of it

    def send(self, message):
        """Send a message of the lane."""
        if self.cut:
            if self._resets:
                raise CoordinatorError("the connection is lost")
            return
        self._world.counts[type(message).__name__] += 1
        payload = write(message)
        assert len(payload) < MOST_BYTES, "a lane says too much"
        self.to_driver.append(payload)
        self._driver_at = self._arrival(self._driver_at, self.tell_driver)

    def answer(self, message):
        """Send a message of the driver."""
        if self.cut:
            return
        self._world.counts[type(message).__name__] += 1
        self.to_lane.append(pickle.loads(pickle.dumps(message)) if self._world.plan.tables else message)
        self._lane_at = self._arrival(self._lane_at, self.tell_lane)

    def _arrival(self, last, action):
        world = self._world
        seconds = world.random.expovariate(1 / world.plan.message_seconds)
        if world.faults.strikes(Fault.LATE_MESSAGE):
            seconds += world.faults.random_of(Fault.LATE_MESSAGE).choice([0.1, 1.0, 6.0])
        arrives = max(last, world.clock.now + seconds)
        world.clock.at(arrives - world.clock.now, action)
        return arrives

    def tell_driver(self):
        """Let the driver hear the next message, or learn that the connection is lost."""
        if self.to_driver:
            message = read(self.to_driver.popleft())
            self._world.note("to driver", self._child.name, message)
            self._driver.hears(self._child.name, message)
        elif self.cut and self.known:
            self.known = False
            self._world.note("lost", self._child.name)
            self._driver.loses(self._child.name)

    def tell_lane(self):
        """Let the lane hear the next message."""
        if self.to_lane and not self.cut:
            message = self.to_lane.popleft()
            self._world.note("to lane", self._child.name, type(message).__name__)
            self._child.hears(message)

    def close(self):
        """The lane's process is gone: what it has sent arrives, and then its end."""
        if not self.cut:
            self.cut = True
            self.to_lane.clear()
            self._arrival(self._driver_at, self.tell_driver)

    def break_off(self, choose):
        """It breaks: what was on its way is lost, and both ends learn of it later, the lane perhaps when it sends."""
        self.cut = True
        self.to_lane.clear()
        for _ in range(choose.randint(0, len(self.to_driver))):
            self.to_driver.pop()
        self._resets = choose.random() < 0.5
        self._arrival(self._driver_at, self.tell_driver)
        self._world.clock.at(choose.choice([0.0, 0.1, 3.0]), self._child.loses)


class LaneChild:
    """An attempt at a lane.

    Args:
        world: the world.
        driver: the driver.
        attempt: Spark's attempt at the task; None in scripted schedules.
        lane_number: the number of the lane.
    """

    def __init__(self, world, driver, attempt, lane_number):
        self.world, self.attempt, self.lane_number = world, attempt, lane_number
        self.name = next(world.numbers)
        self.connection = Connection(world, driver, self)
        driver.children[self.name] = self
        self.records = []
        self.opened = False  # whether a segment has begun
        self._choose = world.random
        self._killed = False
        self._looks_at = world.clock.now + LOOK_SECONDS
        task, tries = (0, 0) if attempt is None else (attempt.number, attempt.task.retries)
        self.connection.send(Hello(lane_number, f"host/{self.name}", world.clock.time(), 0, tries, task))
        self.lane = Lane(
            world.fn, clock=world.clock.monotonic, send=self.connection.send, segment_seconds=driver.segment_seconds
        )

    # What it hears.

    def hears(self, message):
        self.lane.receive(message)
        self._look()
        self._wake()

    def loses(self):
        self.lane.fail(CoordinatorError("the connection is lost"))
        self._wake()

    def _wake(self):
        if self.attempt is not None:
            self.world.executors.wake(self.attempt)

    def _look(self):
        try:
            self.lane.look()
        except CoordinatorError as error:
            self.lane.fail(error)

    def is_killed(self):
        """The system kills its process; return False if nothing runs in it."""
        self._killed = self.lane.held() != []
        return self._killed

    # What it runs.

    def steps(self):
        """Yield the seconds of each step, None for a wait; raise `Failed` if the process is killed."""
        saves = self.world.plan.saved
        while True:
            running = self.lane.advance()
            if running is WAIT:
                yield from self._wait()
            elif isinstance(running, Running):
                self.opened = saves
                yield from self._run(running)
            elif self.opened:
                yield from self._write()
            else:
                assert running is None
                assert not (saves and self.records), "records that are in no segment"
                return

    def _wait(self):
        mine = self.lane._mine
        yield max(mine[-1][0] - self.world.clock.now, 0.0001) if mine else None

    def _run(self, running):
        world, before = self.world, len(self.records)
        with running.outputs() as outputs:
            yield from self._passes(self._choose.choice([0.0, 0.0, 0.1]) * world.plan.block_seconds * 10)
            for output in outputs:
                self.records.append(output)
                if self._killed:
                    raise Failed
                yield from self._passes(world.seconds_of(output))
        world.note("ran", self.name, running.item.id, len(self.records) - before)

    def _passes(self, seconds):
        """Let a block take its time, in which the other thread looks at it now and then."""
        clock = self.world.clock
        ends = clock.now + seconds
        while self._looks_at < ends:
            if self._looks_at > clock.now:
                yield self._looks_at - clock.now
            self._look()
            self._looks_at = clock.now + LOOK_SECONDS * self._choose.choice(
                [0.2, 1.0, 2.0, 20.0]
            )  # it may not get the GIL
        yield max(ends - clock.now, 0.0)

    def _write(self):
        number = yield from self.world.sink.write(self.records)
        if number is None:
            raise CoordinatorError("the sink has raised")
        self.world.counts["empty segments"] += not self.lane.segment.ids
        count, self.records, self.opened = len(self.records), [], False
        self.lane.segment_done((number,), (count,))

    # How it ends.

    def gone(self):
        self.connection.close()

    def suffer(self, fault):
        """A fault hits the lane."""
        faults = self.world.faults
        if fault is Fault.CUT and not self.connection.cut:
            self.connection.break_off(faults.random_of(fault))
        elif fault is Fault.LEAVE:
            self.lane.leave()
            self._wake()
        elif fault is Fault.CUT:
            faults.postpone(fault)
        else:
            self.world.driver.suffer(fault, self)
