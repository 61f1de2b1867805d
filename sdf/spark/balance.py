"""Who gives to whom: the lanes and the attempts at them, those that have most left, those that have nothing.

Nothing here is about right or wrong, that is the coordinator's; this is about when a run ends. Seconds left are an
estimate: what the attempt said of what it runs, and the costs seen so far for its share.

An idle attempt holds a slot. It may wait for others to have something to give as long as its patience lasts, and not at
all if nobody runs anything. The lanes of a job start one after the other, and the first ones to run dry wait a moment.
After that they adopt the shares of lanes that were never begun, which may wait for a slot: nobody has run anything of
them. (But the first lane alone ends: an action such as first() may want no more than that one.) A lane that has lost
its attempt has all of its work to give once it is tried again, but may need a slot for that: one idle attempt ends for
it, and the others wait.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Hashable, Iterator
from itertools import islice, takewhile
from typing import Any

import attrs

from sdf.backlog import Backlog
from sdf.costs import Costs
from sdf.items import Ran, SlowBlock, WorkItem
from sdf.report import TaskRun
from sdf.spark.messages import Beat, Hello, Ready

__all__ = ["Attempt", "Balance", "LaneState"]

_ANSWER_SECONDS = 1.0  # an ask that has no answer by then is not counted on
_SLOT_SECONDS = 1.0  # after which an idle attempt makes room for a lane that has lost its attempt
_STALE = 8  # times as many entries as attempts that run something, and most of them are not valid any more
_START_SECONDS = 0.25  # how long the lanes of a run take to start, one after the other


@attrs.define(eq=False)
class LaneState:
    """A lane, as the coordinator knows it.

    Attributes:
        share: the work items that it is to run and nobody has started.
        attempts: those that are connected.
        begun: whether there ever was one.
        delayed: how many of its work items wait for their time.
        sealed: what it did, once its content is fixed.
        handed_over: how many work items it gave away.
        units: the size of its content, once that is fixed.
        ran: how each work item of its content ran, once that is fixed.
        slow: the slowest blocks of it.
    """

    number: int
    share: Backlog
    attempts: list[Attempt] = attrs.field(factory=list)
    begun: bool = False
    delayed: int = 0
    sealed: TaskRun | None = None
    handed_over: int = 0
    units: float = 0.0
    ran: dict[int, Ran] = attrs.field(factory=dict)
    slow: tuple[SlowBlock, ...] = ()


@attrs.define(eq=False)
class Attempt:
    """A connected attempt at a lane.

    Attributes:
        queue: content of the lane that it was not given yet.
        given: by work item that it was given last, the restriction, as splits do not change it there.
        done: the totals that it told last.
        batch: how many work items it is given at a time.
        beat: how far it was when it told last.
        ran: how each work item ran that has ended, by its id.
        slow: its slowest blocks.
        asked_at: when it was asked for something; None if it has answered.
        declined: whether it could give nothing, and has not told since that it has moved on.
        closed: whether it has said `Bye`.
        idle_since: when it had nothing to run.
        ends_at: when it will have run what it has, as far as is known.
        entry: the valid one among its entries in the heap.
    """

    name: Hashable
    lane: LaneState
    hello: Hello
    done: Ready = attrs.field(factory=lambda: Ready(0, 0, 0.0, 0.0))
    queue: deque[WorkItem] = attrs.field(factory=deque)
    given: dict[int, Any] = attrs.field(factory=dict)
    batch: int = 1
    assigned_at: float = 0.0
    beat: Beat | None = None
    ran: dict[int, Ran] = attrs.field(factory=dict)
    slow: tuple[SlowBlock, ...] = ()
    asked_at: float | None = None
    declined: bool = False
    closed: bool = False
    idle_since: float = math.inf
    ends_at: float = 0.0
    entry: int = 0

    def alone(self) -> bool:
        """Tell whether it may give and take: its lane is not sealed, and nobody else runs it."""
        return self.lane.sealed is None and len(self.lane.attempts) == 1

    def can_give(self) -> bool:
        """Tell whether it has something to give now, as far as is known."""
        beat = self.beat
        runs = beat is not None and not self.declined and (beat.splittable or beat.unstarted > 0)
        return self.alone() and self.asked_at is None and (runs or len(self.lane.share) > 0)


class Balance:
    """See the module's docstring.

    Args:
        costs: what work has cost so far.
        worth_seconds: the smallest piece worth moving.
        patience_seconds: how long an attempt stays idle.
    """

    def __init__(self, costs: Costs, worth_seconds: float, patience_seconds: float) -> None:
        self._costs = costs
        self._worth_seconds = worth_seconds
        self._patience_seconds = patience_seconds
        self._idle: dict[Hashable, Attempt] = {}  # the longest first
        self._busy: set[Hashable] = set()
        self._asked: dict[Hashable, Attempt] = {}
        self._ends: list[tuple[float, int, Attempt]] = []
        self._entries = 0
        self._begun: set[int] = set()  # the lanes that have had an attempt
        self._unbegun: dict[int, LaneState] = {}  # those that have work, and never had one
        self._failed: set[int] = set()  # those that have work, and have lost their attempt
        self._without_room: set[int] = set()  # those of them for which no attempt has ended
        self._began_at = math.inf
        self._lost_at = -math.inf

    # What is so.

    def is_idle(self, attempt: Attempt) -> bool:
        """Tell whether an attempt waits for work."""
        return attempt.name in self._idle

    def none_idle(self) -> bool:
        """Tell whether nobody waits for work."""
        return not self._idle

    def idle(self) -> list[Attempt]:
        """Return all that wait for work, the longest first."""
        return list(self._idle.values())

    # What changes.

    def rests(self, attempt: Attempt, now: float) -> None:
        """An attempt has nothing to run."""
        self._busy.discard(attempt.name)
        if attempt.name not in self._idle:
            attempt.idle_since = now
            self._idle[attempt.name] = attempt

    def runs(self, attempt: Attempt) -> None:
        """An attempt runs something; it counts as one that may give if its lane is not sealed."""
        self._idle.pop(attempt.name, None)
        attempt.declined = False
        if attempt.lane.sealed is None:
            self._busy.add(attempt.name)

    def ends(self, attempt: Attempt) -> None:
        """An attempt will neither give nor take any more."""
        self._idle.pop(attempt.name, None)
        self._busy.discard(attempt.name)
        self._asked.pop(attempt.name, None)

    def asks(self, attempt: Attempt, now: float) -> None:
        """An attempt is asked for something; until it answers it is not asked again."""
        attempt.asked_at = now
        self._asked[attempt.name] = attempt
        self.rank(attempt)

    def answers(self, attempt: Attempt) -> None:
        """An attempt has answered."""
        attempt.asked_at = None
        self._asked.pop(attempt.name, None)

    def needs_slot(self, lane: LaneState, now: float = -math.inf) -> None:
        """A lane has work, and no attempt; if it had one, that was lost ``now``."""
        if lane.begun:
            self._failed.add(lane.number)
            self._without_room.add(lane.number)
        else:
            self._unbegun[lane.number] = lane
        self._lost_at = max(self._lost_at, now)

    def has_slot(self, lane: LaneState, now: float) -> None:
        """A lane has got an attempt."""
        self._begun.add(lane.number)
        self._unbegun.pop(lane.number, None)
        self._failed.discard(lane.number)
        self._without_room.discard(lane.number)
        self._began_at = min(self._began_at, now)

    def seconds_left(self, attempt: Attempt) -> float:
        """Return the estimated seconds of what runs, of what the attempt holds beside that, and of its lane's share."""
        running, beat = 0.0, attempt.beat
        if beat is not None:
            running = beat.seconds_left + beat.unstarted * self._costs.mean_of_items()
        return running + attempt.lane.share.seconds()

    def rank(self, attempt: Attempt, now: float | None = None) -> None:
        """Enter an attempt among those who may give, by when it ends, or take it out; ``now``: estimate that anew."""
        self._entries += 1
        attempt.entry = self._entries
        if now is not None:
            attempt.ends_at = now + self.seconds_left(attempt)
        if attempt.name in self._busy and attempt.can_give():
            heapq.heappush(self._ends, (-attempt.ends_at, attempt.entry, attempt))
            if len(self._ends) > _STALE * (len(self._busy) + _STALE):
                self._ends = [entry for entry in self._ends if entry[1] == entry[2].entry]
                heapq.heapify(self._ends)

    # What follows.

    def taker(self) -> Attempt | None:
        """Return the attempt that has been idle for longest, and may take."""
        return next((attempt for attempt in self._idle.values() if attempt.alone()), None)

    def adoption(self, now: float) -> tuple[LaneState, Attempt] | None:
        """Return a lane that was never begun, and who should adopt its share now; None if nobody should."""
        if not self._unbegun or len(self._begun) < 2 or now - self._began_at < _START_SECONDS:
            return None
        taker = self.taker()
        return None if taker is None else (self._unbegun.pop(next(iter(self._unbegun))), taker)

    def pair(self, now: float) -> tuple[Attempt, Attempt] | None:
        """Return who should give now and who take; None if nobody is idle for whom nobody was asked, or has enough."""
        while self._asked:
            first = next(iter(self._asked.values()))
            if first.asked_at is not None and now - first.asked_at < _ANSWER_SECONDS:
                break
            del self._asked[first.name]  # it may be stopped, and is not asked again before it answers
        taker = self.taker() if len(self._idle) > len(self._asked) else None
        giver = None if taker is None else self._giver(now)
        return None if taker is None or giver is None else (giver, taker)

    def _giver(self, now: float) -> Attempt | None:
        """Return the attempt with the most seconds left, if it has enough of them."""
        while self._ends:
            negative, entry, attempt = self._ends[0]
            if entry == attempt.entry and attempt.can_give():
                return attempt if -negative - now >= 2 * self._worth_seconds else None
            heapq.heappop(self._ends)
        return None

    def leavers(self, now: float) -> Iterator[Attempt]:
        """Yield the idle attempts that should end."""
        starting = bool(self._unbegun) and now - self._began_at < _START_SECONDS
        hopeful = bool(self._failed) and not self._unbegun and now - self._lost_at < self._patience_seconds
        if self._busy and (starting or not self._unbegun):
            before = now - self._patience_seconds
        else:
            before = -math.inf if starting or hopeful else now
        leaving = list(takewhile(lambda attempt: attempt.idle_since <= before, self._may_leave()))
        if self._without_room and not leaving and now - self._lost_at >= _SLOT_SECONDS:
            leaving = list(islice(self._may_leave(), len(self._without_room)))
            for _ in leaving:
                self._without_room.pop()
        yield from leaving

    def _may_leave(self) -> Iterator[Attempt]:
        """Yield the idle attempts whose lanes have nothing delayed, the longest first; thousands may be idle."""
        return (attempt for attempt in self._idle.values() if not attempt.lane.delayed)
