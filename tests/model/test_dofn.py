"""DoFn's defaults, TaggedOutput, and the expansion of elements."""

import re

import attrs
import pytest

from sdf import (
    UNBOUNDED,
    ByteKeyRange,
    ByteKeyRangeTracker,
    DoFn,
    GrowableOffsetRangeTracker,
    OffsetRange,
    OffsetRangeTracker,
    TaggedOutput,
    UnsplittableTracker,
)
from sdf.errors import ClaimError, InvalidTypeError, InvalidValueError, OutputError, ProcessError, SplitError
from sdf.execution.expansion import Expanded, checked_size, cut, expand
from sdf.model.dofn import call_hook
from sdf.model.offset_trackers import OffsetRangeTracker as Offsets


class LeastFn(DoFn):
    """Two required methods, no constructor."""

    def get_initial_restriction(self, element):
        return 0, element

    def process(self, element, tracker):
        return []


def sized(size):
    return type("SizedFn", (LeastFn,), {"restriction_size": lambda self, element, restriction: size})()


@attrs.frozen
class PinnedRange(OffsetRange):
    size: int = 0


@attrs.frozen
class PinnedKeys(ByteKeyRange):
    size: int = 0


@pytest.mark.parametrize("restriction", [PinnedRange(0, 5, 7), PinnedKeys(b"a", b"b", 7)])
def test_a_range_of_ones_own_has_the_tracker_of_its_kind(restriction):
    """Its parts keep its fields."""
    tracker = LeastFn().create_tracker("a", restriction)
    tracker.try_claim(restriction.start)
    front, rest = tracker.try_split(0)
    assert (type(front), type(rest)) == (type(restriction), type(restriction))
    assert (front.start, front.stop, rest.stop) == (restriction.start, rest.start, restriction.stop)
    assert (front.size, rest.size, tracker.current_restriction()) == (7, 7, front)


@pytest.mark.parametrize("missing", ["get_initial_restriction", "process"])
def test_two_methods_are_required(missing):
    """Without one of them there is no instance."""
    methods = {name: lambda *args: None for name in ("get_initial_restriction", "process") if name != missing}
    with pytest.raises(TypeError, match=missing):
        type("HalfFn", (DoFn,), methods)()


@pytest.mark.parametrize(
    ("restriction", "kind"),
    [
        (OffsetRange(0, 5), OffsetRangeTracker),
        (OffsetRange(0, UNBOUNDED), GrowableOffsetRangeTracker),
        (ByteKeyRange(), ByteKeyRangeTracker),
    ],
    ids=repr,
)
def test_default_tracker(restriction, kind):
    """By the type of the restriction."""
    tracker = LeastFn().create_tracker("a", restriction)
    assert (type(tracker), tracker.current_restriction()) == (kind, restriction)


def test_no_default_tracker():
    """The message says what to override."""
    message = "LeastFn has no tracker for a restriction of type list (got [0, 5] for element 'a'). Override create_trac"
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        LeastFn().create_tracker("a", [0, 5])


@pytest.mark.parametrize(
    ("restriction", "size"),
    [(OffsetRange(3, 10), 7), (OffsetRange(3, 3), 0), (OffsetRange(0, UNBOUNDED), None), (ByteKeyRange(), 1)],
    ids=repr,
)
def test_default_size_is_what_the_tracker_says_remains(restriction, size):
    """None if nobody can know."""
    assert LeastFn().restriction_size("a", restriction) == size


@pytest.mark.parametrize(
    ("restriction", "kept"),
    [
        (OffsetRange(3, 10), OffsetRange(3, 10)),
        (OffsetRange(3, 3), OffsetRange(3, 3)),
        (ByteKeyRange(), ByteKeyRange()),
        (OffsetRange(0, UNBOUNDED), None),
    ],
    ids=repr,
)
def test_default_truncate_keeps_finite_work(restriction, kept):
    """And drops work without an end."""
    assert LeastFn().truncate("a", restriction) == kept


def test_other_defaults():
    """One part, no watermark, and hooks that do nothing; it does not only look for new elements."""
    fn = LeastFn()
    assert not fn.scans
    found = (list(fn.split_restriction("a", OffsetRange(0, 5))), fn.create_watermark_estimator("a", OffsetRange(0, 5)))
    hooks = [fn.setup(), fn.teardown(), fn.start_bundle(), fn.finish_bundle(), fn.on_commit("a", OffsetRange(0, 5))]
    assert (found, hooks) == (([OffsetRange(0, 5)], None), [None] * 5)


def test_tagged_output_shows_itself():
    """Tag and value."""
    assert repr(TaggedOutput("bad", [1])) == "TaggedOutput('bad', [1])"


def test_tagged_output_refuses_to_leave_the_process():
    """An undeclared one is caught where it would be pickled."""
    message = "process() gave TaggedOutput('bad', 1), but no tags are declared. Pass tags=('bad',) to the runner."
    with pytest.raises(OutputError, match=re.escape(message)):
        TaggedOutput("bad", 1).__reduce__()


# Hooks

HOOKS = pytest.mark.parametrize("name", ["setup", "teardown", "start_bundle", "finish_bundle"])


def hooked(name, act):
    """Return a LeastFn with this hook."""
    return type("LeastFn", (LeastFn,), {name: lambda self: act()})()


@HOOKS
def test_call_hook_calls_it_once(name):
    """And gives nothing."""
    calls = []
    assert (call_hook(hooked(name, lambda: calls.append(name)), name), calls) == (None, [name])


@HOOKS
def test_call_hook_of_a_default(name):
    """Hooks do nothing unless they are overridden."""
    assert call_hook(LeastFn(), name) is None


@HOOKS
def test_an_exception_of_a_hook_is_a_process_error_with_its_cause(name):
    """The message names the DoFn and the hook; the original exception is the cause."""
    error = OSError("disk")

    def breaks():
        raise error

    with pytest.raises(ProcessError) as caught:
        call_hook(hooked(name, breaks), name)
    assert (str(caught.value), caught.value.__cause__) == (f"LeastFn.{name}() raised OSError: disk", error)


@HOOKS
def test_an_error_of_sdf_in_a_hook_keeps_its_class(name):
    """And gets the context that it lacks."""

    def breaks():
        raise ClaimError("broken")

    with pytest.raises(ClaimError) as caught:
        call_hook(hooked(name, breaks), name)
    assert str(caught.value) == f"LeastFn.{name}(): broken"


@HOOKS
@pytest.mark.parametrize("given", [["more"], [], 0, False, "", OffsetRange(0, 1)], ids=repr)
def test_a_hook_cannot_output(name, given):
    """It returns None, and what is falsy is not None; an output would belong to no claimed block."""
    with pytest.raises(OutputError) as caught:
        call_hook(hooked(name, lambda: given), name)
    assert str(caught.value) == f"LeastFn.{name}(): it must return None, it cannot output (got {given!r})"


@HOOKS
def test_a_generator_hook_cannot_output(name):
    """A hook with a yield in it would never run."""

    def gives():
        yield "more"

    with pytest.raises(OutputError, match=re.escape("it cannot output (got <generator object")):
        call_hook(hooked(name, gives), name)


# Expansion


def test_expand():
    """The initial restriction, and its parts with their sizes."""

    class PiecesFn(LeastFn):
        def split_restriction(self, element, restriction):
            return [(0, 2), OffsetRange(2, element)]

    assert expand(PiecesFn(), 5) == Expanded(5, OffsetRange(0, 5), ((OffsetRange(0, 2), 2), (OffsetRange(2, 5), 3)))


def test_expand_of_an_empty_restriction_is_one_work_item():
    """Also where it is split into nothing."""

    class NothingFn(LeastFn):
        def split_restriction(self, element, restriction):
            return ()

    assert expand(NothingFn(), 0).pieces == ((OffsetRange(0, 0), 0),)


@pytest.mark.parametrize("size", [None, 0, 5, 0.5])
def test_checked_size(size):
    """Finite and >= 0, or None."""
    assert checked_size(sized(size), "a", OffsetRange(0, 5)) == size


@pytest.mark.parametrize("size", [-1, float("nan"), float("inf"), "5", True, (5,)], ids=repr)
def test_checked_size_refuses(size):
    """Whatever no plan can be made with."""
    message = (
        "SizedFn.restriction_size() on OffsetRange(start=0, stop=5) of element 'a': it must return a finite number"
    )
    with pytest.raises(InvalidValueError, match=re.escape(message)) as caught:
        checked_size(sized(size), "a", OffsetRange(0, 5))
    assert f"(got {size!r})" in str(caught.value)


@pytest.mark.parametrize(
    ("fraction", "pair"),
    [
        (0.5, (OffsetRange(100, 149), OffsetRange(149, 200))),
        (0, (OffsetRange(100, 100), OffsetRange(100, 200))),
        (1, None),
    ],
)
def test_cut_is_a_split_before_handing_out(fraction, pair):
    """The planning rows of section 3."""
    assert cut(LeastFn(), "a", OffsetRange(100, 200), fraction) == pair


def tracked(kind):
    return type("TrackedFn", (LeastFn,), {"create_tracker": lambda self, element, restriction: kind(restriction)})()


def test_cut_of_unsplittable_work_is_declined():
    """It stays in one piece."""
    assert cut(tracked(UnsplittableTracker), "a", OffsetRange(0, 9), 0.5) is None


class OverlapTracker(Offsets):
    def try_split(self, fraction_of_remainder):
        return OffsetRange(0, 6), OffsetRange(4, 9)


class RaisingTracker(Offsets):
    def try_split(self, fraction_of_remainder):
        raise ZeroDivisionError("by the author")


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (
            OverlapTracker,
            SplitError,
            "try_split() gave parts that do not add up: OffsetRange(start=4, stop=9) overlaps",
        ),
        (RaisingTracker, ProcessError, "raised ZeroDivisionError: by the author"),
    ],
)
def test_cut_by_a_wrong_tracker_raises(kind, error, message):
    """Naming the DoFn, the restriction and the element."""
    with pytest.raises(error, match=re.escape(message)) as caught:
        cut(tracked(kind), "a", OffsetRange(0, 9), 0.5)
    assert str(caught.value).startswith("TrackedFn's tracker, cutting OffsetRange(start=0, stop=9) of element 'a',")


class FalseTracker(Offsets):
    def try_split(self, fraction_of_remainder):
        return False


class TripleTracker(Offsets):
    def try_split(self, fraction_of_remainder):
        return OffsetRange(0, 3), OffsetRange(3, 6), OffsetRange(6, 9)


@pytest.mark.parametrize("kind", [FalseTracker, TripleTracker])
def test_cut_by_a_tracker_that_gives_no_pair_raises(kind):
    """As a split at run time does: (primary, residual) or None."""
    with pytest.raises(SplitError, match=re.escape("try_split() must return (primary, residual) or None")):
        cut(tracked(kind), "a", OffsetRange(0, 9), 0.5)


@attrs.frozen
class Opaque:
    """A restriction without any proof."""

    name: str


def test_expand_of_what_cannot_be_proven_raises():
    """Before anything runs; the message says what to add."""

    class OpaqueFn(LeastFn):
        def get_initial_restriction(self, element):
            return Opaque(element)

        def create_tracker(self, element, restriction):
            return UnsplittableTracker((0, 1))

        def restriction_size(self, element, restriction):
            return None

    with pytest.raises(SplitError, match="give the restriction start and stop"):
        expand(OpaqueFn(), "x")


def test_expand_asks_for_a_remark():
    """It travels to the report; an empty one is none."""

    class RemarksFn(LeastFn):
        def remark(self, element, restriction):
            return f"{element} of {restriction.stop}" if element else ""

    assert [expand(RemarksFn(), element).note for element in (5, 0)] == ["5 of 5", None]


def test_a_remark_must_be_text():
    """Named as the author's mistake."""

    class RemarksFn(LeastFn):
        def remark(self, element, restriction):
            return 5

    message = r"RemarksFn.remark\(\) on .*: it must return a string or None \(got 5\)"
    with pytest.raises(InvalidTypeError, match=message):
        expand(RemarksFn(), 5)
