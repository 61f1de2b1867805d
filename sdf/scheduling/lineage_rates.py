"""What a unit costs in work items that were cut from one another: rates along a lineage.

Dear work lies together: a hot range of keys, a page of large records. What was cut off from a work item lies right
behind it. So:

- A work item that was cut off is priced at the rate of the one that it was cut from.
- A work item that waits is priced at the rate of its nearest predecessor that has shown its rate.
- A work item that has run shows a rate of its own.

A rate is not fixed at the cut: the front may show that it is a thousand times as dear as was thought, and the rest
would still wait behind all else.
"""

from __future__ import annotations

import attrs

from sdf.execution.work_items import WorkItem

__all__ = ["LineageRates"]


@attrs.define
class _Fronts:
    """What was cut one after another from the front of ``rest``: how many, and the last that has shown its rate."""

    rest: int
    count: int = 0
    shown: int = 0


class LineageRates:
    """Seconds per unit, by the id of a work item.

    Attributes:
        revision: how often a work item that waits has got another rate.
    """

    def __init__(self) -> None:
        self._rates: dict[int, float] = {}  # shown or expected
        self._behind: dict[int, int | None] = {}  # what lies right behind a work item, of what was cut off
        self._fronts_of: dict[int, _Fronts] = {}  # by what is left of it
        self._front: dict[int, tuple[_Fronts, int]] = {}  # by each of them, with its number
        self._shown: set[int] = set()
        self._waiting: set[int] = set()
        self.revision = 0

    def rate(self, item_id: int) -> float | None:
        """Return the seconds per unit of this very work item, shown or expected; None if there are none."""
        return self._rates.get(item_id)

    def was_cut(self, item_id: int) -> bool:
        """Tell whether a work item was cut off from another, or another from it."""
        return item_id in self._behind

    def cut_off(self, item: WorkItem) -> None:
        """Enter a work item that was just cut off from its parent."""
        parent = item.parent
        assert parent is not None
        self._behind[item.id] = self._behind.get(parent)
        self._behind[parent] = item.id
        fronts = self._fronts_of.pop(parent, None) or _Fronts(item.id)
        fronts.rest, fronts.count = item.id, fronts.count + 1
        if parent in self._shown:
            fronts.shown = fronts.count
        self._fronts_of[item.id] = fronts
        self._front[parent] = fronts, fronts.count
        if parent in self._rates:
            self._rates[item.id] = self._rates[parent]

    def waits(self, item: WorkItem) -> None:
        """Note that nobody runs a work item: its rate follows its predecessors."""
        self._waiting.add(item.id)

    def taken(self, item: WorkItem) -> None:
        """Note that a work item does not wait any more: what lies behind it follows what it will show."""
        self._waiting.discard(item.id)

    def learn(self, item_id: int, rate: float) -> None:
        """Set the rate of a work item that still runs."""
        self._rates[item_id] = rate

    def show(self, item_id: int, rate: float) -> None:
        """Set the rate of a work item that has run, and of all that waits behind it."""
        self._rates[item_id] = rate
        self._shown.add(item_id)
        behind = self._behind.get(item_id)
        self._follow(behind, rate)
        if item_id in self._front:
            fronts, number = self._front[item_id]
            if number > fronts.shown:
                fronts.shown = number
                if fronts.rest != behind:
                    self._follow(fronts.rest, rate)

    def _follow(self, behind: int | None, rate: float) -> None:
        while behind is not None and behind in self._waiting:
            self._rates[behind] = rate
            self.revision += 1
            behind = self._behind[behind]
