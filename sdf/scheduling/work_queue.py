"""The work queue: work items that nobody has started, the largest first, and their estimated seconds."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from itertools import chain

from sdf.execution.work_items import WorkItem
from sdf.scheduling.cost_model import CostModel

# Names in quotes are rows of benchmarks/ablate.py, which get worse with another value.
_MANY = 1000  # entries of a heap; "1,000,000 work items dealt out"
_LOST = 1e-6  # of the highest sum so far: a smaller sum is mostly rounding error
# All pieces are priced again after one change of a rate per so many of them;
# less often: "losses and latecomers"; at each change: "what is asked of the driver".
_PIECES_PER_CHANGE = 64

__all__ = ["WorkQueue"]


class WorkQueue:
    """The work items that nobody runs, largest first by estimated seconds."""

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs
        self._whole = _Biggest()  # by units: one SizeLine prices all of them
        self._cut = _Biggest()  # by seconds: each has a rate of its own, which may change
        self._revision = costs.rates.revision
        self._known = costs.known()

    def __len__(self) -> int:
        return len(self._whole) + len(self._cut)

    def push(self, item: WorkItem) -> None:
        """Add a work item."""
        if item.parent is None and self._costs.rates.rate(item.id) is None:
            self._whole.push(self._costs.counted(item), item)
        else:
            self._costs.rates.queued(item)
            self._cut.push(self._costs.seconds_of(item), item)

    def pop(self) -> WorkItem:
        """Remove and return the largest work item."""
        self._reprice()
        if not len(self._cut):
            return self._whole.pop()
        if len(self._whole) and self._cut.first() < self._costs.seconds_of(self._whole.next()):
            return self._whole.pop()
        item = self._cut.pop()
        self._costs.rates.dequeued(item)
        return item

    def seconds(self) -> float:
        """Return the estimated seconds of the whole queue."""
        self._reprice()
        per_item, per_unit = self._costs.fit() or (0.0, 1.0)
        return self._cut.total() + per_item * self._whole.elements + per_unit * self._whole.total()

    def _reprice(self) -> None:
        """Price the queued pieces again at the first known cost, or if enough rates changed (`_PIECES_PER_CHANGE`)."""
        if not len(self._cut):
            return
        changes, known = self._costs.rates.revision - self._revision, self._costs.known()
        if known != self._known or changes > len(self._cut) // _PIECES_PER_CHANGE:
            self._revision, self._known = self._costs.rates.revision, known
            waiting, self._cut = self._cut, _Biggest()
            for item in waiting:
                self._cut.push(self._costs.seconds_of(item), item)


class _Biggest:
    """Work items by weight, the heaviest first. Many at once are sorted, which is cheaper than a heap.

    Attributes:
        elements: of how many elements they are work, added up.
    """

    def __init__(self) -> None:
        self.elements = 0
        self._total = self._highest = 0.0
        self._sorted: list[tuple[float, int, WorkItem]] = []  # ascending; the oldest of equal ones is last
        self._fresh: list[tuple[float, int, WorkItem]] = []  # a heap, unless there are more than _MANY

    def __len__(self) -> int:
        return len(self._sorted) + len(self._fresh)

    def __iter__(self) -> Iterator[WorkItem]:
        return (item for _, _, item in chain(self._sorted, self._fresh))

    def total(self) -> float:
        """Return the sum of the weights; add them up anew if the running sum is mostly rounding error (`_LOST`)."""
        if self._total < _LOST * self._highest:
            self._total = self._highest = -math.fsum(weight for weight, _, _ in chain(self._sorted, self._fresh))
        return self._total

    def push(self, weight: float, item: WorkItem) -> None:
        self._total += weight
        self._highest = max(self._highest, self._total)
        entry = -weight, item.id, item
        self.elements += item.elements
        if len(self._fresh) < _MANY:
            heapq.heappush(self._fresh, entry)
        else:
            self._fresh.append(entry)

    def first(self) -> float:
        """Return the highest weight."""
        return -(self._sorted[-1] if self._from_sorted() else self._fresh[0])[0]

    def next(self) -> WorkItem:
        """Return what `pop` would."""
        return (self._sorted[-1] if self._from_sorted() else self._fresh[0])[2]

    def pop(self) -> WorkItem:
        """Remove and return the heaviest, of equal ones the oldest."""
        entry = self._sorted.pop() if self._from_sorted() else heapq.heappop(self._fresh)
        self._total += entry[0]
        self.elements -= entry[2].elements
        return entry[2]

    def _from_sorted(self) -> bool:
        """Return whether the heaviest is in ``_sorted``; otherwise it is in ``_fresh``."""
        if len(self._fresh) > _MANY:
            self._sorted += self._fresh
            self._sorted.sort(reverse=True)
            self._fresh.clear()
        if not self._fresh:
            return True
        return bool(self._sorted) and self._sorted[-1] < self._fresh[0]
