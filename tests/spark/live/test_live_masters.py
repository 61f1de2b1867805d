"""The live runner when tasks are retried, copies race, and attempts stop answering: real processes."""

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
from support.failing import FailsAt, kill_worker, once
from support.fns import CountFn, SlowCountFn, UnplannedFn, expected

from sdf import LiveRunner, run_sdf
from sdf.spark.live import silence

SKEWED = [("big", 300), *((str(i), 2) for i in range(20))]


def boom():
    raise RuntimeError("boom")


def give_up():
    """Have this worker's lane give its coordinator up."""

    def look(self, connection, now, *, waits):
        raise TimeoutError("its host does not answer")

    silence.Silence.look = look


@pytest.fixture(scope="module")
def retries(start_spark):
    """Four slots in this process, and three more tries for a task that fails."""
    return start_spark("local[4,4]")


at_another_record = pytest.mark.slow("the same test at record 140")


@pytest.mark.parametrize("what", [boom, kill_worker, give_up], ids=["raises", "is killed", "gives up"])
@pytest.mark.parametrize(
    "at", [pytest.param(5, marks=at_another_record), 140, pytest.param(299, marks=at_another_record)]
)
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


@pytest.mark.slow(
    "test_contained_run.py::test_a_bug_fails_its_run_and_no_other, test_live.py::test_a_broken_split_is_an_error"
)
def test_a_run_that_fails_on_the_driver_fails_alone(retries, tmp_path):
    """Its action says why, with every name, and so does the next one; another run succeeds, and so does a later one."""
    sc, two_each = retries, LiveRunner(lanes=2)
    element = ("big", 6000)  # it is not done before both of its lanes run, so it is split
    ill = run_sdf(sc.parallelize([element]), RaisesOnDriver(tmp_path / "killed"), runner=two_each)
    well = run_sdf(sc.parallelize(SKEWED), SlowCountFn(), runner=two_each)
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


SPECULATES = """
import sys, time
from collections import Counter
from pyspark import SparkConf, SparkContext, TaskContext
from support.fns import SlowCountFn, expected
from sdf import LiveRunner, run_sdf
from sdf.spark.live import silence

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


@pytest.mark.slow("simulation/test_seeds.py::test_every_record_exactly_once_whatever_happens_when, without Spark")
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
