"""run_direct: the semantics of every runner, in this process."""

import re
from collections import Counter

import attrs
import pytest
from support.fns import CountFn
from support.integers import KINDS

from sdf import (
    ByteKeyRange,
    DoFn,
    ManualWatermark,
    OffsetRange,
    OffsetRangeTracker,
    RestrictionTracker,
    TaggedOutput,
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
    SplitError,
    UnboundedError,
    UnclaimedWorkError,
)
from sdf.model.dofn import check_tags
from sdf.model.restrictions import UNBOUNDED

ELEMENTS = [("a", 5), ("b", 0), ("c", 23), ("a", 5)]
EXPECTED = [(name, i) for name, count in ELEMENTS for i in range(count)]
TABLE = [bytes([one, two]) for one in range(1, 6) for two in (0, 128, 255)]
EVERY = pytest.mark.parametrize("split_every", [None, 1, 2, 3, 4, 5, 7, 22, 23, 24, 1000])
SEED = pytest.mark.parametrize("seed", [None, 0, 1, 2])


class TupleFn(CountFn):
    """Gives plain tuples."""

    def get_initial_restriction(self, element):
        return 0, element[1]


class PiecesFn(CountFn):
    """Splits beforehand."""

    def split_restriction(self, element, restriction):
        return restriction.split(4)


class BlocksFn(CountFn):
    """Claims blocks of four, and the stop at the end."""

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        position = -(-start // 4) * 4
        while tracker.try_claim(position):
            for i in range(position, min(position + 4, element[1])):
                yield element[0], i
            position += 4
            if position >= element[1]:
                position = max(element[1], stop)


class KeysFn(DoFn):
    """Reads a sorted table by key; the element is a prefix for its outputs."""

    def get_initial_restriction(self, element):
        return ByteKeyRange()

    def process(self, element, tracker):
        start = tracker.current_restriction().start
        for key in TABLE:
            if key < start:
                continue
            if not tracker.try_claim(key):
                return
            yield element, key
        tracker.try_claim(b"")


@attrs.frozen
class Names:
    """A custom restriction: names to do; falsy when empty."""

    names: tuple

    def __len__(self):
        return len(self.names)

    def is_tiled_by(self, parts):
        return tuple(name for part in parts for name in part.names) == self.names


class NamesTracker(RestrictionTracker):
    def __init__(self, whole):
        self.whole, self.done = whole, 0

    def current_restriction(self):
        return self.whole

    def try_claim(self, position):
        if position >= len(self.whole.names):
            return False
        self.done = position + 1
        return True

    def try_split(self, fraction_of_remainder):
        names = self.whole.names
        cut = self.done + int((len(names) - self.done) * fraction_of_remainder)
        self.whole = Names(names[:cut])
        return self.whole, Names(names[cut:])

    def check_done(self):
        if self.done < len(self.whole.names):
            raise ValueError(f"{self.whole.names[self.done :]} not done")


class NamesFn(DoFn):
    def get_initial_restriction(self, element):
        return Names(tuple(element))

    def create_tracker(self, element, restriction):
        return NamesTracker(restriction)

    def process(self, element, tracker):
        for number, name in enumerate(tracker.current_restriction().names):
            if not tracker.try_claim(number):
                return
            yield name


class PatientFn(CountFn):
    """Does two positions at a time and defers the rest."""

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for i in range(start, min(start + 2, stop)):
            if not tracker.try_claim(i):
                return
            yield element[0], i
        tracker.defer_remainder(3600)


@SEED
@EVERY
@pytest.mark.parametrize("fn", [CountFn, TupleFn, PiecesFn, BlocksFn, PatientFn], ids=lambda kind: kind.__name__)
def test_offsets_are_those_of_a_plain_loop(fn, split_every, seed):
    """Wherever it is checkpointed and in whatever order it runs, each record comes once."""
    found = run_direct(ELEMENTS, fn(), split_every=split_every, seed=seed)
    assert Counter(found) == Counter(EXPECTED)


@EVERY
def test_without_a_seed_outputs_are_in_order(split_every):
    """Residuals first: as a plain loop would."""
    assert run_direct(ELEMENTS, CountFn(), split_every=split_every) == EXPECTED


@SEED
@EVERY
def test_byte_keys_are_those_of_a_plain_loop(split_every, seed):
    """Each key once."""
    found = run_direct(["x", "y"], KeysFn(), split_every=split_every, seed=seed)
    assert sorted(found) == [(element, key) for element in "xy" for key in TABLE]


@SEED
@EVERY
def test_custom_restriction_is_that_of_a_plain_loop(split_every, seed):
    """With its own tracker, proof and falsy residuals."""
    found = run_direct(["split", "", "me"], NamesFn(), split_every=split_every, seed=seed)
    assert sorted(found) == sorted("splitme")


def test_a_seed_gives_the_same_order_again():
    """Random, but repeatable."""
    runs = [run_direct(ELEMENTS, CountFn(), split_every=2, seed=5) for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_seed_shuffles():
    """Another order than without."""
    assert run_direct(ELEMENTS, CountFn(), split_every=2, seed=5) != EXPECTED


def test_split_every_really_splits():
    """23 positions, checkpointed after each, are 23 attempts."""
    attempts = []

    class SeenFn(CountFn):
        def process(self, element, tracker):
            attempts.append(tuple(tracker.current_restriction()))
            return super().process(element, tracker)

    run_direct([("c", 23)], SeenFn(), split_every=1)
    assert attempts == [(i, 23) for i in range(23)]


@pytest.mark.parametrize("elements", [[], iter([]), (), {}])
def test_no_elements_give_no_outputs(elements):
    """Not an error."""
    assert run_direct(elements, CountFn()) == []


def test_elements_may_be_any_iterable():
    """A generator too."""
    assert run_direct((element for element in ELEMENTS), CountFn()) == EXPECTED


def test_equal_and_unhashable_elements_are_different_elements():
    """Elements are never compared."""
    assert run_direct([["a", 2], ["a", 2]], CountFn()) == [("a", 0), ("a", 1)] * 2


# Side inputs and tags


class ScaleFn(CountFn):
    def process(self, element, tracker, *, factor, offset=0):
        for _, i in super().process(element, tracker):
            yield i * factor + offset


@pytest.mark.parametrize(
    ("side_inputs", "expected"), [({"factor": 10}, [0, 10, 20]), ({"factor": 10, "offset": 1}, [1, 11, 21])]
)
def test_side_inputs(side_inputs, expected):
    """Passed by name, with the defaults of process()."""
    assert run_direct([("a", 3)], ScaleFn(), side_inputs=side_inputs) == expected


@pytest.mark.parametrize("side_inputs", [None, {}, {"offset": 1}, {"factor": 1, "typo": 2}])
def test_side_inputs_that_do_not_fit_raise(side_inputs):
    """Before anything runs; the message has the signature."""
    with pytest.raises(
        InvalidTypeError, match=re.escape("ScaleFn.process() cannot be called as process(element, track")
    ):
        run_direct([], ScaleFn(), side_inputs=side_inputs)


def test_side_inputs_are_named():
    """Names are text."""
    with pytest.raises(InvalidTypeError, match=re.escape("run_direct() side_inputs must map names to values (got the")):
        run_direct([], ScaleFn(), side_inputs={1: 2})


class OddFn(CountFn):
    def process(self, element, tracker):
        for name, i in super().process(element, tracker):
            yield TaggedOutput("odd", i) if i % 2 else (name, i)


@EVERY
def test_tags(split_every):
    """A dict of lists: main and one per tag."""
    found = run_direct([("a", 5)], OddFn(), tags=("odd", "unused"), split_every=split_every)
    assert found == {"main": [("a", 0), ("a", 2), ("a", 4)], "odd": [1, 3], "unused": []}


@pytest.mark.parametrize("tags", [(), ("even",)])
def test_an_undeclared_tag_raises(tags):
    """The message says how to declare it."""
    message = (
        f"OddFn.process() gave TaggedOutput('odd', 1), but the declared tags are {tags!r}. "
        "Pass tags=('odd',) to run_direct()."
    )
    with pytest.raises(OutputError, match=re.escape(message)):
        run_direct([("a", 5)], OddFn(), tags=tags)


@pytest.mark.parametrize(
    ("tags", "kind"),
    [
        ("bad", InvalidTypeError),
        (5, InvalidTypeError),
        (None, InvalidTypeError),
        (("main",), InvalidValueError),
        (("bad", "bad"), InvalidValueError),
        ((1,), InvalidTypeError),
    ],
)
def test_tags_are_distinct_names(tags, kind):
    """A string is not a tuple of names, and main is taken."""
    with pytest.raises(kind, match=re.escape("run() tags must be ")):
        check_tags(tags, "run()")


def test_tags_may_be_any_iterable_of_names():
    """They become a tuple."""
    assert check_tags(["a", "b"], "run()") == ("a", "b")


# Arguments


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (CountFn, "run_direct() needs an instance of a DoFn: pass CountFn() (got the class CountFn)."),
        (None, "run_direct() needs a DoFn (got None)."),
        (5, "run_direct() needs a DoFn (got 5)."),
    ],
)
def test_fn_must_be_a_dofn(fn, message):
    """The message says what to pass."""
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        run_direct([], fn)


@pytest.mark.parametrize("split_every", [0, -1, 1.5, "2", True])
def test_split_every_must_be_a_positive_integer(split_every):
    """Or None."""
    message = f"run_direct() split_every must be an integer >= 1, or None (got {split_every!r})."
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        run_direct([], CountFn(), split_every=split_every)


# The life cycle


def test_life_cycle():
    """setup, start_bundle, the work, finish_bundle, teardown: each once."""
    calls = []

    class CallsFn(CountFn):
        def setup(self):
            calls.append("setup")

        def teardown(self):
            calls.append("teardown")

        def start_bundle(self):
            calls.append("start_bundle")

        def finish_bundle(self):
            calls.append("finish_bundle")

        def get_initial_restriction(self, element):
            calls.append("restriction")
            return super().get_initial_restriction(element)

        def process(self, element, tracker):
            calls.append("process")
            return super().process(element, tracker)

    run_direct([("a", 2), ("b", 1)], CallsFn())
    assert calls == [
        *["setup", "start_bundle", "restriction", "restriction", "process", "process", "finish_bundle", "teardown"]
    ]


def test_teardown_runs_after_a_failure():
    """What setup() opened is closed."""
    calls = []

    class BreakFn(CountFn):
        def process(self, element, tracker):
            raise OSError("disk")

        def teardown(self):
            calls.append("teardown")

    with pytest.raises(ProcessError):
        run_direct(ELEMENTS, BreakFn())
    assert calls == ["teardown"]


def test_finish_bundle_cannot_output():
    """It returns None."""

    class TalkFn(CountFn):
        def finish_bundle(self):
            return ["more"]

    with pytest.raises(
        OutputError, match=re.escape("TalkFn.finish_bundle(): it must return None, it cannot output (got ['more'])")
    ):
        run_direct([("a", 1)], TalkFn())


# Errors


def broken(method, error):
    """Return a DoFn whose method raises."""

    def breaks(self, *args):
        raise error

    return type("BrokenFn", (CountFn,), {method: breaks})()


@pytest.mark.parametrize(
    "method",
    [
        "setup",
        "start_bundle",
        "finish_bundle",
        "get_initial_restriction",
        "split_restriction",
        "create_tracker",
        "restriction_size",
        "create_watermark_estimator",
        "process",
    ],
)
def test_an_exception_of_any_method_is_a_process_error_with_its_cause(method):
    """The message names the DoFn and the method; the original exception is the cause."""
    error = OSError("disk")
    with pytest.raises(ProcessError, match=rf"BrokenFn\.{method}\(\).* raised OSError: disk") as caught:
        run_direct([("a", 3)], broken(method, error))
    assert caught.value.__cause__ is error


def returning(method, value):
    return type("ReturnsFn", (CountFn,), {method: lambda self, *args: value})()


@pytest.mark.parametrize(
    ("fn", "kind", "message"),
    [
        (
            returning("get_initial_restriction", None),
            InvalidTypeError,
            "ReturnsFn.get_initial_restriction() of element ('a', 3): it returned None, which is not a restriction.",
        ),
        (
            returning("get_initial_restriction", (3, 1)),
            InvalidValueError,
            "ReturnsFn.get_initial_restriction() of element ('a', 3): it returned (3, 1): OffsetRange start must be",
        ),
        (
            returning("get_initial_restriction", (0, UNBOUNDED)),
            UnboundedError,
            "gave OffsetRange(start=0, stop=UNBOUNDED) for element ('a', 3), which has no end. Run it with stream_sdf",
        ),
        (
            returning("get_initial_restriction", [0, 3]),
            InvalidTypeError,
            "ReturnsFn has no tracker for a restriction of type list (got [0, 3] for element ('a', 3)).",
        ),
        (
            returning("split_restriction", None),
            InvalidTypeError,
            "ReturnsFn.split_restriction() on OffsetRange(start=0, stop=3) of element ('a', 3): it must yield restric",
        ),
        (
            returning("split_restriction", [(0, 1), (2, 3)]),
            SplitError,
            "its parts do not add up to the restriction: OffsetRange(start=2, stop=3) leaves a gap after 1",
        ),
        (
            returning("split_restriction", [(0, 2), (1, 3)]),
            SplitError,
            "its parts do not add up to the restriction: OffsetRange(start=1, stop=3) overlaps or repeats 2",
        ),
        (returning("split_restriction", []), SplitError, "its parts do not add up to the restriction: the parts []"),
        (
            returning("restriction_size", -1),
            InvalidValueError,
            "ReturnsFn.restriction_size() on OffsetRange(start=0, stop=3) of element ('a', 3): it must return a finite",
        ),
        (
            returning("restriction_size", float("nan")),
            InvalidValueError,
            "it must return a finite number >= 0, or None",
        ),
        (returning("restriction_size", "big"), InvalidValueError, "(got 'big')"),
        (returning("restriction_size", True), InvalidValueError, "(got True)"),
        (
            returning("process", None),
            UnclaimedWorkError,
            "ReturnsFn.process() on OffsetRange(start=0, stop=3) of element ('a', 3): [0, 3) of",
        ),
        (returning("process", "text"), InvalidTypeError, "it must yield records or return an iterable of them"),
    ],
)
def test_what_a_method_must_not_return(fn, kind, message):
    """The message names method, element and value."""
    with pytest.raises(kind, match=re.escape(message)):
        run_direct([("a", 3)], fn)


def test_an_empty_restriction_may_be_split_into_nothing():
    """It stays one empty work item, so that process() sees it."""
    seen = []

    class SeenFn(CountFn):
        def split_restriction(self, element, restriction):
            return []

        def process(self, element, tracker):
            seen.append(tracker.current_restriction())
            return []

    run_direct([("a", 0)], SeenFn())
    assert seen == [OffsetRange(0, 0)]


def process_of(body):
    return type("BadFn", (CountFn,), {"process": lambda self, element, tracker: body(tracker)})()


def out_of_order(tracker):
    tracker.try_claim(2)
    yield tracker.try_claim(1)


def output_first(tracker):
    yield "header"
    tracker.try_claim(3)


def ignores_the_answer(tracker):
    for i in range(3):
        tracker.try_claim(i)
        yield i


def defers_too_late(tracker):
    tracker.try_claim(3)
    tracker.defer_remainder()
    yield


@pytest.mark.parametrize(
    ("body", "split_every", "kind"),
    [
        (out_of_order, None, ClaimError),
        (output_first, None, OutputError),
        (ignores_the_answer, 2, OutputError),
        (defers_too_late, None, DeferError),
    ],
)
def test_all_of_the_contract_is_checked(body, split_every, kind):
    """Also what other runners leave out for speed."""
    with pytest.raises(kind, match=re.escape("BadFn.process() on OffsetRange(start=0, stop=3) of element ('a', 3): ")):
        run_direct([("a", 3)], process_of(body), split_every=split_every)


class WaitsFn(CountFn):
    """Finds nothing there yet so many times per element, and then all."""

    def __init__(self, times):
        self.times = times
        self.asked = Counter()

    def process(self, element, tracker):
        self.asked[element] += 1
        if self.asked[element] <= self.times:
            tracker.defer_remainder(60)
            return
        yield from super().process(element, tracker)


@SEED
def test_deferring_for_ever_raises(seed):
    """Nothing will come that is not there yet; the message says where work to come can run."""
    message = (
        "WaitsFn.process() deferred OffsetRange(start=0, stop=3) of element ('a', 3) again and again without a claim. "
        "run_direct() does not wait; use stream_sdf() for work to come."
    )
    with pytest.raises(DeferError, match=re.escape(message)):
        run_direct([("a", 3)], WaitsFn(10**9), seed=seed)


@SEED
def test_deferring_for_ever_raises_among_others_that_end(seed):
    """Work that ends does not hide work that does not."""

    class StuckFn(CountFn):
        def process(self, element, tracker):
            if element[0] == "stuck":
                tracker.defer_remainder()
                return
            yield from super().process(element, tracker)

    elements = [(str(number), 2) for number in range(50)] + [("stuck", 7)] + [("", 2)] * 50
    with pytest.raises(DeferError, match=re.escape("StuckFn.process() deferred OffsetRange(start=0, stop=7) of elem")):
        run_direct(elements, StuckFn(), seed=seed)


def test_deferring_for_ever_after_some_claims_raises():
    """Of the rest that is never claimed."""

    class HalfFn(CountFn):
        def process(self, element, tracker):
            for i in range(tracker.current_restriction().start, 4):
                tracker.try_claim(i)
                yield element[0], i
            tracker.defer_remainder()

    with pytest.raises(
        DeferError, match=re.escape("HalfFn.process() deferred OffsetRange(start=4, stop=9) of element")
    ):
        run_direct([("a", 9)], HalfFn())


def test_teardown_runs_after_deferring_for_ever():
    """What setup() opened is closed."""
    calls = []

    class ClosesFn(WaitsFn):
        def teardown(self):
            calls.append("teardown")

    with pytest.raises(DeferError):
        run_direct([("a", 3)], ClosesFn(10**9))
    assert calls == ["teardown"]


@SEED
@pytest.mark.parametrize(("count", "times"), [(1, 100), (500, 3)])
def test_deferring_a_while_is_fine(count, times, seed):
    """One element often, or many a few times each, is no endless loop."""
    elements = [(number, 2) for number in range(count)]
    found = run_direct(elements, WaitsFn(times), seed=seed)
    assert sorted(found) == [(number, i) for number in range(count) for i in range(2)]


@SEED
def test_deferring_after_every_claim_is_fine(seed):
    """Each claim is progress, however long it takes."""

    class OneFn(CountFn):
        def process(self, element, tracker):
            start = tracker.current_restriction().start
            if tracker.try_claim(start):
                yield element[0], start
                tracker.defer_remainder()

    assert sorted(run_direct([("a", 300)], OneFn(), seed=seed)) == [("a", i) for i in range(300)]


def test_watermark_state_goes_on_in_the_residual():
    """A checkpointed work item goes on from its watermark."""
    seen = []

    class MarkFn(CountFn):
        def create_watermark_estimator(self, element, restriction):
            return ManualWatermark(-1)

        def process(self, element, tracker):
            seen.append(tracker.watermark.current())
            for item in super().process(element, tracker):
                tracker.watermark.advance(item[1])
                yield item

    run_direct([("a", 6)], MarkFn(), split_every=2)
    assert seen == [-1, 0, 2]


@KINDS
def test_positions_and_bounds_may_be_integers_of_any_kind(kind):
    """What a library counts in needs no int() around it, in a DoFn that is split too."""

    class AnyKindFn(CountFn):
        def get_initial_restriction(self, element):
            return kind(0), kind(element[1])

        def process(self, element, tracker):
            for i in range(*tracker.current_restriction()):
                if not tracker.try_claim(kind(i)):
                    return
                yield i

    assert run_direct([("a", 5)], AnyKindFn(), split_every=kind(2)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("elements", "shown"),
    [("notes.txt", "'notes.txt'"), (b"x", "b'x'"), (5, "5"), (CountFn(), "<")],
    ids=["text", "bytes", "number", "DoFn"],
)
def test_elements_are_given_as_a_list(elements, shown):
    """One string is no list of its letters, and the DoFn comes second."""
    message = f"run_direct() needs a list of elements, or another iterable, and then a DoFn (got {shown}"
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        run_direct(elements, CountFn())


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (
            {"get_initial_restriction": lambda self, element: (yield OffsetRange(0, 3))},
            "it returned a generator, which is not a restriction. Return the restriction, do not yield it.",
        ),
        (
            {"create_tracker": lambda self, element, restriction: OffsetRangeTracker},
            "it must return an instance of RestrictionTracker (got <class",
        ),
        (
            {"create_tracker": lambda self, element, restriction: restriction},
            "it must return an instance of RestrictionTracker (got OffsetRange(",
        ),
    ],
    ids=["yields its restriction", "a class for a tracker", "a restriction for a tracker"],
)
def test_a_wrong_return_is_told(methods, message):
    """In terms of what the method has to return."""
    fn = type("WrongFn", (CountFn,), methods)()
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        run_direct([("a", 3)], fn)


@pytest.mark.parametrize("covered", [(0, 2), (0, 4), (1, 3)])
def test_a_tracker_of_another_range_is_refused(covered):
    """What it does not cover would be lost, and what it covers beyond that would be run twice."""

    class OtherFn(CountFn):
        def create_tracker(self, element, restriction):
            return OffsetRangeTracker(OffsetRange(*covered))

    got = re.escape(f"(got a tracker of {OffsetRange(*covered)!r})")
    with pytest.raises(SplitError, match=r"^OtherFn.create_tracker\(\) on .* a tracker of the restriction .*" + got):
        run_direct([("a", 3)], OtherFn())


def test_a_tracker_of_the_whole_is_refused_for_a_part():
    """Though it was right for the initial restriction: a runner's part would be run twice."""

    class WholeFn(CountFn):
        def create_tracker(self, element, restriction):
            return OffsetRangeTracker(OffsetRange(0, element[1]))

        def split_restriction(self, element, restriction):
            return restriction.split(1)

        def restriction_size(self, element, restriction):
            return restriction.stop - restriction.start

    with pytest.raises(SplitError, match=r"OffsetRange\(start=0, stop=1\) .*which may be a part of the initial one"):
        run_direct([("a", 3)], WholeFn())


@pytest.mark.parametrize("side_inputs", [[1], "limits", 5], ids=repr)
def test_side_inputs_are_a_mapping(side_inputs):
    """A list has no names."""
    message = f"run_direct() side_inputs must map names to values (got {side_inputs!r})."
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        run_direct([("a", 3)], CountFn(), side_inputs=side_inputs)


class CustomFn(CountFn):
    """With a tracker of the user's."""

    def create_tracker(self, element, restriction):
        return UnsplittableTracker(restriction)


@pytest.mark.parametrize("base", [CountFn, CustomFn])
@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda tracker: tracker.start, "the tracker in process() has no 'start': it offers claims(), try_claim()"),
        (lambda tracker: tracker.claim(0), "the tracker in process() has no 'claim': it offers claims(), try_claim()"),
        (list, "the tracker in process() cannot be iterated over. Iterate over its claims: for position in"),
    ],
    ids=["start", "claim", "iterated over"],
)
def test_a_tracker_says_what_it_offers(base, use, message):
    """To who takes it for the restriction, or misspells it."""

    class UsesFn(base):
        def process(self, element, tracker):
            yield use(tracker)

    with pytest.raises(ProcessError, match=re.escape(message)):
        run_direct([("a", 3)], UsesFn())
