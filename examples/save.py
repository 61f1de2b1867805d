"""Gzip of JSON lines to Parquet, exactly once: python examples/save.py. Kill it at any moment, and start it again."""

import gzip
import json
import random
from pathlib import Path

from pyspark import SparkContext

from sdf import save_sdf
from sdf.io import ReadJsonLines
from sdf.sinks import ParquetFiles

HOME = Path("build/save-example")


def make_events():
    """Write three files of events, one of them huge, unless they are there."""
    HOME.mkdir(parents=True, exist_ok=True)
    for name, lines in {"small-1": 2_000, "small-2": 3_000, "huge": 400_000}.items():
        path = HOME / f"{name}.jsonl.gz"
        if path.exists():
            continue
        randomly = random.Random(name)
        part = path.with_suffix(".part")
        with gzip.open(part, "wt", compresslevel=1) as file:
            for number in range(lines):
                event = {"file": name, "number": number, "user": randomly.randrange(1000), "value": randomly.random()}
                file.write(json.dumps(event) + "\n")
        part.rename(path)
    return sorted(str(path) for path in HOME.glob("*.jsonl.gz"))


if __name__ == "__main__":
    paths = make_events()
    sc = SparkContext.getOrCreate()
    sc.setLogLevel("ERROR")
    summary = save_sdf(sc.parallelize(paths), ReadJsonLines(), ParquetFiles(str(HOME / "events")), commit_seconds=2)
    print(summary)
    print(f"python -m sdf.journal show {HOME}/_events.sdf  # says how it went")
