"""What the report says of work items that have run, and how long the same work takes without splitting."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

import attrs

__all__ = ["PieceRun", "unsplit"]


@attrs.frozen
class PieceRun:
    """One work item, as it was run in the end.

    Attributes:
        id: number of the work item.
        element_id: number of its element, from 0.
        element: the element.
        restriction: the part of its work that this one did; None if it gave all of it away.
        origin: ``"initial"``, or what was done to its parent: ``"cut before it ran"``, ``"cut while it ran"``,
            ``"deferred"``.
        parent: the work item that it was cut off from, None for an initial one.
        task: which task of the report ran it.
        began: seconds since the epoch, on the worker's clock.
        seconds: how long it ran.
        units: the size of what it did, in the unit of `DoFn.restriction_size`.
        records: how many records it gave, over all outputs.
    """

    id: int
    element_id: int
    element: Any
    restriction: Any
    origin: str
    parent: int | None
    task: int
    began: float
    seconds: float
    units: float
    records: int


def unsplit(pieces: Iterable[PieceRun], slots: int) -> list[tuple[int, int, float]]:
    """Return a schedule of the same work if no element is split: the longest first, each to the next free slot.

    Returns:
        For each element: its number, the slot, and the seconds from the begin at which it ends there.
    """
    seconds: dict[int, float] = {}
    for piece in pieces:
        seconds[piece.element_id] = seconds.get(piece.element_id, 0.0) + piece.seconds
    free = [(0.0, slot) for slot in range(slots)]
    schedule = []
    for element_id in sorted(seconds, key=lambda element_id: (-seconds[element_id], element_id)):
        at, slot = heapq.heappop(free)
        end = at + seconds[element_id]
        schedule.append((element_id, slot, end))
        heapq.heappush(free, (end, slot))
    return schedule
