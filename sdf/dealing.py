"""Deals parts of a stream's work out to tasks, as the planner deals out the work items of a run."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from sdf.backlog import Backlog
from sdf.dofn import DoFn
from sdf.expansion import Expanded, checked_size
from sdf.items import WorkItem
from sdf.pending import Pending
from sdf.planner import deal
from sdf.work import Work

__all__ = ["dealt", "entered"]


def dealt(fn: DoFn, parts: Iterable[Pending], tasks: int) -> list[tuple[Pending, ...]]:
    """Deal parts out to so many tasks of about the same size, and cut what is too big for one; none is empty.

    Each task has its parts in their order, so that what came first is not left over again and again.
    """
    work = Work(fn)
    backlog = Backlog(work.costs)
    origin: dict[int, Pending] = {}
    for one in parts:
        item = entered(fn, work, one)
        origin[item.element_id] = one
        backlog.push(item)
    shares = deal(backlog, work.costs, tasks, cut=work.cut)
    return [
        tuple(
            attrs.evolve(origin[item.element_id], restriction=item.restriction, due=0)
            for item in sorted(share, key=lambda item: item.element_id)
        )
        for share in shares
        if share
    ]


def entered(fn: DoFn, work: Work, one: Pending) -> WorkItem:
    """Enter a part in the record of a run, as an element of its own."""
    size = checked_size(fn, one.element, one.restriction)
    (item,) = work.add([Expanded(one.element, one.restriction, ((one.restriction, size),))])
    return attrs.evolve(item, watermark=one.watermark)
