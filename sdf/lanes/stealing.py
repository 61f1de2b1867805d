"""Work stealing: which lane is the victim, which idle attempt is the thief, and which idle attempts end.

Nothing here is about right or wrong, that is the coordinator's; this is about when a run ends. Seconds left are an
estimate: what the attempt said of what it runs, and the costs seen so far for the queue of its lane.

- The victim is the attempt with the most seconds left, if these are worth two of the smallest pieces.
- The thief is the attempt that has been idle for longest.
- An idle attempt holds a slot. It may wait as long as its patience lasts, and not at all if nobody runs anything.
- The lanes of a job start one after the other, and the first to run dry wait a moment. After that they take over the
  queues of lanes that were never begun, which may wait for a slot. But the first lane alone ends: an action such as
  first() may want no more than that one.
- A lane that has lost its attempt has all of its work to give once it is tried again, but may need a slot for that. One
  idle attempt ends for it, and the others wait.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterator
from itertools import islice, takewhile

from sdf.lanes.attempts import Attempt, LaneState
from sdf.scheduling.cost_model import CostModel

__all__ = ["Stealing"]

# Names in quotes are rows of benchmarks/ablate.py, which get worse with another value.
_ANSWER_SECONDS = 1.0  # a steal request that has no answer by then is not counted on
_SLOT_SECONDS = 1.0  # after which an idle attempt makes room for a lost lane; "two slots lost for good, 20 s"
_STALE = 8  # times as many entries as busy attempts, and most are not valid any more; "what is asked of the driver"
_START_SECONDS = 0.25  # in which the lanes of a run start; "sizes unknown, the last is a giant, 5 s"


class Stealing:
    """See the module's docstring.

    Args:
        costs: what work has cost so far.
        min_piece_seconds: the smallest piece worth moving.
        patience_seconds: how long an attempt stays idle.
    """

    def __init__(self, costs: CostModel, min_piece_seconds: float, patience_seconds: float) -> None:
        self._costs = costs
        self._min_piece_seconds = min_piece_seconds
        self._patience_seconds = patience_seconds
        self._idle: dict[Hashable, tuple[Attempt, float]] = {}  # with since when; the longest first
        self._busy: set[Hashable] = set()
        self._requested: dict[Hashable, Attempt] = {}
        self._ends: list[tuple[float, int, Attempt]] = []  # a heap
        self._ends_at: dict[Hashable, float] = {}  # when an attempt will have run what it has, as far as is known
        self._entry: dict[Hashable, int] = {}  # the valid one among the entries of an attempt in the heap
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
        return [attempt for attempt, _ in self._idle.values()]

    # What changes.

    def rests(self, attempt: Attempt, now: float) -> None:
        """An attempt has nothing to run."""
        self._busy.discard(attempt.name)
        self._idle.setdefault(attempt.name, (attempt, now))

    def runs(self, attempt: Attempt) -> None:
        """An attempt runs something; it counts as one that may give if its lane is not sealed."""
        self._idle.pop(attempt.name, None)
        if attempt.lane.sealed is None:
            self._busy.add(attempt.name)

    def ends(self, attempt: Attempt) -> None:
        """An attempt will neither give nor take any more."""
        self._idle.pop(attempt.name, None)
        self._busy.discard(attempt.name)
        self._requested.pop(attempt.name, None)
        self._entry.pop(attempt.name, None)

    def requested(self, attempt: Attempt) -> None:
        """Something was requested of an attempt; until it answers it is no victim."""
        self._requested[attempt.name] = attempt
        self.rank(attempt)

    def answered(self, attempt: Attempt) -> None:
        """An attempt has answered."""
        self._requested.pop(attempt.name, None)

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
        """Return the estimated seconds of what runs, of what the attempt holds beside that, and of its lane's queue."""
        running, beat = 0.0, attempt.heartbeat
        if beat is not None:
            running = beat.seconds_left + beat.unstarted * self._costs.mean_of_items()
        return running + attempt.lane.queue.seconds()

    def rank(self, attempt: Attempt, now: float | None = None) -> None:
        """Enter an attempt among the victims, by when it ends, or take it out; ``now``: estimate that anew."""
        name = attempt.name
        self._entries += 1
        self._entry[name] = self._entries
        if now is not None:
            self._ends_at[name] = now + self.seconds_left(attempt)
        if name in self._busy and attempt.can_give():
            heapq.heappush(self._ends, (-self._ends_at.get(name, 0.0), self._entries, attempt))
            if len(self._ends) > _STALE * (len(self._busy) + _STALE):
                self._ends = [entry for entry in self._ends if self._is_valid(entry)]
                heapq.heapify(self._ends)

    def _is_valid(self, entry: tuple[float, int, Attempt]) -> bool:
        return self._entry.get(entry[2].name) == entry[1]

    def seconds_until_end(self, attempt: Attempt, now: float) -> float:
        """Return in how many seconds an attempt will have run what it has, as it was ranked last; at least 0."""
        return max(0.0, self._ends_at.get(attempt.name, now) - now)

    def forget(self, attempt: Attempt) -> None:
        """An attempt is gone."""
        self.ends(attempt)
        self._ends_at.pop(attempt.name, None)

    # What follows.

    def thief(self) -> Attempt | None:
        """Return the attempt that has been idle for longest, and may take."""
        return next((attempt for attempt, _ in self._idle.values() if attempt.alone()), None)

    def takeover(self, now: float) -> tuple[LaneState, Attempt] | None:
        """Return a lane that was never begun, and who should take over its queue now; None if nobody should."""
        if not self._unbegun or len(self._begun) < 2 or now - self._began_at < _START_SECONDS:
            return None
        thief = self.thief()
        return None if thief is None else (self._unbegun.pop(next(iter(self._unbegun))), thief)

    def pair(self, now: float) -> tuple[Attempt, Attempt] | None:
        """Return victim and thief; None if nobody is idle for whom nothing was requested, or nobody has enough."""
        while self._requested:
            first = next(iter(self._requested.values()))
            if first.requested_at is not None and now - first.requested_at < _ANSWER_SECONDS:
                break
            del self._requested[first.name]  # it may be stopped, and nothing more is requested before it answers
        thief = self.thief() if len(self._idle) > len(self._requested) else None
        victim = None if thief is None else self._victim(now)
        return None if thief is None or victim is None else (victim, thief)

    def _victim(self, now: float) -> Attempt | None:
        """Return the attempt with the most seconds left, if it has enough of them."""
        while self._ends:
            entry = self._ends[0]
            if self._is_valid(entry) and entry[2].can_give():
                return entry[2] if -entry[0] - now >= 2 * self._min_piece_seconds else None
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
        leaving = [attempt for attempt, since in takewhile(lambda each: each[1] <= before, self._may_leave())]
        if self._without_room and not leaving and now - self._lost_at >= _SLOT_SECONDS:
            leaving = [attempt for attempt, _ in islice(self._may_leave(), len(self._without_room))]
            for _ in leaving:
                self._without_room.pop()
        yield from leaving

    def _may_leave(self) -> Iterator[tuple[Attempt, float]]:
        """Yield the idle attempts whose lanes have nothing delayed, the longest first; thousands may be idle."""
        return (each for each in self._idle.values() if not each[0].lane.delayed)
