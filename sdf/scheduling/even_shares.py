"""Divides parts of a stream's work among tasks, as the planner divides the work items of a run.

A part is an attrs value with an element, a restriction and a watermark; what else it has it keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from sdf.execution.expansion import Expanded
from sdf.execution.work import work_of
from sdf.execution.work_items import WorkItem
from sdf.model.dofn import DoFn
from sdf.scheduling.factoring import deal
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue

__all__ = ["as_work_item", "even_shares", "part_with", "pinned_items"]


def even_shares(fn: DoFn, parts: Iterable[Any], tasks: int) -> list[tuple[Any, ...]]:
    """Divide parts among at most ``tasks`` tasks of about the same size; cut a part that is too big. None is empty.

    Each task has its parts in their order, so that the first parts are not left over in one batch after another.
    """
    work = RunState(fn)
    backlog = WorkQueue(work.costs)
    origin: dict[int, Any] = {}
    for one in parts:
        item = as_work_item(fn, work, one)
        origin[item.element_id] = one
        backlog.push(item)
    shares = deal(backlog, work.costs, tasks, cut=work.cut)
    return [
        tuple(
            part_with(origin[item.element_id], item.restriction)
            for item in sorted(share, key=lambda item: item.element_id)
        )
        for share in shares
        if share
    ]


def as_work_item(fn: DoFn, work: RunState, one: Any) -> WorkItem:
    """Enter a part in the record of a run, as an element of its own."""
    size = work_of(one.element, one.restriction).size(fn)
    (item,) = work.add([Expanded(one.element, one.restriction, ((one.restriction, size),))])
    return attrs.evolve(item, watermark=one.watermark)


def part_with(one: Any, restriction: Any) -> Any:
    """Return the part with another restriction. Of a table it keeps the rows that are needed; one is no table."""
    work = work_of(one.element, restriction)
    element, held = work.named() if work.elements == 1 else (work.sent(), restriction)
    return attrs.evolve(one, element=element, restriction=held)


def pinned_items(parts: Iterable[Any]) -> list[WorkItem]:
    """Return parts as work items that are run to their end, outside of the record of a run."""
    return [
        WorkItem(number, number, one.element, one.restriction, watermark=one.watermark)
        for number, one in enumerate(parts)
    ]
