"""Decides what runs next, and how much of it at a time. Pure: no clock, no Spark, no I/O, so a simulator can drive it.

The rule is factoring (Hummel, Schonberg, Flynn, CACM 1992) with costs that are learnt on the way. When slots fall idle,
each gets 3/4 of R / P seconds of work, where R is the estimated work left anywhere and P the number of tasks that may
run at once; what a task is given is also its budget, and what it cannot finish in that time comes back. So no task runs
longer than its part of what is left, whatever the estimate was worth, and pieces get smaller towards the end. A budget
is why the share can be larger than the usual half: a wrong estimate costs a checkpoint, not a straggler. As long as
nothing is known of the cost, each task gets a short budget, and 3/4 of R / P counted in units. If there are fewer work
items than tasks, the first stage deals out all of the work instead, so that a short run is one stage.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import attrs

from sdf.execution.work_items import WorkItem
from sdf.scheduling.cost_model import CostModel
from sdf.scheduling.work_queue import WorkQueue

Cut = Callable[[WorkItem, float], tuple[WorkItem, WorkItem] | None]
# Names in quotes are rows of benchmarks/ablate.py, which get worse with another value.
_SHARE = 0.75  # of R / P; "slow to open, 20 s"
_IF_NOT = 2.0  # times the time so far: the longest task while estimates are right; "losses and latecomers"
_IF_SURPRISED = 0.2  # the same once an estimate was wrong; "narrow 0.5 %, 1 s", "4,000 elements, twenty dear, 20 s"
_LEAST_LONGEST_SECONDS = 0.4  # a task may be planned for this long however short the run has been; "hot 5 %, 1 s"
_OVERFULL = 1.5  # what takes up to so many times what is wanted is not cut; "slow to open, 20 s"
_LEAST_PART = 0.25  # of what a task or a lane is to get: it gets no smaller piece to fill it up; "files, 5 s"
_ITEMS_WHILE_COST_UNKNOWN = 1000  # per task, as most of more would come back; "100,000 elements"

__all__ = ["Limits", "PlannedTask", "Tuning", "deal", "plan_stage", "scaled", "tasks_allowed"]


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

    def with_start(self, start_seconds: float) -> Tuning:
        """Return these for a run in which starting a stage takes so long: a smaller piece costs more than it brings."""
        return attrs.evolve(self, min_piece_seconds=max(self.min_piece_seconds, start_seconds))

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


def tasks_allowed(slots: int, seconds: float, costs: CostModel, tuning: Tuning, limits: Limits) -> int:
    """Return how many tasks may run at once: one per slot, as far as the backlog feeds them, within the bounds.

    It is expected to take so many seconds; once estimates were wrong that keeps no slot idle.
    """
    trusted = costs.known() and not costs.surprised
    worth = int(min(slots, seconds / tuning.min_piece_seconds + 1)) if trusted else slots
    most = limits.max_tasks if limits.max_tasks is not None else max(slots, limits.min_tasks)
    return min(max(worth, limits.min_tasks), most)


def plan_stage(
    backlog: WorkQueue,
    costs: CostModel,
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
        tasks: how many tasks to plan.
        width: how many tasks may run at once in all.
        running_seconds: estimated seconds left in tasks that run now.
        elapsed_seconds: how long the run has taken so far; no task is planned for more than twice that, and for much
            less once an estimate was wrong, so that one that is far too high cannot keep a straggler going.
        tuning: budgets.
        limits: bounds.
        cut: cuts a work item at a fraction of its work into two, or declines with None.

    Returns:
        At most ``tasks`` tasks, none of them empty.
    """
    known = costs.known()
    few = not known and len(backlog) < width
    share = enough = (1.0 if few else _SHARE) * (backlog.seconds() + running_seconds) / width
    if known:
        longest = max((_IF_SURPRISED if costs.surprised else _IF_NOT) * elapsed_seconds, _LEAST_LONGEST_SECONDS)
        share = max(min(share, longest), tuning.min_piece_seconds)
        share = budget = min(share, tuning.longest())
        enough = min(enough, share) if costs.surprised else share
    else:
        budget = min(tuning.first_budget_seconds, tuning.longest())
    room = sys.maxsize if limits.max_items is None else limits.max_items
    planned: list[PlannedTask] = []
    while len(planned) < tasks and len(backlog) and room > 0:
        most = room if known else min(room, _ITEMS_WHILE_COST_UNKNOWN)
        smallest = tuning.min_piece_seconds if known else share * _LEAST_PART
        items, seconds = _fill(backlog, share, smallest, most, costs, cut, whole_seconds=share, enough=enough)
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


def deal(backlog: WorkQueue, costs: CostModel, lanes: int, *, cut: Cut) -> list[list[WorkItem]]:
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
        items, _ = _fill(backlog, share, share * _LEAST_PART, sys.maxsize, costs, cut, whole_seconds=0.0, enough=share)
        shares.append(list(items))
    while len(backlog):
        shares[len(backlog) % lanes].append(backlog.pop())
    return shares


def _fill(
    backlog: WorkQueue,
    share: float,
    smallest: float,
    most: int,
    costs: CostModel,
    cut: Cut,
    *,
    whole_seconds: float,
    enough: float,
) -> tuple[tuple[WorkItem, ...], float]:
    """Take about ``share`` seconds of work, at most ``most`` work items; cut the one that is too big.

    With ``enough`` of them no other is added: where estimates were wrong, few small work items are one task each, as
    any of them may be dear. What takes no longer than ``whole_seconds`` is not cut, only to fill up what others have
    left; it is for the next.
    """
    items: list[WorkItem] = []
    filled = 0.0
    while len(backlog) and len(items) < most and (filled < enough or not items):
        item = backlog.pop()
        wanted, seconds = share - filled, costs.seconds_of(item)
        if seconds > _OVERFULL * wanted:
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
