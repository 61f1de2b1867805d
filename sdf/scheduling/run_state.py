"""RunState: what the driver knows of a run's work, for both runners: ledger, costs, deferrals, cuts."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from typing import Any

from sdf.execution.bulk.naming import RowNames
from sdf.execution.bulk.table import Rows
from sdf.execution.deferrals import Deferrals
from sdf.execution.expansion import Expanded
from sdf.execution.invoker import Residual
from sdf.execution.work import work_of
from sdf.execution.work_items import DEFERRED, Outcome, Ran, SlowBlock, WorkItem, slowest, units
from sdf.model.dofn import DoFn
from sdf.reporting.pieces import PieceRun
from sdf.scheduling.cost_model import CostModel
from sdf.scheduling.ledger import Ledger
from sdf.scheduling.work_queue import WorkQueue

__all__ = ["RunState", "collecting_nothing", "enter"]

_switching = threading.Lock()
_switched_off = 0  # how many threads want no collections
_collects = True  # whether the garbage collector was on before


class RunState:
    """The work of one run.

    Args:
        fn: the DoFn, to size and to cut restrictions; it is not set up.

    Attributes:
        name: name of the DoFn.
        ledger: who owns which part.
        costs: what work costs.
        deferrals: how long deferred work waits.
        known_units: all work entered so far, in the DoFn's unit.
        done_before: the part of ``known_units`` that earlier drivers of a saved run have committed.
        splits: how often a work item was cut in two so far.
        notes: (element, remark) for each element on which the DoFn had a remark.
    """

    def __init__(self, fn: DoFn) -> None:
        self._fn = fn
        self.name = type(fn).__name__
        self.ledger = Ledger(self._size, name=self.name)
        self.costs = CostModel()
        self.deferrals = Deferrals(self.name)
        self.known_units = 0.0
        self.done_before = 0.0
        self.splits = 0
        self.notes: list[tuple[Any, str]] = []
        self._names = RowNames()
        self._split_elements: dict[int, Any] = {}
        self._halved: set[int] = set()  # the work items of unknown size that were split while they ran

    def _size(self, element: Any, restriction: Any) -> float | None:
        return work_of(element, restriction).size(self._fn)

    def add(self, elements: Iterable[Expanded]) -> Iterator[WorkItem]:
        """Enter elements; yield the work items to start from."""
        for expanded in elements:
            items = self.ledger.add_element(expanded.element, expanded.restriction, expanded.pieces)
            for item in items:
                self.known_units += units(item)
            if expanded.note is not None:
                self.notes += self._names.remarks(items[0], expanded.note)
            if len(items) > 1:
                self._note_split(items[0].id, [item.restriction for item in items[1:]])
            yield from items

    def set_aside(self, item: WorkItem) -> None:
        """Enter that a work item which nobody owns is not run; the proof at the end takes it for done."""
        owner = ("set aside", item.id)
        self.ledger.assign(owner, [item])
        self.ledger.seal(owner, owner)

    def _note_split(self, item_id: int, parts: Sequence[Any]) -> None:
        """Note for the report that ``parts`` were cut off from a work item."""
        item = self.ledger.item(item_id)
        cuts = self._names.cuts(item, parts)
        self.splits += len(cuts)
        for number, element in cuts:
            self._split_elements.setdefault(number, element)

    def split_elements(self) -> tuple[Any, ...]:
        """Return the elements that were cut, in order."""
        return tuple(self._split_elements[key] for key in sorted(self._split_elements))

    def cut(self, item: WorkItem, fraction: float) -> tuple[WorkItem, WorkItem] | None:
        """Cut a work item that nobody owns, as `cut_share` does, and enter it in the ledger."""
        pair = item.work.cut(self._fn, fraction)
        if pair is None:
            return None
        front, rest = self._parts(item, pair)
        return front, rest

    def cut_out(self, item: WorkItem, position: Any) -> tuple[WorkItem | None, WorkItem, WorkItem | None] | None:
        """Cut the block at a claimed position out of a work item that nobody owns, and enter the parts in the ledger.

        Returns:
            What lies before the block, the block, and what lies after it; None if it cannot be cut out, or is all.
        """
        found = item.work.cut_out(self._fn, position)
        if found is None or found[0] is found[2] is None:
            return None
        parts = iter(self._parts(item, [part for part in found if part is not None]))
        before, block, after = (None if part is None else next(parts) for part in found)
        assert block is not None
        return before, block, after

    def _parts(self, item: WorkItem, parts: Sequence[Any]) -> list[WorkItem]:
        """Enter the parts, in order, that a work item which nobody owns was cut into; the first keeps its id."""
        residuals = [Residual(part, 0, item.watermark) for part in reversed(parts[1:])]
        children = self.ledger.split(None, item.id, parts[0], residuals)
        found = [self.ledger.item(item.id), *reversed(children)]
        self.known_units += sum(map(units, found)) - units(item)
        self._note_split(item.id, parts[1:])
        return found

    def split(
        self, owner: Any, item_id: int, primary: Any, residuals: Sequence[Residual]
    ) -> list[tuple[WorkItem, float]]:
        """Enter a split: the owner of a work item keeps ``primary``.

        Returns:
            One new work item per residual, which nobody owns, with the seconds that it must wait.

        Raises:
            SplitError: if the parts do not add up.
            DeferError: if this work was deferred too often in a row without a claim.
        """
        self.deferrals.note(self.ledger.item(item_id), primary)
        children = self.ledger.split(owner, item_id, primary, residuals)
        self._note_unknown(self.ledger.item(item_id), primary, children)
        self._note_split(item_id, [child.restriction for child in children])
        asked = [residual.delay_seconds for residual in residuals]
        return [self._to_run(child, seconds) for child, seconds in zip(children, asked, strict=True)]

    def restore(
        self,
        element: Any,
        restriction: Any,
        parts: Sequence[tuple[Any, float | None, Any]],
        note: str | Sequence[tuple[int, str]] | None,
    ) -> list[WorkItem]:
        """Enter an element as an earlier driver has left it: parts as (restriction, size, watermark), size or None."""
        sized = [(part, self._size(element, part) if size is None else size) for part, size, _ in parts]
        items = self.ledger.add_element(element, restriction, sized, [watermark for _, _, watermark in parts])
        self.known_units += sum(map(units, items))
        if note is not None:
            self.notes += self._names.remarks(items[0], note)
        return items

    def pieces(self, tasks: Iterable[tuple[float, Iterable[Ran]]]) -> tuple[PieceRun, ...]:
        """Return for the report how each work item ran.

        Args:
            tasks: for each task of the report its begin in seconds since the epoch, and how its work items ran.
        """
        return tuple(
            PieceRun(
                id=item.id,
                element_id=element_id,
                element=element,
                restriction=restriction,
                origin=item.origin,
                parent=item.parent,
                task=task,
                began=began + ran.began_seconds,
                seconds=ran.seconds,
                units=ran.units,
                records=ran.records,
                opening_seconds=ran.opening_seconds,
                sized=item.size is not None,
                elements=ran.elements,
            )
            for task, (began, all_ran) in enumerate(tasks)
            for item_id, of_item in groupby(all_ran, key=attrgetter("item_id"))
            for item in (self.ledger.item(item_id),)
            for ran, element_id, element, restriction in self._names.ran(item, self.ledger.holds(item_id), [*of_item])
        )

    def slow_blocks(self, blocks: Iterable[SlowBlock]) -> tuple[tuple[Any, str, float], ...]:
        """Return for the report the slowest blocks, as element, position and seconds."""
        return tuple(
            (self._names.block(self.ledger.item(block.item_id), block.row), block.position, block.seconds)
            for block in slowest(*blocks)
        )

    def commit(self, owner: Any, attempt: Any, outcome: Outcome) -> list[tuple[WorkItem, float]] | None:
        """Enter all that one attempt did and seal its owner.

        Returns:
            The work items to run next, which nobody owns, each with the seconds that it must wait; None if an attempt
            was committed before: then nothing changed.

        Raises:
            LedgerError, SplitError: if the outcome does not add up.
            DeferError: if work was deferred too often in a row without a claim.
        """
        todo = self.ledger.commit(owner, attempt, outcome)
        if todo is None:
            return None
        wholes = [self.ledger.item(part.item_id) for part in outcome.parts]
        residuals = sum(len(part.residuals) for part in outcome.parts)
        self.costs.observe(outcome, wholes, gave_back=len(todo) > residuals)
        for part in outcome.parts:
            self._note_unknown(self.ledger.item(part.item_id), part.primary, part.residuals)
            self._note_split(part.item_id, [residual.restriction for residual in part.residuals])
            self.deferrals.note(self.ledger.item(part.item_id), part.primary)
        deferring = {part.item_id for part in outcome.parts if any(residual.deferred for residual in part.residuals)}
        return [
            self._to_run(each, seconds)
            for item, seconds in todo
            for each in (self._one_by_one(item) if item.parent in deferring else [item])
        ]

    def _one_by_one(self, item: WorkItem) -> list[WorkItem]:
        """Cut the rows behind one that was deferred apart: they may defer, too, and each ends the run of its rows."""
        if item.elements == 1:
            return [item]
        rows: Rows = item.restriction
        ends = [*range(rows.first + 1, rows.end)]
        starts, stops = [rows.start, *((row, 0) for row in ends)], [*((row, 0) for row in ends), rows.stop]
        return self._parts(item, list(map(Rows, starts, stops)))

    def _note_unknown(self, item: WorkItem, primary: Any, children: Sequence[Any]) -> None:
        """Correct ``known_units`` for a split of unknown size: the whole counted as 1, and each child counts as 1.

        The primary counts as 1/2 (`sdf.execution.measured_run.Running.done`).
        """
        if item.size is None:
            self.known_units += len(children)
            if item.id not in self._halved:
                self._halved.add(item.id)
                self.known_units -= 1.0 if primary is None else 0.5

    def _to_run(self, item: WorkItem, asked_seconds: float) -> tuple[WorkItem, float]:
        self.costs.inherit(item)
        if item.is_rows and item.origin != DEFERRED:  # rows behind one that was deferred
            return item, asked_seconds
        return item, self.deferrals.delay_seconds(item, asked_seconds)


def enter(work: RunState, backlog: WorkQueue, elements: Iterable[Expanded]) -> None:
    """Enter elements into the state of a run, and their work items into its backlog."""
    with collecting_nothing():
        for item in work.add(elements):
            backlog.push(item)


@contextmanager
def collecting_nothing() -> Iterator[None]:
    """Switch the garbage collector off while many objects are made that live as long as the run.

    It would scan them again and again, which takes half of the time for a million elements (benchmarks/growth.py).
    Several threads may do so at once; the last one switches it on again, if it was on.
    """
    global _switched_off, _collects
    with _switching:
        if not _switched_off:
            _collects = gc.isenabled()
            gc.disable()
        _switched_off += 1
    try:
        yield
    finally:
        with _switching:
            _switched_off -= 1
            if _collects and not _switched_off:
                gc.enable()
