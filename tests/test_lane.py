"""A lane: when it says how far it is."""

import pytest
from test_bundle import Clock, CountFn

from sdf.items import BETWEEN, WorkItem
from sdf.restrictions import OffsetRange
from sdf.spark.lane import WAIT, Lane
from sdf.spark.messages import Ask, Assign, Back, Beat, Declined, Split, Verdict
from sdf.trackers import Progress


class UnknownFn(CountFn):
    """Its tracker does not know how much is left."""

    def create_tracker(self, element, restriction):
        tracker = super().create_tracker(element, restriction)
        tracker.progress = lambda: Progress(0, None)
        return tracker


class StubbornFn(UnknownFn):
    """Nor does it split."""

    def create_tracker(self, element, restriction):
        tracker = super().create_tracker(element, restriction)
        tracker.try_split = lambda fraction: None
        return tracker


def lane_of(fn_class, size):
    """Return a lane that has claimed the first of so many offsets, its outputs, its clock and what it said."""
    clock, said = Clock(), []
    lane = Lane(fn_class(clock), clock=clock, send=said.append, records=lambda: 0)
    lane.receive(Assign((WorkItem(0, 0, size, OffsetRange(0, size), None),)))
    outputs = lane.advance().invoker.run()
    next(outputs)
    lane.look()
    said.clear()
    return lane, outputs, clock, said


def test_a_lane_that_could_not_be_split_says_so_when_it_has_moved_on():
    """Also where all that is known of its progress is what it claimed; else it would never be asked again."""
    lane, outputs, clock, said = lane_of(StubbornFn, 9)
    clock.now += 1.0
    lane.receive(Ask(0.1))
    for _ in range(3):
        clock.now += 1.0
        lane.look()
    assert [type(message) for message in said] == [Declined]
    next(outputs)
    lane.look()
    assert [type(message) for message in said] == [Declined, Beat]


@pytest.mark.parametrize("accepted", [True, False])
def test_a_lane_that_has_not_begun_keeps_the_first_and_gives_back_the_rest(accepted):
    """What it keeps it begins at once: else work that was given to one after the other might never be begun."""
    clock, said = Clock(), []
    lane = Lane(CountFn(clock), clock=clock, send=said.append, records=lambda: 0)
    lane.receive(Assign(tuple(WorkItem(number, number, 1, OffsetRange(0, 1), 1) for number in range(4))))
    lane.receive(Ask(0.1))
    assert said == [Back((1, 2, 3))]
    assert lane.advance() is WAIT
    lane.receive(Verdict(accepted))
    ran = []
    while (running := lane.advance()) is not WAIT:
        ran.append(running.item.id)
        list(running.invoker.run())
    assert ran == ([0] if accepted else [0, 1, 2, 3])


def test_a_lane_that_was_asked_before_it_began_says_how_far_it_is_as_soon_as_it_has():
    """It is not asked again before."""
    clock, said = Clock(), []
    lane = Lane(CountFn(clock), clock=clock, send=said.append, records=lambda: 0)
    lane.receive(Assign((WorkItem(0, 0, 9, OffsetRange(0, 9), 9),)))
    lane.receive(Ask(0.1))
    assert said == [Declined(BETWEEN)]
    next(lane.advance().invoker.run())
    lane.look()
    assert [type(message) for message in said] == [Declined, Beat]


def test_a_lane_that_had_too_little_left_says_so_once_it_is_more():
    """The block that it has begun turns out to be dear: nothing moves, and what is left is worth ever more."""
    lane, _, clock, said = lane_of(UnknownFn, 9)
    lane.receive(Ask(1.0))
    beats = []
    for _ in range(4):
        clock.now += 0.7
        lane.look()
        beats.append(said[-1])
    assert [type(message) for message in said] == [Declined, Beat, Beat, Beat, Beat]
    assert [beat.splittable for beat in beats] == [False, True, True, True]


def test_what_has_just_begun_is_worth_what_those_before_it_took():
    """Else whoever asks at a bad moment gets nothing, and is told otherwise only after a while."""
    clock, said = Clock(), []
    lane = Lane(CountFn(clock), clock=clock, send=said.append, records=lambda: 0)
    lane.receive(Assign(tuple(WorkItem(number, number, "a", OffsetRange(0, 10), 10) for number in range(2))))
    assert len(list(lane.advance().invoker.run())) == 10
    next(lane.advance().invoker.run())
    lane.receive(Ask(4.5))
    assert [type(message) for message in said] == [Split]


@pytest.mark.parametrize("claimed", [1, 4])
def test_what_took_long_to_open_is_not_offered_for_less(claimed):
    """To open it again would take as long as it saves; nor is that the cost of what it had done when it was seen."""
    clock, said = Clock(), []
    lane = Lane(CountFn(clock), clock=clock, send=said.append, records=lambda: 0)
    lane.receive(Assign((WorkItem(0, 0, 100, OffsetRange(0, 100), 100),)))
    outputs = lane.advance().invoker.run()
    clock.now += 20.0
    for _ in range(claimed):
        next(outputs)
    lane.look()
    next(outputs)
    clock.now += 0.1
    lane.look()
    assert [beat.splittable for beat in said] == [False, True]


def test_a_piece_of_unknown_size_is_not_expected_to_take_what_a_whole_took():
    """It counts as one, as a whole does, and would be split over and over."""
    clock, said = Clock(), []
    lane = Lane(CountFn(clock), clock=clock, send=said.append, records=lambda: 0)
    whole, piece = WorkItem(0, 0, "a", OffsetRange(0, 10), None), WorkItem(2, 1, "b", OffsetRange(8, 10), None, 1)
    lane.receive(Assign((whole, piece)))
    assert len(list(lane.advance().invoker.run())) == 10
    next(lane.advance().invoker.run())
    lane.receive(Ask(4.5))
    assert [type(message) for message in said] == [Declined]
