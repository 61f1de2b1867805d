"""Who is given what: the next work items of an attempt, a queue that moves to another lane, and the seal.

- An attempt is given the next items of its lane's queue when it has run what it holds.
- If the queue is empty, it steals (`sdf.lanes.stealing`): half of the victim's queue or, if that is empty, half of what
  the victim runs, by a steal request. So what was not started moves before what runs.
- If nobody will have anything for it, its lane is sealed.

What it is given fits in a message, whatever elements are made of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable

from sdf.errors import InvalidValueError, ReplayError, show
from sdf.execution.work_items import WorkItem
from sdf.lanes.attempts import Attempt, LaneState
from sdf.lanes.messages import Assign, Fail, Heartbeat, Sealed, StealRequest, ToLane, TooLongError
from sdf.lanes.statistics import Statistics
from sdf.lanes.stealing import Stealing
from sdf.scheduling.run_state import RunState

__all__ = ["Assignment"]

log = logging.getLogger("sdf.coordinator")


class Assignment:
    """See the module's docstring.

    Args:
        work: the work of the run.
        lanes: how many there are.
        stealing: who is victim, who thief.
        statistics: what came of it.
        send: sends a message to an attempt; raises `TooLongError` for an `Assign` that is too long.
        min_piece_seconds: the smallest piece worth moving.

    Attributes:
        unsealed: how many lanes are not sealed.
    """

    def __init__(
        self,
        work: RunState,
        lanes: int,
        stealing: Stealing,
        statistics: Statistics,
        *,
        send: Callable[[Hashable, ToLane], None],
        min_piece_seconds: float,
    ) -> None:
        self._work = work
        self._stealing = stealing
        self._statistics = statistics
        self._send = send
        self._min_piece_seconds = min_piece_seconds
        self.unsealed = lanes

    def next(self, attempt: Attempt, now: float) -> None:
        """Give an attempt what it runs next, or seal it, or let it be idle."""
        lane = attempt.lane
        items = self._again(attempt)
        if not items and lane.sealed is None:
            items = self._from_queue(attempt)
        attempt.was_given(items, self._expected(attempt, items) if items else None, now)
        if items:
            self._stealing.runs(attempt)
        elif lane.delayed or attempt.alone():
            self._stealing.rests(attempt, now)
        else:
            self._seal(attempt, now)
        self._stealing.rank(attempt, now)

    def _again(self, attempt: Attempt) -> list[WorkItem]:
        """Send an attempt the next of the content of its lane, which it has to run again; return that."""
        again = attempt.again
        items = [again.popleft() for _ in range(min(attempt.batch, len(again)))]
        sent = self._assign(attempt, items)
        again.extendleft(reversed(items[sent:]))
        return items[:sent]

    def _from_queue(self, attempt: Attempt) -> list[WorkItem]:
        """Send an attempt the next of its lane's queue; return that."""
        lane, ledger = attempt.lane, self._work.ledger
        items = [lane.queue.pop() for _ in range(min(attempt.batch, len(lane.queue)))]
        ledger.assign(lane.number, items)
        sent = self._assign(attempt, items)
        for item in items[sent:]:
            lane.queue.push(ledger.release(lane.number, item.id))
        for other in lane.attempts:
            if other is not attempt:
                other.again.extend(items[:sent])
        return items[:sent]

    def _assign(self, attempt: Attempt, items: list[WorkItem]) -> int:
        """Send the first of these, as many as fit in a message; return how many those are."""
        sent = len(items)
        while sent:
            try:
                self._send(attempt.name, Assign(tuple(items[:sent])))
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

    def _expected(self, attempt: Attempt, items: list[WorkItem]) -> Heartbeat:
        """Return what an attempt would say that begins with these, as far as is known.

        It says so itself only after a while (`sdf.lanes.heartbeat`), for which whoever is idle would wait.
        """
        seconds, unstarted = self._work.costs.seconds_of(items[0]), len(items) - 1
        return Heartbeat(items[0].id, True, 0.0, 0.0, seconds, unstarted, attempt.done.units)

    def _seal(self, attempt: Attempt, now: float) -> None:
        """Fix the content of its lane, and let the attempt end."""
        lane, records, tagged = attempt.lane, attempt.done.records, attempt.done.tagged
        self._stealing.ends(attempt)
        if lane.sealed is None:
            self._work.ledger.seal(lane.number, attempt.name)
            lane.seal(attempt)
            for other in lane.attempts:
                self._stealing.ends(other)
            self.unsealed -= 1
            if not self.unsealed:
                self._statistics.all_sealed(now)
                self._work.ledger.prove()
                log.info("%s: all lanes are sealed, %d splits", self._work.name, self._work.splits)
        assert lane.sealed is not None
        if (records, tagged) != (lane.sealed.records, lane.tagged):
            parts = show([item.restriction for item in self._work.ledger.content(lane.number)])
            error = ReplayError(
                f"{self._work.name}.process() is not deterministic: running {parts} again gave "
                f"{_counts(records, tagged)} where {_counts(lane.sealed.records, lane.tagged)} were given before. Make "
                f"process() depend on nothing but element and restriction, or save the result before it is used twice: "
                f"each action runs the work again, and with tags each output takes an action of its own."
            )
            self._send(attempt.name, Fail(error))
        else:
            self._send(attempt.name, Sealed())

    def settle(self, now: float) -> None:
        """Let the idle steal, and end those of them for whom nothing will come."""
        if self._stealing.none_idle():  # as it is for most messages
            return
        while (takeover := self._stealing.takeover(now)) is not None:
            self._take_over(*takeover, now)
        while (pair := self._stealing.pair(now)) is not None:
            victim, thief = pair
            if len(victim.lane.queue):
                self._move(victim, thief, now)
            else:
                self.request(victim, now)
        for attempt in self._stealing.leavers(now):
            self._seal(attempt, now)

    def request(self, victim: Attempt, now: float) -> None:
        """Request of an attempt what it has not started or, if that is nothing, half of what it runs."""
        victim.requested(now)
        self._stealing.requested(victim)
        self._send(victim.name, StealRequest(self._min_piece_seconds))

    def _take_over(self, orphan: LaneState, thief: Attempt, now: float) -> None:
        """Give an attempt all that a lane has that was never begun; others who are idle will steal of that."""
        log.debug("%s: lane %d takes over what lane %d has", self._work.name, thief.lane.number, orphan.number)
        orphan.give_away(len(orphan.queue))
        while len(orphan.queue):
            thief.lane.queue.push(orphan.queue.pop())
        self.next(thief, now)

    def _move(self, victim: Attempt, thief: Attempt, now: float) -> None:
        """Move work items from one queue to another, so that both have as many seconds left."""
        queue, wanted, moved = victim.lane.queue, self._stealing.seconds_left(victim) / 2, 0.0
        while len(queue) and (moved < wanted or not moved):
            item = queue.pop()
            seconds = self._work.costs.seconds_of(item)
            if moved and moved + seconds / 2 > wanted:
                queue.push(item)
                break
            thief.lane.queue.push(item)
            victim.lane.give_away()
            moved += max(seconds, 1e-9)
        log.debug(
            "%s: lane %d steals %.2f s from lane %d", self._work.name, thief.lane.number, moved, victim.lane.number
        )
        self._stealing.rank(victim, now)
        self.next(thief, now)


def _counts(records: int, tagged: tuple[int, ...]) -> str:
    """Return numbers of records as text: with tags the main output's and then each tag's, in their order."""
    return f"{records} records" if not tagged else f"{(records - sum(tagged), *tagged)} records (main, then each tag)"
