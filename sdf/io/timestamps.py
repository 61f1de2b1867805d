"""Timestamps of records, in streams: connectors with ``timestamp=`` have a watermark, the highest timestamp so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sdf import MonotonicWatermark, TaggedOutput
from sdf.errors import InvalidTypeError, show

__all__ = ["as_timestamp", "observed", "watermark_of"]

Timestamp = Callable[[Any], float]


def as_timestamp(value: Any, what: str) -> Timestamp | None:
    """Return a function from records to timestamps, None for none; raise unless it is one of the two."""
    if value is not None and not callable(value):
        raise InvalidTypeError(
            f"{what} must be a function from a record to its time, such as seconds since the epoch, or None (got "
            f"{show(value)})."
        )
    return value  # type: ignore[no-any-return]


def watermark_of(timestamp: Timestamp | None) -> MonotonicWatermark | None:
    """Return a new estimator for records with timestamps, which come in the order of their times; None for others."""
    return None if timestamp is None else MonotonicWatermark(-math.inf)


def observed(records: Iterable[Any], tracker: Any, timestamp: Timestamp | None) -> Iterable[Any]:
    """Return the records of a part; those with timestamps move the watermark of its tracker as they pass."""
    return records if timestamp is None else _observed(records, tracker, timestamp)


def _observed(records: Iterable[Any], tracker: Any, timestamp: Timestamp) -> Iterator[Any]:
    for record in records:
        if not isinstance(record, TaggedOutput):  # which is no record of the source
            time = timestamp(record)
            try:
                is_time = time >= -math.inf  # not if it is NaN
            except TypeError:
                is_time = False
            if not is_time:
                raise InvalidTypeError(
                    f"timestamp= must return a number, such as seconds since the epoch (got {show(time)} for the "
                    f"record {show(record)})."
                )
            tracker.watermark.observe(time)
        yield record
