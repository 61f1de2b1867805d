"""Work items: what the driver hands out, and the receipt of what a worker did with it."""

from __future__ import annotations

import heapq
from operator import attrgetter
from typing import Any

import attrs

from sdf.execution.invoker import Residual
from sdf.execution.work import TableRows, Work, work_of

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
    "SUSPECT",
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
SUSPECT = "failed before, runs alone"  # only of the copy that a worker gets

# Why a work item was not split when it should have been.
NOTHING_CLAIMED = "nothing was claimed yet"
JUST_OPENED = "it had just been opened"
TOO_LITTLE = "too little was left"
CANNOT = "its tracker could not split there"
STAYS = "it was cut before, and had to stay whole"
UNTOLD = "its restriction cannot be sent to the driver"
BETWEEN = "nothing ran"

ADDS_UP = 1.001  # sizes add up if those of the parts together are at most so many times that of the whole

_MOST_SLOW = 10


@attrs.frozen(eq=False)
class WorkItem:
    """An (element, restriction) pair, as it was handed out.

    Attributes:
        id: number unique in the run, in the order of creation.
        element_id: number of the element, in the order of arrival; of rows of a table, that of the table's first row.
        element: the input, or a `Table` of inputs.
        restriction: the part of the element's work; `Rows` of a table.
        size: `DoFn.restriction_size`, None if unknown.
        parent: the id of the work item that this one was cut off from, None for an initial work item.
        watermark: state of the watermark estimator to go on from.
        origin: how the work item came about: `INITIAL`, or what was done to its parent.
        late_below: as of `WatermarkEstimator`.
    """

    id: int
    element_id: int
    element: Any
    restriction: Any
    size: float | None = None
    parent: int | None = None
    watermark: Any = None
    origin: str = INITIAL
    late_below: Any = None

    @property
    def work(self) -> Work:
        """What it is work of: one element, or rows of a table."""
        return work_of(self.element, self.restriction)

    @property
    def elements(self) -> int:
        """Of how many elements it is work: more than one if it is rows of a table."""
        return self.work.elements

    @property
    def is_rows(self) -> bool:
        """Whether it is rows of a table."""
        return type(self.work) is TableRows

    def __reduce__(self) -> tuple[Any, ...]:
        number, element_id, _, *others = _fields(self)
        return WorkItem, (number, element_id, self.work.sent(), *others)


_fields = attrgetter(*(field.name for field in attrs.fields(WorkItem)))


def units(item: WorkItem) -> float:
    """Return a work item's size for estimates: 1 if unknown, and in a range where float products cannot overflow."""
    size = item.size
    return 1.0 if size is None else 0.0 if size < 1e-200 else float(size) if size < 1e200 else 1e200


@attrs.frozen
class Ran:
    """How a work item ran, as measured by its worker.

    Attributes:
        item_id: the id of the work item.
        began_seconds: seconds from the start of its task to its own.
        seconds: seconds that it took.
        units: the size of the part that was run.
        records: number of records, over all outputs.
        opening_seconds: the part of ``seconds`` before its first claim; a lower bound, from periodic looks.
        elements: of how many elements it was work; for a residual that the driver does not know, the elements that no
            earlier part counts.
        row: -1; or, of a row of a table that took long, its number. Then another entry holds the other rows of the work
            item, and the records of all.
    """

    item_id: int
    began_seconds: float
    seconds: float
    units: float
    records: int
    opening_seconds: float = 0.0
    elements: int = 1
    row: int = -1

    def and_then(self, other: Ran) -> Ran:
        """Return the sum with a residual that ran later in the same worker, and is no work item to the driver."""
        return attrs.evolve(
            self,
            seconds=self.seconds + other.seconds,
            units=self.units + other.units,
            records=self.records + other.records,
            opening_seconds=self.opening_seconds + other.opening_seconds,
            elements=self.elements + other.elements,
        )


@attrs.frozen
class SlowBlock:
    """A block that was still running at more than one look at the clock, so it took at least so many seconds.

    Attributes:
        item_id: the id of its work item.
        position: its claimed position, as text; if the tracker has none, the work done before the block.
        seconds: seconds between the first and the last look at it; it took at least that.
        row: its row, if the work item is rows of a table; else -1.
    """

    item_id: int
    position: str
    seconds: float
    row: int = -1


def slowest(*blocks: SlowBlock) -> tuple[SlowBlock, ...]:
    """Return the ten slowest blocks, the slowest first."""
    return tuple(heapq.nlargest(_MOST_SLOW, blocks, key=lambda block: block.seconds))


@attrs.frozen
class Part:
    """A work item that an attempt did not run whole: its process() deferred, or it was split.

    Attributes:
        item_id: the id of the work item.
        primary: the part that was run; None if nothing was run.
        residuals: the parts cut off, in the order of the cuts: the last lies next to the primary.
        units: the size of the primary; if sizes do not add up, its share of the size of the whole.
        seconds: the seconds that the primary took, or ``units`` * the cost per unit at its end, whichever is higher.
            The residuals lie behind that end, and are expected to cost the same.
        scale: what a unit of the residuals' sizes counts as; not 1 if sizes do not add up.
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
        started: number of work items that it started; it gives back those after them whole.
        parts: the started work items that it did not run whole.
        units: the size of all work that it ran.
        seconds: seconds that the attempt took.
        ran: how each started work item ran.
        slow: the slowest blocks, for the report.
        refused: why the last request to hand back work was refused; None if it was met, or there was none.
        late: number of records that were late, as of `WatermarkEstimator`.
        firsts: with quarantine, the id of each work item that was cut off from another, and `Invoker.first`.
    """

    started: int
    parts: tuple[Part, ...] = ()
    units: float = 0
    seconds: float = 0
    ran: tuple[Ran, ...] = attrs.field(default=(), eq=False)
    slow: tuple[SlowBlock, ...] = attrs.field(default=(), eq=False)
    refused: str | None = attrs.field(default=None, eq=False)
    late: int = 0
    firsts: tuple[tuple[int, tuple[Any, ...]], ...] = attrs.field(default=(), eq=False)
