"""Stealing: ranks the victims and the thieves of `sdf.lanes.steal_policy`, and says which idle attempts end.

These decisions change only how long a run takes; the coordinator keeps it correct. The seconds left of an attempt are
an estimate: from its last heartbeat for what it runs, and from measured costs for the queue of its lane.

- An idle attempt holds a slot. It ends after ``patience_seconds``, or at once if no attempt has work.
- The lanes of a job start one after the other. Idle attempts wait `_START_SECONDS` for them. Then they take over the
  queues of lanes that never had an attempt, as these may be waiting for slots. If only one lane has begun, its idle
  attempt ends instead: an action such as first() may need only that lane.
- A lane that has lost its attempt can give all of its work once Spark retries it, but the retry may need a slot. So one
  idle attempt ends to free a slot, and the others wait.
- While elements are still expanded (`more_comes`), idle attempts wait for their work, however long it takes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterator
from itertools import islice, takewhile

from sdf.lanes.attempts import Attempt, LaneState
from sdf.lanes.steal_policy import is_worth_asking, seconds_left
from sdf.scheduling.cost_model import CostModel

__all__ = ["Stealing"]

# Names in quotes are rows of benchmarks/ablate.py, which get worse with another value.
_ANSWER_SECONDS = 1.0  # a steal request without an answer for longer is not counted on
# An idle attempt ends after this to make room for a lost lane; "two slots lost for good, 20 s". If a worker dies, Spark
# retries the lane after 1.2 to 1.5 s in the slot it had, and no other has to end; "a worker is lost, 2 slots, 20 s".
_SLOT_SECONDS = 3.0
_STALE = 8  # heap entries per busy attempt, of which most are outdated: clean up; "what is asked of the driver"
_START_SECONDS = 0.25  # in which the lanes of a run start; "sizes unknown, the last is a giant, 5 s"


class Stealing:
    """See the module's docstring.

    Args:
        costs: the cost model of the run.
        min_piece_seconds: estimated seconds of the smallest piece worth moving.
        patience_seconds: the longest time that an attempt stays idle while others run.

    Attributes:
        more_comes: whether elements are still expanded.
    """

    def __init__(self, costs: CostModel, min_piece_seconds: float, patience_seconds: float) -> None:
        self._costs = costs
        self._min_piece_seconds = min_piece_seconds
        self._patience_seconds = patience_seconds
        self._idle: dict[Hashable, tuple[Attempt, float]] = {}  # with the time since when; the longest first
        self._busy: set[Hashable] = set()
        self._requested: dict[Hashable, Attempt] = {}
        self._ends: list[tuple[float, int, Attempt]] = []  # a heap of (-expected end, number of the entry, attempt)
        self._ends_at: dict[Hashable, float] = {}  # when an attempt is expected to have run all it has
        self._entry: dict[Hashable, int] = {}  # number of the one valid heap entry of an attempt
        self._entries = 0
        self._begun: set[int] = set()  # the lanes that have had an attempt
        self._unbegun: dict[int, LaneState] = {}  # lanes that have work, and never had an attempt
        self._failed: set[int] = set()  # lanes that have work, and have lost their attempt
        self._without_room: set[int] = set()  # those of `_failed` for which no idle attempt has ended
        self._began_at = math.inf
        self._lost_at = -math.inf
        self.more_comes = False

    # Queries.

    def is_idle(self, attempt: Attempt) -> bool:
        """Return whether an attempt waits for work."""
        return attempt.name in self._idle

    def none_idle(self) -> bool:
        """Return whether no attempt waits for work."""
        return not self._idle

    def idle(self) -> list[Attempt]:
        """Return the attempts that wait for work, the longest first."""
        return [attempt for attempt, _ in self._idle.values()]

    def idle_seconds(self, now: float) -> float:
        """Return how long the attempt has waited for work that waits longest; 0.0 if none waits."""
        return next((now - since for _, since in self._idle.values()), 0.0)

    # Events.

    def rests(self, attempt: Attempt, now: float) -> None:
        """An attempt has nothing to run."""
        self._busy.discard(attempt.name)
        self._idle.setdefault(attempt.name, (attempt, now))

    def runs(self, attempt: Attempt) -> None:
        """An attempt runs something; it may become a victim if its lane is not sealed."""
        self._idle.pop(attempt.name, None)
        if attempt.lane.sealed is None:
            self._busy.add(attempt.name)

    def ends(self, attempt: Attempt) -> None:
        """An attempt is gone, or will neither give nor take work any more."""
        self._idle.pop(attempt.name, None)
        self._busy.discard(attempt.name)
        self._requested.pop(attempt.name, None)
        self._entry.pop(attempt.name, None)
        self._ends_at.pop(attempt.name, None)

    def requested(self, attempt: Attempt, now: float) -> None:
        """An attempt was sent a steal request; it cannot be a victim before it answers."""
        attempt.requested_at = now
        self._requested[attempt.name] = attempt
        self.rank(attempt)

    def answered(self, attempt: Attempt) -> None:
        """An attempt has answered a steal request."""
        attempt.requested_at = None
        self._requested.pop(attempt.name, None)

    def needs_slot(self, lane: LaneState, now: float = -math.inf) -> None:
        """A lane has work and no attempt; if it had one, ``now`` is when that was lost."""
        if lane.begun:
            self._failed.add(lane.number)
            self._without_room.add(lane.number)
        else:
            self._unbegun[lane.number] = lane
        self._lost_at = max(self._lost_at, now)

    def has_slot(self, lane: LaneState, now: float) -> None:
        """An attempt at a lane has connected."""
        self._begun.add(lane.number)
        self._unbegun.pop(lane.number, None)
        self._failed.discard(lane.number)
        self._without_room.discard(lane.number)
        self._began_at = min(self._began_at, now)

    def seconds_left(self, attempt: Attempt) -> float:
        """Return the estimated seconds of an attempt's running and unstarted work items and of its lane's queue."""
        return seconds_left(attempt.heartbeat, self._costs.mean_of_items(), attempt.lane.queue.seconds())

    def rank(self, attempt: Attempt, now: float | None = None) -> None:
        """Rank an attempt among the victims by its expected end, or drop it; with ``now``, estimate the end again."""
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
        """Return the seconds until an attempt has run all it has, as estimated when last ranked; at least 0."""
        return max(0.0, self._ends_at.get(attempt.name, now) - now)

    # Decisions.

    def thief(self) -> Attempt | None:
        """Return the attempt idle longest of those that may take work, None if there is none."""
        return next((attempt for attempt, _ in self._idle.values() if attempt.alone()), None)

    def takeover(self, now: float) -> tuple[LaneState, Attempt] | None:
        """Return a lane that never had an attempt and the thief to take over its queue; None if that is not due."""
        several = len(self._begun) > 1 or self.more_comes  # or slots are taken by what expands elements
        if not self._unbegun or not several or now - self._began_at < _START_SECONDS:
            return None
        thief = self.thief()
        return None if thief is None else (self._unbegun.pop(next(iter(self._unbegun))), thief)

    def orphan(self) -> LaneState | None:
        """Return a lane that has work and no attempt, for an attempt that connects; None if there is none."""
        return next(iter(self._unbegun.values()), None)

    def pair(self, now: float) -> tuple[Attempt, Attempt] | None:
        """Return victim and thief; None if each idle attempt has a steal request under way, or no victim has enough."""
        while self._requested:
            first = next(iter(self._requested.values()))
            if first.requested_at is not None and now - first.requested_at < _ANSWER_SECONDS:
                break
            del self._requested[first.name]  # its process may hang; it gets no other request before it answers
        thief = self.thief() if len(self._idle) > len(self._requested) else None
        victim = None if thief is None else self._victim(now)
        return None if thief is None or victim is None else (victim, thief)

    def _victim(self, now: float) -> Attempt | None:
        """Return the attempt with the most seconds left, if it is worth asking."""
        while self._ends:
            entry = self._ends[0]
            if self._is_valid(entry) and entry[2].can_give():
                return entry[2] if is_worth_asking(-entry[0] - now, self._min_piece_seconds) else None
            heapq.heappop(self._ends)
        return None

    def leavers(self, now: float) -> Iterator[Attempt]:
        """Yield the idle attempts that should end."""
        starting = bool(self._unbegun) and now - self._began_at < _START_SECONDS
        hopeful = bool(self._failed) and not self._unbegun and now - self._lost_at < self._patience_seconds
        if self.more_comes:
            before = -math.inf
        elif self._busy and (starting or not self._unbegun):
            before = now - self._patience_seconds
        else:
            before = -math.inf if starting or hopeful else now
        leaving = [attempt for attempt, since in takewhile(lambda each: each[1] <= before, self._may_leave())]
        if self._without_room and not leaving and now - self._lost_at >= _SLOT_SECONDS:
            leaving = self.longest_idle(len(self._without_room))
            for _ in leaving:
                self._without_room.pop()
        yield from leaving

    def longest_idle(self, count: int) -> list[Attempt]:
        """Return at most ``count`` idle attempts that may end, the longest idle first."""
        return [attempt for attempt, _ in islice(self._may_leave(), count)]

    def _may_leave(self) -> Iterator[tuple[Attempt, float]]:
        """Yield the idle attempts whose lanes have no deferred work, the longest idle first; thousands may be idle."""
        return (each for each in self._idle.values() if not each[0].lane.delayed)
