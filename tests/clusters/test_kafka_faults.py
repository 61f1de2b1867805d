"""Topics of a real Kafka broker that is killed, compacts, deletes and adds partitions: sdf reads each message once."""

import random
import time
from collections import Counter

import pytest

kafka = pytest.importorskip("confluent_kafka")
pytest.importorskip("deltalake")

from confluent_kafka.admin import NewPartitions  # noqa: E402
from support import stream_program  # noqa: E402
from support.kafka_broker import Kafka  # noqa: E402
from support.kafka_topics import Stream, Topics, texts, wait_until  # noqa: E402
from support.killing import Restarts, run_to_the_end  # noqa: E402

from sdf import LiveRunner, StagedRunner, run_sdf  # noqa: E402
from sdf.errors import SourceChangedError  # noqa: E402
from sdf.io import ReadKafka  # noqa: E402

pytestmark = pytest.mark.clusters
KILLING_SECONDS = 60
UP_SECONDS = (1, 5)
RUNNERS = {"staged": StagedRunner, "live": LiveRunner}
KEYS = 50


@pytest.fixture(scope="module")
def topics(kafka_broker):
    return Topics(kafka_broker.servers["PLAINTEXT"])


@pytest.fixture
def stream(module_sc, topics, tmp_path):
    """Give a function that makes a stream of a topic."""
    return lambda topic, **options: Stream(module_sc, tmp_path, topic, topics.config, **options)


def read(sc, topics, topic, **config):
    got = run_sdf(sc.parallelize([topic]), ReadKafka({**topics.config, **config}))
    return Counter(got.map(lambda record: record.value.decode()).collect())


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_topic_is_read(module_sc, topics, runner):
    sent = topics.send(topics.make("plain"), texts(0, 30_000))
    got = run_sdf(module_sc.parallelize(["plain"]), ReadKafka(topics.config), runner=RUNNERS[runner]())
    assert Counter(got.map(lambda record: record.value.decode()).collect()) == Counter(sent)


def follow_beside(brokers, following, topics, topic, seconds, names=(1,), down_seconds=(0, 3)):
    """Send to a topic that a stream follows while brokers are killed; check that the stream gives each message once."""
    producer, sent = topics.producer(), []
    ends = time.monotonic() + seconds
    following.start()
    times = {"up_seconds": UP_SECONDS, "down_seconds": down_seconds}
    restarts = Restarts(brokers, 1, names, has_begun=following.rows, **times)
    restarts.start()
    try:
        while time.monotonic() < ends:
            sent += topics.send(topic, texts(len(sent), len(sent) + 300), producer=producer)
            time.sleep(0.1)
    finally:
        restarts.end()
        following.end(len(sent))
    assert following.values() == Counter(sent)
    assert restarts.kills > 0
    print(f"{len(sent)} messages, {restarts.kills} kills")


def test_a_stream_whose_broker_is_killed_at_random(kafka_broker, topics, stream):
    """While a producer sends, and does not lose or double a message either."""
    following = stream(topics.make("killed"))
    follow_beside(kafka_broker, following, topics, "killed", KILLING_SECONDS)


def test_a_topic_is_read_while_its_broker_is_killed(module_sc, kafka_broker, topics, tmp_path):
    """By lanes that take a while."""
    begun = tmp_path / "begun"

    class Slow(ReadKafka):
        def process(self, element, tracker):
            begun.touch()
            for record in super().process(element, tracker):
                time.sleep(0.001)
                yield record

    sent = topics.send(topics.make("read"), texts(0, 30_000))
    times = {"up_seconds": UP_SECONDS, "down_seconds": (0, 3)}
    restarts = Restarts(kafka_broker, 2, [1], has_begun=begun.exists, **times)
    reader = Slow({**topics.config, "queued.min.messages": 100, "fetch.message.max.bytes": 2000}, block_offsets=100)
    restarts.start()
    try:
        got = run_sdf(module_sc.parallelize(["read"]), reader, runner=LiveRunner())
        values = Counter(got.map(lambda record: record.value.decode()).collect())
    finally:
        restarts.end()
    assert values == Counter(sent)
    assert restarts.kills > 0
    print(f"{len(sent)} messages, {restarts.kills} kills")


def test_partitions_that_are_added_to_a_stream(topics, stream):
    """From three to six, while messages come."""
    sent = topics.send(topics.make("grows"), texts(0, 1000))
    following = stream("grows").start()
    following.wait(1000)
    topics.admin.create_partitions([NewPartitions("grows", 6)])["grows"].result(30)
    wait_until(lambda: len(topics.partitions("grows")) == 6, "added")
    sent += topics.send("grows", texts(1000, 7000), 6)
    following.end(7000)
    assert following.values() == Counter(sent)
    assert {row["partition"] for row in following.rows()} == set(range(6))


def test_compaction_during_a_stream(module_sc, topics, stream):
    """Each message comes at most once, and the last of each key does. What comes later passes the gaps."""
    quick = {"segment_ms": "500", "max_compaction_lag_ms": "1000", "min_cleanable_dirty_ratio": "0.01"}
    topics.make("compacted", 1, cleanup_policy="compact", delete_retention_ms="100", **quick)
    following = stream("compacted").start()
    sent, rounds = [], 0
    while rounds < 5 or read(module_sc, topics, "compacted").total() > len(sent) // 2:  # most of it was compacted
        texts_of_round = texts(len(sent), len(sent) + 1000)
        sent += topics.send("compacted", texts_of_round, key=lambda i: str(i % KEYS))
        rounds += 1
        assert rounds < 60
        time.sleep(1)
    following.end(len(sent) // 2)
    wait_until(lambda: set(sent[-KEYS:]) <= following.values().keys(), "the last of each key", 1)
    assert following.values() <= Counter(sent)
    left = read(module_sc, topics, "compacted")
    print(f"{len(sent)} messages, {len(sent) - left.total()} compacted away")
    assert set(sent[-KEYS:]) <= left.keys()
    assert left <= Counter(sent)


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
@pytest.mark.parametrize("by", ["a request", "retention"])
def test_messages_deleted_while_a_stream_lags(topics, stream, by, fail_on_data_loss):
    """That is an error, or what is left is read; messages that were not deleted are never lost."""
    sent = topics.send(topics.make("deleted", segment_ms="500"), texts(0, 300))
    lagging = stream("deleted", fail_on_data_loss=fail_on_data_loss)
    lagging.run()
    topics.send("deleted", texts(300, 900))
    time.sleep(1)  # the next message begins a segment, so that retention deletes whole ones
    sent += topics.send("deleted", texts(900, 1200))
    if by == "a request":
        at = [kafka.TopicPartition("deleted", number, 300) for number in range(3)]
        [answered.result(30) for answered in topics.admin.delete_records(at).values()]
    else:
        topics.set("deleted", "retention.ms", "1000")
        wait_until(lambda: all(topics.ends("deleted", number)[0] >= 300 for number in range(3)), "deleted")
        topics.set("deleted", "retention.ms", "600000000")
        sent = sent[:300] + topics.send("deleted", texts(1200, 1500))  # the others may have gone, too
    if fail_on_data_loss:
        with pytest.raises(SourceChangedError, match=r"the messages from 100 on were deleted before they were read"):
            lagging.run()
        assert lagging.values() == Counter(sent[:300])
        lagging.run(fail_on_data_loss=False)
    else:
        lagging.run()
    assert len(lagging.summary.lost) == 3  # of each partition
    values = lagging.values()
    assert Counter(sent) <= values
    assert max(values.values()) == 1


def test_transactions(module_sc, topics, stream):
    """Aborted messages are not read, nor those of an open transaction."""
    topics.make("transactions")
    producer, committed, aborted = topics.producer(**{"transactional.id": "sdf"}), [], []
    producer.init_transactions()
    for number in range(12):
        producer.begin_transaction()
        values = topics.send("transactions", texts(number * 300, number * 300 + 300), producer=producer)
        if number % 3:
            producer.commit_transaction()
            committed += values
        else:
            producer.abort_transaction()
            aborted += values
    producer.begin_transaction()
    pending = topics.send("transactions", texts(0, 100, "open"), producer=producer)
    assert read(module_sc, topics, "transactions") == Counter(committed)
    seen = read(module_sc, topics, "transactions", **{"isolation.level": "read_uncommitted"})
    assert seen == Counter(committed + aborted + pending)
    following = stream("transactions")
    following.run()
    assert following.values() == Counter(committed)
    producer.commit_transaction()
    following.run()
    assert following.values() == Counter(committed + pending)


@pytest.mark.parametrize("size", [50, 900], ids=["shorter", "longer"])
def test_a_topic_that_is_made_anew(topics, stream, size):
    """That is an error; with fail_on_data_loss=False the stream reads all of the new one."""
    old = topics.send(topics.make("anew"), texts(0, 300))
    following = stream("anew")
    following.run()
    new = topics.send(topics.make("anew"), texts(0, size, "new"))
    with pytest.raises(SourceChangedError, match="it was made anew"):
        following.run()
    assert following.values() == Counter(old)
    following.run(fail_on_data_loss=False)
    assert following.values() == Counter(old + new)
    assert len(following.summary.lost) == 3


def test_a_topic_that_is_deleted(topics, stream):
    """The error says so, in the broker's words."""
    sent = topics.send(topics.make("dropped"), texts(0, 300))
    following = stream("dropped")
    following.run()
    topics.drop("dropped")
    with pytest.raises(SourceChangedError, match=r"Unknown topic or partition.* was there before, and was deleted"):
        following.run()
    assert following.values() == Counter(sent)


def test_a_topic_that_is_made_anew_while_a_stream_runs(topics, stream):
    old = topics.send(topics.make("renewed"), texts(0, 300))
    following = stream("renewed", fail_on_data_loss=False).start()
    following.wait(300)
    new = topics.send(topics.make("renewed"), texts(0, 900, "new"))
    following.end(1200)
    assert following.values() == Counter(old + new)


def test_a_stream_whose_driver_is_killed(topics, tmp_path):
    """Again and again, until a driver comes to the end."""
    counts = stream_program.ELEMENTS
    topics.make(stream_program.TOPIC, len(counts))
    producer = topics.producer()
    for partition, count in enumerate(counts):
        for i in range(count):
            producer.produce(stream_program.TOPIC, str(i).encode(), partition=partition)
    assert producer.flush(60) == 0
    arguments = ["kafka", topics.config["bootstrap.servers"]]
    killed = run_to_the_end(tmp_path, stream_program.__file__, arguments, random.Random(4))
    assert stream_program.rows_of_table(tmp_path) == stream_program.expected()
    assert killed.total() > 0
    print(f"{sum(counts)} messages, killed {dict(killed)}")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two brokers, and a controller."""
    brokers = Kafka(tmp_path_factory.mktemp("pair"), 2)
    yield brokers
    brokers.stop()


def test_a_stream_whose_leaders_are_killed(module_sc, pair, tmp_path):
    """The other broker leads meanwhile, and has each message."""
    topics = Topics(pair.servers["PLAINTEXT"])
    topics.make("led", 3, replicas=[[1, 2], [2, 1], [1, 2]])
    following = Stream(module_sc, tmp_path, "led", topics.config)

    class Pair:
        """It is up when both brokers have all messages: of two killed leaders the second would lack some."""

        kill, start = pair.kill, pair.start

        def wait(self):
            pair.wait()
            wait_until(lambda: all(len(each.isrs) == 2 for each in topics.partitions("led").values()), "both in sync")

    down = {"down_seconds": (4, 8)}  # longer than a broker's session
    follow_beside(Pair(), following, topics, "led", KILLING_SECONDS // 2, names=(1, 2), **down)


def test_an_unclean_leader_is_noticed(module_sc, pair, tmp_path):
    """A broker that missed messages leads: they are gone, which is an error; else all that is there now is read."""
    topics = Topics(pair.servers["PLAINTEXT"])
    topics.make("unclean", 1, replicas=[[1, 2]], unclean_leader_election_enable="true")
    leader = lambda: topics.partitions("unclean")[0].leader  # noqa: E731
    sent = topics.send("unclean", texts(0, 300), 1)
    wait_until(lambda: len(topics.partitions("unclean")[0].isrs) == 2, "two in sync")
    following = Stream(module_sc, tmp_path, "unclean", topics.config)
    following.run()
    pair.kill(2)
    wait_until(lambda: topics.partitions("unclean")[0].isrs == [1], "one in sync")
    gone = topics.send("unclean", texts(300, 500), 1)
    following.run()
    assert following.values() == Counter(sent + gone)
    pair.kill(1)
    pair.start(2)
    pair.wait()
    wait_until(lambda: leader() == 2, "the other leads")
    new = topics.send("unclean", texts(0, 100, "new"), 1)
    assert read(module_sc, topics, "unclean") == Counter(sent + new)
    with pytest.raises(SourceChangedError, match=r"ends at offset 40\d, but was read up to 500: .* or lost messages"):
        following.run()
    following.run(fail_on_data_loss=False)
    assert set(new) <= following.values().keys()
    assert len(following.summary.lost) == 1
