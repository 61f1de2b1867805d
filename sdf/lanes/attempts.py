"""The coordinator's state of each lane and each attempt. What an event changes together, their methods change.

`sdf.lanes.stealing` chooses the victim, `sdf.lanes.assignment` what an attempt runs next.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import attrs

from sdf.execution.work_items import Outcome, Ran, SlowBlock, WorkItem, slowest
from sdf.lanes import steal_policy
from sdf.lanes.messages import MOST_ITEMS, Heartbeat, Hello, ProtocolError, Raised, Ready
from sdf.reporting.run_facts import TaskRun
from sdf.scheduling.ledger import Ledger
from sdf.scheduling.work_queue import WorkQueue

__all__ = ["Attempt", "LaneState"]

# With many small work items, an `Assign` holds about this share of the seconds that the attempt has run: each `Assign`
# costs it some two milliseconds. Names in quotes are rows of benchmarks/ablate.py.
_BATCH_SHARE = 0.1  # "losses and latecomers"
_LEAST_SECONDS, _MOST_SECONDS = 0.1, 1.0  # "4,000 elements, 1 s"; "losses and latecomers"


@attrs.define(eq=False)
class LaneState:
    """A lane.

    Attributes:
        number: its number, from 0.
        queue: the work items of the lane that nobody has started.
        attempts: the connected attempts.
        begun: whether an attempt has ever connected.
        delayed: number of its deferred work items that are not due yet.
        given_away: number of work items cut off or moved away.
        sealed: what the sealing attempt did; None before the seal. The next four are set with it.
        units: the size of its content.
        ran: how each work item of its content ran, by id and row.
        slow: the slowest blocks of its content.
        tagged: number of records for each tag.
    """

    number: int
    queue: WorkQueue
    attempts: list[Attempt] = attrs.field(factory=list)
    begun: bool = False
    delayed: int = 0
    given_away: int = 0
    sealed: TaskRun | None = None
    units: float = 0.0
    ran: dict[tuple[int, int], Ran] = attrs.field(factory=dict)
    slow: tuple[SlowBlock, ...] = ()
    tagged: tuple[int, ...] = ()

    def take_back(self, ledger: Ledger, items: Iterable[WorkItem]) -> None:
        """Queue work items again that its attempts were assigned."""
        for item in items:
            self.queue.push(ledger.release(self.number, item.id))

    def seal(self, attempt: Attempt) -> None:
        """Note what the attempt that seals the lane did."""
        done = attempt.done
        self.units, self.ran, self.slow, self.tagged = done.units, attempt.ran, attempt.slow, done.tagged
        self.sealed = attempt.task_run(done.seconds, done.items, done.records)


@attrs.define(eq=False)
class Attempt:
    """A connected attempt at a lane.

    Attributes:
        name: unique in the run.
        lane: the lane.
        hello: its first message.
        again: content of the lane that the attempt must run again and was not sent yet.
        given: the restriction of each work item that was sent last, by id, as sent: splits do not change it.
        given_at: monotonic seconds when they were sent.
        done: the totals in its last `Ready`.
        batch: number of work items in its next `Assign`.
        most_items: upper bound of ``batch``; lowered when an `Assign` was too long for a message.
        heartbeat: its last heartbeat, or the expected one; None if it runs nothing.
        ran: how each work item that has ended ran, by id and row.
        slow: its slowest blocks.
        requested_at: monotonic seconds when it was sent a steal request; None once it has answered.
        declined: True from the steal request that it could not meet to its next heartbeat or `Assign`.
        closed: whether it has sent `Bye`.
        committed_at: in a saved run, monotonic seconds of its last commit; when it connected, before the first.
        commit_every: how many seconds its segments may last, as it was told last.
        committed: in a saved run, the ids of the work items that it has committed.
        told_to_leave: in a saved run, whether it was sent `Leave`.
        raised: in a saved run, what it raised, as it told before it ended; else None.
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
    ran: dict[tuple[int, int], Ran] = attrs.field(factory=dict)
    slow: tuple[SlowBlock, ...] = ()
    requested_at: float | None = None
    declined: bool = False
    closed: bool = False
    committed_at: float = 0.0
    commit_every: float = math.inf
    committed: set[int] = attrs.field(factory=set)
    told_to_leave: bool = False
    raised: Raised | None = None

    # Queries.

    def alone(self) -> bool:
        """Return whether it may give and take work: its lane is not sealed and has no other attempt."""
        return self.lane.sealed is None and len(self.lane.attempts) == 1

    def can_give(self) -> bool:
        """Return whether it can give work now, and has no steal request to answer."""
        told = None if self.declined else self.heartbeat
        return self.alone() and self.requested_at is None and steal_policy.can_give(told, len(self.lane.queue))

    def units_done(self) -> float:
        """Return the units that it has done, from its last message."""
        heartbeat = self.heartbeat
        return self.done.units if heartbeat is None else heartbeat.units_before + heartbeat.units

    def committed_run(self) -> tuple[TaskRun, list[Ran]] | None:
        """In a saved run: return what it has committed, as far as it has told how that ran; None if that is nothing."""
        ran = [one for (item_id, _), one in self.ran.items() if item_id in self.committed]
        if not ran:
            return None
        return self.task_run(sum(each.seconds for each in ran), len(ran), sum(each.records for each in ran)), ran

    def task_run(self, seconds: float, work_items: int, records: int) -> TaskRun:
        """Return for the report what it did."""
        return TaskRun(
            stage=0,
            task=self.lane.number,
            worker=self.hello.worker,
            began=self.hello.began,
            seconds=seconds,
            work_items=work_items,
            handed_back=self.lane.given_away,
            records=records,
        )

    # Events.

    def was_given(self, items: Sequence[WorkItem], expected: Heartbeat | None, now: float) -> None:
        """It was sent ``items``, maybe none; ``expected`` stands in for its first heartbeat on them."""
        self.heartbeat = expected
        if items:
            self.given_at = now
            self.given = {item.id: item.restriction for item in items}
            self.declined = False

    def fitted(self, sent: int, tried: int) -> None:
        """``sent`` of the ``tried`` work items fit in a message.

        Pickling those that do not fit is wasted. So later batches are smaller, and grow again slowly.
        """
        if sent < tried:
            self.batch = self.most_items = sent
        if sent >= self.most_items:
            self.most_items = min(MOST_ITEMS, sent + sent // 8 + 1)

    def ready(self, message: Ready, now: float, known_items: int) -> Outcome:
        """The attempt has run its work items; return the outcome since its last `Ready`.

        Args:
            message: its totals.
            now: monotonic seconds.
            known_items: number of work items in the run.

        Raises:
            ProtocolError: if the message is impossible.
        """
        before = self.done
        done = Outcome(message.items - before.items, (), message.units - before.units, message.seconds - before.seconds)
        if min(done.started, done.units, done.seconds) < 0 or message.records < before.records:
            raise ProtocolError(f"lane {self.lane.number} has done less than before: {message!r} after {before!r}.")
        for row in message.ran:
            ran = Ran(*row)
            if not 0 <= ran.item_id < known_items:
                raise ProtocolError(f"lane {self.lane.number} has run work item {ran.item_id}, which does not exist.")
            key = ran.item_id, ran.row
            self.ran[key] = self.ran[key].and_then(ran) if key in self.ran else ran
        self.slow = slowest(*self.slow, *(SlowBlock(*row) for row in message.slow))
        self.done = message
        batch_seconds = min(max(_BATCH_SHARE * message.seconds, _LEAST_SECONDS), _MOST_SECONDS)
        if done.started and now - self.given_at < batch_seconds:
            self.batch = min(2 * self.batch, self.most_items)
        return done

    def has_split(self, seconds_left: float) -> None:
        """It has split what it runs; ``seconds_left`` is an estimate until its next heartbeat."""
        if self.heartbeat is not None:
            self.heartbeat = attrs.evolve(self.heartbeat, seconds_left=seconds_left)

    def has_returned(self) -> None:
        """It has given back the work items that it had not started."""
        if self.heartbeat is not None:
            self.heartbeat = attrs.evolve(self.heartbeat, unstarted=0)
        self.batch = max(self.batch // 4, 1)

    def commits(self, item_ids: Iterable[int], now: float) -> None:
        """In a saved run: it has written a segment that holds these work items."""
        self.committed_at = now
        self.committed.update(item_ids)

    def fails(self, raised: Raised) -> None:
        """It tells what it has raised; its connection is about to end."""
        self.raised = raised
