"""Pickling of what goes to the workers, and the message about what does not pickle."""

import pickle
import re
import threading

import pytest

from sdf import DoFn, OffsetRange, TaggedOutput
from sdf.errors import OutputError, UnpicklableError
from sdf.serialization import pickling


class Holder:
    """Has attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class WholeError:
    """Fails to pickle, though its attributes do not."""

    def __reduce__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [None, 0, (1, "a"), OffsetRange(0, 2**70), {"a": [b"b"]}], ids=repr)
def test_round_trip(value):
    """What is dumped can be loaded."""
    assert pickling.loads(pickling.dumps(value, "it")) == value


def test_functions_and_local_classes_are_pickled():
    """A user's DoFn may be defined anywhere."""

    class LocalFn(DoFn):
        def get_initial_restriction(self, element):
            return 0, element

        def process(self, element, tracker):
            return []

    assert pickling.loads(pickling.dumps(LocalFn(), "LocalFn")).get_initial_restriction(3) == (0, 3)


def test_the_culprit_is_named():
    """Of several attributes the one that does not pickle, with its type and value."""
    message = "CountFn cannot be sent to the workers: attribute 'conn' (lock, <unlocked _thread.lock object at "
    with pytest.raises(UnpicklableError, match=re.escape(message)) as caught:
        pickling.dumps(Holder(name="fine", conn=threading.Lock(), size=5), "CountFn")
    assert "Open connections, locks and clients in setup()" in str(caught.value)


@pytest.mark.parametrize("value", [threading.Lock(), WholeError()], ids=["a lock", "an object"])
def test_a_value_without_a_culprit_is_named_itself(value):
    """The original exception is the cause."""
    with pytest.raises(UnpicklableError, match=re.escape("side input 'x' cannot be sent to the workers: ")) as caught:
        pickling.dumps(value, "side input 'x'")
    assert type(caught.value.__cause__) in (TypeError, RuntimeError)


def test_an_error_of_the_tree_passes():
    """An undeclared TaggedOutput explains itself."""
    with pytest.raises(OutputError, match=re.escape("Pass tags=('bad',) to the runner.")):
        pickling.dumps(TaggedOutput("bad", 1), "it")


def test_another_pickler_can_be_given():
    """The culprit is looked for with the same one."""
    with pytest.raises(UnpicklableError, match=re.escape("attribute 'act' (function, ")):
        pickling.dumps(Holder(act=lambda: None), "it", dump=pickle.dumps)
