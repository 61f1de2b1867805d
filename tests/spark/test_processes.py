"""What needs a driver process of its own: Ctrl-C, the end of the workers, the examples, the README's program."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}

INTERRUPTED = """
import os, signal, threading, time
from pyspark import SparkContext
from fns import SlowCountFn
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
    for _ in range(100):
        if not sc.statusTracker().getActiveJobsIds():
            break
        time.sleep(0.05)
    print("jobs:", list(sc.statusTracker().getActiveJobsIds()))
    print("threads:", [thread.name for thread in threading.enumerate() if thread.name.startswith("sdf")])
sc.stop()
"""

TEARDOWN = """
import os, sys
from pyspark import SparkConf, SparkContext
from fns import CountFn
from sdf import run_sdf

folder = sys.argv[1]

class Notes(CountFn):
    def note(self, what):
        with open(os.path.join(folder, str(os.getpid())), "a") as file:
            file.write(what)
    def setup(self):
        self.note("up ")
    def teardown(self):
        self.note("down ")

sc = SparkContext(conf=SparkConf().setMaster("local[2]").set("spark.python.worker.reuse", "false"))
print(run_sdf(sc.parallelize([("a", 5)] * 8), Notes()).count())
sc.stop()
"""


def run(*command, cwd=ROOT):
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


def test_ctrl_c_cancels_the_jobs():
    """After KeyboardInterrupt no job is active and no thread of the run is left."""
    out = run("-c", INTERRUPTED)
    assert "interrupting" in out
    assert "jobs: []" in out
    assert "threads: []" in out


def test_teardown_runs_when_a_worker_leaves_by_itself(tmp_path):
    """Without reuse each worker leaves after its task, and tears down what it had set up."""
    assert "40" in run("-c", TEARDOWN, str(tmp_path))
    notes = [path.read_text() for path in tmp_path.iterdir()]
    assert len(notes) >= 1
    assert set(notes) == {"up down "}


EXAMPLES = {
    "count_fn": r"'huge': 3000000.*\nCountFn: 3,000,005 records of 2 elements",
    "read_fn": r"[\d,]+ records in \d+ files; \d+ stages ran\nsplit: .*everything.avro",
    "dates": r"'2020-03-13', '2020-11-13', '2021-08-13'",
    "sweep": r"\d+ of 230400 points never leave\nMandelbrot: 720 records of 3 elements",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_as_they_are(name):
    """python examples/NAME.py prints what it promises."""
    assert re.search(EXAMPLES[name], run(f"examples/{name}.py"))


def test_the_readmes_first_program_runs(tmp_path):
    """The first Python block of README.md prints the number it says, and leaves a page."""
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    out = run("-c", program, cwd=tmp_path)
    assert (tmp_path / "run.html").is_file()
    assert out.startswith("1000005\nCountFn: 1,000,005 records of 2 elements in ")


def test_the_readmes_unit_test_passes():
    """The second Python block of README.md is a test that passes."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    count_fn = blocks[0][: blocks[0].index("sc = ")].replace("from pyspark import SparkContext", "")
    run("-c", f"{count_fn}\n{blocks[1]}\ntest_count_fn()")
