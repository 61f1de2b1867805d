"""One attempt at one lane: what it holds, what runs next, and what it answers. No sockets, so a simulator can drive it.

Two threads share a `Lane`. The one that runs the task calls `advance` for what runs next. The one that listens
(`sdf.spark.live.link`) passes on what the coordinator says with `receive`, and calls `look`, which tells the
coordinator how far the lane is.
Whatever the coordinator refuses, because the lane was sealed or doubled meanwhile, stays here: it is run right after
the part that it was cut off from, as if nothing had been cut.
"""

from __future__ import annotations

import logging
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
from sdf.execution.work_items import (
    BETWEEN,
    CANNOT,
    NOTHING_CLAIMED,
    STAYS,
    TOO_LITTLE,
    UNTOLD,
    Ran,
    WorkItem,
)
from sdf.lanes.heartbeat import HeartbeatSchedule
from sdf.lanes.messages import (
    MOST_RESIDUALS,
    Assign,
    Declined,
    Fail,
    FromLane,
    Heartbeat,
    ProtocolError,
    Ready,
    Returned,
    Sealed,
    Split,
    StealRequest,
    ToLane,
    Verdict,
    Wait,
)
from sdf.model.dofn import DoFn
from sdf.serialization.values import Parts

__all__ = ["WAIT", "Lane"]

log = logging.getLogger("sdf.lane")


class Waiting(Enum):
    """What `Lane.advance` says when there is nothing to run now."""

    WAIT = "wait"


WAIT = Waiting.WAIT

_fields = operator.attrgetter(*(field.name for field in attrs.fields(Ran)))


class Lane:
    """See the module's docstring.

    Args:
        fn: the DoFn, set up.
        side_inputs: keyword arguments for `process`.
        clock: monotonic seconds.
        send: sends a message to the coordinator.
        tagged: says how many records the attempt gave so far for each declared tag.

    Attributes:
        changed: notified whenever `advance` may have something new to say.
        heartbeats: when the next is due.
    """

    def __init__(
        self,
        fn: DoFn,
        *,
        side_inputs: Mapping[str, Any] | None = None,
        clock: Callable[[], float],
        send: Callable[[FromLane], None],
        tagged: Callable[[], tuple[int, ...]] = tuple,
    ) -> None:
        self._fn = fn
        self._executor = Executor(fn, side_inputs=side_inputs, clock=clock)
        self._clock = clock
        self._send = send
        self._tagged = tagged
        self.changed = Condition()
        self._queue: deque[WorkItem] = deque()
        self._told = 0  # how many residuals of what runs the coordinator has taken
        self._whole = False  # what runs is not offered any more
        self._mine: list[tuple[float, WorkItem]] = []  # refused residuals, with when they are due; the last is next
        self._kept = 0
        self._deferrals = Deferrals(type(fn).__name__)
        self._offer: Split | Returned | None = None  # what the coordinator has yet to judge
        self._offered: list[WorkItem] = []
        self._asked = False  # for work, and no answer yet
        self._sealed = False
        self._failure: BaseException | None = None
        self.heartbeats = HeartbeatSchedule(clock())
        self._declined_at: tuple[Any, ...] | None = None
        self._min_piece_seconds = 0.0  # what it was asked for last, at least

    # The thread that runs the task.

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

    def _ready(self) -> Ready:
        done = self._executor
        ran, slow = done.take_report()
        blocks = tuple((block.item_id, block.position, block.seconds) for block in slow)
        return Ready(
            done.records, done.items, done.units, done.seconds, tuple(map(_fields, ran)), blocks, self._tagged()
        )

    def _start(self, item: WorkItem, *, whole: bool) -> Running:
        self._told, self._whole = 0, whole
        return self._executor.start(item)

    def _end_running(self) -> bool:
        """Add up what has ended; False if the coordinator must judge first what process() deferred."""
        running = self._executor.running
        if running is None:
            return True
        mine = running.invoker.residuals[self._told :]
        if mine:
            if not self._whole and self._propose(running, asked=False):
                return False
            self._deferrals.note(running.item, running.invoker.primary)
        for residual in mine:  # the last cut lies next to what was run
            self._keep(running.item, residual)
        self._executor.end(_driver_id(running.item))
        return True

    def _keep(self, item: WorkItem, residual: Residual) -> None:
        """Put a residual that stays here on top of what runs next; the ledger knows it as part of its parent."""
        self._kept += 1
        kept = residual_item(self._fn, item, residual, -self._kept, _driver_id(item))
        delay_seconds = self._deferrals.delay_seconds(kept, residual.delay_seconds, cut_from=item.id)
        self._mine.append((self._clock() + delay_seconds, kept))

    def _propose(self, running: Running, *, asked: bool) -> bool:
        """Offer the residuals that the coordinator has not seen; False if they cannot be told."""
        primary, residuals = running.invoker.parts()
        try:
            if len(residuals) - self._told > MOST_RESIDUALS:
                raise ProtocolError(f"{len(residuals) - self._told} parts of it, and {MOST_RESIDUALS} can be told.")
            describe = Parts(running.item.restriction).describe
            told = tuple(
                (describe(residual.restriction), residual.delay_seconds, describe(residual.watermark))
                for residual in residuals[self._told :]
            )
            units, _ = running.units()
            offer = Split(running.item.id, asked, describe(primary), told, units, running.seconds())
            self._send(offer)
        except CoordinatorError:
            raise
        except Exception as error:  # a value that cannot be told, or too long a message: the work stays here
            log.warning("%s: this part cannot be split while it runs: %s", type(self._fn).__name__, error)
            return False
        self._offer = offer
        return True

    # The thread that listens.

    def receive(self, message: ToLane) -> None:
        """Take a message of the coordinator, and answer it."""
        with self.changed:
            if isinstance(message, Assign):
                self._queue.extend(message.items)
                self._asked = False
            elif isinstance(message, StealRequest):
                self._answer(message.min_piece_seconds)
            elif isinstance(message, Verdict):
                self._judged(message.accepted)
            elif isinstance(message, Sealed):
                self._sealed = True
            elif isinstance(message, Fail):
                self._fail(message.error)
            else:
                assert isinstance(message, Wait)
            self.changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Make `advance` raise, and what runs end at its next claim. The first error counts."""
        with self.changed:
            self._fail(error)
            self.changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        if self._failure is None and not self._sealed:
            self._failure = error
            if self._executor.running is not None:
                with suppress(SdfError):  # what is wrong with its tracker it says itself, at its end
                    self._executor.running.invoker.split(0)

    def _answer(self, min_piece_seconds: float) -> None:
        running = self._executor.running
        kept = int(running is None and not self._mine)  # it begins the first, which might else be handed round for ever
        if self._offer is None and len(self._queue) > kept:
            items = list(self._queue)
            self._queue, self._offered = deque(items[:kept]), items[kept:]
            self._offer = Returned(tuple(item.id for item in self._offered))
            self._send(self._offer)
            return
        reason = BETWEEN if self._offer is not None or running is None else self._split(running, min_piece_seconds)
        if reason is not None:
            if reason != TOO_LITTLE:  # which changes while it stands: a block turns out to be dear
                self._declined_at = self._position()
            self._send(Declined(reason))

    def _split(self, running: Running, min_piece_seconds: float) -> str | None:
        """Split what runs in two halves, if a half is worth it, and tell the coordinator; return what is in the way."""
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
        """Tell whether half of what is left is worth a split, as far as was asked, and more than to open it again."""
        half = running.seconds_left_at_most() / 2
        return half >= max(self._min_piece_seconds, running.opening_seconds() or 0.0)

    def _judged(self, accepted: bool) -> None:
        if isinstance(self._offer, Returned):
            if not accepted:
                self._queue.extend(self._offered)
            self._offered = []
        elif isinstance(self._offer, Split):
            if accepted:
                self._told += len(self._offer.residuals)
            else:
                self._whole = True
        self._offer = None

    def look(self) -> None:
        """Note how far the lane is, and say so if that is due; to be called every `LOOK_SECONDS`."""
        with self.changed:
            running = self._executor.running
            if running is None or self._failure is not None:
                return
            running.note()
            units, _ = running.units()
            splittable = running.invoker.started and not self._whole and self._is_worth(running)
            left = min(running.seconds_left_at_most(), 1e9)
            beat = Heartbeat(
                running.item.id, splittable, units, running.seconds(), left, len(self._queue), self._executor.units
            )
            if self._heartbeat_is_due(beat):
                self._send(beat)
                self._declined_at = None
                self.heartbeats.sent(beat, self._clock())

    def _heartbeat_is_due(self, beat: Heartbeat) -> bool:
        """Tell whether it should beat now; after it has declined an ask, as soon as it has moved on."""
        if self._declined_at is not None:
            return self._position() != self._declined_at
        return self.heartbeats.due(beat, self._clock())

    def _position(self) -> tuple[Any, ...]:
        """Return where it is, which differs once it has moved on."""
        running = self._executor.running
        if running is None:
            return ()
        return running.item.id, running.invoker.started, running.units(), show(running.invoker.last_claimed)

    @property
    def waits(self) -> bool:
        """Tell whether it waits for an answer of the coordinator."""
        with self.changed:
            return (self._asked or self._offer is not None) and not self._sealed and self._failure is None


def _driver_id(item: WorkItem) -> int:
    """Return the number by which the driver knows a work item: of what stays here, that of its parent."""
    return item.id if item.id >= 0 or item.parent is None else item.parent
