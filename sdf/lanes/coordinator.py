"""The coordinator: what it knows of lanes and attempts, and what it makes of what they say. No sockets.

It routes: what an attempt says changes that attempt, the ledger and the costs; what it is given next, or that its lane
is sealed, is decided in `sdf.lanes.assignment`. Every lane has a *queue*, the work items that it is to run and nobody
has started, and a *content*, what the ledger says it owns: what attempts at it were given, in order.

What keeps this exactly-once:

- Only a lane with one live attempt, and not sealed, gives or takes. All live attempts at a lane so have one content.
- Sealing fixes the content. An attempt may end only after that, so whichever attempt Spark believes, it has run exactly
  the content of its lane, and contents tile the elements: that is proven when the last lane is sealed.
- An attempt at a sealed lane runs the content again, and changes nothing. If the only attempt at a lane is lost, the
  content as it stands goes back to the queue, and the next attempt starts anew.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Hashable
from typing import Any

from sdf.errors import LedgerError
from sdf.execution.invoker import Residual
from sdf.execution.work_items import Outcome, WorkItem
from sdf.lanes.assignment import Assignment
from sdf.lanes.attempts import Attempt, LaneState
from sdf.lanes.messages import (
    Bye,
    Declined,
    Fail,
    FromLane,
    Heartbeat,
    Hello,
    ProtocolError,
    Ready,
    Returned,
    Split,
    ToLane,
    Verdict,
    Wait,
)
from sdf.lanes.statistics import Statistics
from sdf.lanes.stealing import Stealing
from sdf.lanes.wire import WAIT_EVERY_SECONDS
from sdf.reporting.progress import RunProgress
from sdf.reporting.run_report import RunReport
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue
from sdf.serialization.values import Parts, ValuesError

__all__ = ["Coordinator"]

log = logging.getLogger("sdf.coordinator")


class Coordinator:
    """See the module's docstring. The caller serialises the calls; ``now`` is monotonic seconds.

    Code of the user's runs in these calls, so they may raise anything. What is half done then may be wrong: after that
    the caller may tell that it has `failed`, and ask what came of it, no more (`sdf.spark.live.contained_run`).

    Args:
        work: the work of the run.
        shares: the work items that each lane starts with.
        send: sends a message to an attempt.
        min_piece_seconds: the smallest piece worth moving.
        patience_seconds: how long an attempt stays idle.

    Attributes:
        name: of the DoFn.
    """

    def __init__(
        self,
        work: RunState,
        shares: list[list[WorkItem]],
        *,
        send: Callable[[Hashable, ToLane], None],
        min_piece_seconds: float,
        patience_seconds: float,
    ) -> None:
        self.name = work.name
        self._work = work
        self._send = send
        self._stealing = Stealing(work.costs, min_piece_seconds, patience_seconds)
        self._lanes = [LaneState(number, WorkQueue(work.costs)) for number in range(len(shares))]
        for lane, share in zip(self._lanes, shares, strict=True):
            for item in share:
                lane.queue.push(item)
            if share:
                self._stealing.needs_slot(lane)
        self._attempts: dict[Hashable, Attempt] = {}
        self._delayed: list[tuple[float, int, LaneState, WorkItem]] = []
        self._waited_at = 0.0
        self._failed = False
        self._unmovable = False
        self._statistics = Statistics(work, self._lanes)
        self._assignment = Assignment(
            work, len(shares), self._stealing, self._statistics, send=send, min_piece_seconds=min_piece_seconds
        )

    # What happens.

    def connected(self, name: Hashable, hello: Hello, now: float) -> None:
        """An attempt has said hello; ``name`` is no other's."""
        if not 0 <= hello.lane < len(self._lanes):
            self._send(name, Fail(LedgerError(f"there is no lane {hello.lane}; this run has {len(self._lanes)}.")))
            return
        lane, ledger = self._lanes[hello.lane], self._work.ledger
        attempt = self._attempts[name] = Attempt(name, lane, hello, given_at=now)
        if lane.sealed is not None or lane.attempts:
            self._statistics.replays += lane.sealed is not None
            attempt.again.extend(ledger.content_with_sizes(lane.number))
        else:
            self._statistics.retries += lane.begun
            for item in ledger.content(lane.number):
                lane.queue.push(ledger.release(lane.number, item.id))
        lane.connect(attempt)
        self._statistics.attempts(len(self._attempts), now)
        self._stealing.has_slot(lane, now)
        self._stealing.runs(attempt)
        for other in lane.attempts[:-1]:
            self._stealing.rank(other)
            if self._stealing.is_idle(other):
                self._assignment.next(other, now)  # it cannot take any more
        self._assignment.settle(now)

    def received(self, name: Hashable, message: FromLane, now: float) -> None:
        """An attempt has sent a message. If that cannot be true, the attempt fails, and nothing else has changed."""
        attempt = self._attempts.get(name)
        if attempt is None:
            return
        try:
            if isinstance(message, Ready):
                self._ready(attempt, message, now)
            elif isinstance(message, Heartbeat):
                self._heartbeat(attempt, message, now)
            elif isinstance(message, Split):
                self._split(attempt, message, now)
            elif isinstance(message, Returned):
                self._returned(attempt, message, now)
            elif isinstance(message, Declined):
                self._answered(attempt)
                self._statistics.refusals[message.reason] += 1
                attempt.declines()
                self._stealing.rank(attempt)
            elif isinstance(message, Bye):
                attempt.closes()
            else:
                raise ProtocolError(f"lane {attempt.lane.number} said hello twice.")
        except ProtocolError as error:
            log.warning("%s: lane %d: %s", self.name, attempt.lane.number, error)
            self._send(name, Fail(LedgerError(str(error))))
        self._assignment.settle(now)

    def lost(self, name: Hashable, now: float) -> None:
        """The connection of an attempt has ended."""
        attempt = self._attempts.pop(name, None)
        if attempt is None:
            return
        self._statistics.attempts(len(self._attempts), now)
        lane, ledger = attempt.lane, self._work.ledger
        lane.attempts.remove(attempt)
        self._stealing.forget(attempt)
        if lane.sealed is None and len(lane.attempts) == 1:
            (left,) = lane.attempts
            while left.again:
                lane.queue.push(ledger.release(lane.number, left.again.popleft().id))
            self._stealing.rank(left)
        elif (
            lane.sealed is None
            and not (lane.attempts or attempt.closed)
            and (lane.queue or lane.delayed or ledger.content(lane.number))
        ):
            self._stealing.needs_slot(lane, now)
        self._assignment.settle(now)

    def tick(self, now: float) -> None:
        """Time has passed; to be called often while `waiting`."""
        while self._delayed and self._delayed[0][0] <= now:
            _, _, lane, item = heapq.heappop(self._delayed)
            lane.resume(item)
            for attempt in lane.attempts:
                if self._stealing.is_idle(attempt):
                    self._assignment.next(attempt, now)
        if now - self._waited_at >= WAIT_EVERY_SECONDS:
            self._waited_at = now
            for attempt in self._stealing.idle():
                self._send(attempt.name, Wait())
        self._assignment.settle(now)

    def waiting(self) -> bool:
        """Tell whether something may become due without a message."""
        return bool(self._stealing.idle() or self._delayed)

    def failed(self, now: float) -> None:
        """The run has failed: no attempt brings it forward any more."""
        self._failed = True
        self._attempts.clear()
        self._statistics.attempts(0, now)

    # What attempts say.

    def _answered(self, attempt: Attempt) -> None:
        attempt.answered()
        self._stealing.answered(attempt)

    def _ready(self, attempt: Attempt, message: Ready, now: float) -> None:
        items, size, seconds = attempt.ready(message, now, len(self._work.ledger))
        self._work.costs.observe(Outcome(items, (), size, seconds))
        self._assignment.next(attempt, now)

    def _heartbeat(self, attempt: Attempt, message: Heartbeat, now: float) -> None:
        self._work.costs.learn(message.item_id, message.units, message.seconds)
        attempt.beats(message)
        self._stealing.rank(attempt, now)

    def _split(self, attempt: Attempt, message: Split, now: float) -> None:
        """Take what was cut off, for a thief, or else into the queue of its own lane."""
        lane = attempt.lane
        if message.asked:
            self._answered(attempt)
        parts = self._read(attempt, message) if attempt.alone() else None
        if parts is None:
            if message.asked:
                attempt.declines()
            self._send(attempt.name, Verdict(False))
            return
        thief = (self._stealing.thief() if message.asked else None) or attempt
        self._work.costs.learn(message.item_id, message.units, message.seconds)
        children = self._work.split(lane.number, message.item_id, *parts)
        lane.give_away(len(children))
        log.debug(
            "%s: lane %d keeps %s, cut off for lane %d: %d",
            self._work.name, lane.number, parts[0], thief.lane.number, len(children),
        )  # fmt: skip
        self._send(attempt.name, Verdict(True))
        for child, delay_seconds in children:
            if delay_seconds > 0:
                lane.delay()
                heapq.heappush(self._delayed, (now + delay_seconds, child.id, lane, child))
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
        except ValuesError as error:
            if not self._unmovable:
                log.warning("%s cannot be split while it runs: %s", self._work.name, error)
            self._unmovable = True
            return None
        return primary, residuals

    def _returned(self, attempt: Attempt, message: Returned, now: float) -> None:
        """Take back into the queue what was not started."""
        self._answered(attempt)
        if not attempt.alone():
            self._send(attempt.name, Verdict(False))
            return
        if not attempt.given.keys() >= set(message.item_ids):
            raise ProtocolError(f"lane {attempt.lane.number} gives back work items that it was not given.")
        for item_id in message.item_ids:
            attempt.lane.queue.push(self._work.ledger.release(attempt.lane.number, item_id))
        attempt.has_returned()
        self._send(attempt.name, Verdict(True))
        self._stealing.rank(attempt, now)  # whoever is idle gets half of it as things settle

    # What came of it.

    def running(self) -> bool:
        """Tell whether attempts are connected that bring the run forward."""
        return bool(self._attempts) and not self.sealed()

    def sealed(self) -> bool:
        """Tell whether all lanes are, and that was proven."""
        return not (self._failed or self._assignment.unsealed)

    def progress(self, now: float) -> RunProgress:
        """Return how far the run is."""
        return self._statistics.progress(now, len(self._attempts) - len(self._stealing.idle()))

    def report(self, now: float) -> RunReport:
        """Return what has been done so far."""
        return self._statistics.report(now)
