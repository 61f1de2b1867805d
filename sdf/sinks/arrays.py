"""Arrays: records as Arrow arrays of given types, or the first value that its type cannot hold without loss.

pyarrow alone loses much in silence: it makes 1 of 1.5, drops fields that the schema does not have and time zones, cuts
microseconds, and makes a list of letters of a str. So each column's values are told apart by their Python types first,
all at once, which costs little. A batch fits if and only if each of its records does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import accumulate, chain
from numbers import Integral, Real
from typing import Any
from uuid import UUID

from sdf.sinks.arrow import arrow, types
from sdf.sinks.columns import NOT_NULL, Misfit, columns_of, first, is_bool, is_span, kinds_of, lists_of, spread
from sdf.sinks.nested import listed, mapped, structs

__all__ = ["as_array", "as_batch", "batch_of"]

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def as_batch(records: Sequence[Any], schema: Any) -> Any:
    """Return records as a record batch of a schema.

    Raises:
        Misfit: if one does not fit.
    """
    return batch_of(columns_of(records, schema.names), schema)


def batch_of(columns: Sequence[Sequence[Any]], schema: Any) -> Any:
    """Return columns of values as a record batch of a schema.

    Raises:
        Misfit: if a value does not fit.
    """
    arrays = [as_array(column, field, field.name) for column, field in zip(columns, schema, strict=True)]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


def as_array(values: Sequence[Any], field: Any, path: str) -> Any:
    """Return values as an array for a field.

    Raises:
        Misfit: if one does not fit.
    """
    if not field.nullable and any(value is None for value in values):
        raise Misfit(path, None, NOT_NULL)
    return _of_type(values, field.type, path)


def _of_type(values: Sequence[Any], wanted: Any, path: str) -> Any:
    if types.is_struct(wanted):
        return _struct(values, wanted, path)
    if types.is_list(wanted) or types.is_large_list(wanted) or types.is_fixed_size_list(wanted):
        return _list(values, wanted, path)
    if types.is_map(wanted):
        return _map(values, wanted, path)
    name = getattr(wanted, "extension_name", None)
    if name == "arrow.uuid":
        return arrow.ExtensionArray.from_storage(wanted, _made(_uuids(values, path), wanted.storage_type, path))
    if name == "arrow.json":
        return arrow.ExtensionArray.from_storage(wanted, _of_type(values, wanted.storage_type, path))
    fits, exact = _rules(wanted)
    for kind in kinds_of(values):
        if not fits(kind):
            raise Misfit(path, first(values, kind), f"is no value of type {wanted}")
    if exact is not None:
        values = exact(values, wanted, path)
    return _made(values, wanted, path)


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
        ((types.is_floating,), (Real,), (bool,), _nearest),
        ((types.is_binary, types.is_large_binary, types.is_fixed_size_binary), data, (), None),
        ((types.is_decimal,), (Decimal, int), (bool,), None),
        ((types.is_timestamp,), (datetime,), (), _times),
        ((types.is_date,), (date,), (datetime,), None),
        ((types.is_time,), (time,), (), _times),
        ((types.is_duration,), (timedelta,), (), _times),
    )
    found = next((rule for rule in rules if any(test(wanted) for test in rule[0])), ((), (), (), None))
    _, takes, leaves, exact = found
    # NumPy's timedelta64 is an integer to Python
    return (lambda kind: issubclass(kind, takes) and not issubclass(kind, leaves) and not is_span(kind)), exact


def _whole(values: Sequence[Any], wanted: Any, path: str) -> Sequence[Any]:
    """Return the values with floats as integers; pyarrow would cut 1.5 to 1."""
    if not any(issubclass(kind, float) for kind in kinds_of(values)):
        return values
    for value in values:
        if isinstance(value, float) and not value.is_integer():
            raise Misfit(path, value, f"is no value of type {wanted}")
    return [int(value) if isinstance(value, float) else value for value in values]


def _nearest(values: Sequence[Any], wanted: Any, path: str) -> Sequence[Any]:
    """Return the values; a float of Python may be rounded to a smaller type, but not to infinity or zero."""
    if wanted.bit_width < 64 or not kinds_of(values) <= {float, int}:
        array = _made(values, wanted, path)
        for value, made in zip(values, array.to_pylist(), strict=True):
            if value is None or value == made or value != value:
                continue
            if not isinstance(value, float) or wanted.bit_width == 64:
                raise Misfit(path, value, f"does not fit {wanted}: it would become {made!r}")
            if math.isinf(made) or not made:
                raise Misfit(path, value, f"is too {'large' if made else 'small'} for {wanted}")
    return values


def _uuids(values: Sequence[Any], path: str) -> list[bytes | None]:
    """Return the bytes of UUIDs, each given as such, in its usual text, or as bytes."""
    return [None if value is None else _uuid(value, path) for value in values]


def _uuid(value: Any, path: str) -> bytes:
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, bytes) and len(value) == 16:
        return value
    with suppress(ValueError):
        if isinstance(value, str) and str(UUID(value)) == value.lower():
            return UUID(value).bytes
    raise Misfit(path, value, f"is no UUID; give a uuid.UUID, a text like '{UUID(int=0)}', or 16 bytes")


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
    for kind in kinds_of(values):
        if issubclass(kind, list):  # a tuple may be a row, as where the schema is found; a list is one of entries
            raise Misfit(path, first(values, kind), f"is no value of type {wanted}")
    rows = [value for value in values if value is not None]
    fields = [wanted.field(number) for number in range(wanted.num_fields)]
    columns = spread(rows, [field.name for field in fields], path) if rows else [[] for _ in fields]
    arrays = [as_array(column, one, f"{path}.{one.name}") for column, one in zip(columns, fields, strict=True)]
    return structs(arrays, arrow.array([value is not None for value in values], arrow.bool_()), wanted)


def _list(values: Sequence[Any], wanted: Any, path: str) -> Any:
    values = lists_of(values, f"is no value of type {wanted}", path)
    lists = [value for value in values if value is not None]
    if types.is_fixed_size_list(wanted):
        for value in lists:
            if len(value) != wanted.list_size:
                raise Misfit(path, value, f"has {len(value)} entries, not the {wanted.list_size} of {wanted}")
    entries = as_array(list(chain.from_iterable(lists)), wanted.value_field, f"{path}[]")
    return listed(_offsets(values), entries, wanted)


def _offsets(values: Sequence[Any]) -> Any:
    """Return where the entries of each value begin, null for None, and where the last ones end."""
    ends = list(accumulate((0 if value is None else len(value) for value in values), initial=0))
    starts = [None if value is None else end for value, end in zip(values, ends, strict=False)]
    return arrow.array([*starts, ends[-1]], arrow.int64())


def _map(values: Sequence[Any], wanted: Any, path: str) -> Any:
    for kind in kinds_of(values):
        if not issubclass(kind, Mapping):
            raise Misfit(path, first(values, kind), f"is no value of type {wanted}")
    maps = [value for value in values if value is not None]
    keys = list(chain.from_iterable(maps))
    if None in keys:
        raise Misfit(path, next(one for one in maps if None in one), "has the key None")
    entries = [entry for one in maps for entry in one.values()]
    return mapped(
        _offsets(values),
        as_array(keys, wanted.key_field, f"{path} key"),
        as_array(entries, wanted.item_field, f"{path}[]"),
        wanted,
    )
