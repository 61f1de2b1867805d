"""Which rule check_dofn names: blocks that depend on where a part starts, or partial results; and partial results that
a later step combines."""

import re
from collections import Counter

import pytest
from support.right_fns import RightFn, faults_of

from sdf import DoFn, TaggedOutput
from sdf.errors import InvalidTypeError, ProcessError
from sdf.testing import check_dofn

STARTS = "the blocks depend on where a part starts: "
PARTIAL = "process() gives partial results: "


class ClaimsFn(RightFn):
    """Gives what ``gives`` makes of the claims."""

    def __init__(self, gives):
        self.gives = gives

    def process(self, element, tracker):
        return self.gives(tracker)


def tens(tracker):
    """Groups of three claims, counted from the start of the part."""
    held = []
    for i in tracker.claims():
        held.append(i)
        if len(held) == 3:
            yield tuple(held)
            held = []
    yield tuple(held)


def strides(tracker):
    """Blocks of three, the first at the start of the part."""
    start, stop = tracker.current_restriction()
    return tracker.claims(range(start, stop, 3), position=int)


def numbered(tracker):
    """Each record has its number in the part."""
    yield from enumerate(tracker.claims())


def sums(tracker):
    """The sum so far."""
    total = 0
    for i in tracker.claims():
        total += i
        yield total


def misses_first(tracker):
    """Skips the first block, unless it is that of the element."""
    start, stop = tracker.current_restriction()
    return tracker.claims(range(start + (start > 0), stop), position=int)


def total(tracker):
    """One sum of the part."""
    yield sum(tracker.claims())


def counts(tracker):
    """A record for each claim, and one of the part, with a tag."""
    number = 0
    for i in tracker.claims():
        number += 1
        yield i
    yield TaggedOutput("number", number)


def total_at_the_last(tracker):
    """Like `total`, without a claim that is refused."""
    held = list(tracker.claims())
    return [sum(held)]


@pytest.mark.parametrize(
    ("gives", "rule"),
    [
        (tens, STARTS),
        (strides, STARTS),
        (numbered, STARTS),
        (sums, STARTS),
        (misses_first, STARTS),
        (total, PARTIAL),
        (counts, PARTIAL),
        (total_at_the_last, PARTIAL),
    ],
)
@pytest.mark.parametrize("element", [4, 7, 30])
def test_the_broken_rule_is_named_first(gives, rule, element):
    """Before the differences that show it, and how to go on."""
    first, *others = faults_of(ClaimsFn(gives), element, tags=("number",)).splitlines()[1:]
    assert first.startswith(f"  - {rule}")
    assert ("Rule 2: " in first and "Do not count from the start" in first) == (rule == STARTS)
    assert ("Rule 4: " in first and "pass combine= to check_dofn()" in first) == (rule == PARTIAL)
    assert all(line.startswith(("  - split at ", "  ... and ")) for line in others)


def test_the_message_shows_both_readings():
    """The part, and the whole."""
    assert re.search(
        r"after its last claim the part OffsetRange\(start=\d, stop=4\) gives \d, and the whole 6\. ",
        faults_of(ClaimsFn(total), 4),
    )
    assert re.search(r"the part OffsetRange\(start=\d, stop=7\) claims \d, which", faults_of(ClaimsFn(strides), 7))


def test_of_a_dofn_that_is_not_deterministic_no_rule_is_named():
    """A part differs from itself already."""

    class OnceFn(DoFn):
        def setup(self):
            self.calls = 0

        def get_initial_restriction(self, element):
            return (0, element)

        def process(self, element, tracker):
            self.calls += 1
            for i in tracker.claims():
                yield i, self.calls

    assert "depend on where" not in faults_of(OnceFn(), 7)


@pytest.mark.parametrize(
    ("gives", "combine"),
    [(total, sum), (total_at_the_last, sum), (counts, lambda records: Counter(map(str, records)).total() > 0)],
)
def test_partial_results_are_allowed_that_a_later_step_combines(gives, combine):
    """The combined records must be the same however the work is split."""
    assert check_dofn(ClaimsFn(gives), 7, combine=combine, tags=("number",)).complete


def test_partial_results_that_do_not_add_up_are_an_error():
    """Whatever combines them."""

    def loses(tracker):
        numbers = list(tracker.claims())
        yield sum(numbers[1:]) if numbers and numbers[0] else sum(numbers)

    first = faults_of(ClaimsFn(loses), 7, combine=sum).splitlines()[1]
    assert re.search(r"  - split at 0 after claim 1, .*: missing: 1, for example 21; too many: 1, for example", first)


def test_after_a_refused_claim_the_error_says_how_to_give_a_partial_result():
    """With claims()."""

    def by_hand(tracker):
        total = 0
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                break
            total += i
        yield total

    assert "To give a partial result of what was claimed, loop over tracker.claims()" in faults_of(ClaimsFn(by_hand), 7)


def tagged(number):
    return TaggedOutput("number", number)


def test_an_error_of_combine_names_it_and_a_record():
    """A sum() cannot add a TaggedOutput to 0."""
    with pytest.raises(
        ProcessError, match=r"check_dofn\(\) combine= failed over .*TaggedOutput.*: TypeError: unsupported"
    ):
        check_dofn(ClaimsFn(lambda tracker: map(tagged, tracker.claims())), 7, combine=sum, tags=("number",))


def test_what_is_no_function_combines_nothing():
    """An error of the caller."""
    with pytest.raises(InvalidTypeError, match=re.escape("combine must be a function of a list of records (got 3)")):
        check_dofn(RightFn(), 3, combine=3)
