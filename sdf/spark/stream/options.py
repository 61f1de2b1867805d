"""Options of a stream that belong together: the pace of its batches, and when it ends."""

from __future__ import annotations

import threading
from typing import Any

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.options import count, options, positive

__all__ = ["Pace", "Until"]

_MOST_BATCH_SECONDS = 1e6
_MOST_SECONDS = 1e9


def _check_event(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, threading.Event):
        who = type(instance).__name__
        raise InvalidTypeError(f"{who} {attribute.name} must be a threading.Event, or None (got {show(value)}).")


@options
@attrs.frozen(kw_only=True)
class Pace:
    """How large the batches of a stream are, and how they follow each other. The defaults are right for most streams.

    Args:
        batch_seconds: seconds that the tasks of a batch run before they split; also the least time between two starts.
        max_items: most work items in a step of a batch; the others wait their turn. With it, each small element is a
            work item of its own, where else many are one.
        max_records: about how many records a step of a batch gives at most: each task has an even share, and splits
            what it runs at the first claim after that. None for no limit but time.
        max_bytes: the same in bytes of pickled records.
        min_tasks: fewest tasks of a step that has work for them; None: as many as Spark has slots.
        max_tasks: most tasks of a step; None: as many as Spark has slots, or ``min_tasks`` if that is more.
        watermark_seconds: if only the watermark has moved, ``foreach_batch`` gets a batch without records to hear of
            it, at most every so many seconds. None: it does not hear of it, and the journal once a minute.
        idle_seconds: work that has read nothing for so long does not hold the watermark back. Its records may then come
            late, below the watermark; they are given all the same, and counted. None: all work holds the watermark.
        wake: set it from another thread to run deferred work at once, such as the next scan of `WatchFiles`; the
            stream clears it when it does so.

    Raises:
        InvalidValueError: for a number out of range, or ``min_tasks > max_tasks``.
        InvalidTypeError: for an unknown option, or another event than that of `threading`.
    """

    batch_seconds: float = positive(1.0, below=_MOST_BATCH_SECONDS)
    max_items: int | None = count(None)
    max_records: int | None = count(None)
    max_bytes: int | None = count(None)
    min_tasks: int | None = count(None)
    max_tasks: int | None = count(None)
    watermark_seconds: float | None = positive(None, below=_MOST_SECONDS)
    idle_seconds: float | None = positive(None, below=_MOST_SECONDS)
    wake: threading.Event | None = attrs.field(default=None, validator=_check_event)

    def __attrs_post_init__(self) -> None:
        if self.min_tasks is not None and self.max_tasks is not None and self.min_tasks > self.max_tasks:
            raise InvalidValueError(f"Pace min_tasks must be <= max_tasks (got {self.min_tasks} and {self.max_tasks}).")


@options
@attrs.frozen(kw_only=True)
class Until:
    """When a call of `stream_sdf` ends: at the first of these. Without any, when a signal stops it.

    Args:
        idle: look at all work, deferred work included, and end when a batch has tried all due work and found nothing
            new.
        max_batches: end after this number of committed batches.
        stop: set it from another thread to end after the batch.
        drain: at the end, ask each DoFn's `DoFn.truncate` what is still to be done, do that, and close the journal.

    Raises:
        InvalidValueError: for a number out of range.
        InvalidTypeError: for an unknown option, or another event than that of `threading`.
    """

    idle: bool = False
    max_batches: int | None = count(None)
    stop: threading.Event | None = attrs.field(default=None, validator=_check_event)
    drain: bool = False
