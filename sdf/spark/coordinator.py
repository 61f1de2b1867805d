"""The coordinator: what it knows of lanes and attempts, and what it makes of what they say. No sockets.

Every lane has a *share*, the work items that it is to run and nobody has started, and a *content*, what the ledger says
it owns: what attempts at it were given, in order. What an attempt is given next, or that its lane is sealed, is decided
in `sdf.spark.giving`.

What keeps this exactly-once:

- Only a lane with one live attempt, and not sealed, gives or takes. All live attempts at a lane so have one content.
- Sealing fixes the content. An attempt may end only after that, so whichever attempt Spark believes, it has run exactly
  the content of its lane, and contents tile the elements: that is proven when the last lane is sealed.
- An attempt at a sealed lane runs the content again, and changes nothing. If the only attempt at a lane is lost, the
  content as it stands goes back to the share, and the next attempt starts anew.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Hashable
from typing import Any

import attrs

from sdf.backlog import Backlog
from sdf.errors import LedgerError, SdfError
from sdf.invoker import Residual
from sdf.items import Outcome, WorkItem
from sdf.progress import RunProgress
from sdf.report import RunReport
from sdf.spark.account import Account
from sdf.spark.balance import Attempt, Balance, LaneState
from sdf.spark.giving import Giving
from sdf.spark.messages import (
    Back,
    Beat,
    Bye,
    Declined,
    Fail,
    FromLane,
    Hello,
    Ready,
    Split,
    ToLane,
    Verdict,
    Wait,
)
from sdf.spark.wire import WAIT_EVERY_SECONDS
from sdf.values import Parts, ValuesError
from sdf.work import Work

__all__ = ["Coordinator"]

log = logging.getLogger("sdf.coordinator")

# What an attempt is given at a time, once there are enough small work items: a share of the time that it has run, as
# each costs it some two milliseconds, but no more than shows in the progress of a run.
_BATCH_SHARE = 0.1
_LEAST_SECONDS, _MOST_SECONDS = 0.1, 1.0
_TOO_LONG = 4  # times as long
_MOST_ITEMS = 1024


class Coordinator:
    """See the module's docstring. The caller serialises the calls; ``now`` is monotonic seconds.

    Args:
        work: the work of the run.
        shares: the work items that each lane starts with.
        send: sends a message to an attempt.
        min_piece_seconds: the smallest piece worth moving.
        patience_seconds: how long an attempt stays idle.
    """

    def __init__(
        self,
        work: Work,
        shares: list[list[WorkItem]],
        *,
        send: Callable[[Hashable, ToLane], None],
        min_piece_seconds: float,
        patience_seconds: float,
    ) -> None:
        self._work = work
        self._send = send
        self._balance = Balance(work.costs, min_piece_seconds, patience_seconds)
        self._lanes = [LaneState(number, Backlog(work.costs)) for number in range(len(shares))]
        for lane, share in zip(self._lanes, shares, strict=True):
            for item in share:
                lane.share.push(item)
            if share:
                self._balance.needs_slot(lane)
        self._attempts: dict[Hashable, Attempt] = {}
        self._delayed: list[tuple[float, int, LaneState, WorkItem]] = []
        self._waited_at = 0.0
        self._unmovable = False
        self._account = Account(work, self._lanes)
        self._giving = Giving(
            work, len(shares), self._balance, self._account, send=send, worth_seconds=min_piece_seconds
        )

    # What happens.

    def connected(self, name: Hashable, hello: Hello, now: float) -> None:
        """An attempt has said hello; ``name`` is no other's."""
        if not 0 <= hello.lane < len(self._lanes):
            self._send(name, Fail(LedgerError(f"there is no lane {hello.lane}; this run has {len(self._lanes)}.")))
            return
        lane, ledger = self._lanes[hello.lane], self._work.ledger
        attempt = Attempt(name, lane, hello, assigned_at=now, ends_at=now)
        if lane.sealed is not None or lane.attempts:
            self._account.replays += lane.sealed is not None
            attempt.queue.extend(ledger.content(lane.number))
        else:
            self._account.retries += lane.begun
            for item in ledger.content(lane.number):
                lane.share.push(ledger.release(lane.number, item.id))
        lane.begun = True
        lane.attempts.append(attempt)
        self._attempts[name] = attempt
        self._account.attempts(len(self._attempts), now)
        self._balance.has_slot(lane, now)
        self._balance.runs(attempt)
        for other in lane.attempts[:-1]:
            self._balance.rank(other)
            if self._balance.is_idle(other):
                self._giving.next(other, now)  # it cannot take any more
        self._giving.settle(now)

    def received(self, name: Hashable, message: FromLane, now: float) -> None:
        """An attempt has sent a message. An error in it fails the attempt."""
        attempt = self._attempts.get(name)
        if attempt is None:
            return
        try:
            if isinstance(message, Ready):
                self._ready(attempt, message, now)
            elif isinstance(message, Beat):
                self._beat(attempt, message, now)
            elif isinstance(message, Split):
                self._split(attempt, message, now)
            elif isinstance(message, Back):
                self._back(attempt, message, now)
            elif isinstance(message, Declined):
                self._balance.answers(attempt)
                self._account.refusals[message.reason] += 1
                attempt.declined = True
                self._balance.rank(attempt)
            elif isinstance(message, Bye):
                attempt.closed = True
            else:
                raise LedgerError(f"lane {attempt.lane.number} said hello twice.")
        except SdfError as error:
            log.warning("%s: lane %d: %s", self._work.name, attempt.lane.number, error)
            self._send(name, Fail(error))
        self._giving.settle(now)

    def lost(self, name: Hashable, now: float) -> None:
        """The connection of an attempt has ended."""
        attempt = self._attempts.pop(name, None)
        if attempt is None:
            return
        self._account.attempts(len(self._attempts), now)
        lane, ledger = attempt.lane, self._work.ledger
        lane.attempts.remove(attempt)
        self._balance.ends(attempt)
        self._balance.rank(attempt)
        if lane.sealed is None and len(lane.attempts) == 1:
            (left,) = lane.attempts
            while left.queue:
                lane.share.push(ledger.release(lane.number, left.queue.popleft().id))
            self._balance.rank(left)
        elif (
            lane.sealed is None
            and not (lane.attempts or attempt.closed)
            and (lane.share or lane.delayed or ledger.content(lane.number))
        ):
            self._balance.needs_slot(lane, now)
        self._giving.settle(now)

    def tick(self, now: float) -> None:
        """Time has passed; to be called often while `waiting`."""
        while self._delayed and self._delayed[0][0] <= now:
            _, _, lane, item = heapq.heappop(self._delayed)
            lane.delayed -= 1
            lane.share.push(item)
            for attempt in lane.attempts:
                if self._balance.is_idle(attempt):
                    self._giving.next(attempt, now)
        if now - self._waited_at >= WAIT_EVERY_SECONDS:
            self._waited_at = now
            for attempt in self._balance.idle():
                self._send(attempt.name, Wait())
        self._giving.settle(now)

    def waiting(self) -> bool:
        """Tell whether something may become due without a message."""
        return bool(self._balance.idle() or self._delayed)

    # What attempts say.

    def _ready(self, attempt: Attempt, message: Ready, now: float) -> None:
        done = attempt.done
        items, size, seconds = message.items - done.items, message.units - done.units, message.seconds - done.seconds
        if min(items, size, seconds) < 0 or message.records < done.records:
            raise LedgerError(f"lane {attempt.lane.number} has done less than before: {message!r} after {done!r}.")
        self._work.costs.observe(Outcome(items, (), size, seconds))
        self._account.note(attempt, message)
        took, wanted = now - attempt.assigned_at, _batch_seconds(message)
        if items and took < wanted:
            attempt.batch = min(2 * attempt.batch, _MOST_ITEMS)
        elif took > _TOO_LONG * wanted:
            attempt.batch = max(attempt.batch // 2, 1)
        attempt.done = message
        self._giving.next(attempt, now)

    def _beat(self, attempt: Attempt, message: Beat, now: float) -> None:
        self._work.costs.learn(message.item_id, message.units, message.seconds)
        attempt.beat, attempt.declined = message, False
        if message.unstarted and now - attempt.assigned_at > _TOO_LONG * _batch_seconds(attempt.done):
            self._recall(attempt, now)
        self._balance.rank(attempt, now)

    def _recall(self, attempt: Attempt, now: float) -> None:
        """Have an attempt give back what turned out to be dear: what has ended of it is told only when it is ready."""
        if attempt.can_give():
            attempt.batch = 1
            self._giving.ask(attempt, now)

    def _split(self, attempt: Attempt, message: Split, now: float) -> None:
        """Take what was cut off, for who is idle, or else into the share of its own lane."""
        lane = attempt.lane
        if message.asked:
            self._balance.answers(attempt)
        parts = self._read(attempt, message) if attempt.alone() else None
        if parts is None:
            attempt.declined = message.asked
            self._send(attempt.name, Verdict(False))
            return
        taker = (self._balance.taker() if message.asked else None) or attempt
        self._work.costs.learn(message.item_id, message.units, message.seconds)
        children = self._work.split(lane.number, message.item_id, *parts)
        lane.handed_over += len(children)
        log.debug(
            "%s: lane %d keeps %s, cut off for lane %d: %d",
            self._work.name, lane.number, parts[0], taker.lane.number, len(children),
        )  # fmt: skip
        self._send(attempt.name, Verdict(True))
        for child, delay_seconds in children:
            if delay_seconds > 0:
                lane.delayed += 1
                heapq.heappush(self._delayed, (now + delay_seconds, child.id, lane, child))
            else:
                taker.lane.share.push(child)
        if attempt.beat is not None:
            attempt.beat = attrs.evolve(attempt.beat, seconds_left=max(0.0, attempt.ends_at - now) / 2)
        self._balance.rank(attempt, now)
        if taker is not attempt:
            self._giving.next(taker, now)

    def _read(self, attempt: Attempt, message: Split) -> tuple[Any, list[Residual]] | None:
        if message.item_id not in attempt.given:
            raise LedgerError(
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

    def _back(self, attempt: Attempt, message: Back, now: float) -> None:
        """Take back into the share what was not started."""
        self._balance.answers(attempt)
        if not attempt.alone():
            self._send(attempt.name, Verdict(False))
            return
        for item_id in message.item_ids:
            attempt.lane.share.push(self._work.ledger.release(attempt.lane.number, item_id))
        if attempt.beat is not None:
            attempt.beat = attrs.evolve(attempt.beat, unstarted=0)
        attempt.batch = max(attempt.batch // 4, 1)
        self._send(attempt.name, Verdict(True))
        self._balance.rank(attempt, now)  # whoever is idle gets half of it as things settle

    # What came of it.

    def running(self) -> bool:
        """Tell whether attempts are connected that bring the run forward."""
        return bool(self._attempts) and not self.sealed()

    def sealed(self) -> bool:
        """Tell whether all lanes are."""
        return not self._giving.unsealed

    def progress(self, now: float) -> RunProgress:
        """Return how far the run is."""
        return self._account.progress(now, len(self._attempts) - len(self._balance.idle()))

    def report(self) -> RunReport:
        """Return what has been done so far."""
        return self._account.report()


def _batch_seconds(done: Ready) -> float:
    """Return how long an attempt that has done so much should have work for when it is given some."""
    return min(max(_BATCH_SHARE * done.seconds, _LEAST_SECONDS), _MOST_SECONDS)
