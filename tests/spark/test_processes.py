"""What needs processes of its own: Ctrl-C, the end of the workers, the examples, the README's program."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from support.fns import CountFn
from support.programs import in_one_process

from sdf import run_sdf

ROOT = Path(__file__).parent.parent.parent
ELSEWHERE = tempfile.gettempdir()  # with -c, Python would import the sdf of the directory, not that of a mutant
ENVIRONMENT = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}

INTERRUPTED = """
import os, signal, threading, time
from pyspark import SparkContext
from support.fns import SlowCountFn
from sdf import run_sdf

sc = SparkContext("local[2]")
sc.setLogLevel("OFF")

def interrupt():
    while not any(job > 0 for job in sc.statusTracker().getActiveJobsIds()):  # 0 expands the elements
        time.sleep(0.05)
    print("interrupting", flush=True)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    run_sdf(sc.parallelize([("a", 1_000_000)]), SlowCountFn())
except KeyboardInterrupt:
    def left():
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("sdf")]
        return [list(sc.statusTracker().getActiveJobsIds()), threads]

    for _ in range(600):
        if left() == [[], []]:
            break
        time.sleep(0.05)
    print("left:", *left())
sc.stop()
"""

INTERRUPTED_ACTIONS = """
import os, signal, sys, threading, time
from contextlib import suppress
from pathlib import Path
from pyspark import InheritableThread, SparkConf, SparkContext
from support.fns import CountFn
from support.programs import in_one_process
from sdf import LiveRunner, run_sdf

folder = Path(sys.argv[1])

class SlowForAWhile(CountFn):
    def process(self, element, tracker):
        for output in super().process(element, tracker):
            if (folder / "slow").exists():
                time.sleep(0.05)
            yield output

sc = SparkContext(conf=SparkConf().setMaster("local[4]").set("spark.scheduler.mode", "FAIR"))
sc.setLogLevel("OFF")
if sys.argv[2] == "notebook":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in place of PySpark's

def active():
    return set(sc.statusTracker().getActiveJobsIds())

def status_of(job):
    return sc.statusTracker().getJobInfo(job).status

def waits(record):
    while not (folder / "end").exists():
        time.sleep(0.05)

def of_somebody_else():
    sc.setJobGroup("theirs", "a job that stays")
    sc.setLocalProperty("spark.scheduler.pool", "theirs")
    with suppress(Exception):  # Py4J disturbs the calls of other threads when one is interrupted, not their jobs
        sc.parallelize([0], 1).map(waits).count()

InheritableThread(target=of_somebody_else, daemon=True).start()
while not active():
    time.sleep(0.05)
(theirs,) = active()

def interrupt(group, is_time, interrupted):
    while not is_time() or not interrupted:
        time.sleep(0.05)
        interrupted |= active() & set(sc.statusTracker().getJobIdsForGroup(group))
    os.kill(os.getpid(), signal.SIGINT)

def interrupt_action(name, action, is_time=lambda: True):
    sc.setJobGroup(name, "to be interrupted")
    interrupted = set()
    threading.Thread(target=interrupt, args=(name, is_time, interrupted), daemon=True).start()
    try:
        action()
    except KeyboardInterrupt:
        (job,) = interrupted
        while status_of(job) == "RUNNING":
            time.sleep(0.05)
        print(f"{name}: {status_of(job)}")

shown = []

result = run_sdf(sc.parallelize([("a", 1000)]), SlowForAWhile(), runner=LiveRunner(lanes=2), progress=shown.append)
actions = {
    "map": lambda: result.map(lambda record: record).count(),
    "shuffle": lambda: result.reduceByKey(max).mapValues(str).collect(),
    "save": lambda: result.saveAsTextFile(str(folder / "out")),
    "take": lambda: result.take(900),
}
for name in sys.argv[3:]:
    (folder / "slow").touch()
    before = len(shown)
    interrupt_action(name, actions[name], lambda: len(shown) > before + 1)
    while not shown[-1].ended:
        time.sleep(0.05)
    print("bar:", shown[-1].done < shown[-1].known)
    (folder / "slow").unlink()
print("again:", len(set(result.collect())))

stored = run_sdf(sc.parallelize([("a", 3)]), CountFn())
interrupt_action("stored", lambda: stored.map(lambda _: time.sleep(60)).count())
print("theirs:", status_of(theirs))
(folder / "end").touch()
sc.stop()
"""


class NotesHooks(CountFn):
    """Notes in a file of each process when it is set up and torn down."""

    def __init__(self, folder):
        self.folder = folder

    def note(self, what):
        with open(os.path.join(self.folder, str(os.getpid())), "a") as file:
            file.write(what)

    def setup(self):
        self.note("up ")

    def teardown(self):
        self.note("down ")


ACTIONS = ["map", "shuffle", "save", "take"]


def run(*command, cwd=ELSEWHERE):
    done = subprocess.run(
        [sys.executable, *command],
        env=ENVIRONMENT,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# Dear, as most tests here: a signal or an example needs a program of its own, which starts a JVM.
@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """Interrupt a run and then actions in one program; return what each of both prints."""
    code = f"{INTERRUPTED}\nprint(chr(12), end='')\n{INTERRUPTED_ACTIONS}"
    return run("-c", code, str(tmp_path_factory.mktemp("actions")), "notebook", *ACTIONS).split(chr(12))


def test_ctrl_c_cancels_the_jobs(interrupted):
    """After KeyboardInterrupt no job is active and no thread of the run is left."""
    assert "interrupting" in interrupted[0]
    assert "left: [] []" in interrupted[0]


def lines_of(actions):
    return [
        *(line for action in actions for line in (f"{action}: FAILED", "bar: True")),
        "again: 1000",
        "stored: FAILED",
        "theirs: RUNNING",
        "",
    ]


def test_an_interrupted_action_takes_its_job_along(interrupted):
    """The job is cancelled, and no other's; the bar ends short of its end; the next action gives all records."""
    assert interrupted[1].split("\n") == lines_of(ACTIONS)


@pytest.mark.slow("test_an_interrupted_action_takes_its_job_along: with the handler of a notebook")
def test_an_action_interrupted_through_pyspark_takes_its_job_along(tmp_path):
    """PySpark's own handler cancels jobs too."""
    assert run("-c", INTERRUPTED_ACTIONS, str(tmp_path), "pyspark", "map").split("\n") == lines_of(["map"])


def test_teardown_runs_when_a_worker_leaves_by_itself(sc, start_spark, tmp_path):
    """Without reuse each worker leaves after its task, and tears down what it had set up."""
    # After sc, as the JVM keeps the settings of its first context.
    of_its_own = start_spark("local[2]", spark_python_worker_reuse="false")
    assert run_sdf(of_its_own.parallelize([("a", 5)] * 8), NotesHooks(tmp_path)).count() == 40
    until = time.monotonic() + 60
    while set(notes := [path.read_text() for path in tmp_path.iterdir()]) != {"up down "}:
        assert time.monotonic() < until, notes
        time.sleep(0.05)


EXAMPLES = {
    "count_fn": r"'huge': 3000000.*\nCountFn: 3,000,005 records of 2 elements",
    "read_fn": r"[\d,]+ records in \d+ files; \d+ stages ran\nsplit: .*everything.avro",
    "dates": r"'2020-03-13', '2020-11-13', '2021-08-13'",
    "sweep": r"\d+ of 230400 points never leave\nMandelbrot: 720 records of 3 elements",
}


TOGETHER = ["read_fn", "dates"]


def example(name):
    return ROOT / "examples" / f"{name}.py"


@pytest.fixture(scope="module")
def printed():
    """What some examples print."""
    return dict(zip(TOGETHER, in_one_process(run, map(example, TOGETHER)), strict=True))


@pytest.mark.parametrize("name", TOGETHER)
def test_examples_run_as_they_are(printed, name):
    """python examples/NAME.py prints what it promises."""
    assert re.search(EXAMPLES[name], printed[name])


@pytest.mark.slow("test_examples_run_as_they_are: two of them, in one process")
@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_runs_as_it_is(name):
    """In a process of its own."""
    assert re.search(EXAMPLES[name], run(example(name)))


@pytest.mark.slow("test_every_snippet_runs: in another process, whose JVM has been started already")
def test_the_readmes_first_program_runs(tmp_path):
    """The first Python block of README.md prints the number it says, and leaves a page."""
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    out = run("-c", program, cwd=tmp_path)
    assert (tmp_path / "run.html").is_file()
    assert out.startswith("1015\nFetchOrders: 1,015 records of 3 elements in ")


def test_the_readmes_unit_test_passes():
    """README.md shows a test that passes."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    fetch_orders = blocks[0][: blocks[0].index("sc = ")].replace("from pyspark import SparkContext", "")
    test = next(block for block in blocks if "def test_fetch_orders" in block)
    run("-c", f"{fetch_orders}\n{test}\ntest_fetch_orders()")
