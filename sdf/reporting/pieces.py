"""How work items ran, for the report, and how long the same work takes without splitting."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

import attrs

__all__ = ["PieceRun", "unsplit", "whole_seconds"]


@attrs.frozen
class PieceRun:
    """One work item, as it ran in the attempt that counts.

    Attributes:
        id: number of the work item.
        element_id: number of its element, from 0.
        element: the element.
        restriction: the part of the element's work that this work item did; None if it gave all of it back.
        origin: ``"initial"``, or what was done to its parent: ``"cut before it ran"``, ``"cut while it ran"``,
            ``"deferred"``.
        parent: number of the work item that it was cut off from, None for an initial one.
        task: index of its task in `RunFacts.tasks`.
        began: when it began, seconds since the epoch on the worker's clock.
        seconds: how long it ran.
        units: the size of the work that it did, in the unit of `DoFn.restriction_size`.
        records: how many records it gave, over all outputs.
        opening_seconds: the part of ``seconds`` before its first claim, for example to open a file. Measured about
            every 0.05 s, so it is a lower bound, and 0 for a work item that opens faster.
        sized: whether the DoFn knows its size; if not, ``units`` say nothing of how much work it was.
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
    sized: bool = True


def whole_seconds(pieces: Iterable[PieceRun]) -> dict[int, float]:
    """Return for each element about how many seconds it takes in one piece.

    That is the sum of ``seconds - opening_seconds`` over its pieces, plus the ``opening_seconds`` of its first piece,
    which has the lowest number and begins where the element does. Each piece opens the element again, but one piece
    opens it once. If all openings counted, a runner that cuts finer would report more seconds for the same work.

    Two costs stay in the estimate. Pieces that ran beside others had a busy machine, so one alone may be faster. And
    ``seconds`` include passing on the records, which `StagedRunner` stores and `LiveRunner` gives to your action.
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
        For each element: its number, its slot, and when it ends, in seconds since the begin.
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
