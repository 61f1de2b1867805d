"""Nested arrays of Arrow: lists, maps and structs, made of the arrays of what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sdf.sinks.arrow import arrow, compute, types

__all__ = ["listed", "mapped", "structs"]


def listed(offsets: Any, entries: Any, wanted: Any) -> Any:
    """Return an array of lists.

    Args:
        offsets: an array of where each list begins, null for null, and of where the last one ends.
        entries: an array of all their entries.
        wanted: the type, of one of the kinds of lists.
    """
    if types.is_large_list(wanted):
        return arrow.LargeListArray.from_arrays(offsets.cast(arrow.int64()), entries, type=wanted)
    kind = wanted if types.is_list(wanted) else arrow.list_(wanted.value_field)
    return arrow.ListArray.from_arrays(offsets.cast(arrow.int32()), entries, type=kind).cast(wanted)


def mapped(offsets: Any, keys: Any, items: Any, wanted: Any) -> Any:
    """Return an array of maps; see `listed`."""
    offsets = offsets.cast(arrow.int32())
    array = arrow.MapArray.from_arrays(offsets, keys, items)
    return array if array.type == wanted else arrow.MapArray.from_arrays(offsets, keys, items, type=wanted)


def structs(arrays: Sequence[Any], valid: Any, wanted: Any) -> Any:
    """Return an array of structs.

    Args:
        arrays: the arrays of the fields, with an entry for each struct that is not null.
        valid: an array that says which structs are not null.
        wanted: the type.
    """
    fields = [wanted.field(number) for number in range(wanted.num_fields)]
    if not compute.any(valid).as_py():  # true_count of what was computed ends the process with PyArrow 15
        return arrow.nulls(len(valid), wanted)
    if not compute.all(valid).as_py():
        numbers = compute.subtract(compute.cumulative_sum(valid.cast(arrow.int64())), 1)
        nulls = compute.if_else(valid, numbers, arrow.scalar(None, arrow.int64()))
        some = compute.max_element_wise(numbers, 0)  # under a null any entry is right where null is not allowed
        arrays = [one.take(nulls if field.nullable else some) for one, field in zip(arrays, fields, strict=True)]
    return arrow.StructArray.from_arrays(arrays, fields=fields, mask=compute.invert(valid))
