"""What a client of Kafka only believes of a topic is asked of the brokers, before it counts as their answer.

Partitions that are added, and a broker that is killed, show this with a real broker; librdkafka's own for tests have
neither. So a real client of these brokers is made to believe something.
"""

import re
import socket

import pytest

from sdf import run_direct
from sdf.errors import SourceAwayError, SourceError
from sdf.io import ReadKafka, TopicPartition

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


class Told:
    """A message that only tells an error."""

    def __init__(self, code):
        self._code = code

    def error(self):
        return kafka.KafkaError(self._code)


class Stale:
    """A consumer that has not heard of a partition until it asks once more, and forgets it after some messages."""

    def __init__(self, consumer, forgets_after, doubles):
        self._consumer = consumer
        self._left = forgets_after
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
            self._consumer.unassign()  # as librdkafka does with a partition that it does not know
            return Told(kafka.KafkaError._UNKNOWN_PARTITION)
        self._left -= 1
        return self._consumer.poll(seconds)

    def consume(self, most, timeout):
        return []  # so that each message is polled


class Reader(ReadKafka):
    """Its consumers are stale."""

    forgets_after = -1
    doubles = False

    def _new_consumer(self):
        self.made = Stale(super()._new_consumer(), self.forgets_after, self.doubles)
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


@pytest.mark.parametrize("forgets_after", range(10))
def test_a_partition_that_the_client_forgets_while_it_reads(brokers, forgets_after):
    """Each message comes once."""
    assert read(brokers, 0, forgets_after=forgets_after) == [str(number).encode() for number in range(10)]


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
    [("_AUTHENTICATION", r"refuse to let this user in \(so\)\. See the sasl"), ("_SSL", r"no safe connection \(so\)")],
)
def test_credentials_that_are_refused_are_told(brokers, code, advice):
    """As librdkafka tells a callback, whose user's own is called, too."""
    heard = []
    reader = ReadKafka({"bootstrap.servers": brokers, "error_cb": heard.append, **QUIET}, timeout_seconds=1)
    reader.setup()
    error = kafka.KafkaError(getattr(kafka.KafkaError, code), "so")
    reader._hear(error)
    assert heard == [error]
    away = kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TRANSPORT))
    assert re.search(advice, str(reader._failure("topic", away)))
