"""CommitInterval: how long the segments of a saved run may last where workers are lost before they commit.

A long segment loses much when its worker is lost, and a short one spends much of its time on its commit. The best
length is about sqrt(2 * what a commit costs * the mean time between two losses) (J. W. Young, 1974; J. T. Daly, 2006).
"""

from __future__ import annotations

import math

__all__ = ["CommitInterval", "budget_of_retry"]

_LEAST_COST_SECONDS = 0.1  # of a commit: before the first one was measured, and for the driver, which logs each
_LEAST_COSTS = 10.0  # a segment lasts at least so many times what its commit costs


def budget_of_retry(budget_seconds: float, retries: int) -> float:
    """Return the budget of a task that has been tried before, so many times: half as long each time, down to a second.

    Its executor may have lived shorter than the task ran. With the same budget again it might never end, and nobody
    would learn of the losses.
    """
    return max(min(budget_seconds, _LEAST_COSTS * _LEAST_COST_SECONDS), budget_seconds / 2.0**retries)


class CommitInterval:
    """See the module's docstring. All times are seconds by one clock.

    Args:
        commit_seconds: the longest that a segment may last; without losses it is the answer.
    """

    def __init__(self, commit_seconds: float) -> None:
        self._longest_seconds = commit_seconds
        self._running = 0
        self._lived_seconds = 0.0  # of the attempts that have ended, minus the start times of those that run
        self._losses = 0
        self._commits = 0
        self._cost_seconds = 0.0

    def began(self, now: float) -> None:
        """An attempt has begun."""
        self._running += 1
        self._lived_seconds -= now

    def ended(self, now: float, *, losses: int) -> None:
        """An attempt has ended; ``losses`` is 1 if work was lost that it had not committed.

        Several attempts one after the other may be entered as one.
        """
        self._running -= 1
        self._lived_seconds += now
        self._losses += losses

    def committed(self, cost_seconds: float) -> None:
        """A segment was committed, at this cost."""
        self._commits += 1
        self._cost_seconds += cost_seconds

    def seconds(self, now: float) -> float:
        """Return how long a segment may last."""
        if not self._losses:
            return self._longest_seconds
        between = max(0.0, self._lived_seconds + self._running * now) / self._losses
        cost = max(_LEAST_COST_SECONDS, self._cost_seconds / max(1, self._commits))
        return min(self._longest_seconds, max(_LEAST_COSTS * cost, math.sqrt(2 * cost * between)))
