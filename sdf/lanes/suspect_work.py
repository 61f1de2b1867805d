"""SuspectWork: in a saved run with quarantine, what becomes of the work of attempts that failed.

The process of an attempt dies, or a block in it raises. The coordinator sees only that the connection has ended. The
worker starts another attempt in a new process, which tells what happened (`Failed`). Until then the work of the lost
attempt is held back, so that no other lane runs into the same block. A suspect is run by no lane, but by a Spark task
of its own, beside the lanes (`sdf.spark.live.rounds`): it must run alone, and commit nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from sdf.execution.work_items import Outcome, WorkItem
from sdf.lanes.messages import Failed, ProtocolError, SegmentDone
from sdf.quarantine.failures import DIED, HUNG, KILLED, RAISED, Failure
from sdf.quarantine.suspects import Suspects
from sdf.scheduling.run_state import RunState

__all__ = ["HOLD_SECONDS", "SuspectWork", "as_failed", "failure_in"]

HOLD_SECONDS = 5.0  # if the worker is lost too, nobody tells what happened


class SuspectWork:
    """See the module's docstring. The caller serialises the calls.

    Args:
        work: the state of the run.
        suspects: the suspects of the run.
        saved: called with the ids of the work items of each committed segment, and its message.
    """

    def __init__(self, work: RunState, suspects: Suspects, saved: Callable[[list[int], SegmentDone], None]) -> None:
        self._work = work
        self._suspects = suspects
        self._saved = saved
        self._numbers = itertools.count()
        self._held: dict[int, set[int]] = {}

    def hold(self, task_id: int, items: Iterable[WorkItem]) -> None:
        """Note what the lost attempt of a Spark task had not committed."""
        self._held[task_id] = {item.id for item in items}

    def held_for(self, task_id: int) -> set[int]:
        """Return the ids of what was held back for a Spark task, and forget them."""
        return self._held.pop(task_id, set())

    def admits(self, item: WorkItem) -> bool:
        """See `Suspects.admits`."""
        return self._suspects.admits(item)

    def failed(self, items: list[WorkItem], failure: Failure) -> list[WorkItem]:
        """An attempt has failed that had these work items; return those that lanes may run."""
        return self._suspects.failed_attempt(items, failure, idle=False)

    def take(self, most: int, *, idle: bool) -> list[tuple[Hashable, WorkItem]]:
        """Return suspects to run now, each alone, with their owners in the ledger.

        Args:
            most: the most to return.
            idle: whether nothing runs.
        """
        waiting, for_idle = self._suspects.waiting, self._suspects.for_idle
        items = [waiting.popleft() for _ in range(min(most, len(waiting)))]
        if idle and not items and for_idle:
            items.append(for_idle.popleft())
        taken: list[tuple[Hashable, WorkItem]] = [(("suspect", next(self._numbers)), item) for item in items]
        for owner, item in taken:
            self._work.ledger.assign(owner, [item])
        return taken

    def ended(
        self, owner: Hashable, outcome: Outcome, failure: Failure | None, done: SegmentDone, *, idle: bool
    ) -> list[WorkItem]:
        """The task of a suspect has ended; return the work items that lanes may run.

        Args:
            owner: as `take` returned it.
            outcome: what it did.
            failure: what failed, or None.
            done: what its sinks have written, if nothing failed.
            idle: whether nothing else ran meanwhile.
        """
        if failure is not None:
            todo = self._work.ledger.commit(owner, owner, Outcome(0))
            assert todo is not None
            return self._suspects.failed_attempt([item for item, _ in todo], failure, idle=idle)
        rest = self._work.commit(owner, owner, outcome)
        assert rest is not None
        self._saved([item.id for item in self._work.ledger.content(owner)], done)
        return [item for item, _ in rest if not self._suspects.admits(item)]

    def __len__(self) -> int:
        return len(self._suspects)


def as_failed(failure: Failure) -> Failed:
    """Return a failure as a message of a lane. A position that JSON does not have is left out, as it is only a hint."""
    claimed = failure.claimed
    if type(claimed) is tuple and len(claimed) == 2:  # in a table
        row, position = claimed
        told = {"row": row, "position": _told(position)} if type(row) is int else None
    else:
        told = _told(claimed)
    return Failed(failure.item_id, failure.how, failure.error, told)


def _told(position: Any) -> Any:
    if isinstance(position, bytes):
        return {"hex": position.hex()}
    return position if type(position) is int else None


def failure_in(message: Failed) -> Failure:
    """Return the failure that a message tells of.

    Raises:
        ProtocolError: if the message is impossible.
    """
    if message.how not in (RAISED, DIED, KILLED, HUNG):
        raise ProtocolError(f"a part cannot fail like this: {message.how!r}.")
    return Failure(message.item_id, message.how, message.error, _position(message.claimed))


def _position(claimed: Any) -> Any:
    if claimed is None or type(claimed) is int:
        return claimed
    try:
        if "row" in claimed:
            row, position = int(claimed["row"]), claimed["position"]
            return row, position if position is None or type(position) is int else bytes.fromhex(position["hex"])
        return bytes.fromhex(claimed["hex"])
    except (TypeError, LookupError, ValueError) as error:
        raise ProtocolError(f"{claimed!r} is no position.") from error
