"""Runs work items one after the other in a worker, and adds up what they did, for a task's bundle or for a lane.

The caller decides what becomes of residuals: a bundle gives them back with its receipt, a lane offers them to the
coordinator, `run_to_end` runs them here.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs

from sdf.execution.deferrals import Deferrals
from sdf.execution.invoker import Residual
from sdf.execution.measured_run import Running
from sdf.execution.work import work_of
from sdf.execution.work_items import SUSPECT, Part, Ran, SlowBlock, WorkItem, slowest, units
from sdf.model.dofn import DoFn, call_hook

__all__ = ["Executor", "residual_item", "run_to_end"]


class Executor:
    """One attempt at some work items, one at a time.

    Args:
        fn: the DoFn, set up.
        side_inputs: keyword arguments for `process`.
        clock: monotonic seconds.
        on_claim: called with each position that a `SUSPECT` claims, which costs time per record; or None.

    Attributes:
        running: the work item that runs, None between two work items.
        items: number of work items that have ended; each row of a table counts.
        units: the size of all the work that they did.
        seconds: seconds that they took.
        records: number of records that they gave, over all outputs.
        late: number of records that were late, as of `WatermarkEstimator`.
        firsts: as of `Outcome`; only with ``on_claim``.
    """

    def __init__(
        self,
        fn: DoFn,
        *,
        side_inputs: Mapping[str, Any] | None,
        clock: Callable[[], float],
        on_claim: Callable[[Any], None] | None = None,
    ) -> None:
        self._fn = fn
        self._on_claim = on_claim
        self._side_inputs = side_inputs
        self._clock = clock
        self._began = clock()
        self.running: Running | None = None
        self.items = 0
        self.units = 0.0
        self.seconds = 0.0
        self.records = 0
        self.late = 0
        self.firsts: list[tuple[int, tuple[Any, ...]]] = []
        self._ran: dict[tuple[int, int], Ran] = {}  # by id and row
        self._slow: tuple[SlowBlock, ...] = ()

    def start(self, item: WorkItem) -> Running:
        """Return a work item ready to run; the caller iterates its outputs, then calls `end`."""
        self.running = Running(
            self._fn,
            item,
            side_inputs=self._side_inputs,
            clock=self._clock,
            expected_seconds=self._expected_seconds(item),
            on_claim=self._observer(item),
        )
        return self.running

    def _observer(self, item: WorkItem) -> Callable[[int, Any], None] | None:
        on_claim = self._on_claim
        if on_claim is None or item.origin != SUSPECT:
            return None
        return lambda claims, position: on_claim(position)

    def _expected_seconds(self, item: WorkItem) -> float:
        """Return units * the mean seconds per unit so far; 0 if there is no estimate.

        There is none for a piece of unknown size: it is smaller than its whole, but nobody knows how much.
        """
        tells = self.units > 0 and (item.size is not None or item.parent is None)
        return units(item) * self.seconds / self.units if tells else 0.0

    def end(self, known_as: int | None = None) -> Part | None:
        """Add up what the running work item did; return its primary and residuals if it did not run whole.

        Args:
            known_as: the id by which the driver knows this work; None: the work item's own id.
        """
        running = self.running
        assert running is not None
        done, part = running.done()
        known = running.item.id if known_as is None else known_as
        ran = running.ran(known, self._began, done)
        self.items += ran.elements
        if known != running.item.id and running.item.work.starts_inside():  # the driver has counted this element
            ran = attrs.evolve(ran, elements=ran.elements - 1)
        self.units += done
        self.seconds += running.seconds()
        self.records += ran.records
        self.late += running.invoker.late
        if self._on_claim is not None and running.item.parent is not None and running.invoker.first is not None:
            self.firsts.append((known, running.invoker.first))
        self._note(ran, running.dear_rows(self._began))
        if slow := running.slow_blocks():
            self._slow = slowest(*self._slow, *(attrs.evolve(block, item_id=known) for block in slow))
        self.running = None
        return part

    def _note(self, ran: Ran, dear: tuple[Ran, ...]) -> None:
        """Note how a work item ran, and the rows of it that took long, each by itself."""
        dear = tuple(attrs.evolve(row, item_id=ran.item_id) for row in dear[: max(0, ran.elements - 1)])
        rest = attrs.evolve(
            ran,
            seconds=max(0.0, ran.seconds - sum(row.seconds for row in dear)),
            units=max(0.0, ran.units - sum(row.units for row in dear)),
            elements=ran.elements - len(dear),
            opening_seconds=max(0.0, ran.opening_seconds - sum(row.opening_seconds for row in dear)),
        ) if dear else ran  # fmt: skip
        for each in (rest, *dear):
            key = each.item_id, each.row
            self._ran[key] = self._ran[key].and_then(each) if key in self._ran else each

    def take_report(self) -> tuple[tuple[Ran, ...], tuple[SlowBlock, ...]]:
        """Return how each work item known to the driver ran since the last call, and the slowest blocks."""
        ran, slow = tuple(self._ran.values()), self._slow
        self._ran, self._slow = {}, ()
        return ran, slow


def residual_item(fn: DoFn, item: WorkItem, residual: Residual, number: int, parent: int) -> WorkItem:
    """Return a work item for a residual that stays in this worker; to the driver it is still part of its parent."""
    size = work_of(item.element, residual.restriction).size(fn)
    return WorkItem(number, item.element_id, item.element, residual.restriction, size, parent, residual.watermark)


def run_to_end(
    fn: DoFn,
    items: Iterable[WorkItem],
    *,
    side_inputs: Mapping[str, Any] | None = None,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Iterator[Any]:
    """Yield the outputs of work items that nobody splits. Deferred work runs here too, when it is due.

    Args:
        fn: the DoFn, set up.
        items: the work items, in the order to run them.
        side_inputs: keyword arguments for `process`.
        clock: monotonic seconds.
        sleep: waits for the given seconds.

    Raises:
        DeferError: if work was deferred too often in a row without a claim.
    """
    executor = Executor(fn, side_inputs=side_inputs, clock=clock)
    deferrals = Deferrals(type(fn).__name__)
    numbers = itertools.count(-1, -1)  # ids of work items that the driver does not know
    call_hook(fn, "start_bundle")
    orders = itertools.count()
    todo = [(0.0, next(orders), item) for item in items]  # a heap, by when each is due
    while todo:
        due, _, item = heapq.heappop(todo)
        if due > clock():
            sleep(due - clock())
        with executor.start(item).outputs() as outputs:
            yield from outputs
        part = executor.end()
        if part is None:
            continue
        deferrals.note(item, part.primary)
        for residual in part.residuals:
            child = residual_item(fn, item, residual, next(numbers), item.id)
            due = clock()
            if residual.deferred:
                due += deferrals.delay_seconds(child, residual.delay_seconds)
            heapq.heappush(todo, (due, next(orders), child))
    call_hook(fn, "finish_bundle")
