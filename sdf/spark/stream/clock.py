"""The clock of a stream: the system's clock, but it never goes back."""

from __future__ import annotations

import time

__all__ = ["Clock"]


def _wall() -> int:
    return time.time_ns() // 1_000_000


class Clock:
    """Milliseconds since the epoch. If the system's clock is set back, this clock goes on from its last value.

    So deferred work is due after its delay, and not later because the clock was set back.
    """

    def __init__(self) -> None:
        self._ahead = 0
        self._last = 0

    def __call__(self) -> int:
        wall = _wall()
        self._ahead = 0 if wall >= self._last else max(self._ahead, self._last - wall)
        self._last = wall + self._ahead
        return self._last

    def reach(self, milliseconds: int) -> None:
        """Return at least this time from now on."""
        self._last = max(self._last, milliseconds)
