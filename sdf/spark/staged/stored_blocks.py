"""The block that one attempt at a task leaves in Spark's storage, and how it is read back.

    Stamp, (tag, pickled records), (tag, pickled records), ..., Receipt

Spark may hold another block under the same name: of a second attempt (speculation, a zombie task; SPARK-58107), or one
computed again after a loss. The stamp in front names the attempt. So a reader takes only the block of the attempt that
the ledger committed, and otherwise replays the pinned parts. It may get several blocks, one after the other. The
receipt at the end says what the attempt did; a block without a receipt was cut short. Records are stored in batches of
up to `_MAX_RECORDS`, which keeps the cost per record low.
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
from sdf.quarantine.failures import Failure
from sdf.reporting.run_facts import TaskRun
from sdf.spark import serde

__all__ = ["Receipt", "Stamp", "batches", "read_blocks", "receipt_of"]

# As in PySpark's own batches, the size is doubled below 64 KiB and halved above 640 KiB (apache/spark#2740).
_SMALL_BYTES = 64 * 1024
_LARGE_BYTES = 640 * 1024
_MAX_RECORDS = 1024


@attrs.frozen
class Stamp:
    """The attempt that wrote a block; its number is unique in the application."""

    run_id: str
    stage: int
    task: int
    attempt: int


@attrs.frozen
class Receipt:
    """What an attempt did.

    Attributes:
        stamp: the attempt.
        outcome: what the ledger enters.
        counts: number of records of each output, the main output first.
        size: bytes of all its pickled records.
        worker: host and process id.
        began: start in seconds since the epoch, by the worker's clock; for display only.
        seconds: seconds that it took, by a monotonic clock.
        messages: in a saved run, what the sink of each output says.
        retries: how many attempts at the task came before it.
        closing_seconds: in a saved run, those of its seconds in which the sinks closed what they had written.
        failure: with quarantine: what failed; then nothing of the attempt counts. Else None.
    """

    stamp: Stamp
    outcome: Outcome
    counts: tuple[int, ...]
    size: int
    worker: str
    began: float
    seconds: float
    messages: tuple[Any, ...] = ()
    retries: int = 0
    closing_seconds: float = 0.0
    failure: Failure | None = None

    @classmethod
    def failed(
        cls, failure: Failure, stamp: Stamp, tags: tuple[str, ...], worker: str, began: float, seconds: float
    ) -> Receipt:
        """Return the receipt of an attempt that failed; ``tags`` are the declared ones."""
        return cls(stamp, Outcome(0), (0,) * (1 + len(tags)), 0, worker, began, seconds, failure=failure)

    def task_run(self, items: int) -> TaskRun:
        """Return for the report what the attempt did; ``items``: how many work items it was given."""
        unstarted = items - self.outcome.started
        return TaskRun(
            stage=self.stamp.stage,
            task=self.stamp.task,
            worker=self.worker,
            began=self.began,
            seconds=self.seconds,
            work_items=sum(ran.elements for ran in self.outcome.ran),
            handed_back=sum(len(part.residuals) for part in self.outcome.parts) + unstarted,
            records=sum(self.counts),
        )


def batches(outputs: Iterator[Any], tags: tuple[str, ...], counts: list[int], who: str) -> Iterator[tuple[int, bytes]]:
    """Yield the outputs as (tag number, pickled list of records); 0 is the main output.

    Args:
        outputs: what `process` yields.
        tags: the declared tags.
        counts: number of records of each output, main first; raised with each batch.
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
    """Yield the committed records of the blocks' tasks, one batch at a time.

    Args:
        messages: the content of blocks, one after the other, from Spark's storage or just computed again.
        committed: the committed attempts.
        tag: number of the output.
        replay: replays a task and returns the records of that output; called with the stamp of a block that no
            committed attempt wrote.

    Raises:
        LedgerError: if the block of a committed attempt ends without its receipt.
    """
    ours: Stamp | None = None  # the block's attempt, if committed; None after the receipt
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
