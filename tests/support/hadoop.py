"""Hadoop's own daemons, each in a JVM of its own, as long as `Hadoop.stop` is not called."""

import glob
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

_VERSION = "3.5.0"
_JARS = (
    f"org.apache.hadoop:hadoop-client-minicluster:{_VERSION}",
    *(f"org.bouncycastle:{name}-jdk18on:1.82" for name in ("bcprov", "bcpkix", "bcutil")),
)
_OF_SPARK = ("hadoop-client-*", "slf4j-api-*", "log4j-*", "jcl-over-slf4j-*", "*servlet-api-*")
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STATE = "Hadoop:service=NameNode,name=FSNamesystemState"
_CLASSES = {
    "namenode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}


def jars():
    """Return the paths of the jars that Spark does not bring, fetched once into Maven's own cache.

    The test that needs them is skipped where Maven is missing or cannot reach a repository.
    """
    if shutil.which("mvn") is None:
        pytest.skip("needs Maven, to fetch Hadoop's daemons")
    paths = []
    for jar in _JARS:
        group, name, version = jar.split(":")
        kept = Path.home() / ".m2/repository" / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
        if not kept.exists():
            get = ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={jar}", "-Dtransitive=false"]
            if subprocess.run(get, capture_output=True, check=False).returncode:
                pytest.skip(f"Maven cannot fetch {jar}")
        paths.append(str(kept))
    return paths


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Hadoop:
    """A NameNode and a DataNode.

    Attributes:
        url: of HDFS, such as hdfs://127.0.0.1:9820.
        web: the same by WebHDFS, such as webhdfs://sdf@127.0.0.1:9870.
    """

    def __init__(self, folder):
        import pyspark

        of_spark = Path(pyspark.__file__).parent / "jars"
        self._folder = Path(folder)
        found = [path for pattern in _OF_SPARK for path in glob.glob(f"{of_spark}/{pattern}.jar")]
        self._classpath = os.pathsep.join([str(self._folder / "conf"), *found, *jars()])
        self._daemons = {}
        name, http = free_port(), free_port()
        self.web = f"webhdfs://sdf@127.0.0.1:{http}"
        self.url, self._beans = f"hdfs://127.0.0.1:{name}", f"http://127.0.0.1:{http}/jmx?qry={_STATE}"
        self._write("core-site", {"fs.defaultFS": self.url, "hadoop.tmp.dir": f"{folder}/tmp"})
        self._write(
            "hdfs-site",
            {
                "dfs.namenode.name.dir": f"{folder}/namenode",
                "dfs.datanode.data.dir": f"{folder}/datanode",
                "dfs.replication": "1",
                "dfs.permissions.enabled": "false",
                "dfs.namenode.safemode.extension": "1000",
                "dfs.namenode.http-address": f"127.0.0.1:{http}",
                "dfs.datanode.hostname": "127.0.0.1",
                "dfs.client.use.datanode.hostname": "true",
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",
                **{f"dfs.datanode.{which}address": "127.0.0.1:0" for which in ("", "http.", "ipc.")},
            },
        )
        self._run("namenode", "-format", "-nonInteractive").wait(120)
        self.start("namenode")
        self.start("datanode")
        self.wait()

    def start(self, daemon):
        """Start a daemon."""
        self._daemons[daemon] = self._run(daemon)

    def kill(self, daemon):
        """Kill a daemon, by SIGKILL."""
        process = self._daemons.pop(daemon)
        process.kill()
        process.wait()

    def stop(self):
        for daemon in list(self._daemons):
            self.kill(daemon)

    def _run(self, daemon, *arguments):
        log = open(self._folder / f"{daemon}.log", "ab")  # noqa: SIM115, the process has it
        environment = {**os.environ, "HADOOP_USER_NAME": "sdf"}
        environment.pop("JDK_JAVA_OPTIONS", None)  # its archive of classes is for Spark's
        with log:
            command = ["java", *_JAVA, "-cp", self._classpath, _CLASSES[daemon], *arguments]
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def _write(self, name, values):
        lines = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items())
        path = self._folder / "conf" / f"{name}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<configuration>{''.join(lines)}</configuration>")

    def wait(self):
        """Wait until the NameNode knows of its DataNode, and is out of its safe mode."""
        ends = time.monotonic() + 120
        while not self._is_up():
            for daemon, process in self._daemons.items():
                if process.poll() is not None or time.monotonic() > ends:
                    raise OSError(f"no HDFS: {(self._folder / f'{daemon}.log').read_text()[-2000:]}")
            time.sleep(0.1)

    def _is_up(self):
        """Return whether the NameNode's beans say so."""
        try:
            with urllib.request.urlopen(self._beans, timeout=5) as answer:
                state = json.load(answer)["beans"][0]
        except (OSError, IndexError):
            return False
        return (state["NumLiveDataNodes"], state["FSState"]) == (1, "Operational")
