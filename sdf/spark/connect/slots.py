"""How many tasks a Spark Connect server runs at once: configured, or found out from the tasks that ended.

A client cannot ask a server for its executors. The settings tell the slots of a local master, and of a cluster of fixed
size. Otherwise the tasks tell: the client knows when it submitted each one and when it ended, and the task says how
long it ran. What is left is the time that it waited for a slot. No clocks of two machines are compared.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

__all__ = ["FoundSlots", "configured_slots"]

_FIRST = 4
_WAITED_SECONDS = 1.0  # starting a job on a busy server takes some tenths of a second
_RECENT = 4  # rounds of tasks


def configured_slots(spark: Any) -> int | None:
    """Return the number of slots that the settings of a session's server tell, None if they tell none."""

    def setting(name: str) -> str:
        return spark.conf.get(name, None) or ""

    per_task = _number(setting("spark.task.cpus")) or 1
    local = re.fullmatch(r"local\[(\d+)(?:,.*)?\]|local-cluster\[(\d+),\s*(\d+),.*\]|local", setting("spark.master"))
    if local is not None:
        one, workers, cores = (int(number or 1) for number in local.groups())
        return max(1, one * workers * cores // per_task)
    if (parallelism := _number(setting("spark.default.parallelism"))) is not None:
        return parallelism
    executors, cores_each = _number(setting("spark.executor.instances")), _number(setting("spark.executor.cores"))
    if executors and cores_each and setting("spark.dynamicAllocation.enabled") != "true":
        return max(1, executors * (cores_each // per_task))
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() and int(text) else None


@attrs.frozen
class _Ran:
    began: float
    ended: float
    waited_seconds: float


class FoundSlots:
    """Finds the number of slots while tasks run; it follows a cluster that grows and shrinks.

    As long as all tasks that ran together found a slot at once, there may be more slots, so half as many again are
    taken to be there. As soon as some had to wait, there are as many as ran together.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._slots = _FIRST
        self._ran: deque[_Ran] = deque()
        self._new = 0

    def ended(self, submitted: float, seconds: float) -> None:
        """Note that a task has ended now: when it was submitted, and how long it ran."""
        now = self._clock()
        began = max(submitted, now - seconds)
        self._ran.append(_Ran(began, now, began - submitted))
        self._new += 1
        while len(self._ran) > _RECENT * self._slots:
            self._ran.popleft()

    def count(self) -> int:
        """Return the number of slots by what is known now."""
        if self._new < self._slots:  # a round
            return self._slots
        together = self._together()
        waited = sum(one.waited_seconds > _WAITED_SECONDS for one in self._ran)
        if together >= self._slots:
            self._slots, self._new = math.ceil(together * 1.5), 0
        elif waited > len(self._ran) / 4:
            self._slots, self._new = max(1, together), 0
        return self._slots

    def _together(self) -> int:
        """Return how many of the recent tasks ran at one moment, at most."""
        events = sorted([(one.began, 1) for one in self._ran] + [(one.ended, -1) for one in self._ran])
        most = running = 0
        for _, change in events:
            running += change
            most = max(most, running)
        return most
