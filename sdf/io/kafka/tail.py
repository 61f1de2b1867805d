"""WatchTopics and TailKafka: follow Kafka topics without an end, in streams, also partitions that are added later.

WatchTopics finds the partitions of a topic, TailKafka follows a partition. So each partition is an element with its own
offset, watermark and end, and all are read at the same time: ``[WatchTopics(...), TailKafka(...)]``. The offsets are in
the journal. If a consumer group is named, they are also committed to it after each commit of the stream, so that tools
can measure the lag; they are never read from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sdf import UNBOUNDED, OffsetRange, RestrictionTracker
from sdf.errors import InvalidTypeError, SourceChangedError, show
from sdf.io.follow.watch import Scan, Scans, ScanTracker
from sdf.io.kafka.client import KafkaFn, KafkaRecord, TopicPartition, as_start, kafka_library
from sdf.io.options import as_seconds

__all__ = ["TailKafka", "WatchTopics"]


class WatchTopics(KafkaFn):
    """Finds partitions, in streams. Element: a topic. Gives a `TopicPartition` for each, and for those added later.

    Args:
        config: configuration of librdkafka, at least ``bootstrap.servers``.
        interval_seconds: seconds from one look for new partitions to the next.
        timeout_seconds: the most seconds to wait for an answer.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        SourceError: when it runs, if there is no such broker or topic, or none answers.
    """

    scans = True

    def __init__(
        self, config: Mapping[str, Any], *, interval_seconds: float = 30.0, timeout_seconds: float = 30.0
    ) -> None:
        super().__init__(config, timeout_seconds=timeout_seconds)
        self.interval_seconds = as_seconds(interval_seconds, "WatchTopics interval_seconds")

    def get_initial_restriction(self, element: Any) -> Scans:
        if not isinstance(element, str):
            raise InvalidTypeError(f"WatchTopics watches the name of a topic (got {show(element)}).")
        return Scans(0)

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        return ScanTracker(restriction)

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        scans: Scans = tracker.current_restriction()
        if scans.found is not None:  # a replay: yield the same again
            if tracker.try_claim(Scan(scans.start, scans.found, ())):
                yield from scans.found
            return
        with self._consumer() as consumer:
            there = tuple(TopicPartition(element, number) for number in self._partitions(consumer, element))
        found = tuple(partition for partition in there if partition not in scans.seen)
        if found and tracker.try_claim(Scan(scans.start, found, (*scans.seen, *found))):
            yield from found
        tracker.defer_remainder(self.interval_seconds)


class TailKafka(KafkaFn):
    """Follows partitions of topics, in streams. Element: a `TopicPartition`. Gives `KafkaRecord`.

    Position: an offset. A micro-batch reads the messages that are there when a task begins to read the partition. With
    the default ``isolation.level``, a partition ends where its first open transaction begins.

    Args:
        config: configuration of librdkafka, at least ``bootstrap.servers``. If it has ``group.id``, offsets are also
            committed for that group once the journal has them; the group must have no members of its own.
        start: ``"earliest"``, or the first offset to read of each partition.
        poll_seconds: seconds to wait if nothing is new.
        timeout_seconds: the most seconds to wait for an answer or for the next message.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        SourceError: when it runs, if there is no such broker, topic, partition or offset, or one does not answer.
        SourceChangedError: when it runs, if messages were deleted before they were read, or the topic was made anew.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        start: str | int = "earliest",
        poll_seconds: float = 1.0,
        timeout_seconds: float = 30.0,
    ) -> None:
        super().__init__(config, timeout_seconds=timeout_seconds)
        self.start = as_start(start, "TailKafka")
        self.poll_seconds = as_seconds(poll_seconds, "TailKafka poll_seconds")
        self.commits_to_group = "group.id" in config

    def get_initial_restriction(self, element: Any) -> OffsetRange:
        topic, partition = _both(element)
        with self._consumer() as consumer:
            low, _ = self._ends(consumer, topic, partition)
        return OffsetRange(low if isinstance(self.start, str) else self.start, UNBOUNDED)

    def truncate(self, element: Any, restriction: OffsetRange) -> OffsetRange:
        """Keep the offsets that the partition has now."""
        if restriction.stop is not UNBOUNDED:
            return restriction
        with self._consumer() as consumer:
            _, end = self._ends(consumer, *_both(element))
        return OffsetRange(restriction.start, max(restriction.start, end))

    def process(self, element: Any, tracker: Any) -> Iterator[KafkaRecord]:
        topic, partition = _both(element)
        start, stop = tracker.current_restriction()
        with self._consumer() as consumer:
            low, end = self._ends(consumer, topic, partition)
            if start < low:
                raise SourceChangedError(
                    f"TailKafka: {self._where(topic)}, partition {partition} begins at offset {low}: the messages from "
                    f"{start} on were deleted before they were read. Keep messages longer, or begin anew with "
                    f"another checkpoint."
                )
            if end < start != self.start:
                raise SourceChangedError(
                    f"TailKafka: {self._where(topic)}, partition {partition} ends at offset {end}, but was read up to "
                    f"{start}: it was made anew, or lost messages. Begin anew with another checkpoint."
                )
            if stop is not UNBOUNDED:
                end = stop
            if start < end:
                messages = self._messages(consumer, topic, partition, start)
                for record in messages.until(end):
                    if not tracker.try_claim(record.offset):
                        return
                    yield record
        if stop is UNBOUNDED:
            tracker.defer_remainder(self.poll_seconds)
        else:
            tracker.try_claim(stop)  # the last offsets may have had no message

    def on_commit(self, element: Any, restriction: OffsetRange) -> None:
        """Commit the offset after a part for the consumer group, if one is named."""
        if self.commits_to_group:
            topic, partition = _both(element)
            reached = kafka_library().TopicPartition(topic, partition, restriction.stop)
            with self._asking(topic), self._consumer() as consumer:
                consumer.commit(offsets=[reached], asynchronous=False)


def _both(element: Any) -> tuple[str, int]:
    if not isinstance(element, TopicPartition):
        raise InvalidTypeError(
            f"TailKafka follows a TopicPartition (got {show(element)}). To follow a topic with all of its partitions, "
            f"put WatchTopics before it: [WatchTopics(config), TailKafka(config)]."
        )
    return element.topic, element.partition
