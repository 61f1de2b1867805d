"""Handover: what becomes of the work that a lane gives away, asked by a steal request or because process() deferred."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Any

import attrs

from sdf.execution.bulk.table import Rows
from sdf.execution.invoker import Residual
from sdf.lanes.assignment import Assignment
from sdf.lanes.attempts import Attempt
from sdf.lanes.delayed_work import DelayedWork
from sdf.lanes.messages import Declined, ProtocolError, Returned, Split, ToLane, Verdict
from sdf.lanes.statistics import Statistics
from sdf.lanes.stealing import Stealing
from sdf.scheduling.run_state import RunState
from sdf.serialization.values import Parts, ValuesError

__all__ = ["Handover"]

log = logging.getLogger("sdf.coordinator")


@attrs.define(eq=False)
class Handover:
    """See the module's docstring.

    Args:
        work: the work of the run.
        stealing: chooses the thief.
        statistics: the run's statistics.
        delayed: the deferred work of the lanes.
        assignment: sends the thief what it runs.
        send: sends a message to an attempt.
    """

    _work: RunState
    _stealing: Stealing
    _statistics: Statistics
    _delayed: DelayedWork
    _assignment: Assignment
    _send: Callable[[Hashable, ToLane], None]
    _unmovable: bool = attrs.field(default=False, init=False)  # a lane's description of a restriction was not read

    def split(self, attempt: Attempt, message: Split, now: float) -> None:
        """Enter a split; queue the residuals at the thief's lane or, without a thief, at their own."""
        lane = attempt.lane
        if message.asked:
            self._stealing.answered(attempt)
        parts = self._read(attempt, message) if attempt.alone() else None
        if parts is None:
            if message.asked:
                attempt.declined = True
            self._send(attempt.name, Verdict(False))
            return
        thief = (self._stealing.thief() if message.asked else None) or attempt
        self._work.costs.learn(message.item_id, message.units, message.seconds)
        children = self._work.split(lane.number, message.item_id, *parts)
        lane.given_away += len(children)
        log.debug(
            "%s: lane %d keeps %s, cut off for lane %d: %d",
            self._work.name, lane.number, parts[0], thief.lane.number, len(children),
        )  # fmt: skip
        self._send(attempt.name, Verdict(True))
        for child, delay_seconds in children:
            if delay_seconds > 0:
                self._delayed.add(lane, child, now + delay_seconds)
            else:
                thief.lane.queue.push(child)
        attempt.has_split(self._stealing.seconds_until_end(attempt, now) / 2)
        self._stealing.rank(attempt, now)
        if thief is not attempt:
            self._assignment.next(thief, now)

    def _read(self, attempt: Attempt, message: Split) -> tuple[Any, list[Residual]] | None:
        if message.item_id not in attempt.given:
            raise ProtocolError(
                f"lane {attempt.lane.number} has split work item {message.item_id}, which it does not run."
            )
        read = Parts(attempt.given[message.item_id]).read
        try:
            primary = read(message.primary)
            residuals = [
                Residual(read(restriction), delay_seconds, read(watermark), deferred=not message.asked)
                for restriction, delay_seconds, watermark in message.residuals
            ]
            if residuals and type(residuals[-1].restriction) is Rows:  # the others hold the rows behind this one
                residuals[:-1] = [attrs.evolve(one, deferred=False) for one in residuals[:-1]]
        except ValuesError as error:
            if not self._unmovable:
                log.warning("%s cannot be split while it runs: %s", self._work.name, error)
            self._unmovable = True
            return None
        return primary, residuals

    def returned(self, attempt: Attempt, message: Returned, now: float) -> None:
        """Put unstarted work items back into the lane's queue."""
        self._stealing.answered(attempt)
        if not attempt.alone():
            self._send(attempt.name, Verdict(False))
            return
        if not attempt.given.keys() >= set(message.item_ids):
            raise ProtocolError(f"lane {attempt.lane.number} gives back work items that it was not given.")
        attempt.lane.take_back(self._work.ledger, map(self._work.ledger.item, message.item_ids))
        attempt.has_returned()
        self._send(attempt.name, Verdict(True))
        self._stealing.rank(attempt, now)  # `settle` then moves half of it to an idle attempt

    def declined(self, attempt: Attempt, message: Declined, now: float) -> None:
        """Ask the lane for nothing before its next heartbeat."""
        self._stealing.answered(attempt)
        self._statistics.refusals[message.reason] += 1
        attempt.declined = True
        self._stealing.rank(attempt)
