"""Segments: in a saved run, what attempts commit, how often they should, and what is lost with them.

An attempt commits what it has run, a segment at a time. What it has not committed is lost with it, and others run that
again. Each loss may make segments shorter (`CommitInterval`). A work item that was lost again and again may be what
ends its workers.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable

from sdf import errors
from sdf.errors import LedgerError, ProcessError, SdfError
from sdf.execution.work_items import WorkItem
from sdf.lanes.attempts import Attempt
from sdf.lanes.messages import CommitEvery, Hello, ProtocolError, Raised, SegmentDone, ToLane
from sdf.scheduling.commit_interval import CommitInterval
from sdf.scheduling.ledger import Ledger

__all__ = ["MOST_LOSSES", "RaisedError", "Segments"]

MOST_LOSSES = 10  # of attempts with the same work item: it may be what ends their workers
_MOST_RAISED = 4  # attempts with the same work item: as often as Spark tries a task by default
_TOLD_SHARE = 0.2  # a lane hears of another commit interval when it differs by so much: each loss changes it a little


class RaisedError(SdfError):
    """Each attempt with a work item has raised. ``error`` is what the last attempt raised."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(raised.error)
        kind = vars(errors).get(raised.kind)
        known = isinstance(kind, type) and issubclass(kind, SdfError)  # a lane may say anything
        self.error: SdfError = (kind if known else ProcessError)(raised.error)  # type: ignore[misc]


class Segments:
    """See the module's docstring. The caller serialises the calls; ``now`` is monotonic seconds.

    Args:
        ledger: the ledger of the run.
        send: sends a message to an attempt.
        saved: called with the ids of the work items of each committed segment, and its message.
        commit_seconds: how long a segment may last.

    Attributes:
        departed: how many lanes have ended because they, or their processes, were told to.
        lost_seconds: about how many seconds of work were lost with attempts.
        losses: how many attempts with it were lost, by the id of an uncommitted work item.
    """

    def __init__(
        self,
        ledger: Ledger,
        send: Callable[[Hashable, ToLane], None],
        saved: Callable[[list[int], SegmentDone], None],
        commit_seconds: float,
    ) -> None:
        self._ledger = ledger
        self._send = send
        self._saved = saved
        self._interval = CommitInterval(commit_seconds)
        self._numbers = itertools.count()
        self._departures: set[tuple[int, int, int]] = set()  # by stage, task and attempt
        self.departed = 0
        self.lost_seconds = 0.0
        self.losses: Counter[int] = Counter()

    def began(self, attempt: Attempt, now: float) -> None:
        """An attempt has connected."""
        self._interval.began(now)
        self._tell_interval([attempt], now)

    def ended(self, attempt: Attempt, others: Iterable[Attempt], now: float) -> bool:
        """The connection of an attempt has ended; return whether work that it had not committed is lost.

        Args:
            attempt: the attempt.
            others: the attempts that are still connected.
            now: the time.
        """
        lost = self._ledger.held_by(attempt.lane.number) > 0 and not attempt.closed
        self.lost_seconds += lost * (now - attempt.committed_at)
        self._interval.ended(now, losses=int(lost))
        self._tell_interval(others, now)
        return lost

    def note_loss(self, attempt: Attempt) -> WorkItem | None:
        """Count a loss of each uncommitted work item of an attempt; return one that was lost too often, or None.

        Raises:
            RaisedError: if the attempts with a work item raised, and this one told so.
        """
        for item in self._ledger.content(attempt.lane.number):
            self.losses[item.id] += 1
            if attempt.raised is not None and self.losses[item.id] >= _MOST_RAISED:
                raise RaisedError(attempt.raised)
            if self.losses[item.id] == MOST_LOSSES:
                return item
        return None

    def commit(self, attempt: Attempt, message: SegmentDone, now: float) -> None:
        """Enter a segment as committed.

        Raises:
            ProtocolError: if the attempt does not own what it commits.
        """
        part = ("segment", next(self._numbers))
        try:
            ids = self._ledger.commit_first(attempt.lane.number, message.items, message.last_id, part)
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
                attempt.commits_every(seconds)
                self._send(attempt.name, CommitEvery(seconds))

    def departs(self, hello: Hello) -> None:
        """Count an attempt that leaves, but not the retry of one that has left: one lane takes the place of both."""
        self.departed += (hello.stage, hello.lane, hello.attempt - 1) not in self._departures
        self._departures.add((hello.stage, hello.lane, hello.attempt))
