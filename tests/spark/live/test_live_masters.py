"""The live runner when tasks are retried, executors die, copies race, and attempts stop answering: real processes."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark import TaskContext
from support.fns import EVERY_FN, CountFn, SlowCountFn, UnplannedFn, expected
from support.killing import kill_jvm, kill_my_executor, my_jvm
from support.saving import FolderSink, rows
from support.signalled import SignalledFn, claims_noted

from sdf import LiveRunner, run_sdf, save_sdf

SKEWED = [("big", 300), *((str(i), 2) for i in range(20))]
CLUSTER = "local-cluster[2,1,1024]"


def once(marker):
    """Return whether this is the first call with that marker, over all processes."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class FailsAt(SlowCountFn):
    """Does something once, when it comes to a record of the big element."""

    def __init__(self, marker, at, what):
        super().__init__()
        self.marker, self.at, self.what = str(marker), at, what

    def process(self, element, tracker):
        for name, i in super().process(element, tracker):
            if name == "big" and i == self.at and once(self.marker):
                self.what()
            yield name, i


def boom():
    raise RuntimeError("boom")


def kill_worker():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor():
    """As if its machine were gone: a worker that outlives its executor may still end its lane."""
    kill_jvm()
    kill_worker()


@pytest.fixture(scope="module")
def retries(start_spark):
    """Four slots in this process, and three more tries for a task that fails."""
    return start_spark("local[4,4]")


@pytest.mark.parametrize("what", [boom, kill_worker], ids=["raises", "is killed"])
@pytest.mark.parametrize("at", [5, 140, 299])
def test_a_lane_that_fails_is_run_again(retries, tmp_path, what, at):
    """With what the ledger says it owns; what it has given away meanwhile stays where it is."""
    fn = FailsAt(tmp_path / "marker", at, what)
    result = run_sdf(retries.parallelize(SKEWED), fn, runner=LiveRunner())
    first = result.collect()
    assert Counter(first) == expected(SKEWED)
    assert result.report.retries == 1
    assert result.collect() == first


def test_a_lane_that_is_stopped_and_goes_on(retries, tmp_path):
    """Others do their work meanwhile; when it wakes up it goes on as if nothing had been."""
    fn = FailsAt(tmp_path / "marker", 20, lambda: (tmp_path / "pid").write_text(str(os.getpid())) and time.sleep(0.3))
    result = run_sdf(retries.parallelize(SKEWED), fn, runner=LiveRunner(patience_seconds=1))

    def stop():
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=stop)
    thread.start()
    assert Counter(result.collect()) == expected(SKEWED)
    thread.join()


def test_saved_files_hold_every_record_once(retries, tmp_path):
    """A task that fails after its lane was sealed, before its output is committed, replays the content."""
    marker = str(tmp_path / "marker")

    def fail_at_the_end(records):
        yield from records
        if TaskContext.get().partitionId() == 1 and once(marker):
            raise RuntimeError("after the last record")

    result = run_sdf(retries.parallelize(SKEWED), SlowCountFn(), runner=LiveRunner())
    result.mapPartitions(fail_at_the_end).saveAsTextFile(str(tmp_path / "out"))
    assert os.path.exists(marker)
    saved = Counter(eval(line) for path in (tmp_path / "out").glob("part-*") for line in path.open())
    assert saved == expected(SKEWED)
    assert result.report.replays == 1


@pytest.fixture(scope="module")
def cluster(start_spark):
    return start_spark(CLUSTER)


def test_every_kind_of_restriction_on_executors(cluster):
    """The restrictions' classes are this test's, known to the driver and to the executors."""
    elements = [("a", 0), ("b", 1), ("c", 120), ("d", 7)]
    for fn in EVERY_FN:
        result = run_sdf(cluster.parallelize(elements, 3), fn, runner=LiveRunner())
        assert Counter(result.collect()) == expected(elements)


@pytest.mark.parametrize("at", [20, 160])
def test_an_executor_dies(cluster, tmp_path, at):
    """Its lanes run again elsewhere, during the run and after it."""
    fn = FailsAt(tmp_path / "marker", at, kill_executor)
    result = run_sdf(cluster.parallelize(SKEWED), fn, runner=LiveRunner())
    first = result.collect()
    assert os.path.exists(tmp_path / "marker")
    assert Counter(first) == expected(SKEWED)
    assert result.report.retries >= 1
    assert result.collect() == first


def test_an_executor_that_is_told_to_end_loses_nothing_of_a_saved_run(cluster, tmp_path):
    """As Kubernetes does it, which signals only the JVM: its workers commit, though they cannot tell Spark."""
    noted = tmp_path / "noted"
    noted.mkdir()
    fn = SignalledFn(noted, my_jvm, signal.SIGTERM, {40})
    save_sdf(
        cluster.parallelize([("a", 400)]), fn, FolderSink(tmp_path / "out"), runner=LiveRunner(), commit_seconds=60
    )
    assert claims_noted(noted) == dict.fromkeys((("a", i) for i in range(400)), 1)
    assert rows(tmp_path / "out") == [("a", i) for i in range(400)]


def test_a_cached_block_dies_with_its_executor(cluster, tmp_path):
    """It is computed again from the lane's content, and is the same. Spark reads a block where it is cached."""
    result = run_sdf(cluster.parallelize(SKEWED), SlowCountFn(), runner=LiveRunner()).cache()
    first = result.collect()
    marker = str(tmp_path / "killed")
    assert result.mapPartitions(lambda records: kill_my_executor(marker) or records).collect() == first
    assert os.path.exists(marker)
    assert Counter(first) == expected(SKEWED)
    assert result.collect() == first
    assert result.report.replays >= 1


class RaisesOnDriver(UnplannedFn):
    """Once a part that was cut off runs, the first part's worker dies; the driver cannot size what that has left."""

    def __init__(self, killed):
        super().__init__()
        self.killed = str(killed)

    def restriction_size(self, element, restriction):
        if threading.current_thread().name == "sdf-coordinator" and os.path.exists(self.killed):
            raise ZeroDivisionError("no size here")
        return super().restriction_size(element, restriction)

    def process(self, element, tracker):
        was_cut_off, begun = tracker.current_restriction().start > 0, Path(f"{self.killed}.begun")
        for record in super().process(element, tracker):
            if was_cut_off:
                begun.touch()
            elif begun.exists() and once(self.killed):
                kill_worker()
            yield record


def test_a_run_that_fails_on_the_driver_fails_alone(start_spark, tmp_path):
    """Its action says why, with every name, and so does the next one; another run succeeds, and so does a later one."""
    sc = start_spark("local[2,4]")
    element = ("big", 6000)  # it is not done before the other run is, so it gets a second slot and is split
    ill = run_sdf(sc.parallelize([element]), RaisesOnDriver(tmp_path / "killed"), runner=LiveRunner())
    well = run_sdf(sc.parallelize(SKEWED), SlowCountFn(), runner=LiveRunner())
    found = []
    other = threading.Thread(target=lambda: found.append(Counter(well.collect())))
    why = (
        r"ProcessError: RaisesOnDriver failed on the driver, and all its lanes with it: "
        r"RaisesOnDriver.restriction_size\(\) on OffsetRange\(.*\) of element \('big', 6000\) "
        r"raised ZeroDivisionError: no size here"
    )
    other.start()
    for _ in range(2):
        with pytest.raises(Exception, match=why):
            ill.collect()
    other.join()
    assert found == [expected(SKEWED)]
    assert ill.report.elements == 1
    later = run_sdf(sc.parallelize(SKEWED), CountFn(), runner=LiveRunner())
    assert later.func._address.port == ill.func._address.port
    assert Counter(later.collect()) == Counter(well.collect()) == expected(SKEWED)


def test_lanes_are_counted_once_the_executors_are_there(start_spark):
    """A context does not wait for them; the job that expands the elements does."""
    sc = start_spark("local-cluster[3,1,1024]", spark_default_parallelism=None)
    lanes = run_sdf(sc.parallelize(SKEWED, 6).map(later), SlowCountFn(), runner=LiveRunner())
    assert lanes.getNumPartitions() == 3


def later(element):
    """Give the other executors the time to come."""
    time.sleep(1)
    return element


SPECULATES = """
import sys, time
from collections import Counter
from pyspark import SparkConf, SparkContext, TaskContext
from support.fns import SlowCountFn, expected
from sdf import LiveRunner, run_sdf

SKEWED = [("big", 300), *((str(i), 2) for i in range(20))]

class Straggles(SlowCountFn):
    "The first attempt at lane 1 is slow, as on a bad host."
    def process(self, element, tracker):
        context = TaskContext.get()
        slow = context.partitionId() == 1 and context.attemptNumber() == 0
        for record in super().process(element, tracker):
            if slow:
                time.sleep(0.5)
            yield record

conf = SparkConf().setMaster(sys.argv[1]).set("spark.ui.enabled", "false")
for name, value in {
    "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1", "spark.speculation.minTaskRuntime": "200ms",
    "spark.executor.memory": "512m", "spark.executor.cores": "2",
}.items():
    conf.set(name, value)
sc = SparkContext(conf=conf)
sc.setLogLevel("OFF")
while sc._jsc.sc().statusStore().executorList(True).size() < 3:
    time.sleep(0.1)
result = run_sdf(sc.parallelize(SKEWED), Straggles(), runner=LiveRunner(lanes=4, patience_seconds=0.5))
doubled = set()
records = []
while len(records) < 3 or (len(records) < 10 and not any(doubled)):  # on a busy machine the originals win for long
    found = result.map(lambda record: (record, TaskContext.get().attemptNumber())).collect()
    records.append([record for record, _ in found])
    doubled |= {attempt for _, attempt in found}
print("right:", Counter(records[0]) == expected(SKEWED), "same:", all(again == records[0] for again in records))
print("copies won:", sum(1 for attempt in doubled if attempt > 0))
sc.stop()
"""


def test_speculative_copies_on_two_hosts(tmp_path):
    """A copy of a slow lane runs on another host and may win; whoever wins, each record is there once."""
    import pyspark

    home = Path(pyspark.__file__).parent
    here, root = Path(__file__).parent, Path(__file__).parents[3]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(here), str(root / "tests"), str(root)]),
    }
    processes = []

    def launch(name, *arguments, host):
        command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{name}", "--host", host, *arguments]
        with open(tmp_path / f"{name}-{host}.log", "w") as log:
            processes.append(
                subprocess.Popen(
                    command,
                    env={**environment, "SPARK_LOCAL_IP": host},
                    stdout=log,
                    stderr=log,
                    cwd=tmp_path,
                    start_new_session=True,
                )
            )

    try:
        launch("master.Master", "--port", str(port), "--webui-port", "0", host="127.0.0.1")
        master = f"spark://127.0.0.1:{port}"
        for host in ("127.0.0.1", "127.0.0.2"):
            launch("worker.Worker", "--webui-port", "0", "-c", "2", "-m", "1g", "-d", str(tmp_path), master, host=host)
        done = subprocess.run(
            [sys.executable, "-c", SPECULATES, master],
            env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)
    assert "right: True same: True" in done.stdout, done.stderr[-2000:]
    assert "copies won: 1" in done.stdout
