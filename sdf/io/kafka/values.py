"""Values of the Kafka connectors: partitions, which are elements, and messages, which are outputs."""

from __future__ import annotations

import attrs

from sdf.io.stored import stored
from sdf.numbers import as_integer

__all__ = ["KafkaRecord", "TopicPartition"]


@stored
@attrs.frozen
class TopicPartition:
    """A partition of a topic; an element of `ReadKafka` and `TailKafka`.

    Attributes:
        topic: name of the topic.
        partition: its number.
        added: whether `WatchTopics` has found it after the others. Then ``start="latest"`` leaves nothing out of it.
    """

    topic: str
    partition: int = attrs.field(converter=as_integer)
    added: bool = attrs.field(default=False, eq=False, repr=False)


@attrs.frozen
class KafkaRecord:
    """A message.

    Attributes:
        topic: its topic.
        partition: its partition.
        offset: its offset in the partition.
        timestamp_ms: milliseconds since the epoch, set by the producer or the broker; None if neither set it.
        key: bytes, or None.
        value: bytes, or None for a deletion.
        headers: names and values.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
