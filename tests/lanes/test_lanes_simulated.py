"""Lanes and coordinator under thousands of random schedules: exactly once, whatever happens when."""

import re
from collections import Counter

import pytest
from support.simulated_lanes import NumbersFn, Simulation
from support.simulated_late import LateSimulation, LateTables
from support.simulated_tables import RefusedFn, TableSimulation

from sdf.errors import DeferError, SdfError
from sdf.execution import deferrals
from sdf.execution.work_items import DEFERRED
from sdf.lanes import lane
from sdf.lanes import stealing as balance
from sdf.lanes.assignment import Assignment
from sdf.lanes.coordinator import Coordinator
from sdf.lanes.messages import Sealed
from sdf.scheduling.ledger import Ledger

SCHEDULES = 1000
CHUNKS = [*range(4), *(pytest.param(chunk, marks=pytest.mark.soak) for chunk in range(4, 12))]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_every_record_exactly_once_whatever_happens_when(chunk):
    """Each lane's content is fixed by whoever ends first; all tile the elements; a second action gives the same."""
    counts = Counter()
    for seed in range(chunk * SCHEDULES, (chunk + 1) * SCHEDULES):
        try:
            counts += Simulation(seed).check()
        except Exception as error:
            raise AssertionError(f"Simulation({seed}).check()") from error
    for happened in ("Split", "Returned", "Declined", "crash", "zombies", "double", "given up", "retries", "replays"):
        assert counts[happened] > 10, f"{happened}: {counts}"


@pytest.mark.parametrize("chunk", CHUNKS)
def test_with_elements_in_tables(chunk):
    """Cut between rows and inside rows, deferred, refused, lost and replayed."""
    counts = Counter()
    for seed in range(chunk * SCHEDULES, (chunk + 1) * SCHEDULES):
        simulation = TableSimulation(seed)
        try:
            counts += simulation.check()
            counts["rows"] += simulation.rows
            counts["inside"] += simulation.work.splits
        except Exception as error:
            raise AssertionError(f"TableSimulation({seed}).check()") from error
    for happened in ("Split", "Returned", "Declined", "crash", "zombies", "double", "given up", "retries", "replays"):
        assert counts[happened] > 10, f"{happened}: {counts}"
    assert counts["rows"] > SCHEDULES
    assert counts["inside"] > 100


@pytest.mark.parametrize("simulation", [LateSimulation, LateTables])
@pytest.mark.parametrize("chunk", CHUNKS)
def test_with_elements_that_are_expanded_late(chunk, simulation):
    """Idle attempts wait for them; those that give their slot back for that lose nothing."""
    counts = Counter()
    for seed in range(chunk * SCHEDULES, (chunk + 1) * SCHEDULES):
        try:
            counts += simulation(seed).check()
        except Exception as error:
            raise AssertionError(f"{simulation.__name__}({seed}).check()") from error
    for happened in (
        "Split", "Returned", "crash", "zombies", "double", "given up", "retries", "replays",
        "late", "late, an attempt is idle", "gave its slot", "ended before the last was expanded",
    ):  # fmt: skip
        assert counts[happened] > 10, f"{happened}: {counts}"


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_what_a_lane_was_given_begins_there_though_others_are_idle(lanes):
    """They ask for it before the lane has woken up; handed to the next one, it would never begin."""
    simulation = Simulation(0, elements=[("whole", 40)], lanes=lanes)
    for number in range(lanes):
        simulation.start(number)
    for _ in range(10):
        simulation.round()
    assert any(attempt.records for attempt in simulation.live())
    assert simulation.counts["Assign"] == 1
    assert simulation.counts["StealRequest"] > 0


@pytest.mark.parametrize("doubled", [False, True])
def test_a_lane_defers_thousands_of_times_whatever_becomes_of_its_parts(doubled):
    """Accepted, or refused since there are two attempts; the one that ends first is followed by the other."""
    simulation = Simulation(0, elements=[("defers", 8000)], lanes=1)
    simulation.faults = 0
    attempts = [simulation.start(0) for _ in range(1 + doubled)]
    while simulation.live():
        simulation.round()
        simulation.coordinator.tick(simulation.now)
    assert simulation.counts["completed"] == len(attempts)
    assert simulation.results[0] == [("defers", number) for number in range(8000)]
    report = simulation.coordinator.report(simulation.now)
    assert (len(report.pieces) == 1, report.records) == (doubled, 8000)


class OneTable(TableSimulation):
    """All elements are in one table."""

    most = (1000,)


@pytest.mark.parametrize("rows", [20, 200])
def test_a_lane_is_told_of_each_row_that_defers_once(rows, monkeypatch):
    """Those behind it are not deferred with it, so none waits longer; and they come back to the lane at once."""
    monkeypatch.setattr(deferrals, "_MOST_IDLE", 5)
    simulation = OneTable(0, elements=[(f"{row} refused", 1) for row in range(rows)], lanes=1, fn=RefusedFn(0.05))
    simulation.start(0)
    while simulation.live():
        simulation.round()
        simulation.coordinator.tick(simulation.now)
    assert Counter(simulation.results[0]) == Counter((f"{row} refused", 0) for row in range(rows))
    assert simulation.counts["Split"] == simulation.counts["Verdict"] == rows
    assert simulation.counts["Assign"] <= 2 * rows
    origins = Counter(item.origin for item in simulation.work.ledger.items())
    assert origins == {DEFERRED: rows}


class OneGetsNowhereFn(NumbersFn):
    """One element defers each time that it runs."""

    def process(self, element, tracker):
        if element[0] == "7":
            tracker.defer_remainder(0)
            return
        yield from super().process(element, tracker)


def test_a_row_that_only_defers_is_an_error_that_names_it(monkeypatch):
    """As is an element by itself; those behind it are run."""
    monkeypatch.setattr(deferrals, "_MOST_IDLE", 5)
    simulation = OneTable(0, elements=[(f"{row}", 1) for row in range(20)], lanes=1, fn=OneGetsNowhereFn())
    attempt = simulation.start(0)

    def run():
        for _ in range(5000):
            simulation.round()
            simulation.coordinator.tick(simulation.now)

    with pytest.raises(
        DeferError, match=r"deferred OffsetRange\(start=0, stop=1\) of element \('7', 1\) 6 times in a row"
    ):
        run()
    assert len(attempt.records) == 19


def test_a_row_that_ran_long_is_told_by_itself():
    """The others of its work item are one piece, whose seconds are their own."""
    simulation = OneTable(0, elements=[(f"{row}", 2) for row in range(20)], lanes=1)
    attempt = simulation.start(0)
    while simulation.live():
        simulation.round()
        if attempt.records[-1:] == [("7", 0)]:
            simulation.beat(attempt)
            simulation.now += 10.0
            simulation.beat(attempt)
    pieces = simulation.coordinator.report(simulation.now).pieces
    assert {piece.elements: piece.seconds > 5.0 for piece in pieces} == {1: True, 19: False}
    assert [piece.element for piece in pieces if piece.elements == 1] == [("7", 2)]


def failures(schedules=1500):
    """Yield how schedules fail that find out a bug; without one all pass (above)."""
    for seed in range(schedules):
        try:
            Simulation(seed).check()
        except (AssertionError, SdfError) as error:
            yield f"{type(error).__name__}: {error}"


def sealing_removed(monkeypatch):
    def seal(self, attempt, now):
        self._stealing.ends(attempt)
        self._send(attempt.name, Sealed())

    monkeypatch.setattr(Assignment, "_seal", seal)


def stealing_from_doubled_lanes(monkeypatch):
    monkeypatch.setattr(balance.Attempt, "alone", lambda self: self.lane.sealed is None)


def replay_without_truncation(monkeypatch):
    release = Ledger.release

    def content(self, owner):
        return [node.item for node in self._owned.get(owner, {}).values()]

    def release_whole(self, owner, item_id):
        before = self._nodes[item_id].item
        release(self, owner, item_id)
        return before

    monkeypatch.setattr(Ledger, "content", content)
    monkeypatch.setattr(Ledger, "content_with_sizes", content)
    monkeypatch.setattr(Ledger, "release", release_whole)


def refused_splits_dropped(monkeypatch):
    judged = lane.Lane._judged
    monkeypatch.setattr(lane.Lane, "_judged", lambda self, accepted: judged(self, True))


def content_of_a_lost_attempt_forgotten(monkeypatch):
    monkeypatch.setattr(Ledger, "content", lambda self, owner: [])
    monkeypatch.setattr(Ledger, "content_with_sizes", lambda self, owner: [])


def a_second_attempt_shares_nothing(monkeypatch):
    """It is given what is left of the share, not what the first one was given."""
    connected = Coordinator.connected

    def connect(self, name, hello, now):
        connected(self, name, hello, now)
        if name in self._attempts:
            self._attempts[name].again.clear()

    monkeypatch.setattr(Coordinator, "connected", connect)


MUTANTS = {
    sealing_removed: "two results|not exactly once|something else|not committed",
    stealing_from_doubled_lanes: "two results|not exactly once|ReplayError|do not add up",
    replay_without_truncation: "two results|not exactly once|ReplayError|do not add up",
    refused_splits_dropped: "two results|not exactly once|ReplayError",
    content_of_a_lost_attempt_forgotten: "two results|not exactly once|ReplayError|does not belong",
    a_second_attempt_shares_nothing: "two results|not exactly once|ReplayError",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_seeded_bug_is_found(mutant, monkeypatch):
    """Each rule that makes it safe is needed; which check speaks first is the schedules' affair."""
    mutant(monkeypatch)
    assert any(re.search(MUTANTS[mutant], failure) for failure in failures())
