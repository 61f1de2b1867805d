"""Fetched: the messages of a partition as the library brings them, in order, and none that may be missing."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from sdf.errors import SourceAwayError, SourceChangedError, SourceError
from sdf.extras import Library
from sdf.io.kafka.values import KafkaRecord

__all__ = ["UNKNOWN", "Fetched", "answer", "codes_of", "kafka", "log", "partitions_of", "told"]

kafka = Library("confluent_kafka", "Kafka")
log = logging.getLogger("sdf.io.kafka")

T = TypeVar("T")

_BELIEVED = ("_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")  # the client has not heard of such a topic or partition
UNKNOWN = ("UNKNOWN_TOPIC_OR_PART", *_BELIEVED)  # there is none

_CHANGED = ("_AUTO_OFFSET_RESET", *UNKNOWN)
_MOST_MESSAGES = 1000
# The library retries after these. It takes a batch with no messages left for one too large, and reports the tenth such.
# It looks for the coordinator of a group, which no reading needs.
_PASSING = (
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_RESOLVE",
    "_TIMED_OUT",
    "MSG_SIZE_TOO_LARGE",
    "GROUP_AUTHORIZATION_FAILED",
)
_NEEDED = {
    "TOPIC_AUTHORIZATION_FAILED": "Describe and Read on the topic",
    "GROUP_AUTHORIZATION_FAILED": "Read on the consumer group",
}


def partitions_of(consumer: Any, topic: str, timeout_seconds: float) -> list[int]:
    """Ask the brokers for the partitions of a topic, and return them; the client caches the answer.

    Raises:
        KafkaException: of a broker that knows no such topic; or if none answers.
    """
    found = consumer.list_topics(topic, timeout=timeout_seconds).topics[topic]
    if found.error is not None:
        raise kafka.KafkaException(found.error)
    return sorted(found.partitions)


def answer(consumer: Any, topic: str, timeout_seconds: float, ask: Callable[[], T]) -> T:
    """Return the answer of the brokers. A client that does not know the partition asks them for it, and tries again.

    A client caches the partitions of a topic. The cache lacks partitions that were added since. It is empty while a
    broker starts again.
    """
    try:
        return ask()
    except kafka.KafkaException as error:
        if error.args[0].code() not in codes_of(_BELIEVED):
            raise
    partitions_of(consumer, topic, timeout_seconds)
    return ask()


class Fetched:
    """The messages of one partition from an offset on, in order."""

    def __init__(
        self,
        consumer: Any,
        topic: str,
        partition: int,
        offset: int,
        timeout_seconds: float,
        away_seconds: float,
        where: str,
        advice: Callable[[], str],
    ) -> None:
        self.partition = partition
        self._topic = topic
        self._consumer = consumer
        self._timeout_seconds = timeout_seconds
        self._away_seconds = away_seconds
        self._where = where
        self._advice = advice
        self._changed = codes_of(_CHANGED)
        self._believed = codes_of(_BELIEVED)
        self._passing = codes_of(_PASSING)
        self._end_of_partition = kafka.KafkaError._PARTITION_EOF
        self._fetched: deque[Any] = deque()
        self._reached = offset  # all messages before this offset have been seen
        self._ended: int | None = None  # the offset where the partition ended; None until the library reports it
        consumer.assign([kafka.TopicPartition(topic, partition, offset)])

    def until(self, end: int) -> Iterator[KafkaRecord]:
        """Yield the messages before offset ``end`` that were not yielded yet; wait until none can be missing."""
        for records in self.together(end):
            yield from records

    def together(self, end: int) -> Iterator[list[KafkaRecord]]:
        """Yield the same messages, those that have come together in one list."""
        while self._reached < end:
            if not self._fetched:
                self._fetch(end)
            records = []
            while self._fetched and self._reached < end:
                message = self._fetched[0]
                if message.error() is not None:
                    self._fetched.popleft()
                    self._reached = self._ended = message.offset()
                elif message.offset() >= end:
                    self._reached = end  # it belongs to a later block
                else:
                    self._fetched.popleft()
                    self._reached = message.offset() + 1
                    records.append(_record(message))
            if records:
                yield records

    def _fetch(self, end: int) -> None:
        """Wait for the next message or the end of the partition; take all messages that have arrived."""
        began, trouble = time.monotonic(), ""
        while True:
            deadline = time.monotonic() + self._timeout_seconds
            while not self._fetched and (left := deadline - time.monotonic()) > 0:
                trouble = self._poll(left) or trouble
            if self._fetched:
                return
            if self._ended is not None:
                raise SourceChangedError(
                    f"{self._where} ends at offset {self._ended}; it did not end before {end} when this was planned. "
                    f"It was made anew, or lost messages: run it again. In a stream pass "
                    f"TailKafka(fail_on_data_loss=False), to go on with what is there."
                )
            waited = time.monotonic() - began
            silent = f"{self._where}: nothing came within {waited:.3g} s{trouble}, at offset {self._reached} of {end}."
            if waited >= self._away_seconds:
                advice = self._advice() or "If the broker is well, allow more with timeout_seconds."
                raise SourceAwayError(f"{silent} {advice}")
            log.warning("%s Waits on.", silent)

    def _poll(self, seconds: float) -> str:
        """Take what arrives; return what keeps the library from fetching, "" if nothing does."""
        message = self._consumer.poll(seconds)
        if message is None:
            return ""
        trouble = ""
        for one in (message, *self._consumer.consume(_MOST_MESSAGES, timeout=0)):
            error = one.error()
            if error is None or error.code() == self._end_of_partition:
                self._fetched.append(one)
            elif error.code() in self._passing or (error.code() in self._believed and self._is_there()):
                trouble = f" ({error.str()})"
            else:
                raise self._failure(error)
        return trouble

    def _is_there(self) -> bool:
        """Return whether the brokers have the partition; if they do, read on from the offset that was reached."""
        try:
            if self.partition not in partitions_of(self._consumer, self._topic, self._timeout_seconds):
                return False
        except kafka.KafkaException as error:
            if error.args[0].code() in codes_of(UNKNOWN):
                return False
        reached = self._reached
        if self._fetched:
            last = self._fetched[-1]
            reached = last.offset() + (last.error() is None)  # the end of a partition has the offset after it
        self._consumer.assign([kafka.TopicPartition(self._topic, self.partition, reached)])
        return True

    def _failure(self, error: Any) -> SourceError:
        if error.code() in self._changed:
            return SourceChangedError(
                f"{self._where} has no offset {self._reached} any more: {error.str()}. Messages were deleted since "
                f"this was planned: keep them longer than a run takes, and run it again. In a stream pass "
                f"TailKafka(fail_on_data_loss=False), to go on with what is there."
            )
        return SourceError(f"{self._where} at offset {self._reached}: {told(error)}")


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


def told(error: Any) -> str:
    """Return what an error of the library says, and which right the user lacks if it says so."""
    said, needed = error.str().rstrip("."), _NEEDED.get(error.name())
    return f"{said}. The user of this client needs {needed}: see the ACLs of the brokers." if needed else f"{said}."


def codes_of(names: Iterable[str]) -> list[int]:
    """Return the codes of errors of the library, by their names."""
    return [getattr(kafka.KafkaError, name) for name in names]
