"""Seconds per unit of work items that were cut from one another: rates along a lineage.

Expensive work lies together: a hot key range, a page of large records. A residual lies right behind the work item that
it was cut from. So:

- A residual is first priced at the rate of the work item that it was cut from.
- A queued residual is priced at the measured rate of its nearest predecessor that has one.
- A work item that has run has a measured rate of its own.

A rate must be able to change after the cut. If the front turns out a thousand times as expensive as estimated, its
residual would otherwise keep its low price, and be the last to run.
"""

from __future__ import annotations

import attrs

from sdf.execution.work_items import WorkItem

__all__ = ["LineageRates"]


@attrs.define
class _Fronts:
    """The pieces cut one after another from the front of ``rest``: their count, and the last with a measured rate."""

    rest: int
    count: int = 0
    measured: int = 0


class LineageRates:
    """Seconds per unit, by the id of a work item.

    Attributes:
        revision: how often the rate of a queued work item has changed.
    """

    def __init__(self) -> None:
        self._rates: dict[int, float] = {}  # measured or expected
        self._behind: dict[int, int | None] = {}  # by work item: the residual right behind it
        self._fronts_of: dict[int, _Fronts] = {}  # by rest
        self._front: dict[int, tuple[_Fronts, int]] = {}  # by front, with its number among them
        self._measured: set[int] = set()
        self._queued: set[int] = set()
        self.revision = 0

    def rate(self, item_id: int) -> float | None:
        """Return the measured or expected seconds per unit of this work item; None if it has no rate of its own."""
        return self._rates.get(item_id)

    def was_cut(self, item_id: int) -> bool:
        """Return whether a work item was cut off from another, or another from it."""
        return item_id in self._behind

    def cut_off(self, item: WorkItem) -> None:
        """Enter a work item that was just cut off from its parent."""
        parent = item.parent
        assert parent is not None
        self._behind[item.id] = self._behind.get(parent)
        self._behind[parent] = item.id
        fronts = self._fronts_of.pop(parent, None) or _Fronts(item.id)
        fronts.rest, fronts.count = item.id, fronts.count + 1
        if parent in self._measured:
            fronts.measured = fronts.count
        self._fronts_of[item.id] = fronts
        self._front[parent] = fronts, fronts.count
        if parent in self._rates:
            self._rates[item.id] = self._rates[parent]

    def queued(self, item: WorkItem) -> None:
        """Note that a work item is queued: its rate follows that of its predecessors."""
        self._queued.add(item.id)

    def dequeued(self, item: WorkItem) -> None:
        """Note that a work item has left the queue: those behind it will follow its measured rate."""
        self._queued.discard(item.id)

    def set_running(self, item_id: int, rate: float) -> None:
        """Set the rate of a work item that still runs."""
        self._rates[item_id] = rate

    def set_measured(self, item_id: int, rate: float) -> None:
        """Set the measured rate of a work item that has run, and of the queued work items right behind it."""
        self._rates[item_id] = rate
        self._measured.add(item_id)
        behind = self._behind.get(item_id)
        self._follow(behind, rate)
        if item_id in self._front:
            fronts, number = self._front[item_id]
            if number > fronts.measured:
                fronts.measured = number
                if fronts.rest != behind:
                    self._follow(fronts.rest, rate)

    def _follow(self, behind: int | None, rate: float) -> None:
        while behind is not None and behind in self._queued:
            self._rates[behind] = rate
            self.revision += 1
            behind = self._behind[behind]
