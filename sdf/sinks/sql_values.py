"""Values for columns of databases, and whether what a database returns is what it was given.

Databases convert values in many ways: SQLite keeps what it likes to keep, PostgreSQL rounds, cuts and pads. No list of
rules would name them all. So a worker reads back each row that it inserts, and refuses what has become another value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Real
from typing import Any

from sdf.sinks.columns import Misfit, kinds_of, lists_of
from sdf.sinks.sql_stage import sa

__all__ = ["check_same", "for_column", "make_exact", "plain"]

_LARGEST = 2**63  # integers of SQLite are smaller


def make_exact(column: Any, dialect: str) -> None:
    """Change the type of a reflected column where SQLAlchemy's would change values itself."""
    if isinstance(column.type, sa.JSON):
        column.type.none_as_null = True  # else None is JSON's null, and no NULL
    elif dialect == "sqlite" and _is_decimal(column.type):
        column.type = sa.types.NullType()  # SQLAlchemy's cuts at ten digits
        column.info["decimal"] = True


def _is_decimal(kind: Any) -> bool:
    return isinstance(kind, sa.Numeric) and not isinstance(kind, sa.Float)


def plain(values: Sequence[Any], name: str) -> Sequence[Any]:
    """Return values of a column with those of NumPy as Python's: SQLite would store the bytes of a number."""
    if not any(kind.__module__ == "numpy" for kind in kinds_of(values)):
        return values
    return [_plain(value, name) if type(value).__module__ == "numpy" else value for value in values]


def _plain(value: Any, name: str) -> Any:
    if hasattr(value, "ndim") and type(value).__name__ == "ndarray":
        return lists_of([value], "", name)[0]
    found = value.item()
    if type(found).__module__ == "numpy" or type(value).__name__ in ("datetime64", "timedelta64"):
        raise Misfit(name, value, "does not convert to a value of Python without loss; convert it yourself")
    return found


def for_column(column: Any, values: Sequence[Any]) -> Sequence[Any]:
    """Return values as a column takes them; raise Misfit for one of another kind."""
    kind = column.type
    if isinstance(kind, sa.Integer):
        return [_whole(value, column.name) for value in values]
    if isinstance(kind, sa.DateTime):
        for value in values:
            if isinstance(value, datetime) and (value.tzinfo is not None) is not bool(kind.timezone):
                has, needs = ("no", "has one") if kind.timezone else ("a", "has none")
                raise Misfit(column.name, value, f"has {has} time zone, but the column {needs}")
    if _is_decimal(kind):  # of PostgreSQL, which makes a numeric of 15 digits of a float
        return [Decimal(repr(value)) if isinstance(value, float) else value for value in values]
    if column.info.get("decimal"):  # of SQLite, which has integers and floats only
        return [_binary(value) if isinstance(value, Decimal) else value for value in values]
    return values


def _whole(value: Any, name: str) -> Any:
    if not isinstance(value, (float, Decimal)):
        return value
    if math.isfinite(value) and int(value) == value:
        return int(value)
    raise Misfit(name, value, "is no integer")


def _binary(value: Decimal) -> Any:
    is_whole = value.is_finite() and int(value) == value and abs(value) < _LARGEST
    return int(value) if is_whole else float(value)


def check_same(names: Sequence[str], given: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> None:
    """Raise Misfit for the first value that the database holds as another one.

    Args:
        names: the names of the columns.
        given: the values of each column.
        found: those that were read.
    """
    for name, values, others in zip(names, given, found, strict=True):
        if list(values) != list(others):
            for value, other in zip(values, others, strict=True):
                if not _is_same(value, other):
                    raise Misfit(name, value, f"becomes {other!r} in the database")


def _is_same(given: Any, found: Any) -> bool:
    if given is None or found is None:
        return given is found
    if isinstance(given, Mapping):
        return (
            isinstance(found, Mapping)
            and given.keys() == found.keys()
            and all(_is_same(value, found[key]) for key, value in given.items())
        )
    if isinstance(given, (list, tuple)) and isinstance(found, (list, tuple)):
        return len(given) == len(found) and all(map(_is_same, given, found))
    if isinstance(given, float) and isinstance(found, float):
        return given == found or (given != given and found != found) or _is_single(given, found)
    if isinstance(given, Decimal) and isinstance(found, Decimal) and given.is_nan():
        return found.is_nan()
    if isinstance(given, float) and isinstance(found, Decimal):
        return bool(given == float(found)) or (given != given and found.is_nan())
    if isinstance(given, Decimal) and isinstance(found, float):
        return Decimal(repr(found)) == given
    if isinstance(given, str) and not isinstance(found, (str, bytes, Real, Decimal)):
        return str(found) == given.lower() or _is_time(given, found)  # a UUID, an address or a time, as text
    return bool(given == found)


def _is_time(given: str, found: Any) -> bool:
    """Return whether a text is this date or time by ISO 8601."""
    try:
        return bool(isinstance(found, (date, time)) and type(found).fromisoformat(given) == found)
    except ValueError:
        return False


def _is_single(given: float, found: float) -> bool:
    """Return whether a float has 32 bits, and the other is its shortest text, as PostgreSQL returns a real."""
    if abs(given) > 3.5e38 or abs(found) > 3.5e38:
        return False
    single, other = (struct.unpack("f", struct.pack("f", value))[0] for value in (given, found))
    return bool(single == given == other)
