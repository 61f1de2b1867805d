"""ReadKafka: messages of real brokers, librdkafka's own for tests, over loopback; split at every position."""

import re
import socket
import sys
from datetime import datetime, timezone
from itertools import combinations, pairwise

import attrs
import pytest
from support.kafka_batches import append, batch

from sdf import OffsetRangeTracker, run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, MissingExtraError, SourceChangedError, SourceError
from sdf.io import KafkaRecord, ReadKafka, TopicPartition
from sdf.io.kafka.topic import KafkaRange, Offsets
from sdf.serialization.values import Parts
from sdf.testing import check_dofn

confluent_kafka = pytest.importorskip("confluent_kafka")

QUIET = {"log_level": 0}
COUNTS = (0, 7, 5, 1)  # messages of each partition; the brokers give a topic four


def parts_of(whole, cuts):
    """Cut a restriction at some positions."""
    marks = [whole.start, *cuts, whole.stop]
    return [attrs.evolve(whole, start=start, stop=stop) for start, stop in pairwise(marks)]


@pytest.fixture(scope="module")
def brokers():
    """Start three brokers, which live as long as the client that has them."""
    client = confluent_kafka.Producer({"test.mock.num.brokers": 3, **QUIET})
    found = client.list_topics(timeout=10).brokers.values()
    return client, ",".join(f"{broker.host}:{broker.port}" for broker in found)


@pytest.fixture(scope="module")
def producer(brokers):
    return confluent_kafka.Producer({"bootstrap.servers": brokers[1], **QUIET})


@pytest.fixture
def read(brokers):
    """Give a function that makes a reader of the brokers."""

    def make(config=(), **options):
        own = {"bootstrap.servers": brokers[1], "fetch.wait.max.ms": 10, **QUIET, **dict(config)}
        return ReadKafka(own, **{"timeout_seconds": 10, **options})

    return make


@pytest.fixture(scope="module")
def topic(producer):
    """Fill a topic: its first partition is empty, the second has gaps, the last offsets of the third are a gap."""
    producer.list_topics("topic", timeout=10)
    for partition, count in enumerate(COUNTS):
        for number in range(count):
            producer.produce("topic", f"{partition}.{number}", key=b"key", partition=partition, headers={"h": b"1"})
    assert producer.flush(10) == 0
    append(producer, "topic", 1, batch([0, 3, 4], 10))
    append(producer, "topic", 2, batch([6], 9, control=True))
    append(producer, "topic", 3, batch([8], 9))
    return "topic"


def plainly(brokers, topic):
    """Return what a consumer gives until each partition ends."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": brokers[1], "group.id": "plain", "enable.partition.eof": True, **QUIET}
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in partitions])
    found, ended = [], 0
    while ended < len(partitions):
        message = consumer.poll(10)
        if message.error() is None:
            found.append((message.partition(), message.offset(), message.value()))
        else:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ended += 1
    consumer.close()
    return sorted(found)


def seen(records):
    return sorted((record.partition, record.offset, record.value) for record in records)


@pytest.fixture(scope="module")
def expected(brokers, topic):
    return plainly(brokers, topic)


STEP = pytest.mark.parametrize("block_offsets", [1, 2, 3, 5, 1000])


def test_the_topic_has_gaps(expected):
    """In the middle, at the end, and before the last message; else the tests would show less."""
    offsets = [[offset for number, offset, _ in expected if number == partition] for partition in range(4)]
    assert offsets == [[], [0, 1, 2, 3, 4, 5, 6, 7, 10, 11], [0, 1, 2, 3, 4], [0, 9]]


@STEP
def test_messages_are_those_of_a_consumer(read, topic, expected, block_offsets):
    """Whatever the size of a block."""
    assert seen(run_direct([topic], read(block_offsets=block_offsets))) == expected


def test_partitions_as_elements(read, topic, expected):
    """One element for each gives the same as the topic."""
    assert seen(run_direct([TopicPartition(topic, number) for number in range(4)], read())) == expected


@pytest.mark.parametrize("block_offsets", [2, 5])
def test_it_can_be_split_anywhere(read, topic, expected, block_offsets):
    """check_dofn splits it at every claim."""
    checked = check_dofn(read(block_offsets=block_offsets), topic, fractions=(0.0, 0.5))
    assert checked.records == len(expected)
    assert checked.splits > 0


@pytest.mark.parametrize("block_offsets", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_checkpoints_change_nothing(read, topic, expected, block_offsets, seed):
    """Split after each claim, the parts run in any order."""
    fn = read(block_offsets=block_offsets)
    assert seen(run_direct([topic, topic], fn, split_every=1, seed=seed)) == sorted(expected * 2)


@pytest.mark.parametrize("block_offsets", [1, 3])
def test_every_cut(read, topic, expected, block_offsets):
    """One cut at each position, and many pairs of cuts: every message once."""
    fn = read(block_offsets=block_offsets)
    fn.setup()
    whole = fn.get_initial_restriction(topic)
    wrong = []
    for cuts in [*combinations(range(1, whole.stop), 1), *combinations(range(1, whole.stop, 6), 2)]:
        parts = parts_of(whole, cuts)[::-1]
        if seen(record for part in parts for record in fn.process(topic, OffsetRangeTracker(part))) != expected:
            wrong.append(cuts)
    fn.teardown()
    assert wrong == []


@STEP
def test_blocks_do_not_depend_on_the_start(block_offsets):
    """Those of a part are those of the whole that begin in it."""
    whole = KafkaRange(0, 17, (Offsets(0, 5, 5), Offsets(1, 100, 107), Offsets(4, 0, 1), Offsets(9, 3, 12)))
    blocks = list(whole.blocks(block_offsets))
    assert [(partition, offset) for _, partition, first, end in blocks for offset in range(first, end)] == [
        (one.partition, offset) for one in whole.partitions for offset in range(one.first, one.end)
    ]
    for start in range(18):
        part = attrs.evolve(whole, start=start)
        assert list(part.blocks(block_offsets)) == [block for block in blocks if block[0] >= start]


def test_record(read, topic):
    """All that a message has."""
    record = run_direct([TopicPartition(topic, 1)], read())[0]
    assert record == KafkaRecord("topic", 1, 0, record.timestamp_ms, b"key", b"1.0", (("h", b"1"),))
    assert record.timestamp_ms > 1_600_000_000_000
    bare = run_direct([TopicPartition(topic, 3)], read())[-1]
    assert bare == KafkaRecord("topic", 3, 9, 1000, None, b"after the gap", ())


def test_ends_are_pinned(read, producer, topic):
    """What comes while a run reads belongs to a later read."""
    producer.produce("growing", "first", partition=0)
    producer.flush(10)
    fn = read()
    fn.setup()
    planned = fn.get_initial_restriction("growing")
    producer.produce("growing", "second", partition=0)
    producer.flush(10)
    assert [record.value for record in fn.process("growing", OffsetRangeTracker(planned))] == [b"first"]
    assert [record.value for record in run_direct(["growing"], read())] == [b"first", b"second"]
    fn.teardown()


def test_start(read, topic, expected):
    """From an offset on; partitions that end before have nothing."""
    assert seen(run_direct([topic], read(start=4))) == [one for one in expected if one[1] >= 4]
    assert seen(run_direct([topic], read(start=100))) == []


def test_each_partition_may_begin_elsewhere(read, topic, expected):
    """Those that are not named begin at their earliest message."""
    start = {TopicPartition(topic, 1): 5, TopicPartition(topic, 3): 9}
    assert seen(run_direct([topic], read(start=start))) == [
        (partition, *rest) for partition, *rest in expected if rest[0] >= {1: 5, 3: 9}.get(partition, 0)
    ]


def test_after_the_last_message_there_is_nothing_to_read(read, topic):
    """Nor at a time after all messages."""
    assert run_direct([topic], read(start="latest")) == []
    assert run_direct([topic], read(start=datetime(2200, 1, 1, tzinfo=timezone.utc))) == []


def test_no_offset_is_committed(read, brokers, topic):
    """The group, whose name the library asks for, knows of nothing."""
    run_direct([topic], read(config={"group.id": "mine"}))
    consumer = confluent_kafka.Consumer({"bootstrap.servers": brokers[1], "group.id": "mine", **QUIET})
    found = consumer.committed([confluent_kafka.TopicPartition(topic, 1)], timeout=10)
    consumer.close()
    assert [one.offset for one in found] == [confluent_kafka.OFFSET_INVALID]


def test_restriction_can_be_told_as_data(read, topic):
    """A lane can split it."""
    fn = read()
    fn.setup()
    restriction = fn.get_initial_restriction(topic)
    fn.teardown()
    assert restriction == KafkaRange(0, 41, (Offsets(0, 0, 0), Offsets(1, 0, 17), Offsets(2, 0, 14), Offsets(3, 0, 10)))
    assert Parts(restriction).read(Parts(restriction).describe(restriction)) == restriction


# What can be wrong


def test_deleted_since_planned(read, producer):
    """The brokers keep five megabytes of a partition: what was there first has gone."""
    fn = read()
    fn.setup()
    producer.produce("short", b"first", partition=0)
    producer.flush(10)
    planned = fn.get_initial_restriction("short")
    for _ in range(8):
        producer.produce("short", bytes(900_000), partition=0)
        producer.flush(10)
    with pytest.raises(SourceChangedError, match=r"topic 'short' at .*, partition 0 has no offset 0 any more"):
        list(fn.process("short", OffsetRangeTracker(planned)))
    with pytest.raises(SourceError, match=r"partition 0 begins at offset \d+, so it cannot be read from start=1"):
        run_direct(["short"], read(start=1))
    assert run_direct(["short"], read())  # what is left
    fn.teardown()


def test_end_that_was_and_is_no_more(read, topic):
    """A topic that was made anew is shorter than planned."""
    fn = read(timeout_seconds=3)
    fn.setup()
    planned = KafkaRange(0, 20, (Offsets(1, 0, 20),))
    message = r"topic 'topic' at .*, partition 1 ends at offset 17; it did not end before 20 when this was planned"
    with pytest.raises(SourceChangedError, match=message):
        list(fn.process(topic, OffsetRangeTracker(planned)))
    fn.teardown()


def test_broker_that_falls_silent(producer, read):
    """No wait is without an end: the brokers go, and the error says where, and how long it waited."""
    client = confluent_kafka.Producer({"test.mock.num.brokers": 1, **QUIET})
    servers = ",".join(f"{broker.host}:{broker.port}" for broker in client.list_topics(timeout=10).brokers.values())
    client.produce("gone", b"value", partition=0)
    client.flush(10)
    fn = ReadKafka({"bootstrap.servers": servers, **QUIET})
    fn.setup()
    planned = fn.get_initial_restriction("gone")
    fn.timeout_seconds = 1  # not before: a busy machine may take a second to connect
    del client
    message = rf"topic 'gone' at {servers}, partition 0: nothing came within 1[.\d]* s.*, at offset 0 of 1"
    with pytest.raises(SourceError, match=message):
        list(fn.process("gone", OffsetRangeTracker(planned)))
    fn.teardown()


def test_no_broker():
    """It says which, and how long it waited."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{taken.getsockname()[1]}"
        fn = ReadKafka({"bootstrap.servers": server, **QUIET}, timeout_seconds=0.5)
        with pytest.raises(SourceError, match=f"topic 't' at {server}: no answer within 0.5 s: "):
            run_direct(["t"], fn)


def test_missing_topic(read):
    """In the words of the broker."""
    with pytest.raises(SourceError, match=r"ReadKafka: topic 'nothing' at .*: Broker: Unknown topic or partition"):
        run_direct(["nothing"], read())


def test_missing_partition(read, topic):
    """It says which there are."""
    with pytest.raises(SourceError, match=r"topic 'topic' at .* has no partition 9; it has \[0, 1, 2, 3\]"):
        run_direct([TopicPartition(topic, 9)], read())


@pytest.mark.parametrize("element", [5, None, ("topic", 1)], ids=repr)
def test_wrong_element(read, element):
    """It says what an element is."""
    with pytest.raises(InvalidTypeError, match="ReadKafka reads the name of a topic, or a TopicPartition"):
        run_direct([element], read())


@pytest.mark.parametrize(
    ("config", "options", "error", "message"),
    [
        ("host:9092", {}, InvalidTypeError, "ReadKafka config must map names to values"),
        ({}, {}, InvalidValueError, "ReadKafka config must have 'bootstrap.servers' (got [])."),
        ({"enable.auto.commit": True}, {}, InvalidValueError, "ReadKafka sets 'enable.auto.commit' itself"),
        ({}, {"start": "first"}, InvalidValueError, "ReadKafka start must be 'earliest', 'latest', an offset >= 0, "),
        ({}, {"start": -1}, InvalidValueError, "or a datetime (got -1)."),
        ({}, {"start": True}, InvalidValueError, "or a datetime (got True)."),
        (
            {},
            {"start": {0: 1}},
            InvalidTypeError,
            "start must map TopicPartitions to offsets >= 0 (got 0: 1)",
        ),
        ({}, {"start": {TopicPartition("t", 0): -1}}, InvalidTypeError, "ReadKafka start must map TopicPartitions"),
        ({}, {"start": datetime(2026, 1, 1)}, InvalidValueError, "ReadKafka start must be a time with a time zone"),
        ({}, {"block_offsets": 0}, InvalidValueError, "ReadKafka block_offsets must be an integer >= 1 (got 0)."),
        ({}, {"timeout_seconds": 0}, InvalidValueError, "ReadKafka timeout_seconds must be finite and > 0 (got 0)."),
        ({}, {"timeout_seconds": "9"}, InvalidValueError, "ReadKafka timeout_seconds must be finite and > 0"),
    ],
)
def test_wrong_option(config, options, error, message):
    """Options are checked at once."""
    if isinstance(config, dict) and "bootstrap.servers" not in message:
        config = {"bootstrap.servers": "host:9092", **config}
    with pytest.raises(error, match=re.escape(message)):
        ReadKafka(config, **options)


@pytest.mark.parametrize("wrong", [{"nonsense": 1}, {"fetch.min.bytes": "nonsense"}], ids=repr)
def test_property_that_the_library_does_not_take(wrong):
    """In the words of the library, which name it."""
    fn = ReadKafka({"bootstrap.servers": "host:9092", **QUIET, **wrong})
    message = f'ReadKafka config must be one that librdkafka takes: .*"{next(iter(wrong))}"'
    with pytest.raises(InvalidValueError, match=message):
        run_direct(["topic"], fn)


def test_missing_extra(monkeypatch):
    """It says how to install it."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    message = re.escape("ReadKafka needs confluent_kafka") + ".*" + re.escape("pip install 'confluent-kafka>=2.3'")
    with pytest.raises(MissingExtraError, match=message):
        ReadKafka({"bootstrap.servers": "host:9092"})
