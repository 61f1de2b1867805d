"""The option ``start`` of the Kafka connectors: where the reading of a partition begins."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.io.kafka.values import TopicPartition
from sdf.numbers import as_integer, is_integer

__all__ = ["Start", "as_start", "chosen_offset"]

Start = str | int | datetime | dict[TopicPartition, int]


def as_start(value: Any, who: str) -> Start:
    """Return the option ``start``; raise unless it says where to begin.

    Raises:
        InvalidTypeError, InvalidValueError: naming the connector.
    """
    if isinstance(value, Mapping):
        offsets = {partition: as_integer(offset) for partition, offset in value.items()}
        for partition, offset in offsets.items():
            if not isinstance(partition, TopicPartition) or not is_integer(offset) or offset < 0:
                raise InvalidTypeError(
                    f"{who} start must map TopicPartitions to offsets >= 0 (got {show(partition)}: {show(offset)})."
                )
        return offsets
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidValueError(
                f"{who} start must be a time with a time zone (got {value!r}): datetime.now(timezone.utc), say."
            )
        return value
    start = as_integer(value)
    if start not in ("earliest", "latest") and not (is_integer(start) and start >= 0):
        raise InvalidValueError(
            f"{who} start must be 'earliest', 'latest', an offset >= 0, a mapping of TopicPartitions to offsets, or a "
            f"datetime (got {show(value)})."
        )
    return start  # type: ignore[no-any-return]


def chosen_offset(start: Start, topic: str, partition: int) -> int | None:
    """Return the offset that ``start`` names for a partition; None if it names none."""
    if isinstance(start, dict):
        return start.get(TopicPartition(topic, partition))
    return start if isinstance(start, int) else None
