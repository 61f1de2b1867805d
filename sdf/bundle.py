"""Runs the work items of one task, one after the other, and hands back what it is told to.

The thread that iterates `Bundle.outputs` does the work. A second thread may call `Bundle.hand_back` at any time: what
was not started is given back whole, and the running work item is split if enough of it is left.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress, repeat
from threading import Lock
from typing import Any

from sdf.dofn import DoFn, call_hook
from sdf.items import (
    CANNOT,
    JUST_OPENED,
    NOTHING_CLAIMED,
    TOO_LITTLE,
    Outcome,
    Part,
    Ran,
    SlowBlock,
    WorkItem,
    slowest,
    units,
)
from sdf.running import Running

__all__ = ["Bundle"]


class Bundle:
    """One attempt at one task.

    Args:
        fn: the DoFn, set up.
        items: its work items, in the order to run them.
        side_inputs: keyword arguments for `process`.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        fn: DoFn,
        items: Sequence[WorkItem],
        *,
        side_inputs: Mapping[str, Any] | None = None,
        clock: Callable[[], float],
    ) -> None:
        self._fn = fn
        self._items = items
        self._side_inputs = side_inputs
        self._clock = clock
        self._lock = Lock()
        self._stop = len(items)  # work items from here on are not started
        self._next = 0
        self._running: Running | None = None
        self._parts: list[Part] = []
        self._units = 0.0
        self._ran: list[Ran] = []
        self._slow: tuple[SlowBlock, ...] = ()
        self._refused: str | None = None
        self._began = clock()

    def outputs(self) -> Iterator[Any]:
        """Yield all outputs. Only once they have ended, `outcome` is the truth."""
        call_hook(self._fn, "start_bundle")
        while True:
            with self._lock:
                if self._next == self._stop:
                    break
                item = self._items[self._next]
                self._next += 1
            running = Running(self._fn, item, side_inputs=self._side_inputs, clock=self._clock)
            with self._lock:
                self._running = running
            ones = repeat(True, sys.maxsize)  # counts the records in C
            with running.outputs() as outputs:
                yield from compress(outputs, ones)
            with self._lock:
                self._running = None
            done, part = running.done()
            self._ran.append(running.ran(item.id, self._began, done, sys.maxsize - operator.length_hint(ones)))
            if slow := running.slow_blocks():
                self._slow = slowest(*self._slow, *slow)
            if part is not None:
                self._parts.append(part)
            self._units += done
        call_hook(self._fn, "finish_bundle")

    def outcome(self) -> Outcome:
        """Return what was done with the work items."""
        return Outcome(
            self._stop,
            tuple(self._parts),
            self._units,
            self._clock() - self._began,
            tuple(self._ran),
            self._slow,
            self._refused,
        )

    def note_claim(self) -> None:
        """Note when the running work item has made its first claim; called from the other thread, often."""
        with self._lock:
            if self._running is not None:
                self._running.note()

    def hand_back(self, worth_seconds: float) -> bool:
        """Give back what was not started, and split the running work item, where more than ``worth_seconds`` is left.

        Called from another thread than the one that iterates. A work item that took long to get to its first claim, to
        open a file say, runs as long again before it is split, so that opening is at most half of the time.

        Returns:
            True if there is nothing more to give back. False: the running work item has claimed nothing yet, was just
            opened, has too little left or cannot be split now, so ask again. `outcome` says what was last in the way.
        """
        self._refused = self._hand_back(worth_seconds)
        return self._refused is None

    def _hand_back(self, worth_seconds: float) -> str | None:
        """Do that; return what is in the way."""
        with self._lock:
            if self._next == 0:
                return "nothing was started"  # else a short budget would get nowhere
            running = self._running
            done, _ = (0.0, 0.0) if running is None else running.units()
            left_seconds = 0.0 if running is None else self._left_seconds(running)
            unstarted = self._items[self._next : self._stop]
            elapsed = self._clock() - self._began
            if left_seconds + _expected_seconds(unstarted, self._next, elapsed, self._units + done) <= worth_seconds:
                return TOO_LITTLE
            self._stop = self._next
        if running is None or left_seconds <= worth_seconds:
            return TOO_LITTLE
        opening = running.opening_seconds()
        if opening is not None and running.seconds() < 2 * opening:
            return JUST_OPENED
        if running.split(0):
            return None
        return CANNOT if running.invoker.started else NOTHING_CLAIMED

    def _left_seconds(self, running: Running) -> float:
        """Return the seconds that the running work item takes yet, infinite where nothing tells.

        One that has done nothing yet is expected to take what those before it took, until it has taken longer: of
        small ones that is nearly always so, and a task of a thousand would give back its last few.
        """
        left, seconds = running.seconds_left(), running.seconds()
        if math.isfinite(left) or self._next == 1:
            return left
        before = self._clock() - self._began - seconds
        expected = _expected_seconds((running.item,), self._next - 1, before, self._units)
        return expected - seconds if seconds < expected else left


def _expected_seconds(items: Sequence[WorkItem], ended: int, seconds: float, done: float) -> float:
    """Return the seconds that work items may take, by number or by size, whichever says more, if so many took so long.

    Args:
        items: these.
        ended: how many work items it took, at least one.
        seconds: how long they took together.
        done: their units.
    """
    by_number = len(items) * seconds / ended
    return max(by_number, sum(map(units, items)) * seconds / done if done > 0 else 0.0)
