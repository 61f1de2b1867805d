"""Decides what runs next, and how much of it at a time. Pure: no clock, no Spark, no I/O, so a simulator can drive it.

The rule is factoring (Hummel, Schonberg, Flynn, CACM 1992) with costs that are measured during the run. When slots fall
idle, the planner gives each of them 3/4 * R / P seconds of work. R is the estimated seconds of all work left, queued or
running. P is the number of tasks that may run at once. The share is also the task's budget: the task gives back what it
cannot finish in that time. So no task runs longer than its share, even if the estimate is wrong, and pieces get smaller
towards the end. The share can be larger than the usual half because a wrong estimate costs a split, not a straggler.
While no cost is known, each task gets a short budget, and 3/4 * R / P is counted in units. If there are then fewer work
items than tasks, the first stage takes all of the work, so that a short run is one stage.
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
_LONGEST_OF_ELAPSED = 2.0  # longest task / elapsed time, while estimates are right; "losses and latecomers"
_LONGEST_IF_SURPRISED = (
    0.2  # the same, once an estimate was wrong; "narrow 0.5 %, 1 s", "4,000 elements, twenty dear, 20 s"
)
_LEAST_LONGEST_SECONDS = 0.4  # a task may be planned for this long, however young the run is; "hot 5 %, 1 s"
_OVERFULL = 1.5  # a work item of up to so many times the wanted seconds is not cut; "slow to open, 20 s"
_LEAST_PART = 0.25  # of the share of a task or lane: no smaller piece is cut to fill it up; "files, 5 s"
_ITEMS_WHILE_COST_UNKNOWN = 1000  # per task; it would give back most of any more; "100,000 elements"

__all__ = ["Limits", "PlannedTask", "Tuning", "deal", "plan_stage", "scaled", "tasks_allowed"]


@attrs.frozen
class Tuning:
    """The times that the planner works with, in seconds.

    Attributes:
        first_budget_seconds: budget of a task while no cost is known.
        min_piece_seconds: the smallest piece worth a task of its own.
        budget_seconds: the largest budget of any task, None for no fixed limit.
    """

    first_budget_seconds: float
    min_piece_seconds: float
    budget_seconds: float | None

    def with_least(self, seconds: float) -> Tuning:
        """Return this with no piece smaller than ``seconds``: a smaller one costs more to begin than it saves."""
        return attrs.evolve(self, min_piece_seconds=max(self.min_piece_seconds, seconds))

    def longest(self) -> float:
        """Return the largest budget in seconds, infinity if there is no fixed limit."""
        return math.inf if self.budget_seconds is None else self.budget_seconds


@attrs.frozen
class Limits:
    """Bounds on one stage.

    Attributes:
        min_tasks: the fewest tasks to keep running while there is work for them.
        max_tasks: the most tasks that run at once, None for no bound.
        max_items: the most work items in one stage, None for no bound.
    """

    min_tasks: int
    max_tasks: int | None
    max_items: int | None


@attrs.frozen
class PlannedTask:
    """The work items of one task, in order, the seconds they are expected to take, and the task's budget."""

    items: tuple[WorkItem, ...]
    expected_seconds: float
    budget_seconds: float


def tasks_allowed(slots: int, seconds: float, costs: CostModel, tuning: Tuning, limits: Limits) -> int:
    """Return how many tasks may run at once, within the limits.

    It is one per slot, but no more than there are pieces of ``min_piece_seconds`` in ``seconds``, the estimate of all
    work left. While no cost is known, and once an estimate was wrong, it is one per slot.
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
        backlog: the work queue; the planned work items are removed from it.
        costs: the cost model of the run.
        tasks: how many tasks to plan.
        width: how many tasks may run at once in all.
        running_seconds: estimated seconds left in the tasks that run now.
        elapsed_seconds: seconds that the run has taken so far. No task is planned for more than twice that, or a fifth
            of it once an estimate was wrong: a far too high estimate would otherwise allow a straggler.
        tuning: budgets and the smallest piece.
        limits: bounds on the stage.
        cut: cuts a work item at a fraction of its work into two, or declines with None.

    Returns:
        At most ``tasks`` tasks, none of them empty.
    """
    known = costs.known()
    few = not known and len(backlog) < width
    share = enough = (1.0 if few else _SHARE) * (backlog.seconds() + running_seconds) / width
    if known:
        longest = max(
            (_LONGEST_IF_SURPRISED if costs.surprised else _LONGEST_OF_ELAPSED) * elapsed_seconds,
            _LEAST_LONGEST_SECONDS,
        )
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
    """Return how many tasks to use for ``backlog`` work items: the largest power of two up to that, within bounds.

    Source: the auto-scaling of the block reader of Apache Apex Malhar, with the bounds applied last.
    """
    if backlog > maximum:
        return maximum
    return max(minimum, 1 << (backlog.bit_length() - 1) if backlog else 0)


def deal(backlog: WorkQueue, costs: CostModel, lanes: int, *, cut: Cut) -> list[list[WorkItem]]:
    """Divide all of the backlog evenly into the shares that lanes start with.

    Args:
        backlog: all the work; it is empty afterwards.
        costs: the cost model of the run, which commonly knows nothing yet.
        lanes: how many shares.
        cut: cuts a work item at a fraction of its work into two, or declines with None.

    Returns:
        One list per lane; it is empty if the work could not be cut into enough pieces.
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
    """Take about ``share`` seconds of work, at most ``most`` work items; cut a work item that is too big.

    No work item is added after ``enough`` seconds. That is less than ``share`` once an estimate was wrong: then a few
    small work items become one task each, as any of them may be expensive. A work item of at most ``whole_seconds`` is
    not cut merely to fill up the task; it is left for the next task. Rows of a table are always cut to fill it up: a
    cut between two rows opens no element again.
    """
    items: list[WorkItem] = []
    filled = 0.0
    while len(backlog) and len(items) < most and (filled < enough or not items):
        item = backlog.pop()
        wanted, seconds = share - filled, costs.seconds_of(item)
        if seconds > _OVERFULL * wanted or (seconds > wanted and item.elements > 1):
            fits_next = bool(items) and seconds <= whole_seconds and item.elements == 1
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
