"""Checks of the runners' options; for the fields of their attrs classes."""

from __future__ import annotations

from typing import Any

import attrs

from sdf.errors import InvalidValueError, show
from sdf.restrictions import is_integer

__all__ = ["count", "positive"]


def positive(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Raise InvalidValueError unless ``value`` is a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        who = type(instance).__name__
        raise InvalidValueError(f"{who} {attribute.name} must be a positive number (got {show(value)}).")


def count(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Raise InvalidValueError unless ``value`` is an integer >= 1."""
    if not is_integer(value) or value < 1:
        who = type(instance).__name__
        raise InvalidValueError(f"{who} {attribute.name} must be an integer >= 1 (got {show(value)}).")
