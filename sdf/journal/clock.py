"""The clock of a checkpoint: it goes on from the time of the journal, or the log, and no step of the system's moves it.

A time to come, in a journal, is a duration that somebody has asked for, counted from then. Whoever resumes waits no
longer than that, also if the clocks of the two differ by years: it lets its clock `reach` the time of what it reads.
"""

from __future__ import annotations

import time

__all__ = ["Clock"]


def _wall() -> int:
    return time.time_ns() // 1_000_000


def _monotonic() -> int:
    return time.monotonic_ns() // 1_000_000


class Clock:
    """Milliseconds since the epoch, as the system's clock had them at first."""

    def __init__(self) -> None:
        self._zero = _wall() - _monotonic()

    def __call__(self) -> int:
        return self._zero + _monotonic()

    def reach(self, milliseconds: int) -> None:
        """Return at least this time from now on."""
        self._zero += max(0, milliseconds - self())
