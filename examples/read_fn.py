"""Read Avro files block by block, one of them far bigger than the rest.

python examples/read_fn.py [FILE ...]
python examples/read_fn.py --compare     # the same with flatMap, which reads each file in one task
"""

import os
import sys
import tempfile
import time

import fastavro
from avro_files import write_source_lines
from pyspark import SparkContext

from sdf import DoFn, LiveRunner, OffsetRange, run_sdf


class ReadFn(DoFn):
    """Element: path of an Avro file. Position: the first byte of a block. Output: the records of its blocks."""

    def get_initial_restriction(self, path):
        return OffsetRange(0, os.path.getsize(path))

    def process(self, path, tracker):
        with open(path, "rb") as file:
            blocks = fastavro.block_reader(file)  # reads the header; from here on it reads where the file stands
            seek_block(file, tracker.current_restriction().start)
            for block in tracker.claims(blocks, position=lambda block: block.offset):
                yield from block


def seek_block(file, start):
    """Seek to the first block that begins at or after ``start``: right behind a sync marker."""
    at = file.seek(file.tell() - 16)
    marker = file.read(16)  # the header ends in it
    at = file.seek(max(at, start - 16))
    seen = b""
    while chunk := file.read(1 << 16):
        seen += chunk
        if marker in seen:
            file.seek(at + seen.index(marker) + 16)
            return
        at, seen = at + len(seen) - 15, seen[-15:]


def read_whole(path):
    with open(path, "rb") as file:
        for block in fastavro.block_reader(file):
            yield from block


def words(record):
    return len(record["text"].split())


def compare(sc, paths):
    """Count the words in both ways, once Spark's workers have started; print how long each takes."""
    files = sc.parallelize(paths, 16)
    files.map(os.path.getsize).sum()
    took = {}
    for name, records in (
        ("flatMap", lambda: files.flatMap(read_whole)),
        ("run_sdf", lambda: run_sdf(files, ReadFn(), runner=LiveRunner())),
    ):
        began = time.perf_counter()
        total = records().map(words).sum()
        took[name] = time.perf_counter() - began
        print(f"{name}: {total:,} words in {took[name]:.1f} s")
    print(f"run_sdf was {took['flatMap'] / took['run_sdf']:.2f} times as fast, on {sc.defaultParallelism} cores")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, SparkContext.getOrCreate() as sc:
        if sys.argv[1:] == ["--compare"]:
            compare(sc, write_source_lines(folder, times=8))
            sys.exit()
        paths = sys.argv[1:] or write_source_lines(folder)
        records = run_sdf(sc.parallelize(paths), ReadFn())
        print(f"{records.count():,} records in {len(paths)} files; {records.report.stages} stages ran")
        print("split:", ", ".join(os.path.basename(path) for path in records.report.split_elements))
        print(records.report)
