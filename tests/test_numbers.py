"""Numbers of any kind become int and float; what is no number stays what it is."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from support.integers import KINDS, NUMBER_KINDS

from sdf.numbers import as_integer, as_number, is_integer, is_number

NO_NUMBERS = [None, "5", b"5", True, False, 1j, Decimal(5), [5]]


@KINDS
def test_an_integer_of_any_kind_becomes_an_int(kind):
    """So that it pickles, compares and prints as one."""
    assert (as_integer(kind(7)), type(as_integer(kind(7)))) == (7, int)


@NUMBER_KINDS
def test_a_number_of_any_kind_becomes_an_int_or_a_float(kind):
    """Whichever it stands for."""
    assert (as_number(kind(7)), type(as_number(kind(7))) in (int, float)) == (7, True)


@pytest.mark.parametrize(("value", "number"), [(3, 3), (2.5, 2.5), (Fraction(1, 4), 0.25), (math.inf, math.inf)])
def test_a_number_keeps_its_value(value, number):
    """An int stays one."""
    assert (as_number(value), type(as_number(value))) == (number, type(number))


@pytest.mark.parametrize(
    ("value", "number"), [(10**400, math.inf), (-(10**400), -math.inf), (Fraction(10**400), math.inf)]
)
def test_a_number_that_no_float_holds_is_infinite(value, number):
    """So it is refused where infinite ones are, and overflows nowhere later."""
    assert as_number(value) == number


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_stays_what_it_is(value):
    """For the message that refuses it; a bool and a text are none."""
    assert (as_integer(value) is value, as_number(value) is value) == (True, True)
    assert (is_integer(value), is_number(value)) == (False, False)


@pytest.mark.parametrize(("value", "integer"), [(1, True), (1.0, False), (math.nan, False)])
def test_an_int_is_an_integer_and_a_float_is_none(value, integer):
    """Both are numbers."""
    assert (is_integer(value), is_number(value)) == (integer, True)


def test_an_array_is_no_number():
    """One of several numbers has the method of integers all the same."""
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(3)
    assert (as_integer(array) is array, as_number(array) is array) == (True, True)


def test_a_bool_of_numpy_is_no_number():
    """As a bool of Python is none."""
    value = pytest.importorskip("numpy").bool_(True)
    assert (is_integer(as_integer(value)), is_number(as_number(value))) == (False, False)
