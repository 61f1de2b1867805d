"""The block that one attempt at a task leaves in Spark's storage, and how it is read back.

    Stamp, (tag, pickled records), (tag, pickled records), ..., Receipt

Spark may hold other bytes under the same name: those of a second attempt (speculation, a zombie; SPARK-58107) or of a
recomputation after a loss. The stamp in front says at once whose they are, so that a reader takes only the attempt that
the ledger committed and replays the pinned parts otherwise; it may be given several blocks, one after the other. The
receipt at the end says what the attempt did; a block without it was cut short. Records travel in batches of up to
`_MAX_RECORDS`, so nothing here costs time per record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any

import attrs

from sdf.errors import LedgerError
from sdf.execution.work_items import Outcome
from sdf.model.dofn import TaggedOutput
from sdf.spark import serde

__all__ = ["Receipt", "Stamp", "batches", "read_blocks", "receipt_of"]

# As PySpark's own batches: double below 64 KiB, halve above 640 KiB (apache/spark#2740).
_SMALL_BYTES = 64 * 1024
_LARGE_BYTES = 640 * 1024
_MAX_RECORDS = 1024


@attrs.frozen
class Stamp:
    """Whose bytes these are: an attempt, unique in the application, at a task of a stage of a run."""

    run_id: str
    stage: int
    task: int
    attempt: int


@attrs.frozen
class Receipt:
    """What an attempt did.

    Attributes:
        stamp: which attempt.
        outcome: for the ledger.
        counts: how many records it gave for each tag, the main output first.
        size: of all of them, bytes as they are stored.
        worker: host and process id.
        began: seconds since the epoch, on that host's clock; for display only.
        seconds: how long it took, monotonic.
    """

    stamp: Stamp
    outcome: Outcome
    counts: tuple[int, ...]
    size: int
    worker: str
    began: float
    seconds: float


def batches(outputs: Iterator[Any], tags: tuple[str, ...], counts: list[int], who: str) -> Iterator[tuple[int, bytes]]:
    """Yield the outputs as (tag number, pickled list of records); 0 is the main output.

    Args:
        outputs: what `process` gave.
        tags: the declared tags.
        counts: one number per output, main first; raised by what was yielded.
        who: the DoFn's name, for messages.

    Raises:
        OutputError: for an undeclared tag.
        UnpicklableError: for a record that does not pickle.
    """
    size = 1
    while batch := list(islice(outputs, size)):
        total = 0
        for tag, records in _by_tag(batch, tags, who) if tags else ((0, batch),):
            data = serde.dump_records(records, who)
            counts[tag] += len(records)
            total += len(data)
            yield tag, data
        if total < _SMALL_BYTES:
            size = min(size * 2, _MAX_RECORDS)
        elif total > _LARGE_BYTES:
            size = max(size // 2, 1)


def _by_tag(batch: list[Any], tags: tuple[str, ...], who: str) -> Iterable[tuple[int, list[Any]]]:
    numbers = {tag: number for number, tag in enumerate(tags, start=1)}
    sorted_out: dict[int, list[Any]] = {}
    for record in batch:
        if isinstance(record, TaggedOutput):
            record.check(tags, f"{who}.process()")
            sorted_out.setdefault(numbers[record.tag], []).append(record.value)
        else:
            sorted_out.setdefault(0, []).append(record)
    return sorted_out.items()


def read_blocks(
    messages: Iterable[Any], committed: Collection[Stamp], tag: int, replay: Callable[[Stamp], Iterable[Any]]
) -> Iterator[Iterable[Any]]:
    """Yield the committed records of the tasks whose blocks these are, some at a time.

    Args:
        messages: blocks, one after the other: what Spark's storage gave, or what Spark has just computed again.
        committed: the attempts that count.
        tag: which output.
        replay: runs the pinned parts of a task again and gives the records of that output; called with the stamp of a
            block that is not that of the committed attempt.

    Raises:
        LedgerError: if the block of a committed attempt ends without its receipt.
    """
    ours: Stamp | None = None  # whose block this is, if it counts and has not ended
    for message in messages:
        if isinstance(message, Stamp):
            _check_ended(ours)
            ours = message if message in committed else None
            if ours is None:
                yield replay(message)
        elif isinstance(message, Receipt):
            ours = None
        elif ours is not None and message[0] == tag:
            yield serde.loads(message[1])
    _check_ended(ours)


def _check_ended(ours: Stamp | None) -> None:
    if ours is not None:
        raise LedgerError(f"the stored block of {ours!r} ends without its receipt; Spark's storage cut it short.")


def receipt_of(block: Iterable[Any]) -> Receipt | None:
    """Return the receipt at the end of a block, None if it was cut short."""
    last = deque(block, maxlen=1)
    return last[0] if last and isinstance(last[0], Receipt) else None
