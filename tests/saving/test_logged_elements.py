"""Whether the elements of a call are those that a saved run began with."""

import datetime

import attrs
import pytest

from sdf.journal.pending import from_data, to_data
from sdf.saving.same_elements import difference, is_same


@attrs.frozen
class Named:
    """An element of a type of the user."""

    name: str


@pytest.mark.parametrize(
    "element",
    ["a", ("a", 1), {"a": [1]}, None, b"\0", 2.5, float("nan"), Named("a"), datetime.date(2020, 1, 1)],
    ids=str,
)
def test_an_element_is_known_again(element):
    """As it comes back from the log; and no other is taken for it."""
    before = from_data(to_data(element))
    assert is_same(before, element)
    assert not is_same(before, "another")


def test_arrays_are_elements_too():
    """Though to compare two of them gives no bool."""
    numpy = pytest.importorskip("numpy")
    assert is_same(numpy.arange(3), numpy.arange(3))
    assert not is_same(numpy.arange(3), numpy.arange(1, 4))


@pytest.mark.parametrize(
    "element", [7, Named("a"), ["a"], float("nan"), {"a": 1}], ids=["hashed", "attrs", "list", "nan", "dict"]
)
def test_the_order_of_elements_does_not_count_but_how_often_each_is_there(element):
    """Elements that go into tables come back in another order than they were given."""
    again = from_data(to_data(element))
    assert difference([1, again, 2, again], [element, 2, element, 1]) is None
    assert difference([1, again, 2, again], [1, element, 2]) == ("4 elements", "3")
    assert difference([1, again, again], [1, element, "odd"]) == (f"element {again!r}", "'odd' in its place")
    assert difference([again, 1, 1], [1, element, element]) is not None


def test_elements_that_forbid_comparisons_are_compared_as_the_log_holds_them():
    """Elements that are equal, but stand in the log in another form, are compared in their order."""
    numpy = pytest.importorskip("numpy")
    assert difference([numpy.arange(3), numpy.arange(2)], [numpy.arange(2), numpy.arange(3)]) is None
    assert difference([numpy.arange(3)], [numpy.arange(2)]) is not None
    assert difference([[1], [2]], [[1.0], [2]]) is None
