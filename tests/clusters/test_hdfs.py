"""Runs whose checkpoint or target is on HDFS: drivers are killed, the NameNode is killed and comes back, and no row is
lost or doubled."""

import random
import subprocess
import sys

import pytest
from support import save_program, stream_program
from support.killing import Restarts, run_to_the_end

pytestmark = pytest.mark.clusters


def run_beside_restarts(hadoop, home, program, arguments):
    """Run a program once, while the NameNode comes and goes; return how often it went."""
    log = home / "log"

    def has_begun():
        return log.exists() and "begins" in log.read_text()

    restarts = Restarts(hadoop, 1, ["namenode"], up_seconds=(10, 10), down_seconds=(0, 2), has_begun=has_begun)
    restarts.start()
    try:
        with open(log, "wb") as file:
            command = [sys.executable, program, str(home), *arguments]
            code = subprocess.run(command, stdout=file, stderr=file, timeout=300, check=False).returncode
    finally:
        restarts.end()
    assert code == 0, log.read_text()[-3000:]
    return restarts.kills


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


def test_a_stream_is_resumed(tmp_path, monkeypatch, hadoop):
    """It writes into a Delta table on a disk."""
    pytest.importorskip("deltalake")
    monkeypatch.setenv("SDF_CHECKPOINT", f"{hadoop.url}/stream")
    killed = run_to_the_end(tmp_path, stream_program.__file__, ["delta"], random.Random(3))
    assert stream_program.rows_of_table(tmp_path) == stream_program.expected()
    assert killed.total() > 0


def test_a_stream_waits_for_the_namenode(tmp_path, monkeypatch, hadoop):
    """In one life."""
    pytest.importorskip("deltalake")
    monkeypatch.setenv("SDF_CHECKPOINT", f"{hadoop.url}/stream-waits")
    assert run_beside_restarts(hadoop, tmp_path, stream_program.__file__, ["delta"]) > 0
    assert stream_program.rows_of_table(tmp_path) == stream_program.expected()
