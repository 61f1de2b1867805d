"""Watches a directory and follows its files, as a program that can be killed: python watching.py LOGS STATE [REGEX]"""

import json
import os
import sys
import time
from pathlib import Path

from pyspark import SparkConf, SparkContext

from sdf import TaggedOutput, WalltimeWatermark, stream_sdf
from sdf.io import TailLines, WatchFiles
from support.streaming import grouped


def found(file):
    """Give each file on: a function between two DoFns."""
    yield file


class MarkedLines(TailLines):
    """Also gives each line with a mark, a side input, as a tagged output.

    Its watermark is the time of the clock: it moves though no line comes.
    """

    def create_watermark_estimator(self, element, restriction):
        return WalltimeWatermark(time.time)

    def process(self, element, tracker, mark):
        for line in super().process(element, tracker):
            yield line
            yield TaggedOutput("marked", f"{line}{mark}")


def sink(folder, output="main"):
    def write(batch):
        path = Path(folder, f"{batch.id:08d}")
        path.with_suffix(".tmp").write_text(json.dumps(batch.outputs[output].collect()))
        os.replace(path.with_suffix(".tmp"), path)

    return write


def lines(folder):
    """Return what is in a sink's files."""
    return [line for path in sorted(Path(folder).iterdir()) if not path.suffix for line in json.loads(path.read_text())]


def watch(sc, logs, state, regex=None, **options):
    """Run the stream, of files whose names match if there is a regular expression.

    That leaves out the copies of copytruncate. It may cut off lines that a batch has read which then comes again.
    """
    loses = regex is not None
    folders = {"main": Path(state, "out"), "marked": Path(state, "marked")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)

    def write(batch):
        for output, folder in folders.items():
            sink(folder, output)(batch)

    return stream_sdf(
        sc.parallelize([str(logs)], 1),
        [
            WatchFiles(interval_seconds=0.2, modified="ignore", regex=regex),
            found,
            MarkedLines(poll_seconds=0.1, fail_on_data_loss=not loses),
        ],
        checkpoint=Path(state, "journal"),
        foreach_batch=write,
        tags=("marked",),
        side_inputs={"mark": "!"},
        short_batches="give" if loses else "skip",
        **grouped(batch_seconds=0.2, watermark_seconds=0.1, **options),
    )


if __name__ == "__main__":
    logs, state, *regex = sys.argv[1:]
    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false")
    with SparkContext(conf=conf) as sc:
        sc.setLogLevel("OFF")
        watch(sc, logs, state, *regex)
