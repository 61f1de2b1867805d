"""A Spark Connect server in a process of its own, for tests; it has no package but those that it is given."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.warm import SQL_DAEMON

_UP_SECONDS = 180.0
_NOTE = "connect_server"  # its process and its port
# Runs a server, and ends after that server. Once the owner is gone, it kills its process group: a killed owner stops
# no server.
WATCH = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: None)  # the server gets this signal too
server = subprocess.Popen(sys.argv[2:])
while server.poll() is None:
    try:
        os.kill(int(sys.argv[1]), 0)
    except ProcessLookupError:
        os.killpg(0, signal.SIGKILL)
    time.sleep(0.5)
"""


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class RunningServer:
    """A server that somebody has started.

    Attributes:
        port: where it listens.
        url: what clients pass to ``remote()``.
    """

    def __init__(self, port):
        self.port = port
        self.url = f"sc://127.0.0.1:{port}"

    def session(self, **settings):
        """Return a new session, also in a process that has a SparkContext."""
        from pyspark.sql.connect.session import SparkSession

        spark = SparkSession.builder.remote(self.url).create()
        for name, value in settings.items():
            spark.conf.set(name, value)
        return spark


class ConnectServer(RunningServer):
    """Starts a server, which forms a process group with its Python workers.

    Args:
        master: Spark's master; ``local[N, 4]`` retries tasks, ``local[N]`` does not.
        python: the interpreter of its workers.
        settings: further settings of Spark.
        environment: variables that it gets beside those of this process; None takes one away.
        owner: the id of the process that the server does not outlive; None: this process.
    """

    def __init__(
        self, master="local[4,4]", *, python=sys.executable, settings=None, environment=None, port=None, owner=None
    ):
        import pyspark

        super().__init__(port or free_port())
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
            [
                *(sys.executable, "-S", "-c", WATCH, str(owner or os.getpid())),
                *(f"{home}/bin/spark-submit", "--master", master, "--class", main, *given, "spark-internal"),
            ],
            env=ours,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._wait()

    def _wait(self):
        until = time.monotonic() + _UP_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.2)
        self.stop()
        raise RuntimeError("the Spark Connect server did not start")

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


def need_server():
    """Skip a test where PySpark has no server: without grpcio, and with the package of Spark 3.5."""
    pytest.importorskip("grpc")
    from sdf.spark.door.versions import has_spark

    if not has_spark("4.0"):
        pytest.skip("the PyPI package of Spark 3.5 has no Connect server")


def _of_all_processes(config):
    """Return the temporary directory of a whole run. Each process of pytest-xdist has its own directory in it."""
    folder = config._tmp_path_factory.getbasetemp()
    return folder.parent if hasattr(config, "workerinput") else folder


@pytest.fixture(scope="session")
def connect_server(pytestconfig):
    """One server for all tests of all processes: local[4], which runs a failed task again, once.

    The first process that needs it starts it: a server takes ten seconds of CPU to start, and more until it is fast.
    """
    need_server()
    folder = _of_all_processes(pytestconfig)
    with open(folder / "connect.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = folder / _NOTE
        if not note.exists():
            owner = os.getppid() if hasattr(pytestconfig, "workerinput") else os.getpid()  # the controller
            server = ConnectServer("local[4,2]", settings={"spark.python.daemon.module": SQL_DAEMON}, owner=owner)
            note.write_text(f"{server.pid} {server.port}")
        return RunningServer(int(note.read_text().split()[1]))


def stop_connect_server(config):
    """Stop it, at the end of the process that has started all others."""
    note = _of_all_processes(config) / _NOTE
    if note.exists() and not hasattr(config, "workerinput"):
        os.killpg(int(note.read_text().split()[0]), signal.SIGTERM)


@pytest.fixture(scope="session")
def connect(connect_server):
    """A session on that server, for all tests of a process: the first job of each session starts its own workers."""
    spark = connect_server.session()
    yield spark
    spark.stop()
