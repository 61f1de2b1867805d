"""Timekeeper: makes a task hand back its remaining work when its budget is spent.

It has no thread and does not sleep. A task has a thread that calls `Timekeeper.look`; a simulator calls it when due.
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
        budget_seconds: seconds from now after which the bundle must hand back its remaining work.
        min_piece_seconds: it does so only if more seconds of work than this are left.
        clock: monotonic seconds.

    Attributes:
        budget_ends: when the budget is spent, by ``clock``.
        look_seconds: seconds from one call of `look` to the next.
        handed_back: whether the bundle has handed back all that it can.
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
        self._just_opened = False

    def end_budget(self) -> None:
        """Make the bundle hand back its remaining work now, for another reason than time; also work just opened."""
        self._just_opened = True
        self.budget_ends = min(self.budget_ends, self._clock())
        self.look()

    def look(self) -> None:
        """Note how far the bundle is, and make it hand back its remaining work if its budget is spent."""
        self._bundle.note_claim()  # even after a hand-back: the block that still runs may be the slowest
        if self.handed_back:
            return
        if self._clock() >= self.budget_ends:
            self.handed_back = self._bundle.hand_back(self._min_piece_seconds, just_opened=self._just_opened)
            if self.handed_back:
                self.look_seconds = TICK_SECONDS
