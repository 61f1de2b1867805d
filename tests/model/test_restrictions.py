"""OffsetRange, ByteKeyRange, UNBOUNDED, as_restriction and the proof that parts tile a whole."""

import copy
import operator
import pickle
import random
import re
from itertools import pairwise
from types import GeneratorType

import attrs
import cloudpickle
import pytest
from support.integers import KINDS

from sdf.errors import InvalidTypeError, InvalidValueError, UnboundedError
from sdf.model.restrictions import UNBOUNDED, ByteKeyRange, OffsetRange, as_restriction, tiling_flaw

PICKLERS = pytest.mark.parametrize("pickler", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])
HUGE = 2**64 + 1


@attrs.frozen
class Days:
    """A custom restriction with start and stop, which checks nothing."""

    start: int
    stop: int


@attrs.frozen
class Files:
    """A custom restriction with its own proof."""

    names: tuple

    def is_tiled_by(self, parts):
        return tuple(name for part in parts for name in part.names) == self.names


@attrs.frozen
class Rows:
    """A custom restriction that only has a size."""

    count: int


def rows_size(restriction):
    return restriction.count


def no_size(restriction):
    return None


def never_called(restriction):
    raise AssertionError("the size is the last proof")


# OffsetRange


def test_offset_range_is_a_value():
    """Two ranges with the same bounds are equal and hash alike."""
    assert len({OffsetRange(0, 5), OffsetRange(0, 5), OffsetRange(0, 6)}) == 2


def test_offset_range_unpacks_to_start_and_stop():
    """range(*restriction) works."""
    assert list(range(*OffsetRange(3, 6))) == [3, 4, 5]


def test_offset_range_is_frozen():
    """A restriction cannot change once it is made."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        OffsetRange(0, 5).stop = 6


@pytest.mark.parametrize("whole", [OffsetRange(0, 5), OffsetRange(-3, HUGE), OffsetRange(2, UNBOUNDED)], ids=repr)
def test_offset_range_repr_can_be_pasted_back(whole):
    """Evaluating the repr gives the value."""
    assert eval(repr(whole)) == whole


@PICKLERS
@pytest.mark.parametrize("whole", [OffsetRange(0, 5), OffsetRange(-3, HUGE), OffsetRange(2, UNBOUNDED)], ids=repr)
def test_offset_range_survives_pickling(whole, pickler):
    """The copy equals the original."""
    assert pickle.loads(pickler.dumps(whole)) == whole


@attrs.frozen
class NamedRange(OffsetRange):
    name: str = ""


def test_a_range_of_ones_own_survives_pickling():
    """It stays of its class."""
    assert (
        pickle.loads(pickle.dumps(NamedRange(1, 2, "a")))
        == copy.deepcopy(NamedRange(1, 2, "a"))
        == NamedRange(1, 2, "a")
    )


def test_pieces_of_a_range_of_ones_own_keep_its_fields():
    """As every part does."""
    assert list(NamedRange(0, 5, "a").split(2)) == [NamedRange(0, 2, "a"), NamedRange(2, 4, "a"), NamedRange(4, 5, "a")]


@pytest.mark.parametrize(
    ("start", "stop", "message"),
    [
        (0.0, 5, "OffsetRange start must be an integer (got start=0.0)."),
        (0, 5.0, "OffsetRange stop must be an integer (got stop=5.0)."),
        (True, 5, "OffsetRange start must be an integer (got start=True)."),
        (0, False, "OffsetRange stop must be an integer (got stop=False)."),
        ("0", 5, "OffsetRange start must be an integer (got start='0')."),
        (0, None, "OffsetRange stop must be an integer (got stop=None)."),
        (UNBOUNDED, UNBOUNDED, "OffsetRange start must be an integer (got start=UNBOUNDED)."),
        (0, float("inf"), "OffsetRange stop must be an integer (got stop=inf)."),
    ],
)
def test_offset_range_takes_integers_only(start, stop, message):
    """A bool, a float or anything else is refused by name."""
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        OffsetRange(start, stop)


@pytest.mark.parametrize(("start", "stop"), [(10, 9), (1, -1), (HUGE, HUGE - 1)])
def test_offset_range_must_not_be_reversed(start, stop):
    """start > stop raises and says both."""
    message = f"OffsetRange start must be <= stop (got start={start}, stop={stop})."
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        OffsetRange(start, stop)


@pytest.mark.parametrize(
    ("whole", "empty"),
    [
        (OffsetRange(5, 5), True),
        (OffsetRange(-5, -5), True),
        (OffsetRange(5, 6), False),
        (OffsetRange(5, UNBOUNDED), False),
        (OffsetRange(HUGE, HUGE), True),
    ],
    ids=repr,
)
def test_offset_range_is_empty_when_start_is_stop(whole, empty):
    """start == stop is the empty range."""
    assert whole.is_empty() is empty


# OffsetRange.split


@pytest.mark.parametrize(
    ("whole", "desired", "minimum", "bounds"),
    [
        (OffsetRange(10, 100), 25, 1, [10, 35, 60, 85, 100]),
        (OffsetRange(10, 90), 25, 1, [10, 35, 60, 90]),
        (OffsetRange(10, 100), 5, 25, [10, 35, 60, 100]),
        (OffsetRange(0, 10), 100, 1, [0, 10]),
        (OffsetRange(0, 10), 3, 100, [0, 10]),
        (OffsetRange(0, 4), 1, 1, [0, 1, 2, 3, 4]),
        (OffsetRange(-10, 0), 5, 1, [-10, -5, 0]),
        (OffsetRange(HUGE, HUGE + 4), 2, 1, [HUGE, HUGE + 2, HUGE + 4]),
    ],
)
def test_split_worked_numbers(whole, desired, minimum, bounds):
    """The pieces of section 2."""
    expected = [OffsetRange(one, two) for one, two in pairwise(bounds)]
    assert list(whole.split(desired, minimum)) == expected


def test_split_of_an_empty_range_is_the_range():
    """An empty range stays one work item, so that its element is not lost."""
    assert list(OffsetRange(7, 7).split(3)) == [OffsetRange(7, 7)]


@pytest.mark.parametrize("length", range(1, 13))
def test_split_pieces_tile_every_small_range(length):
    """For every desired and minimum size the pieces are non-empty, in order, and tile the range."""
    flaws = []
    for desired in range(1, 15):
        for minimum in range(1, 15):
            whole = OffsetRange(3, 3 + length)
            pieces = list(whole.split(desired, minimum))
            if tiling_flaw(whole, pieces, never_called) or any(piece.is_empty() for piece in pieces):
                flaws.append((desired, minimum))
    assert flaws == []


@pytest.mark.parametrize("length", range(1, 13))
def test_split_pieces_are_never_smaller_than_the_minimum(length):
    """No piece is below the minimum unless the whole range is."""
    small = [
        (desired, minimum, piece)
        for desired in range(1, 15)
        for minimum in range(1, 15)
        for piece in OffsetRange(0, length).split(desired, minimum)
        if piece.stop - piece.start < min(length, max(minimum, desired // 4))
    ]
    assert small == []


@pytest.mark.parametrize("seed", range(50))
def test_split_of_any_range_tiles_it(seed):
    """Of any size of integers the pieces tile the range."""
    rng = random.Random(seed)
    start, desired, minimum = rng.randint(-(2**70), 2**70), rng.randint(1, 2**70), rng.randint(1, 2**70)
    whole = OffsetRange(start, start + 5 * desired + minimum)
    assert tiling_flaw(whole, list(whole.split(desired, minimum)), never_called) is None


def test_split_is_lazy():
    """A range with 2**64 pieces gives its first one at once."""
    assert next(OffsetRange(0, 2**64).split(1)) == OffsetRange(0, 1)


def test_split_gives_an_iterator():
    """No list of pieces is made."""
    assert isinstance(OffsetRange(0, 9).split(1), GeneratorType)


@pytest.mark.parametrize(
    ("desired", "minimum", "message"),
    [
        (0, 1, "OffsetRange.split() desired must be an integer >= 1 (got 0)."),
        (-1, 1, "OffsetRange.split() desired must be an integer >= 1 (got -1)."),
        (2.0, 1, "OffsetRange.split() desired must be an integer >= 1 (got 2.0)."),
        (True, 1, "OffsetRange.split() desired must be an integer >= 1 (got True)."),
        (1, 0, "OffsetRange.split() minimum must be an integer >= 1 (got 0)."),
        (1, "1", "OffsetRange.split() minimum must be an integer >= 1 (got '1')."),
    ],
)
def test_split_checks_its_arguments_at_the_call(desired, minimum, message):
    """A bad size raises at the call, not at the first piece."""
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        OffsetRange(0, 10).split(desired, minimum)


def test_split_of_an_unbounded_range_raises():
    """A range without an end has no pieces."""
    message = "OffsetRange.split() needs a finite stop (got OffsetRange(start=0, stop=UNBOUNDED))."
    with pytest.raises(UnboundedError, match=re.escape(message)):
        OffsetRange(0, UNBOUNDED).split(5)


# UNBOUNDED


@pytest.mark.parametrize("number", [0, -1, HUGE, 2**1000])
def test_unbounded_is_greater_than_every_integer(number):
    """Both ways round."""
    compare = (operator.lt, operator.le, operator.eq, operator.ge, operator.gt)
    assert [one(number, UNBOUNDED) for one in compare] == [True, True, False, False, False]
    assert [one(UNBOUNDED, number) for one in compare] == [False, False, False, True, True]


def test_unbounded_equals_itself():
    """It is not less than itself."""
    found = (UNBOUNDED <= UNBOUNDED, UNBOUNDED >= UNBOUNDED, UNBOUNDED < UNBOUNDED, UNBOUNDED > UNBOUNDED)
    assert found == (True, True, False, False)


def test_max_and_min_with_unbounded():
    """Range arithmetic needs no special case."""
    assert (max(3, UNBOUNDED), min(UNBOUNDED, 3)) == (UNBOUNDED, 3)


@pytest.mark.parametrize(
    "clone",
    [
        lambda value: pickle.loads(pickle.dumps(value)),
        lambda value: pickle.loads(cloudpickle.dumps(value)),
        lambda value: pickle.loads(pickle.dumps(value, 0)),
        copy.copy,
        copy.deepcopy,
    ],
    ids=["pickle", "cloudpickle", "protocol 0", "copy", "deepcopy"],
)
def test_unbounded_stays_the_same_object(clone):
    """There is one instance, whatever copies it."""
    assert clone(UNBOUNDED) is UNBOUNDED


def test_unbounded_stop_of_a_pickled_range_is_the_same_object():
    """A range from another process still compares by identity."""
    assert pickle.loads(pickle.dumps(OffsetRange(0, UNBOUNDED))).stop is UNBOUNDED


# ByteKeyRange


def test_byte_key_range_defaults_to_all_keys():
    """ByteKeyRange() is all keys."""
    assert ByteKeyRange() == ByteKeyRange(b"", b"")


def test_byte_key_range_unpacks():
    """start, stop = restriction."""
    assert tuple(ByteKeyRange(b"a", b"b")) == (b"a", b"b")


@pytest.mark.parametrize(
    ("whole", "empty"),
    [
        (ByteKeyRange(b"", b""), False),
        (ByteKeyRange(b"a", b""), False),
        (ByteKeyRange(b"", b"\x00"), True),
        (ByteKeyRange(b"", b"\x00\x00"), False),
        (ByteKeyRange(b"\x00", b"\x00"), True),
        (ByteKeyRange(b"a", b"a"), True),
        (ByteKeyRange(b"a", b"a\x00"), False),
        (ByteKeyRange(b"", b"a"), False),
    ],
    ids=repr,
)
def test_byte_key_range_is_empty(whole, empty):
    """Empty are [s, s) and, because the empty key is no key, [b"", b"\\x00")."""
    assert whole.is_empty() is empty


@pytest.mark.parametrize(
    ("start", "stop", "message"),
    [
        ("a", b"b", "ByteKeyRange start must be bytes (got start='a')."),
        (b"a", "b", "ByteKeyRange stop must be bytes (got stop='b')."),
        (b"a", None, "ByteKeyRange stop must be bytes (got stop=None)."),
        (bytearray(b"a"), b"b", "ByteKeyRange start must be bytes (got start=bytearray(b'a'))."),
        (1, b"b", "ByteKeyRange start must be bytes (got start=1)."),
    ],
)
def test_byte_key_range_takes_bytes_only(start, stop, message):
    """Text, None, integers and mutable bytes are refused by name."""
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        ByteKeyRange(start, stop)


def test_byte_key_range_must_not_be_reversed():
    """start > stop raises unless stop is b""."""
    message = "ByteKeyRange start must be <= stop, or stop b'' for no end (got start=b'b', stop=b'a')."
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        ByteKeyRange(b"b", b"a")


def test_byte_keys_are_ordered_as_unsigned_bytes():
    """b"\\xff" is after b"\\x7f"."""
    assert ByteKeyRange(b"\x7f", b"\xff").is_empty() is False


@PICKLERS
@pytest.mark.parametrize("whole", [ByteKeyRange(), ByteKeyRange(b"a", b"b"), ByteKeyRange(b"\xff")], ids=repr)
def test_byte_key_range_survives_pickling(whole, pickler):
    """The copy equals the original."""
    assert pickle.loads(pickler.dumps(whole)) == whole


@pytest.mark.parametrize("whole", [ByteKeyRange(), ByteKeyRange(b"a\x00", b"b")], ids=repr)
def test_byte_key_range_repr_can_be_pasted_back(whole):
    """Evaluating the repr gives the value."""
    assert eval(repr(whole)) == whole


# as_restriction


def test_as_restriction_turns_a_tuple_into_an_offset_range():
    """A plain (start, stop) tuple is accepted wherever an OffsetRange is."""
    assert as_restriction((2, 5), "it") == OffsetRange(2, 5)


def test_as_restriction_takes_an_unbounded_tuple():
    """The stop of the tuple may be UNBOUNDED."""
    assert as_restriction((2, UNBOUNDED), "it") == OffsetRange(2, UNBOUNDED)


@pytest.mark.parametrize(
    "value",
    [OffsetRange(0, 1), ByteKeyRange(), Days(1, 2), [0, 1], (1, 2, 3), ("a", "b"), (), {}, frozenset(), range(3)],
    ids=repr,
)
def test_as_restriction_leaves_any_other_value_alone(value):
    """A restriction may be any value, also a falsy one."""
    assert as_restriction(value, "it") is value


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (None, InvalidTypeError, "Fn.method() returned None, which is not a restriction."),
        (5, InvalidTypeError, "Fn.method() returned 5, which is not a restriction."),
        (0, InvalidTypeError, "Fn.method() returned 0, which is not a restriction."),
        (False, InvalidTypeError, "Fn.method() returned False, which is not a restriction."),
        ("0-5", InvalidTypeError, "Fn.method() returned '0-5', which is not a restriction."),
        (b"", InvalidTypeError, "Fn.method() returned b'', which is not a restriction."),
        ((5, 2), InvalidValueError, "Fn.method() returned (5, 2): OffsetRange start must be <= stop"),
        ((0, 1.5), InvalidTypeError, "Fn.method() returned (0, 1.5): OffsetRange stop must be an integer"),
        ((5, True), InvalidTypeError, "Fn.method() returned (5, True): OffsetRange stop must be an integer"),
        ((False, 3), InvalidTypeError, "Fn.method() returned (False, 3): OffsetRange start must be an integer"),
    ],
)
def test_as_restriction_refuses_what_is_no_restriction(value, kind, message):
    """The message says who returned what."""
    with pytest.raises(kind, match=re.escape(message)):
        as_restriction(value, "Fn.method() returned")


@KINDS
def test_bounds_may_be_integers_of_any_kind(kind):
    """They are ints in the range, so that it pickles, compares and prints as any other."""
    bounds = tuple(OffsetRange(kind(2), kind(7)))
    assert (bounds, set(map(type, bounds))) == ((2, 7), {int})


@KINDS
def test_a_tuple_of_integers_of_any_kind_is_a_range(kind):
    """A restriction given as a tuple."""
    assert as_restriction((kind(2), kind(7)), "it returned") == OffsetRange(2, 7)


@KINDS
def test_bounds_of_any_kind_must_not_be_reversed(kind):
    """They are checked as ints are."""
    with pytest.raises(InvalidValueError, match=re.escape("start must be <= stop (got start=7, stop=2)")):
        OffsetRange(kind(7), kind(2))


@KINDS
def test_a_range_is_cut_into_pieces_of_integers_of_any_kind(kind):
    """So many units per piece."""
    assert list(OffsetRange(0, 8).split(kind(4), kind(1))) == [OffsetRange(0, 4), OffsetRange(4, 8)]


# tiling_flaw: start and stop


def days(*bounds):
    return [Days(one, two) for one, two in bounds]


def offsets(*bounds):
    return [OffsetRange(one, two) for one, two in bounds]


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (OffsetRange(0, 9), offsets((0, 9))),
        (OffsetRange(0, 9), offsets((0, 4), (4, 9))),
        (OffsetRange(0, 9), offsets((0, 0), (0, 9))),
        (OffsetRange(0, 9), offsets((0, 4), (4, 4), (4, 9), (9, 9))),
        (OffsetRange(3, 3), offsets((3, 3))),
        (OffsetRange(3, 3), []),
        (OffsetRange(0, UNBOUNDED), offsets((0, 4), (4, UNBOUNDED))),
        (OffsetRange(0, HUGE), offsets((0, HUGE - 1), (HUGE - 1, HUGE))),
        (Days(0, 9), days((0, 4), (4, 9))),
        (range(9), (range(4), range(4, 9))),
    ],
)
def test_ranges_that_tile(whole, parts):
    """Parts that follow each other from start to stop have no flaw, empty ones included."""
    assert tiling_flaw(whole, parts, never_called) is None


@pytest.mark.parametrize(
    ("whole", "parts", "message"),
    [
        (OffsetRange(0, 9), [], "the parts [] stop at 0, not at the stop of OffsetRange(start=0, stop=9)"),
        (OffsetRange(0, 9), offsets((0, 8)), "stop at 8, not at the stop of OffsetRange(start=0, stop=9)"),
        (OffsetRange(0, 9), offsets((0, 10)), "stop at 10, not at the stop of OffsetRange(start=0, stop=9)"),
        (OffsetRange(0, 9), offsets((1, 9)), "OffsetRange(start=1, stop=9) leaves a gap after 0 in"),
        (OffsetRange(1, 9), offsets((0, 9)), "OffsetRange(start=0, stop=9) overlaps or repeats 1 in"),
        (OffsetRange(0, 9), offsets((0, 4), (5, 9)), "OffsetRange(start=5, stop=9) leaves a gap after 4 in"),
        (OffsetRange(0, 9), offsets((0, 5), (4, 9)), "OffsetRange(start=4, stop=9) overlaps or repeats 5 in"),
        (OffsetRange(0, 9), offsets((0, 9), (0, 9)), "OffsetRange(start=0, stop=9) overlaps or repeats 9 in"),
        (OffsetRange(0, 9), offsets((4, 9), (0, 4)), "OffsetRange(start=4, stop=9) leaves a gap after 0 in"),
        (OffsetRange(0, UNBOUNDED), offsets((0, 9)), "stop at 9, not at the stop of OffsetRange(start=0, stop=UNB"),
        (OffsetRange(0, 9), offsets((0, UNBOUNDED)), "stop at UNBOUNDED, not at the stop of"),
        (OffsetRange(0, 9), [Rows(9)], "Rows(count=9) is not a part of OffsetRange(start=0, stop=9): it has no start"),
        (OffsetRange(0, 9), [OffsetRange(0, 9), None], "None is not a part of"),
        (Days(0, 9), [Days("x", 9)], "Days(start='x', stop=9) leaves a gap after 0 in Days(start=0, stop=9)"),
        (Days(0, 9), days((0, 4), (5, 9)), "Days(start=5, stop=9) leaves a gap after 4 in Days(start=0, stop=9)"),
    ],
)
def test_ranges_that_do_not_tile(whole, parts, message):
    """A gap, an overlap, a repetition or a foreign part is named."""
    assert message in tiling_flaw(whole, parts, never_called)


@pytest.mark.parametrize(
    "parts", [days((0, 12), (12, 9)), days((0, 6), (6, 2), (2, 9)), days((0, -3), (-3, 9))], ids=repr
)
def test_a_part_that_runs_backwards_is_a_flaw(parts):
    """Parts of a custom type that overlap although each starts where the one before stopped do not tile."""
    assert "runs backwards in Days(start=0, stop=9)" in tiling_flaw(Days(0, 9), parts, never_called)


@pytest.mark.parametrize("length", range(5))
def test_every_list_of_small_parts_is_judged_right(length):
    """Over all lists of up to three small parts: tiling means that the positions, joined, are those of the whole."""
    whole = OffsetRange(1, 1 + length)
    pool = [OffsetRange(one, two) for one in range(1, 2 + length) for two in range(one, 2 + length)]
    lists = [[]] + [[a] for a in pool] + [[a, b] for a in pool for b in pool] + [
        [a, b, c] for a in pool for b in pool for c in pool
    ]  # fmt: skip
    wrong = []
    for parts in lists:
        positions = [position for part in parts for position in range(*part)]
        accepted = tiling_flaw(whole, parts, never_called) is None
        if accepted and positions != list(range(*whole)):
            wrong.append(parts)
        if not accepted and positions == list(range(*whole)) and not any(part.is_empty() for part in parts):
            wrong.append(parts)
    assert wrong == []


def test_a_long_list_of_parts_is_cut_in_the_message():
    """The message shows six parts and says how many there are."""
    parts = offsets(*((i, i + 1) for i in range(50)))
    assert "... 50 in all]" in tiling_flaw(OffsetRange(0, 99), parts, never_called)


# tiling_flaw: byte keys


def keys(*bounds):
    return [ByteKeyRange(one, two) for one, two in bounds]


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (ByteKeyRange(), keys((b"", b""))),
        (ByteKeyRange(), keys((b"", b"m"), (b"m", b""))),
        (ByteKeyRange(), keys((b"", b"\x00"), (b"", b""))),
        (ByteKeyRange(b"a", b"c"), keys((b"a", b"b"), (b"b", b"c"))),
        (ByteKeyRange(b"a", b"c"), keys((b"a", b"a"), (b"a", b"c"))),
        (ByteKeyRange(b"a", b"a"), keys((b"a", b"a"))),
        (ByteKeyRange(b"", b"\x00"), keys((b"", b"\x00"))),
        (ByteKeyRange(b"a", b""), keys((b"a", b"b"), (b"b", b""))),
    ],
)
def test_byte_keys_that_tile(whole, parts):
    """The parts that are not empty follow each other from start to stop."""
    assert tiling_flaw(whole, parts, never_called) is None


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (ByteKeyRange(), []),
        (ByteKeyRange(), keys((b"", b"\x00"))),
        (ByteKeyRange(), keys((b"", b""), (b"", b""))),
        (ByteKeyRange(), keys((b"", b"m"))),
        (ByteKeyRange(), keys((b"m", b""))),
        (ByteKeyRange(), keys((b"", b""), (b"m", b""))),
        (ByteKeyRange(), keys((b"", b"m"), (b"n", b""))),
        (ByteKeyRange(), keys((b"", b"n"), (b"m", b""))),
        (ByteKeyRange(b"a", b"c"), keys((b"a", b""))),
        (ByteKeyRange(b"a", b"c"), keys((b"a", b"b"), (b"b", b"d"))),
        (ByteKeyRange(b"a", b"c"), keys((b"b", b"c"), (b"a", b"b"))),
        (ByteKeyRange(b"a", b""), keys((b"a", b"b"))),
        (ByteKeyRange(b"a", b"c"), offsets((0, 5))),
        (ByteKeyRange(b"a", b"a"), keys((b"a", b"b"))),
        (ByteKeyRange(b"a", b"a"), keys((b"", b""))),
    ],
)
def test_byte_keys_that_do_not_tile(whole, parts):
    """A gap, an overlap, a repetition, a wrong end or a foreign part is a flaw."""
    assert "is not tiled by" in tiling_flaw(whole, parts, never_called)


def test_the_lowest_key_may_start_a_part():
    """b"\\x00" is the lowest key, so [b"", b"\\x00") and [b"\\x00", b"") are all keys and none twice."""
    assert tiling_flaw(ByteKeyRange(), keys((b"", b"\x00"), (b"\x00", b"")), never_called) is None


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (ByteKeyRange(), keys((b"\x00", b""))),
        (ByteKeyRange(b"\x00"), keys((b"", b""))),
        (ByteKeyRange(b"\x00", b"m"), keys((b"", b"\x00"), (b"", b"k"), (b"k", b"m"))),
        (ByteKeyRange(b"", b"\x00"), keys((b"\x00", b"\x00"))),
        (ByteKeyRange(b"\x00", b"\x00"), keys((b"", b"\x00"))),
        (ByteKeyRange(b"\x00", b"\x00"), []),
    ],
)
def test_no_key_lies_before_the_lowest(whole, parts):
    """A start of b"" and one of b"\\x00" are the same start."""
    assert tiling_flaw(whole, parts, never_called) is None


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (ByteKeyRange(), keys((b"\x00\x00", b""))),
        (ByteKeyRange(b"\x00"), keys((b"\x00\x00", b""))),
        (ByteKeyRange(b"\x00"), keys((b"", b"m"), (b"", b""))),
        (ByteKeyRange(), keys((b"", b""), (b"\x00", b""))),
        (ByteKeyRange(b"", b"\x00"), keys((b"", b""))),
    ],
)
def test_the_lowest_key_is_neither_lost_nor_doubled(whole, parts):
    """The next key after b"\\x00" is another start, and nothing starts past every key."""
    assert "is not tiled by" in tiling_flaw(whole, parts, never_called)


# tiling_flaw: a proof of one's own, sizes, nothing


def test_own_proof_is_asked_first():
    """is_tiled_by() decides, sizes are not asked."""
    assert tiling_flaw(Files(("a", "b")), [Files(("a",)), Files(("b",))], never_called) is None


def test_own_proof_that_says_no_is_a_flaw():
    """The message shows whole and parts."""
    flaw = tiling_flaw(Files(("a", "b")), [Files(("a",))], never_called)
    assert flaw == "Files(names=('a', 'b')) is not tiled by [Files(names=('a',))]"


def test_sizes_that_add_up():
    """Without another proof the sizes must add up."""
    assert tiling_flaw(Rows(5), [Rows(2), Rows(0), Rows(3)], rows_size) is None


def test_sizes_add_up_within_rounding():
    """Ten parts of 0.1 make 1."""
    assert tiling_flaw(Rows(1), [Rows(0.1)] * 10, rows_size) is None


@pytest.mark.parametrize("whole", [4_000_000_000, 10**12, 10**30, 4e9, 1e12])
@pytest.mark.parametrize("flaw", [-1, 1])
def test_whole_sizes_add_up_exactly(whole, flaw):
    """One position that was lost or doubled shows among 10**30, and where sizes are floats that hold integers."""
    half = whole / 2 if isinstance(whole, float) else whole // 2
    assert tiling_flaw(Rows(whole), [Rows(half), Rows(half)], rows_size) is None
    message = f"have size {int(whole) + flaw} in all, {Rows(whole)!r} has size {whole}"
    assert message in tiling_flaw(Rows(whole), [Rows(half), Rows(half + flaw)], rows_size)


@pytest.mark.parametrize(("whole", "parts"), [(1e17, [5e16, 5e16 + 16]), (10**12, [10**12 - 1.5, 1.5000001])])
def test_sizes_that_may_be_rounded_add_up_within_rounding(whole, parts):
    """From 2**53 on floats have no units, and what has a fraction is rounded."""
    assert tiling_flaw(Rows(whole), [Rows(part) for part in parts], rows_size) is None


@pytest.mark.parametrize("counts", [[], [4], [2, 4], [5, 5]])
def test_sizes_that_do_not_add_up(counts):
    """A lost or doubled part shows in the sum."""
    flaw = tiling_flaw(Rows(5), [Rows(count) for count in counts], rows_size)
    assert f"have size {sum(counts)} in all, Rows(count=5) has size 5" in flaw


def test_a_restriction_without_any_proof_is_a_flaw():
    """What cannot be shown is not believed; the message says what to add."""
    assert tiling_flaw(Rows(5), [Rows(5)], no_size) == (
        "nothing proves that [Rows(count=5)] add up to Rows(count=5): give the restriction start and stop, "
        "a method is_tiled_by(parts), or an exact restriction_size()"
    )


def test_a_part_of_unknown_size_is_a_flaw():
    """One unknown size spoils the sum."""
    sizes = {5: 5, 2: 2, 3: None}
    flaw = tiling_flaw(Rows(5), [Rows(2), Rows(3)], lambda rows: sizes[rows.count])
    assert flaw.startswith("nothing proves")


def test_a_size_that_is_no_number_is_a_flaw():
    """NaN equals nothing."""
    assert tiling_flaw(Rows(5), [Rows(5)], lambda rows: float("nan")) is not None
