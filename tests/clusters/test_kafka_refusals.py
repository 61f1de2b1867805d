"""A real Kafka broker that refuses a client, or that the client cannot reach: each connector says why, in time.

The words are those of librdkafka and of the broker.
"""

import re

import pytest

kafka = pytest.importorskip("confluent_kafka")

from confluent_kafka.admin import (  # noqa: E402
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from support.following import Following  # noqa: E402
from support.kafka_broker import NOWHERE, PASSWORD, STRANGER, USER  # noqa: E402
from support.kafka_topics import Topics, texts  # noqa: E402

from sdf import run_direct  # noqa: E402
from sdf.errors import SourceAwayError, SourceError  # noqa: E402
from sdf.io import ReadKafka, TailKafka, TopicPartition, WatchTopics  # noqa: E402

pytestmark = pytest.mark.clusters
SECONDS = 3.0
PARTITION = TopicPartition("refused", 0)


@pytest.fixture(scope="module")
def topics(kafka_broker):
    made = Topics(kafka_broker.servers["PLAINTEXT"])
    made.send(made.make("refused", 1), texts(0, 5), 1)
    return made


@pytest.fixture
def allow(topics):
    """Give a function that gives the stranger a right; it is taken back in the end, or by ``allow.end()``."""
    user = f"User:{STRANGER}"

    def give(kind, name, *operations):
        for operation in operations:
            right = (kind, name, ResourcePatternType.LITERAL, user, "*", operation, AclPermissionType.ALLOW)
            [given.result(30) for given in topics.admin.create_acls([AclBinding(*right)]).values()]

    def end():
        every = (ResourceType.ANY, None, ResourcePatternType.ANY, user, None, AclOperation.ANY, AclPermissionType.ANY)
        [gone.result(30) for gone in topics.admin.delete_acls([AclBindingFilter(*every)]).values()]

    give.end = end
    yield give
    end()


@pytest.fixture
def config(kafka_broker, topics):
    """Give a function that makes the configuration of a client of a listener."""
    sasl = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": USER, "sasl.password": PASSWORD}
    tls = {"ssl.ca.location": kafka_broker.authority}
    of_protocols = {
        "PLAINTEXT": {},
        "SASL_PLAINTEXT": {"security.protocol": "SASL_PLAINTEXT", **sasl},
        "SSL": {"security.protocol": "SSL", **tls},
    }

    def make(listener, protocol, **changes):
        made = {"bootstrap.servers": kafka_broker.servers[listener], "log_level": 0, **of_protocols[protocol]}
        made.update({name.replace("_", "."): value for name, value in changes.items()})
        return {name: value for name, value in made.items() if value is not None}

    return make


def read(config):
    return [record.value for record in run_direct(["refused"], ReadKafka(config, timeout_seconds=SECONDS))]


def follow(fn, element):
    fn.setup()
    return Following(fn, element)


def tail(config):
    return [record.value for record in follow(TailKafka(config, timeout_seconds=SECONDS), PARTITION).read()]


def watch(config):
    return follow(WatchTopics(config, timeout_seconds=SECONDS), "refused").read()


CONNECTORS = {"ReadKafka": read, "TailKafka": tail, "WatchTopics": watch}
SASL, TLS = r"refuse to let this user in \(.*{}.*sasl\.\*", r"no safe connection \(.*{}.*ssl\.\*"
ASK = r"reach them at the addresses that they advertise, and does security\.protocol fit"
CASES = {
    "a wrong password": ("SASL", "SASL_PLAINTEXT", {"sasl_password": "wrong"}, SASL.format("invalid credentials")),
    "an unknown user": ("SASL", "SASL_PLAINTEXT", {"sasl_username": "nobody"}, SASL.format("invalid credentials")),
    "another mechanism": (
        "SASL",
        "SASL_PLAINTEXT",
        {"sasl_mechanism": "PLAIN"},
        SASL.format("supported mechanisms: S"),
    ),
    "another authority": ("TLS", "SSL", {"ssl_ca_location": None}, TLS.format("certificate verify failed")),
    "no certificate of the client's": ("MUTUAL", "SSL", {}, f"{ASK}.*client says: .*alert bad certificate"),
    "plain text to TLS": ("TLS", "PLAINTEXT", {}, ASK),
    "plain text to SASL": ("SASL", "PLAINTEXT", {}, ASK),
    "TLS to plain text": ("PLAINTEXT", "SSL", {}, f"{ASK}.*client says: .*connecting to a PLAINTEXT broker listener"),
    "SASL to plain text": ("PLAINTEXT", "SASL_PLAINTEXT", {}, SASL.format("mechanism handshake failed")),
}


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize(("listener", "protocol"), [("SASL", "SASL_PLAINTEXT"), ("TLS", "SSL")])
def test_who_is_let_in_reads(config, connector, listener, protocol):
    """Else the refusals would show less."""
    assert len(CONNECTORS[connector](config(listener, protocol))) == (1 if connector == "WatchTopics" else 5)


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("case", CASES)
def test_a_client_that_is_not_let_in(config, connector, case):
    """It is told who refused what, and which settings to look at; no password is told."""
    listener, protocol, changes, message = CASES[case]
    with pytest.raises(SourceAwayError, match=message) as caught:
        CONNECTORS[connector](config(listener, protocol, **changes))
    assert f"{connector}: topic 'refused' at 127.0.0.1:" in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("connector", ["ReadKafka", "TailKafka"])
def test_an_advertised_address_that_cannot_be_reached(config, connector):
    """The servers answer, and the leader of the partition is elsewhere; a watch needs no leader."""
    with pytest.raises(SourceAwayError, match=f"{ASK}.*client says: .*Failed to resolve '{re.escape(NOWHERE)}'"):
        CONNECTORS[connector](config("AFAR", "PLAINTEXT"))
    assert watch(config("AFAR", "PLAINTEXT")) == [PARTITION]


def stranger(config):
    return config("SASL", "SASL_PLAINTEXT", sasl_username=STRANGER)


@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_topic_that_the_user_may_not_describe(config, connector):
    """The broker says so at once."""
    with pytest.raises(SourceError, match=r"Topic authorization failed\. .* needs Describe and Read on the topic"):
        CONNECTORS[connector](stranger(config))


@pytest.mark.parametrize("connector", ["ReadKafka", "TailKafka"])
def test_a_topic_that_the_user_may_describe_and_not_read(config, allow, connector):
    """The broker says so when it is read."""
    allow(ResourceType.TOPIC, "refused", AclOperation.DESCRIBE)
    with pytest.raises(
        SourceError, match=r"offset 0: .*Topic authorization failed\. .* needs Describe and Read on the"
    ):
        CONNECTORS[connector](stranger(config))


@pytest.mark.parametrize("connector", CONNECTORS)
def test_reading_needs_no_right_to_a_group(config, allow, connector):
    """It joins none."""
    allow(ResourceType.TOPIC, "refused", AclOperation.READ)
    assert CONNECTORS[connector](stranger(config))


def test_offsets_of_a_group_that_the_user_may_not_use(config, allow):
    """The broker says so; the library alone would say that it waits."""
    allow(ResourceType.TOPIC, "refused", AclOperation.READ)
    fast = {
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 1000,
    }  # for so long the library looks for a coordinator
    named = config("SASL", "SASL_PLAINTEXT", sasl_username=STRANGER, group_id="mine", **fast)
    following = follow(TailKafka(named, timeout_seconds=SECONDS), PARTITION)
    assert len(following.read()) == 5
    (pin, _) = following.pins[0]
    with pytest.raises(SourceError, match=r"Group authorization failed\. .* needs Read on the consumer group"):
        following.fn.on_commit(PARTITION, pin)
    allow(ResourceType.GROUP, "mine", AclOperation.READ)
    following.fn.on_commit(PARTITION, pin)


def test_a_right_that_is_taken_back_while_a_stream_runs(config, topics, allow):
    allow(ResourceType.TOPIC, "refused", AclOperation.READ)
    following = follow(TailKafka(stranger(config), timeout_seconds=SECONDS), PARTITION)
    assert len(following.read()) == 5
    allow.end()

    def read_on():
        for _ in range(100):  # until the broker has heard of it
            following.read()

    with pytest.raises(SourceError, match="Topic authorization failed"):
        read_on()


def test_a_password_that_is_changed_while_a_stream_is_down(config):
    """It looks again for as long as for a broker that is away; then it says why."""
    options = {"timeout_seconds": SECONDS, "poll_seconds": 1, "away_seconds": 2}
    before = follow(TailKafka(config("SASL", "SASL_PLAINTEXT"), **options), PARTITION)
    assert len(before.read()) == 5
    wrong = TailKafka(config("SASL", "SASL_PLAINTEXT", sasl_password="wrong"), **options)
    wrong.setup()
    after = Following(wrong, PARTITION, before.left)
    assert after.read() == []
    with pytest.raises(SourceAwayError, match=f"{SASL.format('invalid credentials')}.* last of 2 looks"):
        after.read()
