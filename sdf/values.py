"""Restrictions as data: how a lane tells the driver a split point without the driver unpickling anything.

A value is described as nested JSON lists. Numbers, strings and None stand for themselves; everything else says how to
make it again: which class, with what arguments, in what state. The driver makes only what its own restrictions are made
of, and the plain values of the standard library: `Values.learn` collects those classes from the driver's restrictions,
and `Values.read` refuses every other. So a description can name no code that was not there before.
"""

from __future__ import annotations

import copyreg
import datetime
import decimal
import fractions
import types
import uuid
from typing import Any

from sdf.errors import SdfError, show
from sdf.restrictions import UNBOUNDED, ByteKeyRange, OffsetRange

__all__ = ["Values", "ValuesError", "describe"]

_PLAIN = (type(None), bool, int, float, str)
_COLLECTIONS: dict[str, Any] = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset}
_ALWAYS = (
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


class ValuesError(SdfError, ValueError):
    """A value that cannot be told, or a description that the driver does not follow."""


def describe(value: Any) -> Any:
    """Return the description of a value, for `json.dumps`.

    Raises:
        ValuesError: if it has none, for example because it pickles in an unusual way.
    """
    return _describe(value, {})


def _describe(value: Any, named: dict[str, Any]) -> Any:
    """As `describe`; enter in ``named`` each class and function that the description names."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind.__name__ in _COLLECTIONS and kind is _COLLECTIONS[kind.__name__]:
        return [kind.__name__, *(_describe(entry, named) for entry in value)]
    if kind is dict:
        return ["dict", *([_describe(key, named), _describe(entry, named)] for key, entry in value.items())]
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return ["name", _name(value, value.__qualname__, named)]
    made = value.__reduce_ex__(2)
    if isinstance(made, str):
        return ["name", _name(value, made, named)]
    make, arguments, state, entries, pairs = (*made, None, None, None)[:5]
    unusual = make is copyreg.__newobj_ex__ or (  # type: ignore[attr-defined]
        isinstance(make, types.BuiltinFunctionType) and make.__module__ == "builtins"  # getattr, of a bound method
    )
    if entries is not None or pairs is not None or unusual:
        raise ValuesError(f"{show(value)} of type {kind.__name__} has no description as data.")
    new = make is copyreg.__newobj__  # type: ignore[attr-defined]
    parts = (_describe(part, named) for part in (arguments if new else (make, *arguments)))
    return ["new" if new else "call", _describe(state, named), *parts]


def _name(value: Any, name: str, named: dict[str, Any]) -> str:
    module = getattr(value, "__module__", None)
    full = f"{module}:{name}"
    named[full] = value
    return full


class Values:
    """What the driver can make of descriptions; it knows more after each `learn`."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {f"{known.__module__}:{known.__qualname__}": known for known in _ALWAYS}
        _describe(UNBOUNDED, self._named)

    def learn(self, value: Any) -> None:
        """Know the classes that ``value`` is made of; a value without a description teaches nothing."""
        if type(value) in (OffsetRange, ByteKeyRange):
            return
        try:
            _describe(value, self._named)
        except Exception:  # user code; it means only that such values stay where they are
            return

    def read(self, description: Any) -> Any:
        """Return the value that a lane described.

        Raises:
            ValuesError: if it names something that this driver's restrictions are not made of, or is none at all.
        """
        try:
            return self._read(description)
        except ValuesError:
            raise
        except Exception as error:  # anything may be in it
            raise ValuesError(f"{show(description)} describes no value: {type(error).__name__}: {error}") from error

    def named(self, name: str) -> Any:
        """Return the class or function of that name.

        Raises:
            ValuesError: if none of the values that were learnt has it.
        """
        if name not in self._named:
            raise ValuesError(f"{name!r} is not part of any restriction that this driver has.")
        return self._named[name]

    def _read(self, description: Any) -> Any:
        if type(description) in _PLAIN:
            return description
        kind, *parts = description
        if kind == "bytes":
            return bytes.fromhex(parts[0])
        if kind in _COLLECTIONS:
            return _COLLECTIONS[kind](self._read(part) for part in parts)
        if kind == "dict":
            return {self._read(key): self._read(entry) for key, entry in parts}
        if kind == "name":
            return self.named(parts[0])
        if kind not in ("new", "call"):
            raise ValuesError(f"{show(description)} describes no value.")
        state, maker, *arguments = (self._read(part) for part in parts)
        value = maker.__new__(maker, *arguments) if kind == "new" else maker(*arguments)
        return _with_state(value, state)


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
