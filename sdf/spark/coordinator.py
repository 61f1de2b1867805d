"""What the coordinator decides: who runs what, who gives to whom, and when a lane's content is sealed. No sockets.

Every lane has a *share*, the work items that it is to run and nobody has started, and a *content*, what the ledger says
it owns: what attempts at it were given, in order. An attempt is given the next items of the share when it has run what
it holds. An attempt that finds the share empty is *idle*: it is given half of what the lane with the most seconds left
has in its share or, if that has nothing there, half of what that lane is running, which it is asked for. So big things
move before small ones, and what was not started before what runs.

What keeps this exactly-once:

- Only a lane with one live attempt, and not sealed, gives or takes. All live attempts at a lane so have one content.
- Sealing fixes the content. An attempt may end only after that, so whichever attempt Spark believes, it has run exactly
  the content of its lane, and contents tile the elements: that is proven when the last lane is sealed.
- An attempt at a sealed lane runs the content again, and changes nothing. If the only attempt at a lane is lost, the
  content as it stands goes back to the share, and the next attempt starts anew.

An idle attempt holds a slot. It is sealed, and ends, when nothing is left to take, when its patience is over, or when a
lane that has work and no attempt may need the slot.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections import deque
from collections.abc import Callable, Hashable
from itertools import takewhile
from typing import Any

import attrs

from sdf.errors import LedgerError, ReplayError, SdfError, show
from sdf.invoker import Residual
from sdf.ledger import Outcome, WorkItem
from sdf.planner import Backlog
from sdf.report import RunReport, TaskRun
from sdf.spark.values import Values, ValuesError
from sdf.spark.wire import (
    WAIT_EVERY_SECONDS,
    Ask,
    Assign,
    Back,
    Beat,
    Declined,
    Fail,
    FromLane,
    Hello,
    Ready,
    Sealed,
    Split,
    ToLane,
    Verdict,
    Wait,
)
from sdf.work import Work

__all__ = ["Coordinator"]

log = logging.getLogger("sdf.coordinator")

_BATCH_SECONDS = 0.1  # what an attempt is given at a time, once there are enough small work items
_MOST_ITEMS = 1024
_ANSWER_SECONDS = 1.0  # an ask that has no answer by then is not counted on
_SLOT_SECONDS = 1.0  # how long an idle attempt waits while a lane without an attempt may need its slot
_START_SECONDS = 0.25  # how long the lanes of one job take to start, one after the other


@attrs.define(eq=False)
class _Lane:
    """A lane: its share, its content as the ledger has it, and the attempts that are connected."""

    number: int
    share: Backlog
    attempts: list[_Attempt] = attrs.field(factory=list)
    begun: bool = False
    delayed: int = 0
    sealed: TaskRun | None = None
    handed_over: int = 0

    def has_work(self) -> bool:
        return bool(len(self.share) or self.delayed)


@attrs.define(eq=False)
class _Attempt:
    """A connected attempt."""

    name: Hashable
    lane: _Lane
    hello: Hello
    began: float
    done: Ready
    queue: deque[WorkItem] = attrs.field(factory=deque)  # content that it was not given yet
    batch: int = 1
    assigned_at: float = 0.0
    idle_since: float = math.inf
    asked_at: float | None = None
    beat: Beat | None = None
    declined: bool = False
    ends_at: float = 0.0  # when it will have run what it has, as far as is known
    entry: int = 0  # the valid one among its entries in the heap

    def alone(self) -> bool:
        """Tell whether it may give and take."""
        return self.lane.sealed is None and len(self.lane.attempts) == 1


class Coordinator:
    """See the module's docstring. The caller serialises the calls; ``now`` is monotonic seconds.

    Args:
        work: the work of the run.
        shares: the work items that each lane starts with.
        values: makes restrictions of their descriptions.
        send: sends a message to an attempt.
        min_piece_seconds: the smallest piece worth moving.
        patience_seconds: how long an attempt stays idle.
    """

    def __init__(
        self,
        work: Work,
        shares: list[list[WorkItem]],
        *,
        values: Values,
        send: Callable[[Hashable, ToLane], None],
        min_piece_seconds: float,
        patience_seconds: float,
    ) -> None:
        self._work = work
        self._values = values
        self._send = send
        self._worth_seconds = min_piece_seconds
        self._patience_seconds = patience_seconds
        self._lanes = [_Lane(number, Backlog(work.costs)) for number in range(len(shares))]
        for lane, share in zip(self._lanes, shares, strict=True):
            for item in share:
                lane.share.push(item)
        self._attempts: dict[Hashable, _Attempt] = {}
        self._idle: dict[Hashable, _Attempt] = {}  # those that wait for work, the longest first
        self._busy: set[Hashable] = set()  # those that run something, at lanes that are not sealed
        self._asked: dict[Hashable, _Attempt] = {}
        self._ends: list[tuple[float, int, _Attempt]] = []
        self._entries = 0
        self._slotless = {lane.number for lane in self._lanes if lane.has_work()}  # with work, without an attempt
        self._delayed: list[tuple[float, int, _Lane, WorkItem]] = []
        self._unsealed = len(self._lanes)
        self._flaw: SdfError | None = None
        self._began: float | None = None
        self._ended = 0.0
        self._changed_at = self._waited_at = 0.0
        self._unmovable = False
        self._retries = self._replays = 0

    # What happens.

    def connected(self, name: Hashable, hello: Hello, now: float) -> None:
        """An attempt has said hello; ``name`` is no other's."""
        if not 0 <= hello.lane < len(self._lanes):
            self._send(name, Fail(LedgerError(f"there is no lane {hello.lane}; this run has {len(self._lanes)}.")))
            return
        lane = self._lanes[hello.lane]
        attempt = _Attempt(name, lane, hello, now, Ready(0, 0, 0.0, 0.0), assigned_at=now, ends_at=now)
        if lane.sealed is not None:
            self._replays += 1
        elif not lane.attempts:
            self._retries += lane.begun
            for item in self._work.ledger.content(lane.number):
                lane.share.push(self._work.ledger.release(lane.number, item.id))
        if lane.sealed is not None or lane.attempts:
            attempt.queue.extend(self._work.ledger.content(lane.number))
        self._began = now if self._began is None else self._began
        lane.begun = True
        lane.attempts.append(attempt)
        self._attempts[name] = attempt
        self._slotless.discard(lane.number)
        self._changed_at = now
        if lane.sealed is None:
            self._busy.add(name)
        for other in lane.attempts[:-1]:
            self._rank(other)
            if other.name in self._idle:
                self._next(other, now)  # it cannot take any more
        self._settle(now)

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
                self._asked.pop(name, None)
                attempt.asked_at, attempt.declined = None, True
                self._rank(attempt)
            else:
                raise LedgerError(f"lane {attempt.lane.number} said hello twice.")
        except SdfError as error:
            log.warning("%s: lane %d: %s", self._work.name, attempt.lane.number, error)
            self._send(name, Fail(error))
        self._settle(now)

    def lost(self, name: Hashable, now: float) -> None:
        """The connection of an attempt has ended."""
        attempt = self._attempts.pop(name, None)
        if attempt is None:
            return
        lane = attempt.lane
        lane.attempts.remove(attempt)
        for group in (self._idle, self._asked):
            group.pop(name, None)
        self._busy.discard(name)
        self._rank(attempt)
        if lane.sealed is None:
            self._changed_at = now
            if not lane.attempts:
                if lane.has_work() or self._work.ledger.content(lane.number):
                    self._slotless.add(lane.number)
            elif len(lane.attempts) == 1:
                (left,) = lane.attempts
                while left.queue:
                    lane.share.push(self._work.ledger.release(lane.number, left.queue.popleft().id))
                self._rank(left)
        self._settle(now)

    def tick(self, now: float) -> None:
        """Time has passed; to be called often while `waiting`."""
        while self._delayed and self._delayed[0][0] <= now:
            _, _, lane, item = heapq.heappop(self._delayed)
            lane.delayed -= 1
            lane.share.push(item)
            for attempt in lane.attempts:
                if attempt.name in self._idle:
                    self._next(attempt, now)
        if now - self._waited_at >= WAIT_EVERY_SECONDS:
            self._waited_at = now
            for name in self._idle:
                self._send(name, Wait())
        self._settle(now)

    def waiting(self) -> bool:
        """Tell whether something may become due without a message."""
        return bool(self._idle or self._delayed)

    # What attempts say.

    def _ready(self, attempt: _Attempt, message: Ready, now: float) -> None:
        done = attempt.done
        items, size, seconds = message.items - done.items, message.units - done.units, message.seconds - done.seconds
        if min(items, size, seconds) < 0 or message.records < done.records:
            raise LedgerError(f"lane {attempt.lane.number} has done less than before: {message!r} after {done!r}.")
        self._work.costs.observe(Outcome(items, (), size, seconds))
        took = now - attempt.assigned_at
        if took < _BATCH_SECONDS:
            attempt.batch = min(2 * attempt.batch, _MOST_ITEMS)
        elif took > 4 * _BATCH_SECONDS:
            attempt.batch = max(attempt.batch // 2, 1)
        attempt.done, attempt.beat = message, None
        self._next(attempt, now)

    def _beat(self, attempt: _Attempt, message: Beat, now: float) -> None:
        self._work.costs.learn(message.item_id, message.units, message.seconds)
        attempt.beat, attempt.declined = message, False
        self._rank(attempt, now)

    def _split(self, attempt: _Attempt, message: Split, now: float) -> None:
        """Take what was cut off, for who is idle, or else into the share of its own lane."""
        lane = attempt.lane
        if message.asked:
            self._asked.pop(attempt.name, None)
            attempt.asked_at = None
        parts = self._read(message) if attempt.alone() else None
        if parts is None:
            attempt.declined = message.asked
            self._send(attempt.name, Verdict(False))
            return
        thief = (self._thief() if message.asked else None) or attempt
        self._work.costs.learn(message.item_id, message.units, message.seconds)
        children = self._work.split(lane.number, message.item_id, *parts)
        lane.handed_over += len(children)
        self._send(attempt.name, Verdict(True))
        for child, delay_seconds in children:
            if delay_seconds > 0:
                lane.delayed += 1
                heapq.heappush(self._delayed, (now + delay_seconds, child.id, lane, child))
            else:
                thief.lane.share.push(child)
        self._halve(attempt, now)
        if thief is not attempt:
            self._next(thief, now)

    def _read(self, message: Split) -> tuple[Any, list[Residual]] | None:
        try:
            primary = self._values.read(message.primary)
            residuals = [
                Residual(self._values.read(restriction), delay_seconds, self._values.read(watermark))
                for restriction, delay_seconds, watermark in message.residuals
            ]
        except ValuesError as error:
            if not self._unmovable:
                log.warning("%s cannot be split while it runs: %s", self._work.name, error)
            self._unmovable = True
            return None
        return primary, residuals

    def _back(self, attempt: _Attempt, message: Back, now: float) -> None:
        """Take back into the share what was not started."""
        self._asked.pop(attempt.name, None)
        attempt.asked_at = None
        if not attempt.alone():
            self._send(attempt.name, Verdict(False))
            return
        for item_id in message.item_ids:
            attempt.lane.share.push(self._work.ledger.release(attempt.lane.number, item_id))
        if attempt.beat is not None:
            attempt.beat = attrs.evolve(attempt.beat, unstarted=0)
        attempt.batch = 1
        self._send(attempt.name, Verdict(True))
        self._rank(attempt, now)  # whoever is idle gets half of it as things settle

    # Who is given what.

    def _next(self, attempt: _Attempt, now: float) -> None:
        """Give an attempt what it runs next, or seal it, or let it be idle."""
        lane = attempt.lane
        items = [attempt.queue.popleft() for _ in range(min(attempt.batch, len(attempt.queue)))]
        if not items and lane.sealed is None:
            items = [lane.share.pop() for _ in range(min(attempt.batch, len(lane.share)))]
            self._work.ledger.assign(lane.number, items)
            for other in lane.attempts:
                if other is not attempt:
                    other.queue.extend(items)
        if items:
            self._idle.pop(attempt.name, None)
            attempt.idle_since, attempt.assigned_at, attempt.declined = math.inf, now, False
            if lane.sealed is None:
                self._busy.add(attempt.name)
            self._send(attempt.name, Assign(tuple(items)))
        elif lane.delayed or attempt.alone():
            self._busy.discard(attempt.name)
            if attempt.name not in self._idle:
                attempt.idle_since = now
                self._idle[attempt.name] = attempt
        else:
            self._seal(attempt, now)
        self._rank(attempt, now)

    def _seal(self, attempt: _Attempt, now: float) -> None:
        """Fix the content of its lane, and let the attempt end."""
        lane, records = attempt.lane, attempt.done.records
        self._idle.pop(attempt.name, None)
        self._busy.discard(attempt.name)
        if lane.sealed is None:
            self._work.ledger.seal(lane.number, attempt.name)
            lane.sealed = TaskRun(
                stage=0,
                task=lane.number,
                worker=attempt.hello.worker,
                began=attempt.hello.began,
                seconds=now - attempt.began,
                work_items=attempt.done.items,
                handed_back=lane.handed_over,
                records=records,
            )
            for other in lane.attempts:
                self._busy.discard(other.name)
            self._unsealed -= 1
            self._ended = now
            if not self._unsealed:
                self._prove()
        if self._flaw is not None:
            self._send(attempt.name, Fail(self._flaw))
        elif records != lane.sealed.records:
            parts = show([item.restriction for item in self._work.ledger.content(lane.number)])
            raise ReplayError(
                f"{self._work.name}.process() is not deterministic: running {parts} again gave {records} records where "
                f"{lane.sealed.records} were given before. Make process() depend on nothing but element and "
                f"restriction, or save the result before it is used twice."
            )
        else:
            self._send(attempt.name, Sealed())

    def _prove(self) -> None:
        try:
            self._work.ledger.prove()
        except SdfError as error:
            self._flaw = error

    # Who gives to whom.

    def _thief(self) -> _Attempt | None:
        """Return the attempt that has been idle for longest."""
        return next((attempt for attempt in self._idle.values() if attempt.alone()), None)

    def _settle(self, now: float) -> None:
        """Let those who have most give to those who are idle, and end the idle ones for whom nothing will come."""
        while self._asked:
            name, asked = next(iter(self._asked.items()))
            assert asked.asked_at is not None
            if now - asked.asked_at < _ANSWER_SECONDS:
                break
            del self._asked[name]  # it may be stopped; it will not be asked again before it answers
        while len(self._idle) > len(self._asked):
            thief = self._thief()
            giver = None if thief is None else self._giver(now)
            if thief is None or giver is None:
                break
            if len(giver.lane.share):
                self._hand_over(giver, thief, now)
            else:
                giver.asked_at = now
                self._asked[giver.name] = giver
                self._rank(giver)
                self._send(giver.name, Ask(self._worth_seconds))
        self._dismiss(now)

    def _giver(self, now: float) -> _Attempt | None:
        """Return the attempt with the most seconds left, if it has enough of them."""
        while self._ends:
            ends_at, entry, attempt = self._ends[0]
            if entry == attempt.entry and attempt.alone():
                return attempt if -ends_at - now >= 2 * self._worth_seconds else None
            heapq.heappop(self._ends)
        return None

    def _hand_over(self, giver: _Attempt, thief: _Attempt, now: float) -> None:
        """Move work items of the giver's share, so that both have as many seconds left."""
        share, costs = giver.lane.share, self._work.costs
        wanted = self._seconds_left(giver, now) / 2
        moved = 0.0
        while len(share) and (moved < wanted or not moved):
            item = share.pop()
            seconds = costs.seconds_of(item)
            if moved and moved + seconds / 2 > wanted:
                share.push(item)
                break
            thief.lane.share.push(item)
            giver.lane.handed_over += 1
            moved += max(seconds, 1e-9)
        self._rank(giver, now)
        self._next(thief, now)

    def _halve(self, giver: _Attempt, now: float) -> None:
        if giver.beat is not None:
            giver.beat = attrs.evolve(giver.beat, seconds_left=max(0.0, giver.ends_at - now) / 2)
        self._rank(giver, now)

    def _seconds_left(self, attempt: _Attempt, now: float) -> float:
        """Return the estimated seconds of what runs, of what it holds beside that, and of its share."""
        running, beat = 0.0, attempt.beat
        if beat is not None:
            running = beat.seconds_left + beat.unstarted * self._work.costs.mean_of_items()
        return running + attempt.lane.share.seconds()

    def _rank(self, attempt: _Attempt, now: float | None = None) -> None:
        """Enter an attempt among those who may give, by when it ends; or take it out, if it may not now."""
        self._entries += 1
        attempt.entry = self._entries
        if now is not None:
            attempt.ends_at = now + self._seconds_left(attempt, now)
        beat = attempt.beat
        able = len(attempt.lane.share) or (
            beat is not None and (beat.splittable or beat.unstarted) and not attempt.declined
        )
        if attempt.name in self._busy and attempt.asked_at is None and attempt.alone() and able:
            heapq.heappush(self._ends, (-attempt.ends_at, attempt.entry, attempt))

    def _dismiss(self, now: float) -> None:
        """Seal the idle attempts that would only hold a slot."""
        if self._busy:
            patience = min(self._patience_seconds, _SLOT_SECONDS) if self._slotless else self._patience_seconds
            before = now - patience
        elif self._slotless:
            failed = any(self._lanes[number].begun for number in self._slotless)
            grace = _SLOT_SECONDS if failed else _START_SECONDS
            before = now if now - self._changed_at >= grace else -math.inf
        else:
            before = now
        for attempt in list(takewhile(lambda attempt: attempt.idle_since <= before, self._idle.values())):
            if not attempt.lane.delayed:
                self._seal(attempt, now)

    # What came of it.

    def report(self) -> RunReport:
        """Return what has been done so far."""
        tasks = tuple(lane.sealed for lane in self._lanes if lane.sealed is not None)
        return RunReport(
            name=self._work.name,
            elements=self._work.ledger.elements(),
            stages=1,
            splits=self._work.splits,
            split_elements=self._work.split_elements(),
            seconds=0.0 if self._began is None else self._ended - self._began,
            slots=len(self._lanes),
            tasks=tasks,
            retries=self._retries,
            replays=self._replays,
        )
