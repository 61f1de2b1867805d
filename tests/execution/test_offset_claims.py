"""tracker.claims(): what is delivered is claimed, no more and no less, whoever splits and whenever."""

import itertools
import sys
import threading
from contextlib import suppress
from itertools import chain, compress
from operator import length_hint

import pytest

from sdf import (
    ByteKeyRange,
    ByteKeyRangeTracker,
    DoFn,
    GrowableOffsetRangeTracker,
    OffsetRange,
    OffsetRangeTracker,
    RestrictionTracker,
    UnsplittableTracker,
    run_direct,
)
from sdf.errors import (
    ClaimError,
    DeferError,
    InvalidTypeError,
    InvalidValueError,
    OutputError,
    ProcessError,
    UnclaimedWorkError,
)
from sdf.execution import offset_claims, tracker_views
from sdf.execution.invoker import Invoker
from sdf.execution.tracker_views import sides
from sdf.model.restrictions import UNBOUNDED
from sdf.testing import check_dofn


class OwnTracker(RestrictionTracker):
    """A tracker of a user's own, of the positions of an offset range."""

    def __init__(self, restriction):
        self.range, self.last = restriction, restriction.start - 1

    def current_restriction(self):
        return self.range

    def try_claim(self, position):
        self.last = position
        return position < self.range.stop

    def try_split(self, fraction_of_remainder):
        cut = self.last + max(1, int((self.range.stop - self.last) * fraction_of_remainder))
        if cut >= self.range.stop:
            return None
        primary, residual = OffsetRange(self.range.start, cut), OffsetRange(cut, self.range.stop)
        self.range = primary
        return primary, residual

    def check_done(self):
        if self.last < self.range.stop - 1:
            raise UnclaimedWorkError("not done")


def both_sides(tracker):
    return sides(tracker, lambda: None, lambda error: None)


TRACKERS = {
    "built in": OffsetRangeTracker,
    "growable": GrowableOffsetRangeTracker,
    "own": OwnTracker,
}
every_tracker = pytest.mark.parametrize("kind", TRACKERS.values(), ids=TRACKERS)


@every_tracker
@pytest.mark.parametrize("most", [1, 2, 1 << 20])
def test_what_is_delivered_and_what_is_cut_off_tile_the_range(kind, most, monkeypatch):
    """At every place of two cuts in ranges of up to five positions, in chunks of any length."""
    monkeypatch.setattr(offset_claims, "_MOST_POSITIONS", most)
    seen_cuts = 0
    fractions = (0, 0.5, 0.9)
    for size, first, second in itertools.product(range(6), range(6), range(6)):
        for fraction, another in itertools.product(fractions, fractions):
            runner, tracker = both_sides(kind(OffsetRange(10, 10 + size)))
            cuts = {first: [fraction], second: [another]} if first != second else {first: [fraction, another]}
            delivered, residuals = [], []
            for position in tracker.claims():
                delivered.append(position)
                assert runner.last_claimed == position
                assert runner.started
                for share in cuts.get(len(delivered), ()):
                    pair = runner.try_split(share)
                    if pair is not None:
                        residuals.append(pair[1])
                        assert pair[0].stop > position
                        seen_cuts += 1
            runner.check_done()
            stop = runner.current_restriction().stop
            assert delivered == list(range(10, stop))
            for residual in reversed(residuals):
                assert residual.start == stop
                stop = residual.stop
            assert stop == 10 + size
    assert seen_cuts > 300


def test_progress_counts_what_is_delivered():
    """As with try_claim: the position at work counts as left."""
    runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 10)))
    claims = tracker.claims()
    assert not runner.started
    assert runner.last_claimed is None
    for number in range(10):
        next(claims)
        progress = runner.progress()
        assert (progress.completed, progress.remaining) == (number, 10 - number)
        assert runner.fraction_consumed() == number / 10
    assert next(claims, None) is None


def test_a_cut_at_a_position(monkeypatch):
    """It is refused for what was delivered, and before the first."""
    runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 10)))
    claims = tracker.claims()
    assert not runner.try_split_at_position(5)
    assert [next(claims) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert not runner.try_split_at_position(4)
    assert runner.try_split_at_position(5)
    assert list(claims) == []


def test_nothing_is_delivered_while_a_split_counts(monkeypatch):
    """The chunk is exhausted before the count is read; else what comes in between would be delivered and cut off."""
    runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 10)))
    claims = tracker.claims()
    assert [next(claims) for _ in range(3)] == [0, 1, 2]
    meanwhile = []

    def interrupted(ones):
        count = length_hint(ones)
        positions, ones, _ = tracker._chunk
        meanwhile.extend(compress(positions, ones))  # as the thread of process might do just now
        return count

    monkeypatch.setattr(offset_claims, "length_hint", interrupted)
    assert runner.try_split(0) == (OffsetRange(0, 3), OffsetRange(3, 10))
    assert meanwhile == []
    assert list(claims) == []


def take(claims, taken):
    """Take them one by one, in Python."""
    for position in claims:
        taken.append(position)


@pytest.mark.parametrize("most", [1, 3, 1 << 20])
def test_two_threads_take_each_position_once(most, monkeypatch):
    """Both from one iterator, while it is split."""
    monkeypatch.setattr(offset_claims, "_MOST_POSITIONS", most)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 300)))
            claims, taken = tracker.claims(), ([], [])
            threads = [threading.Thread(target=take, args=(claims, mine)) for mine in taken]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                runner.try_split(0.999)
            assert sorted(chain(*taken)) == list(range(runner.current_restriction().stop))
            runner.check_done()
    finally:
        sys.setswitchinterval(before)


def test_claims_that_python_frees_while_a_split_holds_the_lock():
    """Its garbage collector runs in any thread: the end of claims() must not wait for the lock that this one holds."""
    runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 10)))
    claims = tracker.claims()
    assert [next(claims), next(claims)] == [0, 1]
    with tracker._lock:
        del claims
    assert runner.try_split(0) == (OffsetRange(0, 2), OffsetRange(2, 10))
    assert not tracker.try_claim(2)
    runner.check_done()


def test_a_claim_after_claims_sees_a_split_in_between():
    """What was delivered is counted when the next claim is made, and a split in between counts it too."""
    runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 10)))
    for position in tracker.claims():
        if position == 3:
            break
    assert (runner.last_claimed, runner.progress().completed) == (3, 3)
    assert runner.try_split(0.5) == (OffsetRange(0, 6), OffsetRange(6, 10))
    with pytest.raises(ClaimError, match="positions must increase: got 3 after 3"):
        tracker.try_claim(3)
    assert tracker.try_claim(5)
    assert not tracker.try_claim(6)


def test_claims_that_were_never_used_leave_the_tracker_as_it_was():
    """Another claims(), or try_claim, may follow."""
    for _ in range(2):
        runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 3)))
        tracker.claims()
        assert not runner.started
        assert list(tracker.claims()) == [0, 1, 2]
        runner.check_done()
    tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 3)))[1]
    tracker.claims()
    assert tracker.try_claim(0)


def test_claims_after_the_end_is_an_error():
    """It would begin again."""
    tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 3)))[1]
    assert list(tracker.claims()) == [0, 1, 2]
    with pytest.raises(ClaimError, match="positions must increase: got 0 after 2"):
        next(tracker.claims())


def test_without_a_global_lock_each_position_is_claimed(monkeypatch):
    """The trick needs Python's global lock."""
    tracker_views._within.cache_clear()
    monkeypatch.setattr(tracker_views, "_GIL", False)
    try:
        _, tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 4)))
        assert not isinstance(tracker, offset_claims.OffsetClaims)
        assert list(tracker.claims()) == [0, 1, 2, 3]
    finally:
        tracker_views._within.cache_clear()


# Blocks.


def keys(*names):
    return [(name, name.upper()) for name in names]


@every_tracker
def test_blocks_are_claimed_by_their_positions(kind):
    """The first one that belongs to somebody else is not delivered, and nothing after it."""
    runner, tracker = both_sides(kind(OffsetRange(0, 10)))
    taken = []
    for block in tracker.claims(["b0", "b3", "b7", "b9"], position=lambda block: int(block[1:])):
        taken.append(block)
        if block == "b3":
            assert runner.try_split(0.5) is not None
    assert taken == ["b0", "b3"]
    runner.check_done()


def test_the_end_of_the_blocks_is_claimed():
    """Else the last block would have to begin one position before the stop."""
    runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 10)))
    assert list(tracker.claims([0, 3])) == [0, 3]
    runner.check_done()
    runner, tracker = both_sides(ByteKeyRangeTracker(ByteKeyRange(b"a", b"")))
    assert list(tracker.claims(keys(b"a", b"c"), position=lambda block: block[0])) == keys(b"a", b"c")
    runner.check_done()
    runner, tracker = both_sides(UnsplittableTracker(OffsetRange(0, 10)))
    assert list(tracker.claims([0, 3])) == [0, 3]
    runner.check_done()


def test_a_range_without_an_end_stays_open():
    """Whether there is more is not for the blocks to say: process defers, or claims UNBOUNDED."""
    runner, tracker = both_sides(GrowableOffsetRangeTracker((0, UNBOUNDED)))
    assert list(tracker.claims([0, 3])) == [0, 3]
    with pytest.raises(UnclaimedWorkError):
        runner.check_done()
    assert not tracker.try_claim(UNBOUNDED)
    runner.check_done()


def growing(there):
    """Return an invoker whose DoFn gives what is there and defers the rest; it is cut at 16 of 20 meanwhile."""

    def process(tracker):
        for position in tracker.claims(range(there)):
            yield position
            if position == 2:
                assert invoker.split(0.8).restriction == OffsetRange(16, UNBOUNDED)
        tracker.defer_remainder(1)

    kind = lambda restriction: GrowableOffsetRangeTracker(restriction, lambda: 20)  # noqa: E731
    invoker = Invoker(Fn(process, kind), 0, OffsetRange(0, UNBOUNDED))
    return invoker


def test_a_range_that_a_split_bounds_stays_open_too():
    """What was there when the blocks were listed ends before the cut: the rest up to it may come yet."""
    invoker = growing(there=5)
    assert list(invoker.run()) == [0, 1, 2, 3, 4]
    assert [tuple(one.restriction) for one in invoker.residuals] == [(16, UNBOUNDED), (5, 16)]


def test_process_may_defer_when_claims_has_ended_at_what_is_others():
    """It cannot see whether its blocks have ended or the rest is others': then nothing is left to defer."""
    invoker = growing(there=20)
    assert list(invoker.run()) == list(range(16))
    assert [tuple(one.restriction) for one in invoker.residuals] == [(16, UNBOUNDED)]


def test_process_may_not_defer_what_it_has_claimed_to_its_end():
    """The blocks of a range with an end have ended, so that nothing is left: what process defers would be lost."""

    def process(tracker):
        yield from tracker.claims([0, 3])
        tracker.defer_remainder(1)

    with pytest.raises(DeferError, match="after a refused claim"):
        list(Invoker(Fn(process), 10, OffsetRange(0, 10)).run())


def test_a_last_block_may_reach_past_the_end():
    """Its records belong to it; the end is claimed behind them."""
    runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 10)))
    for block in tracker.claims([0, 7]):
        assert tracker.try_return_record_at(False, block + 5)
    runner.check_done()


def test_an_output_after_a_refused_claim_of_its_own():
    """Also of a process that has used claims() before."""

    def process(tracker):
        for position in tracker.claims():
            yield position
            break
        while tracker.try_claim(tracker.current_restriction().stop):
            pass
        yield "late"

    for on_claim in (None, lambda claims, position: None):
        with pytest.raises(OutputError, match="after a refused claim"):
            list(Invoker(Fn(process), 3, OffsetRange(0, 3), on_claim=on_claim).run())


@pytest.mark.parametrize("blocks", [(), ([0, 1],)], ids=["positions", "blocks"])
@pytest.mark.parametrize("observed", [False, True])
def test_no_record_is_claimed_meanwhile(blocks, observed):
    """By the older interface, whether the claims are observed or not."""

    def process(tracker):
        for position in tracker.claims(*blocks):
            with suppress(ClaimError):
                tracker.try_return_record_at(True, 2)
            yield position

    on_claim = (lambda claims, position: None) if observed else None
    with pytest.raises(ClaimError, match=r"while tracker.claims\(\) is in use"):
        list(Invoker(Fn(process), 3, OffsetRange(0, 3), on_claim=on_claim).run())


def test_blocks_of_a_process_that_returns_early_are_not_claimed():
    """The closing claim is made only when all blocks were delivered."""
    runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(0, 10)))
    for _ in tracker.claims([0, 3]):
        break
    with pytest.raises(UnclaimedWorkError, match=r"\[1, 10\)"):
        runner.check_done()


# Rules.


class Fn(DoFn):
    """Runs any function as process()."""

    def __init__(self, process, tracker=OffsetRangeTracker):
        self.do, self.tracker = process, tracker

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def create_tracker(self, element, restriction):
        return self.tracker(restriction)

    def process(self, element, tracker):
        return self.do(tracker)


@every_tracker
@pytest.mark.parametrize(
    "use",
    [lambda tracker: tracker.try_claim(5), lambda tracker: tracker.claims(), lambda tracker: tracker.claims([5])],
    ids=["try_claim", "claims", "blocks"],
)
@pytest.mark.parametrize("observed", [False, True])
def test_nothing_else_claims_meanwhile(kind, use, observed):
    """The error is raised at the end even if process swallows it."""

    def process(tracker):
        for position in tracker.claims():
            with suppress(ClaimError):
                use(tracker)
            yield position

    on_claim = (lambda claims, position: None) if observed else None
    invoker = Invoker(Fn(process, kind), 3, OffsetRange(0, 3), on_claim=on_claim)
    with pytest.raises(ClaimError, match=r"while tracker.claims\(\) is in use"):
        list(invoker.run())


@every_tracker
def test_afterwards_the_rest_may_be_claimed_otherwise(kind):
    """As when the first blocks are special."""

    def process(tracker):
        for position in tracker.claims():
            yield position
            if position == 2:
                break
        for position in range(3, 6):
            if not tracker.try_claim(position):
                return
            yield position

    assert run_direct([6], Fn(process, kind)) == [0, 1, 2, 3, 4, 5]
    assert list(Invoker(Fn(process, kind), 6, OffsetRange(0, 6)).run()) == [0, 1, 2, 3, 4, 5]


@every_tracker
def test_claims_come_first(kind):
    """After a claim of one's own the first position is claimed again, which no tracker allows."""

    def process(tracker):
        tracker.try_claim(0)
        yield from tracker.claims()

    if kind is not OwnTracker:
        with pytest.raises(ClaimError, match="positions must increase: got 0 after 0"):
            list(Invoker(Fn(process, kind), 3, OffsetRange(0, 3)).run())


def test_outputs_after_the_last_claim_are_of_claimed_blocks(monkeypatch):
    """No refused block was opened: a DoFn may yield what it has gathered, whether the rest was split off or not."""

    def batches(tracker):
        batch = []
        for position in tracker.claims():
            batch.append(position)
            if len(batch) == 2:
                yield batch
                batch = []
        if batch:
            yield batch

    def blocks(tracker):
        yield list(tracker.claims(range(*tracker.current_restriction())))

    assert run_direct([5], Fn(batches)) == [[0, 1], [2, 3], [4]]
    for process in (batches, blocks):
        invoker = Invoker(Fn(process), 5, OffsetRange(0, 5))
        assert list(chain.from_iterable(invoker.run())) == [0, 1, 2, 3, 4]
    invoker = Invoker(Fn(batches), 7, OffsetRange(0, 7))
    found = []
    for batch in invoker.run():
        found += batch
        if invoker.last_claimed == 3:
            invoker.split(0.5)
    assert found == list(range(invoker.primary.stop))
    assert 4 < invoker.primary.stop < 7


def test_an_output_before_the_first_claim():
    """Belongs to no block, as with try_claim."""

    def process(tracker):
        yield "early"
        yield from tracker.claims()

    with pytest.raises(OutputError, match="before its first claim"):
        list(Invoker(Fn(process), 3, OffsetRange(0, 3)).run())


def test_deferring_ends_the_claims():
    """What was not delivered is deferred."""

    def process(tracker):
        for position in tracker.claims():
            yield position
            if position == 1:
                tracker.defer_remainder()

    invoker = Invoker(Fn(process), 5, OffsetRange(0, 5))
    assert list(invoker.run()) == [0, 1]
    assert [residual.restriction for residual in invoker.residuals] == [OffsetRange(2, 5)]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((5,), {}, InvalidTypeError, "blocks must be an iterable of blocks in order \\(got 5\\)"),
        (([],), {"position": 3}, InvalidTypeError, "position must be a function of a block \\(got 3\\)"),
        ((), {"position": len}, InvalidValueError, "position needs blocks"),
    ],
)
def test_wrong_arguments(arguments, options, error, message):
    """Each is told at the call."""
    for kind in TRACKERS.values():
        with pytest.raises(error, match=message):
            both_sides(kind(OffsetRange(0, 3)))[1].claims(*arguments, **options)


def test_what_has_no_positions_needs_blocks():
    """A range without an end, keys, and restrictions of one's own."""
    for tracker in (GrowableOffsetRangeTracker((0, UNBOUNDED)), ByteKeyRangeTracker(ByteKeyRange(b"", b""))):
        with pytest.raises(InvalidValueError, match="Pass the blocks"):
            both_sides(tracker)[1].claims()


@every_tracker
def test_a_dofn_with_claims_passes_check_dofn(kind):
    """It cuts such a DoFn at every claim."""
    check_dofn(Fn(lambda tracker: ((0, i) for i in tracker.claims()), kind), 6)


def test_user_errors_are_raised_as_ever():
    """With element and restriction."""

    def process(tracker):
        for position in tracker.claims():
            yield 1 // (2 - position)

    with pytest.raises(ProcessError, match="ZeroDivisionError"):
        list(Invoker(Fn(process), 5, OffsetRange(0, 5)).run())


class DropsOneFn(DoFn):
    """Makes an iterator of claims that it never uses, and then another one."""

    def __init__(self, blocks):
        self.blocks = blocks

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker):
        part = tracker.current_restriction()
        given = [range(part.start, part.stop)] if self.blocks else []
        tracker.claims(*given)
        yield from tracker.claims(*given)


@pytest.mark.parametrize("blocks", [False, True])
def test_claims_that_were_never_used_are_in_nobodys_way(blocks):
    """Where claims are observed, and where they are not."""
    fn = DropsOneFn(blocks)
    assert run_direct([5], fn) == [0, 1, 2, 3, 4]
    assert check_dofn(fn, 5).records == 5
    assert list(Invoker(fn, 5, OffsetRange(0, 5)).run()) == [0, 1, 2, 3, 4]
