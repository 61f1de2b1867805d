"""Runs whose checkpoint or target is on HDFS: drivers are killed, the NameNode is killed and comes back, and no row is
lost or doubled."""

import random
import subprocess
import sys
import threading
from collections import Counter

import pytest
from support import save_program, stream_program
from support.killing import kill_once

pytestmark = pytest.mark.clusters
MOST_LIVES = 12


class Restarts(threading.Thread):
    """Kills the NameNode again and again once a log says that a program has begun, and starts it a moment later."""

    def __init__(self, hadoop, log):
        super().__init__(daemon=True)
        self.hadoop, self.log, self.ended, self.restarts = hadoop, log, threading.Event(), 0

    def run(self):
        choose = random.Random(1)
        while not self.ended.wait(0.05):
            if self.log.exists() and "begins" in self.log.read_text():
                self.hadoop.kill("namenode")
                self.ended.wait(choose.uniform(0, 2))
                self.hadoop.start("namenode")
                self.hadoop.wait()  # or it would never be there, on a busy machine
                self.restarts += 1
                self.ended.wait(10)

    def end(self):
        self.ended.set()
        self.join()


def run_to_the_end(home, program, arguments, choose):
    """Run a program, and kill it again and again, until it comes to its end; return whom that killed."""
    killed, log = Counter(), home / "log"
    for life in range(MOST_LIVES):
        before = log.read_text().count("begins") if log.exists() else 0

        def begun(before=before):
            return log.read_text().count("begins") > before

        victim = kill_once([program, str(home), *arguments], log, begun, choose.uniform(1, 4 * 1.3**life), choose)
        if victim is None:
            return killed
        killed[victim] += 1
    raise AssertionError(f"not done after {MOST_LIVES} lives: {log.read_text()[-2000:]}")


def run_beside_restarts(hadoop, home, program, arguments):
    """Run a program once, while the NameNode comes and goes; return how often it went."""
    log = home / "log"
    restarts = Restarts(hadoop, log)
    restarts.start()
    try:
        with open(log, "wb") as file:
            command = [sys.executable, program, str(home), *arguments]
            code = subprocess.run(command, stdout=file, stderr=file, timeout=300, check=False).returncode
    finally:
        restarts.end()
    assert code == 0, log.read_text()[-3000:]
    return restarts.restarts


@pytest.mark.parametrize("runner", save_program.RUNNERS)
def test_a_saved_run_is_resumed(tmp_path, monkeypatch, hadoop, runner):
    """Its target is on a disk; its log on HDFS."""
    monkeypatch.setenv("SDF_HDFS", f"{hadoop.url}/saves-{runner}")
    killed = run_to_the_end(tmp_path, save_program.__file__, [runner, "hdfs"], random.Random(runner))
    assert save_program.rows("hdfs", tmp_path) == save_program.expected()
    assert killed.total() > 0


@pytest.mark.parametrize("runner", save_program.RUNNERS)
def test_a_saved_run_waits_for_the_namenode(tmp_path, monkeypatch, hadoop, runner):
    """In one life."""
    monkeypatch.setenv("SDF_HDFS", f"{hadoop.url}/waits-{runner}")
    assert run_beside_restarts(hadoop, tmp_path, save_program.__file__, [runner, "hdfs"]) > 0
    assert save_program.rows("hdfs", tmp_path) == save_program.expected()


@pytest.mark.parametrize("runner", save_program.RUNNERS)
def test_a_saved_run_with_its_target_on_hdfs_is_resumed(tmp_path, monkeypatch, hadoop, runner):
    """Its log is beside the target, by WebHDFS."""
    monkeypatch.setenv("SDF_HDFS", f"{hadoop.web}/targets-{runner}")
    killed = run_to_the_end(tmp_path, save_program.__file__, [runner, "webhdfs"], random.Random(runner))
    assert save_program.rows("webhdfs", tmp_path) == save_program.expected()
    assert killed.total() > 0


def test_workers_wait_for_the_namenode(tmp_path, monkeypatch, hadoop):
    """In one life."""
    monkeypatch.setenv("SDF_HDFS", f"{hadoop.web}/target-waits")
    assert run_beside_restarts(hadoop, tmp_path, save_program.__file__, ["StagedRunner", "webhdfs"]) > 0
    assert save_program.rows("webhdfs", tmp_path) == save_program.expected()


def rows_of_table(home):
    import deltalake

    rows = deltalake.DeltaTable(str(home / "table")).to_pyarrow_table().to_pylist()
    return sorted((row["element"], row["i"]) for row in rows)


def test_a_stream_is_resumed(tmp_path, monkeypatch, hadoop):
    """It writes into a Delta table on a disk."""
    pytest.importorskip("deltalake")
    monkeypatch.setenv("SDF_CHECKPOINT", f"{hadoop.url}/stream")
    killed = run_to_the_end(tmp_path, stream_program.__file__, ["delta"], random.Random(3))
    assert rows_of_table(tmp_path) == stream_program.expected()
    assert killed.total() > 0


def test_a_stream_waits_for_the_namenode(tmp_path, monkeypatch, hadoop):
    """In one life."""
    pytest.importorskip("deltalake")
    monkeypatch.setenv("SDF_CHECKPOINT", f"{hadoop.url}/stream-waits")
    assert run_beside_restarts(hadoop, tmp_path, stream_program.__file__, ["delta"]) > 0
    assert rows_of_table(tmp_path) == stream_program.expected()
