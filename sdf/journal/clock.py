"""The clock of a checkpoint: it continues from the time of the journal or log, and ignores steps of the system clock.

A due time in a journal is a requested delay, counted from the time of its entry. A driver that resumes lets its clock
`reach` the time of the entry. So it waits at most the delay, even if the clocks of two hosts differ by years.
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
