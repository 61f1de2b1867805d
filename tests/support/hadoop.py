"""Hadoop's own daemons, each in a JVM of its own, as long as `Hadoop.stop` is not called."""

import functools
import glob
import json
import tempfile
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
    "resourcemanager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "nodemanager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
    "rmadmin": "org.apache.hadoop.yarn.client.cli.RMAdminCLI",
}


class Hadoop:
    """A NameNode and a DataNode.

    Attributes:
        url: of HDFS, such as hdfs://127.0.0.1:9820.
        conf: the folder of the configuration.
        web: the same by WebHDFS, such as webhdfs://sdf@127.0.0.1:9870.
    """

    def __init__(self, folder):
        import pyspark

        of_spark = Path(pyspark.__file__).parent / "jars"
        self._folder = Path(folder)
        self.conf = self._folder / "conf"
        found = [path for pattern in _OF_SPARK for path in glob.glob(f"{of_spark}/{pattern}.jar")]
        self._classpath = [self.conf, *found, *jars(self._folder / "maven", *_JARS, without=["*"])]
        self._daemons = {}
        name, http = free_port(), free_port()
        self.web = f"webhdfs://sdf@127.0.0.1:{http}"
        self.url, self._beans = f"hdfs://127.0.0.1:{name}", f"http://127.0.0.1:{http}/jmx?qry={_STATE}"
        self.write("core-site", {"fs.defaultFS": self.url, "hadoop.tmp.dir": f"{folder}/tmp"})
        self.write(
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
        self.run("namenode", "-format", "-nonInteractive").wait(120)
        self.start("namenode")
        self.start("datanode")
        self.wait()

    def start(self, daemon, *arguments):
        """Start a daemon, and return its process. What follows a dash in its name tells it from others of its class."""
        self._daemons[daemon] = self.run(daemon, *arguments)
        return self._daemons[daemon]

    def kill(self, daemon):
        """Kill a daemon, by SIGKILL."""
        process = self._daemons.pop(daemon)
        process.kill()
        process.wait()

    def stop(self):
        for daemon in list(self._daemons):
            self.kill(daemon)

    def run(self, daemon, *arguments):
        command = [_CLASSES[daemon.partition("-")[0]], *arguments]
        return start_java(self._classpath, command, self._log(daemon), megabytes=256, HADOOP_USER_NAME="sdf")

    def _log(self, daemon):
        return self._folder / f"{daemon}.log"

    def write(self, name, values):
        lines = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items())
        path = self.conf / f"{name}.xml"
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


_AWS = "2.35.4"  # with which hadoop-aws was built
_OF_S3A = (
    f"org.apache.hadoop:hadoop-aws:{_VERSION}",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
)
_OF_AWS = [f"software.amazon.awssdk:{name}:{_AWS}" for name in ("s3", "s3-transfer-manager", "sts", "apache-client")]


@functools.cache
def jars_of_s3a():
    """Return the paths of the jars of S3A, fetched once: 15 MB of its modules in place of the SDK's bundle."""
    of_spark = ["org.slf4j", "io.netty", "commons-logging"]
    with tempfile.TemporaryDirectory() as folder:
        return [*jars(f"{folder}/s3a", *_OF_S3A, without=["*"]), *jars(f"{folder}/aws", *_OF_AWS, without=of_spark)]


def add_s3a(sc, config):
    """Let the JVM of a context reach an S3 server by ``s3a://``, as if hadoop-aws had been there from the start."""
    jvm, conf = sc._jvm, sc._jsc.hadoopConfiguration()
    found = jars_of_s3a()
    urls = sc._gateway.new_array(jvm.java.net.URL, len(found))
    for number, jar in enumerate(found):
        urls[number] = jvm.java.io.File(jar).toURI().toURL()
    conf.setClassLoader(jvm.java.net.URLClassLoader(urls, conf.getClassLoader()))
    for name, value in {
        "endpoint": config["endpoint_url"],
        "endpoint.region": "us-east-1",
        "access.key": config["key"],
        "secret.key": config["secret"],
        "path.style.access": "true",
        "attempts.maximum": "2",
        "retry.limit": "2",
    }.items():
        conf.set(f"fs.s3a.{name}", value)
