"""Catching up: what a stream is behind in one element is read by several tasks at once, and still given in order.

A task that had too little time for all that was there is behind. In the next batch `DoFn.split_backlog` divides its
work into adjacent parts, one for each task. A part is as long as tasks have shown to read in a batch, so the tasks have
usually read their parts when the time is up. If one has not, what was read of later parts is dropped, and the next
batch reads it again: a sink never gets a record before an earlier one of the same element.

Until a task has shown how fast it reads, all that is there is divided evenly. If that is too much for a batch, the
batch has some of the first part, as much as it would have without the other tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import attrs

from sdf.errors import SplitError, blame, show
from sdf.journal.pending import Pending
from sdf.model.dofn import DoFn
from sdf.model.restrictions import UNBOUNDED
from sdf.spark.staged.stored_blocks import Receipt

__all__ = ["CatchUp", "Plan"]

Left = tuple[Pending, int | None]  # as in `StageResult.rest`

_PATIENCE = 1.5  # times batch_seconds, after which a task leaves the rest of its part to the next batch
_FULL = 0.9  # of the limits of a batch in records and bytes, for which there is no patience


@attrs.frozen
class Plan:
    """What a stage is to do.

    Attributes:
        tasks: the work of each task, in order.
        chains: for each work that was divided, the tasks that have its parts, in order; each has nothing else.
    """

    tasks: Sequence[Sequence[Pending]]
    chains: Sequence[Sequence[int]] = ()


@attrs.frozen
class _Read:
    """How a task read its part: how many positions it read, in how many seconds, and what records that gave."""

    length: int
    seconds: float
    records: int
    size: int
    is_whole: bool


class CatchUp:
    """Divides the work of a DoFn by how fast its tasks have read.

    Args:
        batch_seconds: as of `Pace`.
    """

    def __init__(self, batch_seconds: float) -> None:
        self._seconds = batch_seconds
        self._reads: list[_Read] = []

    @property
    def budget_seconds(self) -> float:
        """The most seconds for a part that other parts follow."""
        return _PATIENCE * self._seconds if self._reads else self._seconds

    def divide(self, fn: DoFn, behind: Iterable[Pending], tasks: int, most: tuple[float, float]) -> list[list[Pending]]:
        """Divide works among at most ``tasks`` tasks; return the parts of each work that was divided.

        Args:
            fn: the DoFn, set up.
            behind: the works.
            tasks: how many tasks there are.
            most: the records, and the bytes of them, that a task may give.
        """
        works, divided, length = list(behind), [], self._length(most)
        for number, work in enumerate(works):
            parts = tasks // (len(works) - number)
            if parts > 1 and getattr(work.restriction, "stop", None) is UNBOUNDED:
                cut = _cut(fn, work, parts, length)
                if len(cut) > 1:
                    divided.append([attrs.evolve(work, restriction=part) for part in cut])
                    tasks -= len(cut)
        return divided

    def _length(self, most: tuple[float, float]) -> int | None:
        """Return how many positions a task should read in a batch; None if no task has shown it."""
        if not any(read.length for read in self._reads):
            return None
        short = [[read] for read in self._reads if not read.is_whole and read.length]
        return max(1, int(min(self._fit(reads, most) for reads in short or [self._reads])))

    def _fit(self, reads: Sequence[_Read], most: tuple[float, float]) -> float:
        """Return how many positions fit into a batch if they are read as those of ``reads`` were."""
        used = (
            sum(read.seconds for read in reads) / self._seconds,
            sum(read.records for read in reads) / (_FULL * most[0]),
            sum(read.size for read in reads) / (_FULL * most[1]),
        )
        return sum(read.length for read in reads) / max(used)

    def settle(self, plan: Plan, receipts: Sequence[Receipt], rest: list[list[Left]]) -> list[int]:
        """Note how tasks have read their parts, and drop what was read after one that was not read whole.

        Args:
            plan: what the stage was to do.
            receipts: what each task did.
            rest: what each task left. Changed: only one task of a chain leaves something, all that comes after.

        Returns:
            The tasks whose records are dropped.
        """
        reads: list[_Read] = []
        dropped: list[int] = []
        for chain in plan.chains:
            at = _unfinished(chain, plan.tasks, rest)
            for place, task in enumerate(chain):
                part, receipt = plan.tasks[task][0].restriction, receipts[task]
                reached = min((left.restriction.start for left, _ in rest[task]), default=part.stop)
                is_whole = place < at or place == len(chain) - 1
                reads.append(_Read(reached - part.start, receipt.seconds, sum(receipt.counts), receipt.size, is_whole))
            last = chain[at]
            kept = _without_end(rest[last])
            for task in chain:
                rest[task] = kept if task == last else []
            dropped += chain[at + 1 :]
        self._reads = reads or self._reads
        return dropped


def _cut(fn: DoFn, work: Pending, parts: int, length: int | None) -> list[Any]:
    """Ask a DoFn to divide some work, and check what it returns."""
    with blame(lambda: f"{type(fn).__name__}.split_backlog()", work.element, work.restriction):
        cut = list(fn.split_backlog(work.element, work.restriction, parts, length))
        starts = [part.start for part in cut]
        ordered = all(before < after for before, after in pairwise(starts))
        if not (1 <= len(cut) <= parts and starts[0] == work.restriction.start and ordered):
            raise SplitError(
                f"it must return 1 to {parts} parts in order, the first with the start of the restriction "
                f"(got {show(cut)})"
            )
        if cut[-1].stop is not UNBOUNDED:
            raise SplitError(f"its last part must have no end (got {show(cut[-1])})")
        for part, following in pairwise(cut):
            if part.stop is not UNBOUNDED and part.stop != following.start:
                raise SplitError(f"a part with a stop must end where the next one begins (got {show(cut)})")
    return cut


def _unfinished(chain: Sequence[int], tasks: Sequence[Sequence[Pending]], rest: Sequence[Sequence[Left]]) -> int:
    """Return the index in a chain of the first task that has not read its part whole.

    It is the last one, whose part has no end, if all others have.

    Args:
        chain: the tasks that have the parts of some work, in order.
        tasks: what each task of the stage was to do.
        rest: what each task left.
    """
    for at, (task, following) in enumerate(pairwise(chain)):
        start = tasks[following][0].restriction.start
        if any(part.restriction.start != start for part, _ in rest[task]):
            return at
    return len(chain) - 1


def _without_end(left: Sequence[Left]) -> list[Left]:
    """Return what a task left of its part, and all that comes after, as work without an end."""
    part, delay = min(left, key=lambda one: one[0].restriction.start)
    if part.restriction.stop is UNBOUNDED:
        return [(part, delay)]
    return [(attrs.evolve(part, restriction=attrs.evolve(part.restriction, stop=UNBOUNDED)), delay)]
