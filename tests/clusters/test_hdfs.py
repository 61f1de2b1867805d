"""Runs whose checkpoint is on HDFS: drivers are killed, the NameNode is killed and comes back, and no row is lost or
doubled."""

import random
import subprocess
import sys
from collections import Counter

import pytest
from support import save_program, stream_program
from support.killing import Restarts, run_to_the_end

pytestmark = pytest.mark.clusters
RACES = 100
RACER = """
import sys
from pyspark import SparkConf, SparkContext
from sdf.spark.door.hadoop import hadoop_files
sc = SparkContext(conf=SparkConf().setMaster("local[1]").set("spark.ui.enabled", "false"))
storage = hadoop_files(sys.argv[1], "a race")
print("ready", flush=True)
for number in range(int(sys.argv[2])):
    sys.stdin.readline()
    try:
        storage.create(f"{number}", storage.writer.encode())
        print("won", flush=True)
    except FileExistsError:
        print("lost", flush=True)
"""


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


def test_of_two_drivers_one_creates_a_file(hadoop):
    """Each has a JVM of its own; a hundred races, and each wins some."""
    command = [sys.executable, "-c", RACER, f"{hadoop.url}/race", str(RACES)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for racer in racers:
        while "ready" not in racer.stdout.readline():
            assert racer.poll() is None
    wins = Counter()
    for number in range(RACES):
        for racer in racers[:: 1 if number % 2 else -1]:  # the one that hears of it first has an advantage
            racer.stdin.write("\n")
            racer.stdin.flush()
        said = tuple(racer.stdout.readline().strip() for racer in racers)
        assert sorted(said) == ["lost", "won"]
        wins[said.index("won")] += 1
    assert [racer.wait(60) for racer in racers] == [0, 0]
    assert len(wins) == 2
