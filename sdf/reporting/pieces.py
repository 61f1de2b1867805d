"""What the report says of work items that have run, and how long the same work takes without splitting."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

import attrs

__all__ = ["PieceRun", "unsplit", "whole_seconds"]


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
        opening_seconds: how long of that it had claimed nothing yet, to open a file say. The clock looks at it every
            0.05 s or so, so this is a lower bound, and 0 for what opens faster.
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
    opening_seconds: float = 0.0


def whole_seconds(pieces: Iterable[PieceRun]) -> dict[int, float]:
    """Return by element the seconds that it takes in one piece, as far as its pieces tell: an estimate.

    They are the seconds of all its pieces, added up, but each piece had to open its element again, and one piece opens
    it once. So of the openings only that of the first piece counts: the one with the lowest number, which begins where
    the element does. Without that a runner that cuts finer would say more of the same work.

    What stays in it: pieces that ran beside others had a busy machine, so one alone may be faster; and handing on the
    records counts, which `StagedRunner` stores and `LiveRunner` passes to the functions of your action.
    """
    seconds: dict[int, float] = {}
    first: dict[int, PieceRun] = {}
    for piece in pieces:
        seconds[piece.element_id] = seconds.get(piece.element_id, 0.0) + piece.seconds - piece.opening_seconds
        if piece.element_id not in first or piece.id < first[piece.element_id].id:
            first[piece.element_id] = piece
    return {element_id: seconds[element_id] + piece.opening_seconds for element_id, piece in first.items()}


def unsplit(pieces: Iterable[PieceRun], slots: int) -> list[tuple[int, int, float]]:
    """Return a schedule of the same work if no element is split: the longest first, each to the next free slot.

    Each element takes its `whole_seconds`.

    Returns:
        For each element: its number, the slot, and the seconds from the begin at which it ends there.
    """
    seconds = whole_seconds(pieces)
    free = [(0.0, slot) for slot in range(slots)]
    schedule = []
    for element_id in sorted(seconds, key=lambda element_id: (-seconds[element_id], element_id)):
        at, slot = heapq.heappop(free)
        end = at + seconds[element_id]
        schedule.append((element_id, slot, end))
        heapq.heappush(free, (end, slot))
    return schedule
