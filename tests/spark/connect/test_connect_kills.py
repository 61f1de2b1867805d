"""Saved runs on Spark Connect whose client, worker or server is killed."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql.connect.client.retries import DefaultPolicy
from support.connect_server import ConnectServer

from sdf import DoFn, OffsetRange, save_sdf
from sdf.errors import StageError
from sdf.sinks import JsonLinesFiles

COUNTS = [("big", 120), ("small", 3)]
EXPECTED = Counter((name, number) for name, count in COUNTS for number in range(count))


class BeatsFn(DoFn):
    """Each block takes 50 ms, and says in a file of its name that it runs."""

    def __init__(self, folder):
        self.folder = folder

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for number in tracker.claims():
            Path(self.folder, f"{number}.beat").write_text(str(os.getpid()))
            time.sleep(0.05)
            yield {"name": element[0], "number": number}


def save(spark, folder, fn=BeatsFn):
    frame = spark.createDataFrame(COUNTS, "name string, count long")
    sink = JsonLinesFiles(folder / "out")
    return save_sdf(frame, fn(str(folder)), sink, commit_seconds=0.5, progress=False)


def saved(folder):
    lines = [line for path in (folder / "out").glob("*.json*") for line in path.read_text().splitlines()]
    return Counter((row["name"], row["number"]) for row in map(json.loads, lines))


def beats(folder):
    return len(list(folder.glob("*.beat")))


def wait_for(condition, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


CLIENT = """
import sys
from pathlib import Path
from pyspark.sql.connect.session import SparkSession
from test_connect_kills import save
save(SparkSession.builder.remote(sys.argv[1]).create(), Path(sys.argv[2]))
"""


class HangsFn(BeatsFn):
    """Hangs in block 60 as long as a file is there, and says so all the time."""

    def process(self, element, tracker):
        for row in super().process(element, tracker):
            while row["number"] == 60 and Path(self.folder, "hang").exists():
                Path(self.folder, "hangs").touch()
                time.sleep(0.05)
            yield row


# Dear: a client is a process with a session, whose workers are its own.
def test_a_client_that_was_killed_is_resumed_and_its_tasks_are_interrupted(connect_server, connect, tmp_path, caplog):
    """The new client has another session. The orphan would hang for ever."""
    (tmp_path / "hang").touch()
    program = CLIENT.replace("save(Spark", "from test_connect_kills import HangsFn\nsave(Spark").replace(
        "Path(sys.argv[2]))", "Path(sys.argv[2]), HangsFn)"
    )
    client = subprocess.Popen([sys.executable, "-c", program, connect_server.url, str(tmp_path)])
    wait_for((tmp_path / "hangs").exists)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    assert not (tmp_path / "out").exists()
    caplog.set_level(logging.INFO, "sdf.connect")
    with ThreadPoolExecutor(1) as pool:
        resumed = pool.submit(save, connect, tmp_path, HangsFn)
        wait_for(lambda: "that an earlier driver left running" in caplog.text)
        (tmp_path / "hang").unlink()
        summary = resumed.result()
    assert summary.resumed
    assert saved(tmp_path) == EXPECTED
    (tmp_path / "hang").touch()
    (tmp_path / "hangs").unlink()
    time.sleep(0.3)
    assert not (tmp_path / "hangs").exists()  # no task of the dead client is left


class KillsFn(BeatsFn):
    """Kills its worker in block 40, once."""

    def process(self, element, tracker):
        for row in super().process(element, tracker):
            if row["number"] == 40 and not Path(self.folder, "killed").exists():
                Path(self.folder, "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield row


def test_a_worker_that_was_killed_is_replaced(connect, tmp_path):
    """Spark runs its task again. What it had written does not count."""
    summary = save(connect, tmp_path, KillsFn)
    assert (tmp_path / "killed").exists()
    assert not summary.resumed
    assert summary.repeated_seconds > 0
    assert saved(tmp_path) == EXPECTED


# Dear: a server of its own is killed.
@pytest.mark.filterwarnings("ignore:.RETRIES_EXCEEDED")
def test_a_server_that_was_killed_is_an_error_and_another_one_ends_the_run(connect, tmp_path):
    """What was committed does not run again."""
    server = ConnectServer("local[2]")
    spark = server.session()
    spark.client.set_retry_policies([DefaultPolicy(max_retries=3)])  # else it tries for ten minutes
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(save, spark, tmp_path)
        wait_for(lambda: beats(tmp_path) >= 60)
        server.kill()
        with pytest.raises(StageError, match=r"server cannot be reached any more .* make the same call again"):
            first.result()
    assert not (tmp_path / "out").exists()
    summary = save(connect, tmp_path)
    assert summary.resumed
    assert saved(tmp_path) == EXPECTED
