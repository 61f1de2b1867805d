"""Saved runs under simulated time: segments, what closing one costs, and slots that lose what is open."""

import math
from contextlib import contextmanager
from unittest.mock import patch

from simulated_live import LiveSimulation, SimulatedLane
from simulated_staged import StagedSimulation

from sdf.lanes import segmented
from sdf.lanes.lane import CLOSE, WAIT
from sdf.scheduling.commit_interval import CommitInterval, budget_of_retry


@contextmanager
def always(seconds):
    """Let segments last so long whatever is lost, however often that is the same."""
    with (
        patch.object(CommitInterval, "seconds", lambda *_: seconds),
        patch.object(segmented, "_MOST_LOSSES", math.inf),
    ):
        yield


class SavedLane(SimulatedLane):
    """An attempt of a saved run: it closes a segment when the lane says so, which takes a while."""

    def look(self):
        super().look()
        self.goes_on()  # what ran may have been cut, as the segment is over

    def further_looks(self):
        return (self.lane.segment.ends,)

    def _outputs(self):
        closing_seconds = self.simulation.closing_seconds
        while (running := self.lane.advance()) is not None:
            if running is WAIT:
                yield WAIT
            elif running is CLOSE:
                began = self.timeline.now
                while self.timeline.now < began + closing_seconds:
                    self.fn.ends = began + closing_seconds
                    yield
                self.lane.segment_done((None,), (0,))
            else:
                with running.outputs() as outputs:
                    yield from outputs


class SavedLanes(LiveSimulation):
    """A saved run with lanes.

    Args:
        world: what there is to do, and where.
        commit_seconds: how long a segment may last.
        closing_seconds: what closing one takes.
        driver_clock: see `Driver`.

    Attributes:
        segments: number of committed segments.
    """

    lane_class = SavedLane

    def __init__(self, world, *, commit_seconds, closing_seconds, **driver_clock):
        self.closing_seconds = closing_seconds
        self.segments = 0
        super().__init__(world, saved=self._saved, commit_seconds=commit_seconds, **driver_clock)

    def _saved(self, _item_ids, _message):
        self.segments += 1

    def run(self):
        makespan = super().run()
        self.work.ledger.prove()
        return makespan


class SavedStages(StagedSimulation):
    """A saved run with stages, as `sdf.spark.staged` has it: a task is a segment, and each retry has half the budget.

    For arguments and attributes see `SavedLanes`.
    """

    def __init__(self, world, *, commit_seconds, closing_seconds, **driver_clock):
        self.closing_seconds = closing_seconds
        self.interval = CommitInterval(commit_seconds)
        self.lost = set()
        self.segments = 0
        super().__init__(world, **driver_clock)

    def budget_seconds(self, task):
        longest = min(super().budget_seconds(task), self.interval.seconds(self.timeline.now))
        return budget_of_retry(longest, self.retries[task.id])

    def ended(self, attempt):
        self.timeline.at(self.timeline.now + self.closing_seconds, self.closed, attempt)

    def closed(self, attempt):
        if attempt not in self.lost:
            super().ended(attempt)

    def loses(self, slot):
        attempt = self.running.get(slot)
        super().loses(slot)
        if attempt is not None:
            self.lost.add(attempt)

    def _commits(self, now):
        for task, _, _ in self.receipts:
            self.interval.began(task.stage.submitted_at)
            self.interval.ended(now, losses=self.retries[task.id])
            self.interval.committed(self.closing_seconds)
            self.segments += 1
        super()._commits(now)

    def _computing_again(self, _now):
        return 0.0  # what is written is written
