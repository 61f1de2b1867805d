"""The clock of a stream: that of the system, but it never goes back."""

from __future__ import annotations

import time

__all__ = ["Clock"]


def _wall() -> int:
    return time.time_ns() // 1_000_000


class Clock:
    """Milliseconds since the epoch. Where the system's clock is set back it goes on from where it was.

    So what is deferred is due when it was said to be, and not the time later by which the clock was set back.
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
        """Be at least so late from now on."""
        self._last = max(self._last, milliseconds)
