"""Who is given what: the next work items of an attempt, a share that moves to another lane, and the seal.

An attempt is given the next items of its lane's share when it has run what it holds. If the share is empty it gets half
of what the lane with the most seconds left (`sdf.spark.balance`) has in its share or, if that has nothing there, half
of what that lane is running, which it is asked for: so what was not started moves before what runs. If nobody will have
anything for it, its lane is sealed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable

from sdf.errors import ReplayError, SdfError, show
from sdf.items import WorkItem
from sdf.report import TaskRun
from sdf.spark.account import Account
from sdf.spark.balance import Attempt, Balance, LaneState
from sdf.spark.messages import Ask, Assign, Beat, Fail, Sealed, ToLane
from sdf.work import Work

__all__ = ["Giving"]

log = logging.getLogger("sdf.coordinator")


class Giving:
    """See the module's docstring.

    Args:
        work: the work of the run.
        lanes: how many there are.
        balance: who has most left, and who is idle.
        account: what came of it.
        send: sends a message to an attempt.
        worth_seconds: the smallest piece worth moving.

    Attributes:
        unsealed: how many lanes are not sealed.
    """

    def __init__(
        self,
        work: Work,
        lanes: int,
        balance: Balance,
        account: Account,
        *,
        send: Callable[[Hashable, ToLane], None],
        worth_seconds: float,
    ) -> None:
        self._work = work
        self._balance = balance
        self._account = account
        self._send = send
        self._worth_seconds = worth_seconds
        self._flaw: SdfError | None = None
        self.unsealed = lanes

    def next(self, attempt: Attempt, now: float) -> None:
        """Give an attempt what it runs next, or seal it, or let it be idle."""
        lane = attempt.lane
        items = [attempt.queue.popleft() for _ in range(min(attempt.batch, len(attempt.queue)))]
        if not items and lane.sealed is None:
            items = [lane.share.pop() for _ in range(min(attempt.batch, len(lane.share)))]
            self._work.ledger.assign(lane.number, items)
            for other in lane.attempts:
                if other is not attempt:
                    other.queue.extend(items)
        attempt.beat = self._expected(items) if items else None
        if items:
            attempt.assigned_at = now
            attempt.given = {item.id: item.restriction for item in items}
            self._balance.runs(attempt)
            self._send(attempt.name, Assign(tuple(items)))
        elif lane.delayed or attempt.alone():
            self._balance.rests(attempt, now)
        else:
            self._seal(attempt, now)
        self._balance.rank(attempt, now)

    def _expected(self, items: list[WorkItem]) -> Beat:
        """Return what an attempt would say that begins with these, as far as is known.

        It says so itself only after a while (`sdf.spark.beats`), for which whoever is idle would wait.
        """
        return Beat(items[0].id, True, 0.0, 0.0, self._work.costs.seconds_of(items[0]), len(items) - 1)

    def _seal(self, attempt: Attempt, now: float) -> None:
        """Fix the content of its lane, and let the attempt end."""
        lane, records = attempt.lane, attempt.done.records
        self._balance.ends(attempt)
        if lane.sealed is None:
            self._work.ledger.seal(lane.number, attempt.name)
            lane.sealed = TaskRun(
                stage=0,
                task=lane.number,
                worker=attempt.hello.worker,
                began=attempt.hello.began,
                seconds=attempt.done.seconds,
                work_items=attempt.done.items,
                handed_back=lane.handed_over,
                records=records,
            )
            lane.units, lane.ran, lane.slow = attempt.done.units, attempt.ran, attempt.slow
            for other in lane.attempts:
                self._balance.ends(other)
            self.unsealed -= 1
            if not self.unsealed:
                self._account.all_sealed(now)
                self._prove()
                log.info("%s: all lanes are sealed, %d splits", self._work.name, self._work.splits)
        if self._flaw is not None:
            self._send(attempt.name, Fail(self._flaw))
        elif records != lane.sealed.records:
            parts = show([item.restriction for item in self._work.ledger.content(lane.number)])
            raise ReplayError(
                f"{self._work.name}.process() is not deterministic: running {parts} again gave {records} records where "
                f"{lane.sealed.records} were given before. Make process() depend on nothing but element and "
                f"restriction, yield nothing after a refused claim, or save the result before it is used twice."
            )
        else:
            self._send(attempt.name, Sealed())

    def _prove(self) -> None:
        try:
            self._work.ledger.prove()
        except SdfError as error:
            self._flaw = error

    def settle(self, now: float) -> None:
        """Let those who have most give to those who are idle, and end the idle ones for whom nothing will come."""
        if self._balance.none_idle():  # as it is for most messages
            return
        while (adoption := self._balance.adoption(now)) is not None:
            self._adopt(*adoption, now)
        while (pair := self._balance.pair(now)) is not None:
            giver, taker = pair
            if len(giver.lane.share):
                self._hand_over(giver, taker, now)
            else:
                self.ask(giver, now)
        for attempt in self._balance.leavers(now):
            self._seal(attempt, now)

    def ask(self, attempt: Attempt, now: float) -> None:
        """Ask an attempt for what it has not started or, if that is nothing, half of what it runs."""
        self._balance.asks(attempt, now)
        self._send(attempt.name, Ask(self._worth_seconds))

    def _adopt(self, orphan: LaneState, taker: Attempt, now: float) -> None:
        """Give an attempt all that a lane has that was never begun; others who are idle will take of that."""
        log.debug("%s: lane %d adopts what lane %d has", self._work.name, taker.lane.number, orphan.number)
        orphan.handed_over += len(orphan.share)
        while len(orphan.share):
            taker.lane.share.push(orphan.share.pop())
        self.next(taker, now)

    def _hand_over(self, giver: Attempt, taker: Attempt, now: float) -> None:
        """Move work items from one share to another, so that both have as many seconds left."""
        share, wanted, moved = giver.lane.share, self._balance.seconds_left(giver) / 2, 0.0
        while len(share) and (moved < wanted or not moved):
            item = share.pop()
            seconds = self._work.costs.seconds_of(item)
            if moved and moved + seconds / 2 > wanted:
                share.push(item)
                break
            taker.lane.share.push(item)
            giver.lane.handed_over += 1
            moved += max(seconds, 1e-9)
        log.debug("%s: lane %d hands %.2f s to lane %d", self._work.name, giver.lane.number, moved, taker.lane.number)
        self._balance.rank(giver, now)
        self.next(taker, now)
