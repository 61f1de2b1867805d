"""check_dofn on work that takes long: a part of it, a budget of seconds, what is shown meanwhile, what is said of it.

Here time is what a DoFn says that its claims took.
"""

import io
import re
import sys
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from support.clock import Clock
from support.integers import NUMBER_KINDS
from support.right_fns import DefersFn, OrderedFn, PiecesFn, RightFn, faults_of

import sdf.testing
from sdf import OffsetRange, RestrictionTracker, TaggedOutput
from sdf.checking.budget import Budget
from sdf.checking.cuts import cuts
from sdf.errors import CheckError, InvalidTypeError, InvalidValueError, SourceError
from sdf.io import ReadLines
from sdf.model.restrictions import UNBOUNDED
from sdf.testing import CheckedDoFn, check_dofn

CLOCK = Clock(0.0)  # stands still but for those who say that time has passed


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Give check_dofn a clock of our own."""
    CLOCK.now = 0.0
    monkeypatch.setattr(sdf.testing, "Budget", partial(Budget, clock=CLOCK))
    return CLOCK


class SlowFn(RightFn):
    """Each claim takes so many seconds."""

    def __init__(self, seconds):
        self.seconds = seconds

    def process(self, element, tracker):
        for position in super().process(element, tracker):
            CLOCK.now += self.seconds
            yield position


class OpensFn(RightFn):
    """Takes so many seconds until its first claim, for each claim, and after the last one."""

    def __init__(self, opening=0.0, each=0.0, closing=0.0):
        self.opening, self.each, self.closing = opening, each, closing

    def process(self, element, tracker):
        CLOCK.now += self.opening
        for position in super().process(element, tracker):
            CLOCK.now += self.each
            yield position
        CLOCK.now += self.closing


class WrongFn(SlowFn):
    """Loses the position at which a part starts."""

    def process(self, element, tracker):
        start = tracker.current_restriction().start
        for position in super().process(element, tracker):
            if not start or position != start:
                yield position


class SilentFn(RightFn):
    """Forgets to yield."""

    def process(self, element, tracker):
        for _ in super().process(element, tracker):
            pass


# A part of the work


def test_a_restriction_takes_the_place_of_the_initial_one():
    """What is checked is that part; a tuple will do."""
    assert check_dofn(RightFn(), 1000, restriction=(5, 9)).claims == 4


def test_a_part_of_work_without_an_end_can_be_checked():
    """The initial restriction is not asked for."""

    class EndlessFn(RightFn):
        def get_initial_restriction(self, element):
            return OffsetRange(0, UNBOUNDED)

    assert check_dofn(EndlessFn(), 0, restriction=OffsetRange(3, 9)).complete


def test_faults_of_a_part_are_found():
    """In its own terms."""
    text = faults_of(WrongFn(0), 1000, restriction=(5, 9))
    assert "split at 0 after claim 1, into OffsetRange(start=5, stop=6) and OffsetRange(start=6, stop=9)" in text


@pytest.mark.parametrize(
    ("restriction", "error", "message"),
    [
        ("0-5", InvalidTypeError, "check_dofn() restriction is '0-5', which is not a restriction. Use a range such as"),
        ((5, 2), InvalidValueError, "check_dofn() restriction is (5, 2): OffsetRange start must be <= stop"),
    ],
)
def test_a_wrong_restriction_is_told(restriction, error, message):
    """Before anything is checked."""
    with pytest.raises(error, match=re.escape(message)):
        check_dofn(RightFn(), 1000, restriction=restriction)


# The budget


@pytest.mark.parametrize("seconds", [30.0, None])
@pytest.mark.parametrize("fn", [RightFn(), DefersFn(), PiecesFn()], ids=lambda fn: type(fn).__name__)
def test_what_is_within_the_budget_is_checked_as_without_one(fn, seconds):
    """A test gives the same today and tomorrow."""
    assert check_dofn(fn, 12, seconds=seconds) == check_dofn(fn, 12, seconds=1e9)
    assert check_dofn(fn, 12, seconds=seconds).complete


def test_no_budget_checks_all():
    """However long it takes."""
    assert check_dofn(SlowFn(10.0), 12, seconds=None).complete


def test_a_budget_that_is_spent_ends_the_check(clock):
    """At the next claim, and says how many splits were not tried."""
    checked = check_dofn(SlowFn(0.1), 12)
    assert (checked.complete, checked.claims, clock.now < 31) == (False, 12, True)
    (skipped,) = checked.skipped
    assert re.fullmatch(r"\d+ of 69 splits", skipped)


def test_little_time_is_spread_over_all_claims():
    """Not spent on the first of them."""
    chosen = list(cuts(OffsetRange(0, 400), 400, list(range(400)), (0.0, 0.3, 0.5, 0.9)))
    first = [at for at, _, _ in chosen[:8]]
    assert max(later - earlier for earlier, later in zip([1, *sorted(first)], [*sorted(first), 400], strict=True)) < 100
    assert len({fraction for _, _, fraction in chosen[:8]}) > 4


def test_every_cut_is_tried_once():
    """In whatever order."""
    chosen = list(cuts(OffsetRange(0, 9), 9, list(range(9)), (0.0, 0.5)))
    assert len(set(chosen)) == len(chosen) == len({(at, number) for at, number, _ in chosen})
    assert {at for at, _, _ in chosen} == set(range(1, 10))


def test_the_first_claims_of_long_work_are_checked(clock):
    """A thousand pages of half a second: one read would take the budget 16 times over."""
    checked = check_dofn(SlowFn(0.5), 1000, seconds=30)
    assert (clock.now < 31, checked.splits > 0) == (True, True)
    assert checked.skipped[0] == "all but OffsetRange(start=0, stop=4) of OffsetRange(start=0, stop=1000)"


def test_as_many_claims_are_checked_as_there_is_time_to_split():
    """Of ten thousand pages of a millisecond, so many that all their splits are tried."""
    checked = check_dofn(SlowFn(0.001), 10_000, seconds=30)
    assert checked.skipped == ("all but OffsetRange(start=0, stop=44) of OffsetRange(start=0, stop=10000)",)


def test_of_many_claims_as_many_more_are_checked_as_are_not_split_at():
    """Splits are tried at 40 claims at most, so that work of 200 µs a claim is checked to its 220th, not its 93rd."""
    checked = check_dofn(SlowFn(0.0002), 100_000, seconds=30)
    assert checked.skipped == ("all but OffsetRange(start=0, stop=220) of OffsetRange(start=0, stop=100000)",)


@pytest.mark.parametrize("opening", [1.6, 2.0])
def test_a_slow_opening_takes_no_claims_away(opening):
    """Only claims count for how many of them there is time: all of these are checked, and split."""
    checked = check_dofn(OpensFn(opening, each=0.001), 1000)
    assert (checked.claims, checked.records, checked.splits > 0) == (1000, 1000, True)


def test_a_slow_opening_counts_for_no_claim():
    """Where not all claims can be checked, there are as many as without it."""
    checked = check_dofn(OpensFn(2.0, each=0.001), 10_000)
    assert checked.skipped[0] == "all but OffsetRange(start=0, stop=44) of OffsetRange(start=0, stop=10000)"


def test_two_claims_are_checked_however_long_they_take():
    """Of one, nothing could be cut off."""
    checked = check_dofn(SlowFn(2.0), 100)
    assert checked.skipped[0] == "all but OffsetRange(start=0, stop=2) of OffsetRange(start=0, stop=100)"
    assert (checked.claims, checked.splits > 0) == (2, True)


def test_long_work_of_two_claims_is_not_called_a_part():
    """There is nothing after the second claim to leave out."""
    (skipped,) = check_dofn(SlowFn(2.0), 2).skipped
    assert re.fullmatch(r"\d+ of 9 splits", skipped)


def test_a_fault_is_found_in_the_first_claims_of_long_work():
    """A budget ends no check before it has shown what matters most."""
    assert "missing: " in faults_of(WrongFn(0.1), 1000)


def test_work_that_cannot_be_stopped_is_not_complete():
    """No rule is broken where nothing could be compared: a tracker may decline to split."""

    class Stubborn(RestrictionTracker):
        def __init__(self, whole):
            self.whole, self.last = whole, whole.start - 1

        def current_restriction(self):
            return self.whole

        def try_claim(self, position):
            self.last = position
            return position < self.whole.stop

        def try_split(self, fraction_of_remainder):
            return None

        def check_done(self):
            if self.last < self.whole.stop - 1:
                raise ValueError("not done")

    class StubbornFn(SlowFn):
        def create_tracker(self, element, restriction):
            return Stubborn(restriction)

    checked = check_dofn(StubbornFn(0.1), 1000)
    assert (checked.complete, checked.skipped) == (False, ("all of OffsetRange(start=0, stop=1000)",))
    assert (checked.claims, checked.records, checked.advice) == (0, 0, "")


def test_user_code_does_not_take_the_end_of_the_time_for_a_failure():
    """Even where it catches all that is raised."""

    class CatchesFn(SlowFn):
        def process(self, element, tracker):
            try:
                yield from super().process(element, tracker)
            except BaseException as error:
                if isinstance(error, GeneratorExit):
                    raise

    assert not check_dofn(CatchesFn(0.1), 12).complete


@pytest.mark.parametrize("seconds", [0, -1, "30", True, float("nan")])
def test_a_wrong_budget_is_told(seconds):
    """It is a positive number, or None."""
    with pytest.raises(InvalidValueError, match=re.escape("check_dofn() seconds must be a positive number, or None")):
        check_dofn(RightFn(), 4, seconds=seconds)


@NUMBER_KINDS
def test_a_budget_may_be_a_number_of_any_kind(kind):
    """Of NumPy say."""
    assert not check_dofn(SlowFn(0.1), 40, seconds=kind(30)).complete
    assert check_dofn(RightFn(), 4, seconds=kind(30)).complete


@pytest.mark.parametrize(
    ("fractions", "error"),
    [
        (0.5, InvalidTypeError),
        (None, InvalidTypeError),
        (("a",), InvalidTypeError),
        ((True,), InvalidTypeError),
        ((2.0,), InvalidValueError),
        ((0.5, -0.1), InvalidValueError),
        ((float("nan"),), InvalidValueError),
    ],
)
def test_wrong_fractions_are_told(fractions, error):
    """They are the caller's, not the DoFn's, and nothing is checked."""
    message = "check_dofn() fractions must be an iterable of numbers from 0 to 1, such as (0.0, 0.5) (got "
    with pytest.raises(error, match=re.escape(f"{message}{fractions!r}).")):
        check_dofn(RightFn(), 4, fractions=fractions)


def test_fractions_may_be_numbers_of_any_kind():
    """Whatever holds them."""
    assert check_dofn(RightFn(), 4, fractions=iter([0, Fraction(1, 3), 1])).splits > 0


# What is said


@pytest.mark.parametrize(
    ("fn", "element", "advice"),
    [
        (RightFn(), 9, ""),
        (RightFn(), 0, "Nothing was claimed, so nothing is known about splitting: give an element that has work."),
        (SilentFn(), 3, "No record came of 3 claims: if there are records in them, process() has to yield"),
        (RightFn(), 1, "There is one claim, so no run can split this work: if it takes long, claim smaller blocks."),
    ],
)
def test_what_may_be_meant_otherwise_is_told(fn, element, advice):
    """It is no fault: OffsetRange(0, 1) is how to say that work is one piece."""
    said = check_dofn(fn, element).advice
    assert said.startswith(advice) if advice else said == ""


@pytest.mark.parametrize(
    ("fn", "element", "seconds"),
    [
        (OpensFn(opening=1.6), 1000, 3),
        (OpensFn(closing=1.1), 50, 3),
        (OpensFn(opening=1.5), 50, 3),
        (OpensFn(opening=4.0), 50, 3),
        (OpensFn(each=2.0), 100, 5),
        (OpensFn(each=2.0), 1, 3),
        (OpensFn(opening=4.0), 0, 3),
    ],
)
def test_nothing_is_said_of_splitting_where_something_was_left_out(fn, element, seconds):
    """The work may well be split; only the budget of the check was too small for it."""
    checked = check_dofn(fn, element, seconds=seconds)
    assert (checked.complete, checked.splits, checked.advice) == (False, 0, "")


class SlowPlanFn(OpensFn):
    """Takes four seconds to find out how much work there is."""

    def get_initial_restriction(self, element):
        CLOCK.now += 4.0
        return super().get_initial_restriction(element)


@pytest.mark.parametrize(
    ("fn", "element", "note"),
    [
        (
            OpensFn(opening=1.5),
            50,
            (
                "The first read began after 0.00 s, took 1.50 s to open (until its first claim), 0.00 s until the last "
                "of its 50 claims, and 0.00 s after that."
            ),
        ),
        (
            OpensFn(opening=1.5, each=0.1),
            50,
            (
                "The first read began after 0.00 s, took 1.50 s to open (until its first claim), 0.20 s until the last "
                "of its 3 claims, and 0.00 s after that."
            ),
        ),
        (
            OpensFn(closing=1.0),
            50,
            (
                "The first read began after 0.00 s, took 0.00 s to open (until its first claim), 0.00 s until the last "
                "of its 50 claims, and 1.00 s after that."
            ),
        ),
        (
            SlowPlanFn(),
            50,
            (
                "The first read began after 4.00 s, took 0.00 s to open (until its first claim), 0.00 s until the last "
                "of its 1 claims, and 0.00 s after that."
            ),
        ),
        (OpensFn(opening=4.0), 0, "The first read began after 0.00 s and took 4.00 s without a claim."),
    ],
    ids=["opening", "opening and claims", "closing", "planning", "no claim"],
)
def test_what_used_up_the_budget_is_told(fn, element, note):
    """The result says it; that it took long breaks no rule."""
    checked = check_dofn(fn, element, seconds=3)
    assert (checked.complete, checked.note) == (False, note)


def test_a_complete_check_needs_no_note():
    """And equals another one that took longer."""
    assert check_dofn(OpensFn(opening=0.1), 3, seconds=None).note == ""


def test_claims_without_a_split_are_told():
    """The tracker declines each."""

    class NeverFn(OrderedFn):
        """Claims all before a split could cut anything."""

        def process(self, element, tracker):
            stop = tracker.current_restriction().stop
            if tracker.try_claim(stop - 2) and tracker.try_claim(stop - 1):
                yield from range(element)

    checked = check_dofn(NeverFn(), 2, fractions=(0.5,))
    assert checked.advice.startswith("There are 2 claims, but no split succeeded, so no run can share this work out:")


def test_the_result_says_it_all():
    """In a line for who prints it, or asserts that it is complete."""
    assert str(CheckedDoFn(1, 5, 0, ("3 of 4 splits",), "The first read took 3 s.")) == (
        "1 claims, 5 records, 0 splits. Not checked within the time limit: 3 of 4 splits. The first read took 3 s. To "
        "check more, give a smaller element, restriction=, a part of its work, or more seconds=."
    )
    assert str(CheckedDoFn(1, 5, 0)) == (
        "1 claims, 5 records, 0 splits. There is one claim, so no run can split this work: if it takes long, claim "
        "smaller blocks."
    )


# Progress


def test_progress_is_passed_to_a_function():
    """While it reads too; the last one says so."""
    seen = []
    check_dofn(SlowFn(0.1), 12, progress=seen.append)
    assert [progress.ended for progress in seen] == [False] * (len(seen) - 1) + [True]
    assert (seen[0].name, seen[0].known, seen[-1].known, len(seen) > 20) == ("SlowFn", 0, 71, True)


def test_what_shows_progress_may_fail():
    """That is no fault of the DoFn, in whose claims it is called."""

    def fails(progress):
        raise ZeroDivisionError("by the test")

    with pytest.raises(ZeroDivisionError):
        check_dofn(SlowFn(0.1), 12, progress=fails)


@pytest.mark.parametrize(
    ("progress", "terminal", "slow", "shown"),
    [
        (None, True, True, True),
        (None, True, False, False),
        (None, False, True, False),
        (False, True, True, False),
        (True, False, False, True),
    ],
    ids=["slow on a terminal", "quick on a terminal", "no terminal", "False", "True"],
)
def test_a_line_is_shown_where_somebody_waits(monkeypatch, progress, terminal, slow, shown):
    """On stderr."""
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", stream)
    check_dofn(SlowFn(0.1 if slow else 0.0), 12, progress=progress)
    assert bool(re.search(r"check_dofn\(\) of SlowFn: \d+ of 71 checks, \d+ splits, \d+ s", stream.getvalue())) == shown


def test_a_wrong_progress_is_told():
    """As of the runners."""
    with pytest.raises(InvalidTypeError, match=re.escape("check_dofn() progress must be True, False, None or a")):
        check_dofn(RightFn(), 4, progress="yes")


def test_a_check_that_fails_is_an_error_with_a_budget_too():
    """The budget changes nothing of that."""
    with pytest.raises(CheckError):
        check_dofn(WrongFn(0.1), 12)


def test_a_source_that_is_not_there_breaks_no_rule():
    """The error is the connector's, not a CheckError."""
    pytest.importorskip("fsspec")
    with pytest.raises(SourceError, match="there is no file '/no/such'"):
        check_dofn(ReadLines(), "/no/such")


def _nested(row):
    return {"row": [row]}


def _view(row):
    row.setdefault("buffer", np.zeros(4))[:] = row["i"]
    return row["buffer"][1:3]


class _Holder:
    def __init__(self, row):
        self.row = row


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("output", [lambda row: row, _nested, lambda row: (1, row), _view, _Holder])
def test_an_output_that_process_changes_later_is_an_error(output, tagged):
    """All records would have the last content; one that stays as it is may come as often as it likes."""

    class SameFn(RightFn):
        def process(self, element, tracker):
            row, same = {}, {"same": 1}
            for i in tracker.claims():
                row["i"] = i if element == 5 else 0
                yield TaggedOutput("t", output(row)) if tagged else output(row)
                yield same if tagged else TaggedOutput("t", same)

    with pytest.raises(CheckError, match=r"OutputError: .*process\(\) changed an output after it gave it"):
        check_dofn(SameFn(), 5, tags=("t",))
    assert check_dofn(SameFn(), 6, tags=("t",)).records
