"""WatchTopics and TailKafka: partitions that come later, offsets that are kept, and groups that are told of them."""

import re

import pytest
from support.following import Following

from sdf import OffsetRange
from sdf.errors import InvalidTypeError, InvalidValueError, SourceChangedError, SourceError
from sdf.execution.invoker import Invoker
from sdf.io import TailKafka, TopicPartition, WatchTopics

kafka = pytest.importorskip("confluent_kafka")

QUIET = {"log_level": 0}
PARTITION = TopicPartition("topic", 1)


@pytest.fixture
def cluster():
    """Start brokers, which live as long as the client that has them."""
    return kafka.Producer({"test.mock.num.brokers": 2, **QUIET})


@pytest.fixture
def config(cluster):
    found = cluster.list_topics(timeout=10).brokers.values()
    cluster.list_topics("topic", timeout=10)  # which makes it, with four partitions
    return {"bootstrap.servers": ",".join(f"{broker.host}:{broker.port}" for broker in found), **QUIET}


@pytest.fixture
def follow(config):
    """Give a function that follows an element; what it has opened is closed in the end."""
    followed = []

    def make(fn, element):
        fn.setup()
        followed.append(fn)
        return Following(fn, element)

    yield make
    for fn in followed:
        fn.teardown()


def send(cluster, *values, topic="topic", partition=1):
    for value in values:
        cluster.produce(topic, value, partition=partition)
    assert cluster.flush(10) == 0


def values(records):
    return [record.value for record in records]


def test_messages_are_given_as_they_come(cluster, config, follow):
    """Each once; and the parts again from what was pinned."""
    tail = follow(TailKafka(config, poll_seconds=3), PARTITION)
    assert (values(tail.read()), tail.delay_seconds) == ([], 3)
    send(cluster, b"a", b"b")
    assert values(tail.read()) == [b"a", b"b"]
    assert values(tail.read()) == []
    send(cluster, b"c")
    assert values(tail.read()) == [b"c"]
    tail.again()
    assert [(pin.start, pin.stop) for pin, _ in tail.pins] == [(0, 2), (2, 3)]


def test_a_part_can_be_cut_at_every_message(cluster, config, follow):
    """As it is when the time of a batch is up."""
    send(cluster, *(b"%d" % number for number in range(5)))
    tail = follow(TailKafka(config), PARTITION)
    for cut in range(1, 5):
        attempt = Invoker(tail.fn, PARTITION, tail.left)
        found = []
        for record in attempt.run():
            found.append(record.value)
            if len(found) == cut:
                attempt.split(0)
        (rest,) = attempt.residuals
        assert attempt.primary == OffsetRange(0, cut)
        found += values(Invoker(tail.fn, PARTITION, rest.restriction).run())
        assert found == [b"0", b"1", b"2", b"3", b"4"]


def test_it_begins_where_it_is_told(cluster, config, follow):
    """Also at an offset that has not come yet."""
    send(cluster, b"a", b"b")
    assert values(follow(TailKafka(config, start=1), PARTITION).read()) == [b"b"]
    later = follow(TailKafka(config, start=3), PARTITION)
    assert values(later.read()) == []
    send(cluster, b"c", b"d")
    assert values(later.read()) == [b"d"]


def test_draining_keeps_what_is_there_now(cluster, config, follow):
    tail = follow(TailKafka(config), PARTITION)
    send(cluster, b"a", b"b")
    rest = tail.fn.truncate(PARTITION, tail.left)
    assert rest == OffsetRange(0, 2)
    assert tail.fn.truncate(PARTITION, OffsetRange(3, 5)) == OffsetRange(3, 5)
    send(cluster, b"c")
    assert values(Invoker(tail.fn, PARTITION, rest).run()) == [b"a", b"b"]


def committed(config, group):
    consumer = kafka.Consumer({**config, "group.id": group})
    (found,) = consumer.committed([kafka.TopicPartition("topic", 1)], timeout=10)
    consumer.close()
    return found.offset


def test_a_group_is_told_how_far_it_is_committed(cluster, config, follow):
    """So that tools that measure lag see it. Without a group nothing is committed."""
    send(cluster, *[b"x"] * 9)
    told = follow(TailKafka({**config, "group.id": "mine"}), PARTITION)
    told.fn.on_commit(PARTITION, OffsetRange(0, 4))
    assert committed(config, "mine") == 4
    told.fn.on_commit(PARTITION, OffsetRange(4, 9))
    assert committed(config, "mine") == 9
    follow(TailKafka(config), PARTITION).fn.on_commit(PARTITION, OffsetRange(0, 4))
    assert committed(config, "sdf") == kafka.OFFSET_INVALID


def test_a_topic_that_was_made_anew(cluster, config, follow):
    """It is shorter than what was read of it."""
    send(cluster, b"a")
    tail = follow(TailKafka(config), PARTITION)
    with pytest.raises(SourceChangedError, match="partition 1 ends at offset 1, but was read up to 2"):
        list(Invoker(tail.fn, PARTITION, OffsetRange(2, tail.left.stop)).run())


def test_partitions_are_given_once(cluster, config, follow):
    """Those that are there, and a new one when it comes."""
    watch = follow(WatchTopics(config, interval_seconds=7), "topic")
    assert [found.partition for found in watch.read()] == [0, 1, 2, 3]
    assert (watch.read(), watch.delay_seconds) == ([], 7)
    watch.left = type(watch.left)(watch.left.start, watch.left.stop, watch.left.seen[:2])
    assert [found.partition for found in watch.read()] == [2, 3]
    watch.again()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TailKafka({}), InvalidValueError, "TailKafka config must have 'bootstrap.servers'"),
        (lambda: TailKafka([]), InvalidTypeError, "TailKafka config must map names"),
        (lambda: TailKafka({"bootstrap.servers": "h", "enable.auto.commit": True}), InvalidValueError, "leave it out"),
        (lambda: TailKafka({"bootstrap.servers": "h"}, start="latest"), InvalidValueError, "TailKafka start must be"),
        (lambda: TailKafka({"bootstrap.servers": "h"}, poll_seconds=-1), InvalidValueError, "TailKafka poll_seconds"),
        (lambda: WatchTopics({"bootstrap.servers": "h"}, interval_seconds="1"), InvalidValueError, "WatchTopics inter"),
    ],
)
def test_wrong_options(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_wrong_elements(config, follow):
    """A topic is not a partition, and the message says what finds partitions."""
    with pytest.raises(InvalidTypeError, match=re.escape("[WatchTopics(config), TailKafka(config)]")):
        follow(TailKafka(config), "topic")
    with pytest.raises(InvalidTypeError, match="WatchTopics watches the name of a topic"):
        follow(WatchTopics(config), PARTITION)


def test_no_such_topic(config, follow):
    watch = follow(WatchTopics({**config, "allow.auto.create.topics": False}), "nowhere")
    with pytest.raises(SourceError, match="topic 'nowhere'"):
        watch.read()
