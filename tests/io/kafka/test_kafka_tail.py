"""WatchTopics and TailKafka: partitions that come later, offsets that are kept, and groups that are told of them."""

import re
import socket
import threading
import time
from datetime import datetime, timezone

import attrs
import pytest
from support.brokers import Brokers
from support.following import Following
from support.kafka_batches import append, batch

from sdf import UNBOUNDED, OffsetRange
from sdf.errors import InvalidTypeError, InvalidValueError, SourceAwayError, SourceChangedError, SourceError
from sdf.execution.invoker import Invoker
from sdf.io import TailKafka, TopicPartition, WatchTopics
from sdf.io.kafka import fetched
from sdf.io.kafka import tail as tail_module

kafka = pytest.importorskip("confluent_kafka")

QUIET = {"log_level": 0}
EAGER = {**QUIET, "fetch.wait.max.ms": 10}  # else brokers that have nothing new answer after half a second
PARTITION = TopicPartition("topic", 1)


@pytest.fixture
def cluster():
    """Start brokers, which live as long as the client that has them."""
    return kafka.Producer({"test.mock.num.brokers": 2, **QUIET})


@pytest.fixture
def config(cluster):
    found = cluster.list_topics(timeout=10).brokers.values()
    cluster.list_topics("topic", timeout=10)  # which makes it, with four partitions
    return {"bootstrap.servers": ",".join(f"{broker.host}:{broker.port}" for broker in found), **EAGER}


@pytest.fixture
def follow(config):
    """Give a function that follows an element; what it has opened is closed in the end."""
    followed = []

    def make(fn, element, left=None):
        fn.setup()
        followed.append(fn)
        return Following(fn, element, left)

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


def test_a_part_can_be_cut_between_messages(cluster, config, follow, monkeypatch):
    """As it is when the time of a batch is up; those that have come together stay together."""
    monkeypatch.setattr(fetched, "_MOST_MESSAGES", 1)  # and the one that was waited for
    send(cluster, *(b"%d" % number for number in range(5)))
    tail = follow(TailKafka(config), PARTITION)
    for cut in range(1, 5):
        attempt = Invoker(tail.fn, PARTITION, tail.left)
        found = []
        for record in attempt.run():
            found.append(record.value)
            if len(found) == cut:
                attempt.split(0)
        rest = attempt.residuals[0]
        assert (attempt.primary.start, attempt.primary.stop) == (0, min(5, cut + cut % 2))
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
    assert (rest.start, rest.stop) == (0, 2)
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


@pytest.fixture
def other():
    """Start other brokers, whose topics are as if they were made anew."""
    cluster = kafka.Producer({"test.mock.num.brokers": 1, **QUIET})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    cluster.list_topics("topic", timeout=10)
    return cluster, {"bootstrap.servers": f"{broker.host}:{broker.port}", **EAGER}


@pytest.mark.parametrize(
    ("sent", "flaw"),
    [
        ([], "ends at offset 0, but was read up to 2: it was made anew, or lost messages"),
        ([b"c"], "ends at offset 1, but was read up to 2: it was made anew, or lost messages"),
        ([b"c", b"d", b"e"], "has another message than the one that was read last, before offset 2: it was made anew"),
    ],
)
@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_a_topic_that_was_made_anew(cluster, config, other, follow, sent, flaw, fail_on_data_loss):
    """An error; or what was lost is told, and the stream goes on with all of the new topic, and its offsets."""
    send(cluster, b"a", b"b")
    before = follow(TailKafka(config), PARTITION)
    assert values(before.read()) == [b"a", b"b"]
    send(other[0], *sent)
    tail = follow(TailKafka({**other[1], "group.id": "g"}, fail_on_data_loss=fail_on_data_loss), PARTITION)
    tail.left = before.left
    if fail_on_data_loss:
        with pytest.raises(SourceChangedError, match=f"partition 1 {flaw}. Pass fail_on_data_loss=False to go on"):
            tail.read()
        return
    assert tail.read() == []
    assert (flaw in tail.pins[0][0].lost, tail.delay_seconds) == (True, 0)  # what is there is read at once
    assert values(tail.read()) == sent
    send(other[0], b"f")
    found = tail.read()
    assert [(one.offset, one.value) for one in found] == [(len(sent), b"f")]
    tail.again()
    for pinned, _ in tail.pins:
        tail.fn.on_commit(PARTITION, pinned)
    assert committed(other[1], "g") == len(sent) + 1


def test_a_part_that_comes_again_when_its_messages_are_gone(cluster, config, other, follow):
    """The error names the option with which the stream goes on; to start it again would not help."""
    send(cluster, b"a", b"b")
    before = follow(TailKafka(config), PARTITION)
    assert values(before.read()) == [b"a", b"b"]
    send(other[0], b"c")
    tail = follow(TailKafka(other[1]), PARTITION)
    assert values(tail.read()) == [b"c"]
    tail.fn.timeout_seconds = 2  # not before: a busy machine may take a second to connect
    tail.pins = before.pins
    with pytest.raises(SourceChangedError, match=r"ends at offset 1; .*TailKafka\(fail_on_data_loss=False\)"):
        tail.again()


@pytest.fixture
def empty():
    """Start brokers that have no topic, and make none."""
    cluster = kafka.Producer({"test.mock.num.brokers": 1, **QUIET})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    servers = f"{broker.host}:{broker.port}"
    return cluster, {"bootstrap.servers": servers, "allow.auto.create.topics": False, **EAGER}


def test_a_topic_that_was_deleted(cluster, config, empty, follow, caplog):
    """An error; or it is looked for until it was made anew, and what was lost is told then."""
    send(cluster, b"a", b"b")
    before = follow(TailKafka(config), PARTITION)
    assert values(before.read()) == [b"a", b"b"]
    strict = follow(TailKafka(empty[1]), PARTITION, before.left)
    strict.pins = before.pins
    with pytest.raises(SourceChangedError, match=r"was deleted\. Create it again, or pass fail_on_data_loss=False"):
        strict.read()
    with pytest.raises(SourceChangedError, match="Create it again"):
        strict.again()
    tail = follow(TailKafka(empty[1], fail_on_data_loss=False, away_seconds=0), PARTITION, before.left)
    waits = [tail.read() or tail.delay_seconds for _ in range(4)]
    assert waits == [1, 2, 4, 8]
    assert "It was there before. Looks again in 8 s" in caplog.text
    again = Invoker(tail.fn, PARTITION, before.pins[0][0])
    assert (list(again.run()), again.residuals) == ([], [])  # what was pinned comes again, with nothing in it
    assert tail.fn.truncate(PARTITION, tail.left).stop == tail.left.start
    empty[0].list_topics("topic", timeout=10)
    send(empty[0], b"c")
    assert tail.read() == []
    assert "ends at offset 1, but was read up to 2: it was made anew" in tail.pins[-1][0].lost
    assert values(tail.read()) == [b"c"]


def test_a_watched_topic_that_was_deleted_is_looked_for_again(cluster, config, empty, follow):
    """What follows its partitions says whether that is an error."""
    before = follow(WatchTopics(config, interval_seconds=7), "topic")
    assert len(before.read()) == 4
    watch = follow(WatchTopics(empty[1], interval_seconds=7), "topic", before.left)
    assert (watch.read(), watch.delay_seconds) == ([], 7)


def test_the_same_topic_is_not_taken_for_another(cluster, config, other, follow):
    """Its messages are the same, so nothing is wrong; as when a topic was copied."""
    for one in (cluster, other[0]):
        for number in range(4):
            one.produce("topic", b"%d" % number, partition=1, timestamp=1000 + number)
        assert one.flush(10) == 0
    tail = follow(TailKafka(config), PARTITION)
    assert len(tail.read()) == 4
    send(other[0], b"more")
    copied = follow(TailKafka(other[1]), PARTITION)
    copied.left = tail.left
    assert values(copied.read()) == [b"more"]


def test_a_journal_of_before_is_read(cluster, config, follow):
    """It has offset ranges; then only a shorter topic is noticed."""
    send(cluster, b"a", b"b")
    tail = follow(TailKafka(config), PARTITION)
    tail.left = OffsetRange(1, UNBOUNDED)
    assert values(tail.read()) == [b"b"]
    with pytest.raises(SourceChangedError, match="partition 1 ends at offset 2, but was read up to 3"):
        list(Invoker(tail.fn, PARTITION, OffsetRange(3, UNBOUNDED)).run())


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_messages_that_were_deleted_before_they_were_read(cluster, config, follow, fail_on_data_loss):
    """The brokers keep five megabytes of a partition. An error; or it is told, and what is left is read."""
    send(cluster, b"a", b"b")
    tail = follow(TailKafka(config, fail_on_data_loss=fail_on_data_loss), PARTITION)
    for number in range(8):
        send(cluster, bytes([number]) * 900_000)
    if fail_on_data_loss:
        with pytest.raises(SourceChangedError, match="the messages from 0 on were deleted before they were read"):
            tail.read()
        return
    assert tail.read() == []
    lost = tail.pins[0][0]
    assert re.search(r"begins at offset \d: the messages from 0 on were deleted before they were read", lost.lost)
    found = tail.read()
    assert [one.offset for one in found] == list(range(lost.stop, 10))
    tail.again()


def test_messages_that_were_deleted_after_they_were_read(cluster, config, follow):
    """A part that is pinned gives those that are left, which the stream notices."""
    send(cluster, b"a", b"b")
    tail = follow(TailKafka(config, fail_on_data_loss=False), PARTITION)
    send(cluster, bytes(900_000))
    assert len(tail.read()) == 3
    (pinned, _) = tail.pins[0]
    for _ in range(7):
        send(cluster, bytes(900_000))
    left = list(Invoker(tail.fn, PARTITION, pinned).run())
    assert len(left) < 3
    with pytest.raises(SourceChangedError, match="deleted before they were read"):
        list(Invoker(follow(TailKafka(config), PARTITION).fn, PARTITION, pinned).run())


@pytest.fixture
def brokers():
    started = Brokers()
    yield started
    started.end()


def test_brokers_that_are_away_are_waited_for(brokers, follow, caplog):
    """Less and less often, and the log says so; then it goes on."""
    config = {"bootstrap.servers": brokers.servers, **EAGER}
    producer = kafka.Producer(config)
    send(producer, b"a")
    tail = follow(TailKafka(config, poll_seconds=3), PARTITION)
    assert values(tail.read()) == [b"a"]
    send(producer, b"b")
    brokers.go()
    tail.fn.timeout_seconds = 0.5  # not before: a busy machine may take a second to connect
    delays = []
    for _ in range(3):
        assert tail.read() == []
        delays.append(tail.delay_seconds)
    assert delays == [3, 6, 12]
    assert len(caplog.records) == 3
    assert "no answer within 0.5 s" in caplog.text
    assert "Looks again in 12 s." in caplog.text
    brokers.come()
    tail.fn.timeout_seconds = 30
    assert values(tail.read()) == [b"b"]
    assert (tail.delay_seconds, tail.left.looks) == (3, 0)
    tail.again()


def test_brokers_are_not_waited_for_longer_than_the_user_says(brokers, follow):
    """It is an error then, which says how long it was."""
    config = {"bootstrap.servers": brokers.servers, **EAGER}
    send(kafka.Producer(config), b"a")
    tail = follow(TailKafka(config, poll_seconds=1, away_seconds=4), PARTITION)
    brokers.go()
    tail.fn.timeout_seconds = 0.3
    assert [tail.read() for _ in range(3)] == [[]] * 3
    with pytest.raises(SourceAwayError, match=r"It was the last of 4 looks in 7.9 s; allow more with away_seconds"):
        tail.read()


@pytest.mark.parametrize("what", ["a pinned part", "partitions", "a commit", "the end"])
def test_what_cannot_be_put_off_waits_on_its_own(brokers, follow, what, caplog):
    """The brokers come back when it says that it asks again. While a commit waits, the library says nothing."""
    config = {"bootstrap.servers": brokers.servers, "group.id": "g", **EAGER}
    send(kafka.Producer(config), b"a")
    tail, watch = follow(TailKafka(config), PARTITION), follow(WatchTopics(config), "topic")
    assert values(tail.read()) == [b"a"]
    (pinned, _) = tail.pins[0]
    assert len(watch.read()) == 4
    do = {
        "a pinned part": tail.again,
        "partitions": watch.read,
        "a commit": lambda: tail.fn.on_commit(PARTITION, pinned),
        "the end": lambda: tail.fn.truncate(PARTITION, tail.left),
    }
    tail.fn.timeout_seconds = watch.fn.timeout_seconds = 0.5  # not before: a busy machine may take a second to connect
    brokers.go()
    gone = time.monotonic()

    def come_back():
        while "Asks again in" not in caplog.text and not (what == "a commit" and time.monotonic() > gone + 1):
            time.sleep(0.02)
        brokers.come()

    back = threading.Thread(target=come_back)
    back.start()
    do[what]()
    back.join()
    assert ("Asks again in" in caplog.text) == (what != "a commit")


def test_servers_that_were_never_there_are_not_waited_for():
    """They may be wrong."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        config = {"bootstrap.servers": f"127.0.0.1:{taken.getsockname()[1]}", **QUIET}
        for fn, element in ((WatchTopics, "topic"), (TailKafka, PARTITION)):
            made = fn(config, timeout_seconds=0.3)
            made.setup()
            with pytest.raises(SourceAwayError, match="no answer within"):
                Following(made, element).read()


def test_it_may_begin_after_the_last_message(cluster, config, follow):
    """But a partition that came later is read from its first message on: nobody can have seen that."""
    send(cluster, b"a")
    tail = follow(TailKafka(config, start="latest"), PARTITION)
    added = follow(TailKafka(config, start="latest"), TopicPartition("topic", 1, added=True))
    send(cluster, b"b")
    assert values(tail.read()) == [b"b"]
    assert values(added.read()) == [b"a", b"b"]


def test_partitions_that_come_later_are_marked(config, follow):
    """Those of the first look are not."""
    watch = follow(WatchTopics(config), "topic")
    assert [found.added for found in watch.read()] == [False] * 4
    watch.left = type(watch.left)(watch.left.start, watch.left.stop, watch.left.seen[:2])
    assert [found.added for found in watch.read()] == [True] * 2


def test_each_partition_may_begin_elsewhere(cluster, config, follow):
    """At an offset, or where no message is as late as a time."""
    send(cluster, b"a", b"b")
    send(cluster, b"c", partition=2)
    start = {PARTITION: 1}
    assert values(follow(TailKafka(config, start=start), PARTITION).read()) == [b"b"]
    assert values(follow(TailKafka(config, start=start), TopicPartition("topic", 2)).read()) == [b"c"]
    late = follow(TailKafka(config, start=datetime(2200, 1, 1, tzinfo=timezone.utc)), PARTITION)
    assert late.left.start == 2


def test_a_gap_at_the_end_is_passed_once(cluster, config, follow):
    """As the mark that ends a transaction is: it is no message, and has an offset."""
    send(cluster, b"a")
    append(cluster, "topic", 1, batch([0], 1, control=True))
    tail = follow(TailKafka(config), PARTITION)
    assert values(tail.read()) == [b"a"]
    assert tail.left.start == 2
    assert (tail.read(), len(tail.pins)) == ([], 1)
    append(cluster, "topic", 1, batch([0, 3], 6))
    assert [one.offset for one in tail.read()] == [2, 5]
    tail.again()


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
        (lambda: TailKafka({"bootstrap.servers": "h"}, start="now"), InvalidValueError, "TailKafka start must be"),
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


@pytest.mark.parametrize(("parts", "length", "anew"), [(2, None, 0), (8, 1, 0), (3, 7, 0), (4, 5, 50), (4, 30, 0)])
def test_a_backlog_is_cut_at_any_offset(cluster, config, follow, monkeypatch, parts, length, anew):
    """Each part ends where the next one begins; the last one goes on as it would alone, also in a topic made anew."""
    monkeypatch.setattr(tail_module, "_LEAST_PART_OFFSETS", 3)
    send(cluster, *(b"%d" % number for number in range(20)))
    tail = follow(TailKafka(config, poll_seconds=3), PARTITION)
    tail.left = attrs.evolve(tail.left, start=tail.left.start + anew, shift=anew)
    given = tail.read_divided(parts, length)
    assert [value for records in given for value in values(records)] == [b"%d" % number for number in range(20)]
    assert len(given) == min(parts, -(-20 // (length or max(3, -(-20 // parts)))))
    assert values(tail.read()) == []
    assert tail.left.until is None
    tail.again()


def test_a_part_ends_at_a_gap(cluster, config, follow):
    """Offsets that have no message, as compaction leaves them, count as read."""
    append(cluster, "topic", 1, batch([0, 1, 5], 6))
    tail = follow(TailKafka(config, poll_seconds=3), PARTITION)
    whole = tail.left
    tail.left = attrs.evolve(whole, until=4)
    assert [record.offset for record in tail.read()] == [0, 1]
    assert (tail.left.start, tail.delay_seconds) == (4, 0)
    tail.left = attrs.evolve(whole, start=4)
    assert [record.offset for record in tail.read()] == [5]


def test_the_backlog_of_a_partition_is_in_messages(cluster, config, follow):
    """From where it was read to its end; None if no broker says so at once, and then none is asked for a while."""
    send(cluster, b"a", b"b", b"c")
    tail = follow(TailKafka(config), PARTITION)
    assert tail.fn.backlog(PARTITION, tail.left) == (3, None)
    tail.read()
    assert tail.fn.backlog(PARTITION, tail.left) == (0, None)
    away = TailKafka({"bootstrap.servers": "localhost:1", **QUIET})
    away.setup()
    assert away.backlog(PARTITION, tail.left) == (None, None)
    away.teardown()
    away._consumer = None  # who asks now fails
    assert away.split_backlog(PARTITION, tail.left, 4, None) == [tail.left]
