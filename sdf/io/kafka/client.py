"""Shared by the Kafka connectors: a worker's consumers, requests to brokers, and where the reading begins."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from sdf.errors import InvalidTypeError, InvalidValueError, SourceAwayError, SourceError, show
from sdf.extras import need
from sdf.io.connector import Connector
from sdf.io.kafka.fetched import UNKNOWN, Fetched, answer, codes_of, kafka, log, partitions_of, told
from sdf.io.kafka.values import TopicPartition
from sdf.io.options import as_seconds
from sdf.numbers import as_integer, as_number, is_integer, is_number

__all__ = ["KafkaFn", "Start", "as_start", "backoff_seconds", "chosen_offset", "is_unknown"]

_OWN_CONFIG = {
    "auto.offset.reset": "error",  # never go on at another offset
    "enable.auto.commit": False,
    "enable.partition.eof": True,
}
_AWAY = (
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_RESOLVE",
    "_TIMED_OUT",
    "_TIMED_OUT_QUEUE",
    "_WAIT_COORD",
    "_DESTROY_BROKER",
    "BROKER_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "LEADER_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "NOT_COORDINATOR",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_LEADER_EPOCH",
)
_MOST_BACKOFF_SECONDS = 60.0
_MOST_HEARD = 5
_ASK = (
    "Are the servers right, can this host reach them at the addresses that they advertise, and does security.protocol "
    "fit their listener?"
)

T = TypeVar("T")
Start = str | int | datetime | dict[TopicPartition, int]  # where the reading of a partition begins


class KafkaFn(Connector):
    """Base of the Kafka connectors. Its consumers are members of no group.

    Args:
        config: configuration of librdkafka, at least ``bootstrap.servers``.
        timeout_seconds: the most seconds to wait for an answer or for the next message.
        away_seconds: how long to ask again, less and less often, if no broker answers.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
    """

    def __init__(self, config: Mapping[str, Any], *, timeout_seconds: float, away_seconds: float = 0.0) -> None:
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
        self.away_seconds = as_seconds(away_seconds, f"{name} away_seconds")

    def setup(self) -> None:
        self._idle: list[Any] = []
        self._heard: dict[str, int] = {}  # what the library told last of its connections, and the codes

    def teardown(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _partitions(self, consumer: Any, topic: str, *, patient: bool = False) -> list[int]:
        return self._answer(
            consumer, topic, lambda: partitions_of(consumer, topic, self.timeout_seconds), patient=patient
        )

    def _ends(self, consumer: Any, topic: str, partition: int, *, patient: bool = False) -> tuple[int, int]:
        """Return the first offset of a partition, and the offset after its last one."""
        asked = kafka.TopicPartition(topic, partition)

        def ask() -> tuple[int, int]:
            ends: tuple[int, int] = consumer.get_watermark_offsets(asked, timeout=self.timeout_seconds)
            if ends[0] == ends[1] > 0:  # librdkafka 2.16 has given the end twice, of a broker that had just started
                ends = consumer.get_watermark_offsets(asked, timeout=self.timeout_seconds)
            return ends

        return self._answer(consumer, topic, ask, patient=patient)

    def _begins_at(
        self, consumer: Any, topic: str, partition: int, start: Start, ends: tuple[int, int], *, patient: bool = False
    ) -> int:
        """Return the offset where the reading of a partition begins; ``ends`` are those of the partition."""
        offset = chosen_offset(start, topic, partition)
        if offset is not None:
            return offset
        if isinstance(start, datetime):
            milliseconds = math.ceil(start.timestamp() * 1000)
            asked = [kafka.TopicPartition(topic, partition, milliseconds)]
            (found,) = self._answer(
                consumer,
                topic,
                lambda: consumer.offsets_for_times(asked, timeout=self.timeout_seconds),
                patient=patient,
            )
            if found.error is not None:
                raise SourceError(f"{type(self).__name__}: {self._where(topic)}: {told(found.error)}")
            return found.offset if found.offset >= 0 else ends[1]  # no message is that late
        return ends[1] if start == "latest" else ends[0]

    def _where(self, topic: str) -> str:
        return f"topic {topic!r} at {self.config['bootstrap.servers']}"

    def _answer(self, consumer: Any, topic: str, ask: Callable[[], T], *, patient: bool) -> T:
        """Return what brokers answer; ``patient``: ask for as long as ``away_seconds``."""
        began, looks = time.monotonic(), 0
        while True:
            asked = time.monotonic()
            try:
                found = answer(consumer, topic, self.timeout_seconds, ask)
            except kafka.KafkaException as error:
                self._listen(consumer)
                failure = self._failure(topic, error, time.monotonic() - asked)
                waited = time.monotonic() - began
                if not patient or not isinstance(failure, SourceAwayError) or waited >= self.away_seconds:
                    raise failure from error
                wait = min(backoff_seconds(looks, 1.0), self.away_seconds - waited)
                log.warning("%s Asks again in %.3g s.", failure, wait)
                time.sleep(wait)
                looks += 1
            else:
                if self._heard:
                    self._listen(consumer)
                    self._heard.clear()  # it is over
                return found

    def _failure(self, topic: str, error: Any, waited: float) -> SourceError:
        said = error.args[0]
        who = f"{type(self).__name__}: {self._where(topic)}"
        if said.code() in codes_of(_AWAY):
            waited = max(0.1, round(waited, 1))
            if not said.name().startswith("_"):  # the brokers have said it
                return SourceAwayError(f"{who}: not ready after {waited:g} s: {told(said)}")
            return SourceAwayError(f"{who}: no answer within {waited:g} s: {told(said)} {self._advice() or _ASK}")
        return SourceError(f"{who}: {told(said)}")

    def _listen(self, consumer: Any) -> None:
        """Let the library tell what it heard of its connections."""
        if not consumer.assignment():  # else it might bring a message
            consumer.poll(0)

    def _advice(self) -> str:
        """Return what is wrong with the connections and how to fix it; "" if the library has told nothing."""
        errors = kafka.KafkaError
        refused, unsafe = self._said_of(errors._AUTHENTICATION), self._said_of(errors._SSL)
        if refused:
            return (
                f"The servers refuse to let this user in ({refused}). See security.protocol and the sasl.* settings in "
                f"config."
            )
        if unsafe:
            return f"There is no safe connection ({unsafe}). See security.protocol and the ssl.* settings in config."
        said = self._said_of(*self._heard.values())
        return f"{_ASK} The client says: {said}." if said else ""

    def _said_of(self, *codes: int) -> str:
        return "; ".join(said for said, code in self._heard.items() if code in codes)

    def _hear(self, error: Any) -> None:
        if error.code() != kafka.KafkaError._ALL_BROKERS_DOWN:  # which says nothing more
            said = error.str().partition(" (after ")[0]  # how long it took differs each time
            self._heard[said] = error.code()
            while len(self._heard) > _MOST_HEARD:
                del self._heard[next(iter(self._heard))]
        if "error_cb" in self.config:
            self.config["error_cb"](error)

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
        try:
            return kafka.Consumer({**self.config, **_OWN_CONFIG, "error_cb": self._hear})
        except kafka.KafkaException as error:
            raise InvalidValueError(
                f"{type(self).__name__} config must be one that librdkafka takes: {told(error.args[0])}"
            ) from error

    def _messages(self, consumer: Any, topic: str, partition: int, offset: int, *, patient: bool = False) -> Fetched:
        """Return the messages of a partition from an offset on; ``patient`` as for `_answer`."""
        where = f"{type(self).__name__}: {self._where(topic)}, partition {partition}"
        away_seconds = self.away_seconds if patient else 0.0
        return Fetched(consumer, topic, partition, offset, self.timeout_seconds, away_seconds, where, self._advice)


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


def is_unknown(error: SourceError) -> bool:
    """Tell whether brokers have answered that there is no such topic or partition."""
    cause = error.__cause__
    return isinstance(cause, kafka.KafkaException) and cause.args[0].code() in codes_of(UNKNOWN)


def backoff_seconds(looks: int, first_seconds: float) -> float:
    """Return how long to wait after a number of looks in a row that got no answer: twice as long each time."""
    return min(first_seconds * 2.0 ** min(looks, 30), _MOST_BACKOFF_SECONDS)
