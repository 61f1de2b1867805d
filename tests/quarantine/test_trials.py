"""Trials: the bad blocks of a part are found for every place of them, and its records come in order."""

import itertools

import pytest

from sdf import UNBOUNDED, DoFn, OffsetRange
from sdf.errors import StageError
from sdf.execution.invoker import Invoker
from sdf.model.offset_trackers import GrowableOffsetRangeTracker
from sdf.quarantine.failures import DIED, KILLED, RAISED, Failure
from sdf.quarantine.trials import Trial, front_of, try_again


class PartFn(DoFn):
    """Gives its positions. What it reads without an end are the positions that are there, as of a file that grows.

    Args:
        there: how many positions there are.
        bad: those that fail.
        ahead: how many positions it claims before it gives the first of them.
    """

    def __init__(self, there, bad, ahead=0):
        self.there, self.bad, self.ahead, self.claimed = there, set(bad), ahead, None

    def get_initial_restriction(self, element):
        return OffsetRange(0, self.there)

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        self.claimed = None
        kept = []
        for at in range(start, self.there if stop is UNBOUNDED else stop):
            if not tracker.try_claim(at):
                break
            self.claimed = at
            kept.append(at)
            if len(kept) > self.ahead:
                yield self.read(kept.pop(0))
        yield from map(self.read, kept)
        if stop is UNBOUNDED and tracker.current_restriction().stop is UNBOUNDED:
            tracker.defer_remainder(1)

    def read(self, at):
        if at in self.bad:
            raise ValueError(at)
        return at


class OpaqueTracker(GrowableOffsetRangeTracker):
    """Not known to the search, so that it cannot cut at a position."""


class MessagesFn(PartFn):
    """As PartFn; what has no end is divided by `split_backlog` only."""

    def create_tracker(self, element, restriction):
        return OpaqueTracker(restriction, lambda: None)

    def split_backlog(self, element, restriction, parts, length):
        cuts = [*range(restriction.start, min(restriction.start + length * parts, self.there), length), UNBOUNDED]
        return [OffsetRange(*pair) for pair in itertools.pairwise(cuts)] or [restriction]


def search(fn, restriction, how, *, hints=True, trial=None):
    """Try a part again until nothing is left; return what was read, in order, what was set aside, and the attempts."""
    read, aside, attempts = [], [], 0
    while restriction is not None and attempts < 1000:
        attempts += 1
        if trial is not None:
            restriction, trial = front_of(fn, "e", restriction, trial)
        attempt = Invoker(fn, "e", restriction)
        try:
            found = list(attempt.run())
        except Exception:
            solo = trial is not None and trial.solo
            claimed = fn.claimed if hints and (how == RAISED or (trial is not None and trial.alone)) else None
            verdict = try_again(fn, "e", restriction, trial, Failure(0, how, "bad", claimed), was_solo=solo)
            if verdict.block is not None:
                aside.append(verdict.block)
            restriction, trial = verdict.next or (None, None)
            continue
        read += found
        rest = [residual.restriction for residual in attempt.residuals]
        if rest:
            (restriction,), trial = rest, None if trial is None else trial.rest()
            if trial is None and not found:
                break  # all that is there was read
        else:
            restriction, trial = (None if trial is None else trial.following()) or (None, None)
    return read, aside, attempts


LENGTH = 6
BAD = [bad for number in range(LENGTH + 1) for bad in itertools.combinations(range(LENGTH), number)]


@pytest.mark.parametrize("how", [RAISED, DIED, KILLED])
@pytest.mark.parametrize("ahead", [0, 1, LENGTH])
@pytest.mark.parametrize("kind", [PartFn, MessagesFn])
@pytest.mark.parametrize(("stop", "hints"), [(LENGTH, True), (LENGTH, False), (UNBOUNDED, True)])
def test_bad_blocks_are_set_aside_wherever_they_are(stop, hints, kind, ahead, how):
    """One by one; all others are read once, in order; whether the position claimed last is right, wrong or unknown.

    Without any claim nothing is known of work without an end.
    """
    for bad in BAD:
        fn = kind(LENGTH, bad, ahead)
        read, aside, _ = search(fn, OffsetRange(0, stop), how, hints=hints)
        assert read == [at for at in range(LENGTH) if at not in bad]
        assert [block.restriction for block in aside] == [OffsetRange(at, at + 1) for at in bad]


def test_a_hint_that_is_right_needs_three_more_attempts():
    """What lies before it, the block, what lies after it."""
    _, (block,), attempts = search(PartFn(1000, [700]), OffsetRange(0, 1000), RAISED)
    assert (attempts, block.attempts) == (4, 2)


def test_without_a_hint_it_takes_a_logarithm():
    """A front and a rest for each power of two."""
    _, _, attempts = search(PartFn(1024, [700]), OffsetRange(0, 1024), DIED, hints=False)
    assert attempts <= 2 * 10 + 2


def test_what_failed_by_chance_is_read_as_before():
    """When the block at the hint does not fail again, nothing is set aside."""
    verdict = try_again(PartFn(9, []), "e", OffsetRange(0, 9), None, Failure(0, RAISED, "bad", 4), was_solo=False)
    restriction, trial = verdict.next
    assert search(PartFn(9, []), restriction, RAISED, trial=trial)[:2] == (list(range(9)), [])


def test_a_part_without_an_end_that_fails_before_any_claim_cannot_be_set_aside():
    """Then no block has a name, and the stream ends with what happened."""
    failure = Failure(0, RAISED, "no such server", None)
    with pytest.raises(StageError, match="it claimed last is not known, so no block can be set aside: no such server"):
        try_again(PartFn(9, []), "e", OffsetRange(0, UNBOUNDED), Trial(1, alone=True), failure, was_solo=False)
