"""A Spark Connect server in a process of its own, for tests; it has no package but those that it is given."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.warm import DAEMON

_UP_SECONDS = 180.0


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class ConnectServer:
    """Starts a server, which forms a process group with its Python workers.

    Args:
        master: Spark's master; ``local[N, 4]`` retries tasks, ``local[N]`` does not.
        python: the interpreter of its workers.
        settings: further settings of Spark.
        environment: variables that it gets beside those of this process; None takes one away.

    Attributes:
        port: where it listens.
        url: what clients pass to ``remote()``.
    """

    def __init__(self, master="local[4,4]", *, python=sys.executable, settings=None, environment=None, port=None):
        import pyspark

        self.port = port or free_port()
        self.url = f"sc://127.0.0.1:{self.port}"
        home = str(Path(pyspark.__file__).parent)
        wanted = {"SPARK_HOME": home, "PYSPARK_PYTHON": python, **(environment or {})}
        ours = {name: value for name, value in {**os.environ, **wanted}.items() if value is not None}
        options = {
            "spark.ui.enabled": "false",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            **(settings or {}),
        }
        given = [part for name, value in options.items() for part in ("--conf", f"{name}={value}")]
        main = "org.apache.spark.sql.connect.service.SparkConnectServer"
        self._process = subprocess.Popen(
            [f"{home}/bin/spark-submit", "--master", master, "--class", main, *given, "spark-internal"],
            env=ours,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait()

    def _wait(self):
        until = time.monotonic() + _UP_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError("the Spark Connect server did not start")

    def session(self, **settings):
        """Return a new session, also in a process that has a SparkContext."""
        from pyspark.sql.connect.session import SparkSession

        spark = SparkSession.builder.remote(self.url).create()
        for name, value in settings.items():
            spark.conf.set(name, value)
        return spark

    def kill(self):
        """Kill it and its workers at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self):
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


@pytest.fixture(scope="session")
def connect_server():
    """One server for all tests of a process: local[4], which runs a failed task again, once."""
    pytest.importorskip("grpc")
    server = ConnectServer("local[4,2]", settings={"spark.python.daemon.module": DAEMON})
    yield server
    server.stop()


@pytest.fixture(scope="session")
def connect(connect_server):
    """A session on that server, for all tests of a process: the first job of each session starts its own workers."""
    spark = connect_server.session()
    yield spark
    spark.stop()
