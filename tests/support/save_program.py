"""A saved run as a program, to be killed: python save_program.py HOME RUNNER SINK. HOME/claims says what it works on.

A claim takes five milliseconds, a segment half a second, so that many commits happen in the seconds that a run takes.
"""

import json
import os
import sys
import time
from pathlib import Path

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, save_sdf
from sdf.sinks import JsonLinesFiles

ELEMENTS = (600, 150, 40, 5, 5, 5)
CLAIM_SECONDS = 0.005
COMMIT_SECONDS = 0.5
SLOTS = 4
RUNNERS = {"StagedRunner": StagedRunner, "LiveRunner": LiveRunner}


class RowsFn(DoFn):
    """Element: its number and a count. Gives so many rows."""

    def __init__(self, claims):
        self.claims = claims

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def setup(self):
        self.file = os.open(self.claims, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            os.write(self.file, b"%d %d\n" % (element[0], i))
            time.sleep(CLAIM_SECONDS)
            yield {"element": element[0], "i": i}


def expected():
    return sorted((number, i) for number, count in enumerate(ELEMENTS) for i in range(count))


def sink_of(kind, home):
    """Return the sink of a kind, and the checkpoint to use with it."""
    if kind == "disk":
        return JsonLinesFiles(f"{home}/out"), None
    if kind == "hdfs":
        return JsonLinesFiles(f"{home}/out"), f"{os.environ['SDF_HDFS']}/{Path(home).name}"
    if kind == "webhdfs":
        return JsonLinesFiles(f"{os.environ['SDF_HDFS']}/{Path(home).name}/out"), None
    if kind == "s3":
        bucket = f"s3://bucket/{Path(home).name}"
        return JsonLinesFiles(f"{bucket}/out"), f"{bucket}/checkpoint"
    from sdf.sinks import DeltaTable

    return DeltaTable(f"{home}/table"), f"{home}/checkpoint"


def rows(kind, home):
    """Return what somebody else's reader finds at the target; None if nothing is there."""
    if kind in ("disk", "hdfs"):
        out = Path(home, "out")
        if not out.exists():
            return None
        lines = [line for path in out.glob("*.jsonl") for line in path.read_text().splitlines()]
        return sorted((row["element"], row["i"]) for row in map(json.loads, lines))
    if kind == "webhdfs":
        from sdf.storage.places import storage_at

        out = storage_at(f"{os.environ['SDF_HDFS']}/{Path(home).name}/out", "a test")
        lines = [line for name in out.names("") if name != "_SUCCESS" for line in out.read(name).splitlines()]
        return sorted((row["element"], row["i"]) for row in map(json.loads, lines)) if out.size("_SUCCESS") else None
    if kind == "s3":
        import fsspec

        fs = fsspec.filesystem("s3", skip_instance_cache=True, use_listings_cache=False)
        out = f"bucket/{Path(home).name}/out"
        if not fs.exists(f"{out}/_SUCCESS"):
            return None
        lines = [line for path in fs.glob(f"{out}/*.jsonl") for line in fs.cat_file(path).splitlines()]
        return sorted((row["element"], row["i"]) for row in map(json.loads, lines))
    import deltalake

    if not deltalake.DeltaTable.is_deltatable(f"{home}/table"):
        return None
    table = deltalake.DeltaTable(f"{home}/table").to_pyarrow_table().to_pylist()
    return sorted((row["element"], row["i"]) for row in table) or None


if __name__ == "__main__":
    from pyspark import SparkConf, SparkContext

    home, runner, kind = sys.argv[1:]
    conf = SparkConf().setMaster(f"local[{SLOTS}]").set("spark.ui.enabled", "false")
    sc = SparkContext(conf=conf.set("spark.python.worker.reuse", "true"))
    sc.setLogLevel("OFF")
    sink, checkpoint = sink_of(kind, home)
    print("begins", flush=True)
    summary = save_sdf(
        sc.parallelize(list(enumerate(ELEMENTS)), 2),
        RowsFn(f"{home}/claims"),
        sink,
        checkpoint=checkpoint,
        commit_seconds=COMMIT_SECONDS,
        runner=RUNNERS[runner](),
    )
    print(summary.records, summary.resumed, flush=True)
    os._exit(0)
