"""ReadKafka: the messages of Kafka topics, up to where they end when the run is planned.

The partitions of a topic lie end to end on one axis of positions, each with the offsets that it had when the run was
planned. So a topic is one element, and can be split anywhere. A block is ``block_offsets`` offsets of a partition,
counted from its first. Some offsets may have no message: compaction and transactions leave gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from sdf import OffsetRange, OffsetRangeTracker, RestrictionTracker
from sdf.errors import InvalidTypeError, InvalidValueError, SourceError, show
from sdf.io.kafka.client import KafkaFn, Start, as_start
from sdf.io.kafka.values import KafkaRecord, TopicPartition
from sdf.numbers import as_integer, is_integer

__all__ = ["KafkaRange", "Offsets", "ReadKafka"]


@attrs.frozen
class Offsets:
    """The offsets ``[first, end)`` of a partition, as they were when the run was planned."""

    partition: int
    first: int
    end: int


@attrs.frozen
class KafkaRange(OffsetRange):
    """Positions ``[start, stop)`` on the axis where ``partitions`` lie end to end; the first partition begins at 0."""

    partitions: tuple[Offsets, ...]

    def blocks(self, step: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield position, partition, first and end offset of each block that begins at or after ``start``."""
        base = 0
        for offsets in self.partitions:
            size = offsets.end - offsets.first
            inside = max(0, self.start - base)
            for begin in range(inside + -inside % step, size, step):
                first = offsets.first + begin
                yield base + begin, offsets.partition, first, min(first + step, offsets.end)
            base += size


class ReadKafka(KafkaFn):
    """Reads Kafka. Element: a topic or a `TopicPartition`. Gives `KafkaRecord`.

    Position: the first of a block of ``block_offsets`` offsets, on the axis of `KafkaRange`. The partitions and the
    offsets of each are pinned when the run is planned; later messages belong to a later read. With the default
    ``isolation.level``, a partition ends where its first open transaction begins.

    No consumer group is joined and no offset is committed.

    Args:
        config: configuration of librdkafka, at least ``bootstrap.servers``.
        start: where to begin in each partition: ``"earliest"``; ``"latest"``, after the last message; an offset; a
            mapping of `TopicPartition` to offsets, for those that are not to begin at their earliest; or a
            ``datetime`` with a time zone: at the first message with that time or a later one. A partition that ends
            before has nothing to read.
        block_offsets: number of offsets that one claim takes.
        timeout_seconds: the most seconds to wait for an answer or for the next message.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        SourceError: when it runs, if there is no such broker, topic, partition or offset, or one does not answer.
        SourceChangedError: when it runs, if messages have been deleted since the run was planned.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        start: Start = "earliest",
        block_offsets: int = 1000,
        timeout_seconds: float = 30.0,
    ) -> None:
        super().__init__(config, timeout_seconds=timeout_seconds)
        self.start = as_start(start, "ReadKafka")
        self.block_offsets = as_integer(block_offsets)
        if not is_integer(self.block_offsets) or self.block_offsets < 1:
            raise InvalidValueError(f"ReadKafka block_offsets must be an integer >= 1 (got {show(block_offsets)}).")

    def get_initial_restriction(self, element: Any) -> KafkaRange:
        topic, partition = _split(element)
        with self._consumer() as consumer:
            partitions = self._partitions(consumer, topic)
            if partition is not None and partition not in partitions:
                raise SourceError(f"ReadKafka: {self._where(topic)} has no partition {partition}; it has {partitions}.")
            wanted = partitions if partition is None else [partition]
            pinned = tuple(self._offsets(consumer, topic, number) for number in wanted)
        return KafkaRange(0, sum(offsets.end - offsets.first for offsets in pinned), pinned)

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        return OffsetRangeTracker(restriction)

    def process(self, element: Any, tracker: Any) -> Iterator[KafkaRecord]:
        topic, _ = _split(element)
        restriction: KafkaRange = tracker.current_restriction()
        with self._consumer() as consumer:
            reading = None
            blocks = restriction.blocks(self.block_offsets)
            for _, partition, first, end in tracker.claims(blocks, position=lambda block: block[0]):
                if reading is None or reading.partition != partition:
                    reading = self._messages(consumer, topic, partition, first)
                yield from reading.until(end)

    def _offsets(self, consumer: Any, topic: str, partition: int) -> Offsets:
        low, end = self._ends(consumer, topic, partition)
        first = min(self._begins_at(consumer, topic, partition, self.start, (low, end)), end)
        if first < low:
            raise SourceError(
                f"ReadKafka: {self._where(topic)}, partition {partition} begins at offset {low}, so it cannot be read "
                f"from start={first}. Pass start='earliest' to read what is left."
            )
        return Offsets(partition, first, end)


def _split(element: Any) -> tuple[str, int | None]:
    if isinstance(element, TopicPartition):
        return element.topic, element.partition
    if isinstance(element, str):
        return element, None
    raise InvalidTypeError(f"ReadKafka reads the name of a topic, or a TopicPartition (got {show(element)}).")
