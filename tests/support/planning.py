"""Work items, costs and backlogs for the tests of what is planned from them."""

import attrs

from sdf.execution.work_items import Outcome, Part, Ran, WorkItem
from sdf.model.dofn import DoFn
from sdf.model.restrictions import OffsetRange
from sdf.scheduling.cost_model import CostModel
from sdf.scheduling.work_queue import WorkQueue


class RangeFn(DoFn):
    """Element: how many units."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker):
        raise NotImplementedError("nothing runs here")


def item_of(number, start, stop, *, size="known", parent=None):
    return WorkItem(number, number, "a", OffsetRange(start, stop), stop - start if size == "known" else None, parent)


class Cutter:
    """Cuts offset ranges; new work items get the next ids."""

    def __init__(self, first_id=1000, declines=False):
        self.next_id = first_id
        self.declines = declines
        self.fractions = []

    def __call__(self, item, fraction):
        self.fractions.append(fraction)
        start, stop = item.restriction
        at = start + int((stop - start) * fraction)
        if self.declines or not start < at < stop:
            return None
        self.next_id += 1
        rest = attrs.evolve(
            item, id=self.next_id, restriction=OffsetRange(at, stop), size=item.size and stop - at, parent=item.id
        )
        return attrs.evolve(item, restriction=OffsetRange(start, at), size=item.size and at - start), rest


def costs_of(seconds_per_unit=None):
    """Return costs that were learnt from a hundred work items of one unit each."""
    costs = CostModel()
    if seconds_per_unit is not None:
        costs.observe(Outcome(100, (), 100, 100 * seconds_per_unit))
    return costs


def queue_of(costs, items):
    backlog = WorkQueue(costs)
    for item in items:
        backlog.push(item)
    return backlog


def drain(backlog):
    return [backlog.pop() for _ in range(len(backlog))]


def ran(costs, item_id, units, seconds, *, whole=True):
    """Tell that a work item ran, whole or in part."""
    parts = () if whole else (Part(item_id, OffsetRange(0, units), (), units, seconds),)
    costs.observe(Outcome(1, parts, units, seconds, (Ran(item_id, 0.0, seconds, units, 0),)))


def cut_off(costs, *items):
    """Tell that work items were cut off, each from its parent, and wait; return them."""
    for item in items:
        costs.inherit(item)
        costs.rates.queued(item)
    return items
