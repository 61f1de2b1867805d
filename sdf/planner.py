"""Decides what runs next, and how much of it at a time. Pure: no clock, no Spark, no I/O, so a simulator can drive it.

The rule is factoring (Hummel, Schonberg, Flynn, CACM 1992) with costs that are learnt on the way. When slots fall idle,
each gets 3/4 of R / P seconds of work, where R is the estimated work left anywhere and P the number of tasks that may
run at once; what a task is given is also its budget, and what it cannot finish in that time comes back. So no task runs
longer than its part of what is left, whatever the estimate was worth, and pieces get smaller towards the end. A budget
is why the share can be larger than the usual half: a wrong estimate costs a checkpoint, not a straggler. As long as
nothing is known of the cost, a task gets a short budget and an even share of the units.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Callable

import attrs

from sdf.items import Outcome, WorkItem, units

Cut = Callable[[WorkItem, float], tuple[WorkItem, WorkItem] | None]
_SHARE = 0.75  # benchmarks/skew.py, 20 s per core: 0.5 needs twice the stages for the same balance
_MANY = 1000  # in a heap; benchmarks/growth.py: the first stage of a million work items takes half of them
_ITEMS_WHILE_COST_UNKNOWN = 1000  # per task; most of more would only be sent there and back

__all__ = ["Backlog", "Costs", "Limits", "PlannedTask", "Tuning", "deal", "plan_stage", "scaled", "tasks_allowed"]


@attrs.frozen
class Tuning:
    """The seconds that planning turns on.

    Attributes:
        first_budget_seconds: how long a task may run while no cost is known.
        min_piece_seconds: the smallest piece worth a task of its own.
        budget_seconds: the longest that any task may run, None for no fixed limit.
    """

    first_budget_seconds: float
    min_piece_seconds: float
    budget_seconds: float | None

    def longest(self) -> float:
        """Return the fixed limit as a number."""
        return math.inf if self.budget_seconds is None else self.budget_seconds


@attrs.frozen
class Limits:
    """Bounds on one stage.

    Attributes:
        min_tasks: keep at least so many tasks running while there is work for them.
        max_tasks: never more than so many, None for no bound.
        max_items: at most so many work items in one stage, None for no bound.
    """

    min_tasks: int
    max_tasks: int | None
    max_items: int | None


@attrs.frozen
class PlannedTask:
    """The work items of one task, in order, the seconds they are expected to take, and the seconds they may take."""

    items: tuple[WorkItem, ...]
    expected_seconds: float
    budget_seconds: float


class Costs:
    """What a unit of work costs in seconds, learnt from what has run.

    A work item that was cut off from another inherits the cost that its parent showed; for others the mean of all that
    has run is the best guess: per unit or per work item, whichever says more, since units of different elements may
    have nothing to do with each other. Units without a known size count as one.
    """

    def __init__(self) -> None:
        self._units = 0.0
        self._seconds = 0.0
        self._items = 0
        self._by_item: dict[int, float] = {}

    def observe(self, outcome: Outcome) -> None:
        """Learn from what an attempt did."""
        self._units += outcome.units
        self._seconds += outcome.seconds
        self._items += outcome.started
        for part in outcome.parts:
            self.learn(part.item_id, part.units, part.seconds)

    def learn(self, item_id: int, units_done: float, seconds: float) -> None:
        """Learn what a work item costs that still runs, or has run in part."""
        if units_done > 0:
            self._by_item[item_id] = seconds / units_done

    def inherit(self, item: WorkItem) -> None:
        """Let a work item cost per unit what the one it was cut off from did."""
        if item.parent in self._by_item:
            self._by_item[item.id] = self._by_item[item.parent]

    def cut(self, whole: WorkItem, fraction: float, front: WorkItem, rest: WorkItem) -> None:
        """Let the two sides of a cut cost together what the whole was expected to.

        Where sizes add up they do already. Where a size is a share of the part itself, as of keys, each side would
        count as much as the whole, and pieces would be cut for ever that are as small as can be.
        """
        self.inherit(rest)
        if units(front) + units(rest) > 1.001 * units(whole) and (self.mean() is not None or self.own(whole)):
            seconds = self.seconds_of(whole)
            self._by_item[front.id] = seconds * fraction / units(front)
            self._by_item[rest.id] = seconds * (1 - fraction) / units(rest)

    def mean(self) -> float | None:
        """Return seconds per unit over all that has run, None before anything has."""
        return self._seconds / self._units if self._units > 0 else None

    def mean_of_items(self) -> float:
        """Return seconds per work item over all that has run, 0 before anything has."""
        return self._seconds / self._items if self._items else 0.0

    def own(self, item: WorkItem) -> float | None:
        """Return the seconds per unit that are known of this very work item, None if there are none."""
        return self._by_item.get(item.id)

    def seconds_of(self, item: WorkItem) -> float:
        """Return the estimated seconds of a work item; as long as nothing is known, a unit counts as a second."""
        own = self.own(item)
        if own is not None:
            return units(item) * own
        return max(units(item) * (self.mean() or 1.0), self.mean_of_items())


class Backlog:
    """The work items that nobody runs, biggest first by estimated seconds."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._unknown = _Biggest()  # by units: their cost per unit is the same mean
        self._known = _Biggest()  # by seconds

    def __len__(self) -> int:
        return len(self._unknown) + len(self._known)

    def push(self, item: WorkItem) -> None:
        """Add a work item."""
        rate = self._costs.own(item)
        if rate is None:
            self._unknown.push(units(item), item)
        else:
            self._known.push(units(item) * rate, item)

    def pop(self) -> WorkItem:
        """Take the biggest."""
        if not len(self._known):
            return self._unknown.pop()
        mean = self._costs.mean() or 1.0
        known = not len(self._unknown) or self._known.first() >= self._unknown.first() * mean
        return self._known.pop() if known else self._unknown.pop()

    def seconds(self) -> float:
        """Return the estimated seconds of all of it."""
        by_number = len(self._unknown) * self._costs.mean_of_items()
        return self._known.total + max(self._unknown.total * (self._costs.mean() or 1.0), by_number)


class _Biggest:
    """Work items by weight, the heaviest first. Of many at once a heap costs more than to sort them and take the last.

    Attributes:
        total: of the weights.
    """

    def __init__(self) -> None:
        self.total = 0.0
        self._sorted: list[tuple[float, int, WorkItem]] = []  # of equal ones the last is the oldest
        self._fresh: list[tuple[float, int, WorkItem]] = []  # a heap, unless they are too many for that

    def __len__(self) -> int:
        return len(self._sorted) + len(self._fresh)

    def push(self, weight: float, item: WorkItem) -> None:
        self.total += weight
        entry = -weight, item.id, item
        if len(self._fresh) < _MANY:
            heapq.heappush(self._fresh, entry)
        else:
            self._fresh.append(entry)

    def first(self) -> float:
        """Return the highest weight."""
        return -(self._sorted[-1] if self._from_sorted() else self._fresh[0])[0]

    def pop(self) -> WorkItem:
        """Take the heaviest, of equal ones the oldest."""
        entry = self._sorted.pop() if self._from_sorted() else heapq.heappop(self._fresh)
        self.total = self.total + entry[0] if self._sorted or self._fresh else 0.0
        return entry[2]

    def _from_sorted(self) -> bool:
        """Tell which of the two begins with the heaviest."""
        if len(self._fresh) > _MANY:
            self._sorted += self._fresh
            self._sorted.sort(reverse=True)
            self._fresh.clear()
        if not self._fresh:
            return True
        return bool(self._sorted) and self._sorted[-1] < self._fresh[0]


def tasks_allowed(slots: int, seconds: float, tuning: Tuning, limits: Limits, *, costs_known: bool) -> int:
    """Return how many tasks may run at once: one per slot, as far as the backlog feeds them, within the bounds."""
    worth = slots if not costs_known else min(slots, int(seconds / tuning.min_piece_seconds) + 1)
    most = limits.max_tasks if limits.max_tasks is not None else max(slots, limits.min_tasks)
    return min(max(worth, limits.min_tasks), most)


def plan_stage(
    backlog: Backlog,
    costs: Costs,
    *,
    tasks: int,
    width: int,
    running_seconds: float,
    elapsed_seconds: float = math.inf,
    tuning: Tuning,
    limits: Limits,
    cut: Cut,
) -> list[PlannedTask]:
    """Take from the backlog what the next stage runs.

    Args:
        backlog: what nobody runs; what is taken leaves it.
        costs: what is known of costs.
        tasks: how many tasks to plan, one for each idle slot.
        width: how many tasks may run at once in all.
        running_seconds: estimated seconds left in tasks that run now.
        elapsed_seconds: how long the run has taken so far; no task is planned for more than twice that, so that an
            estimate that is far too high cannot keep a straggler going.
        tuning: budgets.
        limits: bounds.
        cut: cuts a work item at a fraction of its work into two, or declines with None.

    Returns:
        At most ``tasks`` tasks, none of them empty.
    """
    known = costs.mean() is not None
    share = _SHARE * (backlog.seconds() + running_seconds) / width
    if known:
        share = max(min(share, 2 * elapsed_seconds), tuning.min_piece_seconds)
        share = budget = min(share, tuning.longest())
    else:
        budget = min(tuning.first_budget_seconds, tuning.longest())
    room = sys.maxsize if limits.max_items is None else limits.max_items
    planned: list[PlannedTask] = []
    while len(planned) < tasks and len(backlog) and room > 0:
        most = room if known else min(room, _ITEMS_WHILE_COST_UNKNOWN)
        smallest = tuning.min_piece_seconds if known else share / 4
        items, seconds = _fill(backlog, share, smallest, most, costs, cut, whole_seconds=share)
        planned.append(PlannedTask(items, seconds if known else budget, budget))
        room -= len(items)
    return planned


def scaled(backlog: int, minimum: int, maximum: int) -> int:
    """Return how many tasks serve a backlog of so many work items: the largest power of two of them, within bounds.

    Source: the auto-scaling of the block reader of Apache Apex Malhar, with the bounds applied last.
    """
    if backlog > maximum:
        return maximum
    return max(minimum, 1 << (backlog.bit_length() - 1) if backlog else 0)


def deal(backlog: Backlog, costs: Costs, lanes: int, *, cut: Cut) -> list[list[WorkItem]]:
    """Take all of the backlog and deal it out evenly: the shares that lanes start with.

    Args:
        backlog: all the work; it is empty afterwards.
        costs: what is known of costs, commonly nothing.
        lanes: how many shares.
        cut: cuts a work item at a fraction of its work into two, or declines with None.

    Returns:
        One list per lane, empty where there was nothing left to cut.
    """
    shares: list[list[WorkItem]] = []
    for lane in range(lanes):
        share = backlog.seconds() / (lanes - lane)
        items, _ = _fill(backlog, share, share / 4, sys.maxsize, costs, cut, whole_seconds=0.0)
        shares.append(list(items))
    while len(backlog):
        shares[len(backlog) % lanes].append(backlog.pop())
    return shares


def _fill(
    backlog: Backlog, share: float, smallest: float, most: int, costs: Costs, cut: Cut, *, whole_seconds: float
) -> tuple[tuple[WorkItem, ...], float]:
    """Take about ``share`` seconds of work, at most ``most`` work items; cut the one that is too big.

    What takes no longer than ``whole_seconds`` is not cut, only to fill up what others have left; it is for the next.
    """
    items: list[WorkItem] = []
    filled = 0.0
    while len(backlog) and len(items) < most and (filled < share or not items):
        item = backlog.pop()
        wanted, seconds = share - filled, costs.seconds_of(item)
        if seconds > 1.5 * wanted:  # up to half more than wanted is cheaper than another piece
            fits_next = bool(items) and seconds <= whole_seconds
            pair = cut(item, wanted / seconds) if wanted >= smallest and not fits_next else None
            if pair is None and items:
                backlog.push(item)
                break
            if pair is not None:
                whole, (item, rest) = item, pair
                costs.cut(whole, wanted / seconds, item, rest)
                backlog.push(rest)
                seconds = costs.seconds_of(item)
        items.append(item)
        filled += seconds
    return tuple(items), filled
