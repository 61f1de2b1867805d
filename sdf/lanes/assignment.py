"""Assigns work items to attempts, and moves work from one lane to another.

- An attempt that has run all it holds gets the next work items of its lane's queue.
- If that queue is empty, the attempt steals half of the victim's queue (`sdf.lanes.stealing`). If the victim's queue is
  empty too, the victim gets a steal request. So queued work moves before running work is split.
- What a victim gives away goes to the thief: the residuals of a split at once, unstarted work items from the victim's
  queue. The residuals that process() deferred stay with their lane.
- An idle attempt ends (`sdf.lanes.policy`) when no lane is busy, its patience is over, or its slot is needed
  (`Stealing.leavers`).
- Elements that are expanded while lanes run are shared out among idle attempts. Without any, each goes to the lane with
  the least to do.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import attrs

from sdf.errors import CoordinatorError, InvalidValueError, show
from sdf.execution.bulk.table import Rows
from sdf.execution.expansion import Expanded
from sdf.execution.invoker import Residual
from sdf.execution.work_items import WorkItem
from sdf.lanes import messages
from sdf.lanes.attempts import Attempt, LaneState
from sdf.lanes.delayed_work import DelayedWork
from sdf.lanes.replayed import Replayed
from sdf.lanes.segmented import Segmented
from sdf.lanes.statistics import Statistics
from sdf.lanes.steal_policy import takes
from sdf.lanes.stealing import Stealing
from sdf.scheduling.factoring import deal
from sdf.scheduling.run_state import RunState, enter
from sdf.scheduling.work_queue import WorkQueue
from sdf.serialization.pickling import TooLongError
from sdf.serialization.values import Parts, ValuesError

__all__ = ["Assignment"]

log = logging.getLogger("sdf.coordinator")


@attrs.define(eq=False)
class Assignment:
    """See the module's docstring.

    Args:
        work: the work of the run.
        lanes: the lanes of the run.
        stealing: chooses victim and thief.
        statistics: the run's statistics.
        send: sends a message to an attempt; raises `TooLongError` for an `Assign` that is too long.
        delayed: the deferred work of the lanes.
        policy: lets attempts end.
        min_piece_seconds: estimated seconds of the smallest piece worth moving.
    """

    _work: RunState
    _lanes: Sequence[LaneState]
    _stealing: Stealing
    _statistics: Statistics
    _send: Callable[[Hashable, messages.ToLane], None]
    _delayed: DelayedWork
    _policy: Replayed | Segmented
    _min_piece_seconds: float
    _unmovable: bool = attrs.field(default=False, init=False)  # a lane's description of a restriction was not read

    def next(self, attempt: Attempt, now: float) -> None:
        """Send an attempt its next work items; without any, let it idle or seal its lane."""
        lane = attempt.lane
        items = self._again(attempt)
        if not items and lane.sealed is None:
            items = self._from_queue(attempt)
        attempt.was_given(items, self._expected(attempt, items) if items else None, now)
        if items:
            self._stealing.runs(attempt)
        elif lane.delayed or attempt.alone() or (self._stealing.more_comes and lane.sealed is None):
            self._stealing.rests(attempt, now)
        else:
            self._leave(attempt, now)
        self._stealing.rank(attempt, now)

    def _again(self, attempt: Attempt) -> list[WorkItem]:
        """Send an attempt the next of the content that it must run again; return those sent."""
        again = attempt.again
        items = [again.popleft() for _ in range(min(attempt.batch, len(again)))]
        sent = self._assign(attempt, items)
        again.extendleft(reversed(items[sent:]))
        return items[:sent]

    def _from_queue(self, attempt: Attempt) -> list[WorkItem]:
        """Send an attempt the next work items of its lane's queue; return those sent."""
        lane, ledger = attempt.lane, self._work.ledger
        items = [lane.queue.pop() for _ in range(min(attempt.batch, len(lane.queue)))]
        ledger.assign(lane.number, items)
        sent = self._assign(attempt, items)
        lane.take_back(ledger, items[sent:])
        for other in lane.attempts:
            if other is not attempt:
                other.again.extend(items[:sent])
        return items[:sent]

    def _assign(self, attempt: Attempt, items: list[WorkItem]) -> int:
        """Send as many of ``items``, from the first on, as fit in a message; return their number."""
        sent = len(items)
        while sent:
            try:
                self._send(attempt.name, messages.Assign(tuple(items[:sent])))
                break
            except TooLongError as error:
                if sent == 1:
                    raise InvalidValueError(
                        f"{self._work.name} cannot be run on element {show(items[0].element)}: {error} Elements are "
                        f"descriptors, such as a path; let process() read what is large."
                    ) from None
                sent //= 2
        attempt.fitted(sent, len(items))
        return sent

    def _expected(self, attempt: Attempt, items: list[WorkItem]) -> messages.Heartbeat:
        """Return the expected heartbeat of an attempt that starts the first of ``items``, from estimated costs.

        The attempt's own first heartbeat comes later (`sdf.lanes.heartbeat`), and idle attempts would wait for it.
        """
        seconds, unstarted = self._work.costs.seconds_of(items[0]), sum(item.elements for item in items[1:])
        return messages.Heartbeat(items[0].id, True, 0.0, 0.0, seconds, unstarted, attempt.done.units)

    def _leave(self, attempt: Attempt, now: float) -> None:
        """Let an attempt end, and other attempts at its lane, too."""
        for other in self._policy.ends(attempt, now):
            self.next(other, now)

    def settle(self, now: float) -> None:
        """Let idle attempts steal, and end those that `Stealing.leavers` names."""
        if self._stealing.none_idle():  # the usual case
            return
        while (takeover := self._stealing.takeover(now)) is not None:
            self._take_over(*takeover, now)
        while (pair := self._stealing.pair(now)) is not None:
            victim, thief = pair
            if len(victim.lane.queue):
                self._move(victim, thief, now)
            else:
                self.request(victim, now)
        for attempt in self._policy.first_to_end(list(self._stealing.leavers(now))):
            self._leave(attempt, now)

    def frees_slot(self, now: float) -> None:
        """End an idle attempt to free a slot for what expands elements; the last lane fails, as more work comes."""
        for attempt in self._stealing.longest_idle(1):
            if self._policy.unsealed > 1:
                self._leave(attempt, now)
            else:
                error = CoordinatorError(
                    f"lane {attempt.lane.number} of {self._work.name} gives its slot to a task that expands elements. "
                    f"Spark runs the lane again where it retries tasks (local[N,4], not local[N])."
                )
                self._send(attempt.name, messages.Fail(error))

    def request(self, victim: Attempt, now: float) -> None:
        """Send a steal request for all that the victim has not started or, if that is nothing, half of what it runs."""
        self._stealing.requested(victim, now)
        self._send(victim.name, messages.StealRequest(self._min_piece_seconds))

    def _take_over(self, orphan: LaneState, thief: Attempt, now: float) -> None:
        """Move the queue of a lane that never had an attempt to the thief's lane, where other idle attempts steal."""
        log.debug("%s: lane %d takes over what lane %d has", self._work.name, thief.lane.number, orphan.number)
        orphan.given_away += len(orphan.queue)
        while len(orphan.queue):
            thief.lane.queue.push(orphan.queue.pop())
        self.next(thief, now)

    def _move(self, victim: Attempt, thief: Attempt, now: float) -> None:
        """Move about half of the victim's seconds left from its lane's queue to the thief's, at least one work item."""
        queue, wanted, moved = victim.lane.queue, self._stealing.seconds_left(victim) / 2, 0.0
        while len(queue) and takes(moved, wanted):
            item = queue.pop()
            seconds = self._work.costs.seconds_of(item)
            if not takes(moved, wanted, seconds):
                queue.push(item)
                break
            thief.lane.queue.push(item)
            victim.lane.given_away += 1
            moved += max(seconds, 1e-9)
        log.debug(
            "%s: lane %d steals %.2f s from lane %d", self._work.name, thief.lane.number, moved, victim.lane.number
        )
        self._stealing.rank(victim, now)
        self.next(thief, now)

    # What a lane gives away.

    def split(self, attempt: Attempt, message: messages.Split, now: float) -> None:
        """Enter a split; queue the residuals at the thief's lane or, without a thief, at their own."""
        lane = attempt.lane
        if message.asked:
            self._stealing.answered(attempt)
        parts = self._read(attempt, message) if attempt.alone() else None
        if parts is None:
            if message.asked:
                attempt.declined = True
            self._send(attempt.name, messages.Verdict(False))
            return
        thief = (self._stealing.thief() if message.asked else None) or attempt
        self._work.costs.learn(message.item_id, message.units, message.seconds)
        children = self._work.split(lane.number, message.item_id, *parts)
        lane.given_away += len(children)
        log.debug(
            "%s: lane %d keeps %s, cut off for lane %d: %d",
            self._work.name, lane.number, parts[0], thief.lane.number, len(children),
        )  # fmt: skip
        self._send(attempt.name, messages.Verdict(True))
        for child, delay_seconds in children:
            if delay_seconds > 0:
                self._delayed.add(lane, child, now + delay_seconds)
            else:
                thief.lane.queue.push(child)
        attempt.has_split(self._stealing.seconds_until_end(attempt, now) / 2)
        self._stealing.rank(attempt, now)
        if thief is not attempt:
            self.next(thief, now)

    def _read(self, attempt: Attempt, message: messages.Split) -> tuple[Any, list[Residual]] | None:
        if message.item_id not in attempt.given:
            raise messages.ProtocolError(
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

    def returned(self, attempt: Attempt, message: messages.Returned, now: float) -> None:
        """Put unstarted work items back into the lane's queue."""
        self._stealing.answered(attempt)
        if not attempt.alone():
            self._send(attempt.name, messages.Verdict(False))
            return
        if not attempt.given.keys() >= set(message.item_ids):
            raise messages.ProtocolError(f"lane {attempt.lane.number} gives back work items that it was not given.")
        attempt.lane.take_back(self._work.ledger, map(self._work.ledger.item, message.item_ids))
        attempt.has_returned()
        self._send(attempt.name, messages.Verdict(True))
        self._stealing.rank(attempt, now)  # `settle` then moves half of it to an idle attempt

    def declined(self, attempt: Attempt, message: messages.Declined, now: float) -> None:
        """Ask the lane for nothing before its next heartbeat."""
        self._stealing.answered(attempt)
        self._statistics.refusals[message.reason] += 1
        attempt.declined = True
        self._stealing.rank(attempt)

    # Late elements.

    def share_out(self, elements: Iterable[Expanded], now: float) -> None:
        """Enter elements that are expanded while lanes run: idle attempts share them out, else they are queued."""
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
                self.next(attempt, now)

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
