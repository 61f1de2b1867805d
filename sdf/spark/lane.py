"""One attempt at one lane: what it holds, what runs next, and what it answers. No sockets, so a simulator can drive it.

Two threads share a `Lane`. The one that runs the task calls `advance` for what runs next. The one that
listens (`sdf.spark.link`) passes on what the coordinator says with `receive`, and says how far the lane is with `look`.
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

from sdf.deferrals import Deferrals
from sdf.dofn import DoFn
from sdf.errors import CoordinatorError, SdfError, show
from sdf.expansion import checked_size
from sdf.invoker import Residual
from sdf.items import (
    BETWEEN,
    CANNOT,
    NOTHING_CLAIMED,
    STAYS,
    TOO_LITTLE,
    UNTOLD,
    Ran,
    SlowBlock,
    WorkItem,
    slowest,
    units,
)
from sdf.running import Running
from sdf.spark.beats import Beats
from sdf.spark.messages import (
    Ask,
    Assign,
    Back,
    Beat,
    Declined,
    Fail,
    FromLane,
    Ready,
    Sealed,
    Split,
    ToLane,
    Verdict,
    Wait,
)
from sdf.values import Parts

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
        records: says how many records the attempt gave so far.

    Attributes:
        changed: notified whenever `advance` may have something new to say.
    """

    def __init__(
        self,
        fn: DoFn,
        *,
        side_inputs: Mapping[str, Any] | None = None,
        clock: Callable[[], float],
        send: Callable[[FromLane], None],
        records: Callable[[], int],
    ) -> None:
        self._fn = fn
        self._side_inputs = side_inputs
        self._clock = clock
        self._send = send
        self._records = records
        self.changed = Condition()
        self._queue: deque[WorkItem] = deque()
        self._running: Running | None = None
        self._told = 0  # how many residuals of what runs the coordinator has taken
        self._whole = False  # what runs is not offered any more
        self._mine: list[tuple[float, WorkItem]] = []  # refused residuals, with when they are due; the last is next
        self._kept = 0
        self._deferrals = Deferrals(type(fn).__name__)
        self._offer: Split | Back | None = None  # what the coordinator has yet to judge
        self._offered: list[WorkItem] = []
        self._asked = False  # for work, and no answer yet
        self._sealed = False
        self._failure: BaseException | None = None
        self._items = 0
        self._units = 0.0
        self._seconds = 0.0
        self._records_before = 0
        self._ran: list[tuple[int, float, float, float, int]] = []  # for the report, since it was last ready
        self._slow: tuple[SlowBlock, ...] = ()
        self._began = clock()
        self._beats = Beats(self._began)
        self._declined_at: tuple[Any, ...] | None = None
        self._worth_seconds = 0.0  # what it was asked for last, at least

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
            if self._offer is not None or not self._account():
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
                slow = tuple((block.item_id, block.position, block.seconds) for block in self._slow)
                ran, self._ran, self._slow = tuple(self._ran), [], ()
                self._send(Ready(self._records(), self._items, self._units, self._seconds, ran, slow))
            return WAIT

    def _start(self, item: WorkItem, *, whole: bool) -> Running:
        self._running = Running(
            self._fn,
            item,
            side_inputs=self._side_inputs,
            clock=self._clock,
            expected_seconds=self._expected_seconds(item),
        )
        self._told, self._whole = 0, whole
        return self._running

    def _expected_seconds(self, item: WorkItem) -> float:
        """Return what it should take by what ran here before, 0 if that does not tell: a piece is less than a whole."""
        tells = self._units > 0 and (item.size is not None or item.parent is None)
        return units(item) * self._seconds / self._units if tells else 0.0

    def _account(self) -> bool:
        """Add up what has ended; False if the coordinator must judge first what process() deferred."""
        running = self._running
        if running is None:
            return True
        mine = running.invoker.residuals[self._told :]
        if mine:
            if not self._whole and self._propose(running, asked=False):
                return False
            self._deferrals.note(running.item, running.invoker.primary)
        for residual in mine:  # the last cut lies next to what was run
            self._keep(running.item, residual)
        units, _ = running.done()
        self._items += 1
        self._units += units
        self._seconds += running.seconds()
        self._report(running, units)
        self._running = None
        return True

    def _report(self, running: Running, units: float) -> None:
        """Note how a work item ran; a part that stayed here counts as more of the one that it was cut off from."""
        item, records = running.item, self._records()
        known = _known(item)
        ran = running.ran(known, self._began, units, records - self._records_before)
        self._records_before = records
        self._ran.append(_fields(ran))
        if slow := running.slow_blocks():
            self._slow = slowest(*self._slow, *(attrs.evolve(block, item_id=known) for block in slow))

    def _keep(self, item: WorkItem, residual: Residual) -> None:
        """Put a residual that stays here on top of what runs next; the ledger knows it as part of its parent."""
        self._kept += 1
        size = checked_size(self._fn, item.element, residual.restriction)
        kept = WorkItem(
            -self._kept, item.element_id, item.element, residual.restriction, size, _known(item), residual.watermark
        )
        delay_seconds = self._deferrals.delay_seconds(kept, residual.delay_seconds)
        self._mine.append((self._clock() + delay_seconds, kept))

    def _propose(self, running: Running, *, asked: bool) -> bool:
        """Offer the residuals that the coordinator has not seen; False if they cannot be told."""
        primary, residuals = running.invoker.parts()
        try:
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
            elif isinstance(message, Ask):
                self._answer(message.worth_seconds)
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
            if self._running is not None:
                with suppress(SdfError):  # what is wrong with its tracker it says itself, at its end
                    self._running.invoker.split(0)

    def _answer(self, worth_seconds: float) -> None:
        running = self._running
        kept = int(running is None and not self._mine)  # it begins the first, which might else be handed round for ever
        if self._offer is None and len(self._queue) > kept:
            items = list(self._queue)
            self._queue, self._offered = deque(items[:kept]), items[kept:]
            self._offer = Back(tuple(item.id for item in self._offered))
            self._send(self._offer)
            return
        reason = BETWEEN if self._offer is not None or running is None else self._split(running, worth_seconds)
        if reason is not None:
            if reason != TOO_LITTLE:  # which changes while it stands: a block turns out to be dear
                self._declined_at = self._position()
            self._send(Declined(reason))

    def _split(self, running: Running, worth_seconds: float) -> str | None:
        """Split what runs in two halves, if a half is worth it, and tell the coordinator; return what is in the way."""
        running.note()
        self._worth_seconds = worth_seconds
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
        return half >= max(self._worth_seconds, running.opening_seconds() or 0.0)

    def _judged(self, accepted: bool) -> None:
        if isinstance(self._offer, Back):
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
            running = self._running
            if running is None or self._failure is not None:
                return
            running.note()
            units, _ = running.units()
            splittable = running.invoker.started and not self._whole and self._is_worth(running)
            left = min(running.seconds_left_at_most(), 1e9)
            beat = Beat(running.item.id, splittable, units, running.seconds(), left, len(self._queue))
            if self._beat_is_due(beat):
                self._send(beat)
                self._declined_at = None
                self._beats.said(beat, self._clock())

    def _beat_is_due(self, beat: Beat) -> bool:
        """Tell whether it should beat now; after it has declined an ask, as soon as it has moved on."""
        if self._declined_at is not None:
            return self._position() != self._declined_at
        return self._beats.due(beat, self._clock())

    def _position(self) -> tuple[Any, ...]:
        """Return where it is, which differs once it has moved on."""
        running = self._running
        if running is None:
            return ()
        return running.item.id, running.invoker.started, running.units(), show(running.invoker.last_claimed)

    @property
    def waits(self) -> bool:
        """Tell whether it waits for an answer of the coordinator."""
        with self.changed:
            return (self._asked or self._offer is not None) and not self._sealed and self._failure is None


def _known(item: WorkItem) -> int:
    """Return the number by which the driver knows a work item: of what stays here, that of its parent."""
    return item.id if item.id >= 0 or item.parent is None else item.parent
