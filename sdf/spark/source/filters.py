"""Filters of a query that Spark hands to a data source, as ranges of columns.

A connector uses ranges to read less: it may still give rows that lie outside, as Spark applies all filters again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql.types import StringType, StructType

from sdf.spark.door.data_sources import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

__all__ = ["ranges_of"]

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)  # code points that are no characters


def ranges_of(filters: Iterable[Filter], schema: StructType) -> dict[str, tuple[Any, Any]]:
    """Return the lowest and the highest value of columns that filters let through; None where there is no bound.

    All values of a range have one type. Texts are compared by their code points, as Spark does without a collation.
    """
    ranges: dict[str, tuple[Any, Any]] = {}
    collated = {
        field.name
        for field in schema.fields
        if isinstance(field.dataType, StringType) and field.dataType != StringType()
    }
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())  # of a nested field several names; Not has none
        found = _range_of(one)
        if len(path) != 1 or path[0] in collated or found is None:
            continue
        low, high = found
        before = ranges.get(path[0], (None, None))
        kinds = {type(value) for value in (*found, *before) if value is not None}
        if len(kinds) == 1:
            lows = [value for value in (low, before[0]) if value is not None]
            highs = [value for value in (high, before[1]) if value is not None]
            ranges[path[0]] = max(lows, default=None), min(highs, default=None)
    return ranges


def _range_of(one: Filter) -> tuple[Any, Any] | None:
    """Return a range that holds all values that a filter lets through; None if there is none that helps."""
    if isinstance(one, In):
        values = [value for value in one.value if value is not None]
        if not values or len(set(map(type, values))) > 1 or any(value != value for value in values):
            return None
        return min(values), max(values)
    value = getattr(one, "value", None)
    if value is None or value != value:  # NaN is greater than all others in Spark
        return None
    if isinstance(one, (EqualTo, EqualNullSafe)):
        return value, value
    if isinstance(one, (GreaterThan, GreaterThanOrEqual)):
        return value, None
    if isinstance(one, (LessThan, LessThanOrEqual)):
        return None, value
    if isinstance(one, StringStartsWith):
        return value, _after(value)
    return None


def _after(prefix: str) -> str | None:
    """Return a text that is greater than all that begin with a prefix; None if there is none."""
    shorter = prefix.rstrip(chr(_LAST_CHARACTER))
    if not shorter:
        return None
    code = ord(shorter[-1]) + 1
    return shorter[:-1] + chr(_SURROGATES.stop if code in _SURROGATES else code)
