"""Numbers as they are given: those that are no ``int`` and no ``float``, of NumPy say, become one at once.

Whatever takes a number asks here, so that a number of one kind is not taken in one place and refused in another.
"""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

__all__ = ["as_integer", "as_number", "is_integer", "is_number"]


def as_integer(value: Any) -> Any:
    """Return what stands for an integer, such as one of NumPy, as an ``int``; anything else as it is."""
    if isinstance(value, int) or not hasattr(value, "__index__"):
        return value
    try:
        return operator.index(value)
    except TypeError:  # an array of several, say, has the method too
        return value


def is_integer(value: object) -> bool:
    """Tell whether ``value`` is an ``int``: not a bool, not a float, not a NumPy scalar; for those see `as_integer`."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_number(value: Any) -> Any:
    """Return what stands for a real number, such as a ``Fraction`` or one of NumPy, as an ``int`` or a ``float``.

    What a float cannot hold becomes infinite; anything else, a bool or a string say, is returned as it is.
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
    """Tell whether ``value`` is an ``int`` or a ``float``, NaN and infinite ones too; for others see `as_number`."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
