"""The clock of this process, which no step of the system's clock moves, and how long ago a file was touched."""

from __future__ import annotations

import time
import uuid

__all__ = ["CLOCK", "now", "seconds_since"]

CLOCK = uuid.uuid4().hex  # what `now` returns in one process says nothing in another one
_ZERO = time.time() - time.monotonic()


def now() -> float:
    """Return seconds since the epoch, as the system's clock had them when this process began."""
    return _ZERO + time.monotonic()


def seconds_since(touched: float) -> float | None:
    """Return for how long a file was left alone; None if its time is yet to come: another clock has set it.

    The system's clock may have been set since the file was touched, or before, while this process ran. Of the ages by
    both clocks, one is right then. The other one is too large, or negative.
    """
    return min((age for age in (time.time() - touched, now() - touched) if age >= 0), default=None)
