"""JsonLinesFiles: records as JSON, one a line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

import attrs

from sdf.errors import BadRecordError, show
from sdf.sinks.columns import names_of, twice
from sdf.sinks.lines import LineFiles

__all__ = ["JsonLinesFiles"]


_STRINGS = {str}
_PLAIN = {str, int, float, bool, type(None)}
_DEPTH = 20  # how deep a message looks into a record, which may contain itself


@attrs.frozen
class JsonLinesFiles(LineFiles):
    r"""Writes each record as a line of JSON in UTF-8 that ends with ``\n``.

    A record is what `json.dumps` takes: a dict, list, str, number, bool or None. An instance of an attrs class or a
    dataclass, at any depth, becomes an object of its fields, and so does a record that is a named tuple or a Row of
    Spark; one that lies within a record is a list, as any tuple. Keys that are numbers become strings.

    Args:
        path: the directory to make, as a path or a URL; it must be empty or not there.
        compression: None, "gzip" or "zstd".
        target_bytes: begin a new file when one has this size.

    Raises:
        BadRecordError: when it runs, for a record that is not JSON: NaN and infinity, a lone surrogate, keys that
            become one, such as 1 and "1", or a value of another type, such as bytes or a datetime; the message names
            the field.
        InvalidTypeError, InvalidValueError: for a wrong option.
        SinkError: when it runs, if the target is not empty or cannot be written.
    """

    kind = ".jsonl"

    def as_lines(self, records: list[Any]) -> bytes:
        try:
            if any(issubclass(kind, tuple) for kind in set(map(type, records))):
                records = list(map(_record, records))
            _check_keys(records)
            return "".join([f"{_encode(record)}\n" for record in records]).encode()
        except (TypeError, ValueError, RecursionError) as error:
            path, value = _flaw(records[0])
            raise BadRecordError(
                f"JsonLinesFiles cannot write {show(value)}{path and f' in field {path!r}'} as JSON: {error}. Make it "
                f"a str, a number, a bool, None, or a list or dict of these."
            ) from error


def _check_keys(values: Iterable[Any]) -> None:
    """Raise ValueError if keys of a dict that differ, such as 1 and "1", have one name in JSON."""
    for value in values:
        if isinstance(value, dict):
            if not _STRINGS.issuperset(map(type, value)):
                names = [key if isinstance(key, str) else json.dumps(key) for key in value]
                if len(set(names)) < len(names):
                    raise ValueError(f"a value would be lost, as two keys become {twice(names)!r}")
            inner: Iterable[Any] = value.values()
        elif isinstance(value, (list, tuple)):
            inner = value
        elif type(value) not in _PLAIN and (attrs.has(type(value)) or dataclasses.is_dataclass(type(value))):
            inner = _fields(value).values()
        else:
            continue
        if not _PLAIN.issuperset(map(type, inner)):
            _check_keys(inner)


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of an instance; TypeError for what is neither of an attrs class nor of a dataclass."""
    if not (attrs.has(type(value)) or dataclasses.is_dataclass(type(value))):
        raise TypeError(f"a {type(value).__name__} is no JSON value")
    return {name: getattr(value, name) for name in names_of(value)}


_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_fields
).encode  # fmt: skip


def _record(record: Any) -> Any:
    """Return a record; a named tuple and a Row of Spark as a dict."""
    if isinstance(record, tuple):
        if hasattr(record, "_asdict"):
            return record._asdict()
        if hasattr(record, "__fields__") and hasattr(record, "asDict"):
            names = record.__fields__
            if len(set(names)) < len(names):
                raise ValueError(f"a field would be lost, as two have the name {twice(names)!r}")
            return record.asDict(recursive=True)
    return record


def _flaw(value: Any) -> tuple[str, Any]:
    """Return the path of the innermost value that is not JSON, and the value."""
    path = ""
    for _ in range(_DEPTH):
        if attrs.has(type(value)) or dataclasses.is_dataclass(type(value)):
            value = _fields(value)
        inner = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
        )
        for name, one in inner:
            if not _is_json(one):
                step = f"[{name}]" if isinstance(name, int) else f".{name}" if path else str(name)
                path, value = f"{path}{step}", one
                break
        else:
            break
    return path, value


def _is_json(value: Any) -> bool:
    try:
        _encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True
