"""Restrictions as data: what a lane can tell the driver, and what the driver refuses to make."""

import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import pickle
import subprocess
import sys
import uuid
from collections import namedtuple

import attrs
import cloudpickle
import pytest

from sdf import UNBOUNDED, ByteKeyRange, OffsetRange
from sdf.serialization.values import Parts, ValuesError


class Colour(enum.Enum):
    RED = 1


@attrs.frozen
class Days:
    start: datetime.date
    stop: datetime.date


@attrs.frozen(slots=False)
class Loose:
    parts: tuple


@dataclasses.dataclass(frozen=True)
class Data:
    name: str
    bounds: OffsetRange


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __eq__(self, other):
        return (self.a, self.b) == (other.a, other.b)

    def __hash__(self):
        return hash((self.a, self.b))


Point = namedtuple("Point", "x y")

OWN = [
    Days(datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)),
    Loose((1, b"x", None)),
    Data("n", OffsetRange(1, 2)),
    Slots(1, [2.5]),
    Point(1, 2),
    Colour.RED,
    pathlib.PurePosixPath("/a/b"),
    range(3, 9),
]
PLAIN = [
    OffsetRange(0, 10),
    OffsetRange(2**80, 2**90),
    OffsetRange(3, UNBOUNDED),
    ByteKeyRange(b"a", b""),
    None,
    True,
    -5,
    1.5,
    "text",
    b"\x00\xff",
    (1, (2, [3, {4}, frozenset({5})]), {"k": b"v", 6: ()}),
    datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc),
    datetime.timedelta(1, 2, 3),
    decimal.Decimal("1.50"),
    fractions.Fraction(1, 3),
    uuid.UUID(int=7),
]


def times(number):
    return lambda value: value * number


def make_class(number):
    class Made:
        n = number

    return Made


def over_the_wire(value, whole):
    """Describe a value by what a restriction is made of, as text that a lane sends."""
    return json.loads(json.dumps(Parts(whole).describe(value)))


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_are_always_known(value):
    """What restrictions are made of, and their like in the standard library."""
    assert Parts(None).read(over_the_wire(value, None)) == value


def test_unbounded_stays_the_same_object():
    """It compares by identity."""
    assert Parts(None).read(over_the_wire(OffsetRange(3, UNBOUNDED), None)).stop is UNBOUNDED


@pytest.mark.parametrize("value", OWN, ids=lambda value: type(value).__name__)
def test_what_is_made_of_the_same_can_be_told(value):
    """By the numbers of the parts of a restriction that both sides have."""
    read = Parts(value).read(over_the_wire(value, value))
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize("value", OWN, ids=lambda value: type(value).__name__)
def test_what_is_made_of_something_else_is_refused(value):
    """On the side that tells it, and on the one that reads it, whatever its constructor would do."""
    with pytest.raises(ValuesError, match="is no class or function of the restriction"):
        over_the_wire(value, None)
    with pytest.raises(ValuesError, match="is no class or function of the restriction"):
        Parts(None).read(over_the_wire(value, value))


@pytest.mark.parametrize("make", [times, make_class])
def test_what_shares_its_name_is_not_mixed_up(make):
    """Functions that one function makes all have one name, and so have classes; each restriction has its own."""
    one, other = (1, make(2)), (1, make(3))
    told = Parts(one).describe((7, one[1]))
    assert Parts(one).read(told) == (7, one[1])
    assert Parts(other).read(told) == (7, other[1])  # which nobody asks for: an item is read by its own parts
    with pytest.raises(ValuesError, match="is no class or function of the restriction"):
        Parts(one).describe((7, other[1]))


def test_a_copy_has_the_same_numbers():
    """As the driver's of a restriction that a lane has, also where the name of a class is lost on the way."""
    whole = (make_class(2)(), times(3), Days, {"a": Colour.RED})
    copy = pickle.loads(cloudpickle.dumps(whole))
    made, function, kind, members = Parts(whole).read(Parts(copy).describe(copy))
    assert (type(made), function, kind, members) == (type(whole[0]), whole[1], Days, {"a": Colour.RED})


def test_classes_in_a_set_cannot_be_told():
    """Their order there is another in each process; plain values can."""
    with pytest.raises(ValuesError, match="in a set has no description"):
        Parts({Days}).describe({Days})
    dates = {datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)}
    assert Parts(None).read(over_the_wire(dates, None)) == dates


@pytest.mark.parametrize(
    "description",
    [
        ["call", None, ["name", "os:system"], "true"],
        ["call", None, ["name", "builtins:eval"], "1"],
        ["new", None, ["name", "subprocess:Popen"], "true"],
        ["name", "sdf.model.restrictions:__builtins__"],
        ["name", ["name"]],
        ["what", 1],
        ["call"],
        ["call", None, 5],
        [],
        ["bytes", "zz"],
        ["dict", 1],
        ["new", {"a": 1}, ["name", "sdf:OffsetRange"]],
        ["call", None, ["name", "sdf:OffsetRange"], 5, 1],
    ],
    ids=repr,
)
def test_what_describes_no_value_is_refused(description):
    """With one kind of error, whatever is wrong."""
    with pytest.raises(ValuesError):
        Parts(OffsetRange(0, 1)).read(description)


@pytest.mark.parametrize(
    "value", [lambda: 0, object().__str__, iter([1]), subprocess.Popen, type("Sub", (list,), {})([1])]
)
def test_what_has_no_description_is_an_error_or_a_name_that_is_refused(value):
    """Code is never sent."""
    with pytest.raises(Exception) as raised:
        Parts(None).read(Parts(value).describe(value))
    assert isinstance(raised.value, (ValuesError, TypeError))


def test_the_coordinators_decisions_need_no_spark():
    """So that a simulator can drive them."""
    code = "import sys, sdf.lanes.lane, sdf.lanes.coordinator; print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
