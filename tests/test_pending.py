"""Pending work in a journal: values come back as they were, and what a newer sdf wrote is refused."""

import datetime
import json
import pickle

import pytest

from sdf.errors import JournalError
from sdf.pending import dump, heard, load, told
from sdf.values import ValuesError, describe


class Renamed:
    """Pickles its state under another name, which only a function that comes with it understands."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None

    def __reduce_ex__(self, protocol):
        return Renamed, (0,), {"y": self.x}, None, None, take_y


def take_y(made, state):
    made.x = state["y"]


@pytest.mark.parametrize(
    "value",
    [datetime.datetime(2026, 11, 1, 1, 30, fold=1), datetime.time(1, 30, fold=1), Renamed(7)],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_description_is_pickled(value):
    """The second of two equal hours, and a state that needs a function of its own."""
    with pytest.raises(ValuesError, match="has no description"):
        describe(value, lambda part, name: name)
    back = heard(json.loads(json.dumps(told(value))))
    assert (back, getattr(back, "fold", 0)) == (pickle.loads(pickle.dumps(value)), getattr(value, "fold", 0))


def test_the_first_of_two_equal_hours_is_plain_data():
    """As any other time."""
    hour = datetime.datetime(2026, 11, 1, 1, 30)
    assert told(hour)[0] == "call"
    assert heard(told(hour)) == hour


def test_a_checkpoint_of_another_version_is_refused():
    """Before anything in it is read."""
    state, *lines = dump({"committed": []}, []).splitlines()
    newer = json.dumps({**json.loads(state), "v": 99}).encode()
    with pytest.raises(JournalError, match="has version 99, this sdf knows 2"):
        load(b"\n".join([newer, *lines]))
