"""What values are compared by across processes: the same in each, whatever its hash seed is, and another for others."""

import json
import os
import subprocess
import sys

import pytest

from sdf.journal.pending import from_data, steady, to_data

PRELUDE = """
import collections, enum, functools, json, sys, types
import attrs
from sdf.journal.pending import steady

@attrs.frozen(slots=False)
class Held:
    names: object

class Colour(enum.Enum):
    RED = 1
    BLUE = 2

class Names(set):
    pass

class Rows(list):
    pass

def names(n):
    return {f"name-{i}" for i in range(n)}

def many(n):
    some, few = names(n), names(5)
    return {
        "set": some,
        "frozenset": frozenset(some),
        "set of tuples": {(name, frozenset(few)) for name in some},
        "set of types that mix": {*some, 1, None, b"x", 2.5},
        "dict in the order of a set": {name: 1 for name in some},
        "dict of sets": {1: some},
        "list of sets": [some, (some,)],
        "set in an object": Held(some),
        "set of objects": {Held(name) for name in some},
        "set of objects with sets": {Held(frozenset([name, *few])) for name in some},
        "set of members": {*some, *list(Colour)[: n % 3]},
        "set of types": {Held, *[Names, Rows][: n % 3]},
        "set in a namespace": types.SimpleNamespace(names=some),
        "set in a partial": functools.partial(print, some),
        "counter": collections.Counter(some),
        "defaultdict": collections.defaultdict(list, {name: [few] for name in some}),
        "ordered": collections.OrderedDict.fromkeys(some),
        "deque": collections.deque([some]),
        "list of its own kind": Rows([some]),
        "NaN": [float("nan"), some],
    }

TYPE_ONLY = {"lambda": lambda name: name in {"a", "b", "c", "d"}, "set of its own kind": Names(names(9))}
"""
REST = """
print(json.dumps({n: {name: steady(value) for name, value in many(n).items()} for n in map(int, sys.argv[1:])}))
print(json.dumps({name: steady(value) for name, value in TYPE_ONLY.items()}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What three processes say, each with another hash seed."""
    program = tmp_path_factory.mktemp("steady") / "program.py"
    program.write_text(PRELUDE + REST)
    found = []
    for seed in "123":
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, program, "9", "10", "9000"], env=environ, capture_output=True, text=True, check=True
        )
        found.append(list(map(json.loads, done.stdout.splitlines())))
    return found


def test_equal_values_are_the_same_in_each_process(told):
    """Small ones, and those that a hash stands for."""
    assert told[0][:2] == told[1][:2] == told[2][:2]


def test_other_values_are_others(told):
    """One more name is enough."""
    values, only = told[0][:2]
    assert not [name for name, value in values["9"].items() if value == values["10"][name]]
    assert only == {"lambda": "a function", "set of its own kind": "a Names"}


def test_a_long_value_is_a_hash_of_it(told):
    """So that a log stays small."""
    values = told[0][0]["9000"]
    assert max(len(json.dumps(value)) for value in values.values()) < 100
    assert {name for name, value in values.items() if "with the hash" not in value} == {"set of types"}  # a short one


def test_what_was_described_comes_back():
    """Lists and mappings of other kinds, too, with what is in them."""
    scope = {}
    exec(PRELUDE, scope)
    for name, value in scope["many"](9).items():
        if name in ("counter", "defaultdict", "ordered", "deque"):
            data = json.loads(json.dumps(to_data(value)))
            again = from_data(data)
            assert (data[0] != "pickle", type(again), again, steady(again)) == (True, type(value), value, steady(value))
