"""Checks for the options of connectors: the errors name the connector and the option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.numbers import as_integer, as_number, is_integer, is_number

__all__ = ["as_options", "as_seconds", "as_size"]


def as_size(value: Any, what: str) -> int:
    """Return a number of bytes; raise unless it is an integer >= 1."""
    size = as_integer(value)
    if not is_integer(size):
        raise InvalidTypeError(f"{what} must be an integer, a number of bytes (got {show(value)}).")
    if size < 1:
        raise InvalidValueError(f"{what} must be >= 1 (got {size}).")
    return size  # type: ignore[no-any-return]


def as_seconds(value: Any, what: str) -> float:
    """Return a number of seconds; raise unless it is a number >= 0."""
    seconds = as_number(value)
    if not is_number(seconds) or not 0 <= seconds < 1e9:
        raise InvalidValueError(f"{what} must be a number >= 0 (got {show(value)}).")
    return seconds  # type: ignore[no-any-return]


def as_options(value: Any, who: str) -> dict[str, Any]:
    """Return storage options as a dict, empty for None; raise unless they are a mapping."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidTypeError(f"{who} storage_options must be a mapping of names to values (got {show(value)}).")
    return dict(value or {})
