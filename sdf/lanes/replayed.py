"""Replayed: in a kept run, all attempts at a lane run the same content, and it counts once the lane is sealed."""

from __future__ import annotations

import logging
from collections.abc import Collection

import attrs

from sdf.errors import LedgerError, ReplayError, show
from sdf.lanes.attempts import Attempt, LaneState
from sdf.lanes.messages import Bye, Fail, Hello, ProtocolError, Sealed, SegmentDone
from sdf.lanes.policy import Policy

__all__ = ["Replayed"]

log = logging.getLogger("sdf.coordinator")


@attrs.define(eq=False)
class Replayed(Policy):
    """See the module's docstring."""

    def lane_of(self, hello: Hello) -> LaneState:
        """Return the lane that the task runs."""
        if 0 <= hello.lane < len(self._lanes):
            return self._lanes[hello.lane]
        raise LedgerError(f"there is no lane {hello.lane}; this run has {len(self._lanes)}.")

    def connects(self, attempt: Attempt, now: float) -> None:
        """Have it run the content again if the lane is sealed, or beside another attempt; else have it start over."""
        lane, ledger = attempt.lane, self._work.ledger
        if lane.sealed is not None or lane.attempts:
            self._statistics.replays += lane.sealed is not None
            attempt.again.extend(ledger.content_with_sizes(lane.number))
        else:
            self._statistics.retries += lane.begun
            lane.take_back(ledger, ledger.content(lane.number))

    def loses(self, attempt: Attempt, others: Collection[Attempt], now: float) -> None:
        """Spark tries the lane again, unless another attempt at it goes on."""
        lane, ledger = attempt.lane, self._work.ledger
        if lane.sealed is not None:
            return
        if len(lane.attempts) == 1:
            (left,) = lane.attempts
            lane.take_back(ledger, left.again)
            left.again.clear()
            self._stealing.rank(left)
        elif not (lane.attempts or attempt.closed) and (lane.queue or lane.delayed or ledger.content(lane.number)):
            self._stealing.needs_slot(lane, now)

    def is_due(self, lane: LaneState) -> None:
        """If the lane has no attempt, the next one at it finds the work in its queue."""

    def goes_on(self, attempt: Attempt) -> bool:
        """Return True: an attempt goes on until its lane is sealed."""
        return True

    def commits(self, attempt: Attempt, message: SegmentDone, now: float) -> None:
        """Refuse the segment."""
        raise ProtocolError(f"lane {attempt.lane.number} commits a segment, and the run is not saved.")

    def says_bye(self, attempt: Attempt, message: Bye, now: float) -> None:
        """Note that the action has read enough records: nobody waits for a retry of the lane."""
        attempt.closed = True

    def first_to_end(self, leavers: list[Attempt]) -> list[Attempt]:
        """Return all of them."""
        return leavers

    def ends(self, attempt: Attempt, now: float) -> list[Attempt]:
        """Seal the lane if it is not yet, and let the attempt end; fail a replay whose record counts differ."""
        lane, records, tagged = attempt.lane, attempt.done.records, attempt.done.tagged
        idle: list[Attempt] = []
        self._stealing.ends(attempt)
        if lane.sealed is None:
            if self.unsealed == 1 and self._stealing.more_comes:
                raise LedgerError("the last lane must not end before all elements are expanded.")
            self._work.ledger.seal(lane.number, attempt.name)
            lane.seal(attempt)
            idle = [other for other in lane.attempts if self._stealing.is_idle(other)]
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
                f"{_counts(records, tagged)} where {_counts(lane.sealed.records, lane.tagged)} the first time. Make "
                f"process() depend on nothing but element and restriction, or save the result before it is used twice: "
                f"each action runs the work again, and with tags each output needs its own action."
            )
            self._send(attempt.name, Fail(error))
        else:
            self._send(attempt.name, Sealed())
        return idle

    def lanes(self) -> int:
        """Return the number of lanes."""
        return len(self._lanes)


def _counts(records: int, tagged: tuple[int, ...]) -> str:
    """Return record counts as text: the total, or with tags those of the main output and each tag."""
    return f"{records} records" if not tagged else f"{(records - sum(tagged), *tagged)} records (main, then each tag)"
