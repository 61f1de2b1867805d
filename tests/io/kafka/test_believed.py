"""What a client of Kafka only believes of a topic is asked of the brokers, before it counts as their answer.

Partitions that are added, and a broker that is killed, show this with a real broker; librdkafka's own for tests have
neither. So a real client of these brokers is made to believe something.
"""

import re
import socket

import pytest

from sdf import OffsetRange, run_direct
from sdf.errors import SourceAwayError, SourceError
from sdf.execution.invoker import Invoker
from sdf.io import ReadKafka, TailKafka, TopicPartition

kafka = pytest.importorskip("confluent_kafka")
QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def brokers():
    """Start a broker that has a topic of four partitions, with ten messages in the first one."""
    client = kafka.Producer({"test.mock.num.brokers": 1, **QUIET})
    [broker] = client.list_topics("topic", timeout=10).brokers.values()
    address = f"{broker.host}:{broker.port}"
    producer = kafka.Producer({"bootstrap.servers": address, **QUIET})
    for number in range(10):
        producer.produce("topic", str(number).encode(), partition=0)
    assert producer.flush(10) == 0
    yield address
    del client


def test_the_last_reasons_are_told_each_once():
    """The one that explains most may come first: of a TLS client at a plain listener the next say "disconnected"."""
    reader = ReadKafka({"bootstrap.servers": "nobody", **QUIET})
    reader.setup()
    for text in (
        "a (after 1ms in state X)",
        "b (after 1ms in state X)",
        "c",
        "d",
        "e",
        "b (after 2ms in state X)",
        "f",
    ):
        reader._hear(kafka.KafkaError(kafka.KafkaError._TRANSPORT, text))
    failure = reader._failure("topic", kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TRANSPORT)), 1)
    assert str(failure).endswith("The client says: b; c; d; e; f.")


def test_brokers_that_answer_that_they_are_not_ready_are_not_said_to_be_silent(brokers):
    """As right after a start."""
    reader = ReadKafka({"bootstrap.servers": brokers, **QUIET})
    reader.setup()
    starting = kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.NOT_LEADER_FOR_PARTITION, "so"))
    failure = reader._failure("topic", starting, 2.71)
    assert isinstance(failure, SourceAwayError)
    assert str(failure).endswith("not ready after 2.7 s: so.")


class Told:
    """A message that only tells an error."""

    def __init__(self, code):
        self._code = code

    def error(self):
        return kafka.KafkaError(self._code, "so")


class Stale:
    """A consumer that has not heard of a partition until it asks once more, and tells of an error after some messages.

    If that is an unknown partition, it forgets the partition.
    """

    def __init__(self, consumer, tells_after, tells, doubles):
        self._consumer = consumer
        self._left = tells_after
        self._tells = getattr(kafka.KafkaError, tells)
        self.asked = 0
        self.doubles = doubles

    def __getattr__(self, name):
        return getattr(self._consumer, name)

    def list_topics(self, *topic, timeout):
        self.asked += 1
        return self._consumer.list_topics(*topic, timeout=timeout)

    def get_watermark_offsets(self, asked, timeout):
        if self.asked < 2:
            raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._UNKNOWN_PARTITION))
        low, end = self._consumer.get_watermark_offsets(asked, timeout=timeout)
        if self.doubles:
            self.doubles = False
            return end, end
        return low, end

    def poll(self, seconds):
        if self._left == 0:
            self._left = -1
            if self._tells == kafka.KafkaError._UNKNOWN_PARTITION:
                self._consumer.unassign()  # as librdkafka does with a partition that it does not know
            return Told(self._tells)
        self._left -= 1
        return self._consumer.poll(seconds)

    def consume(self, most, timeout):
        return []  # so that each message is polled


class Reader(ReadKafka):
    """Its consumers are stale."""

    tells_after = -1
    tells = "_UNKNOWN_PARTITION"
    doubles = False

    def _new_consumer(self):
        self.made = Stale(super()._new_consumer(), self.tells_after, self.tells, self.doubles)
        return self.made


def read(address, partition, **attributes):
    reader = Reader({"bootstrap.servers": address, "fetch.wait.max.ms": 10, **QUIET}, timeout_seconds=10)
    vars(reader).update(attributes)
    return [record.value for record in run_direct([TopicPartition("topic", partition)], reader)]


def test_a_partition_that_the_client_has_not_heard_of(brokers):
    """It was added since the client asked last."""
    assert read(brokers, 0) == [str(number).encode() for number in range(10)]


def test_the_end_of_a_partition_that_comes_in_place_of_its_beginning(brokers):
    """As once, of a broker that had been killed and started: no message is left out."""
    assert read(brokers, 0, doubles=True) == [str(number).encode() for number in range(10)]


@pytest.mark.parametrize("tells_after", range(10))
def test_a_partition_that_the_client_forgets_while_it_reads(brokers, tells_after):
    """Each message comes once."""
    assert read(brokers, 0, tells_after=tells_after) == [str(number).encode() for number in range(10)]


def test_reading_needs_no_right_to_a_group(brokers):
    """The library looks for the coordinator of the group whose name it needs."""
    found = read(brokers, 0, tells_after=3, tells="GROUP_AUTHORIZATION_FAILED")
    assert found == [str(number).encode() for number in range(10)]


def test_a_right_that_lacks_while_it_reads_is_named(brokers):
    """And whose it is."""
    with pytest.raises(
        SourceError, match=r"at offset 3: so\. The user of this client needs Describe and Read on the t"
    ):
        read(brokers, 0, tells_after=3, tells="TOPIC_AUTHORIZATION_FAILED")


def test_what_the_client_knows_of_its_connections_is_told_while_it_reads(brokers):
    """They broke since it asked where the partition ends."""

    class Broken(Reader):
        def _new_consumer(self):
            made = super()._new_consumer()
            made.poll = lambda seconds: self._hear(kafka.KafkaError(kafka.KafkaError._AUTHENTICATION, "so"))
            return made

    reader, element = Broken({"bootstrap.servers": brokers, **QUIET}), TopicPartition("topic", 0)
    reader.setup()
    restriction = reader.get_initial_restriction(element)
    reader.timeout_seconds = 0.1
    with pytest.raises(SourceAwayError, match=r"nothing came within .* refuse to let this user in \(so\)"):
        list(Invoker(reader, element, restriction).run())


def test_a_commit_to_a_group_without_rights_says_so(brokers):
    """The consumer that commits waits for a coordinator, and gives up; a new one tells why."""

    class Waiting:
        def __init__(self):
            self.closed = 0

        def commit(self, offsets, asynchronous):
            raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._WAIT_COORD))

        def poll(self, seconds):
            return Told(kafka.KafkaError.GROUP_AUTHORIZATION_FAILED)

        def assignment(self):
            return []

        def close(self):
            self.closed += 1

    class Tail(TailKafka):
        def _new_consumer(self):
            made.append(Waiting())
            return made[-1]

    made = []
    tail = Tail({"bootstrap.servers": brokers, "group.id": "mine", **QUIET}, away_seconds=0)
    tail.setup()
    with pytest.raises(SourceError, match=r"so\. The user of this client needs Read on the consumer group"):
        tail.on_commit(TopicPartition("topic", 0), OffsetRange(0, 4))
    assert [consumer.closed for consumer in made] == [1, 1]


def test_a_partition_that_the_brokers_do_not_have(brokers):
    """Their answer counts."""
    with pytest.raises(SourceError, match="has no partition 17; it has"):
        read(brokers, 17)


def test_what_the_client_knows_of_its_connections_is_told():
    """Nobody listens there."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        reader = ReadKafka({"bootstrap.servers": address, **QUIET}, timeout_seconds=1)
        with pytest.raises(SourceAwayError, match=r"can this host reach them.* The client says: .*Connection refused"):
            list(run_direct(["topic"], reader))


@pytest.mark.parametrize(
    ("code", "advice"),
    [("_AUTHENTICATION", r"refuse to let this user in \(so\)\. See .* sasl"), ("_SSL", r"no safe connection \(so\)")],
)
def test_credentials_that_are_refused_are_told(brokers, code, advice):
    """As librdkafka tells a callback, whose user's own is called, too. When they have answered since, that is over."""
    heard = []
    reader = ReadKafka({"bootstrap.servers": brokers, "error_cb": heard.append, **QUIET}, timeout_seconds=1)
    reader.setup()
    error = kafka.KafkaError(getattr(kafka.KafkaError, code), "so")
    reader._hear(error)
    assert heard == [error]
    away = kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TRANSPORT))
    assert re.search(advice, str(reader._failure("topic", away, 1)))
    reader.get_initial_restriction(TopicPartition("topic", 0))
    assert not re.search(advice, str(reader._failure("topic", away, 1)))
