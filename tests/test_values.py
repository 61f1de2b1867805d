"""Restrictions as data: what a lane can tell the driver, and what the driver refuses to make."""

import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import subprocess
import sys
import uuid
from collections import namedtuple

import attrs
import pytest

from sdf import UNBOUNDED, ByteKeyRange, OffsetRange
from sdf.values import Values, ValuesError, describe


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


def over_the_wire(value):
    return json.loads(json.dumps(describe(value)))


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_are_always_known(value):
    """What restrictions are made of, and their like in the standard library."""
    assert Values().read(over_the_wire(value)) == value


def test_unbounded_stays_the_same_object():
    """It compares by identity."""
    assert Values().read(over_the_wire(OffsetRange(3, UNBOUNDED))).stop is UNBOUNDED


@pytest.mark.parametrize("value", OWN, ids=lambda value: type(value).__name__)
def test_a_class_is_known_once_the_driver_has_one_of_it(value):
    """Then another of the same class can be told."""
    values = Values()
    values.learn(value)
    read = values.read(over_the_wire(value))
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize("value", OWN, ids=lambda value: type(value).__name__)
def test_a_class_that_the_driver_does_not_have_is_refused(value):
    """Whatever its constructor would do."""
    with pytest.raises(ValuesError, match="is not part of any restriction"):
        Values().read(over_the_wire(value))


@pytest.mark.parametrize(
    "description",
    [
        ["call", None, ["name", "os:system"], "true"],
        ["call", None, ["name", "builtins:eval"], "1"],
        ["new", None, ["name", "subprocess:Popen"], "true"],
        ["name", "sdf.restrictions:__builtins__"],
        ["name", ["name"]],
        ["what", 1],
        ["call"],
        ["call", None, 5],
        [],
        ["bytes", "zz"],
        ["dict", 1],
        ["new", {"a": 1}, ["name", "sdf.restrictions:OffsetRange"]],
        ["call", None, ["name", "sdf.restrictions:OffsetRange"], 5, 1],
    ],
    ids=repr,
)
def test_what_describes_no_value_is_refused(description):
    """With one kind of error, whatever is wrong."""
    with pytest.raises(ValuesError):
        Values().read(description)


@pytest.mark.parametrize(
    "value", [lambda: 0, object().__str__, iter([1]), subprocess.Popen, type("Sub", (list,), {})([1])]
)
def test_what_has_no_description_is_an_error_or_a_name_that_is_refused(value):
    """Code is never sent."""
    with pytest.raises(Exception) as raised:
        Values().read(describe(value))
    assert isinstance(raised.value, (ValuesError, TypeError))


def test_learning_what_has_no_description_teaches_nothing():
    """It is no error: such restrictions are not split while they run."""
    Values().learn(iter([1]))


def test_the_coordinators_decisions_need_no_spark():
    """So that a simulator can drive them."""
    code = "import sys, sdf.spark.lane, sdf.spark.coordinator; print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
