"""When a task hands back its rest: when its budget is spent.

No thread and no sleep: a task has a thread that calls `Timekeeper.look`, a simulator calls it when that is due.
"""

from __future__ import annotations

from collections.abc import Callable

from sdf.execution.bundle import Bundle

__all__ = ["TICK_SECONDS", "Timekeeper"]

TICK_SECONDS = 0.025


class Timekeeper:
    """Watches one bundle.

    Args:
        bundle: the bundle, which another thread may run.
        budget_seconds: when it is to hand back its rest.
        min_piece_seconds: it does so only if more than this is left.
        clock: monotonic seconds.

    Attributes:
        budget_ends: by that clock.
        look_seconds: when to look next.
        handed_back: whether nothing is left to hand back.
    """

    def __init__(
        self, bundle: Bundle, budget_seconds: float, min_piece_seconds: float, *, clock: Callable[[], float]
    ) -> None:
        self._bundle = bundle
        self._min_piece_seconds = min_piece_seconds
        self._clock = clock
        self.budget_ends = clock() + budget_seconds
        self.look_seconds = min(budget_seconds, TICK_SECONDS)
        self.handed_back = False

    def look(self) -> None:
        """Note how far the bundle is, and let it hand back its rest if it is time to."""
        self._bundle.note_claim()  # also when it has handed back: the block that runs on may be the slowest
        if self.handed_back:
            return
        if self._clock() >= self.budget_ends:
            self.handed_back = self._bundle.hand_back(self._min_piece_seconds)
            if self.handed_back:
                self.look_seconds = TICK_SECONDS
