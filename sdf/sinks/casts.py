"""Casts: Arrow arrays as those of another type, at every depth, or the first that would become other values."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sdf.sinks.arrays import as_array
from sdf.sinks.arrow import arrow, compute, is_view, types
from sdf.sinks.columns import NOT_NULL, Misfit
from sdf.sinks.nested import listed, mapped, structs

__all__ = ["fitted", "stored"]


def fitted(array: Any, field: Any, path: str) -> Any:
    """Return an array, or a chunked one, as that of a field: its values are the same, in its type, and null if it may.

    Raises:
        Misfit: if a value does not fit, or lies in a struct's field that the field's type does not have.
    """
    may_stay = array.type == field.type and not _has_required(field.type)
    if may_stay and (field.nullable or not array.null_count):
        return array
    if isinstance(array, arrow.ChunkedArray):
        return arrow.chunked_array([fitted(chunk, field, path) for chunk in array.chunks], field.type)
    if types.is_null(array.type) and field.nullable:
        return arrow.nulls(len(array), field.type)
    try:
        kind = stored(arrow.field("", array.type)).type
        array = array if types.is_null(array.type) or kind == array.type else array.cast(kind)
        if array.null_count and not field.nullable:
            raise Misfit(path, None, NOT_NULL)
        return _cast(array, field.type, path)
    except (arrow.ArrowException, ValueError, OverflowError) as error:
        raise Misfit(path, _some(array), f"of type {array.type} does not fit {field.type}: {error}") from error


def stored(field: Any, *, nullable: bool = False) -> Any:
    """Return a field as files have it: dictionaries and views are ways to store what has a type of its own.

    Args:
        field: the field.
        nullable: make it nullable, and what it holds.
    """
    kind = field.type
    while types.is_dictionary(kind):
        kind = kind.value_type

    def inner(one: Any) -> Any:
        return stored(one, nullable=nullable)

    if types.is_null(kind) or is_view(kind, "string"):
        kind = arrow.string()
    elif is_view(kind, "binary"):
        kind = arrow.binary()
    elif types.is_struct(kind):
        kind = arrow.struct([inner(kind.field(number)) for number in range(kind.num_fields)])
    elif types.is_list(kind) or is_view(kind, "list"):
        kind = arrow.list_(inner(kind.value_field))
    elif types.is_large_list(kind) or is_view(kind, "large_list"):
        kind = arrow.large_list(inner(kind.value_field))
    elif types.is_fixed_size_list(kind):
        kind = arrow.list_(inner(kind.value_field), kind.list_size)
    elif types.is_map(kind):
        kind = arrow.map_(stored(kind.key_field), inner(kind.item_field))
    return field.with_type(kind).with_nullable(nullable or field.nullable)


def _has_required(kind: Any) -> bool:
    """Return whether something in a nested type must not be null; the key of a map cannot be."""
    if not kind.num_fields:
        return False
    fields = [kind.item_field] if types.is_map(kind) else [kind.field(number) for number in range(kind.num_fields)]
    return any(not field.nullable or _has_required(field.type) for field in fields)


def _cast(array: Any, wanted: Any, path: str) -> Any:
    old = array.type
    if types.is_struct(old) and types.is_struct(wanted):
        return _cast_structs(array, wanted, path)
    if _is_list(old) and _is_list(wanted):
        array = array.cast(arrow.list_(old.value_field)) if types.is_fixed_size_list(old) else array
        lists = _compact(array)
        return listed(_offsets(lists), fitted(lists.values, wanted.value_field, f"{path}[]"), wanted)
    if types.is_map(old) and types.is_map(wanted):
        maps = _compact(array)
        keys = fitted(maps.keys, wanted.key_field, f"{path} key")
        return mapped(_offsets(maps), keys, fitted(maps.items, wanted.item_field, f"{path}[]"), wanted)
    if types.is_nested(old) or types.is_nested(wanted):
        raise Misfit(path, _some(array), f"has type {old}, not {wanted}")
    if not _is_alike(old, wanted):
        return as_array(array.to_pylist(), arrow.field("", wanted), path)
    made = array.cast(wanted)
    if types.is_floating(wanted) and not _is_same(array, made):
        raise Misfit(path, _some(array), f"of type {old} does not fit {wanted} without loss")
    return made


def _cast_structs(array: Any, wanted: Any, path: str) -> Any:
    old = array.type
    fields = [wanted.field(number) for number in range(wanted.num_fields)]
    own = [old.field(number).name for number in range(old.num_fields)]
    known = {field.name for field in fields}
    for name in own:
        if name not in known or own.count(name) > 1:
            raise Misfit(f"{path}.{name}", _some(array), f"is not one of the fields of {wanted}")
    there = array.filter(array.is_valid())  # what lies under a null is nobody's
    found = dict(zip(own, there.flatten(), strict=True))
    arrays = [fitted(found.get(field.name, arrow.nulls(len(there))), field, f"{path}.{field.name}") for field in fields]
    return structs(arrays, array.is_valid(), wanted)


def _some(array: Any) -> Any:
    """Return the first values of an array, for messages."""
    with suppress(ValueError, OverflowError):  # nanoseconds without pandas, or years that Python does not have
        return array[:3].to_pylist()
    return array.type


def _compact(array: Any) -> Any:
    """Return lists or maps whose entries are all theirs: not those of a slice's neighbours, or of a null."""
    return array.take(arrow.array(range(len(array)), arrow.int64()))


def _offsets(lists: Any) -> Any:
    offsets = lists.offsets
    starts = compute.if_else(lists.is_valid(), offsets[:-1], arrow.scalar(None, offsets.type))
    return arrow.concat_arrays([starts, offsets[-1:]])


def _is_list(kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_alike(old: Any, new: Any) -> bool:
    """Return whether Arrow casts, and, where it does, changes how a value is stored and not what it is."""
    if old == new:
        return True
    if types.is_float16(old):
        return False  # Arrow does not compare them
    if types.is_timestamp(old) and types.is_timestamp(new):
        return (old.tz is None) == (new.tz is None)
    alike = (
        (types.is_integer, types.is_integer),
        (types.is_integer, types.is_floating),
        (types.is_floating, types.is_floating),
        (_is_text, _is_text),
        (_is_bytes, _is_bytes),
        (types.is_decimal, types.is_decimal),
        (types.is_date, types.is_date),
        (types.is_time, types.is_time),
        (types.is_duration, types.is_duration),
    )
    return any(a(old) and b(new) for a, b in alike)


def _is_same(old: Any, new: Any) -> bool:
    """Return whether numbers as floats are what they were; NaN is NaN."""
    equal = compute.equal(new.cast(old.type, safe=False), old)
    if types.is_floating(old.type):
        equal = compute.or_(equal, compute.and_(compute.is_nan(old), compute.is_nan(new)))
    return bool(compute.all(equal).as_py() is not False)


def _is_text(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_bytes(kind: Any) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind))
