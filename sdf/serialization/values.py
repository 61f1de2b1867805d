"""Restrictions as data: how a lane tells the driver a split point without the driver unpickling anything.

A value is described as nested JSON lists. Numbers, strings and None stand for themselves; everything else says how to
make it again: which class, with what arguments, in what state. Plain values of the standard library are made of classes
that everyone knows. What else a description may name, and how, is up to who writes and who reads it.

A lane and the driver both have the restriction that was given to the lane, and number the classes and functions that it
is made of (`Parts`). What is cut off from it names only those. So a description can name no code that was not there
before, and none but what is meant: the names of classes and functions would not do, since all lambdas of a function
have one name, and so have the classes that it makes.
"""

from __future__ import annotations

import copyreg
import datetime
import decimal
import enum
import fractions
import types
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sdf.errors import SdfError, show
from sdf.model.restrictions import UNBOUNDED, ByteKeyRange, OffsetRange
from sdf.serialization.stored_types import stored_name

__all__ = ["Parts", "ValuesError", "describe", "read"]

_PLAIN = (type(None), bool, int, float, str)
_COLLECTIONS: dict[str, Any] = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset}
_KNOWN = {
    stored_name(known.__module__, known.__qualname__): known
    for known in (
        OffsetRange,
        ByteKeyRange,
        decimal.Decimal,
        fractions.Fraction,
        uuid.UUID,
        datetime.date,
        datetime.time,
        datetime.datetime,
        datetime.timedelta,
        datetime.timezone,
    )
} | {stored_name(OffsetRange.__module__, "UNBOUNDED"): UNBOUNDED}
_NAMES = {id(known): name for name, known in _KNOWN.items()}


class ValuesError(SdfError, ValueError):
    """A value that cannot be told, or a description that describes none."""


def describe(value: Any, name: Callable[[Any, str], Any]) -> Any:
    """Return the description of a value, for `json.dumps`.

    Args:
        value: the value.
        name: returns how to name a class, a function or another object that pickles as a name, given its own name.

    Raises:
        ValuesError: if it has none, for example because it pickles in an unusual way.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind.__name__ in _COLLECTIONS and kind is _COLLECTIONS[kind.__name__]:
        if kind in (set, frozenset):
            name = _nothing  # what is in them has another order elsewhere
        return [kind.__name__, *(describe(entry, name) for entry in value)]
    if kind is dict:
        return ["dict", *([describe(key, name), describe(entry, name)] for key, entry in value.items())]
    if id(value) in _NAMES:
        return ["name", _NAMES[id(value)]]
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return ["name", name(value, value.__qualname__)]
    if isinstance(value, enum.Enum):  # how these pickle has changed between versions of Python
        return ["call", None, describe(kind, name), describe(value.value, name)]
    made = value.__reduce_ex__(2)
    if isinstance(made, str):
        return ["name", name(value, made)]
    make, arguments, state, entries, pairs, setter = (*made, None, None, None, None)[:6]
    unusual = make is copyreg.__newobj_ex__ or (  # type: ignore[attr-defined]
        isinstance(make, types.BuiltinFunctionType) and make.__module__ == "builtins"  # getattr, of a bound method
    )
    loses = setter is not None or getattr(value, "fold", None) == 1  # of a datetime, which protocol 2 does not tell
    if entries is not None or pairs is not None or unusual or loses:
        raise ValuesError(f"{show(value)} of type {kind.__name__} has no description as data.")
    new = make is copyreg.__newobj__  # type: ignore[attr-defined]
    parts = [describe(part, name) for part in (arguments if new else (make, *arguments))]
    return ["new" if new else "call", describe(state, name), *parts]


def read(description: Any, named: Callable[[Any], Any]) -> Any:
    """Return the value that was described.

    Args:
        description: of the value.
        named: returns what a name means.

    Raises:
        ValuesError: if it describes none.
    """
    try:
        return _read(description, named)
    except ValuesError:
        raise
    except Exception as error:  # anything may be in it
        raise ValuesError(f"{show(description)} describes no value: {type(error).__name__}: {error}") from error


def _read(description: Any, named: Callable[[Any], Any]) -> Any:
    if type(description) in _PLAIN:
        return description
    kind, *parts = description
    if kind == "bytes":
        return bytes.fromhex(parts[0])
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](_read(part, named) for part in parts)
    if kind == "dict":
        return {_read(key, named): _read(entry, named) for key, entry in parts}
    if kind == "name":
        return _KNOWN[parts[0]] if parts[0] in _KNOWN else named(parts[0])
    if kind not in ("new", "call"):
        raise ValuesError(f"{show(description)} describes no value.")
    state, maker, *arguments = (_read(part, named) for part in parts)
    value = maker.__new__(maker, *arguments) if kind == "new" else maker(*arguments)
    return _with_state(value, state)


def _nothing(value: Any, name: str) -> Any:
    raise ValuesError(f"{name} in a set has no description as data.")


class Parts:
    """The classes and functions that a value is made of, numbered; what is made of the same can be told by them.

    A copy of the value elsewhere gives the same numbers.
    """

    def __init__(self, value: Any) -> None:
        self._parts: list[Any] = []
        self._numbers: dict[int, int] = {}
        with suppress(Exception):  # a value without a description: what is cut off from it has none either
            describe(value, self._enter)

    def _enter(self, part: Any, name: str) -> int:
        if id(part) not in self._numbers:
            self._numbers[id(part)] = len(self._parts)
            self._parts.append(part)
        return self._numbers[id(part)]

    def describe(self, value: Any) -> Any:
        """Return the description of a value, for `json.dumps`.

        Raises:
            ValuesError: if it has none.
        """
        return describe(value, self._number)

    def _number(self, part: Any, name: str) -> int:
        if id(part) not in self._numbers:
            raise ValuesError(f"{name} is no part of the restriction that is split.")
        return self._numbers[id(part)]

    def read(self, description: Any) -> Any:
        """Return the value that was described.

        Raises:
            ValuesError: if it is made of something else, or is none at all.
        """
        return read(description, self._numbered)

    def _numbered(self, number: Any) -> Any:
        if type(number) is not int or not 0 <= number < len(self._parts):
            raise ValuesError(f"{show(number)} is no part of the restriction that is split.")
        return self._parts[number]


def _with_state(value: Any, state: Any) -> Any:
    """Give an object its state, as unpickling does."""
    if state is None:
        return value
    if hasattr(value, "__setstate__"):
        value.__setstate__(state)
        return value
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if attributes:
        value.__dict__.update(attributes)
    for name, entry in (slots or {}).items():
        object.__setattr__(value, name, entry)
    return value
