"""Decides when the next stage is planned, for how many tasks, and when they begin: a little before slots fall idle.

To start a stage takes Spark a moment, in which slots would wait. How long is learnt from the stages of the run: a busy
machine takes several times as long. No piece is made that takes less time than that. The tasks that are about to end
are counted as idle: what follows them is planned before they end, and waits in Spark's queue. Where more tasks are
wanted than there are slots some wait anyway, and where their number is bounded none may wait beside those that run:
there a stage is planned only for what is idle. Of many slots a few may idle for a moment, until one stage serves more
of them. Pure like `sdf.scheduling.factoring`: the driver of a run and the simulators ask the same.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort

import attrs

from sdf.scheduling.factoring import Limits, PlannedTask, Tuning, plan_stage, tasks_allowed
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue

__all__ = ["InFlight", "PlannedStage", "StagePlanner"]

# Names in quotes are rows of benchmarks/ablate.py, which get worse with another value.
_MORE = 1.25  # times what was seen: too late leaves slots idle, too early weighs too soon; "slow to start, hot, 5 s"
_FEW = 64  # of so many slots one may idle until more do; "what is asked of the driver", four times as many stages
_KEEPS = 1.2  # times its budget: what a task of the first stage keeps; benchmarks/skew.py: one giant element, 1 s
_FEW_SECONDS = 0.25  # but no longer than this; "Pareto, 128 slots"


@attrs.frozen
class PlannedStage:
    """Tasks that start together.

    Attributes:
        tasks: in the order in which they get slots.
        ends: when each is expected to end, by the clock of the planner's caller.
        min_piece_seconds: a task whose budget is spent gives back what is left only if that takes longer than this.
            While no cost is known it is more than the budget, so that a short run is one stage.
        idle: how many of the tasks find an idle slot; the others wait for one.
    """

    tasks: tuple[PlannedTask, ...]
    ends: tuple[float, ...]
    min_piece_seconds: float
    idle: int


class InFlight:
    """When the tasks in flight are expected to end, in order: asking costs little where there are ten thousand."""

    def __init__(self) -> None:
        self._ends: list[float] = []

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, end: float) -> None:
        """Enter a task by when it is expected to end; all times are by one clock."""
        insort(self._ends, end)

    def remove(self, end: float) -> None:
        """Take out a task that was expected to end then."""
        del self._ends[bisect_left(self._ends, end)]

    def seconds(self, now: float) -> float:
        """Return the estimated seconds that are left in them."""
        late = bisect_right(self._ends, now)
        return sum(self._ends[late:]) - (len(self._ends) - late) * now

    def idle_soon(self, width: int, now: float, start_seconds: float) -> int:
        """Return how many tasks to plan: one for each slot that is idle or is about to be.

        Those that end close together get their next tasks in one stage. What runs longer than was expected counts too,
        but no more than a task per slot waits for its turn.

        Args:
            width: how many tasks may run at once.
            now: by the same clock.
            start_seconds: what starting a stage takes.
        """
        return width - len(self._ends) + min(width, bisect_right(self._ends, now + 2 * start_seconds))

    def until_idle(self, now: float, start_seconds: float) -> float:
        """Return in how many seconds to plan the next stage, so that it is there when a task ends; inf if none does."""
        first = bisect_right(self._ends, now + start_seconds)
        return self._ends[first] - start_seconds - now if first < len(self._ends) else math.inf


class StagePlanner:
    """What waits and what runs in a run of stages, and the next stage.

    Args:
        work: what is known of the work, and how it is cut.
        tuning: budgets.
        limits: bounds on a stage.
        tasks_per_slot: how many tasks to keep in flight per slot.

    Attributes:
        backlog: what nobody runs; what comes back is pushed there.
        in_flight: the tasks that were planned and have not ended.
    """

    def __init__(self, work: RunState, tuning: Tuning, limits: Limits, *, tasks_per_slot: int = 1) -> None:
        self.backlog = WorkQueue(work.costs)
        self.in_flight = InFlight()
        self._work = work
        self._tuning = tuning
        self._limits = limits
        self._tasks_per_slot = tasks_per_slot
        self._planned_at = self._more_at = -math.inf  # the last stage, and the next if that waits for more to idle
        self._start_seconds: float | None = None  # as it was seen

    @property
    def start_seconds(self) -> float:
        """What starting a stage takes, as far as it was seen, and a little more; 0 before that."""
        return 0.0 if self._start_seconds is None else _MORE * self._start_seconds

    def started(self, seconds: float) -> None:
        """Learn what starting a stage took: from then until the receipt of a task was there, less what the task ran.

        Only of a task that found a slot idle; what another took beside that it may have waited.
        """
        self._start_seconds = seconds if self._start_seconds is None else (self._start_seconds + seconds) / 2

    def plan(self, slots: int, now: float, elapsed_seconds: float) -> PlannedStage | None:
        """Take the next stage from the backlog, its tasks are in flight from here on; None if none is due.

        Args:
            slots: how many tasks Spark runs at once.
            now: by any clock, always the same.
            elapsed_seconds: how long the run has taken so far.
        """
        if not len(self.backlog):
            return None
        running_seconds = self.in_flight.seconds(now)
        tuning = self._tuning.with_start(self.start_seconds)
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
        self._more_at = self._planned_at + _FEW_SECONDS if 0 < tasks < width // _FEW else -math.inf
        if now < self._more_at:
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
        least_seconds = 0.0 if known else _KEEPS * planned[0].budget_seconds
        return PlannedStage(tuple(planned), ends, max(tuning.min_piece_seconds, least_seconds), max(0, idle))

    def seconds_until_due(self, now: float) -> float:
        """Return in how many seconds to plan the next stage, if no task ends before; inf if there is no such time."""
        if now < self._more_at:
            return self._more_at - now
        return self.in_flight.until_idle(now, self.start_seconds) if self._plans_ahead() else math.inf

    def _plans_ahead(self) -> bool:
        """Tell whether a task may wait in Spark's queue for the slot of one that is about to end."""
        return bool(len(self.backlog)) and self._work.costs.known() and self._limits.max_tasks is None
