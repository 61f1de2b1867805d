"""Spark for the tests: one context at a time, workers that run this interpreter and can import the test modules."""

import gc
import json
import os
import re
import sys
from pathlib import Path

import pytest
from support.connect_server import connect, connect_server, stop_connect_server  # noqa: F401, fixtures
from support.cpu_seconds import CpuSeconds
from support.postgresql import postgresql  # noqa: F401, a fixture
from support.small_disk import small_disk  # noqa: F401, a fixture
from support.warm import WARM, WARM_SQL

HERE = Path(__file__).parent
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a third less CPU time in tests
ARCHIVE = HERE.parent / ".venv" / "spark.jsa"  # of Spark's classes, by .ci/share-classes: another quarter
if ARCHIVE.exists():
    FLAGS += f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"
os.environ.setdefault("JDK_JAVA_OPTIONS", FLAGS)
# Else a client of Spark Connect runs gRPC's handlers when it forks to start a JVM, which then may end before it begins.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
S3 = "FSSPEC_S3"
# Fixtures that start a server, and ids of the cases that use these fixtures.
SERVERS = re.compile(r"s3_server|postgresql|brokers|(.*-)?(on s3|s3|S3|postgres|postgresql)(-.*)?")
FOLDERS = sorted({str(path.parent) for path in HERE.rglob("*.py") if path.parent.name != "support"})
os.environ["PYTHONPATH"] = os.pathsep.join([*FOLDERS, os.environ.get("PYTHONPATH", "")])


def pytest_addoption(parser):
    parser.addoption("--cpu-seconds", type=int, metavar="N", help="print the N tests that take the most CPU")
    parser.addoption("--clusters", action="store_true", help="run the tests that start a cluster's daemons too")
    parser.addoption("--few-cases", action="store_true", help="run the first and the last case of each test only")
    parser.addoption("--named", metavar="FILE", help="run the tests and files that a file names, one a line, only")


def pytest_configure(config):
    if most := config.getoption("--cpu-seconds"):
        config.pluginmanager.register(CpuSeconds(most))


@pytest.hookimpl(trylast=True)  # when the sessions on it have been stopped
def pytest_sessionfinish(session):
    stop_connect_server(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leave the tests, and what they import, out of all collections of garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        if "spark" in item.path.relative_to(HERE).parts:
            item.add_marker(pytest.mark.spark)
        case = item.callspec.id if hasattr(item, "callspec") else ""
        if any(map(SERVERS.fullmatch, [*item.fixturenames, case])):
            item.add_marker(pytest.mark.server)
    if not config.getoption("--clusters"):
        left = [item for item in items if item.get_closest_marker("clusters")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    yield  # -m leaves items out
    if named := config.getoption("--named"):
        names = {*Path(named).read_text().splitlines()}
        keep(config, items, {item for item in items if {item.nodeid.partition(at)[0] for at in ("::", "[")} & names})
    if config.getoption("--few-cases"):
        cases = {}
        for item in items:
            cases.setdefault((item.path, item.originalname), []).append(item)
        keep(config, items, {item for each in cases.values() for item in (each[0], each[-1])})


def keep(config, items, kept):
    """Leave all other items out."""
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


running = []  # at most one context


def stop():
    while running:
        running.pop().stop()


def start(master, **settings):
    """Start a SparkContext on a master, in place of the one before it."""
    from pyspark import SparkConf, SparkContext
    from support.warm.jvm import keep_names

    keep_names()
    os.environ.setdefault("SPARK_HOME", str(Path(sys.modules["pyspark"].__file__).parent))
    stop()
    conf = SparkConf().setMaster(master).setAppName("sdf tests")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    for name in ("PYTHONPATH", S3):  # the JVM keeps the environment of its start
        if name in os.environ:
            conf.set(f"spark.executorEnv.{name}", os.environ[name])
    for name, value in {"spark_default_parallelism": "4", **WARM, **settings}.items():
        if value is not None:
            conf.set(name.replace("_", "."), value)
        elif conf._jconf is not None:  # the JVM keeps what its first context was given
            conf._jconf.remove(name.replace("_", "."))
    sc = SparkContext(conf=conf)
    sc.setLogLevel("OFF")
    running.append(sc)
    return sc


@pytest.fixture(scope="session")
def s3_server():
    """An S3 server, which fsspec's configuration names, here and in the workers of contexts that are started later.

    So a context that is there already is stopped.
    """
    for library in ("moto", "s3fs"):
        pytest.importorskip(library)
    import fsspec.config
    from support.s3_server import S3Server

    server = S3Server()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fsspec.config.conf, "s3", server.config)
        patch.setenv(S3, json.dumps(server.config))
        stop()
        yield server
    server.stop()


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory):
    """A NameNode and a DataNode."""
    from support.hadoop import Hadoop

    daemons = Hadoop(tmp_path_factory.mktemp("hadoop"))
    yield daemons
    daemons.stop()


@pytest.fixture(scope="session")
def yarn(hadoop):
    """A ResourceManager and two NodeManagers, beside HDFS."""
    from support.yarn import Yarn

    daemons = Yarn(hadoop)
    yield daemons
    daemons.stop()


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory):
    """A broker of Kafka's own, with a listener for each protocol."""
    pytest.importorskip("confluent_kafka")
    from support.kafka_broker import Kafka

    broker = Kafka(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def start_spark():
    """Start a SparkContext on a master, in place of the one before it."""
    yield start
    stop()


@pytest.fixture(scope="session")
def stopped_at_the_end():
    yield
    stop()


def shared():
    """Return the context of all tests that start no other; it is started if it is not there."""
    if not (running and running[0].appName == "sdf tests" and running[0].master == "local[4]" and running[0]._jsc):
        start("local[4]", **WARM_SQL)
    return running[0]


@pytest.fixture
def sc(stopped_at_the_end):
    """Four slots in this process, no retries. Looked for before each test: the one before it may have stopped it."""
    return shared()


@pytest.fixture(scope="module")
def module_sc(stopped_at_the_end):
    """The same, for fixtures of a module in which no test starts another context."""
    return shared()
