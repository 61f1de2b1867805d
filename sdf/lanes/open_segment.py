"""OpenSegment: the work that a lane of a saved run has done since its last commit, and when the next one is due."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs

from sdf.execution.measured_run import Running
from sdf.execution.work_items import Part, WorkItem
from sdf.lanes.messages import SegmentDone

__all__ = ["OpenSegment"]


class OpenSegment:
    """See the module's docstring.

    Args:
        clock: monotonic seconds.
        seconds: how long a segment may last; the coordinator may change it. Infinity in a kept run, which has none.

    Attributes:
        seconds: see above.
        ids: the work items run in this segment that the driver knows, and still counts as this lane's.
    """

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self.seconds = seconds
        self.ids: list[int] = []
        self._ran: list[WorkItem] = []  # each cut to what was run of it
        self._began = self._closing_since = clock()
        self._reopening_seconds = 0.0  # what this segment cut takes to open again
        self._ending = False  # what runs was split so that the segment can end

    @property
    def ends(self) -> float:
        """When the seconds of the segment are over, by the lane's clock."""
        return self._began + self.seconds

    def starts(self) -> None:
        """A work item begins to run."""
        self._ending = False
        if not self._ran:
            self._began = self._clock()

    def add(self, item: WorkItem, part: Part | None, *, keeps: bool) -> None:
        """A work item has ended; ``keeps``: some residuals of it stay with the lane."""
        if self.seconds < math.inf:
            item = item if part is None else attrs.evolve(item, restriction=part.primary)
            self._ran.append(item)
            if item.id >= 0 and (item.restriction is not None or keeps):  # else all of it is with the driver again
                self.ids.append(item.id)

    def end(self, running: Running, *, leaving: bool) -> None:
        """Split what runs at its next claim if the segment is over; one that was just opened runs as long again."""
        opening = running.opening_seconds()
        if opening is None or self._ending:
            return
        if leaving or (self._clock() >= self.ends and running.seconds() >= 2 * opening):
            self._ending = running.invoker.split(0) is not None
            self._reopening_seconds = opening if self._ending else 0.0

    def closes(self) -> None:
        """The sinks begin to close the segment."""
        self._closing_since = self._clock()

    def done(self, messages: tuple[Any, ...], records: tuple[int, ...]) -> SegmentDone | None:
        """Return the message that the sinks have written the segment, and begin another; None if it is empty.

        It is empty if all of it was deferred before a claim.
        """
        now, ids = self._clock(), self.ids
        cost_seconds = now - self._closing_since + self._reopening_seconds
        self._ran, self.ids, self._reopening_seconds = [], [], 0.0
        return SegmentDone(len(ids), ids[-1], messages, records, now - self._began, cost_seconds) if ids else None

    def ran(self) -> list[WorkItem]:
        """Return the work items that were run, each cut to the part that was run."""
        return [item for item in self._ran if item.restriction is not None]
