"""DelayedWork: work items of lanes that nobody may run before they are due.

`process` has deferred them, or they are held back until somebody says why their attempt was lost. Each belongs to a
lane, which counts its own and is not sealed while it has some.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from sdf.execution.work_items import WorkItem
from sdf.lanes.attempts import LaneState

__all__ = ["DelayedWork"]


class DelayedWork:
    """See the module's docstring. The caller serialises the calls; times are monotonic seconds."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, LaneState, WorkItem]] = []  # a heap
        self._deserted = False  # in a saved run: some of it may be at a lane without an attempt

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, lane: LaneState, item: WorkItem, due: float) -> None:
        """Keep a work item of a lane until it is due."""
        lane.delayed += 1
        heapq.heappush(self._entries, (due, item.id, lane, item))

    def resume(self, now: float) -> Iterator[LaneState]:
        """Queue each work item that is due at its lane, and yield the lane."""
        while self._entries and self._entries[0][0] <= now:
            _, _, lane, item = heapq.heappop(self._entries)
            lane.delayed -= 1
            lane.queue.push(item)
            yield lane

    def desert(self, lane: LaneState) -> None:
        """In a saved run: a lane has no attempt."""
        self._deserted = self._deserted or lane.delayed > 0

    def adopt(self, heir: LaneState | None) -> None:
        """Give work items of lanes without an attempt to a lane that has one. Else all attempts might end too early."""
        if not self._deserted or heir is None:
            return
        self._deserted = False
        for at, (due, number, lane, item) in enumerate(self._entries):
            if not lane.attempts:
                lane.delayed -= 1
                heir.delayed += 1
                self._entries[at] = due, number, heir, item
