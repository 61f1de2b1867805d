"""The invoker: one work item, every rule of the contract, and whatever a user's process() and tracker can get wrong."""

import contextlib
import pickle
import re
import sys
import threading
from fractions import Fraction

import attrs
import pytest
from support.integers import NUMBER_KINDS

from sdf.errors import (
    ClaimError,
    DeferError,
    InvalidTypeError,
    InvalidValueError,
    OutputError,
    ProcessError,
    SplitError,
    UnclaimedWorkError,
    WatermarkError,
)
from sdf.execution.invoker import Invoker, Residual
from sdf.model.byte_key_tracker import ByteKeyRangeTracker
from sdf.model.dofn import DoFn
from sdf.model.offset_trackers import GrowableOffsetRangeTracker, OffsetRangeTracker, UnsplittableTracker
from sdf.model.restrictions import UNBOUNDED, ByteKeyRange, OffsetRange
from sdf.model.trackers import Progress, RestrictionTracker
from sdf.model.watermarks import ManualWatermark

TEN = OffsetRange(0, 10)


class Fn(DoFn):
    """Runs any function as process()."""

    def __init__(self, process, tracker=None, watermark=None):
        self.do = process
        self.tracker = tracker
        self.watermark = watermark

    def get_initial_restriction(self, element):
        return TEN

    def create_tracker(self, element, restriction):
        return self.tracker(restriction) if self.tracker else super().create_tracker(element, restriction)

    def create_watermark_estimator(self, element, restriction):
        return ManualWatermark(0) if self.watermark is None else self.watermark

    def process(self, element, tracker, **side_inputs):
        return self.do(element, tracker, **side_inputs)


def count(element, tracker):
    """Claim and yield every offset."""
    for position in range(*tracker.current_restriction()):
        if not tracker.try_claim(position):
            return
        yield position


class Own(RestrictionTracker):
    """A user's own tracker of offsets, without a lock and without checks."""

    def __init__(self, restriction):
        self.start, self.stop = restriction
        self.at = self.start - 1

    def current_restriction(self):
        return OffsetRange(self.start, self.stop)

    def try_claim(self, position):
        if position >= self.stop:
            return False
        self.at = position
        return True

    def try_split(self, fraction_of_remainder):
        cut = self.at + max(1, int((self.stop - self.at) * fraction_of_remainder))
        if cut >= self.stop:
            return None
        stop, self.stop = self.stop, cut
        return OffsetRange(self.start, cut), OffsetRange(cut, stop)

    def check_done(self):
        if self.at < self.stop - 1:
            raise ValueError(f"stopped at {self.at}")

    def progress(self):
        return Progress(self.at + 1 - self.start, self.stop - 1 - self.at)


def quiet(claims, position):
    """Stand in for the runner that watches claims; with it the costly checks are on."""


def invoker_of(process, *, restriction=TEN, tracker=None, watermark=None, strict=True, **options):
    fn = Fn(process, tracker, watermark)
    options.setdefault("on_claim", quiet if strict else None)
    return Invoker(fn, "a.log", restriction, **options)


def split_at(at, fraction, process=count, **options):
    """Run with a split at a claim; return the invoker and its outputs."""

    def on_claim(claims, position):
        if claims == at:
            invoker.split(fraction)

    invoker = invoker_of(process, on_claim=on_claim, **options)
    return invoker, list(invoker.run())


BOTH = pytest.mark.parametrize("strict", [True, False], ids=["strict", "fast"])
TRACKERS = pytest.mark.parametrize(
    "tracker", [OffsetRangeTracker, Own, UnsplittableTracker], ids=lambda kind: kind.__name__
)


# A right process


@BOTH
@TRACKERS
def test_outputs_of_a_right_process(tracker, strict):
    """All outputs, in order; the primary is the whole, and nothing is left."""
    invoker = invoker_of(count, tracker=tracker, strict=strict)
    assert (list(invoker.run()), invoker.primary, invoker.residuals) == (list(range(10)), TEN, [])


def test_empty_restriction_needs_no_claim():
    """There is nothing to claim."""
    assert list(invoker_of(count, restriction=OffsetRange(3, 3)).run()) == []


def test_reading_ahead_before_the_first_claim_is_fine():
    """Opening and seeking before a claim is nobody's business."""

    def seeks(element, tracker):
        position = tracker.current_restriction().start + 7
        while tracker.try_claim(position):
            yield position
            position += 1

    assert list(invoker_of(seeks).run()) == [7, 8, 9]


def test_outputs_are_lazy():
    """A task holds one block, never the output."""
    outputs = invoker_of(count, restriction=OffsetRange(0, 2**64)).run()
    assert [next(outputs) for _ in range(3)] == [0, 1, 2]


def test_side_inputs_are_keyword_arguments():
    """By name."""

    def adds(element, tracker, *, bonus):
        return (position + bonus for position in count(element, tracker))

    assert list(invoker_of(adds, side_inputs={"bonus": 100}).run()) == list(range(100, 110))


@BOTH
@pytest.mark.parametrize("kind", [list, tuple, set, iter, frozenset, lambda rows: map(str, rows), lambda rows: None])
def test_process_may_return_any_iterable_or_none(kind, strict):
    """A generator is not required; None means no output."""

    def returns(element, tracker):
        return kind(list(count(element, tracker)))

    outputs = list(invoker_of(returns, strict=strict).run())
    assert sorted(map(int, outputs)) == ([] if kind(()) is None else list(range(10)))


@pytest.mark.parametrize("given", ["text", b"bytes", {"a": 1}, 5, 0, False, object], ids=repr)
def test_process_must_not_return_anything_else(given):
    """Text is iterable, but nobody means its letters."""
    with pytest.raises(
        InvalidTypeError, match=re.escape(f"it must yield records or return an iterable of them (got {given!r})")
    ):
        list(invoker_of(lambda element, tracker: given).run())


def test_on_claim_counts_successful_claims():
    """Called after each, with the number so far and the position; a refused claim is none."""
    seen = []

    def every_other(element, tracker):
        position = 3
        while tracker.try_claim(position):
            yield position
            position += 2

    list(invoker_of(every_other, on_claim=lambda *claim: seen.append(claim)).run())
    assert seen == [(1, 3), (2, 5), (3, 7), (4, 9)]


# The rules of the contract


@BOTH
@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([5, 3], "try_claim() positions must increase: got 3 after 5 in OffsetRange(start=0, stop=10)"),
        ([5, 5], "try_claim() positions must increase: got 5 after 5 in OffsetRange(start=0, stop=10)"),
        ([-1], "try_claim() positions must be >= the start: got -1 in OffsetRange(start=0, stop=10)"),
        (["5"], "try_claim() positions must be integers: got '5' in OffsetRange(start=0, stop=10)"),
        ([12, 13], "try_claim(13) after a refused claim of 12 in OffsetRange(start=0, stop=10)"),
    ],
)
def test_a_wrong_claim_raises(positions, message, strict):
    """A claim out of order, before the start, of a wrong type, or after a refused one."""

    def claims(element, tracker):
        for position in positions:
            tracker.try_claim(position)
        yield from ()

    with pytest.raises(ClaimError, match=re.escape(message)):
        list(invoker_of(claims, strict=strict).run())


@BOTH
def test_a_users_tracker_need_not_check_for_claims_after_a_refusal(strict):
    """The rule is kept whatever the tracker does."""

    def goes_on(element, tracker):
        for position in range(20):
            tracker.try_claim(position)
        yield from ()

    message = "try_claim(11) after a refused claim in OffsetRange(start=0, stop=10)"
    with pytest.raises(ClaimError, match=re.escape(message)):
        list(invoker_of(goes_on, tracker=Own, strict=strict).run())


@TRACKERS
def test_output_after_a_refused_claim_raises(tracker):
    """That block is someone else's."""

    def careless(element, tracker):
        for position in range(20):
            claimed = tracker.try_claim(position)
            yield position
            if not claimed:
                return

    with pytest.raises(
        OutputError, match=re.escape("it gave 10 after a refused claim; that block belongs to another work item")
    ):
        list(invoker_of(careless, tracker=tracker).run())


@TRACKERS
def test_output_before_the_first_claim_raises(tracker):
    """What is not claimed may be read by someone else too."""

    def header_first(element, tracker):
        yield "header"
        yield from count(element, tracker)

    with pytest.raises(OutputError, match=re.escape("it gave 'header' before its first claim; claim a block first")):
        list(invoker_of(header_first, tracker=tracker).run())


@BOTH
def test_output_without_any_claim_in_an_empty_restriction_raises(strict):
    """An empty work item has no output, for a checkpoint may leave any number of them."""

    def always(element, tracker):
        yield "footer"

    with pytest.raises(OutputError, match="before its first claim"):
        list(invoker_of(always, restriction=OffsetRange(3, 3), strict=strict).run())


# Outputs outside claims, where nobody looks at each output: they are counted.

KEY_OF = {ByteKeyRangeTracker: lambda position: bytes([position + 1])}
COUNTED = pytest.mark.parametrize(
    "tracker",
    [OffsetRangeTracker, GrowableOffsetRangeTracker, ByteKeyRangeTracker, Own, UnsplittableTracker],
    ids=lambda kind: kind.__name__,
)


def counted_invoker_of(process, tracker):
    """Return an invoker that counts, and `process` with claims in the words of the tracker."""
    key_of = KEY_OF.get(tracker, lambda position: position)
    restriction = ByteKeyRange(key_of(0), key_of(10)) if tracker in KEY_OF else TEN

    def in_its_words(element, view):
        return process(lambda position: view.try_claim(key_of(position)))

    return invoker_of(in_its_words, restriction=restriction, tracker=tracker, strict=False)


@COUNTED
@pytest.mark.parametrize("early", [1, 2, 10])
def test_outputs_before_the_first_claim_are_counted(early, tracker):
    """The first claim raises, so that no more of the work is done in vain."""
    claims = []

    def early_by(try_claim):
        yield from range(early)
        claims.append("tried")
        claims.append(try_claim(0))

    outputs = counted_invoker_of(early_by, tracker).run()
    message = f"it gave {early} output{'s' * (early > 1)} before its first claim; claim a block first"
    with pytest.raises(OutputError, match=re.escape(message)):
        list(outputs)
    assert claims == ["tried"]


@COUNTED
@pytest.mark.parametrize("late", [1, 2, 10])
def test_outputs_after_a_refused_claim_are_counted(late, tracker):
    """The message names the claim, and how many outputs are someone else's."""

    def late_by(try_claim):
        for position in range(11):
            if not try_claim(position):
                yield from range(late)
                return
            yield position

    message = f"it gave {late} output{'s' * (late > 1)} after a refused claim, of "
    with pytest.raises(OutputError, match=re.escape(message)):
        list(counted_invoker_of(late_by, tracker).run())


@COUNTED
def test_outputs_before_each_claim_are_counted_after_a_split(tracker):
    """The block that was yielded before its claim was refused is someone else's."""

    def hasty(try_claim):
        claimed = try_claim(0)
        for position in range(1, 11):
            yield position - 1
            claimed = try_claim(position)
            if not claimed:
                yield position
                return

    invoker = counted_invoker_of(hasty, tracker)
    outputs = invoker.run()
    assert [next(outputs) for _ in range(3)] == [0, 1, 2]
    assert invoker.split(0) is not None
    with pytest.raises(OutputError, match=re.escape("it gave 1 output after a refused claim")):
        list(outputs)


@COUNTED
def test_outputs_of_a_right_process_are_counted_without_a_complaint(tracker):
    """Also those of a block that was claimed last, and of a split."""

    def right(try_claim):
        for position in range(11):
            if not try_claim(position):
                return
            yield from (position, position)

    invoker = counted_invoker_of(right, tracker)
    outputs = invoker.run()
    first = [next(outputs) for _ in range(7)]
    invoker.split(0)
    assert (first + list(outputs), invoker.records) == ([0, 0, 1, 1, 2, 2, 3, 3], 8)


@COUNTED
def test_outputs_that_are_all_returned_at_once_may_come_after_a_refused_claim(tracker):
    """A list was made while process() ran: when, nobody can tell."""

    def all_at_once(try_claim):
        return [position for position in range(11) if try_claim(position)]

    assert list(counted_invoker_of(all_at_once, tracker).run()) == list(range(10))


@COUNTED
def test_outputs_of_a_generator_made_after_the_first_claim_are_counted(tracker):
    """A process() that claims, then returns a generator, is held to the same."""

    def claims_then_returns(try_claim):
        try_claim(0)

        def outputs():
            yield 0
            yield try_claim(10)

        return outputs()

    with pytest.raises(OutputError, match=re.escape("it gave 1 output after a refused claim")):
        list(counted_invoker_of(claims_then_returns, tracker).run())


@COUNTED
def test_outputs_that_are_returned_without_any_claim_raise(tracker):
    """A list too; to have claimed nothing is the smaller fault."""
    with pytest.raises(OutputError, match=re.escape("it gave 2 outputs before its first claim")):
        list(counted_invoker_of(lambda try_claim: [1, 2], tracker).run())


def test_an_output_before_the_first_claim_raises_though_process_catches_all():
    """The error comes again at the end."""

    def catches(element, tracker):
        yield "header"
        for position in range(10):
            with contextlib.suppress(OutputError):
                tracker.try_claim(position)
            yield position

    with pytest.raises(OutputError, match="before its first claim"):
        list(invoker_of(catches, strict=False).run())


def test_an_output_after_all_was_deferred_raises_where_outputs_are_counted():
    """Nothing was claimed, so nothing may be said."""

    def talks(element, tracker):
        tracker.defer_remainder()
        yield "nothing there yet"

    with pytest.raises(OutputError, match="before its first claim"):
        list(invoker_of(talks, strict=False).run())


def test_an_output_after_deferring_the_rest_belongs_to_what_was_claimed():
    """Deferring is no refusal: the block that was claimed last may still be told."""

    def defers(element, tracker):
        tracker.try_claim(0)
        tracker.defer_remainder()
        yield 0

    assert list(invoker_of(defers, strict=False).run()) == [0]


@BOTH
def test_unclaimed_work_raises(strict):
    """The message names what is unclaimed and what to do."""

    def lazy(element, tracker):
        tracker.try_claim(3)
        yield 3

    message = (
        "Fn.process() on OffsetRange(start=0, stop=10) of element 'a.log': [4, 10) of OffsetRange(start=0, stop=10) is "
        "unclaimed, that work would be lost. Claim until try_claim() returns False"
    )
    with pytest.raises(UnclaimedWorkError, match=re.escape(message)):
        list(invoker_of(lazy, strict=strict).run())


@BOTH
@pytest.mark.parametrize("given", [None, [], ()], ids=repr)
def test_a_process_that_does_nothing_raises(given, strict):
    """Work that nobody claimed would be lost."""
    with pytest.raises(UnclaimedWorkError, match=re.escape("[0, 10) of OffsetRange(start=0, stop=10) is unclaimed")):
        list(invoker_of(lambda element, tracker: given, strict=strict).run())


@BOTH
def test_unclaimed_work_of_a_users_tracker_raises(strict):
    """Whatever its check_done() raises is the cause."""

    def lazy(element, tracker):
        tracker.try_claim(3)
        yield 3

    with pytest.raises(ProcessError, match="stopped at 3") as caught:
        list(invoker_of(lazy, tracker=Own, strict=strict).run())
    assert type(caught.value.__cause__) is ValueError


@BOTH
def test_an_exception_of_process_keeps_its_cause(strict):
    """The message names DoFn, element, restriction and error; the original exception is the cause."""
    error = KeyError("price")

    def broken(element, tracker):
        tracker.try_claim(0)
        yield 0
        raise error

    message = "Fn.process() on OffsetRange(start=0, stop=10) of element 'a.log' raised KeyError: 'price'"
    with pytest.raises(ProcessError, match=re.escape(message)) as caught:
        list(invoker_of(broken, strict=strict).run())
    assert caught.value.__cause__ is error


@BOTH
def test_an_exception_of_a_process_that_is_no_generator_keeps_its_cause(strict):
    """It is raised at the call."""

    def broken(element, tracker):
        raise OSError("disk")

    with pytest.raises(ProcessError, match="raised OSError: disk") as caught:
        list(invoker_of(broken, strict=strict).run())
    assert type(caught.value.__cause__) is OSError


@BOTH
@pytest.mark.parametrize(
    ("tracker", "restriction", "claims", "message"),
    [
        (OffsetRangeTracker, TEN, [1, 0, *range(2, 10)], "must increase: got 0 after 1"),
        (OffsetRangeTracker, TEN, [-1, *range(10)], "must be >= the start: got -1"),
        (OffsetRangeTracker, TEN, ["0", *range(10)], "must be integers: got '0'"),
        (OffsetRangeTracker, TEN, [*range(12)], "try_claim(11) after a refused claim of 10"),
        (GrowableOffsetRangeTracker, TEN, [1, 0, *range(2, 10)], "must increase: got 0 after 1"),
        (UnsplittableTracker, TEN, [1, 0, *range(2, 10)], "must increase: got 0 after 1"),
        (Own, TEN, [*range(12)], "try_claim(11) after a refused claim"),
        (ByteKeyRangeTracker, ByteKeyRange(b"a", b"c"), [b"b", b"a", b"c"], "must increase: got b'a' after b'b'"),
    ],
)
def test_a_claim_error_that_process_swallows_comes_again_at_the_end(tracker, restriction, claims, message, strict):
    """What it did not claim then would be lost, and the later claims would hide it."""

    def swallows(element, tracker):
        for position in claims:
            with contextlib.suppress(Exception):
                if tracker.try_claim(position):
                    yield position

    with pytest.raises(ClaimError, match=re.escape(message)):
        list(invoker_of(swallows, tracker=tracker, restriction=restriction, strict=strict).run())


@BOTH
@pytest.mark.parametrize("tracker", [OffsetRangeTracker, ByteKeyRangeTracker])
def test_an_error_of_the_older_words_that_process_swallows_comes_again_too(tracker, strict):
    """Here of a record that has no split point before it."""
    restriction, first, end = (TEN, 0, 9) if tracker is OffsetRangeTracker else (ByteKeyRange(b"a"), b"a", b"")

    def swallows(element, tracker):
        with contextlib.suppress(ClaimError):
            tracker.try_return_record_at(False, first)
        tracker.try_claim(first)
        yield first
        tracker.try_claim(end)

    with pytest.raises(ClaimError, match="needs a split point before it"):
        list(invoker_of(swallows, tracker=tracker, restriction=restriction, strict=strict).run())


@BOTH
def test_an_error_of_deferring_that_process_swallows_comes_again_at_the_end(strict):
    """Whoever asked to wait is not run to the end as if nothing had been asked."""

    def swallows(element, tracker):
        with contextlib.suppress(InvalidValueError):
            tracker.defer_remainder(-1)
        yield from count(element, tracker)

    with pytest.raises(InvalidValueError, match=re.escape("(got -1)")):
        list(invoker_of(swallows, strict=strict).run())


@pytest.mark.parametrize("tracker", [lambda restriction: None, lambda restriction: restriction, lambda restriction: 5])
def test_create_tracker_must_return_a_tracker(tracker):
    """The message names the method."""
    where = "Fn.create_tracker() on OffsetRange(start=0, stop=10) of element 'a.log'"
    message = f"{where}: it must return an instance of RestrictionTracker"
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        invoker_of(count, tracker=tracker)


def test_an_exception_of_create_tracker_keeps_its_cause():
    """As one of process()."""

    def broken(restriction):
        raise OSError("disk")

    with pytest.raises(ProcessError, match=re.escape("Fn.create_tracker() on OffsetRange(start=0, stop=10) of el")):
        invoker_of(count, tracker=broken)


# What process sees


@pytest.mark.parametrize("name", ["try_split", "check_done", "progress", "try_split_at_position", "typo"])
@TRACKERS
def test_the_view_does_not_offer(name, tracker):
    """Splitting, and saying that all is done, are the runner's."""
    seen = []

    def looks(element, tracker):
        seen.append(hasattr(tracker, name))
        yield from count(element, tracker)

    list(invoker_of(looks, tracker=tracker).run())
    assert seen == [False]


def test_the_view_says_what_it_offers():
    """The message helps someone who looks for a method."""

    def looks(element, tracker):
        tracker.try_split(0.5)
        yield

    with pytest.raises(
        ProcessError, match=re.escape("the tracker in process() has no 'try_split': it offers claims(),")
    ):
        list(invoker_of(looks).run())


@pytest.mark.parametrize("restriction", [TEN, OffsetRange(0, UNBOUNDED)], ids=repr)
@TRACKERS
def test_the_view_tells_restriction_and_bound(restriction, tracker):
    """current_restriction() and is_bounded() are the tracker's."""
    seen = []

    def looks(element, tracker):
        seen.append((tracker.current_restriction(), tracker.is_bounded()))
        tracker.defer_remainder()
        yield from ()

    if restriction.stop is UNBOUNDED and tracker is not OffsetRangeTracker:
        return
    kind = GrowableOffsetRangeTracker if restriction.stop is UNBOUNDED else tracker
    list(invoker_of(looks, tracker=kind, restriction=restriction).run())
    assert seen == [(restriction, restriction.stop is not UNBOUNDED)]


def test_the_view_speaks_the_older_words():
    """A reader of seed 000 works on it."""

    def reads(element, tracker):
        for block in (0, 4, 8):
            if not tracker.try_return_record_at(True, block):
                return
            yield block
            tracker.try_return_record_at(False, block + 1)
            yield block + 1, tracker.fraction_consumed()
        tracker.try_return_record_at(True, tracker.stop_position())

    assert list(invoker_of(reads).run()) == [0, (1, 0.1), 4, (5, 0.5), 8, (9, 0.9)]


def test_the_older_words_count_as_claims():
    """A record at a split point is a claim, another is not."""
    seen = []

    def reads(element, tracker):
        tracker.try_return_record_at(True, 0)
        tracker.try_return_record_at(False, 1)
        tracker.try_return_record_at(True, 9)
        return ()

    list(invoker_of(reads, on_claim=lambda *claim: seen.append(claim)).run())
    assert seen == [(1, 0), (2, 9)]


# Splits


@TRACKERS
@pytest.mark.parametrize("at", range(1, 11))
def test_split_at_0_stops_at_the_next_claim(at, tracker):
    """What is claimed is the primary's, the rest is the residual's."""
    invoker, outputs = split_at(at, 0, tracker=tracker)
    residuals = [] if at == 10 else [Residual(OffsetRange(at, 10), 0, 0)]
    assert (outputs, invoker.primary, invoker.residuals) == (list(range(at)), OffsetRange(0, at), residuals)


@pytest.mark.parametrize("tracker", [OffsetRangeTracker, Own])
@pytest.mark.parametrize("fraction", [0, 0.3, 0.5, 0.9, 1])
@pytest.mark.parametrize("at", range(1, 11))
def test_every_split_gives_the_outputs_of_the_unsplit_run(at, fraction, tracker):
    """After every claim and at every fraction: primary and residual give each output once, in order."""
    invoker, outputs = split_at(at, fraction, tracker=tracker)
    for residual in invoker.residuals:
        outputs += invoker_of(count, restriction=residual.restriction, tracker=tracker).run()
    assert outputs == list(range(10))


def test_repeated_splits_are_listed_in_the_order_of_the_cuts():
    """The last lies next to the primary."""

    def on_claim(claims, position):
        invoker.split(0.5)

    invoker = invoker_of(count, on_claim=on_claim)
    outputs = list(invoker.run())
    bounds = [tuple(residual.restriction) for residual in invoker.residuals]
    assert (outputs, bounds) == ([0, 1, 2], [(5, 10), (3, 5)])


@TRACKERS
def test_no_split_before_the_first_claim(tracker):
    """Between hand-out and first claim every request is refused (b/32044)."""
    invoker = invoker_of(count, tracker=tracker)
    assert (invoker.split(0), invoker.split(0.5), list(invoker.run())) == (None, None, list(range(10)))


@TRACKERS
def test_no_split_after_the_end(tracker):
    """What has ended is pinned."""
    invoker = invoker_of(count, tracker=tracker)
    list(invoker.run())
    assert (invoker.split(0), invoker.residuals) == (None, [])


def test_no_split_after_a_refused_claim():
    """Nothing is left."""
    answers = []

    def refused(element, tracker):
        tracker.try_claim(10)
        answers.append(invoker.split(0))
        yield from ()

    invoker = invoker_of(refused)
    list(invoker.run())
    assert answers == [None]


@pytest.mark.parametrize("fraction", [-1, 2, float("nan")])
def test_split_at_a_bad_fraction_raises(fraction):
    """It is not taken for a declined split."""
    with pytest.raises(InvalidValueError, match="fraction_of_remainder must lie in"):
        split_at(3, fraction)


@pytest.mark.parametrize("progress", [Progress(None, None), Progress("1", None), Progress(1, "2"), (1, 2)], ids=repr)
def test_progress_that_is_no_numbers_is_an_error_of_the_tracker(progress):
    """Named, where it would stop a runner that knows nothing of it."""
    tracker = OffsetRangeTracker((0, 10))
    tracker.progress = lambda: progress
    with pytest.raises(InvalidTypeError, match=r"Progress\(completed, remaining\)"):
        invoker_of(count, tracker=lambda restriction: tracker).progress()


@TRACKERS
def test_progress_is_the_trackers(tracker):
    """Asked for at any time."""
    invoker = invoker_of(count, tracker=tracker)
    outputs = invoker.run()
    before = invoker.progress().remaining
    for _ in range(4):
        next(outputs)
    assert (before, invoker.progress().remaining < before) == (10, True)


@pytest.fixture
def switching():
    """Let threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def race(act, **options):
    """Run 300 offsets in a thread while this one does ``act`` with the invoker, from the first claim to the end."""
    started = threading.Event()

    def waits(element, tracker):
        for position in count(element, tracker):
            yield position
            started.wait()

    invoker = invoker_of(waits, restriction=OffsetRange(0, 300), **options)
    outputs = []
    runner = threading.Thread(target=lambda: outputs.extend(invoker.run()))
    runner.start()
    while runner.is_alive():
        act(invoker)
        started.set()
    runner.join()
    return invoker, outputs


@BOTH
@pytest.mark.parametrize("tracker", [OffsetRangeTracker, Own])
def test_splits_from_another_thread(tracker, strict, switching):
    """While one thread runs process() another splits: each position comes once, over primary and residuals."""
    splits, wrong = 0, []
    for trial in range(4000):
        if trial >= 40 and splits:  # on a busy machine the other thread may come too late, time after time
            break
        invoker, outputs = race(lambda invoker: invoker.split(0.9), tracker=tracker, strict=strict)
        splits += len(invoker.residuals)
        residuals = [residual.restriction for residual in reversed(invoker.residuals)]
        found = outputs + [position for residual in residuals for position in range(*residual)]
        if found != list(range(300)) or outputs != list(range(*invoker.primary)):
            wrong.append(trial)
    assert wrong == []
    assert splits > 0


# A user's tracker that splits wrongly


def splitting(answer, shrink_to=None):
    """Return a kind of tracker whose try_split() answers this, and that then holds [0, shrink_to)."""

    class Splits(Own):
        def try_split(self, fraction_of_remainder):
            if shrink_to is not None:
                self.stop = shrink_to
            if isinstance(answer, Exception):
                raise answer
            return answer

    return Splits


@pytest.mark.parametrize(
    ("answer", "shrink_to", "message"),
    [
        ((OffsetRange(0, 6), OffsetRange(4, 10)), 6, "OffsetRange(start=4, stop=10) overlaps or repeats 6"),
        ((OffsetRange(0, 4), OffsetRange(5, 10)), 4, "OffsetRange(start=5, stop=10) leaves a gap after 4"),
        ((OffsetRange(0, 4), OffsetRange(4, 9)), 4, "stop at 9, not at the stop of"),
        ((OffsetRange(0, 12), OffsetRange(12, 12)), 12, "stop at 12, not at the stop of"),
        ((OffsetRange(0, 10), OffsetRange(4, 10)), 10, "overlaps or repeats 10"),
        ((OffsetRange(0, 4), OffsetRange(4, 10)), None, "overlaps or repeats 10"),
        ((OffsetRange(4, 10), OffsetRange(0, 4)), 4, "leaves a gap after 0"),
        ((OffsetRange(0, 4), None), 4, "None is not a part of"),
    ],
)
def test_a_split_that_does_not_tile_raises(answer, shrink_to, message):
    """An overlap, a gap, a primary that grew or never shrank, swapped sides, no residual."""
    with pytest.raises(SplitError, match=re.escape(message)):
        split_at(3, 0.5, tracker=splitting(answer, shrink_to))


@attrs.frozen
class Days:
    """A user's restriction that checks nothing."""

    start: int
    stop: int


def test_a_primary_that_grew_is_caught_in_a_users_restriction_too():
    """A residual that runs backwards does not make up for a primary that grew."""

    class Grows(Own):
        def current_restriction(self):
            return Days(self.start, self.stop)

        def try_split(self, fraction_of_remainder):
            self.stop = 12
            return Days(0, 12), Days(12, 10)

    def days(element, tracker):
        position = 0
        while tracker.try_claim(position):
            yield position
            position += 1

    with pytest.raises(SplitError):
        split_at(3, 0.5, days, tracker=lambda days: Grows(OffsetRange(days.start, days.stop)), restriction=Days(0, 10))


@pytest.mark.parametrize(
    "answer", [False, True, 0, (), (OffsetRange(0, 4),), [OffsetRange(0, 4), OffsetRange(4, 10)], "ab"], ids=repr
)
def test_a_split_that_is_no_pair_raises(answer):
    """Only None declines; False is not None."""
    message = "Fn.try_split() on OffsetRange(start=0, stop=10) of element 'a.log': try_split() must return (primary, "
    with pytest.raises(SplitError, match=re.escape(message)) as caught:
        split_at(3, 0.5, tracker=splitting(answer))
    assert f"(got {answer!r})" in str(caught.value)


def test_an_exception_inside_a_split_raises():
    """It is not taken for a declined split, and it keeps its cause."""
    error = ZeroDivisionError("by the author")
    with pytest.raises(ProcessError, match=re.escape("raised ZeroDivisionError: by the author")) as caught:
        split_at(3, 0.5, tracker=splitting(error))
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (ZeroDivisionError("by the author"), ProcessError),
        (False, SplitError),
        ((OffsetRange(0, 6), OffsetRange(4, 10)), SplitError),
    ],
)
def test_a_bad_split_from_another_thread_fails_the_run(answer, kind):
    """Both the caller of split() and run() raise it."""
    invoker = invoker_of(count, tracker=splitting(answer), strict=False)
    outputs = invoker.run()
    next(outputs)
    caught = []

    def split():
        try:
            invoker.split(0.5)
        except Exception as error:
            caught.append(type(error))

    splitter = threading.Thread(target=split)
    splitter.start()
    splitter.join()
    with pytest.raises(kind):
        list(outputs)
    assert caught == [kind]


def test_a_users_tracker_sees_one_call_at_a_time(switching):
    """A tracker of one's own needs no lock: claims, splits and progress are serialised."""
    inside, most = [], []

    class Nosy(Own):
        def _note(self):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

        def try_claim(self, position):
            self._note()
            return super().try_claim(position)

        def try_split(self, fraction_of_remainder):
            self._note()
            return super().try_split(fraction_of_remainder)

        def progress(self):
            self._note()
            return super().progress()

    asked = []

    def ask(invoker):
        asked.append(invoker.progress())
        invoker.split(0.99)

    for _ in range(10):
        race(ask, tracker=Nosy)
    assert (max(most), len(asked) > 10) == (1, True)


# Falsy and custom restrictions


@attrs.frozen
class Todo:
    """A user's restriction: names to do, falsy when there is none, proven by itself."""

    names: tuple

    def __bool__(self):
        return False

    def is_tiled_by(self, parts):
        return tuple(name for part in parts for name in part.names) == self.names


class TodoTracker(RestrictionTracker):
    def __init__(self, todo):
        self.todo = todo
        self.done = 0

    def current_restriction(self):
        return self.todo

    def try_claim(self, position):
        if position >= len(self.todo.names):
            return False
        self.done = position + 1
        return True

    def try_split(self, fraction_of_remainder):
        names = self.todo.names
        self.todo = Todo(names[: self.done])
        return self.todo, Todo(names[self.done :])

    def check_done(self):
        if self.done < len(self.todo.names):
            raise ValueError("not done")


def names_of(element, tracker):
    for number, name in enumerate(tracker.current_restriction().names):
        if not tracker.try_claim(number):
            return
        yield name


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_falsy_residual_is_a_residual(at):
    """Absent only if it is None: an empty custom object is work."""
    whole = Todo(("x", "y", "z"))
    invoker, outputs = split_at(at, 0, names_of, restriction=whole, tracker=TodoTracker)
    assert (outputs, invoker.primary, [residual.restriction for residual in invoker.residuals]) == (
        list(whole.names[:at]),
        Todo(whole.names[:at]),
        [Todo(whole.names[at:])],
    )


def test_a_falsy_residual_that_was_deferred_is_a_residual():
    """As with a split."""

    def defers(element, tracker):
        tracker.try_claim(0)
        yield "x"
        tracker.defer_remainder()

    invoker = invoker_of(defers, restriction=Todo(("x", "y")), tracker=TodoTracker)
    assert (list(invoker.run()), [r.restriction for r in invoker.residuals]) == (["x"], [Todo(("y",))])


class MistypedTracker(Own):
    """Misspells an attribute where it says whether all is done."""

    def check_done(self):
        if self.nxet < self.stop:
            raise ValueError("not done")


def test_a_bug_in_check_done_is_not_taken_for_work_that_is_left():
    """Such work would be deferred again and again, and nobody would see the cause."""

    def defers(element, tracker):
        tracker.defer_remainder()
        return ()

    with pytest.raises(ProcessError, match="AttributeError: 'MistypedTracker' object has no attribute 'nxet'"):
        list(invoker_of(defers, tracker=MistypedTracker).run())


def test_a_falsy_restriction_that_is_deferred_whole_is_a_residual():
    """As with a split."""

    def defers(element, tracker):
        tracker.defer_remainder()
        return ()

    whole = Todo(("x", "y"))
    invoker = invoker_of(defers, restriction=whole, tracker=TodoTracker)
    assert (list(invoker.run()), [r.restriction for r in invoker.residuals], invoker.primary) == ([], [whole], None)


# Defer


@BOTH
@TRACKERS
def test_defer_after_claims(tracker, strict):
    """What is unclaimed is a residual with the delay; the primary is what was claimed."""

    def defers(element, tracker):
        for position in range(4):
            tracker.try_claim(position)
            yield position
        tracker.defer_remainder(2.5)

    invoker = invoker_of(defers, tracker=tracker, strict=strict)
    assert (list(invoker.run()), invoker.primary, invoker.residuals) == (
        [0, 1, 2, 3],
        OffsetRange(0, 4),
        [Residual(OffsetRange(4, 10), 2.5, 0, True)],
    )


@BOTH
@TRACKERS
@pytest.mark.parametrize(("fraction", "waits"), [(0, True), (Fraction(1, 2), False)])
def test_defer_after_a_runner_has_cut_off_the_rest(tracker, strict, fraction, waits):
    """If that was all there was the delay holds for it; of what another took over before it says nothing."""

    def defers(element, tracker):
        for position in range(4):
            tracker.try_claim(position)
            yield position
        invoker.split(fraction)
        for position in range(4, tracker.current_restriction().stop):
            tracker.try_claim(position)
            yield position
        tracker.defer_remainder(2.5)

    invoker = invoker_of(defers, tracker=tracker, strict=strict)
    assert len(list(invoker.run())) == invoker.primary.stop
    assert {(rest.delay_seconds, rest.deferred) for rest in invoker.residuals} <= {(2.5, True) if waits else (0, False)}
    assert len(invoker.residuals) == 1 or (tracker is UnsplittableTracker and not waits)


def test_of_two_parts_that_a_runner_has_cut_off_the_delay_holds_for_the_one_behind_what_was_claimed():
    """The other one may have run by then."""

    def defers(element, tracker):
        tracker.try_claim(0)
        yield 0
        invoker.split(Fraction(1, 2))
        invoker.split(0)
        tracker.defer_remainder(2.5)

    invoker = invoker_of(defers)
    assert list(invoker.run()) == [0]
    assert [(rest.restriction, rest.delay_seconds, rest.deferred) for rest in invoker.residuals] == [
        (OffsetRange(5, 10), 0, False),
        (OffsetRange(1, 5), 2.5, True),
    ]


@BOTH
@pytest.mark.parametrize(
    ("tracker", "restriction"),
    [
        (OffsetRangeTracker, TEN),
        (Own, TEN),
        (UnsplittableTracker, TEN),
        (splitting(None), TEN),
        (GrowableOffsetRangeTracker, OffsetRange(5, UNBOUNDED)),
        (ByteKeyRangeTracker, ByteKeyRange()),
        (ByteKeyRangeTracker, ByteKeyRange(b"a", b"b")),
    ],
)
def test_defer_before_any_claim_defers_all(tracker, restriction, strict):
    """ "Nothing there yet" is legal with every tracker: the whole restriction is the residual."""

    def defers(element, tracker):
        tracker.defer_remainder(60)
        return ()

    invoker = invoker_of(defers, tracker=tracker, restriction=restriction, strict=strict)
    assert (list(invoker.run()), invoker.primary, invoker.residuals) == ([], None, [Residual(restriction, 60, 0, True)])


@BOTH
@TRACKERS
def test_defer_twice_defers_once(tracker, strict):
    """Nothing was left for the second."""

    def defers(element, tracker):
        tracker.try_claim(0)
        yield 0
        tracker.defer_remainder(1)
        tracker.defer_remainder(2)

    invoker = invoker_of(defers, tracker=tracker, strict=strict)
    list(invoker.run())
    assert invoker.residuals == [Residual(OffsetRange(1, 10), 1, 0, True)]


@BOTH
@TRACKERS
def test_defer_twice_before_any_claim_defers_once(tracker, strict):
    """All was deferred by the first."""

    def defers(element, tracker):
        tracker.defer_remainder(1)
        tracker.defer_remainder(2)
        return ()

    invoker = invoker_of(defers, tracker=tracker, strict=strict)
    list(invoker.run())
    assert invoker.residuals == [Residual(TEN, 1, 0, True)]


@TRACKERS
def test_defer_after_the_last_claim_defers_nothing(tracker):
    """Not an error: a runner's split may have taken all that was left."""

    def defers(element, tracker):
        yield from count(element, tracker)
        tracker.defer_remainder()

    invoker = invoker_of(defers, tracker=tracker)
    assert (list(invoker.run()), invoker.residuals, invoker.primary) == (list(range(10)), [], TEN)


@pytest.mark.parametrize("tracker", [OffsetRangeTracker, Own])
def test_defer_after_a_runners_split_defers_what_is_left(tracker):
    """The split's residual and the deferred one follow each other."""

    def defers(element, tracker):
        for position in range(3):
            tracker.try_claim(position)
            yield position
        tracker.defer_remainder(5)

    invoker, outputs = split_at(1, 0.6, defers, tracker=tracker)
    assert (outputs, [(tuple(r.restriction), r.delay_seconds) for r in invoker.residuals]) == (
        [0, 1, 2],
        [((6, 10), 0), ((3, 6), 5)],
    )


def test_defer_in_an_empty_restriction_defers_nothing():
    """Nothing is there to defer."""

    def defers(element, tracker):
        tracker.defer_remainder()
        return ()

    invoker = invoker_of(defers, restriction=OffsetRange(3, 3))
    assert (list(invoker.run()), invoker.residuals, invoker.primary) == ([], [], OffsetRange(3, 3))


@BOTH
@TRACKERS
def test_defer_after_a_refused_claim_raises(tracker, strict):
    """Nothing is the attempt's to defer any more."""

    def defers(element, tracker):
        tracker.try_claim(9)
        tracker.try_claim(10)
        tracker.defer_remainder()
        return ()

    with pytest.raises(DeferError, match=re.escape("defer_remainder() after a refused claim")):
        list(invoker_of(defers, tracker=tracker, strict=strict).run())


@BOTH
def test_a_defer_that_the_tracker_cannot_honour_raises(strict):
    """The tracker refuses 0 while work remains."""

    def defers(element, tracker):
        tracker.try_claim(0)
        tracker.defer_remainder()
        return ()

    with pytest.raises(DeferError, match=re.escape("try_split(0) gave None although work remains")):
        list(invoker_of(defers, tracker=splitting(None), strict=strict).run())


def test_a_defer_through_a_tracker_that_splits_to_false_raises():
    """Beam's UnsplittableTracker returns False where a pair or None was promised."""

    def defers(element, tracker):
        tracker.try_claim(0)
        tracker.defer_remainder()
        return ()

    with pytest.raises(SplitError, match=re.escape("try_split() must return (primary, residual) or None (got False)")):
        list(invoker_of(defers, tracker=splitting(False)).run())


def test_a_defer_through_a_tracker_that_splits_wrongly_raises():
    """What is deferred must tile with what was claimed."""

    def defers(element, tracker):
        tracker.try_claim(0)
        tracker.defer_remainder()
        return ()

    with pytest.raises(SplitError, match="leaves a gap after 4"):
        list(invoker_of(defers, tracker=splitting((OffsetRange(0, 4), OffsetRange(5, 10)), 4)).run())


@BOTH
@TRACKERS
@pytest.mark.parametrize("claims", [0, 1])
@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), "5", None])
def test_a_defer_with_a_bad_delay_raises(delay, claims, tracker, strict):
    """The delay is a finite number >= 0, before and after claims."""

    def defers(element, tracker):
        for position in range(claims):
            tracker.try_claim(position)
        tracker.defer_remainder(delay)
        return ()

    with pytest.raises(InvalidValueError, match=re.escape(f"must be finite and >= 0 (got {delay!r})")):
        list(invoker_of(defers, tracker=tracker, strict=strict).run())


@BOTH
@NUMBER_KINDS
@TRACKERS
def test_a_delay_of_any_kind_reaches_the_runner_as_a_plain_number(tracker, kind, strict):
    """So that it can be sent, and written into a journal."""

    def defers(element, tracker):
        tracker.defer_remainder(kind(3))
        return ()

    invoker = invoker_of(defers, tracker=tracker, strict=strict)
    list(invoker.run())
    (delay,) = (residual.delay_seconds for residual in invoker.residuals)
    assert (delay, type(delay) in (int, float)) == (3, True)


@BOTH
@TRACKERS
def test_a_claim_after_deferring_is_not_granted(tracker, strict):
    """What was deferred will be run by someone else."""
    answers = []

    def goes_on(element, tracker):
        tracker.try_claim(0)
        tracker.defer_remainder()
        answers.append(tracker.try_claim(1))
        return ()

    list(invoker_of(goes_on, tracker=tracker, strict=strict).run())
    assert answers == [False]


@BOTH
@TRACKERS
def test_a_claim_after_deferring_all_is_not_granted(tracker, strict):
    """Refused or raised, but never granted."""
    answers = []

    def goes_on(element, tracker):
        tracker.defer_remainder()
        try:
            answers.append(tracker.try_claim(0))
        except ClaimError:
            answers.append(False)
        return ()

    with contextlib.suppress(ClaimError):
        list(invoker_of(goes_on, tracker=tracker, strict=strict).run())
    assert answers == [False]


def test_output_after_deferring_all_raises():
    """Nothing was claimed, so nothing may be said."""

    def talks(element, tracker):
        tracker.defer_remainder()
        yield "nothing there yet"

    with pytest.raises(OutputError, match="before its first claim"):
        list(invoker_of(talks).run())


def test_a_runner_cannot_split_what_was_deferred_whole():
    """There is nothing left to split."""
    answers = []

    def defers(element, tracker):
        tracker.defer_remainder()
        answers.append(invoker.split(0))
        return ()

    invoker = invoker_of(defers)
    list(invoker.run())
    assert (answers, len(invoker.residuals)) == ([None], 1)


# Watermarks


def moves(element, tracker):
    for position in range(*tracker.current_restriction()):
        if not tracker.try_claim(position):
            return
        tracker.watermark.advance(position * 10)
        yield position


def test_process_reaches_the_estimator():
    """tracker.watermark is what create_watermark_estimator() gave."""
    watermark = ManualWatermark(-1)
    list(invoker_of(moves, watermark=watermark).run())
    assert watermark.current() == 90


def test_a_residual_gets_the_state_from_the_split():
    """Captured before the split, in the middle of the run (BEAM-7473)."""
    invoker, _ = split_at(4, 0, moves)
    assert invoker.residuals == [Residual(OffsetRange(4, 10), 0, 20)]


def test_the_state_is_captured_before_the_tracker_splits():
    """Whatever a split does to the estimator comes too late for the residual."""
    watermark = ManualWatermark(7)

    class Moves(Own):
        def try_split(self, fraction_of_remainder):
            watermark.advance(1000)
            return super().try_split(fraction_of_remainder)

    invoker, _ = split_at(4, 0, tracker=Moves, watermark=watermark)
    assert [residual.watermark for residual in invoker.residuals] == [7]


@pytest.mark.parametrize("state", [5, 0])
def test_an_estimator_goes_on_from_a_state(state):
    """Also from a falsy one."""
    watermark = ManualWatermark(-1)
    Invoker(Fn(count, None, watermark), "a.log", TEN, watermark=state)
    assert watermark.current() == state


def test_a_watermark_that_goes_back_raises_with_its_context():
    """The message names the DoFn and the element."""

    def back(element, tracker):
        tracker.try_claim(9)
        tracker.watermark.advance(5)
        tracker.watermark.advance(4)
        return ()

    message = "Fn.process() on OffsetRange(start=0, stop=10) of element 'a.log': ManualWatermark.advance() must not go"
    with pytest.raises(WatermarkError, match=re.escape(message)):
        list(invoker_of(back).run())


# Values


def test_residual_survives_pickling():
    """Values cross process boundaries."""
    residual = Residual(OffsetRange(4, 10), 2.5, {"state": 1})
    assert pickle.loads(pickle.dumps(residual)) == residual
