"""``python -m sdf.journal show|verify|clean DIR`` for saved runs: what is done, what is left, how long it may take."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import attrs

from sdf.errors import show
from sdf.execution.work_items import units
from sdf.model.dofn import DoFn
from sdf.model.restrictions import OffsetRange
from sdf.quarantine.failures import FailedBlock
from sdf.saving.history import History
from sdf.saving.run_log import RunLog
from sdf.scheduling.run_state import RunState
from sdf.storage.places import Storage

__all__ = ["run"]

_MOST_LINES = 20


class _SizesFn(DoFn):
    """Stands in for the run's DoFn, which need not be importable here; only ranges have a known size."""

    def get_initial_restriction(self, element: Any) -> Any:
        raise NotImplementedError("the elements of a saved run are in its log")

    def process(self, element: Any, tracker: Any, *args: Any, **side_inputs: Any) -> Any:
        raise NotImplementedError("nothing is run here")

    def restriction_size(self, element: Any, restriction: Any) -> float | None:
        stop = restriction.stop if isinstance(restriction, OffsetRange) else None
        return stop - restriction.start if isinstance(stop, int) else None


@attrs.define(eq=False)
class _Element:
    """How far an element is, or a table of elements.

    Attributes:
        element: the element.
        whole: the size of its work; work of unknown size counts as 1 for each work item.
        left: the size of what is left.
        rows: the numbers of its rows in their table; one for an element by itself.
        open: those of which something is left.
        parts: the restrictions that are left.
    """

    element: Any
    whole: float = 0.0
    left: float = 0.0
    rows: set[int] = attrs.field(factory=set)
    open: set[int] = attrs.field(factory=set)
    parts: list[Any] = attrs.field(factory=list)


def run(what: str, storage: Storage) -> int | None:
    """Print what a saved run has done, check all of its log, or remove what crashes have left; return the exit code.

    ``clean`` takes over the run first, as a driver does: one that still runs stops. The next `save_sdf` goes on.

    Returns:
        The exit code; None if this is no checkpoint of a saved run.

    Raises:
        JournalError: if the log is damaged.
        OSError: if a store refuses, or is out of reach.
    """
    if not (storage.names("log") or storage.names("packs")):
        return None
    log = RunLog(storage, driver=uuid.uuid4().hex, clock=lambda: 0)
    history = History(log)
    failed = history.failed_blocks()
    work = RunState(_SizesFn())
    left = [item for item, _ in history.replay(work)] if history.expanded is not None and not history.aborted else []
    if what == "show":
        for line in _lines(history, failed, work, left):
            print(line)
    elif what == "clean":
        if history.retrying or not (history.done or history.aborted):
            log.append([["driver", "clean"]])
        print(f"removed {len(log.remove_unused([*history.former_blobs, *history.blobs]))} files that crashes had left")
    print(f"{log.next_number} entries, the log is whole")
    return 0


def _lines(history: History, failed: list[FailedBlock], work: RunState, left: list[Any]) -> Iterator[str]:
    drivers = "1 driver" if history.drivers == 1 else f"{history.drivers} drivers"
    yield f"saved run {history.app} of {history.identity.get('the DoFn')}, {drivers} so far: {_status(history)}"
    yield f"committed: {sum(history.records):,} records in {history.segments:,} segments"
    for block in failed[:_MOST_LINES]:
        yield f"set aside: {show(block.restriction)} of element {show(block.element, 80)}: {show(block.error)}"
    if len(failed) > _MOST_LINES:
        yield f"  ... and {len(failed) - _MOST_LINES:,} more"
    if history.expanded is None or history.aborted:
        return
    elements = _elements(work, left)
    whole, rest = sum(one.whole for one in elements), sum(one.left for one in elements)
    open_elements = [one for one in elements if one.parts]
    number, unfinished = sum(len(one.rows) for one in elements), sum(len(one.open) for one in elements)
    done = 1 - rest / whole if whole else 1.0
    yield f"elements: {number - unfinished:,} of {number:,} done; {done:.1%} of the work"
    for one in open_elements[:_MOST_LINES]:
        parts = ", ".join(map(show, one.parts[:3])) + (
            f" and {len(one.parts) - 3:,} more" if len(one.parts) > 3 else ""
        )
        yield f"  {show(one.element, 80)}: {1 - one.left / one.whole if one.whole else 0:.1%} done, left: {parts}"
    if len(open_elements) > _MOST_LINES:
        yield f"  ... and {len(open_elements) - _MOST_LINES:,} more"
    if rest and whole > rest:
        seconds = history.seconds * rest / (whole - rest)
        yield f"left: about {seconds:,.0f} s of one slot, going by the {history.seconds:,.0f} s so far"


def _status(history: History) -> str:
    if history.aborted:
        return "given up; the next save_sdf begins anew"
    if history.retrying:
        return "done; retry_failed has begun to run again what was set aside, and is not done: the same call goes on"
    if history.done:
        return "done"
    if history.committing is not None:
        return "committing; all records are written, the same call commits them"
    return "not done; the same call goes on"


def _elements(work: RunState, left: list[Any]) -> list[_Element]:
    """Return how far each element is."""
    found: dict[int, _Element] = {}
    for item in work.ledger.items():
        one = found.setdefault(item.element_id, _Element(item.element))
        one.whole += units(item)
        one.rows.update(item.work.numbers())
    for item in left:
        one = found[item.element_id]
        one.left += units(item)
        one.open.update(item.work.numbers())
        one.parts.append(item.restriction)
    return list(found.values())
