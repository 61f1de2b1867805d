"""Work items: what is handed out, and in which words a worker tells what became of it."""

from __future__ import annotations

import heapq
from operator import attrgetter
from typing import Any

import attrs

from sdf.execution.invoker import Residual

__all__ = [
    "ADDS_UP",
    "BETWEEN",
    "CANNOT",
    "DEFERRED",
    "INITIAL",
    "JUST_OPENED",
    "NOTHING_CLAIMED",
    "PLANNED",
    "STAYS",
    "TOO_LITTLE",
    "UNTOLD",
    "WHILE_IT_RAN",
    "Outcome",
    "Part",
    "Ran",
    "SlowBlock",
    "WorkItem",
    "slowest",
    "units",
]

# How a work item came about.
INITIAL, PLANNED, WHILE_IT_RAN, DEFERRED = "initial", "cut before it ran", "cut while it ran", "deferred"

# Why a work item was not split when it should have been.
NOTHING_CLAIMED = "nothing was claimed yet"
JUST_OPENED = "it had just been opened"
TOO_LITTLE = "too little was left"
CANNOT = "its tracker could not split there"
STAYS = "it was cut before, and had to stay whole"
UNTOLD = "its restriction cannot be told to the driver"
BETWEEN = "nothing ran"

ADDS_UP = 1.001  # the sizes of the parts are together at most so many times that of the whole, or say nothing of it

_MOST_SLOW = 10


@attrs.frozen(eq=False)
class WorkItem:
    """An (element, restriction) pair, as it was handed out.

    Attributes:
        id: unique in the run, in the order of creation.
        element_id: which element, in the order in which they came.
        element: the input.
        restriction: the part of its work.
        size: `DoFn.restriction_size`, None if unknown.
        parent: the id of the work item that it was cut off from, None for one of the initial ones.
        watermark: state of the watermark estimator to go on from.
        origin: how it came about: `INITIAL`, or what was done to its parent.
    """

    id: int
    element_id: int
    element: Any
    restriction: Any
    size: float | None = None
    parent: int | None = None
    watermark: Any = None
    origin: str = INITIAL

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkItem, _fields(self)


_fields = attrgetter(*(field.name for field in attrs.fields(WorkItem)))


def units(item: WorkItem) -> float:
    """Return the size of a work item for estimates: 1 where it is unknown, and such as products of floats can hold."""
    size = item.size
    return 1.0 if size is None else 0.0 if size < 1e-200 else float(size) if size < 1e200 else 1e200


@attrs.frozen
class Ran:
    """How a work item ran, in the words of the worker that ran it.

    Attributes:
        item_id: which work item.
        began_seconds: when, since its task began.
        seconds: how long it took.
        units: the size of what was run of it.
        records: how many records it gave, over all outputs.
        opening_seconds: for how long of it nothing was claimed yet, at least, as far as it was looked at.
    """

    item_id: int
    began_seconds: float
    seconds: float
    units: float
    records: int
    opening_seconds: float = 0.0

    def and_then(self, other: Ran) -> Ran:
        """Return this with a part that was run later, for which the driver has no work item of its own."""
        return attrs.evolve(
            self,
            seconds=self.seconds + other.seconds,
            units=self.units + other.units,
            records=self.records + other.records,
            opening_seconds=self.opening_seconds + other.opening_seconds,
        )


@attrs.frozen
class SlowBlock:
    """A block during which the clock ticked more than once: it took at least so many seconds.

    Attributes:
        item_id: of which work item.
        position: where it was claimed, as text; of trackers without positions the work done before it.
        seconds: how long it was seen, at least.
    """

    item_id: int
    position: str
    seconds: float


def slowest(*blocks: SlowBlock) -> tuple[SlowBlock, ...]:
    """Return the ten slowest, the slowest first."""
    return tuple(heapq.nlargest(_MOST_SLOW, blocks, key=lambda block: block.seconds))


@attrs.frozen
class Part:
    """A work item of which an attempt did not run all: its process() deferred, or it was split.

    Attributes:
        item_id: which work item.
        primary: the part that was run; None if nothing of it was.
        residuals: what was cut off, in the order of the cuts: the last lies next to the primary.
        units: the size of the primary; where sizes do not add up, its share of the size of the whole.
        seconds: how long it took, or would have taken if all of it had cost what its end did: the higher of the two.
            What was cut off lies behind that end, and is expected to cost the same.
        scale: what a unit of the residuals counts; not 1 where sizes do not add up.
    """

    item_id: int
    primary: Any
    residuals: tuple[Residual, ...]
    units: float = 0
    seconds: float = 0
    scale: float = 1.0


@attrs.frozen
class Outcome:
    """What one attempt did with the work items of its task, which it ran in order.

    Attributes:
        started: how many it started; those after them are given back whole.
        parts: of those started, the ones that it did not run whole.
        units: the size of all that it ran.
        seconds: how long that took.
        ran: each of those started, for the report.
        slow: its slowest blocks, for the report.
        refused: why nothing could be split at the end, None if nothing had to be.
    """

    started: int
    parts: tuple[Part, ...] = ()
    units: float = 0
    seconds: float = 0
    ran: tuple[Ran, ...] = attrs.field(default=(), eq=False)
    slow: tuple[SlowBlock, ...] = attrs.field(default=(), eq=False)
    refused: str | None = attrs.field(default=None, eq=False)
