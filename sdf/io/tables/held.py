"""What SQLite holds in a column: a value of any type, whatever the column's; SQLAlchemy would make another one of some.

SQLAlchemy cuts NUMERIC at ten digits, makes True of all but 0, and cuts times at microseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from sdf.extras import Library

__all__ = ["as_held", "converter_of"]

sa = Library("sqlalchemy", "ReadTable")

_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")  # than a microsecond


def as_held(column: Any, kind: Any) -> Any:
    """Return the SQL that selects what a column of an SQLAlchemy type holds."""
    held = sa.type_coerce(column, sa.types.NullType())
    if type(kind).__name__ == "JSONB":  # of SQLAlchemy 2.1; json() would round numbers
        held = sa.case((sa.func.typeof(held) == "blob", sa.func.json(held)), else_=held)
    return held.label(column.name)


def converter_of(name: str, kind: Any) -> Callable[[Any], Any] | None:
    """Return a function from what a column holds to a value of its type, None if they are the same.

    NUMERIC is also SQLAlchemy's word for types that it does not know, such as STRING: texts and bytes stay as they are.

    Args:
        name, kind: the name of the column, and its SQLAlchemy type.
    """
    convert = next((convert for kinds, convert in _converters() if isinstance(kind, kinds)), None)
    if convert is None:
        return None

    def named(value: Any) -> Any:
        try:
            return None if value is None else convert(value)
        except ValueError as error:
            raise ValueError(f"the column {name!r} of type {kind!r} has {value!r}: {error}") from error

    return named


def _converters() -> tuple[tuple[Any, Callable[[Any], Any] | None], ...]:
    return (
        (sa.Boolean, _truth),
        (sa.DateTime, lambda value: _moment(value, datetime)),
        (sa.Date, lambda value: _moment(value, date)),
        (sa.Time, lambda value: _moment(value, time)),
        (sa.JSON, lambda value: value if isinstance(value, (int, float)) else json.loads(value)),
        (sa.Float, None),  # before Numeric, which it is in SQLAlchemy 2.0
        (sa.Numeric, lambda value: Decimal(repr(value)) if isinstance(value, (int, float)) else value),
    )


def _truth(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError("it must be 0 or 1")
    return bool(value)


def _moment(value: Any, kind: Any) -> Any:
    if type(value) is kind:
        return value  # made by the driver
    if not isinstance(value, str):
        raise ValueError("it must be a text in the ISO format")
    if _FINER.search(value):
        raise ValueError("it is finer than a microsecond")
    return kind.fromisoformat(value)
