"""How work items ran, for the report, and how long the same work takes without splitting."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

import attrs

__all__ = ["PieceRun", "counts", "pieces_by_element", "unsplit", "whole_seconds"]


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
        elements: how many elements it is work of. More than one: elements that ran in bulk, none of them for long;
            ``element`` shows how many, and the first of them.
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
    elements: int = 1


def pieces_by_element(pieces: Iterable[PieceRun]) -> dict[int, list[PieceRun]]:
    """Return the pieces of each element."""
    by_element: dict[int, list[PieceRun]] = {}
    for piece in pieces:
        by_element.setdefault(piece.element_id, []).append(piece)
    return by_element


def whole_seconds(pieces: Iterable[PieceRun]) -> dict[int, float]:
    """Return for each element about how many seconds it takes in one piece.

    That is the sum of ``seconds - opening_seconds`` over its pieces, plus the ``opening_seconds`` of its first piece,
    which has the lowest number and begins where the element does. Each piece opens the element again, but one piece
    opens it once. If all openings counted, a runner that cuts finer would report more seconds for the same work.

    Two costs stay in the estimate. Pieces that ran beside others had a busy machine, so one alone may be faster. And
    ``seconds`` include passing on the records, which `StagedRunner` stores and `LiveRunner` gives to your action.

    Elements that ran in bulk are one entry, with the seconds of all of them (`counts`).
    """
    return {
        element_id: sum(piece.seconds - piece.opening_seconds for piece in own)
        + min(own, key=lambda piece: piece.id).opening_seconds
        for element_id, own in pieces_by_element(pieces).items()
    }


def counts(pieces: Iterable[PieceRun]) -> dict[int, int]:
    """Return for each entry of `whole_seconds` of how many elements it is."""
    by_element = pieces_by_element(pieces)
    return {element_id: max(1, *(piece.elements for piece in own)) for element_id, own in by_element.items()}


def unsplit(pieces: Iterable[PieceRun], slots: int) -> list[tuple[int, int, float]]:
    """Return a schedule of the same work if no element is split: the longest first, each to the next free slot.

    Each element takes its `whole_seconds`. Elements that ran in bulk took about equally long, and are scheduled in as
    many shares as there are slots.

    Returns:
        For each element, or share: its number, its slot, and when it ends, in seconds since the begin.
    """
    pieces = list(pieces)
    seconds, number = whole_seconds(pieces), counts(pieces)
    free = [(0.0, slot) for slot in range(slots)]
    schedule = []
    for element_id in sorted(seconds, key=lambda each: (-seconds[each] / number[each], each)):
        shares = min(number[element_id], slots)
        for _ in range(shares):
            at, slot = heapq.heappop(free)
            end = at + seconds[element_id] / shares
            schedule.append((element_id, slot, end))
            heapq.heappush(free, (end, slot))
    return schedule
