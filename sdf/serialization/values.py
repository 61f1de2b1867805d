"""Restrictions as data: a lane sends a split point to the driver, and the driver unpickles nothing.

A value is described as nested JSON lists. Numbers, strings and None stand for themselves. Any other value is described
by its class, arguments and state, from which it is made again. The classes in `_KNOWN` have fixed names. The writer and
the reader of a description agree on which other classes and functions it may name, and how.

A lane and the driver both have the restriction that was given to the lane. Both number the classes and functions that
the restriction is made of (`Parts`), and the description of a residual names only these numbers. So it can name only
code that the restriction already uses. Names would be ambiguous: all lambdas of a function have the same name, and
so do all classes of one name that it creates.
"""

from __future__ import annotations

import copyreg
import datetime
import decimal
import enum
import fractions
import json
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
    """A value that cannot be described, or a description that describes no value."""


def describe(value: Any, name: Callable[[Any, str], Any], *, numbered: bool = False) -> Any:
    """Return the description of a value, for `json.dumps`.

    Args:
        value: the value.
        name: called with a class, function or other object that pickles as a name, and its name; returns the JSON name.
        numbered: whether JSON names are numbers, which depend on the order of the calls. Then a set may hold nothing
            that has a name, since its order differs between processes.

    Raises:
        ValuesError: if the value has no description, for example because it pickles in an unusual way.
    """

    def of(part: Any) -> Any:
        return describe(part, name, numbered=numbered)

    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind in (set, frozenset):
        named = _nothing if numbered else name
        return [kind.__name__, *sorted((describe(entry, named) for entry in value), key=json.dumps)]
    if kind.__name__ in _COLLECTIONS and kind is _COLLECTIONS[kind.__name__]:
        return [kind.__name__, *map(of, value)]
    if kind is dict:
        return ["dict", *([of(key), of(entry)] for key, entry in value.items())]
    if id(value) in _NAMES:
        return ["name", _NAMES[id(value)]]
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return ["name", name(value, value.__qualname__)]
    if isinstance(value, enum.Enum):  # the way an enum pickles differs between versions of Python
        return ["call", None, of(kind), of(value.value)]
    made = value.__reduce_ex__(2)
    if isinstance(made, str):
        return ["name", name(value, made)]
    make, arguments, state, entries, pairs, setter = (*made, None, None, None, None)[:6]
    unusual = make is copyreg.__newobj_ex__ or (  # type: ignore[attr-defined]
        isinstance(make, types.BuiltinFunctionType) and make.__module__ == "builtins"  # getattr, of a bound method
    )
    loses = setter is not None or getattr(value, "fold", None) == 1  # a datetime's fold, which protocol 2 leaves out
    if isinstance(value, (set, frozenset)) or unusual or loses:  # a subclass of set pickles as a list, in its order
        raise ValuesError(f"{show(value)} of type {kind.__name__} has no description as data.")
    new = make is copyreg.__newobj__  # type: ignore[attr-defined]
    described = ["new" if new else "call", of(state), *map(of, arguments if new else (make, *arguments))]
    if entries is None and pairs is None:
        return described
    return ["filled", described, of(list(entries or ())), of(list(pairs or ()))]


def read(description: Any, named: Callable[[Any], Any]) -> Any:
    """Return the value that was described.

    Args:
        description: the description of the value.
        named: returns the object that a name stands for.

    Raises:
        ValuesError: if the description describes no value.
    """
    try:
        return _read(description, named)
    except ValuesError:
        raise
    except Exception as error:  # the description may hold anything, so any error may be raised
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
    if kind == "filled":
        value, entries, pairs = (_read(part, named) for part in parts)
        for entry in entries:
            value.append(entry)
        for key, entry in pairs:
            value[key] = entry
        return value
    if kind not in ("new", "call"):
        raise ValuesError(f"{show(description)} describes no value.")
    state, maker, *arguments = (_read(part, named) for part in parts)
    value = maker.__new__(maker, *arguments) if kind == "new" else maker(*arguments)
    return _with_state(value, state)


def _nothing(value: Any, name: str) -> Any:
    raise ValuesError(f"{name} in a set has no description as data.")


class Parts:
    """The numbered classes and functions of a value, which describe other values made of the same ones.

    A copy of the value in another process gives the same numbers.
    """

    def __init__(self, value: Any) -> None:
        self._parts: list[Any] = []
        self._numbers: dict[int, int] = {}
        with suppress(Exception):  # a value without a description: its residuals have none either
            describe(value, self._enter, numbered=True)

    def _enter(self, part: Any, name: str) -> int:
        if id(part) not in self._numbers:
            self._numbers[id(part)] = len(self._parts)
            self._parts.append(part)
        return self._numbers[id(part)]

    def describe(self, value: Any) -> Any:
        """Return the description of a value, for `json.dumps`.

        Raises:
            ValuesError: if the value has no description.
        """
        return describe(value, self._number, numbered=True)

    def _number(self, part: Any, name: str) -> int:
        if id(part) not in self._numbers:
            raise ValuesError(f"{name} is no class or function of the restriction that is split.")
        return self._numbers[id(part)]

    def read(self, description: Any) -> Any:
        """Return the value that was described.

        Raises:
            ValuesError: if the description is of other classes and functions, or describes no value.
        """
        return read(description, self._numbered)

    def _numbered(self, number: Any) -> Any:
        if type(number) is not int or not 0 <= number < len(self._parts):
            raise ValuesError(f"{show(number)} is no class or function of the restriction that is split.")
        return self._parts[number]


def _with_state(value: Any, state: Any) -> Any:
    """Set the state of an object, as unpickling does, and return the object."""
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
