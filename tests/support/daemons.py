"""Java daemons of clusters: their jars, their processes, and waiting for them."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_GET = ["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"]


def jars(folder, *artifacts, without=()):
    """Return the paths of the jars of some artifacts, which Maven fetches once into its own cache.

    The test that needs them is skipped if Maven is missing or cannot reach a repository.

    Args:
        folder: where Maven gets its files; it is made.
        artifacts: each as group:name:version.
        without: groups of those artifacts to leave out that these depend on; "*" for all.
    """
    if shutil.which("mvn") is None:
        pytest.skip("needs Maven, to fetch the daemons of a cluster")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    left = "".join(f"<exclusion><groupId>{one}</groupId><artifactId>*</artifactId></exclusion>" for one in without)
    needed = ""
    for artifact in artifacts:
        of = zip(("groupId", "artifactId", "version"), artifact.split(":"), strict=True)
        values = "".join(f"<{name}>{value}</{name}>" for name, value in of)
        needed += f"<dependency>{values}<exclusions>{left}</exclusions></dependency>"
    head = "<modelVersion>4.0.0</modelVersion><groupId>sdf</groupId><artifactId>tests</artifactId><version>1</version>"
    (folder / "pom.xml").write_text(f"<project>{head}<dependencies>{needed}</dependencies></project>")
    for network in (["--offline"], []):
        got = subprocess.run([*_GET, *network], cwd=folder, capture_output=True, text=True, check=False)
        if got.returncode == 0:
            return (folder / "classpath").read_text().split(os.pathsep)
    pytest.skip(f"Maven cannot fetch {', '.join(artifacts)}: {got.stdout[-500:]}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_java(classpath, command, log, *, megabytes, **variables):
    """Start Java; return its process.

    Args:
        classpath: paths of jars and folders.
        command: properties, the name of a class, and its arguments.
        log: the path of a file, to which it appends what it prints.
        megabytes: the most of its heap.
        variables: of its environment.
    """
    environment = {**os.environ, **variables}
    environment.pop("JDK_JAVA_OPTIONS", None)  # its archive of classes is for Spark's
    with open(log, "ab") as file:
        java = ["java", *_JAVA, f"-Xmx{megabytes}m", "-cp", os.pathsep.join(map(str, classpath)), *command]
        return subprocess.Popen(java, stdout=file, stderr=file, env=environment)


def wait_for(is_up, daemons, *, seconds=120):
    """Wait until daemons are up; raise as soon as one has ended.

    Args:
        is_up: tells whether they are.
        daemons: of each, the process and the path of its log.
        seconds: the most to wait.
    """
    ends = time.monotonic() + seconds
    while not is_up():
        for process, log in daemons:
            if process.poll() is not None or time.monotonic() > ends:
                raise OSError(f"no daemon: {Path(log).read_text()[-2000:]}")
        time.sleep(0.1)
