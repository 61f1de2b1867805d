"""Suspects: decides what runs next when an attempt has failed, until a single block is left of what failed.

A part that failed in company is a *suspect*: from then on it runs alone. Two ways lead to the block:

- The position claimed last is a hint. The part is cut in three: what lies before the block at this position, the block,
  and the rest. For a DoFn that yields the records of a block before it claims the next, the hint is right, and one more
  run convicts the block. If what lies before it fails too, the hint was wrong: the DoFn buffers, or claims ahead.
- Without a hint, or after a wrong one, the part is cut in halves, and both are suspects. Between two keys there may be
  any number of others, so halves of keys might never come to a single one: what was claimed last is cut out as well,
  and of parts that claim nothing only so many halves are made.

What was cut last runs first. So if everything in an element fails, there are soon too many failures, not ever more
halves.

A block that was cut out holds the position of one claim. Where the block ends is known once the part behind it has run:
it reaches to the next claim.

A block is set aside only after it has failed alone. What killed the process may be the memory that others took: such a
block must fail twice while nothing else runs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from sdf.errors import TooManyFailuresError, show
from sdf.execution.bulk.table import Rows
from sdf.execution.work import work_of
from sdf.execution.work_items import DEFERRED, WHILE_IT_RAN, Outcome, WorkItem
from sdf.model.restrictions import ByteKeyRange, OffsetRange, part_of
from sdf.quarantine.failures import KILLED, FailedBlock, Failure
from sdf.reporting.run_facts import count_of
from sdf.scheduling.run_state import RunState

__all__ = ["STAY_ASIDE", "Suspects", "too_many"]

_MEND_OR_RAISE = "Mend the DoFn or the input, or raise max_failures."
STAY_ASIDE = (
    "They stay set aside. Make the same call with a larger max_failures. Once that is done, retry_failed() runs them "
    "again, with the DoFn or the input mended."
)

_SHOWN = 3  # of the first errors, when there are too many
_DEATHS_WHEN_IDLE = 2
_MOST_HALVINGS = 256  # one after the other; offsets are told apart long before


class Suspects:
    """The suspects of one run. They belong to nobody in the ledger until they are taken to run.

    Args:
        work: the state of the run.
        max_failures: how many blocks may be set aside.
        failed: those that an earlier driver of a saved run has set aside.
        way_out: what to do about too many, for the error.
        noted: called with each work item that is set aside, and its block.

    Attributes:
        failed: the blocks that were set aside, in the order in which that happened; see `blocks`.
        waiting: the suspects that may run now, each alone.
        for_idle: the suspects that may run only while nothing else does, one at a time.
    """

    def __init__(
        self,
        work: RunState,
        max_failures: int,
        *,
        failed: Iterable[FailedBlock] = (),
        way_out: str = _MEND_OR_RAISE,
        noted: Callable[[WorkItem, FailedBlock], None] = lambda item, block: None,
    ) -> None:
        self._work = work
        self._max_failures = max_failures
        self._way_out = way_out
        self._noted = noted
        self.failed: list[FailedBlock] = list(failed)
        self.waiting: deque[WorkItem] = deque()
        self.for_idle: deque[WorkItem] = deque()
        # By the ids of work items. A part that is cut off later has the attempts of its whole, and is as misled.
        self._attempts: dict[int, int] = {}
        self._misled: set[int] = set()
        self._alone: set[int] = set()
        self._in_front: dict[int, int] = {}  # of a hint; with the first id of the parts that are cut off it later
        self._halvings: dict[int, int] = {}
        self._deaths_when_idle: dict[int, int] = {}
        self._aside: dict[int, int] = {}  # where in ``failed`` the block of a work item is
        self._firsts: dict[int, tuple[Any, ...]] = {}  # as of `Outcome`
        self._check_number()

    def __len__(self) -> int:
        """Return how many suspects wait."""
        return len(self.waiting) + len(self.for_idle)

    def note(self, outcome: Outcome) -> None:
        """Note what an attempt that has succeeded tells of the ends of blocks."""
        self._firsts.update(outcome.firsts)

    def blocks(self) -> list[FailedBlock]:
        """Return the blocks that were set aside, each up to the next claim, as far as that is known by now."""
        found = list(self.failed)
        items = self._work.ledger.items() if self._aside else []
        behind = {(item.element_id, item.restriction.start): item for item in items if _has_bounds(item)}
        for item in items:
            if item.id in self._aside and _has_bounds(item):
                number = self._aside[item.id]
                found[number] = attrs.evolve(found[number], restriction=self._up_to_next(item, behind))
        return found

    def _up_to_next(self, item: WorkItem, behind: Mapping[tuple[int, Any], WorkItem]) -> Any:
        """Return the restriction of a block up to the first claim behind it, or as far as no claim follows."""
        start, stop = item.restriction.start, item.restriction.stop
        while (part := behind.get((item.element_id, stop))) is not None and part.id not in self._aside:
            first = self._firsts.get(part.id)
            if first is None or (item.is_rows and start[0] != stop[0]):
                break
            if first:
                held = item.work.named()[1]
                return part_of(held, held.start, first[0][1] if item.is_rows else first[0])
            stop = (stop[0] + 1, 0) if item.is_rows else part.restriction.stop
        longer = Rows(start, stop) if item.is_rows else part_of(item.restriction, start, stop)
        return work_of(item.element, longer).named()[1]

    def admits(self, item: WorkItem) -> bool:
        """Take a work item that nobody owns if it is a suspect, or was cut off from one that ran; tell which."""
        suspect = item.id in self._alone or (item.parent in self._alone and item.origin in (WHILE_IT_RAN, DEFERRED))
        if suspect:
            self._suspect(item)
        return suspect

    def _suspect(self, item: WorkItem) -> None:
        self._alone.add(item.id)
        self.waiting.appendleft(item)

    def failed_attempt(self, items: Iterable[WorkItem], failure: Failure, *, idle: bool) -> list[WorkItem]:
        """An attempt has failed.

        Args:
            items: the work items of its task, which nobody owns now.
            failure: what happened.
            idle: whether nothing else ran meanwhile.

        Returns:
            The work items that may run in company again; the suspects are in ``waiting`` and ``for_idle``.

        Raises:
            TooManyFailuresError: if more blocks than ``max_failures`` have failed.
        """
        company = []
        for item in items:
            if failure.may_blame(item.id):
                company += self._examine(item, failure, idle)
            elif not self.admits(item):
                company.append(item)
        return company

    def _examine(self, item: WorkItem, failure: Failure, idle: bool) -> list[WorkItem]:
        """Cut up the work item that failed, or set it aside; return the parts that may run in company."""
        was_alone = item.id in self._alone
        self._attempts[item.id] = 1 + self._attempts_at(item)
        if self._lies_in_front(item):
            self._misled.add(item.id)
        if not self._is_misled(item):
            if failure.claimed is None and not was_alone:
                self._suspect(item)  # run alone, it tells each claim
                return []
            parts = None if failure.claimed is None else self._work.cut_out(item, failure.claimed)
            if parts is not None:
                return self._hinted(item, *parts)
        if isinstance(failure.claimed, bytes):
            parts = self._work.cut_out(item, failure.claimed)
            if parts is not None:
                return self._keyed(*parts)
        if self._halve(item):
            return []
        if not was_alone:
            self._suspect(item)
        elif failure.how == KILLED and not self._died_enough(item, idle):
            self.for_idle.append(item)
        else:
            self._set_aside(item, failure)
        return []

    def _hinted(
        self, item: WorkItem, before: WorkItem | None, block: WorkItem, after: WorkItem | None
    ) -> list[WorkItem]:
        self._alone.discard(item.id)  # it is what lies before the block now, if anything does
        self._suspect(block)
        if before is not None:
            self._in_front[before.id] = len(self._work.ledger)
        return [part for part in (before, after) if part is not None]

    def _keyed(self, before: WorkItem | None, block: WorkItem, after: WorkItem | None) -> list[WorkItem]:
        """The hint was wrong, but what is to blame lies no later."""
        self._halvings[block.id] = 0
        self._suspect(block)
        if before is not None:
            self._halvings[before.id] = 0
            if not self._halve(before):
                self._suspect(before)
        return [] if after is None else [after]

    def _halve(self, item: WorkItem) -> bool:
        """Make both halves of a part suspects, the front first; return False if it is not cut any more."""
        halvings = 1 + next((self._halvings[number] for number in self._lineage(item) if number in self._halvings), 0)
        halves = None if halvings > _MOST_HALVINGS else self._work.cut(item, 0.5)
        for half in reversed(halves or ()):
            self._halvings[half.id] = halvings
            self._suspect(half)
        return halves is not None

    def _lineage(self, item: WorkItem) -> Iterator[int]:
        """Yield the ids of a work item and of those that it was cut off from, the nearest first."""
        number: int | None = item.id
        while number is not None:
            yield number
            number = self._work.ledger.item(number).parent

    def _attempts_at(self, item: WorkItem) -> int:
        return next((self._attempts[number] for number in self._lineage(item) if number in self._attempts), 0)

    def _is_misled(self, item: WorkItem) -> bool:
        return any(number in self._misled for number in self._lineage(item))

    def _lies_in_front(self, item: WorkItem) -> bool:
        """Tell whether an item is what lies before a hint, or was cut off from that."""
        below = len(self._work.ledger)
        for number in self._lineage(item):
            if below >= self._in_front.get(number, math.inf):
                return True
            below = number
        return False

    def _died_enough(self, item: WorkItem, idle: bool) -> bool:
        deaths = self._deaths_when_idle.get(item.id, 0) + idle
        self._deaths_when_idle[item.id] = deaths
        return deaths >= _DEATHS_WHEN_IDLE

    def _set_aside(self, item: WorkItem, failure: Failure) -> None:
        self._work.set_aside(item)
        block = FailedBlock(*item.work.named(), failure.error, self._attempts[item.id])
        self._aside[item.id] = len(self.failed)
        self.failed.append(block)
        self._noted(item, block)
        self._check_number()

    def _check_number(self) -> None:
        if len(self.failed) > self._max_failures:
            raise too_many(self._work.name, self.blocks(), self._max_failures, self._way_out)


def _has_bounds(item: WorkItem) -> bool:
    return isinstance(item.restriction, (OffsetRange, ByteKeyRange, Rows))


def too_many(
    name: str, failed: Sequence[FailedBlock], max_failures: int, way_out: str = _MEND_OR_RAISE
) -> TooManyFailuresError:
    """Return the error of a run or a stream of which more blocks have failed than may; it names the first ones."""
    first = "; ".join(
        f"{show(block.restriction)} of element {show(block.element)}: {block.error}" for block in failed[:_SHOWN]
    )
    return TooManyFailuresError(
        f"{name}: {count_of(len(failed), 'block')} failed, and max_failures is {max_failures}. The first are: {first}. "
        f"{way_out}"
    )
