"""The offset trackers: every row of sections 3, 4 and 6 of the tracker semantics, and every small split."""

import math
import re
import threading
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product, takewhile

import attrs
import pytest
from support.integers import KINDS, NUMBER_KINDS

from sdf.errors import ClaimError, DeferError, InvalidTypeError, InvalidValueError, SplitError, UnclaimedWorkError
from sdf.model.offset_trackers import GrowableOffsetRangeTracker, OffsetRangeTracker, UnsplittableTracker
from sdf.model.restrictions import UNBOUNDED, ByteKeyRange, OffsetRange
from sdf.model.trackers import Progress, RestrictionTracker, as_fraction, as_pair

FRACTIONS = (0, 0.001, 0.1, 0.25, 1 / 3, 0.5, 0.7, 0.9, 0.999, 1)
BAD_FRACTIONS = (
    -0.001,
    1.001,
    math.nan,
    math.inf,
    -math.inf,
    None,
    "half",
    "0.5",
    b"1",
    [0],
    10**400,
    Fraction(-1, 9),
    Fraction(10, 9),
    Decimal("0.5"),
    0.5j,
)
BIG = 2**60 + 1


def tracker_at(*claims, start=100, stop=200):
    """Return a tracker that tried these claims."""
    tracker = OffsetRangeTracker(OffsetRange(start, stop))
    for position in claims:
        tracker.try_claim(position)
    return tracker


def reader_at(*records, start=100, stop=200):
    """Return a tracker that was asked for these records in the older words; a negative one is no split point."""
    tracker = OffsetRangeTracker(OffsetRange(start, stop))
    for record in records:
        tracker.try_return_record_at(record >= 0, abs(record))
    return tracker


def state_of(tracker):
    return tracker.current_restriction(), tracker.progress(), tracker.started, tracker.refused


def error_text(call, *args):
    """Return the text of what the call raises, None if it does not."""
    try:
        call(*args)
    except Exception as error:
        return str(error)
    return None


# What it is made from


@pytest.mark.parametrize("kind", [OffsetRangeTracker, GrowableOffsetRangeTracker, UnsplittableTracker])
@pytest.mark.parametrize("restriction", [OffsetRange(0, 10), (0, 10)], ids=repr)
def test_tracker_is_made_from_its_restriction(kind, restriction):
    """A range or a plain tuple will do."""
    assert kind(restriction).current_restriction() == OffsetRange(0, 10)


@pytest.mark.parametrize(
    ("restriction", "message"),
    [
        (ByteKeyRange(), "OffsetRangeTracker needs an OffsetRange (got ByteKeyRange(start=b'', stop=b''))."),
        ([0, 10], "OffsetRangeTracker needs an OffsetRange (got [0, 10])."),
        (range(10), "OffsetRangeTracker needs an OffsetRange (got range(0, 10))."),
        (None, "OffsetRangeTracker() was given None"),
        (10, "OffsetRangeTracker() was given 10"),
    ],
)
def test_tracker_refuses_what_is_no_offset_range(restriction, message):
    """The message names the tracker and what it got."""
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        OffsetRangeTracker(restriction)


def test_tracker_refuses_a_reversed_tuple():
    """A tuple is checked as an OffsetRange is."""
    with pytest.raises(InvalidValueError, match=re.escape("OffsetRange start must be <= stop (got start=9, stop=1).")):
        OffsetRangeTracker((9, 1))


@attrs.frozen
class PageRange(OffsetRange):
    book: str


@pytest.mark.parametrize("kind", [OffsetRangeTracker, GrowableOffsetRangeTracker, UnsplittableTracker])
@pytest.mark.parametrize("defer", [False, True])
def test_a_part_keeps_the_attributes_of_its_range(kind, defer):
    """Whatever makes it: a split, a split at a position, or process() that defers the rest."""
    whole = PageRange(0, 100, "Emma")
    tracker = kind(whole)
    assert tracker.current_restriction() == whole
    assert tracker.try_claim(10)
    rest = tracker.defer_remainder() if defer else tracker.try_split(0)[1]
    assert (tracker.current_restriction(), rest) == (PageRange(0, 11, "Emma"), PageRange(11, 100, "Emma"))


def test_a_range_without_an_end_keeps_its_attributes():
    """The growing tail is of the same thing."""
    tracker = GrowableOffsetRangeTracker(PageRange(0, UNBOUNDED, "Emma"))
    assert tracker.try_claim(4)
    assert tracker.try_split(0) == (PageRange(0, 5, "Emma"), PageRange(5, UNBOUNDED, "Emma"))


def test_attributes_that_a_part_would_lose_are_refused():
    """An attribute that is no field. The message says how to make it one."""

    class NamedRange(OffsetRange):
        pass

    assert OffsetRangeTracker(NamedRange(0, 5)).current_restriction() == NamedRange(0, 5)
    named = NamedRange(0, 5)
    object.__setattr__(named, "book", "Emma")
    with pytest.raises(InvalidTypeError, match=r"would lose book\. .* put @attrs\.frozen before class NamedRange"):
        OffsetRangeTracker(named)


# Where blocks begin


def test_a_range_is_cut_where_a_block_begins():
    """Moved up from where a fraction points to; None where no block is left to cut off."""
    for start, stop, claims, fraction in product(range(0, 10, 3), range(11), range(4), (0, 0.3, 0.5, 0.9, 1)):
        if start > stop:
            continue
        tracker = OffsetRangeTracker((start, stop), lambda position: -(-position // 3) * 3)
        claimed = [*takewhile(tracker.try_claim, range(start, start + 3 * claims, 3))]
        pair = tracker.try_split(fraction)
        left = [at for at in range(start, stop, 3) if at not in claimed]
        if pair is None:
            assert fraction > 0 or not left or len(claimed) < claims
        else:
            assert pair[0].start == start
            assert pair[1].stop == stop
            assert pair[0].stop == pair[1].start in left


@pytest.mark.parametrize("block", [4, 5.0, "5", True, None])
def test_a_block_that_begins_before_the_position_or_nowhere_is_refused(block):
    """The range stays as it was."""
    tracker = OffsetRangeTracker((0, 10), lambda position: block)
    assert tracker.try_claim(4)
    with pytest.raises(
        InvalidValueError, match=re.escape("block_from(5) must return where the first block at or after")
    ):
        tracker.try_split(0)
    assert tracker.current_restriction() == OffsetRange(0, 10)
    assert tracker.try_claim(9)


# Claims


@pytest.mark.parametrize(
    ("claims", "answers"),
    [
        ((100,), [True]),
        ((100, 101, 199), [True, True, True]),
        ((150,), [True]),
        ((199, 200), [True, False]),
        ((200,), [False]),
        ((10**30,), [False]),
        ((UNBOUNDED,), [False]),
    ],
)
def test_claim_is_true_inside_and_false_at_or_past_the_stop(claims, answers):
    """Claiming at or past the stop is legal: so a reader says that it reached the end."""
    tracker = OffsetRangeTracker((100, 200))
    assert [tracker.try_claim(position) for position in claims] == answers


def test_claim_in_an_empty_range_is_refused():
    """There is nothing to claim."""
    assert OffsetRangeTracker((5, 5)).try_claim(5) is False


@pytest.mark.parametrize("position", [130.0, "130", None, True, False, b"1", Fraction(130)], ids=repr)
def test_claim_of_what_is_no_integer_raises(position):
    """Rule 1: the position must be an integer."""
    message = f"try_claim() positions must be integers: got {position!r} in OffsetRange(start=100, stop=200)."
    with pytest.raises(ClaimError, match=re.escape(message)):
        tracker_at(110).try_claim(position)


class NotOne:
    """Has the method, as an array of several numbers has."""

    def __index__(self):
        raise TypeError("only integer scalar arrays can be converted to a scalar index")

    def __repr__(self):
        return "array([1, 2])"


def test_claim_of_several_numbers_raises():
    """What has __index__ and is no integer is told like anything else that is none."""
    with pytest.raises(ClaimError, match=re.escape("positions must be integers: got array([1, 2]) in ")):
        tracker_at(110).try_claim(NotOne())


def types(*values):
    return [(type(value), value) for value in values]


@KINDS
def test_positions_may_be_integers_of_any_kind(kind):
    """What a claim leaves behind is an int, so that nothing of NumPy reaches a restriction."""
    tracker = OffsetRangeTracker((kind(0), kind(10)))
    assert [tracker.try_claim(kind(position)) for position in (3, 10)] == [True, False]
    assert types(tracker.last_claimed, *tracker.current_restriction()) == types(10, 0, 10)


@KINDS
@pytest.mark.parametrize("position", [3, -1], ids=["again", "before the start"])
def test_claims_of_integers_of_any_kind_keep_the_rules(kind, position):
    """They must increase and lie in the range like ints."""
    with pytest.raises(ClaimError, match=f"got {position} "):
        tracker_at(3, start=0, stop=10).try_claim(kind(position))


@KINDS
def test_records_may_lie_at_integers_of_any_kind(kind):
    """Of the older interface, at a split point and inside a block."""
    tracker = OffsetRangeTracker((0, 10))
    assert tracker.try_return_record_at(True, kind(3))
    assert tracker.try_return_record_at(False, kind(4))
    assert types(tracker.try_split(0)[0].stop) == types(5)


@KINDS
def test_a_split_may_be_at_an_integer_of_any_kind(kind):
    """The stop is an int then."""
    tracker = tracker_at(3, start=0, stop=10)
    assert tracker.try_split_at_position(kind(5))
    assert types(tracker.stop_position()) == types(5)


@KINDS
def test_an_estimate_may_be_an_integer_of_any_kind(kind):
    """The end of something that grows, as a library counts it."""
    tracker = GrowableOffsetRangeTracker((0, UNBOUNDED), lambda: kind(9))
    assert tracker.try_claim(0)
    assert types(tracker.try_split(0.5)[0].stop) == types(4)


@pytest.mark.parametrize("position", [150, 200, 240, 241, 10**6])
def test_claim_after_a_refused_claim_raises(position):
    """Rule 2: the rest is someone else's, whatever the position."""
    message = (
        f"try_claim({position}) after a refused claim of 240 in OffsetRange(start=100, stop=200). "
        "Return from process() as soon as try_claim() is False."
    )
    with pytest.raises(ClaimError, match=re.escape(message)):
        tracker_at(130, 240).try_claim(position)


@pytest.mark.parametrize("claims", [(), (130,)])
@pytest.mark.parametrize("position", [99, 0, -1])
def test_claim_before_the_start_raises(claims, position):
    """Rule 3: the range starts at its start."""
    message = f"try_claim() positions must be >= the start: got {position} in OffsetRange(start=100, stop=200)."
    with pytest.raises(ClaimError, match=re.escape(message)):
        tracker_at(*claims).try_claim(position)


@pytest.mark.parametrize("position", [100, 103, 110])
def test_claim_that_does_not_increase_raises(position):
    """Rule 4: positions increase; the message has both."""
    message = f"try_claim() positions must increase: got {position} after 110 in OffsetRange(start=100, stop=200)."
    with pytest.raises(ClaimError, match=re.escape(message)):
        tracker_at(110).try_claim(position)


def test_the_type_is_checked_before_the_refusal():
    """Rule 1 comes before rule 2."""
    with pytest.raises(ClaimError, match="positions must be integers"):
        tracker_at(200).try_claim("x")


def test_the_refusal_is_checked_before_the_start():
    """Rule 2 comes before rule 3."""
    with pytest.raises(ClaimError, match="after a refused claim"):
        tracker_at(200).try_claim(5)


def test_the_start_is_checked_before_the_order():
    """Rule 3 comes before rule 4."""
    with pytest.raises(ClaimError, match="positions must be >= the start"):
        tracker_at(110).try_claim(5)


@pytest.mark.parametrize("claims", [(), (130,), (130, 200)])
@pytest.mark.parametrize("position", [5, 120, 130.0, None])
def test_a_bad_claim_changes_nothing(claims, position):
    """State changes only after the checks pass (Beam moves before its check of the start)."""
    tracker = tracker_at(*claims)
    before = state_of(tracker)
    if error_text(tracker.try_claim, position) is not None:
        assert state_of(tracker) == before
    else:
        assert (claims, position) == ((), 120)


def test_claims_of_big_integers():
    """Positions above 2**64 are as good as any."""
    tracker = OffsetRangeTracker((2**64, 2**64 + 2))
    assert [tracker.try_claim(2**64 + i) for i in range(3)] == [True, True, False]


# Splits


@pytest.mark.parametrize(
    ("claims", "fraction", "split"),
    [
        ((130,), 0.7, 179),
        ((130,), 0, 131),
        ((130,), 0.001, 131),
        ((130,), 1, None),
        ((130,), 0.5, 165),
        ((130,), 0.999, 199),
        ((100,), 0, 101),
        ((199,), 0, None),
        ((199,), 0.5, None),
        ((199,), 1, None),
        ((240,), 0, None),
        ((240,), 0.5, None),
        ((130, 240), 0, None),
        ((), 0.5, 149),
        ((), 0, 100),
        ((), 1, None),
    ],
)
def test_split_table(claims, fraction, split):
    """The table of section 3."""
    expected = None if split is None else (OffsetRange(100, split), OffsetRange(split, 200))
    assert tracker_at(*claims).try_split(fraction) == expected


def test_split_of_an_empty_range_is_none():
    """Nothing can be cut off nothing."""
    assert [OffsetRangeTracker((5, 5)).try_split(fraction) for fraction in FRACTIONS] == [None] * len(FRACTIONS)


def test_the_primary_becomes_current():
    """After a split the tracker owns the primary."""
    tracker = tracker_at(130)
    tracker.try_split(0.7)
    assert tracker.current_restriction() == OffsetRange(100, 179)


def test_a_split_that_is_declined_changes_nothing():
    """None means that nothing happened."""
    tracker = tracker_at(130)
    before = state_of(tracker)
    tracker.try_split(1)
    assert state_of(tracker) == before


def test_repeated_splits_refer_to_the_shrunk_range():
    """Each split cuts what the one before left."""
    tracker = tracker_at(130)
    stops = [tracker.try_split(0.5)[0].stop for _ in range(5)]
    assert stops == [165, 147, 138, 134, 132]


@pytest.mark.parametrize(
    ("start", "stop", "claims", "fraction", "split"),
    [
        (0, BIG, (), 0.999, -1 + (BIG + 1) * 999 // 1000),
        (0, BIG, (0,), 0.999, BIG * 999 // 1000),
        (0, BIG, (0,), 0.5, BIG // 2),
        (0, 10**40, (0,), 0.1, 10**39),
        (10**40, 2 * 10**40, (10**40,), 0.7, 10**40 + 7 * 10**39),
        (-(10**40), 0, (-(10**40),), 0.3, -7 * 10**39),
    ],
)
def test_split_of_big_integers_is_exact(start, stop, claims, fraction, split):
    """Floats are wrong above 2**53; the arithmetic is not in floats."""
    assert tracker_at(*claims, start=start, stop=stop).try_split(fraction)[0].stop == split


@pytest.mark.parametrize("fraction", BAD_FRACTIONS, ids=repr)
@pytest.mark.parametrize("claims", [(), (130,), (240,)])
def test_split_at_a_bad_fraction_raises(claims, fraction):
    """NaN, outside [0, 1] and what is no number raise, whatever the state."""
    message = f"try_split() fraction_of_remainder must lie in [0, 1] (got {fraction!r})."
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        tracker_at(*claims).try_split(fraction)


@pytest.mark.parametrize(
    ("fraction", "exact"),
    [
        (0.7, Fraction(7, 10)),
        (0.1, Fraction(1, 10)),
        (0, Fraction(0)),
        (1, Fraction(1)),
        (-0.0, Fraction(0)),
        (1e-300, Fraction(1, 10**300)),
        (Fraction(1, 4), Fraction(1, 4)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Fraction(BIG, BIG + 1), Fraction(BIG, BIG + 1)),
    ],
)
def test_a_fraction_is_read_through_its_shortest_decimal_text(fraction, exact):
    """0.7 is 7/10, not the binary value just below."""
    assert as_fraction(fraction) == exact


def ranges_and_claims(longest):
    """Give every range [3, 3 + n) with n <= longest, with every set of positions claimed before the split."""
    for length in range(longest + 1):
        positions = range(3, 3 + length)
        for count in range(length + 1):
            for claims in combinations(positions, count):
                yield 3, 3 + length, claims


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_every_small_split_tiles(fraction):
    """Over every small range and all its claims: primary + residual is the range, and what is claimed stays."""
    wrong, splits = [], 0
    for start, stop, claims in ranges_and_claims(6):
        tracker = tracker_at(*claims, start=start, stop=stop)
        pair = tracker.try_split(fraction)
        if pair is None:
            if tracker.current_restriction() != OffsetRange(start, stop):
                wrong.append((start, stop, claims))
            continue
        splits += 1
        (first, cut), (cut_too, last) = pair
        right = (first, cut, last) == (start, cut_too, stop) and cut < stop
        if not right or any(p >= cut for p in claims) or tracker.current_restriction() != pair[0]:
            wrong.append((start, stop, claims))
    assert wrong == []
    assert splits > 0 or fraction == 1


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_every_small_split_is_the_formula(fraction):
    """Over every small range and all its claims the cut is the one of the formula in section 3."""
    wrong = []
    for start, stop, claims in ranges_and_claims(6):
        at = max(claims, default=start - 1)
        split = at + max(1, math.floor((stop - at) * Fraction(repr(float(fraction)))))
        expected = (OffsetRange(start, split), OffsetRange(split, stop)) if split < stop else None
        if tracker_at(*claims, start=start, stop=stop).try_split(fraction) != expected:
            wrong.append((start, stop, claims))
    assert wrong == []


@pytest.mark.parametrize("length", range(1, 7))
def test_every_small_split_gives_the_outputs_of_the_unsplit_range(length):
    """Read and split after every claim at every fraction: primary and residual give each position once, in order."""
    wrong, splits = [], 0
    for at in range(length):
        for fraction in FRACTIONS:
            tracker, rest, read = OffsetRangeTracker((0, length)), None, []
            for position in range(length + 1):
                if not tracker.try_claim(position):
                    break
                read.append(position)
                if position == at:
                    rest = tracker.try_split(fraction)
            tracker.check_done()
            splits += rest is not None
            found = read + list(range(*rest[1])) if rest else read
            if found != list(range(length)):
                wrong.append((at, fraction))
    assert wrong == []
    assert splits > 0 or length == 1


def test_reading_races_with_splitting():
    """While one thread reads and another splits, each position is claimed once over the primary and the residuals."""
    length, splits, wrong = 300, 0, []
    for trial in range(100):
        tracker = OffsetRangeTracker((0, length))
        claimed, residuals = [], []
        both = threading.Barrier(2)

        def read(tracker=tracker, claimed=claimed, both=both):
            both.wait()
            position = 0
            while tracker.try_claim(position):
                claimed.append(position)
                position += 1
            tracker.check_done()

        reader = threading.Thread(target=read)
        reader.start()
        both.wait()
        while reader.is_alive():
            pair = tracker.try_split(0.95)
            if pair is not None:
                residuals.append(pair[1])
        reader.join()
        splits += len(residuals)
        found = claimed + [position for residual in reversed(residuals) for position in range(*residual)]
        if found != list(range(length)):
            wrong.append(trial)
    assert wrong == []
    assert splits > 0


# check_done


@pytest.mark.parametrize(
    ("claims", "start", "stop"),
    [
        ((), 5, 5),
        ((199,), 100, 200),
        ((100, 200), 100, 200),
        ((200,), 100, 200),
        ((10**9,), 100, 200),
        ((UNBOUNDED,), 100, 200),
        ((7,), 7, 8),
    ],
)
def test_done(claims, start, stop):
    """Done is: empty, or the last position was attempted, or a claim at the end was refused."""
    assert error_text(tracker_at(*claims, start=start, stop=stop).check_done) is None


@pytest.mark.parametrize(
    ("claims", "unclaimed"),
    [((), "[100, 200)"), ((100,), "[101, 200)"), ((130,), "[131, 200)"), ((198,), "[199, 200)")],
)
def test_not_done_names_what_is_unclaimed(claims, unclaimed):
    """The message names [a + 1, stop), not what was claimed."""
    message = (
        f"{unclaimed} of OffsetRange(start=100, stop=200) is unclaimed, that work would be lost. Claim until "
        "try_claim() returns False (at the end of the input claim the restriction's stop), or call "
        "tracker.defer_remainder()."
    )
    with pytest.raises(UnclaimedWorkError, match=re.escape(message)):
        tracker_at(*claims).check_done()


def test_done_refers_to_the_range_that_a_split_left():
    """A split at 0 makes what was claimed all there is."""
    tracker = tracker_at(130)
    tracker.try_split(0)
    assert error_text(tracker.check_done) is None


def test_claiming_a_stale_stop_shows_that_the_reader_looked():
    """The old, larger stop works as well as the live one."""
    tracker = tracker_at(130)
    tracker.try_split(0.7)
    assert (tracker.try_claim(200), error_text(tracker.check_done)) == (False, None)


# Progress


@pytest.mark.parametrize(
    ("claims", "start", "stop", "progress"),
    [
        ((), 100, 200, Progress(0, 100)),
        ((130,), 100, 200, Progress(30, 70)),
        ((100,), 100, 200, Progress(0, 100)),
        ((199,), 100, 200, Progress(99, 1)),
        ((200,), 100, 200, Progress(100, 0)),
        ((130, 240), 100, 200, Progress(100, 0)),
        ((), 5, 5, Progress(0, 0)),
        ((), 0, 2**70, Progress(0, 2**70)),
        ((1,), 0, 2**70, Progress(1, 2**70 - 1)),
    ],
)
def test_progress(claims, start, stop, progress):
    """Two exact integers in one unit, both >= 0."""
    assert tracker_at(*claims, start=start, stop=stop).progress() == progress


def test_progress_refers_to_the_range_that_a_split_left():
    """The residual's work is not ours any more."""
    tracker = tracker_at(130)
    tracker.try_split(0.7)
    assert tracker.progress() == Progress(30, 49)


@pytest.mark.parametrize(("restriction", "bounded"), [((0, 5), True), ((5, 5), True), ((0, UNBOUNDED), False)])
def test_is_bounded(restriction, bounded):
    """Bounded is what has a stop."""
    assert OffsetRangeTracker(restriction).is_bounded() is bounded


# Defer


@pytest.mark.parametrize(
    ("claims", "residual"),
    [((130,), OffsetRange(131, 200)), ((), OffsetRange(100, 200)), ((199,), None)],
)
def test_defer_gives_the_rest(claims, residual):
    """defer_remainder() is try_split(0); nothing left to defer is no error."""
    assert tracker_at(*claims).defer_remainder() == residual


def test_what_was_deferred_is_not_ours():
    """After deferring the tracker is done."""
    tracker = tracker_at(130)
    tracker.defer_remainder(5)
    assert error_text(tracker.check_done) is None


def test_defer_after_a_split_left_nothing():
    """A runner's split may have taken all that could be deferred; that is no error."""
    tracker = tracker_at(130)
    tracker.try_split(0)
    assert tracker.defer_remainder() is None


def test_defer_of_an_empty_range():
    """Nothing is left to defer of nothing."""
    assert OffsetRangeTracker((5, 5)).defer_remainder() is None


@pytest.mark.parametrize("kind", [OffsetRangeTracker, GrowableOffsetRangeTracker, UnsplittableTracker])
def test_defer_after_a_refused_claim_raises(kind):
    """After a refusal nothing is the attempt's to defer, whatever the tracker."""
    tracker = kind((100, 200))
    tracker.try_claim(150)
    tracker.try_claim(200)
    with pytest.raises(DeferError, match=re.escape("defer_remainder() after a refused claim")):
        tracker.defer_remainder()


@pytest.mark.parametrize("delay", [-1, -0.001, math.nan, math.inf, "5", None, True])
@pytest.mark.parametrize("kind", [OffsetRangeTracker, GrowableOffsetRangeTracker, UnsplittableTracker])
def test_defer_with_a_bad_delay_raises(kind, delay):
    """The delay is a finite number >= 0."""
    message = f"defer_remainder() delay_seconds must be finite and >= 0 (got {delay!r})."
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        kind((0, 5)).defer_remainder(delay)


@NUMBER_KINDS
@pytest.mark.parametrize("tracker", [OffsetRangeTracker, GrowableOffsetRangeTracker, UnsplittableTracker])
def test_a_delay_may_be_a_number_of_any_kind(tracker, kind):
    """Of NumPy say."""
    assert tracker((0, 5)).defer_remainder(kind(3)) is not None


def test_a_delay_that_no_float_holds_is_not_finite():
    """It would overflow the clock."""
    with pytest.raises(InvalidValueError, match="delay_seconds must be finite"):
        OffsetRangeTracker((0, 5)).defer_remainder(10**400)


def test_a_bad_delay_changes_nothing():
    """Arguments are checked before anything is split."""
    tracker = tracker_at(130)
    before = state_of(tracker)
    error_text(tracker.defer_remainder, -1)
    assert state_of(tracker) == before


class Stubborn(RestrictionTracker):
    """Never splits, and never says that it is done."""

    def current_restriction(self):
        return "all of it"

    def try_claim(self, position):
        return True

    def try_split(self, fraction_of_remainder):
        return None

    def check_done(self):
        raise ValueError("not done")


def test_defer_that_cannot_be_honoured_raises():
    """A tracker that refuses 0 while work remains cannot defer."""
    message = "defer_remainder(): Stubborn.try_split(0) gave None although work remains in 'all of it'."
    with pytest.raises(DeferError, match=re.escape(message)):
        Stubborn().defer_remainder()


@pytest.mark.parametrize("residual", [(), 0, "", frozenset()], ids=repr)
def test_defer_gives_a_falsy_residual(residual):
    """A residual is absent only if it is None."""

    class Falsy(Stubborn):
        def try_split(self, fraction_of_remainder):
            return "primary", residual

    assert Falsy().defer_remainder() == residual


def test_defer_by_a_tracker_that_gives_no_pair_raises():
    """Beam's UnsplittableTracker returns False where a pair or None was promised."""

    class Falsy(Stubborn):
        def try_split(self, fraction_of_remainder):
            return False

    with pytest.raises(SplitError, match=re.escape("try_split() must return (primary, residual) or None (got False)")):
        Falsy().defer_remainder()


@pytest.mark.parametrize("pair", [None, ("primary", "residual"), (None, None), ((), 0)], ids=repr)
def test_as_pair_gives_a_pair_or_none_as_it_is(pair):
    """Falsy sides too; whether the two add up is another question."""
    assert as_pair(pair) is pair


@pytest.mark.parametrize("split", [False, True, 0, (), (1,), (1, 2, 3), [1, 2], "ab", b"ab", {1: 2, 3: 4}], ids=repr)
def test_as_pair_refuses_all_else(split):
    """False is not None, and two letters are no pair."""
    with pytest.raises(SplitError) as caught:
        as_pair(split)
    assert str(caught.value) == f"try_split() must return (primary, residual) or None (got {split!r})"


def test_progress_of_a_users_tracker_is_unknown():
    """The default knows neither what is done nor what remains."""
    assert (Stubborn().progress(), Stubborn().is_bounded()) == (Progress(0, None), True)


# The older words


@pytest.mark.parametrize(
    ("records", "answers"),
    [
        ((100,), [True]),
        ((100, -100, -120, 150), [True, True, True, True]),
        ((150, -199, -200, -250), [True, True, True, True]),
        ((150, -250, 250), [True, True, False]),
        ((150, -180, 180), [True, True, True]),
        ((200,), [False]),
        ((100, 240), [True, False]),
        ((99, 100), [False, True]),
        ((150, 99, 160), [True, False, True]),
        ((200, 240, 200, 99), [False, False, False, False]),
    ],
)
def test_try_return_record_at(records, answers):
    """At a split point it is a claim, or outside the range and not ours; one inside a block is ours, past the stop."""
    tracker = OffsetRangeTracker((100, 200))
    assert [tracker.try_return_record_at(record >= 0, abs(record)) for record in records] == answers


@pytest.mark.parametrize(
    ("before", "record", "message"),
    [
        ((), -100, "try_return_record_at(False, 100) needs a split point before it in OffsetRange(100, 200)."),
        ((150,), -149, "try_return_record_at(False, 149) must not precede 150 in OffsetRange(100, 200)."),
        ((150, -170), -169, "try_return_record_at(False, 169) must not precede 170 in OffsetRange(100, 200)."),
        ((150, 200), -201, "try_return_record_at(False, 201) comes after a refused record in OffsetRange(100, 200)."),
        ((200,), -201, "try_return_record_at(False, 201) comes after a refused record in OffsetRange(100, 200)."),
        ((150, -170), 169, "try_claim() positions must increase: got 169 after 170 in"),
        ((150,), 150, "try_claim() positions must increase: got 150 after 150 in"),
        ((150, -220), 210, "try_claim() positions must increase: got 210 after 220 in"),
    ],
)
def test_try_return_record_at_out_of_order_raises(before, record, message):
    """A record before its split point, or before the last record, or after a refusal, raises."""
    tracker = reader_at(*before)
    with pytest.raises(ClaimError, match=re.escape(message)):
        tracker.try_return_record_at(record >= 0, abs(record))


@pytest.mark.parametrize("record", [1.5, "1", None, True], ids=repr)
@pytest.mark.parametrize("is_at_split_point", [True, False])
def test_try_return_record_at_takes_integers_only(is_at_split_point, record):
    """As a claim does."""
    with pytest.raises(ClaimError, match="positions must be integers"):
        reader_at(150).try_return_record_at(is_at_split_point, record)


def test_a_split_cuts_after_the_last_record():
    """A record inside a block moves the consumed position."""
    assert reader_at(110, -130).try_split(0) == (OffsetRange(100, 131), OffsetRange(131, 200))


def test_a_record_past_the_stop_leaves_nothing_to_split():
    """The block that holds it is ours, and nothing follows it in the range."""
    assert [reader_at(110, -250).try_split(fraction) for fraction in (0, 0.5, 1)] == [None] * 3


def test_progress_counts_records_inside_blocks():
    """The record consumed last is where the reader is."""
    assert [reader_at(*records).progress() for records in [(110, -130), (110, -250)]] == [
        Progress(30, 70),
        Progress(100, 0),
    ]


@pytest.mark.parametrize(
    ("records", "position", "answer"),
    [
        ((110,), 109, False),
        ((110,), 110, False),
        ((110,), 200, False),
        ((110,), 210, False),
        ((110,), 111, True),
        ((110,), 150, True),
        ((110,), 199, True),
        ((), 150, False),
        ((110, 200), 150, False),
        ((110, -170), 170, False),
        ((110, -170), 171, True),
        ((110, -250), 199, False),
        ((110,), 99, False),
    ],
)
def test_try_split_at_position(records, position, answer):
    """True iff something was returned and the position is after the last consumed and before the stop."""
    tracker = reader_at(*records)
    assert (tracker.try_split_at_position(position), tracker.stop_position()) == (answer, position if answer else 200)


def test_a_second_split_may_come_earlier():
    """After a split at 170, one at 150 is still accepted."""
    tracker = reader_at(110)
    assert [tracker.try_split_at_position(position) for position in (170, 170, 171, 150)] == [True, False, False, True]


def test_split_at_position_of_an_unbounded_range():
    """Allowed, as in seed 000; Beam refuses it."""
    tracker = reader_at(110, stop=UNBOUNDED)
    assert (tracker.try_split_at_position(150), tracker.stop_position()) == (True, 150)


@pytest.mark.parametrize("position", [150.0, "150", None, True, UNBOUNDED], ids=repr)
def test_split_at_what_is_no_integer_raises(position):
    """A position is an integer."""
    message = f"try_split_at_position() needs an integer (got {position!r})."
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        reader_at(110).try_split_at_position(position)


@pytest.mark.parametrize(
    ("records", "start", "stop", "consumed"),
    [
        ((), 100, 200, 0.0),
        ((100,), 100, 200, 0.0),
        ((110,), 100, 200, 0.10),
        ((150,), 100, 200, 0.50),
        ((195,), 100, 200, 0.95),
        ((4,), 3, 6, 1 / 3),
        ((110, 200), 100, 200, 1.0),
        ((200,), 100, 200, 1.0),
        ((110, -195), 100, 200, 0.95),
        ((110, -250), 100, 200, 1.0),
        ((110,), 100, UNBOUNDED, 0.0),
        ((), 5, 5, 0.0),
    ],
)
def test_fraction_consumed(records, start, stop, consumed):
    """(last - start) / (stop - start), 1.0 once refused, 0.0 for unbounded ranges."""
    assert reader_at(*records, start=start, stop=stop).fraction_consumed() == consumed


def test_start_position_never_moves():
    """Not to the first record, as in Beam Java."""
    tracker = reader_at(150)
    tracker.try_split_at_position(170)
    assert (tracker.start_position(), tracker.stop_position()) == (100, 170)


@pytest.mark.parametrize("length", range(1, 7))
def test_every_small_split_at_a_position(length):
    """For every last record and position: accepted iff strictly between the last record and the stop."""
    wrong = []
    for last in range(length):
        for position in range(-1, length + 2):
            answer = reader_at(last, start=0, stop=length).try_split_at_position(position)
            if answer is not (last < position < length):
                wrong.append((last, position))
    assert wrong == []


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_every_small_split_inside_a_block_keeps_what_is_consumed(fraction):
    """Over every small range, block start and last record in it: nothing consumed goes to the residual."""
    wrong, splits = [], 0
    for stop in range(1, 7):
        for block in range(stop):
            for record in range(block, stop + 2):
                pair = reader_at(block, -record, start=0, stop=stop).try_split(fraction) if record else None
                if pair is None:
                    continue
                splits += 1
                (first, cut), (cut_too, last) = pair
                if not (first == 0 and record < cut == cut_too < last == stop):
                    wrong.append((stop, block, record))
    assert wrong == []
    assert splits > 0 or fraction == 1


# Growable


def growing(estimate, *claims, start=0):
    tracker = GrowableOffsetRangeTracker(OffsetRange(start, UNBOUNDED), lambda: estimate)
    for position in claims:
        tracker.try_claim(position)
    return tracker


@pytest.mark.parametrize(
    ("estimate", "claims", "fraction", "split"),
    [
        (100, (20,), 0.5, 60),
        (100, (20,), 0, 21),
        (100, (20,), 1, 100),
        (15, (20,), 0.5, 21),
        (15, (20,), 0, 21),
        (15, (20,), 1, 21),
        (None, (20,), 0.5, 21),
        (None, (20,), 0, 21),
        (None, (20,), 1, 21),
        (21, (20,), 1, 21),
        (-5, (20,), 1, 21),
        (100, (), 0, 0),
        (100, (), 0.5, 49),
        (100, (), 1, 100),
        (None, (), 0, 0),
        (None, (), 1, 0),
        (2**70, (0,), 0.5, 2**69),
    ],
)
def test_growable_split_table(estimate, claims, fraction, split):
    """The numbers of section 6: a split bounds the primary, the growing tail is in the residual."""
    expected = (OffsetRange(0, split), OffsetRange(split, UNBOUNDED))
    assert growing(estimate, *claims).try_split(fraction) == expected


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_growable_is_never_split_once_the_end_was_claimed(fraction):
    """None once UNBOUNDED was claimed."""
    assert growing(100, 20, UNBOUNDED).try_split(fraction) is None


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_every_small_growable_split_keeps_the_tail(fraction):
    """Over every small last claim and estimate: claims stay, the tail is the residual's, the primary is bounded."""
    wrong = []
    for last in range(-1, 6):
        for estimate in [None, *range(8)]:
            tracker = growing(estimate, *([last] if last >= 0 else []))
            (first, cut), (cut_too, end) = tracker.try_split(fraction)
            if not (first == 0 and last < cut == cut_too and end is UNBOUNDED and tracker.is_bounded()):
                wrong.append((last, estimate))
    assert wrong == []


def test_growable_after_a_split_is_an_ordinary_tracker():
    """With a stop the estimate is not asked again."""
    asked = []
    tracker = GrowableOffsetRangeTracker((0, UNBOUNDED), lambda: asked.append("asked") or 100)
    tracker.try_claim(20)
    tracker.try_split(0.5)
    asked.clear()
    found = (tracker.try_split(0.5), tracker.progress(), tracker.try_claim(60))
    assert (found, asked) == (((OffsetRange(0, 40), OffsetRange(40, 60)), Progress(20, 20), False), [])


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("claims", [(), (130,), (199,), (240,)])
def test_growable_with_a_stop_splits_as_an_offset_tracker(claims, fraction):
    """A finite stop makes it an ordinary offset tracker."""
    growable = GrowableOffsetRangeTracker((100, 200), lambda: 1000)
    for position in claims:
        growable.try_claim(position)
    assert growable.try_split(fraction) == tracker_at(*claims).try_split(fraction)


def test_growable_is_done_when_unbounded_was_claimed():
    """The claim of UNBOUNDED is refused and proves that the input has ended for good."""
    tracker = growing(100, 20)
    assert (tracker.try_claim(UNBOUNDED), error_text(tracker.check_done)) == (False, None)


@pytest.mark.parametrize("claims", [(), (20,), (10**30,)])
def test_growable_is_not_done_before(claims):
    """However far it came, more may follow."""
    first = claims[0] + 1 if claims else 0
    message = f"[{first}, UNBOUNDED) of OffsetRange(start=0, stop=UNBOUNDED) is unclaimed"
    with pytest.raises(UnclaimedWorkError, match=re.escape(message)):
        growing(100, *claims).check_done()


@pytest.mark.parametrize(
    ("claims", "bounded"), [((), False), ((20,), False), ((20, UNBOUNDED), True), ((UNBOUNDED,), True)]
)
def test_growable_is_bounded_once_unbounded_was_claimed(claims, bounded):
    """Bounded iff the stop is finite or UNBOUNDED was claimed."""
    assert growing(100, *claims).is_bounded() is bounded


@pytest.mark.parametrize(
    ("estimate", "claims", "start", "progress"),
    [
        (100, (20,), 0, Progress(20, 80)),
        (100, (), 0, Progress(0, 100)),
        (100, (130,), 0, Progress(130, 0)),
        (15, (20,), 0, Progress(20, 0)),
        (None, (20,), 0, Progress(20, None)),
        (None, (), 0, Progress(0, None)),
        (50, (), 100, Progress(0, 0)),
        (120, (), 100, Progress(0, 20)),
        (0, (), 0, Progress(0, 0)),
    ],
)
def test_growable_progress(estimate, claims, start, progress):
    """Remaining is max(a, estimate) - a, and unknown, not 0, without an estimate."""
    assert growing(estimate, *claims, start=start).progress() == progress


@pytest.mark.parametrize("estimate", [100, None])
def test_growable_has_nothing_left_once_the_end_was_claimed(estimate):
    """Then remaining is 0 and not unknown. The tracker does not know how much was done."""
    assert growing(estimate, 20, UNBOUNDED).progress() == Progress(0, 0)


def test_growable_without_an_estimate():
    """The estimate may be left out."""
    tracker = GrowableOffsetRangeTracker((0, UNBOUNDED))
    tracker.try_claim(4)
    assert tracker.try_split(0.5) == (OffsetRange(0, 5), OffsetRange(5, UNBOUNDED))


def test_growable_estimate_that_raises_is_not_swallowed():
    """What the user's estimate raises comes out of the split, and nothing was split."""

    def broken():
        raise OSError("no route to the broker")

    tracker = GrowableOffsetRangeTracker((0, UNBOUNDED), broken)
    tracker.try_claim(20)
    with pytest.raises(OSError, match="no route to the broker"):
        tracker.try_split(0.5)
    assert tracker.current_restriction() == OffsetRange(0, UNBOUNDED)


def test_growable_residual_may_be_empty_now():
    """[end, UNBOUNDED) is a legal residual that is empty now: the reader may have come to the present end."""
    assert growing(21, 20).try_split(0) == (OffsetRange(0, 21), OffsetRange(21, UNBOUNDED))


def test_growable_defer():
    """A reader at the present end defers the tail."""
    assert growing(21, 20).defer_remainder(5) == OffsetRange(21, UNBOUNDED)


def test_claim_after_unbounded_raises():
    """The input has ended for good."""
    with pytest.raises(ClaimError, match=re.escape("try_claim(30) after a refused claim of UNBOUNDED in")):
        growing(100, 20, UNBOUNDED).try_claim(30)


# Unsplittable


@pytest.mark.parametrize("fraction", [f for f in FRACTIONS if f > 0])
def test_unsplittable_is_not_shared_out(fraction):
    """None for every fraction above 0."""
    tracker = UnsplittableTracker((100, 200))
    tracker.try_claim(130)
    assert (tracker.try_split(fraction), tracker.current_restriction()) == (None, OffsetRange(100, 200))


@pytest.mark.parametrize("claims", [(), (130,), (199,), (240,)])
def test_unsplittable_can_be_stopped(claims):
    """0 goes to the wrapped tracker, so that ordered work can stop and resume."""
    tracker = UnsplittableTracker((100, 200))
    for position in claims:
        tracker.try_claim(position)
    assert tracker.try_split(0) == tracker_at(*claims).try_split(0)


@pytest.mark.parametrize("fraction", BAD_FRACTIONS, ids=repr)
def test_unsplittable_checks_the_fraction(fraction):
    """A bad fraction raises rather than being declined."""
    with pytest.raises(InvalidValueError, match="fraction_of_remainder must lie in"):
        UnsplittableTracker((0, 5)).try_split(fraction)


def test_unsplittable_defers():
    """Order-bound work must still be able to defer."""
    tracker = UnsplittableTracker((100, 200))
    tracker.try_claim(130)
    assert (tracker.defer_remainder(), tracker.current_restriction()) == (OffsetRange(131, 200), OffsetRange(100, 131))


@pytest.mark.parametrize("delay", [0, 2.5])
def test_unsplittable_defers_as_the_wrapped_tracker_does(delay):
    """A tracker that knows how to defer is asked, with the delay."""

    class Knows(Stubborn):
        def defer_remainder(self, delay_seconds=0):
            return "deferred", delay_seconds

    assert UnsplittableTracker(Knows()).defer_remainder(delay) == ("deferred", delay)


def test_unsplittable_that_cannot_defer_names_the_wrapped_tracker():
    """Whoever reads it must mend that one."""
    with pytest.raises(DeferError, match=re.escape("Stubborn.try_split(0) gave None although work remains in")):
        UnsplittableTracker(Stubborn()).defer_remainder()


def test_unsplittable_wraps_any_tracker():
    """Everything but the split is the wrapped tracker's."""
    tracker = UnsplittableTracker(growing(100, 20))
    found = (tracker.progress(), tracker.is_bounded(), tracker.current_restriction(), tracker.try_claim(21))
    assert found == (Progress(20, 80), False, OffsetRange(0, UNBOUNDED), True)


def test_unsplittable_asks_the_wrapped_tracker_whether_it_is_done():
    """The message is the wrapped tracker's."""
    with pytest.raises(UnclaimedWorkError, match=re.escape("[100, 200) of OffsetRange(start=100, stop=200)")):
        UnsplittableTracker((100, 200)).check_done()


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_atomic_work_has_no_split_point_left(fraction):
    """[0, 1) is one claim; after it nothing can be split."""
    tracker = OffsetRangeTracker((0, 1))
    tracker.try_claim(0)
    assert tracker.try_split(fraction) is None


# What the invoker asks


@pytest.mark.parametrize(
    ("claims", "started", "refused"),
    [((), False, False), ((100,), True, False), ((200,), True, True), ((130, 200), True, True)],
)
def test_started_and_refused(claims, started, refused):
    """Any attempted claim is a start; only a refused one is a refusal."""
    tracker = tracker_at(*claims)
    assert (tracker.started, tracker.refused) == (started, refused)
