"""Columns: records of many kinds as columns of values, and the first value that does not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import attrs

from sdf.sinks.arrow import arrow

__all__ = [
    "NOT_NULL", "Misfit", "columns_of", "first", "is_bool", "is_row", "is_span", "kinds_of", "lists_of", "names_of",
    "spread", "twice",
]  # fmt: skip

NOT_NULL = "stands where the schema has NOT NULL (nullable=False)"


class Misfit(Exception):  # noqa: N818, it never leaves this package
    """A value does not fit.

    Args:
        path: the field, "" for the record itself.
        value: the value.
        flaw: what is wrong with it.
    """

    def __init__(self, path: str, value: Any, flaw: str) -> None:
        super().__init__(path, value, flaw)
        self.path = path
        self.value = value
        self.flaw = flaw


def kinds_of(values: Sequence[Any]) -> set[type]:
    """Return the types of some values, without that of None."""
    return set(map(type, values)) - {type(None)}


def is_row(kind: type) -> bool:
    """Return whether values of a type have fields of their own."""
    return issubclass(kind, (Mapping, tuple)) or attrs.has(kind) or dataclasses.is_dataclass(kind)


def is_bool(kind: type) -> bool:
    """Return whether a type is that of truth values, NumPy's too; those are no integers here."""
    return kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"))


def is_span(kind: type) -> bool:
    """Return whether a type is NumPy's for durations, which are integers to Python, of any unit."""
    return kind.__module__ == "numpy" and kind.__name__ == "timedelta64"


def names_of(row: Any) -> list[Any]:
    """Return the names of the fields of a row; those of a tuple or list are ``_1``, ``_2`` and so on."""
    if attrs.has(type(row)):
        return [field.name for field in attrs.fields(type(row))]
    if dataclasses.is_dataclass(row):
        return [field.name for field in dataclasses.fields(row)]
    if isinstance(row, Mapping):
        return list(row)
    named = getattr(row, "_fields", None) or getattr(row, "__fields__", None)  # a named tuple, or a Row of Spark
    return list(named) if named else [f"_{number}" for number in range(1, len(row) + 1)]


def columns_of(records: Sequence[Any], names: list[str]) -> list[Sequence[Any]]:
    """Return the columns of records; values without fields of their own are the only column.

    Raises:
        Misfit: see `spread`.
    """
    if len(names) == 1 and not any(is_row(kind) or issubclass(kind, list) for kind in set(map(type, records))):
        return [records]
    return spread(records, names, "")


def spread(rows: Sequence[Any], names: list[str], path: str) -> list[Sequence[Any]]:
    """Return the columns of some rows, by the names of the fields.

    A dict, named tuple or instance of a class is taken by name: what it lacks is None. A tuple or list is taken by
    position, and must have all fields.

    Raises:
        Misfit: for a field without a name, and for what is no row.
    """
    kinds = set(map(type, rows))
    if len(kinds) > 1:
        singles = [spread([row], names, path) for row in rows]
        return [[single[number][0] for single in singles] for number in range(len(names))]
    kind = kinds.pop()
    if attrs.has(kind) or dataclasses.is_dataclass(kind):
        listed = names_of(rows[0])
        _check_names(listed, names, path, rows[0])
        own = set(listed)
        return [list(map(attrgetter(name), rows)) if name in own else [None] * len(rows) for name in names]
    if issubclass(kind, (tuple, list)):
        if names_of(rows[0]) != names and (hasattr(kind, "_fields") or hasattr(rows[0], "__fields__")):
            rows = [_by_name(row, path) for row in rows]
        elif set(map(len, rows)) <= {len(names)}:
            return [list(map(itemgetter(number), rows)) for number in range(len(names))]
        else:
            flawed = next(row for row in rows if len(row) != len(names))
            raise Misfit(path, flawed, f"has {len(flawed)} fields, but {len(names)} are expected: {', '.join(names)}")
    elif issubclass(kind, Mapping):
        if kind is not dict:  # a defaultdict would grow
            rows = list(map(dict, rows))
    else:
        raise Misfit(path, rows[0], f"is no row with the fields {', '.join(map(str, names))}")
    return _spread_dicts(rows, names, path)


def _by_name(row: Any, path: str) -> dict[Any, Any]:
    own = names_of(row)
    named = dict(zip(own, row, strict=True))
    if len(named) < len(own):
        raise Misfit(path, row, f"has two fields of the name {twice(own)!r}")
    return named


def twice(names: Sequence[Any]) -> Any:
    """Return the first of some names that is there twice."""
    return next(name for at, name in enumerate(names) if name in names[:at])


def _spread_dicts(rows: Sequence[dict[Any, Any]], names: list[str], path: str) -> list[Sequence[Any]]:
    if set(map(len, rows)) == {len(names)}:
        try:
            return [list(map(itemgetter(name), rows)) for name in names]
        except KeyError:
            pass
    known = set(names)
    for row in rows:
        if not row.keys() <= known:
            _check_names(list(row), names, path, row)
    return [[row.get(name) for row in rows] for name in names]


def _check_names(own: list[Any], names: list[str], path: str, row: Any) -> None:
    known = set(names)
    unknown = [name for name in own if name not in known]
    if unknown:
        raise Misfit(path, row, f"has the field {unknown[0]!r}, which the schema does not have: {', '.join(names)}")


def first(values: Sequence[Any], kind: type) -> Any:
    """Return the first value of a type."""
    return next(value for value in values if type(value) is kind)


def lists_of(values: Sequence[Any], flaw: str, path: str) -> list[Any]:
    """Return values, each None or a list; NumPy's arrays as lists.

    Raises:
        Misfit: with this flaw, if one is none; or if an array has no entries that a list could have.
    """
    arrays = False
    for kind in kinds_of(values):
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            arrays = True
        elif not issubclass(kind, list) and kind is not tuple:  # a named tuple or a Row would lose its names
            raise Misfit(path, first(values, kind), flaw)
    if not arrays:
        return list(values)
    return [_entries(value, path) if hasattr(value, "tolist") else value for value in values]


def _entries(array: Any, path: str) -> list[Any]:
    """Return the entries of a NumPy array; `tolist` would make a number of a datetime64."""
    if not array.ndim:
        raise Misfit(path, array, "is an array without a dimension, and no list; give its value: array.item()")
    if array.dtype.names:
        raise Misfit(path, array, "is an array of records, whose names a list would lose; give a list of dicts")
    if array.dtype.kind not in "mM":
        return list(array.tolist())
    if array.ndim > 1:
        return list(array)
    try:
        return list(arrow.array(array).to_pylist())
    except (arrow.ArrowException, ValueError, OverflowError) as error:
        raise Misfit(path, array, f"does not convert to times of Python: {error}") from error
