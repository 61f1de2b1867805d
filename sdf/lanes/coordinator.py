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

A saved run has no replays. What an attempt has committed, in segments, is nobody's work any more. Every attempt has a
lane of its own. What a lost attempt has not committed can be taken over at once; what was deferred and is not due goes
to another attempt, which waits for it. An attempt ends when it has committed all that it ran. The run has ended when
the ledger holds all work as committed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import attrs

from sdf.errors import LedgerError, StageError, show
from sdf.execution.bulk.table import Rows
from sdf.execution.expansion import Expanded
from sdf.execution.invoker import Residual
from sdf.execution.work_items import Outcome, WorkItem
from sdf.lanes.assignment import Assignment
from sdf.lanes.attempts import Attempt, LaneState
from sdf.lanes.delayed_work import DelayedWork
from sdf.lanes.late_elements import LateElements
from sdf.lanes.messages import (
    AskStart,
    Bye,
    Declined,
    Fail,
    FromLane,
    Heartbeat,
    Hello,
    Leave,
    ProtocolError,
    Raised,
    Ready,
    Refused,
    Returned,
    Sealed,
    SegmentDone,
    Split,
    ToLane,
    Verdict,
    Wait,
)
from sdf.lanes.pacing import Pacing
from sdf.lanes.segments import MOST_LOSSES, Segments
from sdf.lanes.statistics import Statistics
from sdf.lanes.stealing import Stealing
from sdf.lanes.wire import WAIT_EVERY_SECONDS
from sdf.limits.rate_limit import RateLimit
from sdf.reporting.progress import RunProgress
from sdf.reporting.run_report import RunReport
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue
from sdf.serialization.values import Parts, ValuesError

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
        segments: in a saved run, what was committed and lost; else None.
    """

    def __init__(
        self,
        work: RunState,
        shares: list[list[WorkItem]],
        *,
        send: Callable[[Hashable, ToLane], None],
        min_piece_seconds: float,
        patience_seconds: float,
        saved: Callable[[list[int], SegmentDone], None] | None = None,
        commit_seconds: float = math.inf,
        limits: Iterable[RateLimit] = (),
        more_comes: bool = False,
    ) -> None:
        self.segments = None if saved is None else Segments(work.ledger, send, saved, commit_seconds)
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
        self._unmovable = False
        self._statistics = Statistics(work, self._lanes, saves=saved is not None)
        self._assignment = Assignment(
            work, len(shares), self._stealing, self._statistics, send=send, min_piece_seconds=min_piece_seconds,
            saves=saved is not None,
        )  # fmt: skip
        self._late = LateElements(work, self._lanes, self._stealing, self._assignment)
        self._stealing.more_comes = more_comes

    # Events.

    def expanded(self, elements: Iterable[Expanded], now: float, *, last: bool) -> None:
        """Elements were expanded when lanes already had their shares; ``last``: no more come."""
        self._stealing.more_comes = not last
        self._late.enter(elements, now)
        for attempt in self._stealing.idle():
            if not attempt.alone():  # else `settle` finds work for it
                self._assignment.next(attempt, now)
        self._assignment.settle(now)

    def frees_slot(self, now: float) -> None:
        """See `Assignment.frees_slot`."""
        self._assignment.frees_slot(now)

    def connected(self, name: Hashable, hello: Hello, now: float) -> None:
        """An attempt has sent `Hello`; ``name`` is unique."""
        known = 0 <= hello.lane < len(self._lanes)
        if not known and self.segments is None:
            self._send(name, Fail(LedgerError(f"there is no lane {hello.lane}; this run has {len(self._lanes)}.")))
            return
        if self.segments is not None and not (known and not self._lanes[hello.lane].begun):
            lane = self._stealing.orphan() or self._new_lane()
        else:
            lane = self._lanes[hello.lane]
        ledger = self._work.ledger
        attempt = self._attempts[name] = Attempt(
            name, lane, hello, given_at=now, committed_at=now, commit_every=self._commit_seconds
        )
        if self.segments is not None:
            self.segments.began(attempt, now)
        if lane.sealed is not None or lane.attempts:
            self._statistics.replays += lane.sealed is not None
            attempt.again.extend(ledger.content_with_sizes(lane.number))
        else:
            self._statistics.retries += lane.begun
            for item in ledger.content(lane.number):
                lane.queue.push(ledger.release(lane.number, item.id))
        lane.connect(attempt)
        self._statistics.attempts(len(self._attempts), now)
        self._stealing.has_slot(lane, now)
        self._stealing.runs(attempt)
        for other in lane.attempts[:-1]:
            self._stealing.rank(other)
            if self._stealing.is_idle(other):
                self._assignment.next(other, now)  # a lane with two attempts cannot steal
        self._adopt()
        self._assignment.settle(now)

    def _new_lane(self) -> LaneState:
        lane = LaneState(len(self._lanes), WorkQueue(self._work.costs))
        self._lanes.append(lane)
        return lane

    def delay(self, item: WorkItem, due: float) -> None:
        """In a saved run: queue a work item that nobody may run before ``due``. Call this before attempts connect."""
        self._delayed.add(self._lanes[0], item, due)
        self._delayed.desert(self._lanes[0])

    def _adopt(self) -> None:
        """Give delayed work of lanes without an attempt to a lane that has one."""
        self._delayed.adopt(next((each.lane for each in self._attempts.values() if each.lane.sealed is None), None))

    def received(self, name: Hashable, message: FromLane, now: float) -> None:
        """An attempt has sent a message. If the message is impossible, this attempt fails and nothing else changes."""
        attempt = self._attempts.get(name)
        if attempt is None:
            return
        try:
            if isinstance(message, Ready):
                self._ready(attempt, message, now)
            elif isinstance(message, Heartbeat):
                self._heartbeat(attempt, message, now)
            elif isinstance(message, Split):
                self._split(attempt, message, now)
            elif isinstance(message, Returned):
                self._returned(attempt, message, now)
            elif isinstance(message, Declined):
                self._answered(attempt)
                self._statistics.refusals[message.reason] += 1
                attempt.declines()
                self._stealing.rank(attempt)
            elif isinstance(message, (AskStart, Refused)):
                self._pacing.received(name, message, now)
                return
            elif isinstance(message, SegmentDone):
                self._segment_done(attempt, message, now)
            elif isinstance(message, Raised):
                attempt.fails(message)
            elif isinstance(message, Bye):
                attempt.closes()
                if self.segments is not None:
                    self.segments.departs(attempt.hello)
                    log.info("%s: lane %d on %s leaves", self.name, attempt.lane.number, attempt.hello.worker)
                    self._send(name, Sealed())
            else:
                raise ProtocolError(f"lane {attempt.lane.number} said hello twice.")
        except ProtocolError as error:
            log.warning("%s: lane %d: %s", self.name, attempt.lane.number, error)
            self._send(name, Fail(LedgerError(str(error))))
        self._assignment.settle(now)

    def lost(self, name: Hashable, now: float) -> None:
        """The connection of an attempt has ended."""
        attempt = self._attempts.pop(name, None)
        if attempt is None:
            return
        self._statistics.attempts(len(self._attempts), now)
        self._pacing.lost(name)
        lane, ledger = attempt.lane, self._work.ledger
        lane.attempts.remove(attempt)
        self._stealing.forget(attempt)
        if self.segments is not None:
            lost = self.segments.ended(attempt, self._attempts.values(), now)
            self._statistics.retries += lost
            fatal = self.segments.note_loss(attempt) if lost else None
            if fatal is not None:
                raise _lost_too_often(self.name, fatal)
            for item in ledger.content(lane.number):
                lane.queue.push(ledger.release(lane.number, item.id))
            if lane.sealed is None:
                self._statistics.left(attempt)
                lane.abandon()
                self._orphaned(lane)
                self._delayed.desert(lane)
                self._adopt()
        elif lane.sealed is None and len(lane.attempts) == 1:
            (left,) = lane.attempts
            while left.again:
                lane.queue.push(ledger.release(lane.number, left.again.popleft().id))
            self._stealing.rank(left)
        elif (
            lane.sealed is None
            and not (lane.attempts or attempt.closed)
            and (lane.queue or lane.delayed or ledger.content(lane.number))
        ):
            self._stealing.needs_slot(lane, now)
        self._assignment.settle(now)

    def leave(self, name: Hashable) -> None:
        """In a saved run: tell an attempt to commit what it has run, and to leave the rest to others."""
        attempt = self._attempts.get(name)
        if attempt is not None and not (attempt.told_to_leave or attempt.closed):
            attempt.leaves()
            log.info("%s: lane %d on %s is told to leave", self.name, attempt.lane.number, attempt.hello.worker)
            self._send(name, Leave())

    def _orphaned(self, lane: LaneState) -> None:
        if len(lane.queue):
            self._stealing.needs_slot(lane)

    def tick(self, now: float) -> None:
        """Time has passed; to be called often while `waiting`."""
        for lane in self._delayed.resume(now):
            if self.segments is not None and not lane.attempts:
                self._orphaned(lane)
            for attempt in lane.attempts:
                if self._stealing.is_idle(attempt):
                    self._assignment.next(attempt, now)
        if now - self._waited_at >= WAIT_EVERY_SECONDS:
            self._waited_at = now
            for attempt in self._stealing.idle():
                self._send(attempt.name, Wait())
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

    def _answered(self, attempt: Attempt) -> None:
        attempt.answered()
        self._stealing.answered(attempt)

    def _ready(self, attempt: Attempt, message: Ready, now: float) -> None:
        items, size, seconds = attempt.ready(message, now, len(self._work.ledger))
        self._work.costs.observe(Outcome(items, (), size, seconds))
        if not (attempt.closed and self.segments is not None):
            self._assignment.next(attempt, now)

    def _heartbeat(self, attempt: Attempt, message: Heartbeat, now: float) -> None:
        self._work.costs.learn(message.item_id, message.units, message.seconds)
        attempt.on_heartbeat(message)
        self._stealing.rank(attempt, now)

    def _split(self, attempt: Attempt, message: Split, now: float) -> None:
        """Enter a split; queue the residuals at the thief's lane or, without a thief, at their own."""
        lane = attempt.lane
        if message.asked:
            self._answered(attempt)
        parts = self._read(attempt, message) if attempt.alone() else None
        if parts is None:
            if message.asked:
                attempt.declines()
            self._send(attempt.name, Verdict(False))
            return
        thief = (self._stealing.thief() if message.asked else None) or attempt
        self._work.costs.learn(message.item_id, message.units, message.seconds)
        children = self._work.split(lane.number, message.item_id, *parts)
        lane.give_away(len(children))
        log.debug(
            "%s: lane %d keeps %s, cut off for lane %d: %d",
            self._work.name, lane.number, parts[0], thief.lane.number, len(children),
        )  # fmt: skip
        self._send(attempt.name, Verdict(True))
        for child, delay_seconds in children:
            if delay_seconds > 0:
                self._delayed.add(lane, child, now + delay_seconds)
            else:
                thief.lane.queue.push(child)
        attempt.has_split(self._stealing.seconds_until_end(attempt, now) / 2)
        self._stealing.rank(attempt, now)
        if thief is not attempt:
            self._assignment.next(thief, now)

    def _read(self, attempt: Attempt, message: Split) -> tuple[Any, list[Residual]] | None:
        if message.item_id not in attempt.given:
            raise ProtocolError(
                f"lane {attempt.lane.number} has split work item {message.item_id}, which it does not run."
            )
        read = Parts(attempt.given[message.item_id]).read
        try:
            primary = read(message.primary)
            residuals = [
                Residual(read(restriction), delay_seconds, read(watermark), deferred=not message.asked)
                for restriction, delay_seconds, watermark in message.residuals
            ]
            if residuals and type(residuals[-1].restriction) is Rows:  # the others hold the rows behind this one
                residuals[:-1] = [attrs.evolve(one, deferred=False) for one in residuals[:-1]]
        except ValuesError as error:
            if not self._unmovable:
                log.warning("%s cannot be split while it runs: %s", self._work.name, error)
            self._unmovable = True
            return None
        return primary, residuals

    def _returned(self, attempt: Attempt, message: Returned, now: float) -> None:
        """Put unstarted work items back into the lane's queue."""
        self._answered(attempt)
        if not attempt.alone():
            self._send(attempt.name, Verdict(False))
            return
        if not attempt.given.keys() >= set(message.item_ids):
            raise ProtocolError(f"lane {attempt.lane.number} gives back work items that it was not given.")
        for item_id in message.item_ids:
            attempt.lane.queue.push(self._work.ledger.release(attempt.lane.number, item_id))
        attempt.has_returned()
        self._send(attempt.name, Verdict(True))
        self._stealing.rank(attempt, now)  # `settle` then moves half of it to an idle attempt

    def _segment_done(self, attempt: Attempt, message: SegmentDone, now: float) -> None:
        if self.segments is None:
            raise ProtocolError(f"lane {attempt.lane.number} commits a segment, and the run is not saved.")
        self.segments.commit(attempt, message, now)

    # Reports.

    def attempts(self) -> list[tuple[Hashable, Hello]]:
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
        return not (self._failed or self._assignment.unsealed)

    def progress(self, now: float) -> RunProgress:
        """Return how far the run is."""
        return self._statistics.progress(now, len(self._attempts) - len(self._stealing.idle()))

    def report(self, now: float) -> RunReport:
        """Return what has been done so far."""
        return self._statistics.report(now, self._pacing.used())


def _lost_too_often(name: str, item: WorkItem) -> StageError:
    return StageError(
        f"{name}: {MOST_LOSSES} workers or executors in a row were lost while they had {show(item.restriction)} of "
        f"element {show(item.element)} to do. It may be what ends them, by its memory for example. What is committed "
        f"stays so; make the same call again with the cause mended, or with StagedRunner() and on_failure='quarantine'."
    )
