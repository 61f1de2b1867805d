"""Segmented: in a saved run, what attempts commit, how often they should, and what is lost with them.

Every attempt has a lane of its own, and commits its work a segment at a time. Nobody runs committed work again.
Uncommitted work is lost with its attempt, and others take it over at once. Deferred work that is not due goes to
another attempt, which waits for it. Each loss may make segments shorter (`CommitInterval`). A work item that is lost
again and again may end its workers itself. An attempt ends when all its work is committed.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

import attrs

from sdf import errors
from sdf.errors import LedgerError, ProcessError, SdfError, StageError, show
from sdf.lanes.attempts import Attempt, LaneState
from sdf.lanes.delayed_work import DelayedWork
from sdf.lanes.messages import Bye, CommitEvery, Flush, Hello, ProtocolError, Raised, Sealed, SegmentDone
from sdf.lanes.policy import Policy
from sdf.scheduling.commit_interval import CommitInterval
from sdf.scheduling.work_queue import WorkQueue

__all__ = ["RaisedError", "Segmented"]

log = logging.getLogger("sdf.coordinator")


_MOST_LOSSES = 10  # of attempts with the same work item: it may be what ends their workers
_MOST_RAISED = 4  # attempts with the same work item: as often as Spark tries a task by default
_TOLD_SHARE = 0.2  # a lane hears of a commit interval that has changed by 20 %: each loss changes it a little


class RaisedError(SdfError):
    """Each attempt with a work item has raised. ``error`` is what the last attempt raised."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(raised.error)
        kind = vars(errors).get(raised.kind)
        known = isinstance(kind, type) and issubclass(kind, SdfError)  # a lane may say anything
        self.error: SdfError = (kind if known else ProcessError)(raised.error)  # type: ignore[misc]


@attrs.define(eq=False)
class Segmented(Policy):
    """See the module's docstring.

    Args:
        delayed: the deferred work of the lanes.
        saved: called with the ids of the work items of each committed segment, and its message.
        interval: how long a segment may last.

    Attributes:
        losses: how many attempts with it were lost, by the id of an uncommitted work item.
    """

    _delayed: DelayedWork
    _saved: Callable[[list[int], SegmentDone], None]
    _interval: CommitInterval
    _numbers: Iterator[int] = attrs.field(factory=itertools.count, init=False)
    _departures: set[tuple[int, int, int]] = attrs.field(factory=set, init=False)  # by stage, task and attempt
    losses: Counter[int] = attrs.field(factory=Counter, init=False)

    def lane_of(self, hello: Hello) -> LaneState:
        """Return the lane of the task's number if no attempt has it; else one without an attempt, or a new one."""
        if 0 <= hello.lane < len(self._lanes) and not self._lanes[hello.lane].begun:
            return self._lanes[hello.lane]
        if (orphan := self._stealing.orphan()) is not None:
            return orphan
        lane = LaneState(len(self._lanes), WorkQueue(self._work.costs))
        self._lanes.append(lane)
        return lane

    def connects(self, attempt: Attempt, now: float) -> None:
        """Tell it how long a segment may last."""
        self._interval.began(now)
        self._tell_interval([attempt], now)

    def loses(self, attempt: Attempt, others: Collection[Attempt], now: float) -> None:
        """Any other attempt may take over what this one has not committed.

        Raises:
            RaisedError: if the attempts with a work item raised, and this one told so.
            StageError: if a work item was lost too often.
        """
        lane, ledger = attempt.lane, self._work.ledger
        lost = ledger.held_by(lane.number) > 0 and not attempt.closed
        self.lost_seconds += lost * (now - attempt.committed_at)
        self._interval.ended(now, losses=int(lost))
        self._tell_interval(others, now)
        self._statistics.retries += lost
        if lost:
            self._note_loss(attempt)
        lane.take_back(ledger, ledger.content(lane.number))
        if lane.sealed is None:
            self._statistics.has_left(attempt)
            lane.begun = False  # any other attempt may take over what it has queued
            self.is_due(lane)
            self._delayed.desert(lane)

    def _note_loss(self, attempt: Attempt) -> None:
        """Count a loss of each uncommitted work item of an attempt; raise if one was lost too often."""
        for item in self._work.ledger.content(attempt.lane.number):
            self.losses[item.id] += 1
            if attempt.raised is not None and self.losses[item.id] >= _MOST_RAISED:
                raise RaisedError(attempt.raised)
            if self.losses[item.id] == _MOST_LOSSES:
                raise StageError(
                    f"{self._work.name}: {_MOST_LOSSES} workers or executors in a row were lost while they had "
                    f"{show(item.restriction)} of element {show(item.element)} to do. It may be what ends them, by its "
                    f"memory for example. What is committed stays so; make the same call again with the cause mended, "
                    f"or with StagedRunner() and on_failure=Quarantine()."
                )

    def is_due(self, lane: LaneState) -> None:
        """Let others take over the work if the lane has no attempt."""
        if len(lane.queue) and not lane.attempts:
            self._stealing.needs_slot(lane)

    def goes_on(self, attempt: Attempt) -> bool:
        """Return whether the attempt has not said `Bye`."""
        return not attempt.closed

    def commits(self, attempt: Attempt, message: SegmentDone, now: float) -> None:
        """Enter a segment as committed.

        Raises:
            ProtocolError: if the attempt does not own what it commits.
        """
        part = ("segment", next(self._numbers))
        try:
            ids = self._work.ledger.commit_first(attempt.lane.number, message.items, message.last_id, part)
        except LedgerError as error:
            raise ProtocolError(str(error)) from error
        attempt.commits(ids, now)
        for item_id in ids if self.losses else ():
            self.losses.pop(item_id, None)
        self._interval.committed(message.cost_seconds)
        self._tell_interval([attempt], now)
        self._saved(ids, message)

    def _tell_interval(self, attempts: Iterable[Attempt], now: float) -> None:
        """Tell attempts how long a segment may last now, unless what they were told last is about the same."""
        seconds = self._interval.seconds(now)
        for attempt in attempts:
            if abs(seconds - attempt.commit_every) > _TOLD_SHARE * attempt.commit_every:
                attempt.commit_every = seconds
                self._send(attempt.name, CommitEvery(seconds))

    def says_bye(self, attempt: Attempt, message: Bye, now: float) -> None:
        """Count an attempt that was told to end, but not the retry of such an attempt: one lane replaces both."""
        attempt.closed = True
        hello = attempt.hello
        self.departed += (hello.stage, hello.lane, hello.attempt - 1) not in self._departures
        self._departures.add((hello.stage, hello.lane, hello.attempt))
        log.info("%s: lane %d on %s leaves", self._work.name, attempt.lane.number, hello.worker)
        self._send(attempt.name, Sealed())

    def first_to_end(self, leavers: list[Attempt]) -> list[Attempt]:
        """Return the attempts that must still commit, else all. Uncommitted work may be lost, so the others wait."""
        return [each for each in leavers if self._work.ledger.held_by(each.lane.number)] or leavers

    def ends(self, attempt: Attempt, now: float) -> list[Attempt]:
        """Let an attempt end; it must first commit what it has run."""
        if self._work.ledger.held_by(attempt.lane.number):
            self._stealing.runs(attempt)
            self._send(attempt.name, Flush())
        else:
            self._stealing.ends(attempt)
            attempt.lane.seal(attempt)
            self._send(attempt.name, Sealed())
        return []

    def lanes(self) -> int:
        """Return how many attempts had work, each at a lane of its own; before the first, the number of lanes."""
        return sum(lane.begun for lane in self._lanes) + len(self._statistics.left) or len(self._lanes)
