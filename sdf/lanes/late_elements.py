"""Elements that are expanded while lanes run: idle attempts share them out, else the lanes with the least to do."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import attrs

from sdf.execution.expansion import Expanded
from sdf.lanes.assignment import Assignment
from sdf.lanes.attempts import LaneState
from sdf.lanes.stealing import Stealing
from sdf.scheduling.factoring import deal
from sdf.scheduling.run_state import RunState, enter
from sdf.scheduling.work_queue import WorkQueue

__all__ = ["LateElements"]


@attrs.frozen(eq=False)
class LateElements:
    """See the module's docstring.

    Args:
        work: the work of the run.
        lanes: the lanes of the run.
        stealing: knows the idle attempts.
        assignment: sends them what they run.
    """

    _work: RunState
    _lanes: Sequence[LaneState]
    _stealing: Stealing
    _assignment: Assignment

    def enter(self, elements: Iterable[Expanded], now: float) -> None:
        """Enter elements into the state of the run, and queue their work items at lanes that are not sealed."""
        backlog = WorkQueue(self._work.costs)
        enter(self._work, backlog, elements)
        idle = [attempt for attempt in self._stealing.idle() if attempt.alone()]
        if not idle:
            self._queue(backlog)
            return
        shares = deal(backlog, self._work.costs, len(idle), cut=self._work.cut)
        for attempt, share in zip(idle, shares, strict=True):
            for item in share:
                attempt.lane.queue.push(item)
            if share:
                self._assignment.next(attempt, now)

    def _queue(self, backlog: WorkQueue) -> None:
        """Queue each work item at the lane whose queue takes the least time, the largest first."""
        unsealed = [lane for lane in self._lanes if lane.sealed is None]
        lanes = [lane for lane in unsealed if lane.attempts or not lane.begun] or unsealed
        shortest = [(lane.queue.seconds(), number) for number, lane in enumerate(lanes)]
        heapq.heapify(shortest)
        while len(backlog):
            item = backlog.pop()
            queued_seconds, number = shortest[0]
            heapq.heapreplace(shortest, (queued_seconds + self._work.costs.seconds_of(item), number))
            lanes[number].queue.push(item)
            if not lanes[number].begun:
                self._stealing.needs_slot(lanes[number])
