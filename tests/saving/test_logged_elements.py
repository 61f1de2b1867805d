"""Whether the elements of a call are those that a saved run began with."""

import datetime

import attrs
import pytest

from sdf.journal.pending import from_data, to_data
from sdf.saving.history import History


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
    assert History.is_same(before, element)
    assert not History.is_same(before, "another")


def test_arrays_are_elements_too():
    """Though to compare two of them gives no bool."""
    numpy = pytest.importorskip("numpy")
    assert History.is_same(numpy.arange(3), numpy.arange(3))
    assert not History.is_same(numpy.arange(3), numpy.arange(1, 4))
