"""Shared by the Kafka connectors: a worker's consumers, requests to brokers, and the messages of a partition."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, SourceChangedError, SourceError, show
from sdf.extras import need
from sdf.io.connector import Connector
from sdf.numbers import as_integer, as_number, is_integer, is_number

__all__ = ["KafkaFn", "KafkaRecord", "TopicPartition", "as_start", "kafka_library"]

_OWN_CONFIG = {
    "auto.offset.reset": "error",  # never go on at another offset
    "enable.auto.commit": False,
    "enable.partition.eof": True,
}
_CHANGED = ("_AUTO_OFFSET_RESET", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")
_MOST_MESSAGES = 1000
# The library retries after these. It takes a batch with no messages left for one too large, and reports the tenth such.
_PASSING = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "MSG_SIZE_TOO_LARGE")


@attrs.frozen
class TopicPartition:
    """A partition of a topic; an element of `ReadKafka`."""

    topic: str
    partition: int = attrs.field(converter=as_integer)


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


class KafkaFn(Connector):
    """Base of the Kafka connectors. Its consumers are members of no group.

    Args:
        config: configuration of librdkafka, at least ``bootstrap.servers``.
        timeout_seconds: the most seconds to wait for an answer or for the next message.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
    """

    def __init__(self, config: Mapping[str, Any], *, timeout_seconds: float) -> None:
        name = type(self).__name__
        if not isinstance(config, Mapping):
            raise InvalidTypeError(
                f"{name} config must map names to values, such as {{'bootstrap.servers': 'host:9092'}} "
                f"(got {show(config)})."
            )
        if not config.get("bootstrap.servers"):
            raise InvalidValueError(f"{name} config must have 'bootstrap.servers' (got {show(sorted(config))}).")
        own = sorted(_OWN_CONFIG.keys() & config.keys())
        if own:
            raise InvalidValueError(f"{name} sets {own[0]!r} itself: leave it out of config.")
        seconds = as_number(timeout_seconds)
        if not is_number(seconds) or not 0 < seconds < float("inf"):
            raise InvalidValueError(f"{name} timeout_seconds must be finite and > 0 (got {show(timeout_seconds)}).")
        need("confluent_kafka", name)
        self.config = {"group.id": "sdf", **config}  # the library requires a group name, even to join none
        self.timeout_seconds: float = seconds

    def setup(self) -> None:
        self._idle: list[Any] = []

    def teardown(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _partitions(self, consumer: Any, topic: str) -> list[int]:
        with self._asking(topic):
            found = consumer.list_topics(topic, timeout=self.timeout_seconds).topics[topic]
        if found.error is not None:
            raise SourceError(f"{type(self).__name__}: {self._where(topic)}: {found.error.str()}.")
        return sorted(found.partitions)

    def _ends(self, consumer: Any, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset of a partition, and the offset after its last one."""
        asked = kafka_library().TopicPartition(topic, partition)
        with self._asking(topic):
            low, end = consumer.get_watermark_offsets(asked, timeout=self.timeout_seconds)
        return low, end

    def _where(self, topic: str) -> str:
        return f"topic {topic!r} at {self.config['bootstrap.servers']}"

    @contextmanager
    def _asking(self, topic: str) -> Iterator[None]:
        try:
            yield
        except kafka_library().KafkaException as error:
            raise SourceError(
                f"{type(self).__name__}: {self._where(topic)}: no answer within {self.timeout_seconds:g} s: "
                f"{error.args[0].str()}. Are the servers right, and can this host reach them?"
            ) from error

    @contextmanager
    def _consumer(self) -> Iterator[Any]:
        """Return a context manager for a consumer of this worker; connecting is slow, so consumers are kept."""
        consumer = self._idle.pop() if self._idle else self._new_consumer()
        try:
            yield consumer
            consumer.unassign()
        except BaseException:
            consumer.close()
            raise
        self._idle.append(consumer)

    def _new_consumer(self) -> Any:
        kafka = kafka_library()
        try:
            return kafka.Consumer({**self.config, **_OWN_CONFIG})
        except kafka.KafkaException as error:
            raise InvalidValueError(
                f"{type(self).__name__} config must be one that librdkafka takes: {error.args[0].str()}."
            ) from error

    def _messages(self, consumer: Any, topic: str, partition: int, offset: int) -> Messages:
        """Return the messages of a partition from an offset on."""
        where = f"{type(self).__name__}: {self._where(topic)}, partition {partition}"
        return Messages(consumer, topic, partition, offset, self.timeout_seconds, where)


class Messages:
    """The messages of one partition from an offset on, in order."""

    def __init__(
        self, consumer: Any, topic: str, partition: int, offset: int, timeout_seconds: float, where: str
    ) -> None:
        kafka = kafka_library()
        self.partition = partition
        self._consumer = consumer
        self._timeout_seconds = timeout_seconds
        self._where = where
        self._changed = [getattr(kafka.KafkaError, name) for name in _CHANGED]
        self._passing = [getattr(kafka.KafkaError, name) for name in _PASSING]
        self._end_of_partition = kafka.KafkaError._PARTITION_EOF
        self._fetched: deque[Any] = deque()
        self._reached = offset  # all messages before this offset have been seen
        self._ended: int | None = None  # the offset where the partition ended; None until the library reports it
        consumer.assign([kafka.TopicPartition(topic, partition, offset)])

    def until(self, end: int) -> Iterator[KafkaRecord]:
        """Yield the messages before offset ``end`` that were not yielded yet; wait until none can be missing."""
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
        """Wait for the next message or the end of the partition; take all messages that have arrived."""
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
                f"{self._where} ends at offset {self._ended}; it did not end before {end} when this was planned. It "
                f"was made anew, or lost messages: run it again."
            )
        raise SourceError(
            f"{self._where}: nothing came within {self._timeout_seconds:g} s{trouble}, at offset "
            f"{self._reached} of {end}. If the broker is well, allow more with timeout_seconds."
        )

    def _failure(self, error: Any) -> SourceError:
        if error.code() in self._changed:
            return SourceChangedError(
                f"{self._where} has no offset {self._reached} any more: {error.str()}. Messages were deleted since "
                f"this was planned: keep them longer than a run takes, and run it again."
            )
        return SourceError(f"{self._where} at offset {self._reached}: {error.str()}.")


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


def kafka_library() -> Any:
    """Return the module `confluent_kafka`."""
    return need("confluent_kafka", "Kafka")


def as_start(value: Any, who: str) -> str | int:
    """Return the option ``start``; raise unless it is "earliest" or an offset."""
    start = as_integer(value)
    if not (start == "earliest" if isinstance(start, str) else is_integer(start) and start >= 0):
        raise InvalidValueError(f"{who} start must be 'earliest' or an offset >= 0 (got {show(value)}).")
    return start  # type: ignore[no-any-return]
