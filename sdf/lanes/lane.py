"""One attempt at one lane: the work it holds and its answers. No sockets, so a simulator can drive it.

Two threads share a `Lane`. The task's thread calls `advance` to get the next running work item. The listening thread
(`sdf.spark.live.link`) passes the coordinator's messages to `receive`, and calls `look`, which sends heartbeats.

The coordinator refuses a split if the lane is sealed or has a second attempt, or if it cannot read a restriction. The
lane then runs the residuals itself, right after the part that they were cut off from.

In a saved run a lane works in segments. When the seconds of a segment are over, the running work item is split at its
next claim, its residual goes back to the driver, and `advance` returns `CLOSE`. The task then closes the segment, and
calls `segment_done`. No segment ends before all residuals of its work items are with the driver, or have run here.
A lane whose process is told to end (`leave`) does the same at once, and says `Bye`; what it has not run is then the
coordinator's again.
"""

from __future__ import annotations

import logging
import math
import operator
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from threading import Condition
from typing import Any

import attrs

from sdf.errors import CoordinatorError, SdfError, show
from sdf.execution.deferrals import Deferrals
from sdf.execution.executor import Executor, residual_item
from sdf.execution.invoker import Residual
from sdf.execution.measured_run import Running
from sdf.execution.work_items import BETWEEN, CANNOT, NOTHING_CLAIMED, STAYS, TOO_LITTLE, UNTOLD, Ran, WorkItem
from sdf.lanes import messages
from sdf.lanes.heartbeat import HeartbeatSchedule
from sdf.lanes.open_segment import OpenSegment
from sdf.lanes.pacing import LaneStartTimes
from sdf.lanes.steal_policy import is_worth_cutting
from sdf.model.dofn import DoFn
from sdf.serialization.values import Parts

__all__ = ["CLOSE", "WAIT", "Lane", "Waiting"]

log = logging.getLogger("sdf.lane")


class Waiting(Enum):
    """What `Lane.advance` returns when there is nothing to run now, or when a segment must be closed."""

    WAIT = "wait"
    CLOSE = "close"


WAIT, CLOSE = Waiting.WAIT, Waiting.CLOSE

_fields = operator.attrgetter(*(field.name for field in attrs.fields(Ran)))


class Lane:
    """See the module's docstring.

    Args:
        fn: the DoFn, set up.
        side_inputs: keyword arguments for `process`.
        clock: monotonic seconds.
        send: sends a message to the coordinator.
        tagged: returns how many records the attempt has yielded so far for each declared tag.
        segment_seconds: in a saved run, how long a segment may last; the coordinator may change it. Else infinity.

    Attributes:
        changed: notified when `advance` may return something new.
        heartbeats: when the next heartbeat is due.
        segment: what the attempt has not committed.
        start_times: of calls to servers that have a rate limit.
    """

    def __init__(
        self,
        fn: DoFn,
        *,
        side_inputs: Mapping[str, Any] | None = None,
        clock: Callable[[], float],
        send: Callable[[messages.FromLane], None],
        tagged: Callable[[], tuple[int, ...]] = tuple,
        segment_seconds: float = math.inf,
    ) -> None:
        self._fn = fn
        self._executor = Executor(fn, side_inputs=side_inputs, clock=clock)
        self._clock = clock
        self._send = send
        self._tagged = tagged
        self.changed = Condition()
        self._queue: deque[WorkItem] = deque()
        self._accepted_residuals = 0  # number of residuals of the running work item that the coordinator accepted
        self._whole = False  # the running work item must not be split again
        self._mine: list[tuple[float, WorkItem]] = []  # refused residuals, each with its due time; the last is next
        self._kept = 0
        self._deferrals = Deferrals(type(fn).__name__)
        self._offer: messages.Split | messages.Returned | None = None  # waits for its verdict
        self._offered: list[WorkItem] = []
        self._asked = False  # sent `Ready`, and got no answer yet
        self._sealed = False
        self._failure: BaseException | None = None
        self.start_times = LaneStartTimes(send, clock, self.changed, lambda: self._failure)
        self.heartbeats = HeartbeatSchedule(clock())
        self._declined_at: tuple[Any, ...] | None = None
        self._min_piece_seconds = 0.0  # as in the last steal request
        self.segment = OpenSegment(clock, segment_seconds)
        self._flush = False
        self._leaving = self._left = False  # told to end; has said so to the coordinator

    # The task's thread.

    def advance(self) -> Running | Waiting | None:
        """Return what runs next; call again once its outputs have ended.

        Returns:
            `WAIT` if there is nothing to run now; None if the lane is sealed and the attempt may end.

        Raises:
            SdfError: if the attempt must fail.
        """
        with self.changed:
            if self._failure is not None:
                raise self._failure
            if self._offer is not None or not self._end_running():
                return WAIT
            if not self._mine and self._is_over():
                self._flush = False
                self.segment.closes()
                return CLOSE
            if self._leaving and not self._mine:
                return self._leave()
            if self._mine:
                due, item = self._mine[-1]
                if self._clock() < due:
                    return WAIT
                self._mine.pop()
                return self._start(item, whole=True)
            if self._queue:
                return self._start(self._queue.popleft(), whole=False)
            if self._sealed:
                return None
            if not self._asked:
                self._asked = True
                self._send(self._ready())
            return WAIT

    def _is_over(self) -> bool:
        """Return whether the segment has run something and must be closed now."""
        if not self.segment.ids:
            return False
        return self._clock() >= self.segment.ends or self._leaving or (self._flush and not self._queue)

    def leave(self) -> None:
        """In a saved run: end the attempt as soon as possible; what it has run is committed. For a signal handler."""
        self._leaving = True  # nothing else, as the handler may interrupt any other method

    def _leave(self) -> Waiting | None:
        """Say `Bye`; the answer means that the coordinator has got it, and all that was sent before."""
        if self._sealed:
            return None
        if not self._left:
            said, self._left, self._asked = self._asked, True, True
            self._send(messages.Bye())
            if not said:
                self._send(self._ready())  # what it has run, for the report
        return WAIT

    def segment_done(self, written: tuple[Any, ...], records: tuple[int, ...]) -> None:
        """Tell the coordinator that the sinks have written the segment; call it when `advance` gives nothing to run."""
        with self.changed:
            message = self.segment.done(written, records)
            if message is not None:
                self._send(message)

    def held(self) -> list[WorkItem]:
        """Return the work items that this segment has run or runs, each cut to what was run of it."""
        with self.changed:
            running = self._executor.running
            return [*self.segment.ran(), *([] if running is None else [running.item])]

    def _ready(self) -> messages.Ready:
        done = self._executor
        ran, slow = done.take_report()
        rows, blocks = tuple(map(_fields, ran)), tuple(map(attrs.astuple, slow))
        return messages.Ready(done.records, done.items, done.units, done.seconds, rows, blocks, self._tagged())

    def _start(self, item: WorkItem, *, whole: bool) -> Running:
        self._accepted_residuals, self._whole = 0, whole
        self.segment.starts()
        return self._executor.start(item)

    def _end_running(self) -> bool:
        """Add up the work item that has ended; return False if its deferred residuals must first get a verdict."""
        running = self._executor.running
        if running is None:
            return True
        mine = running.invoker.residuals[self._accepted_residuals :]
        if mine:
            if not self._whole and self._propose(running, asked=False):
                return False
            self._deferrals.note(running.item, running.invoker.primary)
        for residual in mine:  # the last one, next to the primary, runs first
            self._keep(running.item, residual)
        part = self._executor.end(_driver_id(running.item))
        self.segment.add(running.item, part, keeps=bool(mine))
        return True

    def _keep(self, item: WorkItem, residual: Residual) -> None:
        """Put a refused residual first in line; to the ledger it is still part of its parent."""
        self._kept += 1
        kept = residual_item(self._fn, item, residual, -self._kept, _driver_id(item))
        delay_seconds = 0.0
        if residual.deferred:
            delay_seconds = self._deferrals.delay_seconds(kept, residual.delay_seconds, cut_from=item.id)
        self._mine.append((self._clock() + delay_seconds, kept))

    def _propose(self, running: Running, *, asked: bool) -> bool:
        """Offer the residuals that the coordinator has not accepted yet; return False if a message cannot hold them."""
        primary, residuals = running.invoker.parts()
        try:
            offered = residuals[self._accepted_residuals :]
            most = messages.MOST_RESIDUALS
            if len(offered) > most:
                raise messages.ProtocolError(f"{len(offered)} residuals, and a message can hold {most}.")
            describe = Parts(running.item.restriction).describe
            described = tuple(
                (describe(residual.restriction), residual.delay_seconds, describe(residual.watermark))
                for residual in offered
            )
            units, _ = running.units()
            offer = messages.Split(running.item.id, asked, describe(primary), described, units, running.seconds())
            self._send(offer)
        except CoordinatorError:
            raise
        except Exception as error:  # no description of a value, or too long a message: the work stays here
            log.warning("%s: this part cannot be split while it runs: %s", type(self._fn).__name__, error)
            return False
        self._offer = offer
        return True

    # The listening thread.

    def receive(self, message: messages.ToLane) -> None:
        """Handle a message of the coordinator; answer a steal request."""
        with self.changed:
            if isinstance(message, messages.Assign):
                self._queue.extend(message.items)
                self._asked = False
            elif isinstance(message, messages.StealRequest):
                self._answer(message.min_piece_seconds)
            elif isinstance(message, messages.Verdict):
                self._judged(message.accepted)
            elif isinstance(message, messages.StartIn):
                self.start_times.receive(message)
            elif isinstance(message, messages.Sealed):
                self._sealed = True
            elif isinstance(message, messages.Flush):
                self._flush, self._asked = True, False
            elif isinstance(message, messages.Leave):
                self.leave()
            elif isinstance(message, messages.CommitEvery):
                self.segment.seconds = message.seconds
            elif isinstance(message, messages.Fail):
                self._fail(message.error)
            else:
                assert isinstance(message, messages.Wait)
            self.changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Make `advance` raise, and make the running work item end at its next claim. Only the first error counts."""
        with self.changed:
            self._fail(error)
            self.changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        if self._failure is None and not self._sealed:
            self._failure = error
            if self._executor.running is not None:
                with suppress(SdfError):  # the invoker raises it again when the work item ends
                    self._executor.running.invoker.split(0)

    def _answer(self, min_piece_seconds: float) -> None:
        running = self._executor.running
        kept = int(running is None and not self._mine)  # it starts this one next; given back, it might move on for ever
        if self._offer is None and len(self._queue) > kept:
            items = list(self._queue)
            self._queue, self._offered = deque(items[:kept]), items[kept:]
            self._offer = messages.Returned(tuple(item.id for item in self._offered))
            self._send(self._offer)
            return
        reason = BETWEEN if self._offer is not None or running is None else self._split(running, min_piece_seconds)
        if reason is not None:
            if reason != TOO_LITTLE:  # this reason can change within a block that turns out to be slow
                self._declined_at = self._position()
            self._send(messages.Declined(reason))

    def _split(self, running: Running, min_piece_seconds: float) -> str | None:
        """Halve the running work item and offer the residual; return the reason if that fails."""
        running.note()
        self._min_piece_seconds = min_piece_seconds
        if self._whole:
            return STAYS
        if not self._is_worth(running):
            return TOO_LITTLE
        if not running.halve():
            return CANNOT if running.invoker.started else NOTHING_CLAIMED
        if self._propose(running, asked=True):
            return None
        self._whole = True
        return UNTOLD

    def _is_worth(self, running: Running) -> bool:
        return is_worth_cutting(running.seconds_left_at_most(), self._min_piece_seconds, running.opening_seconds())

    def _judged(self, accepted: bool) -> None:
        if isinstance(self._offer, messages.Returned):
            if not accepted:
                self._queue.extend(self._offered)
            self._offered = []
        elif isinstance(self._offer, messages.Split):
            if accepted:
                self._accepted_residuals += len(self._offer.residuals)
            else:
                self._whole = True
        self._offer = None

    def look(self) -> None:
        """Send a heartbeat if one is due; call this every `LOOK_SECONDS`."""
        with self.changed:
            running = self._executor.running
            if running is None or self._failure is not None:
                return
            running.note()
            if not self._whole:
                self.segment.end(running, leaving=self._leaving)
            units, _ = running.units()
            splittable = running.invoker.started and not self._whole and self._is_worth(running)
            left = min(running.seconds_left_at_most(), 1e9)
            unstarted = sum(item.elements for item in self._queue)
            heartbeat = messages.Heartbeat(
                running.item.id, splittable, units, running.seconds(), left, unstarted, self._executor.units
            )
            if self._heartbeat_is_due(heartbeat):
                self._send(heartbeat)
                self._declined_at = None
                self.heartbeats.sent(heartbeat, self._clock())

    def _heartbeat_is_due(self, heartbeat: messages.Heartbeat) -> bool:
        """Return whether to send ``heartbeat`` now; after a declined steal request, once the position has changed."""
        if self._declined_at is not None:
            return self._position() != self._declined_at
        return self.heartbeats.due(heartbeat, self._clock())

    def _position(self) -> tuple[Any, ...]:
        """Return a value that changes whenever the lane makes progress."""
        running = self._executor.running
        if running is None:
            return ()
        return running.item.id, running.invoker.started, running.units(), show(running.invoker.last_claimed)

    @property
    def waits(self) -> bool:
        """Whether the lane waits for an answer of the coordinator."""
        with self.changed:
            asked = self._asked or self._offer is not None or self.start_times.asked
            return asked and not self._sealed and self._failure is None


def _driver_id(item: WorkItem) -> int:
    """Return the id by which the driver knows a work item; for a residual that stays here, its parent's."""
    return item.id if item.id >= 0 or item.parent is None else item.parent
