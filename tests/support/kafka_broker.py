"""Kafka's own brokers, each in a JVM of its own, as long as `Kafka.stop` is not called."""

import socket
import subprocess
from pathlib import Path

from support.daemons import free_port, jars, start_java, wait_for

VERSION = "4.4.0"
USER, PASSWORD = "sdf", "secret-of-sdf"  # may read every topic
STRANGER = "stranger"  # may do what a test lets it; the same password
NOWHERE = "nowhere.invalid:9092"  # the address of the broker, as the listener AFAR tells it
_JARS = (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
_PROTOCOLS = {  # of each listener
    "CONTROLLER": "PLAINTEXT",
    "PLAINTEXT": "PLAINTEXT",
    "SASL": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "AFAR": "PLAINTEXT",
}
_STORE_PASSWORD = "changeit"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_SETTINGS = {
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in _PROTOCOLS.items()),
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": _SCRAM,
    "listener.name.mutual.ssl.client.auth": "required",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{USER}",
    "auto.create.topics.enable": "false",
    "num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "3000",  # until a broker that was killed has no partition any more
    "broker.heartbeat.interval.ms": "500",
    # what the log cleaner does within minutes and hours, within seconds
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": str(2**24),
    "log.segment.delete.delay.ms": "500",
    **{
        f"{topic}.{name}": "1"
        for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        for name in ("replication.factor", "num.partitions")
    },
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class Kafka:
    """Brokers of one cluster. One alone is its own controller; of several the controller is one more JVM.

    Attributes:
        servers: by the name of a listener, for ``bootstrap.servers``.
        authority: path of the certificate of the authority that the brokers' certificates are of.
    """

    def __init__(self, folder, brokers=1, **settings):
        self._folder = Path(folder)
        self._classpath = jars(self._folder / "maven", *_JARS)
        self._daemons = {}
        numbers = range(1, brokers + 1)
        self._roles = (
            {1: "broker,controller"} if brokers == 1 else {0: "controller", **dict.fromkeys(numbers, "broker")}
        )
        self._ports = {node: {name: free_port() for name in _PROTOCOLS} for node in self._roles}
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        addresses = {name: [f"127.0.0.1:{self._ports[node][name]}" for node in numbers] for name in _PROTOCOLS}
        self.servers = {name: ",".join(those) for name, those in addresses.items()}
        self.authority = str(self._folder / "authority.pem")
        self._make_certificate()
        for node in self._roles:
            self._format(node)
            self.start(node)
        self.wait()

    def start(self, node=1):
        """Start a broker."""
        command = ["kafka.Kafka", str(self._config(node))]
        log = self._log(node)
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        self._daemons[node] = start_java(self._classpath, [level, *command], log, megabytes=256)

    def kill(self, node=1):
        """Kill a broker, by SIGKILL."""
        process = self._daemons.pop(node)
        process.kill()
        process.wait()

    def stop(self):
        for node in list(self._daemons):
            self.kill(node)

    def wait(self):
        """Wait until all brokers that were started answer clients."""
        wait_for(self._are_up, [(process, self._log(node)) for node, process in self._daemons.items()])

    def _are_up(self):
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        wanted = {node for node in self._daemons if "broker" in self._roles[node]}
        for node in wanted:
            port = self._ports[node]["PLAINTEXT"]
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", port)):
                    return False
            client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
            try:
                if not wanted <= client.list_topics(timeout=5).brokers.keys():
                    return False
            except KafkaException:
                return False
        return True

    def _format(self, node):
        controller = next(iter(self._roles))
        ports = {name: port for name, port in self._ports[node].items() if (name == "CONTROLLER") == (node == 0)}
        if node == controller:
            ports["CONTROLLER"] = self._ports[node]["CONTROLLER"]
        told = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
        values = {
            **_SETTINGS,
            "process.roles": self._roles[node],
            "node.id": node,
            "controller.quorum.voters": f"{controller}@127.0.0.1:{self._ports[controller]['CONTROLLER']}",
            "listeners": ",".join(told.values()),
            "log.dirs": self._folder / f"data-{node}",
            **{f"ssl.{kind}.location": self._folder / "authority.p12" for kind in ("keystore", "truststore")},
            **{f"ssl.{kind}.password": _STORE_PASSWORD for kind in ("keystore", "truststore")},
            **self._settings,
        }
        if node:
            told.pop("CONTROLLER", None)
            values["advertised.listeners"] = ",".join({**told, "AFAR": f"AFAR://{NOWHERE}"}.values())
        else:
            del values["inter.broker.listener.name"]
        self._config(node).write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        users = (f"--add-scram=SCRAM-SHA-256=[name={name},password={PASSWORD}]" for name in (USER, STRANGER))
        command = ["kafka.tools.StorageTool", "format", "-t", "c2RmLXRlc3RzLWthZmthLg", "-c", str(self._config(node))]
        if start_java(self._classpath, [*command, *users], self._log(node), megabytes=128).wait(120):
            raise OSError(f"no storage for a broker: {self._log(node).read_text()[-2000:]}")

    def _make_certificate(self):
        """Make a certificate that is its own authority."""
        store = ["-keystore", str(self._folder / "authority.p12"), "-storepass", _STORE_PASSWORD, "-alias", "sdf"]
        name = ["-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1", "-ext", "bc=ca:true"]
        for command in (
            ["-genkeypair", "-keyalg", "EC", "-validity", "3650", "-storetype", "PKCS12", *name],
            ["-exportcert", "-rfc", "-file", self.authority],
        ):
            subprocess.run(["keytool", *command, *store], check=True, capture_output=True)

    def _config(self, node):
        return self._folder / f"{node}.properties"

    def _log(self, node):
        return self._folder / f"{node}.log"
