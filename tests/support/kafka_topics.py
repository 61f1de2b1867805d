"""Topics of a real broker, producers that fill them, and streams that follow them into a Delta table."""

import threading
import time
from collections import Counter
from contextlib import suppress

import confluent_kafka
import deltalake
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from sdf import Pace, Until, stream_sdf
from sdf.io import TailKafka, WatchTopics
from sdf.sinks import DeltaTable

QUIET = {"log_level": 0}
_MOST_SECONDS = 240


def wait_until(is_so, what, seconds=_MOST_SECONDS):
    ends = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def texts(start, stop, mark="m"):
    return [f"{mark}-{i}" for i in range(start, stop)]


class Topics:
    """Makes topics, fills them, and changes them."""

    def __init__(self, servers):
        self.config = {"bootstrap.servers": servers, **QUIET}
        self.admin = AdminClient(self.config)

    def make(self, name, partitions=3, *, replicas=None, **settings):
        """Make a topic, in place of one of that name; return its name."""
        settings = {key.replace("_", "."): value for key, value in settings.items()}
        made = {"replica_assignment": replicas} if replicas else {"replication_factor": 1}
        if self.partitions(name):
            self.drop(name)
        self.admin.create_topics([NewTopic(name, partitions, config=settings, **made)])[name].result(30)
        wait_until(lambda: len(self.partitions(name)) == partitions, "made")
        return name

    def drop(self, name):
        self.admin.delete_topics([name])[name].result(30)
        wait_until(lambda: not self.partitions(name), "deleted")

    def partitions(self, name):
        for _ in range(12):
            with suppress(confluent_kafka.KafkaException):  # the library has asked a broker that is dead
                found = self.admin.list_topics(timeout=5).topics.get(name)
                return found.partitions if found else {}
        raise AssertionError("no broker answers")

    def set(self, name, key, value):
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(30)

    def ends(self, name, partition=0):
        """Return the first offset of a partition, and the one after its last."""
        client = confluent_kafka.Consumer({**self.config, "group.id": "ends"})
        ends = client.get_watermark_offsets(confluent_kafka.TopicPartition(name, partition), timeout=30)
        client.close()
        return ends

    def producer(self, **options):
        """Return one that sends each message once, however often it tries."""
        times = {"message.timeout.ms": 240000, "transaction.timeout.ms": 300000}
        return confluent_kafka.Producer({**self.config, "enable.idempotence": True, **times, **options})

    def send(self, name, values, partitions=3, *, producer=None, key=None):
        """Send texts to partitions in turn, or with the keys that ``key`` gives of their numbers; return them."""
        sending = producer or self.producer()
        for i, value in enumerate(values):
            where = {"key": key(i), "partition": 0} if key else {"partition": i % partitions}
            while True:
                with suppress(BufferError):
                    sending.produce(name, value.encode(), **where)
                    break
                sending.poll(0.2)
            sending.poll(0)
        assert sending.flush(_MOST_SECONDS) == 0
        return values


def to_row(record):
    yield {"partition": record.partition, "offset": record.offset, "value": record.value.decode()}


class Stream:
    """Follows a topic into a Delta table.

    Attributes:
        summary: of the last call that came to its end.
    """

    def __init__(self, sc, home, topic, config, **options):
        self._sc, self._home, self._topic, self._config = sc, home, topic, config
        self._options = {"poll_seconds": 0.2, **options}
        self._stop, self._thread, self._error, self.summary = threading.Event(), None, None, None

    def run(self, *, idle=True, **options):
        """Follow it until nothing is new."""
        tail = TailKafka(self._config, **{**self._options, **options})
        self.summary = stream_sdf(
            self._sc.parallelize([self._topic], 1),
            [WatchTopics(self._config, interval_seconds=1), tail, to_row],
            checkpoint=self._home / "checkpoint",
            sink=DeltaTable(self._home / "table"),
            pace=Pace(batch_seconds=0.3),
            until=Until(idle=idle, stop=self._stop),
        )
        return self.summary

    def start(self):
        """Follow it in a thread, until `end`."""

        def follow():
            try:
                self.run(idle=False)
            except BaseException as error:
                self._error = error

        self._stop = threading.Event()
        self._thread = threading.Thread(target=follow)
        self._thread.start()
        return self

    def wait(self, count):
        """Wait until the table has so many rows."""
        wait_until(lambda: not self._thread.is_alive() or len(self.rows()) >= count, f"{count} rows")
        if self._error is not None:
            raise self._error

    def end(self, count):
        """End the thread when the table has so many rows."""
        try:
            self.wait(count)
        finally:
            self._stop.set()
            self._thread.join()
        if self._error is not None:
            raise self._error

    def rows(self):
        try:
            return deltalake.DeltaTable(str(self._home / "table")).to_pyarrow_table().to_pylist()
        except deltalake.exceptions.TableNotFoundError:
            return []

    def values(self):
        return Counter(row["value"] for row in self.rows())
