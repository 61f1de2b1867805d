"""The coordinator: receives the messages of lanes and routes them. No sockets.

A message updates its attempt, the ledger and the costs. `sdf.lanes.assignment` then decides what the attempt runs next,
or seals its lane. Every lane has a *queue*: its work items that nobody has started. It also has a *content*: the work
items that the ledger says it owns, in the order in which its attempts were assigned them.

Rules that keep this exactly-once:

- Only an unsealed lane with one live attempt gives or takes work. So all live attempts at a lane have the same content.
- Sealing fixes the content, and an attempt may end in success only after that. So whichever attempt Spark accepts has
  run exactly the content of its lane. At the last seal the ledger proves that the contents tile the elements.
- An attempt at a sealed lane runs the content again, and changes nothing. If an unsealed lane loses its only attempt,
  its content, as split so far, returns to its queue when the next attempt connects. That attempt starts over.

A saved run has no replays: what an attempt has committed, in segments, is nobody's work any more. The run has ended
when the ledger holds all work as committed. A `Policy` decides whatever differs between the two kinds of run.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from sdf.errors import LedgerError
from sdf.execution.expansion import Expanded
from sdf.execution.work_items import WorkItem
from sdf.lanes import messages
from sdf.lanes.assignment import Assignment
from sdf.lanes.attempts import Attempt, LaneState
from sdf.lanes.delayed_work import DelayedWork
from sdf.lanes.pacing import Pacing
from sdf.lanes.replayed import Replayed
from sdf.lanes.segmented import Segmented
from sdf.lanes.statistics import Statistics
from sdf.lanes.stealing import Stealing
from sdf.lanes.wire import WAIT_EVERY_SECONDS
from sdf.limits.rate_limit import RateLimit
from sdf.reporting.progress import RunProgress
from sdf.reporting.run_report import RunReport
from sdf.scheduling.commit_interval import CommitInterval
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue

__all__ = ["Coordinator"]

log = logging.getLogger("sdf.coordinator")


class Coordinator:
    """See the module's docstring. The caller serialises the calls; ``now`` is monotonic seconds.

    These calls run user code, so they may raise anything, and then leave the state half changed. After that the caller
    may call only `failed` and the methods that report (`sdf.spark.live.contained_run`).

    Args:
        work: the work of the run.
        shares: the work items that each lane starts with.
        send: sends a message to an attempt.
        min_piece_seconds: estimated seconds of the smallest piece worth moving.
        patience_seconds: the longest time that an attempt stays idle while others run.
        saved: in a saved run, called with the ids of the work items of each committed segment, and its message.
        commit_seconds: in a saved run, how long a segment may last.
        limits: the rate limits that all lanes share.
        more_comes: whether elements are still expanded: `expanded` follows. Not in a saved run.

    Attributes:
        name: name of the DoFn.
        policy: decides how the work of the lanes comes to count.
    """

    def __init__(
        self,
        work: RunState,
        shares: list[list[WorkItem]],
        *,
        send: Callable[[Hashable, messages.ToLane], None],
        min_piece_seconds: float,
        patience_seconds: float,
        saved: Callable[[list[int], messages.SegmentDone], None] | None = None,
        commit_seconds: float = math.inf,
        limits: Iterable[RateLimit] = (),
        more_comes: bool = False,
    ) -> None:
        self._pacing = Pacing(limits, send)
        self._commit_seconds = commit_seconds
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
        self._delayed = DelayedWork()
        self._waited_at = 0.0
        self._failed = False
        self._statistics = Statistics(work, self._lanes)
        shared = work, self._lanes, self._stealing, self._statistics, send
        self.policy: Replayed | Segmented = (
            Replayed(*shared)
            if saved is None
            else Segmented(*shared, self._delayed, saved, CommitInterval(commit_seconds))
        )
        self._assignment = Assignment(*shared, self._delayed, self.policy, min_piece_seconds)
        self._handlers: dict[type, Callable[[Attempt, Any, float], None]] = {
            messages.Ready: self._ready,
            messages.Heartbeat: self._heartbeat,
            messages.Split: self._assignment.split,
            messages.Returned: self._assignment.returned,
            messages.Declined: self._assignment.declined,
            messages.AskStart: self._pace,
            messages.Refused: self._pace,
            messages.SegmentDone: self.policy.commits,
            messages.Raised: lambda attempt, message, now: attempt.fails(message),
            messages.Bye: self.policy.says_bye,
        }
        self._stealing.more_comes = more_comes

    # Events.

    def expanded(self, elements: Iterable[Expanded], now: float, *, last: bool) -> None:
        """Elements were expanded when lanes already had their shares; ``last``: no more come."""
        self._stealing.more_comes = not last
        self._assignment.share_out(elements, now)
        for attempt in self._stealing.idle():
            if not attempt.alone():  # else `settle` finds work for it
                self._assignment.next(attempt, now)
        self._assignment.settle(now)

    def frees_slot(self, now: float) -> None:
        """See `Assignment.frees_slot`."""
        self._assignment.frees_slot(now)

    def connected(self, name: Hashable, hello: messages.Hello, now: float) -> None:
        """An attempt has sent `Hello`; ``name`` is unique."""
        try:
            lane = self.policy.lane_of(hello)
        except LedgerError as error:
            self._send(name, messages.Fail(error))
            return
        attempt = self._attempts[name] = Attempt(
            name, lane, hello, given_at=now, committed_at=now, commit_every=self._commit_seconds
        )
        self.policy.connects(attempt, now)
        lane.begun = True
        lane.attempts.append(attempt)
        self._statistics.attempts(len(self._attempts), now)
        self._stealing.has_slot(lane, now)
        self._stealing.runs(attempt)
        for other in lane.attempts[:-1]:
            self._stealing.rank(other)
            if self._stealing.is_idle(other):
                self._assignment.next(other, now)  # a lane with two attempts cannot steal
        self._adopt()
        self._assignment.settle(now)

    def delay(self, item: WorkItem, due: float) -> None:
        """In a saved run: queue a work item that nobody may run before ``due``. Call this before attempts connect."""
        self._delayed.add(self._lanes[0], item, due)
        self._delayed.desert(self._lanes[0])

    def _adopt(self) -> None:
        """Give delayed work of lanes without an attempt to a lane that has one."""
        self._delayed.adopt(next((each.lane for each in self._attempts.values() if each.lane.sealed is None), None))

    def received(self, name: Hashable, message: messages.FromLane, now: float) -> None:
        """An attempt has sent a message. If the message is impossible, this attempt fails and nothing else changes."""
        attempt = self._attempts.get(name)
        if attempt is None:
            return
        try:
            if isinstance(message, messages.Hello):
                raise messages.ProtocolError(f"lane {attempt.lane.number} said hello twice.")
            self._handlers[type(message)](attempt, message, now)
            if isinstance(message, (messages.AskStart, messages.Refused)):  # who runs what stays as it is
                return
        except messages.ProtocolError as error:
            log.warning("%s: lane %d: %s", self.name, attempt.lane.number, error)
            self._send(name, messages.Fail(LedgerError(str(error))))
        self._assignment.settle(now)

    def lost(self, name: Hashable, now: float) -> None:
        """The connection of an attempt has ended."""
        attempt = self._attempts.pop(name, None)
        if attempt is None:
            return
        self._statistics.attempts(len(self._attempts), now)
        self._pacing.lost(name)
        attempt.lane.attempts.remove(attempt)
        self._stealing.ends(attempt)
        self.policy.loses(attempt, self._attempts.values(), now)
        self._adopt()
        self._assignment.settle(now)

    def leave(self, name: Hashable) -> None:
        """In a saved run: tell an attempt to commit what it has run, and to leave the rest to others."""
        attempt = self._attempts.get(name)
        if attempt is not None and not (attempt.told_to_leave or attempt.closed):
            attempt.told_to_leave = True
            log.info("%s: lane %d on %s is told to leave", self.name, attempt.lane.number, attempt.hello.worker)
            self._send(name, messages.Leave())

    def tick(self, now: float) -> None:
        """Time has passed; to be called often while `waiting`."""
        for lane in self._delayed.resume(now):
            self.policy.is_due(lane)
            for attempt in lane.attempts:
                if self._stealing.is_idle(attempt):
                    self._assignment.next(attempt, now)
        if now - self._waited_at >= WAIT_EVERY_SECONDS:
            self._waited_at = now
            for attempt in self._stealing.idle():
                self._send(attempt.name, messages.Wait())
        self._assignment.settle(now)

    def waiting(self) -> bool:
        """Return whether something may become due without a message."""
        return bool(self._stealing.idle() or self._delayed)

    def failed(self, now: float) -> None:
        """The run has failed: forget its attempts."""
        self._failed = True
        self._attempts.clear()
        self._statistics.attempts(0, now)

    # Messages.

    def _ready(self, attempt: Attempt, message: messages.Ready, now: float) -> None:
        self._work.costs.observe(attempt.ready(message, now, len(self._work.ledger)))
        if self.policy.goes_on(attempt):
            self._assignment.next(attempt, now)

    def _heartbeat(self, attempt: Attempt, message: messages.Heartbeat, now: float) -> None:
        self._work.costs.learn(message.item_id, message.units, message.seconds)
        attempt.heartbeat, attempt.declined = message, False
        self._stealing.rank(attempt, now)

    def _pace(self, attempt: Attempt, message: messages.AskStart | messages.Refused, now: float) -> None:
        self._pacing.received(attempt.name, message, now)

    # Reports.

    def attempts(self) -> list[tuple[Hashable, messages.Hello]]:
        """Return the connected attempts, each by its name and with its first message."""
        return [(name, attempt.hello) for name, attempt in self._attempts.items()]

    def idle_seconds(self, now: float) -> float:
        """Return how long the attempt has waited for work that waits longest; 0.0 if none waits."""
        return self._stealing.idle_seconds(now)

    def uncommitted_seconds(self, now: float) -> float:
        """Return about how many seconds of work the attempts have not committed."""
        return sum(now - attempt.committed_at for attempt in self._attempts.values())

    def running(self) -> bool:
        """Return whether attempts are connected and the run is not done."""
        return bool(self._attempts) and not self.sealed()

    def sealed(self) -> bool:
        """Return whether all lanes are sealed and the tiling is proven."""
        return not (self._failed or self.policy.unsealed)

    def progress(self, now: float) -> RunProgress:
        """Return how far the run is."""
        return self._statistics.progress(now, len(self._attempts) - len(self._stealing.idle()))

    def report(self, now: float) -> RunReport:
        """Return what has been done so far."""
        return self._statistics.report(now, self.policy.lanes(), self._pacing.used())
