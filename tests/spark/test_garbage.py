"""A worker's first task of sdf freezes what the process holds: collecting garbage after a task then takes no time."""

import gc
import subprocess
import sys

from support.fns import CountFn
from support.warm import PLAIN

from sdf import run_sdf

TWICE = """
import gc
from sdf.spark.task_start import freeze_once
assert gc.get_freeze_count() == 0
freeze_once()
frozen = gc.get_freeze_count()
kept = [[number] for number in range(1000)]
freeze_once()
print(frozen > 0, gc.get_freeze_count() - frozen)
"""


def test_a_process_is_frozen_once():
    """What a later task makes is collected as ever, such as the classes of a notebook in each job."""
    assert subprocess.check_output([sys.executable, "-c", TWICE], text=True) == "True 0\n"


def test_the_workers_of_a_run_are_frozen(start_spark):
    """All of PySpark's own modules are."""
    sc = start_spark("local[2]", **PLAIN)
    assert run_sdf(sc.parallelize([("a", 10), ("b", 10)], 2), CountFn()).count() == 20
    assert min(sc.parallelize(range(2), 2).map(lambda _: gc.get_freeze_count()).collect()) > 10_000
