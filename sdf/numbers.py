"""Converts numbers of other types, such as NumPy's, to ``int`` or ``float``.

Every function that takes a number converts it here, so that all of them accept the same types.
"""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

__all__ = ["as_integer", "as_number", "is_integer", "is_number"]


def as_integer(value: Any) -> Any:
    """Return an integer of any type, such as NumPy's, as an ``int``; return any other value unchanged."""
    if isinstance(value, int) or not hasattr(value, "__index__"):
        return value
    try:
        return operator.index(value)
    except TypeError:  # an array of several numbers has the method too, and raises
        return value


def is_integer(value: object) -> bool:
    """Return whether ``value`` is an ``int``, not a bool, float or NumPy scalar; `as_integer` converts the latter."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_number(value: Any) -> Any:
    """Return a real number of any type, such as a ``Fraction`` or NumPy's, as an ``int`` or a ``float``.

    An integer stays exact up to the largest float; a number beyond it becomes infinite. Any other value, such as a bool
    or a string, is returned unchanged.
    """
    number = as_integer(value)
    is_real = isinstance(number, Real) and not isinstance(number, bool)
    if not is_real:
        return value
    try:
        rounded = float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    return number if is_integer(number) else rounded


def is_number(value: object) -> bool:
    """Return whether ``value`` is an ``int`` or a ``float``, NaN and infinity included; `as_number` converts others."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
