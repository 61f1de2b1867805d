"""Lanes of a saved run under thousands of random schedules: every record is in exactly one committed segment."""

import logging
import re
from collections import Counter

import pytest
from support.simulated_saving import SavedSimulation

from sdf.errors import SdfError
from sdf.lanes import lane
from sdf.lanes.coordinator import Coordinator
from sdf.scheduling.ledger import Ledger

SCHEDULES = 1000
CHUNKS = [*range(4), *(pytest.param(chunk, marks=pytest.mark.soak) for chunk in range(4, 40))]
FAULTS = ("crash", "zombies", "double", "drivers", "leaves", "told to leave", "joins", "retries")
MESSAGES = ("CommitEvery", "SegmentDone", "Flush", "Split", "Returned", "Declined", "Sealed")


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """What cannot be told the driver is a warning, thousands of times here."""
    caplog.set_level(logging.CRITICAL, "sdf.lane")
    caplog.set_level(logging.CRITICAL, "sdf.coordinator")


@pytest.mark.parametrize("chunk", CHUNKS)
def test_every_record_is_in_exactly_one_committed_segment_whatever_happens_when(chunk):
    """A segment holds what its work items hold; the next driver has just the work that is not in the log."""
    counts = Counter()
    for seed in range(chunk * SCHEDULES, (chunk + 1) * SCHEDULES):
        try:
            counts += SavedSimulation(seed).check()
        except Exception as error:
            raise AssertionError(f"SavedSimulation({seed}).check()") from error
    for happened in (*FAULTS, *MESSAGES, "lost records of the log", "empty segments", "later", "further jobs"):
        assert counts[happened] > 0, f"{happened}: {counts}"


def failures(schedules=1500):
    """Yield how schedules fail that find out a bug; without one all pass (above)."""
    for seed in range(schedules):
        try:
            SavedSimulation(seed).check()
        except (AssertionError, SdfError, IndexError) as error:
            yield f"{type(error).__name__}: {error}"


def an_unjudged_split_does_not_hold_up_the_end(monkeypatch):
    """The segment ends while the coordinator has not decided who runs the residual."""

    def advance(self):
        if self._offer is not None and self._executor.running is not None:
            self._judged(False)
        return before(self)

    before = lane.Lane.advance
    monkeypatch.setattr(lane.Lane, "advance", advance)


def refused_residuals_are_left_to_the_next_segment(monkeypatch):
    def advance(self):
        if self._offer is None and self._failure is None and self._end_running() and self._is_over():
            return lane.CLOSE
        return before(self)

    before = lane.Lane.advance
    monkeypatch.setattr(lane.Lane, "advance", advance)


def what_was_all_given_back_is_counted(monkeypatch):
    """To the driver a work item that was deferred before a claim is no longer the lane's."""

    def end(self):
        running = self._executor.running
        before_ids = list(self._segment_ids)
        ended = before(self)
        if ended and running is not None and running.item.id >= 0 and self._segment_ids == before_ids:
            self._segment_ids.append(running.item.id)
        return ended

    before = lane.Lane._end_running
    monkeypatch.setattr(lane.Lane, "_end_running", end)


def what_a_lost_attempt_held_is_forgotten(monkeypatch):
    monkeypatch.setattr(Ledger, "content", lambda self, owner: [])


def a_committed_segment_stays_with_its_lane(monkeypatch):
    """So another attempt runs it again."""

    def commit_first(self, owner, count, last_id, part):
        return [item.id for item in self.content(owner)[:count]]

    monkeypatch.setattr(Ledger, "commit_first", commit_first)


def a_late_attempt_shares_a_lane(monkeypatch):
    """Each attempt must be an owner of its own."""
    connected = Coordinator.connected

    def connect(self, name, hello, now):
        segments, self.segments = self.segments, None
        connected(self, name, hello, now)
        self.segments = segments

    monkeypatch.setattr(Coordinator, "connected", connect)


def deferred_work_stays_at_a_lane_without_an_attempt(monkeypatch):
    monkeypatch.setattr(Coordinator, "_adopt", lambda self: None)


MUTANTS = {
    an_unjudged_split_does_not_hold_up_the_end: "holds other records|ProtocolError|LedgerError|not exactly once",
    refused_residuals_are_left_to_the_next_segment: "holds other records",
    what_was_all_given_back_is_counted: "LedgerError|holds other records",
    what_a_lost_attempt_held_is_forgotten: "jobs commit nothing|hangs|not committed",
    a_committed_segment_stays_with_its_lane: "cannot be|not exactly once|hangs",
    a_late_attempt_shares_a_lane: ".",
    deferred_work_stays_at_a_lane_without_an_attempt: "jobs commit nothing",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_seeded_bug_is_found(mutant, monkeypatch):
    """Each rule that makes it safe is needed; which check speaks first is the schedules' affair."""
    mutant(monkeypatch)
    assert any(re.search(MUTANTS[mutant], failure) for failure in failures())
