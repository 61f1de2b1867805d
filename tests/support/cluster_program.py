"""Runs of sdf as an application on a cluster, one after another: cluster_program.py HOME.

`applications.Application` writes what to run into HOME. A second driver goes on where the one before it was.
"""

import json
import os
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

from killing import my_jvm  # sent to the workers beside this file

import sdf
from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_sdf, save_sdf
from sdf.sinks import JsonLinesFiles
from sdf.spark.door.executors import Scheduler
from sdf.spark.live import silence

RUNNERS = {"StagedRunner": StagedRunner, "LiveRunner": LiveRunner}
CLAIM_SECONDS = 0.1
PATIENCE_SECONDS = 300  # then the test has gone
silence.SILENCE_SECONDS = float(os.environ.get("SILENCE_SECONDS", silence.SILENCE_SECONDS))  # of the driver


class NotingFn(DoFn):
    """Element: its number and a count. Gives so many rows, slowly until there is a file "go"; notes who claims what.

    Args:
        folder: of the file and the notes.
    """

    def __init__(self, folder):
        self.folder = str(folder)

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def setup(self):
        self.notes = os.open(f"{self.folder}/claims", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.me = f"{my_jvm()} {os.getcwd()}".encode()

    def process(self, element, tracker):
        for i in tracker.claims():
            os.write(self.notes, b"%d %d %s\n" % (element[0], i, self.me))
            if not os.path.exists(f"{self.folder}/go"):
                time.sleep(CLAIM_SECONDS)
            yield {"element": element[0], "i": i}


def wait_for(path):
    ends = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        if time.monotonic() > ends:
            sys.exit(f"no {path}")
        time.sleep(0.1)


def write(path, value):
    """Write a file that is whole once it is there."""
    path.with_suffix(".new").write_text(json.dumps(value))
    path.with_suffix(".new").rename(path)


def compared(counts, rows):
    """Return how many rows there should be, and how many there are too few and too many."""
    expected = Counter((number, i) for number, count in enumerate(counts) for i in range(count))
    found = Counter((row["element"], row["i"]) for row in rows)
    return {"expected": expected.total(), "lost": (expected - found).total(), "doubled": (found - expected).total()}


def collected(sc, folder, counts, runner, again=False, **options):
    """Collect a result; once there is a file "again", a second time."""
    elements = sc.parallelize(list(enumerate(counts)), 2)
    result = run_sdf(elements, NotingFn(folder), runner=RUNNERS[runner](**options))
    told = compared(counts, result.collect())
    if again:
        (folder / "once").touch()
        wait_for(folder / "again")
        told["again"] = compared(counts, result.collect())
    return result.report, told


def saved(sc, folder, counts, runner, checkpoint=None, **options):
    """Save a result into JSON Lines, and read what is there then."""
    elements = sc.parallelize(list(enumerate(counts)), 2)
    sink = JsonLinesFiles(f"{folder}/out")
    run = {"checkpoint": checkpoint, "runner": RUNNERS[runner](**options), "commit_seconds": 1}
    summary = save_sdf(elements, NotingFn(folder), sink, **run)
    rows = [json.loads(line) for path in (folder / "out").glob("*.jsonl") for line in path.open()]
    return summary.report, {**compared(counts, rows), "resumed": summary.resumed, "records": summary.records}


def where(_):
    """Say where a worker has sdf from, and its Python."""
    import sdf

    return sdf.__file__


def run(sc, folder, way, **options):
    if way == "ship":
        from pyspark.sql import SparkSession

        from sdf.spark import ship

        return {"sent": list(ship(SparkSession(sc), "killing").sent)}
    if way == "where":
        return {"workers": sc.parallelize([0], 1).map(where).collect()}
    report, told = {"collect": collected, "save": saved}[way](sc, folder, **options)
    kinds = Counter(kind for _, _, kind in report.executors)
    return {**told, "executors": kinds, "retries": report.retries, "replays": report.replays, "report": str(report)}


def tell_executors(sc, path):
    """Write which executors Spark has, again and again."""
    scheduler = Scheduler(sc)
    while True:
        write(path, sorted(scheduler.executors()))
        time.sleep(0.5)


def main(home):
    from pyspark import SparkContext

    sc = SparkContext.getOrCreate()
    sc.setLogLevel("OFF")
    me = {"pid": os.getpid(), "jvm": os.getppid(), "sdf": sdf.__file__, "python": sys.executable, "cwd": os.getcwd()}
    with open(home / "drivers", "a") as drivers:
        drivers.write(json.dumps(me) + "\n")
    threading.Thread(target=tell_executors, args=(sc, home / "executors.json"), daemon=True).start()
    number = 0
    while True:
        folder = home / str(number)
        wait_for(folder / "todo.json")
        todo = json.loads((folder / "todo.json").read_text())
        if todo is None:
            break
        if not (folder / "result.json").exists():
            began = time.monotonic()
            try:
                result = run(sc, folder, **todo)
            except Exception:
                result = {"error": traceback.format_exc()}
            result["seconds"] = round(time.monotonic() - began, 1)
            write(folder / "result.json", result)
        number += 1
    os._exit(0)  # the JVM stops the context, and the thread ends too


if __name__ == "__main__":
    main(Path(sys.argv[1]))
