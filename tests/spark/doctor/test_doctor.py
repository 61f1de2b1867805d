"""The doctor on real Sparks: what it finds where all is well, and faults that are planted for real."""

import importlib.util
import os
import socket
import threading
import time
from pathlib import Path

import pytest
from support.connect_server import free_port
from support.environments import environment
from support.warm import PLAIN

import sdf
from sdf import LiveRunner
from sdf.errors import InvalidTypeError
from sdf.spark.doctor import checkup, probe
from sdf.spark.doctor.findings import NO, OK, STOPS, UNKNOWN

ROOT = Path(sdf.__file__).parents[1]
SERVER = "sdf-coordinator"  # the thread that serves the driver's port


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A machine that is busy is no fault to be found."""
    monkeypatch.setattr(checkup, "_JOB_SECONDS", 120.0)
    monkeypatch.setattr(probe, "PLACE_SECONDS", 60.0)


def marks(lines):
    return {one.what: one.mark for one in lines}


def is_soon(condition):
    """Wait for a condition."""
    until = time.monotonic() + 30
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


def test_where_all_is_well_nothing_stops_a_run_and_nothing_is_left(sc, tmp_path):
    """No file, not even a directory, no job, no listening thread; a table that names each capability."""
    found = sdf.doctor(sc, tmp_path / "not there" / "yet")
    assert found.problems == ()
    assert {one.what for one in found.findings} >= {"Spark", "workers", "sdf", "driver's port", "path", "clocks"}
    assert set(marks(found.capabilities).values()) == {OK}
    assert str(found).splitlines()[0] == "sdf doctor: all fits"
    assert list(tmp_path.iterdir()) == []
    assert is_soon(lambda: not sc.statusTracker().getActiveJobsIds())
    assert is_soon(lambda: SERVER not in {thread.name for thread in threading.enumerate()})


def test_a_directory_that_is_there_stays_as_it_was(sc, tmp_path):
    """What the user has in it too."""
    (tmp_path / "part-0").write_text("kept")
    assert marks(sdf.doctor(sc, tmp_path).findings)["path"] == OK
    assert [one.name for one in tmp_path.iterdir()] == ["part-0"]


def test_a_bucket_is_left_empty(s3_server, start_spark):
    """Driver and workers find each other's files there."""
    root = f"s3://{s3_server.bucket()}/target"
    found = sdf.doctor(start_spark("local[2]"), root)
    assert marks(found.findings)["path"] == OK
    assert s3_server.fs().find(root) == []


@pytest.mark.parametrize("place", ["file/below", "hdfs://namenode/x"])
def test_a_place_where_the_driver_cannot_write(sc, tmp_path, place):
    """A missing disk, or storage of a kind that sdf does not take: the table says so, no error is raised."""
    (tmp_path / "file").write_text("")
    found = sdf.doctor(sc, place if "://" in place else tmp_path / place)
    assert [one.what for one in found.problems] == ["path"]
    assert "the driver cannot write" in found.problems[0].told


def test_without_a_free_slot_it_gives_up_and_its_job_ends(sc, monkeypatch):
    """As where no executor comes."""
    monkeypatch.setattr(checkup, "_JOB_SECONDS", 1.0)
    holding = threading.Thread(target=lambda: sc.parallelize(range(4), 4).foreach(lambda _: time.sleep(6)))
    holding.start()
    try:
        assert is_soon(lambda: len(sc.statusTracker().getActiveStageIds()) == 1)
        found = sdf.doctor(sc)
        assert [one.told for one in found.problems] == ["no answer within 1 s"]
        assert set(marks(found.capabilities).values()) == {NO}
        assert is_soon(lambda: len(sc.statusTracker().getActiveJobsIds()) <= 1)
    finally:
        holding.join()


@pytest.mark.parametrize("says", [b"", b"x" * 200])
def test_a_port_where_something_else_answers_or_nobody_does(monkeypatch, says):
    """A firewall that takes a connection and drops what it carries; a worker says so in time."""
    monkeypatch.setattr(probe, "_HALF_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as firewall:
        kept = []

        def serve():
            kept.append(firewall.accept()[0])
            kept[0].sendall(says)

        threading.Thread(target=serve, daemon=True).start()
        address = "127.0.0.1", firewall.getsockname()[1], b"r" * 16, b"s" * 32
        told = probe.answers(address, None, "run", b"", 1.0)["port"]
        kept[0].close()
    assert told.startswith("ConnectionError: something else" if says else ("TimeoutError", "no answer"))


@pytest.mark.parametrize("given", [None, "sc://localhost"])
def test_what_is_no_spark_is_refused(given):
    """Before anything runs."""
    with pytest.raises(InvalidTypeError, match=r"doctor\(\) needs a SparkSession"):
        sdf.doctor(given)


def test_what_is_no_live_runner_is_refused(sc):
    """Only it has a port."""
    with pytest.raises(InvalidTypeError, match=r"doctor\(\) runner must be a LiveRunner"):
        sdf.doctor(sc, runner=sdf.StagedRunner())


def test_on_spark_connect(connect, tmp_path):
    """The same questions, but for the port."""
    found = sdf.doctor(connect, tmp_path / "staging")
    assert found.problems == ()
    assert marks(found.findings)["path"] == OK
    assert {what for what, mark in marks(found.capabilities).items() if mark == NO} == {
        *("run_sdf on RDDs", "LiveRunner", "stream_sdf", "group_by_key")
    }
    assert list(tmp_path.iterdir()) == []


# Imported as each worker starts. It does what a firewall on its host would: connections to one port come to nothing.
FIREWALL = """
import sys

def drop(event, args):
    if event == "socket.connect" and isinstance(args[1], tuple) and args[1][1] == PORT:
        raise TimeoutError("dropped by the firewall")

sys.addaudithook(drop)
"""


# Dear: an environment of its own, in which workers start without sdf's warm daemon.
def test_workers_with_an_old_cloudpickle_behind_a_firewall(start_spark, tmp_path, monkeypatch):
    """Both are found, in one go, and by the names of what does not fit."""
    port = free_port()
    files = {
        "firewall.py": FIREWALL.replace("PORT", str(port)),
        "firewall.pth": "import firewall\n",
        "cloudpickle/__init__.py": "from pyspark.cloudpickle import *\nfrom pyspark.cloudpickle import Pickler\n",
        "cloudpickle-2.1.0.dist-info/METADATA": "Name: cloudpickle\nVersion: 2.1.0\n",
    }
    python = environment(tmp_path / "environment", files)
    for name in ("attr", "attrs"):
        folder = next((tmp_path / "environment").glob("lib/python*/site-packages"))
        (folder / name).symlink_to(Path(importlib.util.find_spec(name).origin).parent)
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]]))
    sc = start_spark("local[2]", **PLAIN)
    found = sdf.doctor(sc, runner=LiveRunner(port=port))
    assert [one.what for one in found.problems] == ["cloudpickle", "driver's port"]
    assert "2.1.0; sdf needs cloudpickle>=2.2" in found.problems[0].told
    assert python in found.problems[0].mend
    assert "dropped by the firewall" in found.problems[1].told


# Dear: an environment of its own.
def test_workers_that_cannot_import_sdf(start_spark, tmp_path, monkeypatch):
    """They are asked no more, and the table says what they lack and what `ship` would send."""
    monkeypatch.setenv("PYSPARK_PYTHON", environment(tmp_path / "environment"))
    found = sdf.doctor(start_spark("local[2]", **PLAIN))
    assert {one.what for one in found.problems} - {"sdf"} == {"attrs", "cloudpickle"}
    assert marks(found.findings)["driver's port"] == UNKNOWN
    assert "attrs" in next(one.told for one in found.findings if one.what == "ship(spark)")


# Dear: executors are processes with a JVM.
def test_a_target_that_executors_do_not_share(start_spark):
    """Each process has a directory of its own at that path; lanes reach the driver all the same."""
    sc = start_spark("local-cluster[2,1,1024]")
    assert sc.parallelize(range(4), 4).count() == 4  # the executors have started
    found = sdf.doctor(sc, f"/proc/self/cwd/{os.getpid()}/target")
    assert [(one.what, one.mark) for one in found.problems] == [("path", STOPS)]
    assert "another place than the driver's" in found.problems[0].told
    assert marks(found.findings)["driver's port"] == OK
    assert {what for what, mark in marks(found.capabilities).items() if mark == NO} >= {"save_sdf", "group_by_key"}
    assert not os.path.exists(str(os.getpid()))
