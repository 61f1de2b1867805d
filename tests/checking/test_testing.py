"""check_dofn: it passes right DoFns, and each broken rule is caught with the split that broke it."""

import itertools
import re
import threading

import pytest
from support.right_fns import (
    BlocksFn,
    DefersFn,
    KeysFn,
    ListFn,
    Names,
    NamesFn,
    NamesTracker,
    OrderedFn,
    PiecesFn,
    RightFn,
    SideFn,
    TagsFn,
    faults_of,
)

from sdf import OffsetRange, TaggedOutput
from sdf.errors import CheckError, InvalidTypeError, ProcessError
from sdf.model.restrictions import UNBOUNDED
from sdf.testing import CheckedDoFn, check_dofn

LINES = [f"line {number}" for number in range(12)]


# Right DoFns


@pytest.mark.parametrize(
    ("fn", "element", "claims", "records"),
    [
        (RightFn(), 12, 12, 12),
        (BlocksFn(), 10, 3, 10),
        (DefersFn(), 9, 9, 9),
        (ListFn(), 6, 6, 6),
        (PiecesFn(), 10, 10, 10),
        (KeysFn(), "x", 5, 5),
        (NamesFn(), "abcdef", 6, 6),
        (OrderedFn(), 6, 6, 6),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("seed", range(3))
def test_a_right_dofn_passes(fn, element, claims, records, seed):
    """And splits were really exercised."""
    checked = check_dofn(fn, element, seed=seed)
    assert (checked.claims, checked.records, checked.splits > 0) == (claims, records, True)


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_split_is_reported(count):
    """0 splits means that nothing could be shown about splitting."""
    assert check_dofn(RightFn(), count) == CheckedDoFn(count, count, 0)


def test_many_claims_are_sampled():
    """Of more than 40 claims some are taken, so that a check ends."""
    assert check_dofn(RightFn(), 150).records == 150


def test_tags_are_compared_too():
    """Tagged outputs count like others."""
    assert check_dofn(TagsFn(), 6, tags=("bad",)).records == 6


def test_side_inputs_are_passed():
    """As to a runner."""
    assert check_dofn(SideFn(), 6, side_inputs={"bonus": 10}).records == 6


def test_a_seed_makes_the_check_repeatable():
    """The same order of parts."""
    assert check_dofn(RightFn(), 9, seed=4) == check_dofn(RightFn(), 9, seed=4)


def test_life_cycle_surrounds_the_check():
    """setup() first, teardown() last, also when the check fails."""
    calls = []

    class CallsFn(RightFn):
        def setup(self):
            calls.append("setup")

        def teardown(self):
            calls.append("teardown")

        def process(self, element, tracker):
            calls.append("process")
            return []

    faults_of(CallsFn())
    assert (calls[0], calls[-1], set(calls[1:-1])) == ("setup", "teardown", {"process"})


def hooked(name, act):
    return type("HookFn", (RightFn,), {name: lambda self: act()})()


def breaks():
    raise OSError("disk")


@pytest.mark.parametrize("name", ["start_bundle", "finish_bundle"])
@pytest.mark.parametrize(
    ("act", "message"),
    [
        (breaks, "the whole read: ProcessError: HookFn.{}() raised OSError: disk"),
        (lambda: ["more"], "the whole read: OutputError: HookFn.{}(): it must return None, it cannot output (got"),
    ],
)
def test_a_wrong_bundle_hook_is_caught(name, act, message):
    """They surround every read."""
    assert message.format(name) in faults_of(hooked(name, act))


@pytest.mark.parametrize("name", ["setup", "teardown"])
def test_a_hook_around_the_check_that_raises(name):
    """setup() before it raises as it is, since nothing was checked; teardown() after it is one more fault."""
    with pytest.raises(
        ProcessError if name == "setup" else CheckError, match=re.escape(f"HookFn.{name}() raised OSError: disk")
    ):
        check_dofn(hooked(name, breaks), 4)


@pytest.mark.parametrize("fn", [RightFn, None, "fn"])
def test_what_is_no_dofn_raises(fn):
    """Not a CheckError: there is nothing to check."""
    with pytest.raises(InvalidTypeError, match=re.escape("check_dofn() needs a")):
        check_dofn(fn, 5)


def test_the_check_leaves_the_class_alone():
    """Sending a DoFn through pickle must not change the class that a test defined (cloudpickle redefines it)."""

    class LocalFn(RightFn):
        def process(self, element, tracker):
            return super().process(element, tracker)

    before = LocalFn.process
    check_dofn(LocalFn(), 4)
    assert LocalFn.process is before


def test_a_check_error_is_an_assertion_error():
    """Test runners show it as a failed test."""
    with pytest.raises(
        AssertionError, match=re.escape("LazyFn breaks the contract on element 8:\n  - the whole read: ")
    ):
        check_dofn(LazyFn(), 8)


# Broken rules


class LazyFn(RightFn):
    """Leaves work unclaimed."""

    def process(self, element, tracker):
        tracker.try_claim(2)
        yield 2


class IgnoresFn(RightFn):
    """Ignores the claim's answer."""

    def process(self, element, tracker):
        for position in range(*tracker.current_restriction()):
            tracker.try_claim(position)
            yield position


class IgnoresListFn(RightFn):
    """Ignores the claim's answer, and collects."""

    def process(self, element, tracker):
        return list(IgnoresFn.process(self, element, tracker))


class HeaderFn(RightFn):
    """Says something before its first claim."""

    def process(self, element, tracker):
        yield "header"
        yield from super().process(element, tracker)


class FooterFn(RightFn):
    """Says something after a refused claim."""

    def process(self, element, tracker):
        yield from super().process(element, tracker)
        yield "footer"


class RelativeFn(RightFn):
    """Counts from the start of the part, not of the element."""

    def process(self, element, tracker):
        start = tracker.current_restriction().start
        for position in super().process(element, tracker):
            yield position - start


class RunningSumFn(RightFn):
    """Sums up what it saw before in the same part."""

    def process(self, element, tracker):
        total = 0
        for position in super().process(element, tracker):
            total += position
            yield total


class StatefulFn(RightFn):
    """Carries state from call to call."""

    def setup(self):
        self.seen = 0

    def process(self, element, tracker):
        for _ in super().process(element, tracker):
            self.seen += 1
            yield self.seen


class RandomFn(RightFn):
    """Gives something else every time."""

    ticket = itertools.count()

    def process(self, element, tracker):
        for position in super().process(element, tracker):
            yield position, next(RandomFn.ticket)


class WholeElementFn(RightFn):
    """Claims only its start and reads the rest without asking."""

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        if tracker.try_claim(start):
            yield from range(start, stop)
            tracker.try_claim(stop)


class StaleStartFn(RightFn):
    """Always reads from 0."""

    def process(self, element, tracker):
        for position in range(tracker.current_restriction().stop):
            if not tracker.try_claim(position):
                return
            yield position


class BoundaryFn(BlocksFn):
    """Loses the block that a split cut: it seeks to the end of the block rather than its start."""

    def process(self, element, tracker):
        start = tracker.current_restriction().start
        position = (start // 4 + (start > 0)) * 4
        while tracker.try_claim(min(position, element)):
            yield from range(position, min(position + 4, element))
            position += 4


class MarksEndFn(RightFn):
    """Marks the last offset of the restriction that it began with: a replay of the primary has one more mark."""

    def process(self, element, tracker):
        last = tracker.current_restriction().stop - 1
        for position in super().process(element, tracker):
            yield (position, "end") if position == last else position


class NeverEndsFn(RightFn):
    """Defers for ever."""

    def process(self, element, tracker):
        tracker.defer_remainder()
        return []


class UndeclaredFn(RightFn):
    """Uses a tag that nobody declared."""

    def process(self, element, tracker):
        for position in super().process(element, tracker):
            yield TaggedOutput("bad", position)


class RaisesFn(RightFn):
    def process(self, element, tracker):
        raise OSError("disk")


class EndlessFn(RightFn):
    """Has no end."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNBOUNDED)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (LazyFn(), "the whole read: UnclaimedWorkError: LazyFn.process() on OffsetRange(start=0, stop=8)"),
        (
            IgnoresFn(),
            "OutputError: IgnoresFn.process() on OffsetRange(start=0, stop=8) of element 8: it gave 1 after a",
        ),
        (IgnoresListFn(), "after a refused claim"),
        (
            HeaderFn(),
            "the whole read: OutputError: HeaderFn.process() on OffsetRange(start=0, stop=8) of element 8: it ",
        ),
        (FooterFn(), "it gave 'footer' after a refused claim"),
        (
            RelativeFn(),
            "split at 0 after claim 1, into OffsetRange(start=0, stop=1) and OffsetRange(start=1, stop=8): ",
        ),
        (RunningSumFn(), "missing: "),
        (StatefulFn(), "reading it twice: missing: 8, for example 1; too many: 8, for example 9"),
        (RandomFn(), "reading it twice: missing: 8"),
        (WholeElementFn(), "split at 0 after claim 1"),
        (StaleStartFn(), "ClaimError"),
        (
            MarksEndFn(),
            "running the primary again after the split at 0 after claim 1, into OffsetRange(start=0, stop=1)",
        ),
        (NeverEndsFn(), "process() deferred OffsetRange(start=0, stop=8) 101 times in a row without a claim"),
        (UndeclaredFn(), "OutputError: process() gave TaggedOutput('bad', 0), but the declared tags are ()"),
        (
            RaisesFn(),
            "the whole read: ProcessError: RaisesFn.process() on OffsetRange(start=0, stop=8) of element 8 rais",
        ),
        (EndlessFn(), "the initial restriction: UnboundedError: EndlessFn.get_initial_restriction() gave OffsetRange"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_broken_rule_is_caught(fn, message):
    """Each with a message that names the rule and the read that broke it."""
    assert message in faults_of(fn)


@pytest.mark.parametrize(
    "options",
    [{}, {"fractions": (0.4,)}, {"fractions": ()}],
    ids=["defaults", "the fraction that hits it", "no fractions"],
)
def test_a_block_that_is_lost_by_a_split_at_its_start_is_caught(options):
    """The classic: [4, 8) belongs to the range that holds its start, also where a range starts there."""
    assert (
        "split at 0.4 after claim 1, into OffsetRange(start=0, stop=4) and OffsetRange(start=4, stop=10): "
        "missing: 4, for example 4" in faults_of(BoundaryFn(), 10, **options)
    )


class WrongAtFn(BlocksFn):
    """Loses its first block where a range starts so many offsets after the start of a block."""

    def __init__(self, past):
        self.past = past

    def process(self, element, tracker):
        start = tracker.current_restriction().start
        lost = -(-start // 4) * 4 if start and start % 4 == self.past else None
        for position in super().process(element, tracker):
            if lost is None or not lost <= position < lost + 4:
                yield position


@pytest.mark.parametrize(("past", "at"), [(3, 3), (0, 4), (1, 5)], ids=["just before", "at", "just after"])
def test_cuts_next_to_the_following_block_are_tried(past, at):
    """Whatever the fractions: off by one on either side is where readers of blocks are wrong."""
    text = faults_of(WrongAtFn(past), 41, fractions=())
    assert f"after claim 1, into OffsetRange(start=0, stop={at}) and OffsetRange(start={at}, stop=41): " in text


def test_cuts_next_to_the_following_block_are_all_that_is_added():
    """Up to three after each claim but the last, within what is unclaimed, and exact where no float is."""
    length = 10 * 2**70
    blocks = (0, 3, 2**70, 2**70 + 1)
    cuts = set()

    class FarFn(RightFn):
        """Four blocks; notes where a split of the whole shortened it."""

        def process(self, element, tracker):
            start = tracker.current_restriction().start
            for position in blocks:
                if position < start:
                    continue
                before = tracker.current_restriction().stop
                if not tracker.try_claim(position):
                    return
                after = tracker.current_restriction().stop
                if start == 0 and before == length and after != before:
                    cuts.add((position, after))
                yield position
            tracker.try_claim(length)

    checked = check_dofn(FarFn(), length, fractions=())
    assert (checked.claims, checked.records) == (4, 4)
    assert sorted(cuts) == [
        *((0, cut) for cut in (2, 3, 4)),
        *((3, cut) for cut in (2**70 - 1, 2**70, 2**70 + 1)),
        *((2**70, cut) for cut in (2**70 + 1, 2**70 + 2)),
    ]


def test_byte_keys_have_no_exact_cuts():
    """Only offsets can be cut at a position through a fraction: without fractions nothing is split."""
    assert check_dofn(KeysFn(), "x", fractions=()) == CheckedDoFn(5, 5, 0)


def test_all_faults_are_listed():
    """Up to twenty, and the number of the others."""
    text = faults_of(RelativeFn(), 12)
    assert (text.count("\n  - "), bool(re.search(r"\n  \.\.\. and \d+ more$", text))) == (20, True)


# split_restriction


def pieces_of(*bounds):
    parts = [OffsetRange(*bound) for bound in bounds]
    return type("PartsFn", (RightFn,), {"split_restriction": lambda self, element, restriction: parts})()


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (pieces_of((0, 4), (5, 8)), "OffsetRange(start=5, stop=8) leaves a gap after 4"),
        (pieces_of((0, 4)), "stop at 4, not at the stop of OffsetRange(start=0, stop=8)"),
        (pieces_of(), "the parts [] stop at 0"),
        (pieces_of((0, 8), (0, 8)), "OffsetRange(start=0, stop=8) overlaps or repeats 8"),
        (pieces_of((0, 5), (4, 8)), "OffsetRange(start=4, stop=8) overlaps or repeats 5"),
        (pieces_of((4, 8), (0, 4)), "OffsetRange(start=4, stop=8) leaves a gap after 0"),
    ],
)
def test_a_wrong_split_restriction_is_caught(fn, message):
    """Losing, doubling, overlapping or disordering work."""
    text = faults_of(fn)
    assert "the initial restriction: SplitError: PartsFn.split_restriction() on" in text
    assert message in text


# Trackers and restrictions of one's own


class LosesTracker(NamesTracker):
    """The residual misses a name."""

    def try_split(self, fraction_of_remainder):
        primary, residual = super().try_split(fraction_of_remainder)
        return primary, Names(residual.names[1:])


class DoublesTracker(NamesTracker):
    """The primary keeps what the residual got."""

    def try_split(self, fraction_of_remainder):
        whole = self.whole
        _, residual = super().try_split(fraction_of_remainder)
        self.whole = whole
        return whole, residual


class ForgetsTracker(NamesTracker):
    """Returns a right pair and goes on with the whole."""

    def try_split(self, fraction_of_remainder):
        whole = self.whole
        pair = super().try_split(fraction_of_remainder)
        self.whole = whole
        return pair


class FalseTracker(NamesTracker):
    """Returns False where a pair or None was promised."""

    def try_split(self, fraction_of_remainder):
        return False


class RaisesTracker(NamesTracker):
    """Raises inside a split."""

    def try_split(self, fraction_of_remainder):
        raise ZeroDivisionError("by the author")


class GivesAwayTracker(NamesTracker):
    """Cuts at a name that is claimed already."""

    def try_split(self, fraction_of_remainder):
        self.done -= 1
        pair = super().try_split(0)
        self.done += 1
        return pair


@pytest.mark.parametrize(
    ("tracker", "message"),
    [
        (LosesTracker, "SplitError: NamesFn.try_split() on"),
        (DoublesTracker, "SplitError: NamesFn.try_split() on"),
        (ForgetsTracker, "SplitError: NamesFn.try_split() on"),
        (FalseTracker, "try_split() must return (primary, residual) or None (got False)"),
        (
            RaisesTracker,
            "NamesFn.try_split() on Names(names=('a', 'b', 'c')) of element 'abc' raised ZeroDivisionError: by",
        ),
        (GivesAwayTracker, "too many: "),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_wrong_tracker_is_caught(tracker, message):
    """A split that loses, doubles, lies, raises or gives away what is claimed."""
    fn = NamesFn()
    fn.tracker = tracker
    text = faults_of(fn, "abc")
    assert message in text
    assert "split at 0 after claim 1" in text


class ByIdentity:
    """A restriction that does not compare by value."""

    def __init__(self, names):
        self.names = names

    def is_tiled_by(self, parts):
        return tuple(name for part in parts for name in part.names) == self.names

    def __repr__(self):
        return f"ByIdentity({self.names})"


class ByIdentityFn(NamesFn):
    restriction = ByIdentity


def test_a_restriction_that_does_not_equal_its_copy_is_caught():
    """Values cross process boundaries."""
    message = "restriction ByIdentity(('a', 'b')) does not equal its copy after pickling (ByIdentity(('a', 'b')))."
    assert message in faults_of(ByIdentityFn(), "ab")


class LockedNames(Names):
    """A restriction that does not pickle."""

    def __reduce__(self):
        raise TypeError("cannot pickle a lock")


class LockedNamesFn(NamesFn):
    restriction = LockedNames


def test_a_restriction_that_does_not_pickle_is_caught():
    """The message shows it."""
    assert "UnpicklableError: restriction LockedNames(names=('a', 'b')) cannot be sent to the workers" in faults_of(
        LockedNamesFn(), "ab"
    )


def test_a_dofn_that_does_not_pickle_is_caught():
    """The message names the attribute and what to do."""

    class ClientFn(RightFn):
        def __init__(self):
            self.name = "fine"
            self.client = threading.Lock()

    text = faults_of(ClientFn())
    assert (
        "UnpicklableError: ClientFn cannot be sent to the workers: attribute 'client' (lock, <unlocked _thread" in text
    )
    assert "does not pickle" in text


def test_a_dofn_that_pickles_but_cannot_be_copied_is_checked(tmp_path):
    """As one with an open file, which cloudpickle sends as what it holds."""
    (tmp_path / "words").write_text("a b")

    class FileOpenFn(RightFn):
        def __init__(self):
            self.file = open(tmp_path / "words")  # noqa: SIM115, it is closed below

    fn = FileOpenFn()
    with fn.file:
        assert check_dofn(fn, 4).records == 4


def test_a_record_that_does_not_pickle_is_no_fault_of_splitting():
    """A record that can be compared need not be pickled."""

    class FunctionsFn(RightFn):
        def process(self, element, tracker):
            for position in super().process(element, tracker):
                yield len, position

    assert check_dofn(FunctionsFn(), 4).records == 4


@pytest.mark.parametrize("seed", range(3))
def test_the_split_that_broke_it_is_named(seed):
    """A bug that only a split at 5 shows is reported with claim, fraction, primary and residual."""

    class OneSplitFn(RightFn):
        def process(self, element, tracker):
            start = tracker.current_restriction().start
            for position in super().process(element, tracker):
                if start != 5:
                    yield position

    text = faults_of(OneSplitFn(), seed=seed)
    for split in ("0 after claim 5", "0.3 after claim 5", "0.4 after claim 4"):
        pattern = f"split at {split}, into OffsetRange(start=0, stop=5) and OffsetRange(start=5, stop=8): "
        assert re.search(re.escape(pattern) + r"missing: \d, for example 5(\n|$)", text)


def test_what_is_missing_and_what_is_too_many_are_in_one_line():
    """Each with its number and an example."""

    class NamedFn(RightFn):
        def process(self, element, tracker):
            start = tracker.current_restriction().start
            for position in super().process(element, tracker):
                yield "a", position - start

    text = faults_of(NamedFn(), 4, fractions=(0.3,))
    pattern = "split at 0.3 after claim 1, into OffsetRange(start=0, stop=1) and OffsetRange(start=1, stop=4): "
    counts = r"missing: (\d), for example \('a', \d\); too many: \1, for example \('a', 0\)(\n|$)"
    assert re.search(re.escape(pattern) + counts, text)


class Rec:
    """A record that does not compare by value."""

    def __init__(self, position):
        self.position = position


class SlotRec:
    """A record that does not compare by value, and has no __dict__."""

    __slots__ = ("position",)

    def __init__(self, position):
        self.position = position


@pytest.mark.parametrize(
    "record",
    [
        Rec,
        SlotRec,
        ValueError,
        lambda i: (i, float("nan")),
        lambda i: {"a": f"{i // 2}", "b": [f"{i // 2}"]},
        lambda i: {i},
        lambda i: [i],
    ],
    ids=["no __eq__", "slots", "exception", "NaN", "dict", "set", "list"],
)
def test_records_are_compared_by_content(record):
    """Records without a useful equality or hash are no fault of the DoFn."""

    class RecordsFn(RightFn):
        def process(self, element, tracker):
            return map(record, super().process(element, tracker))

    assert check_dofn(RecordsFn(), 6).records == 6


@pytest.mark.parametrize("record", [Rec, SlotRec, ValueError])
def test_records_of_other_content_are_found(record):
    """Also where they do not compare by value."""

    class StartFn(RightFn):
        def process(self, element, tracker):
            start = tracker.current_restriction().start
            for position in super().process(element, tracker):
                yield record(position - start)

    assert "missing: " in faults_of(StartFn(), 6)


def test_records_that_look_like_pickles_are_shown_as_they_are():
    """The checker never unpickles what process() gave."""

    class BytesFn(RightFn):
        def process(self, element, tracker):
            for _ in super().process(element, tracker):
                yield b"\x80\x04bad" + bytes([tracker.current_restriction().stop])

    assert "missing: " in faults_of(BytesFn(), 4)


def test_planning_that_needs_setup_is_a_fault():
    """restriction_size() and create_tracker() run on the driver too, where setup() does not."""

    class NeedsSetupFn(RightFn):
        def setup(self):
            self.unit = 2

        def restriction_size(self, element, restriction):
            return (restriction.stop - restriction.start) * self.unit

    assert "planning on the driver, where setup() does not run: ProcessError" in faults_of(NeedsSetupFn(), 4)
