"""Decides when the next stage is planned and for how many tasks: a little before slots fall idle.

Spark takes a moment to start a stage, and slots would be idle meanwhile. The planner measures that time during the run,
as a busy machine takes several times as long, and makes no piece that runs for less. Each piece of an element also
opens it again, a file for example, so no piece runs for less than a few times the time to the first claim.

A slot whose task is about to end counts as idle: its next task is planned before that end, and waits in Spark's queue.
There are two exceptions, in which a stage is planned only for idle slots. If more tasks than slots are wanted, some
wait in any case. If the number of tasks is bounded, none may wait beside those that run. Among many slots, a few idle
ones wait briefly, so that one stage serves more of them. Pure like `sdf.scheduling.factoring`: the driver and the
simulators call the same code.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

import attrs

from sdf.execution.work_items import WorkItem
from sdf.scheduling.factoring import Limits, PlannedTask, Tuning, plan_stage, tasks_allowed
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue

__all__ = ["InFlight", "PlannedStage", "StagePlanner"]

# Names in quotes are rows of benchmarks/ablate.py, which get worse with another value.
_START_MARGIN = 1.25  # times the measured start: late, slots idle; early, estimates are old; "slow to start, hot, 5 s"
_OPENINGS = 4.0  # the least a piece takes, times the time to its first claim; "slow to open, hot, 20 s"
_SLOTS_PER_IDLE = 64  # with fewer idle than 1 of so many, wait; "what is asked of the driver": 4 times the stages
_FIRST_STAGE_SLACK = 1.2  # times its budget, what a task of the first stage keeps; skew.py: one giant element, 1 s
_FEW_SECONDS = 0.25  # since the last stage: it waits no longer; "Pareto, 128 slots"


@attrs.frozen
class PlannedStage:
    """Tasks that start together.

    Attributes:
        tasks: in the order in which they get slots.
        ends: when each task is expected to end, by the clock of the planner's caller.
        min_piece_seconds: a task whose budget is spent gives back its remaining work only if that takes longer than
            this. While no cost is known it is more than the budget, so that a short run is one stage.
        idle: how many of the tasks find an idle slot; the others wait for one.
    """

    tasks: tuple[PlannedTask, ...]
    ends: tuple[float, ...]
    min_piece_seconds: float
    idle: int


class InFlight:
    """When the tasks in flight are expected to end, sorted, so that a question is cheap with ten thousand tasks."""

    def __init__(self) -> None:
        self._ends: list[float] = []

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, end: float) -> None:
        """Enter a task by its expected end; all times are by one clock."""
        insort(self._ends, end)

    def remove(self, end: float) -> None:
        """Remove a task by the expected end it was entered with."""
        del self._ends[bisect_left(self._ends, end)]

    def seconds(self, now: float) -> float:
        """Return the estimated seconds left in the tasks, summed."""
        late = bisect_right(self._ends, now)
        return sum(self._ends[late:]) - (len(self._ends) - late) * now

    def idle_soon(self, width: int, now: float, start_seconds: float) -> int:
        """Return how many tasks to plan: one for each slot that is idle or is about to be.

        Slots that fall idle close together get their next tasks in one stage. A task that runs longer than expected
        counts as about to end. At most one task per slot waits in Spark's queue.

        Args:
            width: how many tasks may run at once.
            now: the time by the same clock.
            start_seconds: seconds to start a stage.
        """
        return width - len(self._ends) + min(width, bisect_right(self._ends, now + 2 * start_seconds))

    def until_idle(self, now: float, start_seconds: float) -> float:
        """Return in how many seconds to plan the next stage so that it is ready when a task ends; inf if none will."""
        first = bisect_right(self._ends, now + start_seconds)
        return self._ends[first] - start_seconds - now if first < len(self._ends) else math.inf


class StagePlanner:
    """Plans the stages of a run, one after the other.

    Args:
        work: the state of the run: its costs, and how to cut its work items.
        tuning: budgets and the smallest piece.
        limits: bounds on a stage.
        tasks_per_slot: how many tasks to keep in flight per slot.

    Attributes:
        backlog: the work queue; the caller pushes returned work items there.
        in_flight: the tasks that were planned and have not ended.
    """

    def __init__(self, work: RunState, tuning: Tuning, limits: Limits, *, tasks_per_slot: int = 1) -> None:
        self.backlog = WorkQueue(work.costs)
        self.in_flight = InFlight()
        self._work = work
        self._tuning = tuning
        self._limits = limits
        self._tasks_per_slot = tasks_per_slot
        self._planned_at = self._postponed_until = -math.inf  # last stage; next stage, if it waits for more idle slots
        self._start_seconds: float | None = None  # measured; None before the first stage

    @property
    def start_seconds(self) -> float:
        """Measured seconds to start a stage, times a margin; 0 before the first one."""
        return 0.0 if self._start_seconds is None else _START_MARGIN * self._start_seconds

    def started(self, seconds: float) -> None:
        """Enter the seconds that a stage took to start: from its start to a task's receipt, less the task's run time.

        Measure only tasks that found an idle slot; the time of any other may include waiting for one. Nor measure a
        task that was tried before: its time would include the attempts that were lost, and no piece runs for less.
        """
        self._start_seconds = seconds if self._start_seconds is None else (self._start_seconds + seconds) / 2

    def plan(self, slots: int, now: float, elapsed_seconds: float) -> PlannedStage | None:
        """Take the next stage from the backlog and count its tasks as in flight; None if no stage is due.

        Args:
            slots: how many tasks Spark runs at once.
            now: the time by any clock, always the same one.
            elapsed_seconds: seconds that the run has taken so far.
        """
        if not len(self.backlog):
            return None
        running_seconds = self.in_flight.seconds(now)
        tuning = self._tuning.with_least(max(self.start_seconds, _OPENINGS * self._work.costs.opening_seconds))
        width = tasks_allowed(
            slots * self._tasks_per_slot,
            self.backlog.seconds() + running_seconds,
            self._work.costs,
            tuning,
            self._limits,
        )
        idle, known = width - len(self.in_flight), self._work.costs.known()
        tasks = (
            self.in_flight.idle_soon(width, now, self.start_seconds) if self._plans_ahead() and width <= slots else idle
        )
        self._postponed_until = self._planned_at + _FEW_SECONDS if 0 < tasks < width // _SLOTS_PER_IDLE else -math.inf
        if now < self._postponed_until:
            return None
        planned = plan_stage(
            self.backlog,
            self._work.costs,
            tasks=tasks,
            width=width,
            running_seconds=running_seconds,
            elapsed_seconds=elapsed_seconds,
            tuning=tuning,
            limits=self._limits,
            cut=self._work.cut,
        )
        if not planned:
            return None
        self._planned_at = now
        begin = now + self.start_seconds if tasks > idle else now
        ends = tuple(begin + task.expected_seconds for task in planned)
        for end in ends:
            self.in_flight.add(end)
        least_seconds = 0.0 if known else _FIRST_STAGE_SLACK * planned[0].budget_seconds
        return PlannedStage(tuple(planned), ends, max(tuning.min_piece_seconds, least_seconds), max(0, idle))

    def plan_alone(self, items: Sequence[WorkItem], width: int, now: float) -> PlannedStage:
        """Count tasks of one work item each as in flight, for work that must run alone.

        Each has a small share of its own estimate as budget, so that what it does not reach is shared out.

        Args:
            items: the work items, no more than there are idle slots.
            width: how many tasks may run at once.
            now: as of `plan`.
        """
        least = self._tuning.first_budget_seconds
        tasks = []
        for item in items:
            seconds = self._work.costs.seconds_of(item)
            budget = min(max(least, seconds / (2 * width)), self._tuning.longest())
            tasks.append(PlannedTask((item,), min(seconds, budget), budget))
        ends = tuple(now + task.expected_seconds for task in tasks)
        for end in ends:
            self.in_flight.add(end)
        return PlannedStage(tuple(tasks), ends, self._tuning.min_piece_seconds, 0)

    def seconds_until_due(self, now: float) -> float:
        """Return in how many seconds to plan the next stage unless a task ends before; inf: not before a task ends."""
        if now < self._postponed_until:
            return self._postponed_until - now
        return self.in_flight.until_idle(now, self.start_seconds) if self._plans_ahead() else math.inf

    def _plans_ahead(self) -> bool:
        """Return whether a task may wait in Spark's queue for the slot of one that is about to end."""
        return bool(len(self.backlog)) and self._work.costs.known() and self._limits.max_tasks is None
