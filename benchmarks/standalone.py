"""A standalone cluster on loopback addresses, whose hosts are added, decommissioned and killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark

__all__ = ["Standalone"]

HOME = Path(pyspark.__file__).parent
PATHS = [str(Path(__file__).parent), str(Path(__file__).parents[1])]


class Standalone:
    """A master without workers; a context manager. A worker stands for a host: it has an address of its own.

    Args:
        folder: for logs, and what executors write.
        paths: what workers can import from, beside sdf and the benchmarks.

    Attributes:
        network: the first three numbers of all addresses; the master has .1.
        settings: of the daemons.
    """

    network = "127.0.0"
    settings = ("spark.decommission.enabled=true", "spark.deploy.maxExecutorRetries=-1")

    def __init__(self, folder, paths=()):
        self.folder = Path(folder)
        self.workers = {}  # process by host
        self._hosts = iter(range(2, 250))
        self._environment = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([*map(str, paths), *PATHS]),
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(f"-D{setting}" for setting in self.settings),
        }
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.master = f"spark://{self.network}.1:{port}"
        self._master = self._launch("master.Master", f"{self.network}.1", "--port", str(port))

    def on(self, host):
        """Return what runs a command on a host, in front of it."""
        return []

    def _launch(self, name, host, *arguments):
        command = [*self.on(host), str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", "--host", host]
        with open(self.folder / f"{name}-{host}.log", "w") as log:
            return subprocess.Popen(
                [*command, "--webui-port", "0", *arguments],
                env={**self._environment, "SPARK_LOCAL_IP": host},
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )

    def context(self, cores_each, **settings):
        """Start a SparkContext whose executors have so many slots."""
        from pyspark import SparkConf, SparkContext

        os.environ.update(SPARK_HOME=str(HOME), PYSPARK_PYTHON=sys.executable)
        conf = SparkConf().setMaster(self.master).setAppName("moving").set("spark.ui.enabled", "false")
        conf.set("spark.driver.host", "127.0.0.1").set("spark.ui.showConsoleProgress", "false")
        conf.set("spark.decommission.enabled", "true").set("spark.executor.memory", "512m")
        conf.set("spark.executor.cores", str(cores_each))
        conf.set("spark.executorEnv.PYTHONPATH", self._environment["PYTHONPATH"])
        for name, value in settings.items():
            conf.set(name.replace("_", "."), value)
        sc = SparkContext(conf=conf)
        sc.setLogLevel("OFF")
        return sc

    def add(self, cores=1):
        """Start a worker; return its host."""
        host = f"{self.network}.{next(self._hosts)}"
        self.workers[host] = self._launch(
            "worker.Worker", host, "-c", str(cores), "-m", "1g", "-d", str(self.folder), self.master
        )
        return host

    def kill(self, host):
        """End all processes of a host at once, as if its power were cut."""
        worker = self.workers.pop(host)
        for pid in sorted(_below(worker.pid)):
            _signal(pid, signal.SIGKILL)
        worker.wait()

    def decommission(self, host):
        """Tell a worker that its host is about to go; it goes once its executors have ended, at `__exit__` at last."""
        worker = self.workers.pop(host)
        self.workers[f"{host} decommissioned"] = worker
        _signal(worker.pid, signal.SIGPWR)

    def present(self):
        """Return the hosts that were neither killed nor told to go."""
        return [host for host in self.workers if " " not in host]

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        for host in list(self.workers):
            self.kill(host)
        for pid in _below(self._master.pid):
            _signal(pid, signal.SIGKILL)
        self._master.wait()


def wait_for_slots(count, slots):
    """Wait until ``count()`` is ``slots``, a minute at most."""
    ends = time.monotonic() + 60
    while count() != slots:
        assert time.monotonic() < ends, f"there are {count()} slots, not {slots}"
        time.sleep(0.2)


def _below(pid):
    """Return a process and all below it."""
    parents = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(Path(entry.path, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended
    below, size = {pid}, 0
    while len(below) > size:
        size = len(below)
        below |= {child for child, parent in parents.items() if parent in below}
    return below


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended by itself
