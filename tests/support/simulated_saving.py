"""A seeded simulation of one saved run of lanes: `simulated_lanes` with segments, several jobs and several drivers.

A record counts only when the segment that wrote it is in the log. Attempts crash while they write a segment. A driver
dies, and what it has not logged is lost with it; the next driver goes on from the log.
"""

import itertools
import json
import random
from collections import Counter

from sdf import OffsetRange
from sdf.errors import SdfError
from sdf.execution.expansion import expand
from sdf.execution.measured_run import Running
from sdf.lanes.lane import WAIT
from sdf.saving.history import History
from sdf.saving.log_records import Segment, split_record
from sdf.scheduling.run_state import RunState
from support.simulated_lanes import NumbersFn, Simulation

MOST_IDLE_ROUNDS = 3  # as in sdf.spark.live.rounds


class Untold(int):
    """An offset that no lane can tell the driver, as the restriction that it was given is made of plain ones."""


class SavedNumbersFn(NumbersFn):
    """As NumbersFn; the ways in which it may give its numbers are those that would lose records cut at a claim."""

    def __init__(self, random):
        self.random = random

    def create_tracker(self, element, restriction):
        tracker = super().create_tracker(element, restriction)
        if "untold" in element[0]:
            split = tracker.try_split

            def try_split(fraction):
                pair = split(fraction)
                return pair and (pair[0], OffsetRange(Untold(pair[1].start), pair[1].stop))

            tracker.try_split = try_split
        return tracker

    def process(self, element, tracker):
        if "later" in element[0] and self.random.random() < 0.3:
            tracker.defer_remainder(0.02)
            return ()
        records = super().process(element, tracker)
        if "listed" in element[0]:
            return list(records)
        if "ahead" in element[0]:
            return itertools.chain(list(itertools.islice(records, 3)), records)
        return records


KINDS = [
    "",
    "",
    "unsized",
    "parts",
    "whole",
    "defers",
    "later",
    "later",
    "later defers",
    "listed",
    "listed defers",
    "ahead",
]
KINDS += ["untold", "untold defers"]


class Log:
    """A log in memory; see `sdf.journal.run_log.RunLog`."""

    root = "memory"

    def __init__(self):
        self.records = []
        self.blobs = {}

    def append(self, record):
        self.records.append(json.dumps(record))

    def read(self):
        return map(json.loads, self.records)

    def put(self, data):
        self.blobs[len(self.blobs)] = data
        return {"blob": len(self.blobs) - 1}

    def get(self, reference):
        return self.blobs[reference["blob"]]


class SavedSimulation(Simulation):
    """One schedule of a saved run."""

    commits_every_seconds = (0.0, 0.005, 0.05, 0.05, 1e9)

    def __init__(self, seed, **options):
        self.log = Log()
        self.written = {}  # the records of each segment that was written
        self.segments = itertools.count()
        self.leaving = random.Random(seed)  # of its own: with or without leaves, the schedules are the same
        self.leaves = self.leaving.choice([0, 0, 1, 3])
        self.joins = self.leaving.choice([0, 0, 2])
        super().__init__(seed, **options)

    def begin(self):
        choose = self.random
        self.fn = SavedNumbersFn(choose)
        self.elements = [(f"{number} {choose.choice(KINDS)}", n) for number, (_, n) in enumerate(self.elements)]
        self.segment_seconds = choose.choice(self.commits_every_seconds)
        self.drivers = choose.choice([1, 1, 2, 4])
        self.log.append(["begin", "app", {}])
        self.log.append(["prepared"])
        self.take_over()

    def take_over(self):
        """Begin as a driver: expand the elements, or go on from the log."""
        self.attempts = {}
        self.results = {}
        self.committed = set()  # the work items that this driver has committed
        self.work = RunState(self.fn)
        self.history = History(self.log)
        if self.history.drivers and len(self.log.records) > 2:
            self.log.append(["driver", "another"])
        self.durable = len(self.log.records)
        later = []
        if self.history.expanded is None:
            elements = [expand(self.fn, element) for element in self.elements]
            for record in self.history.of_elements(elements):
                self.log.append(record)
            items = list(self.work.add(elements))
        else:
            todo = self.history.replay(self.work)
            self.committed = {item.id for item in self.work.ledger.items()} - {item.id for item, _ in todo}
            found = sorted((item.element_id, *item.restriction) for item, _ in todo)
            assert self.open in (None, found), "the next driver has other work"
            items = [item for item, due in todo if due / 1000 <= self.now]
            later = [(item, due / 1000) for item, due in todo if due / 1000 > self.now]
        self.work.ledger.on_split = self.on_split
        self.serve(items)
        for item, due in later:
            self.counts["later"] += 1
            self.coordinator.delay(item, due)

    def on_split(self, item_id, primary, residuals):
        self.log.append(split_record(item_id, primary, residuals, lambda: int(self.now * 1000)))

    def saved(self, item_ids, message):
        """The driver logs a segment: it holds what its work items hold, no more and no less."""
        (number,) = message.messages
        held = Counter()
        for item_id in item_ids:
            item = self.work.ledger.item(item_id)
            held.update((item.element[0], i) for i in range(*self.work.ledger.holds(item_id)))
        assert Counter(self.written[number]) == held, "a segment holds other records than its work items"
        segment = Segment(tuple(message.messages), message.records, message.seconds)
        self.log.append(self.history.of_segment(item_ids, segment))
        self.committed.update(item_ids)
        self.counts["segments"] += 1

    # The task.

    def step(self, attempt):
        """Let an attempt give one record, or write its segment, or find out what it does next."""
        try:
            record = next(attempt.outputs, WAIT)
            if record is not WAIT:
                attempt.records.append(record)
                return
            if attempt.writes:
                attempt.writes -= 1
                if not attempt.writes:
                    self.write(attempt)
                return
            running = attempt.lane.advance()
            if running is WAIT:
                return
            if isinstance(running, Running):
                attempt.opened = True
                attempt.outputs = running.invoker.run()
            elif attempt.opened:
                attempt.writes = self.writing_steps()
            else:
                assert running is None
                self.complete(attempt)
        except (SdfError, ConnectionResetError) as error:
            if isinstance(error, SdfError) and not attempt.cut:
                raise
            self.end(attempt)

    def writing_steps(self):
        """Return how many steps the storage takes to write a segment."""
        return self.random.randint(1, 3)

    def write(self, attempt):
        number = next(self.segments)
        self.written[number], attempt.records = attempt.records, []
        attempt.opened = False
        self.counts["empty segments"] += not attempt.lane._segment_ids
        attempt.lane.segment_done((number,), (len(self.written[number]),))

    def complete(self, attempt):
        """Spark counts the lane as done."""
        assert not attempt.records, "records that are in no segment"
        if attempt.job == self.job:
            self.results[attempt.lane_number] = True
        self.counts["completed"] += 1
        self.end(attempt)

    # The schedule.

    def start(self, lane_number):
        attempt = super().start(lane_number)
        attempt.job = self.job
        return attempt

    def happen(self, wanted):
        if self.leaves and self.leaving.random() < 0.01 and (live := self.live()):
            self.leaves -= 1
            self.counts["leaves"] += 1
            attempt = self.leaving.choice(live)
            if self.leaving.random() < 0.5:
                attempt.lane.leave()
            else:
                self.counts["told to leave"] += 1
                self.coordinator.leave(attempt.number)
        if self.joins and self.leaving.random() < 0.01:
            self.joins -= 1
            self.counts["joins"] += 1
            self.start(self.leaving.randrange(self.lanes, 2 * self.lanes))  # a slot has come: a lane of another job
        super().happen(wanted)

    def run(self, wanted=None, most=None):
        """Run jobs until all work is committed, as sdf.spark.live.rounds does, and drivers until one has done that."""
        self.job = idle = doubles = leaves = done = 0
        left = self.work.ledger.uncommitted()
        while left:
            if not self.run_job():
                self.die()
                idle = done = 0
            self.counts["jobs"] += 1
            left = self.work.ledger.uncommitted()
            before, done = done, len(self.work.ledger) - left
            doubled, doubles = doubles, self.counts["double"]
            left_before, leaves = leaves, self.counts["leaves"]
            moved = doubles > doubled or leaves > left_before  # a copy may end, and its original be killed
            idle = 0 if done > before or moved else idle + 1
            ended = self.counts["joins"]  # lanes that this simulation ends with the job; Spark runs them to their end
            assert idle < MOST_IDLE_ROUNDS + ended, "jobs commit nothing"

    def run_job(self):
        """Run the attempts of one job; return False if the driver dies meanwhile."""
        self.counts["further jobs"] += self.job > 0
        self.job += 1
        self.results = {}
        for steps in itertools.count():
            if all(lane in self.results for lane in range(self.lanes)):
                break
            assert steps < self.most_steps, "it hangs"
            if self.drivers > 1 and self.random.random() < 0.005:
                return False
            self.happen(range(self.lanes))
        for attempt in self.live():
            if attempt.job < self.job or self.random.random() < 0.8:  # some go on for one job more
                self.end(attempt)
        for attempt in self.attempts.values():  # their ends are known before the next job begins
            while attempt.over and attempt.connected:
                self.deliver_from(attempt)
        return True

    def die(self):
        """The driver dies, before its last records were in the log; its attempts die with it."""
        self.drivers -= 1
        self.counts["drivers"] += 1
        lost = min(self.random.choice([0, 0, 1, 5]), len(self.log.records) - self.durable)
        self.counts["lost records of the log"] += lost
        del self.log.records[len(self.log.records) - lost :]
        self.open = None if lost else self.open_work(self.work.ledger)
        self.take_over()

    def open_work(self, ledger):
        """Return what is not committed, in order."""
        return sorted((item.element_id, *item.restriction) for item in ledger.items() if item.id not in self.committed)

    def check(self):
        """Run it to its end; check what is committed."""
        self.run()
        self.work.ledger.prove()
        history = History(self.log)
        records = itertools.chain.from_iterable(self.written[number] for number in history.messages(0))
        expected = Counter((name, i) for name, n in self.elements for i in range(n))
        assert Counter(records) == expected, "not exactly once"
        assert history.of_messages() == self.history.of_messages(), "the log has other messages than its driver"
        assert sum(history.records) == sum(expected.values()), "the log counts other records"
        assert self.work_left(history) == [], "the log has open work"
        report = self.coordinator.report(self.now)
        self.counts.update(retries=report.retries, replays=report.replays)
        return self.counts

    def work_left(self, history):
        return history.replay(RunState(self.fn))
