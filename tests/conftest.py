"""Spark for the tests: one context at a time, workers that run this interpreter and can import the test modules."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # a third less CPU time in tests
FOLDERS = sorted({str(path.parent) for path in HERE.rglob("*.py") if path.parent.name != "support"})
os.environ["PYTHONPATH"] = os.pathsep.join([*FOLDERS, os.environ.get("PYTHONPATH", "")])


def pytest_collection_modifyitems(items):
    for item in items:
        if "spark" in item.path.relative_to(HERE).parts:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="module")
def start_spark():
    """Start a SparkContext on a master, in place of the one before it."""
    from pyspark import SparkConf, SparkContext

    os.environ.setdefault("SPARK_HOME", str(Path(sys.modules["pyspark"].__file__).parent))
    running = []

    def start(master, **settings):
        while running:
            running.pop().stop()
        conf = SparkConf().setMaster(master).setAppName("sdf tests")
        conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
        conf.set("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        for name, value in {"spark_default_parallelism": "4", **settings}.items():
            if value is not None:
                conf.set(name.replace("_", "."), value)
            elif conf._jconf is not None:  # the JVM keeps what its first context was given
                conf._jconf.remove(name.replace("_", "."))
        sc = SparkContext(conf=conf)
        sc.setLogLevel("OFF")
        running.append(sc)
        return sc

    yield start
    while running:
        running.pop().stop()


@pytest.fixture(scope="module")
def sc(start_spark):
    """Four slots in this process, no retries."""
    return start_spark("local[4]")
