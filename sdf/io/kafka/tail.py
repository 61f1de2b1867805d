"""WatchTopics and TailKafka: follow Kafka topics without an end, in streams, also partitions that are added later.

WatchTopics finds the partitions of a topic, TailKafka follows a partition. So each partition is an element with its own
offset, watermark and end, and all are read at the same time: ``[WatchTopics(...), TailKafka(...)]``. The offsets are in
the journal. If a consumer group is named, they are also committed to it after each commit of the stream, so that tools
can measure the lag; they are never read from there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import pairwise
from typing import Any

import attrs

from sdf import UNBOUNDED, MonotonicWatermark, OffsetRange, RestrictionTracker
from sdf.errors import InvalidTypeError, SourceAwayError, SourceChangedError, SourceError, show
from sdf.io.follow.watch import Scan, ScanFn, Scans
from sdf.io.kafka.client import KafkaFn, Start, as_start, backoff_seconds, chosen_offset, is_unknown
from sdf.io.kafka.fetched import Fetched, kafka, log
from sdf.io.kafka.tail_parts import KafkaTail, KafkaTracker, Mark, Messages
from sdf.io.kafka.values import KafkaRecord, TopicPartition
from sdf.io.options import as_seconds
from sdf.io.timestamps import Timestamp, as_timestamp, observed, watermark_of

__all__ = ["TailKafka", "WatchTopics"]

_LEAST_BACKOFF_SECONDS = 0.1
_LEAST_PART_OFFSETS = 5000  # of a backlog, while it is not known how fast tasks read it
_GLANCE_SECONDS = 1.0  # most time for an answer that the stream can do without
_SILENT_SECONDS = 60.0  # until such an answer is asked for again
_NEAR = 1000  # offsets; to read so many again is cheaper than to begin once more


class _TopicGoneError(SourceChangedError):
    """A partition that was there before is not there now, and that is no error yet."""


class WatchTopics(ScanFn, KafkaFn):
    """Finds partitions, in streams. Element: a topic. Gives a `TopicPartition` for each, and for those added later.

    Args:
        config: configuration of librdkafka, at least ``bootstrap.servers``.
        interval_seconds: seconds from one look for new partitions to the next.
        timeout_seconds: the most seconds to wait for an answer.
        away_seconds: how long to look again if no broker answers, less and less often, after the first answer.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        SourceError: when it runs, if there is no such broker or topic, or none answers.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        interval_seconds: float = 30.0,
        timeout_seconds: float = 30.0,
        away_seconds: float = 600.0,
    ) -> None:
        super().__init__(config, timeout_seconds=timeout_seconds, away_seconds=away_seconds)
        self.interval_seconds = as_seconds(interval_seconds, "WatchTopics interval_seconds")

    def get_initial_restriction(self, element: Any) -> Scans:
        if not isinstance(element, str):
            raise InvalidTypeError(f"WatchTopics watches the name of a topic (got {show(element)}).")
        return Scans(0)

    def scan(self, element: Any, scans: Scans, tracker: Any) -> Iterator[Any]:
        added = bool(scans.seen)  # at first nobody knows whether the servers are right
        try:
            with self._consumer() as consumer:
                numbers = self._partitions(consumer, element, patient=added)
        except SourceError as error:
            if not (added and is_unknown(error)):
                raise
            log.warning("%s It was there before; looks again in %.3g s.", error, self.interval_seconds)
            numbers = []  # what follows its partitions says whether this is an error
        there = tuple(TopicPartition(element, number, added=added) for number in numbers)
        found = tuple(partition for partition in there if partition not in scans.seen)
        if found and tracker.try_claim(Scan(scans.start, found, (*scans.seen, *found))):
            yield from found
        tracker.defer_remainder(self.interval_seconds)


class TailKafka(KafkaFn):
    """Follows partitions of topics, in streams. Element: a `TopicPartition`. Gives `KafkaRecord`.

    Position: an offset; a block is the messages that have come together. A micro-batch reads the messages that are
    there when a task begins to read the partition. With the default ``isolation.level``, only those of committed
    transactions are read, and a partition ends where its first open transaction begins. Where compaction or a
    transaction has left a gap, reading goes on after it.

    A topic that was deleted and made anew is noticed when it has new messages: the message that was read last is
    another one now, or is not there. Of a partition of which nothing was read yet this cannot be known. A topic
    that is not there any more is an error. With ``fail_on_data_loss=False`` `TailKafka` looks for it again, less and
    less often.

    Args:
        config: configuration of librdkafka, at least ``bootstrap.servers``. If it has ``group.id``, offsets are also
            committed for that group once the journal has them; the group must have no members of its own.
        start: where to begin in each partition: ``"earliest"``; ``"latest"``, after the last message; an offset; a
            mapping of `TopicPartition` to offsets, for those that are not to begin at their earliest; or a
            ``datetime`` with a time zone: at the first message with that time or a later one. A partition that
            `WatchTopics` finds later is read from its earliest message on, not its latest.
        poll_seconds: seconds to wait if nothing is new.
        timeout_seconds: the most seconds to wait for an answer or for the next message.
        away_seconds: how long to look again if no broker answers, less and less often, before that is an error; other
            partitions go on meanwhile. It counts the waits between looks in a row, so a stream that was down counts
            nothing. The log tells of each.
        fail_on_data_loss: whether it is an error if messages were deleted before they were read, or the topic was
            deleted or made anew. False: go on with what is there; the journal, the summary and a warning say what was
            lost.
        timestamp: a function from a record to its time, such as seconds since the epoch. The highest so far is the
            watermark of a partition: records should come in that order, and late ones are given all the same.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        SourceError: when it runs, if there is no such broker, topic, partition or offset, or one does not answer.
        SourceChangedError: when it runs, if messages were deleted before they were read, or the topic was deleted or
            made anew.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        start: Start = "earliest",
        poll_seconds: float = 1.0,
        timeout_seconds: float = 30.0,
        away_seconds: float = 600.0,
        fail_on_data_loss: bool = True,
        timestamp: Timestamp | None = None,
    ) -> None:
        super().__init__(config, timeout_seconds=timeout_seconds, away_seconds=away_seconds)
        self.start = as_start(start, "TailKafka")
        self.poll_seconds = as_seconds(poll_seconds, "TailKafka poll_seconds")
        self.fail_on_data_loss = fail_on_data_loss
        self.timestamp = as_timestamp(timestamp, "TailKafka timestamp")
        self.commits_to_group = "group.id" in config
        self._asks_after = 0.0  # by the monotonic clock

    def get_initial_restriction(self, element: Any) -> KafkaTail:
        topic, partition = _both(element)
        start = "earliest" if element.added and self.start == "latest" else self.start
        with self._consumer() as consumer:
            ends = self._ends(consumer, topic, partition, patient=element.added)
            first = self._begins_at(consumer, topic, partition, start, ends, patient=element.added)
        return KafkaTail(first, UNBOUNDED)

    def create_tracker(self, element: Any, restriction: OffsetRange) -> RestrictionTracker:
        tail = restriction if isinstance(restriction, KafkaTail) else KafkaTail(restriction.start, restriction.stop)
        return KafkaTracker(tail)  # an older sdf wrote offset ranges into journals

    def backlog(self, element: Any, restriction: Any) -> tuple[int | None, None]:
        """Return the offsets that were not read yet: as many messages, unless some were compacted."""
        low, end = self._ends_now(element)
        start = restriction.start - getattr(restriction, "shift", 0)
        return None if end is None else max(0, end - max(low, start)), None

    def _ends_now(self, element: Any) -> tuple[int, int | None]:
        """Return the offsets where a partition begins and ends; (0, None) if no broker says so at once."""
        now = time.monotonic()
        if now < self._asks_after:
            return 0, None
        asked = kafka.TopicPartition(*_both(element))
        with self._consumer() as consumer:
            try:
                ends: tuple[int, int] = consumer.get_watermark_offsets(asked, timeout=_GLANCE_SECONDS)
            except kafka.KafkaException:
                self._asks_after = now + _SILENT_SECONDS  # others would wait as long for nothing
                return 0, None
        return ends

    def split_backlog(self, element: Any, restriction: Any, parts: int, length: int | None) -> Sequence[Any]:
        """Cut the unread offsets of a partition."""
        if restriction.stop is not UNBOUNDED or not isinstance(restriction, KafkaTail):
            return [restriction]
        low, end = self._ends_now(element)
        start = restriction.start
        there = 0 if end is None or start - restriction.shift < low else end + restriction.shift - start
        step = length or max(_LEAST_PART_OFFSETS, -(-there // parts))
        cuts = [*range(start, min(start + step * parts, start + there), step), None]
        return [
            attrs.evolve(restriction, start=at, until=until, mark=restriction.mark if at == start else None)
            for at, until in pairwise(cuts)
        ] or [restriction]

    def truncate(self, element: Any, restriction: Any) -> Any:
        """Keep the offsets that the partition has now."""
        if restriction.stop is not UNBOUNDED:
            return restriction
        start, end = restriction.start, 0
        with suppress(_TopicGoneError), self._consumer() as consumer:
            _, end = self._ends_of(consumer, *_both(element), patient=True)
        return attrs.evolve(restriction, stop=max(start, end + getattr(restriction, "shift", 0)))

    def create_watermark_estimator(self, element: Any, restriction: Any) -> MonotonicWatermark | None:
        return watermark_of(self.timestamp)

    def process(self, element: Any, tracker: Any) -> Iterator[KafkaRecord]:
        at: KafkaTail = tracker.current_restriction()
        rest, growing, has_lost = at, at.stop is UNBOUNDED, False
        try:
            with self._consumer() as consumer:
                for records, after, lost in self._look(consumer, element, at):
                    if not tracker.try_claim(Messages(rest.start, after, lost)):
                        return
                    rest, has_lost = after, bool(lost)
                    yield from observed(records, tracker, self.timestamp)
        except (SourceAwayError, _TopicGoneError) as error:
            if not growing:
                raise
            if rest is at:
                self._look_later(at, tracker, error)
                return
            log.warning("%s Looks again.", error)
        except SourceChangedError:
            if self.fail_on_data_loss or not growing:
                raise
            log.warning("%s was deleted while it was read", element)  # the next look will see what is left
        if growing:
            tracker.defer_remainder(0 if has_lost or rest.start == at.until else self.poll_seconds)
        else:
            tracker.try_claim(at.stop)  # the last offsets may have had no message

    def _look_later(self, at: KafkaTail, tracker: Any, error: SourceError) -> None:
        """Defer all work, because no broker answers or the topic is gone; raise if no answer came for too long."""
        first = max(self.poll_seconds, _LEAST_BACKOFF_SECONDS)
        waited = sum(self.timeout_seconds + backoff_seconds(looks, first) for looks in range(at.looks))
        if waited >= self.away_seconds and isinstance(error, SourceAwayError):
            raise SourceAwayError(
                f"{error} It was the last of {at.looks + 1} looks in {waited:.3g} s; allow more with away_seconds, or "
                f"start the stream again when the brokers are back."
            ) from error
        wait = backoff_seconds(at.looks, first)
        log.warning("%s Looks again in %.3g s.", error, wait)
        if tracker.try_claim(Messages(at.start, attrs.evolve(at, looks=at.looks + 1))):
            tracker.defer_remainder(wait)

    def _look(self, consumer: Any, element: Any, at: KafkaTail) -> Iterator[tuple[list[KafkaRecord], KafkaTail, str]]:
        """Yield messages, what remains after them, and if there is none, why messages before that were lost."""
        topic, partition = _both(element)
        until: Any = at.stop
        growing = until is UNBOUNDED
        if at.lost:  # a replay: they were not there
            yield [], attrs.evolve(at, start=until), at.lost
            return
        try:
            low, end = self._ends_of(consumer, topic, partition, patient=not growing)
        except _TopicGoneError:
            if growing:
                raise
            low, end = 0, 0
        if growing:
            until = end + at.shift if at.until is None else min(end + at.shift, at.until)
        begin, stop = at.start - at.shift, until - at.shift
        messages, is_anew = None, self._is_shorter(topic, partition, at, end)
        if max(low, begin) < min(end, stop) and not is_anew:
            messages = self._after_mark(consumer, topic, partition, at, low)
            is_anew = messages is None
        lost = self._lost(topic, partition, at, low, end, is_anew=is_anew)
        if lost and growing:
            shift = at.start - low if is_anew else at.shift
            yield [], attrs.evolve(at, start=max(at.start, low + shift), shift=shift, mark=None, looks=0), lost
            return
        rest = attrs.evolve(at, looks=0)
        if messages is not None:
            for records in messages.together(stop if self.fail_on_data_loss else min(end, stop)):
                rest = attrs.evolve(rest, start=records[-1].offset + 1 + at.shift, mark=Mark.of(records[-1]))
                yield records, rest, ""
        if growing and attrs.evolve(rest, start=max(rest.start, until)) not in (at, rest):
            yield [], attrs.evolve(rest, start=max(rest.start, until)), ""  # a gap at the end, or an answer

    def _ends_of(self, consumer: Any, topic: str, partition: int, *, patient: bool) -> tuple[int, int]:
        """Return the ends of a partition that was there before; raise if it is not there now."""
        try:
            return self._ends(consumer, topic, partition, patient=patient)
        except SourceError as error:
            if not is_unknown(error):
                raise
            if not self.fail_on_data_loss:
                raise _TopicGoneError(f"{error} It was there before.") from error
            raise SourceChangedError(
                f"{error} It was there before, and was deleted. Create it again, or pass fail_on_data_loss=False to go "
                f"on with other partitions until it is there."
            ) from error

    def _is_shorter(self, topic: str, partition: int, at: KafkaTail, end: int) -> bool:
        """Return whether a partition ends before what was read of it; ``start`` may be an offset that is to come."""
        begin = at.start - at.shift
        return end < begin and (at.mark is not None or begin != chosen_offset(self.start, topic, partition))

    def _after_mark(self, consumer: Any, topic: str, partition: int, at: KafkaTail, low: int) -> Fetched | None:
        """Return the messages to read, from the one after the mark on; None if the mark is another message now."""
        begin, mark, patient = max(low, at.start - at.shift), at.mark, at.stop is not UNBOUNDED
        if mark is not None and mark.offset >= low:
            messages = self._messages(consumer, topic, partition, mark.offset, patient=patient)
            if any(Mark.of(record) != mark for record in messages.until(mark.offset + 1)):
                return None
            if begin - mark.offset < _NEAR:
                for _ in messages.until(begin):
                    pass
                return messages
        return self._messages(consumer, topic, partition, begin, patient=patient)

    def _lost(self, topic: str, partition: int, at: KafkaTail, low: int, end: int, *, is_anew: bool) -> str:
        """Return what was lost of a partition, "" for nothing; raise if that is an error."""
        begin, where = at.start - at.shift, f"{self._where(topic)}, partition {partition}"
        if is_anew and end < begin:
            flaw = f"ends at offset {end}, but was read up to {begin}: it was made anew, or lost messages"
        elif is_anew:
            flaw = f"has another message than the one that was read last, before offset {begin}: it was made anew"
        elif begin < low:
            flaw = f"begins at offset {low}: the messages from {begin} on were deleted before they were read"
        else:
            return ""
        if self.fail_on_data_loss:
            raise SourceChangedError(
                f"TailKafka: {where} {flaw}. Pass fail_on_data_loss=False to go on with what is there, or begin anew "
                f"with another checkpoint. Keep messages longer than a stream may be down."
            )
        log.warning("TailKafka: %s %s; this stream goes on with what is there", where, flaw)
        return f"{where} {flaw}"

    def on_commit(self, element: Any, restriction: Any) -> None:
        """Commit the offset after a part for the consumer group, if one is named."""
        offset = restriction.stop - getattr(restriction, "shift", 0)
        if self.commits_to_group and not getattr(restriction, "lost", ""):
            topic, partition = _both(element)
            reached = kafka.TopicPartition(topic, partition, offset)
            with self._consumer() as consumer:
                self._answer(consumer, topic, lambda: self._commit(consumer, reached), patient=True)

    def _commit(self, consumer: Any, reached: Any) -> None:
        try:
            consumer.commit(offsets=[reached], asynchronous=False)
        except kafka.KafkaException as error:
            if error.args[0].code() == kafka.KafkaError._WAIT_COORD:
                self._look_for_coordinator()
            raise

    def _look_for_coordinator(self) -> None:
        """Raise if the brokers do not name the coordinator of the group: a consumer tells that once."""
        with closing(self._new_consumer()) as consumer:
            told_so = consumer.poll(self.timeout_seconds)
        if told_so is not None:  # it reads nothing, so this is no message
            raise kafka.KafkaException(told_so.error())


def _both(element: Any) -> tuple[str, int]:
    if not isinstance(element, TopicPartition):
        raise InvalidTypeError(
            f"TailKafka follows a TopicPartition (got {show(element)}). To follow a topic with all of its partitions, "
            f"put WatchTopics before it: [WatchTopics(config), TailKafka(config)]."
        )
    return element.topic, element.partition
