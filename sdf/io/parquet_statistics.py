"""The statistics of row groups of Parquet: which of them have no row in a range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdf.extras import Library

__all__ = ["is_outside"]

types = Library("pyarrow.types", "ReadParquet")


def is_outside(file: Any, number: int, ranges: Mapping[str, tuple[Any, Any, Any]]) -> bool:
    """Return whether no row of a row group has a value in the range of some column, as far as its statistics show.

    Args:
        file: a `pyarrow.parquet.ParquetFile`.
        number: the number of the row group.
        ranges: by the name of a column, the `pyarrow.DataType` that its values are cast to, and of these the lowest and
            the highest; None where there is no bound.
    """
    if not ranges:
        return False
    group = file.metadata.row_group(number)
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema in ranges:
            kind, low, high = ranges[column.path_in_schema]
            stored = file.schema_arrow.field(column.path_in_schema).type
            if _keeps_order(stored, kind) and _is_outside(column, stored, low, high):
                return True
    return False


def _keeps_order(stored: Any, kind: Any) -> bool:
    """Return whether values that are stored compare with a bound as the values that they are cast to."""
    return bool(stored == kind or (types.is_integer(stored) and types.is_integer(kind)))


def _is_outside(column: Any, stored: Any, low: Any, high: Any) -> bool:
    found = column.statistics
    if found is None or not found.has_min_max:
        return False
    least, most = found.min, found.max
    nan_is_left_out = types.is_floating(stored)  # and is the greatest value in Spark
    if not nan_is_left_out and low is not None and type(most) is type(low) and most < low:
        return True
    return high is not None and type(least) is type(high) and bool(least > high)
