"""ReadKafka: the messages of Kafka topics, up to where they end when the run is planned.

The partitions of a topic are laid end to end on one axis of positions, each with the offsets that it had. So a topic is
one element, and can be split anywhere. A block is so many offsets of a partition, counted from its first; some of them
may have no message, since compaction and transactions leave gaps.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeGuard

import attrs

from sdf import DoFn, RestrictionTracker
from sdf.errors import InvalidTypeError, InvalidValueError, SourceChangedError, SourceError, show
from sdf.io.extras import need
from sdf.io.files import FileRangeTracker

__all__ = ["KafkaRange", "KafkaRecord", "Offsets", "ReadKafka", "TopicPartition"]

_OWN_CONFIG = {
    "auto.offset.reset": "error",  # never read on from somewhere else
    "enable.auto.commit": False,
    "enable.partition.eof": True,
}
_CHANGED = ("_AUTO_OFFSET_RESET", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")
_MOST_MESSAGES = 1000
# The library goes on trying. It takes batches in which no message is left for messages too large, the tenth one aloud.
_PASSING = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "MSG_SIZE_TOO_LARGE")


@attrs.frozen
class TopicPartition:
    """A partition of a topic; an element of `ReadKafka`."""

    topic: str
    partition: int


@attrs.frozen
class KafkaRecord:
    """A message.

    Attributes:
        topic: its topic.
        partition: its partition.
        offset: its place in the partition.
        timestamp_ms: milliseconds since the epoch, as the producer or the broker says; None if neither does.
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


@attrs.frozen
class Offsets:
    """The offsets ``[first, end)`` of a partition, as they were when the run was planned."""

    partition: int
    first: int
    end: int


@attrs.frozen
class KafkaRange:
    """Positions ``[start, stop)`` on the axis on which ``partitions`` lie end to end, the first of them at 0."""

    start: int
    stop: int
    partitions: tuple[Offsets, ...]

    def blocks(self, step: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield position, partition, first and end offset of each block that begins at the start or after it."""
        base = 0
        for offsets in self.partitions:
            size = offsets.end - offsets.first
            inside = max(0, self.start - base)
            for begin in range(inside + -inside % step, size, step):
                first = offsets.first + begin
                yield base + begin, offsets.partition, first, min(first + step, offsets.end)
            base += size


class ReadKafka(DoFn):
    """Reads Kafka. Element: a topic or a `TopicPartition`. Gives `KafkaRecord`.

    Position: the first of a block of ``block_offsets`` offsets, on the axis of `KafkaRange`. Pinned are the partitions,
    and the offsets that each has when the run is planned; what comes later belongs to a later read. With
    ``isolation.level`` as it is by default, a partition ends for this where the first transaction is still open.

    No consumer group is joined and no offset is committed.

    Args:
        config: of librdkafka, at least ``bootstrap.servers``.
        start: ``"earliest"``, or an offset: the first to be read of each partition. A partition that ends before it has
            nothing to read.
        block_offsets: offsets for each claim.
        timeout_seconds: the longest to wait for an answer or for the next message.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        SourceError: when it runs, if there is no such broker, topic, partition or offset, or one does not answer.
        SourceChangedError: when it runs, if messages have been deleted since the run was planned.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        start: str | int = "earliest",
        block_offsets: int = 1000,
        timeout_seconds: float = 30.0,
    ) -> None:
        if not isinstance(config, Mapping):
            raise InvalidTypeError(
                f"ReadKafka config must map names to values, such as {{'bootstrap.servers': 'host:9092'}} "
                f"(got {show(config)})."
            )
        if not config.get("bootstrap.servers"):
            raise InvalidValueError(f"ReadKafka config must have 'bootstrap.servers' (got {show(sorted(config))}).")
        own = sorted(_OWN_CONFIG.keys() & config.keys())
        if own:
            raise InvalidValueError(f"ReadKafka sets {own[0]!r} itself: leave it out of config.")
        if start != "earliest" and not (_is_integer(start) and start >= 0):
            raise InvalidValueError(f"ReadKafka start must be 'earliest' or an offset >= 0 (got {show(start)}).")
        if not _is_integer(block_offsets) or block_offsets < 1:
            raise InvalidValueError(f"ReadKafka block_offsets must be an integer >= 1 (got {show(block_offsets)}).")
        if not isinstance(timeout_seconds, (int, float)) or not 0 < timeout_seconds < float("inf"):
            raise InvalidValueError(f"ReadKafka timeout_seconds must be finite and > 0 (got {show(timeout_seconds)}).")
        need("confluent_kafka", "kafka", "ReadKafka")
        self.config = {"group.id": "sdf", **config}  # the library wants the name of a group, even to join none
        self.start = start
        self.block_offsets = block_offsets
        self.timeout_seconds = timeout_seconds

    def setup(self) -> None:
        self._idle: list[Any] = []

    def teardown(self) -> None:
        while self._idle:
            self._idle.pop().close()

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
        return FileRangeTracker(restriction)

    def process(self, element: Any, tracker: Any) -> Iterator[KafkaRecord]:
        topic, _ = _split(element)
        restriction: KafkaRange = tracker.current_restriction()
        with self._consumer() as consumer:
            reading = None
            for position, partition, first, end in restriction.blocks(self.block_offsets):
                if not tracker.try_claim(position):
                    return
                if reading is None or reading.partition != partition:
                    reading = _Reading(consumer, topic, partition, first, self.timeout_seconds, self._where(topic))
                yield from reading.until(end)
        tracker.try_claim(restriction.stop)

    def _partitions(self, consumer: Any, topic: str) -> list[int]:
        with self._asking(topic):
            found = consumer.list_topics(topic, timeout=self.timeout_seconds).topics[topic]
        if found.error is not None:
            raise SourceError(f"ReadKafka: {self._where(topic)}: {found.error.str()}.")
        return sorted(found.partitions)

    def _offsets(self, consumer: Any, topic: str, partition: int) -> Offsets:
        asked = need("confluent_kafka", "kafka", "ReadKafka").TopicPartition(topic, partition)
        with self._asking(topic):
            low, end = consumer.get_watermark_offsets(asked, timeout=self.timeout_seconds)
        first = low if isinstance(self.start, str) else min(self.start, end)
        if first < low:
            raise SourceError(
                f"ReadKafka: {self._where(topic)}, partition {partition} begins at offset {low}, so it cannot be read "
                f"from start={self.start}. Pass start='earliest' to read what is left."
            )
        return Offsets(partition, first, end)

    def _where(self, topic: str) -> str:
        return f"topic {topic!r} at {self.config['bootstrap.servers']}"

    @contextmanager
    def _asking(self, topic: str) -> Iterator[None]:
        try:
            yield
        except need("confluent_kafka", "kafka", "ReadKafka").KafkaException as error:
            raise SourceError(
                f"ReadKafka: {self._where(topic)}: no answer within {self.timeout_seconds:g} s: {error.args[0].str()}. "
                f"Are the servers right, and can this host reach them?"
            ) from error

    @contextmanager
    def _consumer(self) -> Iterator[Any]:
        """Return a context manager that gives a consumer of this worker's; connecting takes long, so they are kept."""
        consumer = (
            self._idle.pop()
            if self._idle
            else need("confluent_kafka", "kafka", "ReadKafka").Consumer({**self.config, **_OWN_CONFIG})
        )
        try:
            yield consumer
            consumer.unassign()
        except BaseException:
            consumer.close()
            raise
        self._idle.append(consumer)


class _Reading:
    """The messages of one partition from an offset on, in order."""

    def __init__(
        self, consumer: Any, topic: str, partition: int, offset: int, timeout_seconds: float, where: str
    ) -> None:
        kafka = need("confluent_kafka", "kafka", "ReadKafka")
        self.partition = partition
        self._consumer = consumer
        self._timeout_seconds = timeout_seconds
        self._where = f"{where}, partition {partition}"
        self._changed = [getattr(kafka.KafkaError, name) for name in _CHANGED]
        self._passing = [getattr(kafka.KafkaError, name) for name in _PASSING]
        self._end_of_partition = kafka.KafkaError._PARTITION_EOF
        self._fetched: deque[Any] = deque()
        self._reached = offset  # all messages before it have been seen
        self._ended: int | None = None  # where the partition ended, once that was seen
        consumer.assign([kafka.TopicPartition(topic, partition, offset)])

    def until(self, end: int) -> Iterator[KafkaRecord]:
        """Yield the messages before an offset that have not been seen yet; wait until none can be missing."""
        while self._reached < end:
            if not self._fetched:
                self._fetch(end)
            message = self._fetched[0]
            if message.error() is not None:
                self._fetched.popleft()
                self._reached = self._ended = message.offset()
            elif message.offset() >= end:
                self._reached = end  # it belongs to a later block
            else:
                self._fetched.popleft()
                self._reached = message.offset() + 1
                yield _record(message)

    def _fetch(self, end: int) -> None:
        """Wait for what comes next, and take all that has come."""
        deadline = time.monotonic() + self._timeout_seconds
        trouble = ""
        while (left := deadline - time.monotonic()) > 0:
            message = self._consumer.poll(left)
            if message is None:
                continue
            for one in (message, *self._consumer.consume(_MOST_MESSAGES, timeout=0)):
                error = one.error()
                if error is None or error.code() == self._end_of_partition:
                    self._fetched.append(one)
                elif error.code() in self._passing:
                    trouble = f" ({error.str()})"
                else:
                    raise self._failure(error)
            if self._fetched:
                return
        if self._ended is not None:
            raise SourceChangedError(
                f"ReadKafka: {self._where} ends at offset {self._ended}; it did not end before {end} when this run was "
                f"planned. It was made anew, or lost messages: run it again."
            )
        raise SourceError(
            f"ReadKafka: {self._where}: nothing came within {self._timeout_seconds:g} s{trouble}, at offset "
            f"{self._reached} of {end}. If the broker is well, allow more with timeout_seconds."
        )

    def _failure(self, error: Any) -> SourceError:
        if error.code() in self._changed:
            return SourceChangedError(
                f"ReadKafka: {self._where} has no offset {self._reached} any more: {error.str()}. Messages were "
                f"deleted since this run was planned: keep them longer than a run takes, and run it again."
            )
        return SourceError(f"ReadKafka: {self._where} at offset {self._reached}: {error.str()}.")


def _record(message: Any) -> KafkaRecord:
    kind, milliseconds = message.timestamp()
    return KafkaRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        milliseconds if kind else None,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def _split(element: Any) -> tuple[str, int | None]:
    if isinstance(element, TopicPartition):
        return element.topic, element.partition
    if isinstance(element, str):
        return element, None
    raise InvalidTypeError(f"ReadKafka reads the name of a topic, or a TopicPartition (got {show(element)}).")


def _is_integer(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
