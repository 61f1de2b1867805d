"""Lanes, and the attempts at them, as the coordinator knows them. Both own their state: others read it.

Who is stolen from is decided in `sdf.lanes.stealing`, what an attempt runs next in `sdf.lanes.assignment`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any

import attrs

from sdf.execution.work_items import Ran, SlowBlock, WorkItem, slowest
from sdf.lanes.messages import MOST_ITEMS, Heartbeat, Hello, ProtocolError, Ready
from sdf.reporting.run_facts import TaskRun
from sdf.scheduling.work_queue import WorkQueue

__all__ = ["Attempt", "LaneState"]

# What an attempt is given at a time, once there are enough small work items: a share of the time that it has run, as
# each costs it some two milliseconds. Names in quotes are rows of benchmarks/ablate.py.
_BATCH_SHARE = 0.1  # "losses and latecomers"
_LEAST_SECONDS, _MOST_SECONDS = 0.1, 1.0  # "4,000 elements, 1 s"; "losses and latecomers"


@attrs.define(eq=False)
class LaneState:
    """A lane.

    Attributes:
        number: its number, from 0.
        queue: the work items that it is to run and nobody has started.
        attempts: those that are connected.
        begun: whether there ever was one.
        delayed: how many of its work items wait for their time.
        given_away: how many work items other lanes took.
        sealed: what it did, once its content is fixed; None before. With it come the next four.
        units: the size of its content.
        ran: how each work item of its content ran, by id.
        slow: the slowest blocks of it.
        tagged: how many records it gave for each tag.
    """

    number: int
    queue: WorkQueue
    attempts: list[Attempt] = attrs.field(factory=list)
    begun: bool = False
    delayed: int = 0
    given_away: int = 0
    sealed: TaskRun | None = None
    units: float = 0.0
    ran: dict[int, Ran] = attrs.field(factory=dict)
    slow: tuple[SlowBlock, ...] = ()
    tagged: tuple[int, ...] = ()

    def connect(self, attempt: Attempt) -> None:
        """Take in a new attempt."""
        self.begun = True
        self.attempts.append(attempt)

    def give_away(self, count: int = 1) -> None:
        """Count work items that other lanes took."""
        self.given_away += count

    def delay(self) -> None:
        """Count a work item that waits for its time."""
        self.delayed += 1

    def resume(self, item: WorkItem) -> None:
        """Take in a work item whose time has come."""
        self.delayed -= 1
        self.queue.push(item)

    def seal(self, attempt: Attempt) -> TaskRun:
        """Note what the attempt that sealed the lane did."""
        done = attempt.done
        self.units, self.ran, self.slow, self.tagged = done.units, attempt.ran, attempt.slow, done.tagged
        self.sealed = TaskRun(
            stage=0,
            task=self.number,
            worker=attempt.hello.worker,
            began=attempt.hello.began,
            seconds=done.seconds,
            work_items=done.items,
            handed_back=self.given_away,
            records=done.records,
        )
        return self.sealed


@attrs.define(eq=False)
class Attempt:
    """A connected attempt at a lane.

    Attributes:
        name: no other has it.
        lane: the lane.
        hello: how it introduced itself.
        again: content of the lane that it has to run and was not given yet.
        given: by work item that it was given last, the restriction, as splits do not change it there.
        given_at: when that was.
        done: the totals that it told last.
        batch: how many work items it is given at a time, at most...
        most_items: ...so many, as more of them were too long for a message.
        heartbeat: how far it is, as it told last or as is expected.
        ran: how each work item ran that has ended, by its id.
        slow: its slowest blocks.
        requested_at: when something was requested of it; None if it has answered.
        declined: whether it could give nothing, and has not told since that it has moved on.
        closed: whether it has said `Bye`.
    """

    name: Hashable
    lane: LaneState
    hello: Hello
    given_at: float = 0.0
    done: Ready = attrs.field(factory=lambda: Ready(0, 0, 0.0, 0.0))
    again: deque[WorkItem] = attrs.field(factory=deque)
    given: dict[int, Any] = attrs.field(factory=dict)
    batch: int = 1
    most_items: int = MOST_ITEMS
    heartbeat: Heartbeat | None = None
    ran: dict[int, Ran] = attrs.field(factory=dict)
    slow: tuple[SlowBlock, ...] = ()
    requested_at: float | None = None
    declined: bool = False
    closed: bool = False

    # What follows from its state.

    def alone(self) -> bool:
        """Tell whether it may give and take: its lane is not sealed, and nobody else runs it."""
        return self.lane.sealed is None and len(self.lane.attempts) == 1

    def can_give(self) -> bool:
        """Tell whether it has something to give now, as far as is known."""
        beat = self.heartbeat
        runs = beat is not None and not self.declined and (beat.splittable or beat.unstarted > 0)
        return self.alone() and self.requested_at is None and (runs or len(self.lane.queue) > 0)

    def units_done(self) -> float:
        """Return the size of what it has done, as it told last."""
        beat = self.heartbeat
        return self.done.units if beat is None else beat.units_before + beat.units

    def _batch_seconds(self) -> float:
        """Return for how long it should have work when it is given some."""
        return min(max(_BATCH_SHARE * self.done.seconds, _LEAST_SECONDS), _MOST_SECONDS)

    # What happens to it.

    def was_given(self, items: Sequence[WorkItem], expected: Heartbeat | None, now: float) -> None:
        """It was given work items; the heartbeat is what it would say itself only after a while."""
        self.heartbeat = expected
        if items:
            self.given_at = now
            self.given = {item.id: item.restriction for item in items}
            self.declined = False

    def fitted(self, sent: int, tried: int) -> None:
        """So many of the work items that were tried did fit in a message.

        Those that do not fit are pickled for nothing. So it is given fewer from then on, and only slowly more again.
        """
        if sent < tried:
            self.batch = self.most_items = sent
        if sent >= self.most_items:
            self.most_items = min(MOST_ITEMS, sent + sent // 8 + 1)

    def ready(self, message: Ready, now: float, known_items: int) -> tuple[int, float, float]:
        """It has done all that it held; return the work items, units and seconds since it was last ready.

        Args:
            message: its totals.
            now: monotonic seconds.
            known_items: how many work items there are in the run.

        Raises:
            ProtocolError: if that cannot be true.
        """
        before = self.done
        items, size, seconds = (
            message.items - before.items,
            message.units - before.units,
            message.seconds - before.seconds,
        )
        if min(items, size, seconds) < 0 or message.records < before.records:
            raise ProtocolError(f"lane {self.lane.number} has done less than before: {message!r} after {before!r}.")
        for row in message.ran:
            ran = Ran(*row)
            if not 0 <= ran.item_id < known_items:
                raise ProtocolError(f"lane {self.lane.number} has run work item {ran.item_id}, which there is not.")
            self.ran[ran.item_id] = self.ran[ran.item_id].and_then(ran) if ran.item_id in self.ran else ran
        self.slow = slowest(*self.slow, *(SlowBlock(*row) for row in message.slow))
        self.done = message
        if items and now - self.given_at < self._batch_seconds():
            self.batch = min(2 * self.batch, self.most_items)
        return items, size, seconds

    def beats(self, message: Heartbeat) -> None:
        """It has said how far it is."""
        self.heartbeat, self.declined = message, False

    def requested(self, now: float) -> None:
        """Something was requested of it."""
        self.requested_at = now

    def answered(self) -> None:
        """It has answered."""
        self.requested_at = None

    def declines(self) -> None:
        """It cannot give anything before it moves on."""
        self.declined = True

    def has_split(self, seconds_left: float) -> None:
        """It has cut off half of what it ran; so many seconds are left, before it says so itself."""
        if self.heartbeat is not None:
            self.heartbeat = attrs.evolve(self.heartbeat, seconds_left=seconds_left)

    def has_returned(self) -> None:
        """It has given back what it had not started."""
        if self.heartbeat is not None:
            self.heartbeat = attrs.evolve(self.heartbeat, unstarted=0)
        self.batch = max(self.batch // 4, 1)

    def closes(self) -> None:
        """Whoever reads its records wants no more of them."""
        self.closed = True
