"""Who gives to whom, and which idle attempts end."""

import pytest

from sdf.execution.work_items import Outcome, WorkItem
from sdf.lanes.attempts import Attempt, LaneState
from sdf.lanes.messages import Heartbeat, Hello
from sdf.lanes.stealing import Stealing
from sdf.model.restrictions import OffsetRange
from sdf.scheduling.cost_model import CostModel
from sdf.scheduling.work_queue import WorkQueue


class Lanes:
    """Some lanes with one attempt each, all of which run something."""

    def __init__(self, count, patience_seconds=10.0):
        self.costs = CostModel()
        self.costs.observe(Outcome(10, (), 10, 10.0))  # a second a unit
        self.stealing = Stealing(self.costs, 1.0, patience_seconds)
        self.attempts = [self.attempt(number, LaneState(number, WorkQueue(self.costs))) for number in range(count)]

    def attempt(self, name, lane):
        attempt = Attempt(name, lane, Hello(lane.number, "w", 0.0))
        lane.attempts.append(attempt)
        lane.begun = True
        self.stealing.has_slot(lane, 0.0)
        self.stealing.runs(attempt)
        return attempt

    def on_heartbeat(self, number, seconds_left, *, now=0.0, splittable=True, unstarted=0):
        attempt = self.attempts[number]
        heartbeat = Heartbeat(0, splittable, 1.0, 1.0, seconds_left, unstarted)
        attempt.heartbeat, attempt.declined = heartbeat, False
        self.stealing.rank(attempt, now)

    def share(self, number, sizes, now=0.0):
        for size in sizes:
            self.attempts[number].lane.queue.push(WorkItem(size, 0, "a", OffsetRange(0, size), size))
        self.stealing.rank(self.attempts[number], now)

    def request(self, attempt, now):
        self.stealing.requested(attempt, now)

    def answer(self, attempt):
        self.stealing.answered(attempt)

    def pair(self, now=0.0):
        """Return (victim, thief) as numbers."""
        found = self.stealing.pair(now)
        return None if found is None else tuple(attempt.lane.number for attempt in found)

    def leavers(self, now):
        return [attempt.lane.number for attempt in self.stealing.leavers(now)]


def test_who_has_most_seconds_left_gives():
    """What runs and what is in the share, together."""
    lanes = Lanes(4)
    lanes.on_heartbeat(0, 5.0)
    lanes.on_heartbeat(1, 3.0)
    lanes.share(1, [4])
    lanes.on_heartbeat(2, 6.0)
    lanes.stealing.rests(lanes.attempts[3], 0.0)
    assert lanes.pair() == (1, 3)


def test_seconds_that_have_passed_are_gone():
    """What was left a while ago is less now."""
    lanes = Lanes(3)
    lanes.on_heartbeat(0, 5.0, now=0.0)
    lanes.on_heartbeat(1, 4.0, now=3.0)
    lanes.stealing.rests(lanes.attempts[2], 3.0)
    assert lanes.pair(3.0) == (1, 2)


def test_who_has_been_idle_for_longest_takes():
    """First come, first served."""
    lanes = Lanes(3)
    lanes.on_heartbeat(0, 5.0)
    for number in (2, 1):
        lanes.stealing.rests(lanes.attempts[number], 0.0)
    assert lanes.pair() == (0, 2)


def test_what_a_lane_has_given_back_is_not_expected_of_it():
    """Only what it runs is left there; what came back counts where it is queued."""
    lanes = Lanes(1)
    lanes.on_heartbeat(0, 5.0, unstarted=3)
    assert lanes.stealing.seconds_left(lanes.attempts[0]) == 8.0
    lanes.attempts[0].has_returned()
    assert lanes.stealing.seconds_left(lanes.attempts[0]) == 5.0


@pytest.mark.parametrize(("now", "pair"), [(3.0, (0, 1)), (3.1, None)])
def test_what_is_left_by_now_must_be_worth_moving(now, pair):
    """Not what was left when the lane last said so."""
    lanes = Lanes(2)
    lanes.on_heartbeat(0, 5.0)
    lanes.stealing.rests(lanes.attempts[1], 0.0)
    assert lanes.pair(now) == pair


def test_too_little_is_not_worth_moving():
    """Less than two of the smallest pieces."""
    lanes = Lanes(2)
    lanes.stealing.rests(lanes.attempts[1], 0.0)
    lanes.on_heartbeat(0, 1.9)
    assert lanes.pair() is None
    lanes.on_heartbeat(0, 2.0)
    assert lanes.pair() == (0, 1)


@pytest.mark.parametrize("obstacle", ["sealed", "doubled", "asked", "declined", "not splittable", "idle"])
def test_who_cannot_give_is_not_asked(obstacle):
    """And it is not asked again before that has changed."""
    lanes = Lanes(2)
    victim = lanes.attempts[0]
    lanes.on_heartbeat(0, 5.0, splittable=obstacle != "not splittable")
    if obstacle == "sealed":
        victim.lane.sealed = object()
    elif obstacle == "doubled":
        lanes.attempt("copy", victim.lane)
    elif obstacle == "asked":
        lanes.request(victim, 0.0)
    elif obstacle == "declined":
        victim.declined = True
    elif obstacle == "idle":
        lanes.stealing.rests(victim, 0.0)
        lanes.stealing.rank(victim)
    lanes.stealing.rests(lanes.attempts[1], 0.0)
    assert lanes.pair() is None


def test_a_share_is_given_though_what_runs_cannot_be_split():
    """It was not started."""
    lanes = Lanes(2)
    lanes.on_heartbeat(0, 5.0, splittable=False)
    lanes.share(0, [3])
    lanes.stealing.rests(lanes.attempts[1], 0.0)
    assert lanes.pair() == (0, 1)


def test_who_has_moved_on_is_asked_again():
    """After it had declined."""
    lanes = Lanes(2)
    lanes.on_heartbeat(0, 5.0)
    lanes.stealing.rests(lanes.attempts[1], 0.0)
    lanes.attempts[0].declined = True
    assert lanes.pair() is None
    lanes.on_heartbeat(0, 5.0)
    assert lanes.pair() == (0, 1)


def test_no_more_are_asked_than_are_idle():
    """Unless one does not answer."""
    lanes = Lanes(3)
    lanes.on_heartbeat(0, 9.0)
    lanes.on_heartbeat(1, 9.0)
    lanes.stealing.rests(lanes.attempts[2], 0.0)
    lanes.request(lanes.attempts[0], 0.0)
    assert lanes.pair(0.5) is None
    assert lanes.pair(1.5) == (1, 2)


def test_all_end_when_nobody_runs_anything():
    """At once."""
    lanes = Lanes(2)
    for attempt in lanes.attempts:
        lanes.stealing.rests(attempt, 5.0)
    assert lanes.leavers(5.0) == [0, 1]


def test_an_idle_attempt_waits_as_long_as_its_patience_lasts():
    """While another runs something."""
    lanes = Lanes(2)
    lanes.stealing.rests(lanes.attempts[1], 5.0)
    assert (lanes.leavers(14.9), lanes.leavers(15.0)) == ([], [1])


@pytest.mark.parametrize("busy", [True, False])
def test_an_idle_attempt_makes_room_for_a_lane_that_is_tried_again(busy):
    """It may need a slot, but no more than one; the others wait for what it has to give."""
    lanes = Lanes(4)
    failed = LaneState(4, WorkQueue(lanes.costs), begun=True)
    for attempt in lanes.attempts[busy:]:
        lanes.stealing.rests(attempt, 5.0)
    lanes.stealing.needs_slot(failed, 5.0)
    left = []
    for now in (7.9, 8.0, 8.9, 9.0, 9.4):
        left += [(now, number) for number in lanes.leavers(now)]
        for _, number in left:
            lanes.stealing.ends(lanes.attempts[number])
    assert left == [(8.0, busy)]
    lanes.stealing.has_slot(failed, 9.5)
    lanes.stealing.runs(Attempt("again", failed, Hello(4, "w", 0.0)))
    assert (lanes.leavers(14.9), lanes.leavers(15.0)) == ([], [1, 2, 3][busy:])


def test_nobody_makes_room_for_a_lane_that_has_a_slot_again():
    """Spark mostly tries it in the one that it had, and takes up to 3 s to do so."""
    lanes = Lanes(3)
    failed = LaneState(3, WorkQueue(lanes.costs), begun=True)
    for attempt in lanes.attempts[1:]:
        lanes.stealing.rests(attempt, 5.0)
    lanes.stealing.needs_slot(failed, 5.0)
    lanes.stealing.has_slot(failed, 5.5)
    assert lanes.leavers(8.5) == []


def test_an_attempt_with_delayed_work_makes_no_room_but_another_does():
    """However long it has been idle."""
    lanes = Lanes(3)
    lanes.attempts[1].lane.delayed = 1
    for attempt in lanes.attempts[1:]:
        lanes.stealing.rests(attempt, 5.0)
    lanes.stealing.needs_slot(LaneState(3, WorkQueue(lanes.costs), begun=True), 5.0)
    assert lanes.leavers(8.0) == [2]


def test_nobody_waits_for_a_lane_that_does_not_come_back():
    """Not longer than its patience lasts."""
    lanes = Lanes(3)
    for attempt in lanes.attempts:
        lanes.stealing.rests(attempt, 5.0)
    lanes.stealing.needs_slot(LaneState(3, WorkQueue(lanes.costs), begun=True), 5.0)
    assert lanes.leavers(15.0) == [0, 1, 2]


def test_two_lanes_that_are_tried_again_get_room_at_the_same_time():
    """A slot each."""
    lanes = Lanes(4)
    for number in (3, 4):
        lanes.stealing.needs_slot(LaneState(number, WorkQueue(lanes.costs), begun=True), 5.0)
    for attempt in lanes.attempts[1:]:
        lanes.stealing.rests(attempt, 5.0)
    assert lanes.leavers(8.0) == [1, 2]


def test_an_idle_attempt_takes_over_what_a_lane_has_that_was_never_begun():
    """It may wait for a slot; but not while a run begins, when lanes start one after the other."""
    lanes = Lanes(2)
    orphan = LaneState(2, WorkQueue(lanes.costs))
    lanes.stealing.needs_slot(orphan)
    assert lanes.stealing.takeover(0.3) is None
    lanes.stealing.rests(lanes.attempts[1], 0.1)
    assert lanes.stealing.takeover(0.2) is None
    assert lanes.stealing.takeover(0.3) == (orphan, lanes.attempts[1])
    assert lanes.stealing.takeover(0.3) is None
    assert (lanes.leavers(10.0), lanes.leavers(10.2)) == ([], [1])


def test_the_first_lane_alone_takes_over_nothing_and_ends():
    """An action such as first() wants no more than that lane, and Spark then runs several others at once."""
    lanes = Lanes(1)
    lanes.stealing.needs_slot(LaneState(1, WorkQueue(lanes.costs)))
    lanes.stealing.rests(lanes.attempts[0], 0.1)
    assert (lanes.stealing.takeover(0.3), lanes.leavers(0.2), lanes.leavers(0.3)) == (None, [], [0])


def test_the_last_ones_wait_a_moment_for_a_lane_that_is_tried_again():
    """It may have a lot to give."""
    lanes = Lanes(1)
    lanes.stealing.needs_slot(LaneState(2, WorkQueue(lanes.costs), begun=True), 5.0)
    lanes.stealing.rests(lanes.attempts[0], 5.0)
    assert (lanes.leavers(7.9), lanes.leavers(8.0)) == ([], [0])


def test_an_attempt_with_delayed_work_does_not_end():
    """It has to do that work."""
    lanes = Lanes(1)
    lanes.attempts[0].lane.delayed = 1
    lanes.stealing.rests(lanes.attempts[0], 5.0)
    assert lanes.leavers(100.0) == []


def test_what_is_known_of_who_ends_when_does_not_grow_with_the_beats():
    """A run of days is a beat a second and lane."""
    lanes = Lanes(3)
    for beat in range(10_000):
        lanes.on_heartbeat(beat % 2, 1e6 - beat)
    assert len(lanes.stealing._ends) < 1000
    lanes.stealing.rests(lanes.attempts[2], 0.0)
    assert lanes.pair() == (0, 2)
