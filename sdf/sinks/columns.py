"""Columns: records as Arrow arrays of given types, or the first value that its type cannot hold without loss.

pyarrow alone loses much in silence: it makes 1 of 1.5, drops fields that the schema does not have and time zones, cuts
microseconds, and makes a list of letters of a str. So each column's values are told apart by their Python types first,
all at once, which costs little. A batch fits if and only if each of its records does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import accumulate, chain
from numbers import Integral, Real
from operator import attrgetter, itemgetter
from typing import Any

import attrs

from sdf.sinks.arrow import arrow, types

__all__ = ["Misfit", "as_batch", "columns_of", "is_bool", "is_row", "kinds_of", "names_of", "spread", "twice"]

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


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


def as_batch(records: Sequence[Any], schema: Any) -> Any:
    """Return records as a record batch of a schema.

    Raises:
        Misfit: if one does not fit.
    """
    columns = columns_of(records, schema.names)
    arrays = [as_array(column, field.type, field.name) for column, field in zip(columns, schema, strict=True)]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


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
        own = names_of(rows[0])
        _check_names(own, names, path, rows[0])
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
    unknown = [name for name in own if name not in names]
    if unknown:
        raise Misfit(path, row, f"has the field {unknown[0]!r}, which the schema does not have: {', '.join(names)}")


def as_array(values: Sequence[Any], wanted: Any, path: str) -> Any:
    """Return values as an array of a type.

    Raises:
        Misfit: if one does not fit.
    """
    if types.is_struct(wanted):
        return _struct(values, wanted, path)
    if types.is_list(wanted) or types.is_large_list(wanted) or types.is_fixed_size_list(wanted):
        return _list(values, wanted, path)
    if types.is_map(wanted):
        return _map(values, wanted, path)
    fits, exact = _rules(wanted)
    for kind in kinds_of(values):
        if not fits(kind):
            raise Misfit(path, _first(values, kind), f"is no value of type {wanted}")
    if exact is not None:
        values = exact(values, wanted, path)
    return _made(values, wanted, path)


def _first(values: Sequence[Any], kind: type) -> Any:
    return next(value for value in values if type(value) is kind)


def _made(values: Sequence[Any], wanted: Any, path: str) -> Any:
    failures = (arrow.ArrowException, OverflowError, TypeError, ValueError)
    try:
        return arrow.array(values, wanted)
    except failures as error:
        for value in values:
            try:
                arrow.array([value], wanted)
            except failures as flaw:
                raise Misfit(path, value, f"does not fit {wanted}: {flaw}") from flaw
        raise Misfit(path, values, f"do not fit {wanted} together: {error}") from error


# Which Python types an Arrow type takes, and what to check or convert in the values

_Fits = Callable[[type], bool]
_Exact = Callable[[Sequence[Any], Any, str], Sequence[Any]]


def _rules(wanted: Any) -> tuple[_Fits, _Exact | None]:
    """Return a test for Python types, and a check of the values where one is needed."""
    if types.is_boolean(wanted):
        return is_bool, None
    data = (bytes, bytearray, memoryview)
    rules: tuple[tuple[Any, tuple[type, ...], tuple[type, ...], _Exact | None], ...] = (
        # the Arrow types, the Python types that they take, those among these that they do not, and the check
        ((types.is_string, types.is_large_string), (str,), (), None),
        ((types.is_integer,), (Integral, float), (bool,), _whole),
        ((types.is_floating,), (Real,), (bool,), _finite),
        ((types.is_binary, types.is_large_binary, types.is_fixed_size_binary), data, (), None),
        ((types.is_decimal,), (Decimal, int), (bool,), None),
        ((types.is_timestamp,), (datetime,), (), _times),
        ((types.is_date32,), (date,), (datetime,), None),
        ((types.is_time,), (time,), (), _times),
        ((types.is_duration,), (timedelta,), (), _times),
    )
    found = next((rule for rule in rules if any(test(wanted) for test in rule[0])), ((), (), (), None))
    _, takes, leaves, exact = found
    return (lambda kind: issubclass(kind, takes) and not issubclass(kind, leaves)), exact


def _whole(values: Sequence[Any], wanted: Any, path: str) -> Sequence[Any]:
    """Return the values with floats as integers; pyarrow would cut 1.5 to 1."""
    if not any(issubclass(kind, float) for kind in kinds_of(values)):
        return values
    for value in values:
        if isinstance(value, float) and not value.is_integer():
            raise Misfit(path, value, f"is no value of type {wanted}")
    return [int(value) if isinstance(value, float) else value for value in values]


def _finite(values: Sequence[Any], wanted: Any, path: str) -> Sequence[Any]:
    """Return the values; a float that a smaller type holds as infinity does not fit."""
    if wanted.bit_width < 64:
        array = _made(values, wanted, path)
        for value, made in zip(values, array.to_pylist(), strict=True):
            if made is not None and math.isinf(made) and not math.isinf(value):
                raise Misfit(path, value, f"is too large for {wanted}")
    return values


def _times(values: Sequence[Any], wanted: Any, path: str) -> Sequence[Any]:
    """Return the values; pyarrow would drop time zones and cut fractions of the unit."""
    zoned = getattr(wanted, "tz", None) is not None
    for value in values:
        if value is None:
            continue
        if isinstance(value, timedelta):
            fraction = value.microseconds
        else:
            fraction = value.microsecond
            if (value.tzinfo is not None) is not zoned:
                has, needs = ("no", "one") if zoned else ("a", "none")
                raise Misfit(path, value, f"has {has} time zone, but {wanted} must have {needs}")
        nanoseconds = fraction * 1000 + getattr(value, "nanosecond", getattr(value, "nanoseconds", 0))  # of pandas
        if nanoseconds % _NANOSECONDS[wanted.unit]:
            raise Misfit(path, value, f"has a fraction that {wanted} cannot hold")
    return values


# Nested types


def _struct(values: Sequence[Any], wanted: Any, path: str) -> Any:
    rows = [value for value in values if value is not None]
    fields = [wanted.field(number) for number in range(wanted.num_fields)]
    columns = spread(rows, [field.name for field in fields], path) if rows else [[] for _ in fields]
    if len(rows) < len(values):
        columns = [_filled(values, column) for column in columns]
    arrays = [as_array(column, one.type, f"{path}.{one.name}") for column, one in zip(columns, fields, strict=True)]
    missing = arrow.array([value is None for value in values], arrow.bool_())
    return arrow.StructArray.from_arrays(arrays, fields=fields, mask=missing)


def _filled(values: Sequence[Any], column: Sequence[Any]) -> list[Any]:
    """Return a column with None where a value is None."""
    entries = iter(column)
    return [None if value is None else next(entries) for value in values]


def _list(values: Sequence[Any], wanted: Any, path: str) -> Any:
    values = lists_of(values, f"is no value of type {wanted}", path)
    lists = [value for value in values if value is not None]
    if types.is_fixed_size_list(wanted):
        for value in lists:
            if len(value) != wanted.list_size:
                raise Misfit(path, value, f"has {len(value)} entries, not the {wanted.list_size} of {wanted}")
    entries = as_array(list(chain.from_iterable(lists)), wanted.value_type, f"{path}[]")
    ends = list(accumulate((0 if value is None else len(value) for value in values), initial=0))
    starts = [None if value is None else end for value, end in zip(values, ends, strict=False)]
    large = types.is_large_list(wanted)
    offsets = arrow.array([*starts, ends[-1]], arrow.int64() if large else arrow.int32())
    array = (arrow.LargeListArray if large else arrow.ListArray).from_arrays(offsets, entries)
    return array.cast(wanted)


def lists_of(values: Sequence[Any], flaw: str, path: str) -> list[Any]:
    """Return values, each None or a list; NumPy's arrays as lists.

    Raises:
        Misfit: with this flaw, if one is none.
    """
    arrays = False
    for kind in kinds_of(values):
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            arrays = True
        elif not issubclass(kind, (list, tuple)):
            raise Misfit(path, _first(values, kind), flaw)
    return [value.tolist() if hasattr(value, "tolist") else value for value in values] if arrays else list(values)


def _map(values: Sequence[Any], wanted: Any, path: str) -> Any:
    for kind in kinds_of(values):
        if not issubclass(kind, Mapping):
            raise Misfit(path, _first(values, kind), f"is no value of type {wanted}")
    maps = [value for value in values if value is not None]
    keys = list(chain.from_iterable(maps))
    if None in keys:
        raise Misfit(path, next(one for one in maps if None in one), "has the key None")
    as_array(keys, wanted.key_type, f"{path} key")
    as_array([entry for one in maps for entry in one.values()], wanted.item_type, f"{path}[]")
    return _made([None if value is None else list(value.items()) for value in values], wanted, path)
