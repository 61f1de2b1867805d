"""Hadoop's own daemons, each in a JVM of its own, as long as `Hadoop.stop` is not called."""

import glob
import json
import urllib.request
from pathlib import Path

from support.daemons import free_port, jars, start_java, wait_for

_VERSION = "3.5.0"
_JARS = (
    f"org.apache.hadoop:hadoop-client-minicluster:{_VERSION}",
    *(f"org.bouncycastle:{name}-jdk18on:1.82" for name in ("bcprov", "bcpkix", "bcutil")),
)
_OF_SPARK = ("hadoop-client-*", "slf4j-api-*", "log4j-*", "jcl-over-slf4j-*", "*servlet-api-*")
_STATE = "Hadoop:service=NameNode,name=FSNamesystemState"
_CLASSES = {
    "namenode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}


class Hadoop:
    """A NameNode and a DataNode.

    Attributes:
        url: of HDFS, such as hdfs://127.0.0.1:9820.
    """

    def __init__(self, folder):
        import pyspark

        of_spark = Path(pyspark.__file__).parent / "jars"
        self._folder = Path(folder)
        found = [path for pattern in _OF_SPARK for path in glob.glob(f"{of_spark}/{pattern}.jar")]
        self._classpath = [self._folder / "conf", *found, *jars(self._folder / "maven", *_JARS, alone=True)]
        self._daemons = {}
        name, http = free_port(), free_port()
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
        command = [_CLASSES[daemon], *arguments]
        return start_java(self._classpath, command, self._log(daemon), megabytes=256, HADOOP_USER_NAME="sdf")

    def _log(self, daemon):
        return self._folder / f"{daemon}.log"

    def _write(self, name, values):
        lines = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items())
        path = self._folder / "conf" / f"{name}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<configuration>{''.join(lines)}</configuration>")

    def wait(self):
        """Wait until the NameNode knows of its DataNode, and is out of its safe mode."""
        wait_for(self._is_up, [(process, self._log(daemon)) for daemon, process in self._daemons.items()])

    def _is_up(self):
        """Return whether the NameNode's beans say so."""
        try:
            with urllib.request.urlopen(self._beans, timeout=5) as answer:
                state = json.load(answer)["beans"][0]
        except (OSError, IndexError):
            return False
        return (state["NumLiveDataNodes"], state["FSState"]) == (1, "Operational")
