"""A lane: when it says how far it is."""

import attrs
import pytest
from simulation.scripted import outputs_of
from simulation.user import BlocksFn, in_tables
from support.clock import Clock
from support.timed import TimedFn

from sdf.errors import DeferError
from sdf.execution import deferrals
from sdf.execution.work_items import BETWEEN, CANNOT, NOTHING_CLAIMED, TOO_LITTLE, WorkItem
from sdf.lanes.lane import CLOSE, WAIT, Lane
from sdf.lanes.messages import (
    MOST_ITEMS,
    MOST_RESIDUALS,
    Assign,
    Declined,
    Flush,
    Heartbeat,
    Ready,
    Returned,
    Sealed,
    SegmentDone,
    Split,
    StealRequest,
    Verdict,
    write,
)
from sdf.lanes.wire import MOST_BYTES_FROM_LANE
from sdf.model.restrictions import OffsetRange
from sdf.model.trackers import Progress, RestrictionTracker


class UnknownFn(TimedFn):
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
    lane = Lane(fn_class(clock), clock=clock, send=said.append)
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
    lane.receive(StealRequest(0.1))
    for _ in range(3):
        clock.now += 1.0
        lane.look()
    assert said == [Declined(CANNOT)]
    next(outputs)
    lane.look()
    assert [type(message) for message in said] == [Declined, Heartbeat]


@pytest.mark.parametrize("accepted", [True, False])
def test_a_lane_that_has_not_begun_keeps_the_first_and_gives_back_the_rest(accepted):
    """What it keeps it begins at once: else work that was given to one after the other might never be begun."""
    clock, said = Clock(), []
    lane = Lane(TimedFn(clock), clock=clock, send=said.append)
    lane.receive(Assign(tuple(WorkItem(number, number, 1, OffsetRange(0, 1), 1) for number in range(4))))
    lane.receive(StealRequest(0.1))
    assert said == [Returned((1, 2, 3))]
    assert lane.advance() is WAIT
    lane.receive(Verdict(accepted))
    ran = []
    while (running := lane.advance()) is not WAIT:
        ran.append(running.item.id)
        list(running.invoker.run())
    assert ran == ([0] if accepted else [0, 1, 2, 3])


def test_a_lane_waits_from_the_end_of_its_work_to_an_answer():
    """A lane that waits takes a silent driver for a dead one. A lane that runs does not."""
    clock, said = Clock(), []
    lane = Lane(TimedFn(clock), clock=clock, send=said.append)
    lane.receive(Assign((WorkItem(0, 0, 2, OffsetRange(0, 2), 2),)))
    outputs = lane.advance().invoker.run()
    waited = [lane.waits for _ in outputs]
    assert waited == [False, False]
    assert lane.advance() is WAIT
    assert (lane.waits, type(said[-1])) == (True, Ready)
    lane.receive(Sealed())
    assert not lane.waits


def test_a_lane_that_was_asked_before_it_began_says_how_far_it_is_as_soon_as_it_has():
    """It is not asked again before."""
    clock, said = Clock(), []
    lane = Lane(TimedFn(clock), clock=clock, send=said.append)
    lane.receive(Assign((WorkItem(0, 0, 9, OffsetRange(0, 9), 9),)))
    lane.receive(StealRequest(0.1))
    assert said == [Declined(BETWEEN)]
    next(lane.advance().invoker.run())
    lane.look()
    assert [type(message) for message in said] == [Declined, Heartbeat]


def test_a_lane_that_has_claimed_nothing_yet_says_so():
    """To the report that is another reason than that it could not be split."""
    clock, said = Clock(), []
    lane = Lane(TimedFn(clock), clock=clock, send=said.append)
    lane.receive(Assign((WorkItem(0, 0, 9, OffsetRange(0, 9), 9),)))
    lane.advance()
    clock.now += 1.0
    lane.receive(StealRequest(0.1))
    assert said == [Declined(NOTHING_CLAIMED)]


def test_a_lane_that_had_too_little_left_says_so_once_it_is_more():
    """The block that it has begun turns out to be dear: nothing moves, and what is left is worth ever more."""
    lane, _, clock, said = lane_of(UnknownFn, 9)
    lane.receive(StealRequest(1.0))
    beats = []
    for _ in range(4):
        clock.now += 0.7
        lane.look()
        beats.append(said[-1])
    assert said[0] == Declined(TOO_LITTLE)
    assert [type(message) for message in said[1:]] == [Heartbeat, Heartbeat, Heartbeat, Heartbeat]
    assert [beat.splittable for beat in beats] == [False, True, True, True]


def test_what_has_just_begun_is_worth_what_those_before_it_took():
    """Else whoever asks at a bad moment gets nothing, and is told otherwise only after a while."""
    clock, said = Clock(), []
    lane = Lane(TimedFn(clock), clock=clock, send=said.append)
    lane.receive(Assign(tuple(WorkItem(number, number, "a", OffsetRange(0, 10), 10) for number in range(2))))
    assert len(list(lane.advance().invoker.run())) == 10
    next(lane.advance().invoker.run())
    lane.receive(StealRequest(4.5))
    assert [type(message) for message in said] == [Split]


@pytest.mark.parametrize("claimed", [1, 4])
def test_what_took_long_to_open_is_not_offered_for_less(claimed):
    """To open it again would take as long as it saves; nor is that the cost of what it had done when it was seen."""
    clock, said = Clock(), []
    lane = Lane(TimedFn(clock), clock=clock, send=said.append)
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
    lane = Lane(TimedFn(clock), clock=clock, send=said.append)
    whole, piece = WorkItem(0, 0, "a", OffsetRange(0, 10), None), WorkItem(2, 1, "b", OffsetRange(8, 10), None, 1)
    lane.receive(Assign((whole, piece)))
    assert len(list(lane.advance().invoker.run())) == 10
    next(lane.advance().invoker.run())
    lane.receive(StealRequest(4.5))
    assert [type(message) for message in said] == [Declined]


class DefersFn(TimedFn):
    """Defers its rest after each claim."""

    def process(self, element, tracker):
        start = tracker.current_restriction().start
        if tracker.try_claim(start):
            yield start
            tracker.defer_remainder()


class Untold(int):
    """A number that a restriction of plain ones is not made of."""


class UntoldFn(DefersFn):
    """What it defers cannot be told."""

    def create_tracker(self, element, restriction):
        tracker = super().create_tracker(element, restriction)
        defer = tracker.defer_remainder

        def defer_untold(delay_seconds=0):
            rest = defer(delay_seconds)
            return rest and OffsetRange(Untold(rest.start), rest.stop)

        tracker.defer_remainder = defer_untold
        return tracker


class CrumblingTracker(RestrictionTracker):
    """A user's own: each time that the rest is deferred, one offset comes off its end."""

    def __init__(self, restriction):
        self.restriction, self.next = restriction, restriction.start

    def current_restriction(self):
        return self.restriction

    def try_claim(self, position):
        self.next = position + 1
        return position < self.restriction.stop

    def try_split(self, fraction_of_remainder):
        return None

    def defer_remainder(self, delay_seconds=0):
        start, stop = self.restriction
        if stop <= self.next:
            return None
        self.restriction = OffsetRange(start, stop - 1)
        return OffsetRange(stop - 1, stop)

    def check_done(self):
        if self.next < self.restriction.stop:
            raise ValueError(f"{self.next} is not done")


class CrumblingFn(TimedFn):
    """Defers all but the first offset, one by one."""

    def restriction_size(self, element, restriction):
        return restriction.stop - restriction.start

    def create_tracker(self, element, restriction):
        return CrumblingTracker(restriction)

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        if tracker.try_claim(start):
            yield start
            for _ in range(start + 1, stop):
                tracker.defer_remainder()


def said_by_a_lane(fn, items, *, accepts=False):
    """Run a lane over work items, accepting or refusing what it offers; return what it gave and said."""
    clock, said, given = Clock(), [], []
    lane = Lane(fn, clock=clock, send=said.append)
    lane.receive(Assign(tuple(items)))
    while not any(isinstance(message, Ready) for message in said):
        running = lane.advance()
        if running is not WAIT:
            given += running.invoker.run()
        elif said and isinstance(said[-1], Split):
            lane.receive(Verdict(accepts))
        else:
            clock.now += 1.0
    return given, said


@pytest.mark.parametrize("size", [1, 3000])
@pytest.mark.parametrize("fn_class", [DefersFn, UntoldFn, CrumblingFn])
def test_a_lane_says_no_more_however_many_parts_stay_with_it(fn_class, size):
    """They count as more of the work item that they were cut off from, down to the last record and unit."""
    item = WorkItem(7, 0, size, OffsetRange(0, size), size)
    given, said = said_by_a_lane(fn_class(Clock()), [item])
    assert given == list(range(size))
    assert max(len(write(message)) for message in said) < 300
    assert [(row[0], *row[3:5]) for row in said[-1].ran] == [(7, size, size)]


@pytest.mark.parametrize("more", [0, 1])
def test_one_message_tells_of_so_many_parts_and_no_more(more):
    """More of them stay with the lane, all: what is told must tile what is kept."""
    size = 1 + MOST_RESIDUALS + more
    item = WorkItem(7, 0, size, OffsetRange(0, size), size)
    given, said = said_by_a_lane(CrumblingFn(Clock()), [item], accepts=True)
    assert [len(message.residuals) for message in said if isinstance(message, Split)] == [MOST_RESIDUALS] * (not more)
    assert len(given) == (size if more else 1)


def test_a_lane_that_has_run_as_much_as_it_may_hold_can_tell_of_all_of_it():
    """With numbers as long as they get, in half of what a message may have."""
    items = [WorkItem(10**12 + number, 0, "a", OffsetRange(0, 1), 10**199 / 3) for number in range(MOST_ITEMS)]
    _, said = said_by_a_lane(TimedFn(Clock()), items)
    ready = said[-1]
    assert len(ready.ran) == MOST_ITEMS
    third = 100_000 / 3
    ran = tuple((item_id, third, third, units, 10**15, third) for item_id, _, _, units, *_ in ready.ran)
    assert len(write(attrs.evolve(ready, ran=ran))) < MOST_BYTES_FROM_LANE / 2
    assert len(write(Returned(tuple(item.id for item in items)))) < MOST_BYTES_FROM_LANE / 2


def test_work_that_stays_with_a_lane_and_only_defers_comes_to_an_end(monkeypatch):
    """Though each time it is another part of it."""

    class OnlyDefersFn(TimedFn):
        def process(self, element, tracker):
            tracker.defer_remainder()
            return ()

    monkeypatch.setattr(deferrals, "_MOST_IDLE", 5)
    clock, said = Clock(), []
    lane = Lane(OnlyDefersFn(clock), clock=clock, send=said.append)
    lane.receive(Assign((WorkItem(0, 0, 9, OffsetRange(0, 9), 9),)))
    list(lane.advance().invoker.run())
    assert lane.advance() is WAIT
    lane.receive(Verdict(False))

    def go_on():
        for _ in range(20):
            clock.now += 10.0
            running = lane.advance()
            if running is not WAIT:
                list(running.invoker.run())

    with pytest.raises(DeferError, match="6 times in a row without a claim"):
        go_on()


def test_rows_behind_a_deferred_one_that_stay_with_a_lane_were_not_deferred(monkeypatch):
    """Each is, once: a thousand of them are not one that gets nowhere, and none waits longer than the one before."""
    monkeypatch.setattr(deferrals, "_MOST_IDLE", 5)
    fn, clock, said, given, times = BlocksFn(delay_seconds=0.1), Clock(), [], [], []
    elements = [(f"{number} refused", 1) for number in range(20)]
    (one,) = in_tables(fn, elements, 20)
    lane = Lane(fn, clock=clock, send=said.append)
    lane.receive(Assign((WorkItem(0, 0, one.element, one.restriction, 20),)))
    assert [*outputs_of(lane.advance()), lane.advance()] == [WAIT]
    lane.receive(Verdict(False))
    began = clock.now
    while Ready not in map(type, said):
        running = lane.advance()
        if running is WAIT:
            clock.now += 1.0
        else:
            given += (found := list(outputs_of(running)))
            times += [clock.now - began] * len(found)
    assert given == [(name, 0) for name, _ in elements]
    assert times == [*range(1, 21)]
    assert [type(message) for message in said] == [Split, Ready]


def test_a_segment_of_which_all_was_deferred_before_a_claim_is_not_told():
    """The driver has all of it back, so there is nothing that it could commit."""

    class NotYetFn(TimedFn):
        def process(self, element, tracker):
            tracker.defer_remainder(5)
            return ()

    clock, said = Clock(), []
    lane = Lane(NotYetFn(clock), clock=clock, send=said.append, segment_seconds=1.0)
    lane.receive(Assign((WorkItem(0, 0, 9, OffsetRange(0, 9), 9),)))
    assert list(lane.advance().invoker.run()) == []
    assert lane.advance() is WAIT
    assert [type(message) for message in said] == [Split]
    lane.receive(Verdict(True))
    lane.receive(Sealed())
    assert lane.advance() is None
    lane.segment_done((None,), (0,))
    assert [type(message) for message in said] == [Split]


def test_a_segment_goes_on_while_a_lane_waits_for_work_unless_it_is_told_to_close_it():
    """Else each work item would be a commit of its own."""
    clock, said = Clock(), []
    lane = Lane(TimedFn(clock), clock=clock, send=said.append, segment_seconds=60.0)
    for number in range(2):
        lane.receive(Assign((WorkItem(number, 0, 1, OffsetRange(0, 1), 1),)))
        assert len(list(lane.advance().invoker.run())) == 1
        assert lane.advance() is WAIT
    lane.receive(Flush())
    assert lane.advance() is CLOSE
    lane.segment_done((None,), (2,))
    assert (type(said[-1]), said[-1].items) == (SegmentDone, 2)
