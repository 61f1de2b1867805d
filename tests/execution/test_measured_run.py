"""A work item while it runs: what is known of the seconds that it still takes, and where it is cut in half."""

import math
import pickle
from array import array

import pytest
from support.clock import Clock
from support.timed import TimedFn

from sdf.errors import ProcessError
from sdf.execution.bulk.table import Table
from sdf.execution.measured_run import Running
from sdf.execution.work_items import WorkItem
from sdf.model.dofn import DoFn
from sdf.model.restrictions import ByteKeyRange, OffsetRange
from sdf.model.trackers import Progress


class CostsFn(TimedFn):
    """Each offset takes as many seconds as the element, a function, says."""

    def process(self, element, tracker):
        for position in range(*tracker.current_restriction()):
            if not tracker.try_claim(position):
                return
            yield position
            self.clock.now += element(position)


def started(cost, size=100, offsets=0):
    """Return a running work item that has given so many outputs, noted after each, its outputs, and the clock."""
    clock = Clock()
    running = Running(CostsFn(clock), WorkItem(0, 0, cost, OffsetRange(0, size), size), side_inputs=None, clock=clock)
    outputs = running.invoker.run()
    for _ in range(offsets):
        next(outputs)
        running.note()
    return running, outputs, clock


def test_an_attempt_has_one_tracker():
    """A DoFn may keep it, or what is made with it, for its process(): nobody asks for another meanwhile."""

    class KeepsFn(TimedFn):
        made = 0

        def create_tracker(self, element, restriction):
            self.made += 1
            return super().create_tracker(element, restriction)

    clock = Clock()
    fn = KeepsFn(clock)
    running = Running(fn, WorkItem(0, 0, None, OffsetRange(0, 9), 2000), side_inputs=None, clock=clock)
    outputs = running.invoker.run()
    for _ in range(5):
        next(outputs)
        clock.now += 1
        running.note()
        assert running.seconds_left_at_most() > 0
    assert running.halve()
    assert fn.made == 1


def test_units_are_finite_whatever_a_tracker_says():
    """A share of next to nothing is no reason to divide by it."""
    clock = Clock()

    class TinyFn(TimedFn):
        def create_tracker(self, element, restriction):
            tracker = super().create_tracker(element, restriction)
            tracker.progress = lambda: Progress(next(told), 1e-310)
            return tracker

    told = iter([0, 0, 5, 1e300])
    running = Running(TinyFn(clock), WorkItem(0, 0, None, OffsetRange(0, 9), 2000), side_inputs=None, clock=clock)
    for _ in range(3):
        assert all(map(math.isfinite, running.units()))


def test_what_a_tracker_does_not_know_takes_as_long_again():
    """However long it has run; so it is worth a split after a while."""
    clock = Clock()

    class UnknownFn(TimedFn):
        def create_tracker(self, element, restriction):
            tracker = super().create_tracker(element, restriction)
            tracker.progress = lambda: Progress(0, None)
            return tracker

    running = Running(UnknownFn(clock), WorkItem(0, 0, None, OffsetRange(0, 9), 9), side_inputs=None, clock=clock)
    for seconds in (1.0, 5.0, 60.0):
        clock.now += seconds
        running.note()
        assert running.seconds_left_at_most() == running.seconds() >= seconds


def test_units_are_those_of_its_size():
    """Done and left; the offset claimed last counts as left."""
    running, _, _ = started(lambda position: 1.0, offsets=31)
    assert running.units() == (30, 70)


def test_units_in_another_unit_than_the_trackers():
    """The size is what counts."""

    class HundredFn(TimedFn):
        def restriction_size(self, element, restriction):
            return 1000.0

    running = Running(HundredFn(), WorkItem(0, 0, "a", OffsetRange(0, 10), 1000.0), side_inputs=None, clock=Clock())
    outputs = running.invoker.run()
    for _ in range(3):
        next(outputs)
    assert running.units() == (200, 800)


def test_before_anything_is_done_as_long_again_is_left():
    """As far as anyone can know."""
    running, _, clock = started(lambda position: 1.0, offsets=1)
    clock.now += 7
    assert (running.seconds_left(), running.seconds_left_at_most()) == (math.inf, 7)


def test_even_work_takes_what_it_took():
    """Units left by seconds per unit."""
    running, _, _ = started(lambda position: 2.0, offsets=11)
    assert (running.seconds_left(), running.seconds_left_at_most()) == (180, 180)


def test_what_gets_dear_at_its_end_is_seen_at_once():
    """Not only when the mean tells."""
    running, _, _ = started(lambda position: 0.01 if position < 50 else 1.0, offsets=53)
    assert running.seconds_left() == pytest.approx(48 * 2.5 / 52)
    assert running.seconds_left_at_most() > 20


def test_what_was_dear_at_its_beginning_is_not_forgotten():
    """The higher of the two estimates counts."""
    running, _, _ = started(lambda position: 1.0 if position < 10 else 0.01, offsets=31)
    assert running.seconds_left_at_most() == pytest.approx(70 * 10.2 / 30)


def test_the_time_in_the_block_counts_as_done():
    """It was seen to move three seconds ago."""
    running, _, clock = started(lambda position: 10.0, size=5, offsets=2)
    clock.now += 3
    assert running.seconds_left_at_most() == 4 * 10 - 3


@pytest.mark.parametrize("size", range(3, 12))
@pytest.mark.parametrize("in_block", [0.0, 4.0, 9.5])
def test_halving_lets_both_sides_end_together(size, in_block):
    """Blocks of ten seconds: no other cut ends sooner. The block that runs counts by what is left of it."""
    running, _, clock = started(lambda position: 10.0, size=size, offsets=2)
    clock.now += in_block
    assert running.halve()

    def ends(stop):
        return max((stop - 1) * 10 - in_block, (size - stop) * 10)

    assert ends(running.invoker.primary.stop) == min(ends(stop) for stop in range(2, size))


def test_what_was_not_claimed_is_not_halved():
    """There is nothing to measure, and nothing to keep."""
    running, _, _ = started(lambda position: 1.0)
    assert not running.halve()


def test_units_after_a_split_of_a_tracker_that_counts_in_shares():
    """A byte key tracker says which share of its present range is done; what was done stays done."""

    class KeysFn(DoFn):
        def get_initial_restriction(self, element):
            return ByteKeyRange()

        def process(self, element, tracker):
            for key in range(256):
                if not tracker.try_claim(bytes([key])):
                    return
                yield key

    running = Running(KeysFn(), WorkItem(0, 0, "a", ByteKeyRange(), 1.0), side_inputs=None, clock=Clock())
    outputs = running.invoker.run()
    for _ in range(65):
        next(outputs)
    before, _ = running.units()
    assert running.halve()
    assert running.units()[0] == pytest.approx(before)


def test_opening_is_what_came_before_the_first_claim():
    """Known once it was noted."""
    running, outputs, clock = started(lambda position: 1.0)
    clock.now += 5
    running.note()
    assert running.opening_seconds() is None
    next(outputs)
    running.note()
    assert running.opening_seconds() == 5


def test_what_was_cut_off_is_expected_to_cost_what_the_end_of_the_rest_did():
    """Not the mean, which hides that it got dear."""
    running, outputs, _ = started(lambda position: 0.01 if position < 50 else 1.0, offsets=53)
    running.invoker.split(0)
    assert list(outputs) == []
    done, part = running.done()
    assert (done, part.seconds) == (53, pytest.approx(53.0))
    assert running.seconds() < 4


@pytest.mark.parametrize("seconds", [1.0, 0.01])
def test_opening_is_no_cost_of_a_unit(seconds):
    """It took 20 s to open it, and so many a block since; else all else would look dear too."""
    running, outputs, clock = started(lambda position: seconds)
    clock.now += 20
    for _ in range(5):
        next(outputs)
        running.note()
    assert (running.seconds_left(), running.seconds_left_at_most()) == pytest.approx((96 * seconds, 96 * seconds))


def test_work_that_takes_no_time_is_halved_in_the_middle():
    """As a clock may have it that has not ticked."""
    running, _, _ = started(lambda position: 0.0, offsets=2)
    assert running.halve()
    assert running.invoker.primary == OffsetRange(0, 50)


class Shares(DoFn):
    """Element: whether sizes are known. A byte key tracker says which share of its present range is done."""

    def get_initial_restriction(self, element):
        return ByteKeyRange()

    def restriction_size(self, element, restriction):
        return 8.0 if element else None

    def process(self, element, tracker):
        for key in range(256):
            if not tracker.try_claim(bytes([key])):
                return
            yield key


class SharesDeferred(Shares):
    """Defers after the first key."""

    def process(self, element, tracker):
        tracker.try_claim(b"\0")
        tracker.defer_remainder()
        yield 0


def test_what_was_deferred_counts_as_half_where_nothing_tells_how_much_it_is():
    """Of what is kept all is done, and it is as large as the whole."""
    running = Running(SharesDeferred(), WorkItem(0, 0, True, ByteKeyRange(), 8.0), side_inputs=None, clock=Clock())
    list(running.invoker.run())
    _, part = running.done()
    assert (part.units, part.scale) == (4.0, 0.5)


def test_what_was_deferred_may_be_nothing_though_more_was_expected():
    """The rest has a size of 0, and each unit of it would count as the 4 units that were expected."""

    class EmptyRest(SharesDeferred):
        def restriction_size(self, element, restriction):
            return None if restriction.start == b"" else 0.0

    running = Running(EmptyRest(), WorkItem(0, 0, True, ByteKeyRange(), 8.0), side_inputs=None, clock=Clock())
    list(running.invoker.run())
    _, part = running.done()
    assert (part.units, part.scale) == (4.0, 4.0)


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("halved", [True, False])
@pytest.mark.parametrize("claims", [1, 33, 65, 200])
def test_what_was_cut_off_counts_as_the_share_that_was_left(sized, halved, claims):
    """Where each part is as large as the whole, the tracker tells how much of that each is."""
    size = 8.0 if sized else None
    clock = Clock()
    running = Running(Shares(), WorkItem(0, 0, sized, ByteKeyRange(), size), side_inputs=None, clock=clock)
    outputs = running.invoker.run()
    for _ in range(claims):
        clock.now += 1.0
        next(outputs)
        running.note()
    assert running.halve() if halved else running.split(0)
    kept = (claims + len(list(outputs))) / 256
    assert kept >= (0.5 if halved else 0.0)
    if claims == 1:
        kept = 0.5  # nothing was done when it was split: nobody knows
    _, part = running.done()
    assert part.units == pytest.approx((size or 1.0) * kept, abs=0.01 * (size or 1.0))
    assert part.units + part.scale * (size or 1.0) == pytest.approx(size or 1.0)


class NothingFn(Shares):
    """Defers all of it."""

    def process(self, element, tracker):
        tracker.defer_remainder()
        return ()


@pytest.mark.parametrize("sized", [True, False])
def test_what_was_deferred_before_any_claim_counts_as_before(sized):
    """Nothing of it was kept."""
    size = 8.0 if sized else None
    running = Running(NothingFn(), WorkItem(0, 0, sized, ByteKeyRange(), size), side_inputs=None, clock=Clock())
    list(running.invoker.run())
    _, part = running.done()
    assert (part.units, part.scale) == (0.0, 1.0)


@pytest.mark.parametrize("size", [1.0, None])
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_dear_block_that_was_split_behind_is_as_much_as_it_is(size, blocks):
    """Its tracker says that nothing is done, until the block is; then all that was kept is."""

    class UnsizedFn(TimedFn):
        def restriction_size(self, element, restriction):
            return size

    clock = Clock()
    item = WorkItem(0, 0, None, OffsetRange(0, 10), size)
    running = Running(UnsizedFn(clock), item, side_inputs=None, clock=clock)
    outputs = running.invoker.run()
    for _ in range(blocks):
        next(outputs)
        running.note()
    assert running.split(0)
    list(outputs)
    _, part = running.done()
    assert (part.units, part.scale) == (pytest.approx(blocks / 10), pytest.approx(1 - blocks / 10))


def test_a_whole_without_size_whose_parts_have_one_counts_as_they_do():
    """A file that was empty when it was matched, say."""

    class GrewFn(TimedFn):
        def restriction_size(self, element, restriction):
            return restriction.stop - restriction.start

    clock = Clock()
    running = Running(GrewFn(clock), WorkItem(0, 0, None, OffsetRange(0, 10), 0), side_inputs=None, clock=clock)
    outputs = running.invoker.run()
    next(outputs)
    assert running.split(0)
    list(outputs)
    _, part = running.done()
    assert (part.units, part.scale) == (1.0, 1.0)


class Panic(BaseException):
    """As libraries in Rust raise: no Exception."""


class PanicsFn(DoFn):
    """Panics at its second offset, or as its element says."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 3)

    def process(self, element, tracker):
        for position in tracker.claims():
            if position == 1:
                raise element
            yield position


def all_of(item):
    with Running(PanicsFn(), item, side_inputs=None, clock=Clock()).outputs() as outputs:
        return list(outputs)


def test_what_process_raises_that_is_no_exception_is_named_as_well():
    """By the DoFn, the restriction and the element; of a table by the row that ran."""
    whole = WorkItem(0, 0, Panic("unreachable"), OffsetRange(0, 3), 3)
    table = Table(0, (pickle.dumps([Panic("first"), Panic("second")]),), array("q", [0, 0]), array("q", [3, 3]))
    for item, text in ((whole, "unreachable"), (WorkItem(0, 0, table, table.whole(), 6), "first")):
        with pytest.raises(ProcessError, match=rf"PanicsFn.process\(\) on .* raised Panic: {text}") as caught:
            all_of(item)
        assert type(caught.value.__cause__) is Panic


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit()])
def test_the_end_of_a_run_stays_as_it_is(error):
    """The user ends it, or nobody reads on."""
    with pytest.raises(type(error)):
        all_of(WorkItem(0, 0, error, OffsetRange(0, 3), 3))
