"""Watch a directory, follow the log files in it, and count lines per level: python examples/watch_logs.py LOGS STATE

Kill it and start it again: no line is lost, none is counted twice. STATE holds the journal, and one small file of
counts for each batch; a batch that runs again after a crash writes the same file again.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

from pyspark import SparkContext

from sdf import stream_sdf
from sdf.io import TailLines, WatchFiles


def level(line):
    """Return the first word of a line."""
    return line.split(" ", 1)[0]


def write_counts(folder):
    """Return a sink that writes the counts of a batch to a file named by its key, whole or not at all."""

    def write(batch):
        counts = batch.rdd.map(level).countByValue()
        path = Path(folder, f"{batch.key}.json")
        path.with_suffix(".tmp").write_text(json.dumps(counts, sort_keys=True))
        os.replace(path.with_suffix(".tmp"), path)

    return write


def totals(folder):
    """Return the counts of all batches."""
    return sum((Counter(json.loads(path.read_text())) for path in Path(folder).glob("*.json")), Counter())


def main(logs, state, **options):
    counts = Path(state, "counts")
    counts.mkdir(parents=True, exist_ok=True)
    with SparkContext.getOrCreate() as sc:
        summary = stream_sdf(
            sc.parallelize([str(logs)]),
            [WatchFiles(interval_seconds=1, modified="ignore"), TailLines(poll_seconds=0.5)],
            checkpoint=Path(state, "journal"),
            foreach_batch=write_counts(counts),
            **options,
        )
    print(summary)
    print(dict(totals(counts)))


if __name__ == "__main__":
    main(*sys.argv[1:3])
