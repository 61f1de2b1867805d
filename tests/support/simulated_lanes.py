"""A seeded simulation of one run of lanes: the real coordinator, the real lanes, no sockets, no threads, no clock.

Every step of a schedule is drawn at random: an attempt gives one record, a message arrives, time passes, an attempt
crashes, a connection breaks while the attempt goes on as a zombie, a second attempt at a lane starts, an action ends
before it has read everything. What must hold at the end is checked in `Simulation.check`.
"""

import itertools
import math
import random
from collections import Counter, deque
from contextlib import suppress

import attrs

from sdf import DoFn, OffsetRange, UnsplittableTracker
from sdf.errors import SdfError
from sdf.execution.expansion import expand
from sdf.lanes.coordinator import Coordinator
from sdf.lanes.lane import WAIT, Lane
from sdf.lanes.messages import Hello, read, write
from sdf.scheduling.factoring import deal
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue


class NumbersFn(DoFn):
    """Element: (name, N). Gives (name, 0) ... (name, N - 1); its element's name may ask for other ways to do so."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def split_restriction(self, element, restriction):
        if "parts" in element[0]:
            middle = (restriction.start + restriction.stop) // 2
            return [OffsetRange(restriction.start, middle), OffsetRange(middle, restriction.stop)]
        return [restriction]

    def restriction_size(self, element, restriction):
        return None if "unsized" in element[0] else super().restriction_size(element, restriction)

    def create_tracker(self, element, restriction):
        if "whole" in element[0]:
            return UnsplittableTracker(restriction)
        return super().create_tracker(element, restriction)

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if "defers" in element[0] and i % 4 == 3 and tracker.current_restriction().start != i:
                tracker.defer_remainder(0.05)
                return
            if not tracker.try_claim(i):
                return
            yield element[0], i


@attrs.define(eq=False)
class Attempt:
    """An attempt at a lane, and its connection."""

    number: int
    lane_number: int
    lane: Lane = None
    outputs: object = iter(())
    records: list = attrs.Factory(list)
    to_driver: deque = attrs.Factory(deque)
    to_lane: deque = attrs.Factory(deque)
    connected: bool = True  # as the coordinator sees it
    cut: bool = False  # nothing gets through any more
    over: bool = False
    job: int = 0  # this and the next two: in a saved run
    opened: bool = False  # whether it has begun a segment
    writes: int = 0  # steps until its segment is written
    task_id: int = 0  # with quarantine: of the Spark task whose child it is


class Simulation:
    """One schedule.

    Args:
        seed: of all choices.
        elements: what runs, and...
        lanes: ...on how many; else random.
        fn: what runs them.
    """

    saved = None  # a method in a saved run
    suspects = None  # with quarantine
    more_comes = False  # whether elements are still expanded
    segment_seconds = math.inf
    most_steps = 20_000  # of an action, or of a job; with more it hangs

    def __init__(self, seed, *, elements=None, lanes=None, fn=None):
        self.random = random.Random(seed)
        choose = self.random
        self.now = 0.0
        names = ["", "", "unsized", "parts", "whole", "defers"]
        several, sizes = (range(1, 4), [0, 1, 3, 12, 40]) if choose.random() < 0.9 else (range(5, 40), [0, 1, 1, 2, 3])
        numbers = range(choose.choice(several))
        self.elements = elements or [(f"{n} {choose.choice(names)}", choose.choice(sizes)) for n in numbers]
        self.lanes = lanes or choose.randint(1, 4)
        self.slots = choose.randint(1, self.lanes + 1)
        self.faults = choose.choice([0, 1, 2, 3, 6])
        self.fn = fn or NumbersFn()
        self.attempts = {}
        self.numbers = itertools.count()
        self.results = {}
        self.counts = Counter()
        self.begin()

    def begin(self):
        """Expand the elements, and deal them out to the lanes."""
        self.work = RunState(self.fn)
        self.serve(self.work.add([expand(self.fn, element) for element in self.elements]))

    def serve(self, items):
        """Deal work items out to the lanes."""
        backlog = WorkQueue(self.work.costs)
        for item in items:
            backlog.push(item)
        self.coordinator = Coordinator(
            self.work,
            deal(backlog, self.work.costs, self.lanes, cut=self.work.cut),
            send=self.send_to_lane,
            min_piece_seconds=0.001,
            patience_seconds=0.5,
            saved=self.saved,
            commit_seconds=self.segment_seconds,
            suspects=self.suspects,
            more_comes=self.more_comes,
        )

    # The network.

    def send_to_lane(self, number, message):
        attempt = self.attempts[number]
        self.counts[type(message).__name__] += 1
        if not attempt.cut:
            attempt.to_lane.append(message)

    def send_to_driver(self, attempt, message):
        self.counts[type(message).__name__] += 1
        if attempt.cut:
            raise ConnectionResetError
        payload = write(message)
        assert len(payload) < 10_000, "a lane says too much"
        attempt.to_driver.append(payload)

    # Spark.

    def start(self, lane_number):
        attempt = Attempt(next(self.numbers), lane_number)
        self.attempts[attempt.number] = attempt
        self.send_to_driver(attempt, self.hello(attempt))
        attempt.lane = Lane(
            self.fn,
            clock=lambda: self.now,
            send=lambda message: self.send_to_driver(attempt, message),
            segment_seconds=self.segment_seconds,
        )
        self.counts["attempts"] += 1
        return attempt

    def hello(self, attempt):
        return Hello(attempt.lane_number, "worker", 0.0)

    def live(self):
        return [attempt for attempt in self.attempts.values() if not attempt.over]

    def step(self, attempt):
        """Let an attempt give one record, or find out what it runs next."""
        try:
            record = next(attempt.outputs, WAIT)
            if record is not WAIT:
                attempt.records.append(record)
                return
            running = attempt.lane.advance()
            if running is None:
                self.complete(attempt)
            elif running is not WAIT:
                attempt.outputs = outputs_of(running)
        except (SdfError, ConnectionResetError) as error:
            if isinstance(error, SdfError) and not attempt.cut:
                raise
            self.end(attempt)

    def complete(self, attempt):
        """Spark believes the first attempt that ends well; any other must have given the same."""
        before = self.results.setdefault(attempt.lane_number, attempt.records)
        assert before == attempt.records, f"two results of lane {attempt.lane_number}"
        self.counts["completed"] += 1
        self.end(attempt)

    def end(self, attempt):
        """The process is gone; the coordinator learns of it later."""
        attempt.over = attempt.cut = True
        attempt.to_lane.clear()

    def cut(self, attempt):
        """The connection breaks; what was on its way to the lane is lost, and the attempt goes on for a while."""
        attempt.cut = True
        attempt.to_lane.clear()
        attempt.to_driver = deque(itertools.islice(attempt.to_driver, self.random.randint(0, len(attempt.to_driver))))
        self.counts["zombies"] += 1

    # The schedule.

    def run(self, wanted=None, most=None):
        """Run an action over some lanes; ``most``: give up after so many steps, as take() does.

        Returns:
            The records of each lane.
        """
        self.results = {}
        wanted = range(self.lanes) if wanted is None else wanted
        for steps in itertools.count():
            if all(lane in self.results for lane in wanted):
                break
            if steps == most:
                self.counts["given up"] += 1
                break
            assert steps < self.most_steps, "it hangs"
            self.happen(wanted)
        for attempt in self.live():  # Spark kills what it does not need
            if attempt.lane_number in self.results or self.random.random() < 0.8:
                self.end(attempt)
        return self.results

    def happen(self, wanted):
        choose = self.random
        self.now += choose.choice([0.0001, 0.001, 0.01])
        live = self.live()
        lacking = [
            lane
            for lane in wanted
            if lane not in self.results and not any(attempt.lane_number == lane and not attempt.cut for attempt in live)
        ]
        if lacking and len(live) < self.slots:
            self.start(choose.choice(lacking))
            return
        kind = choose.random()
        if self.faults and live and kind < 0.01:
            self.faults -= 1
            attempt = choose.choice(live)
            fault = choose.choice(["crash", "cut", "double", "double"])
            self.counts[fault] += 1
            if fault == "crash":
                self.end(attempt)
            elif fault == "cut" and not attempt.cut:
                self.cut(attempt)
            elif fault == "double":
                self.start(attempt.lane_number)
        elif kind < 0.45:
            if live:
                self.step(choose.choice(live))
        elif kind < 0.88:
            self.deliver()
        elif kind < 0.96:
            if live:
                self.beat(choose.choice(live))
        else:
            self.now += choose.choice([0.0, 0.05, 0.3])
            self.coordinator.tick(self.now)

    def beat(self, attempt):
        with suppress(ConnectionResetError):
            attempt.lane.look()

    def deliver(self):
        busy = [
            each for each in self.attempts.values() if each.connected and (each.to_driver or each.to_lane or each.cut)
        ]
        if not busy:
            return
        self.deliver_from(self.random.choice(busy))

    def deliver_from(self, attempt):
        choose = self.random
        if attempt.to_driver and (choose.random() < 0.5 or not attempt.to_lane):
            self.tell_driver(attempt)
        elif attempt.to_lane:
            message = attempt.to_lane.popleft()
            with suppress(ConnectionResetError):
                attempt.lane.receive(message)
        elif attempt.cut:
            attempt.connected = False
            self.coordinator.lost(attempt.number, self.now)
            if not attempt.over:
                attempt.lane.fail(SdfError("the connection is lost"))

    def tell_driver(self, attempt):
        message = read(attempt.to_driver.popleft())
        if isinstance(message, Hello):
            self.coordinator.connected(attempt.number, message, self.now)
        else:
            self.coordinator.received(attempt.number, message, self.now)

    def round(self):
        """Deliver all that was sent, first to the driver and then to the lanes; only then each attempt takes a step."""
        self.now += 0.001
        for attempt in self.live():
            while attempt.to_driver:
                self.tell_driver(attempt)
        for attempt in self.live():
            while attempt.to_lane:
                attempt.lane.receive(attempt.to_lane.popleft())
        for attempt in self.live():
            self.step(attempt)

    def check(self):
        """Run one action, perhaps after one that was given up, and a second; check what came out."""
        if self.random.random() < 0.3:
            self.run(
                self.random.sample(range(self.lanes), self.random.randint(1, self.lanes)), self.random.randint(5, 200)
            )
        first = dict(self.run())
        records = Counter(itertools.chain.from_iterable(first.values()))
        assert records == Counter((name, i) for name, n in self.elements for i in range(n)), "not exactly once"
        self.work.ledger.prove()
        splits = self.work.splits
        self.faults = self.random.choice([0, 2])
        assert dict(self.run()) == first, "the second action gave something else"
        assert self.work.splits == splits, "the second action split again"
        report = self.coordinator.report(self.now)
        assert report.records == sum(records.values())
        self.check_pieces(report)
        self.counts.update(retries=report.retries, replays=report.replays)
        return self.counts

    def check_pieces(self, report):
        """Each piece has the records of its restriction."""
        for piece in report.pieces:
            numbers = 0 if piece.restriction is None else piece.restriction.stop - piece.restriction.start
            assert piece.records == numbers, "the report does not add up"
            assert piece.units == numbers or "unsized" in piece.element[0], "the report does not add up"


def outputs_of(running):
    """Yield the outputs of what a lane runs."""
    with running.outputs() as outputs:
        yield from outputs
