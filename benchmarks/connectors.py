"""How fast are the connectors beside the libraries that they read with, and beside Spark's own way?

Avro, Parquet and CSV: records per second and core, beside their library in one process; CSV also beside Spark's own
reader. bzip2 and BGZF: two lanes beside one, and beside sc.textFile. gzip: JSON lines parsed, beside sc.textFile, with
the index still to be built, then with the index found. Each takes some seconds, so the start of jobs hardly counts.

    python benchmarks/connectors.py [--avro-megabytes 900] [--only avro parquet]
"""

import bz2
import csv
import itertools
import json
import os
import random
import shutil
import statistics
import tempfile
import time
import zlib

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Bench, Timed, in_processes, in_turn
from pyspark.sql import SparkSession

from sdf import LiveRunner, run_sdf
from sdf.io import ReadAvro, ReadCsv, ReadJsonLines, ReadLines, ReadParquet

CORES = 2
REPEATED = 4  # so often what is read comes in a file, since to write it takes longer than to read it
FIELDS = ["id", "user", "score", "text"]


def rows(count):
    """Give rows as a log has them, the same in every run."""
    words = random.Random(5).choices(["time", "level", "user", "path", "status", "agent", "host", "error"], k=1000)
    for number in range(count):
        yield {
            "id": number,
            "user": f"user{number * 7919 % 100_003}",
            "score": number * 0.5,
            "text": " ".join(words[number % 900 : number % 900 + 12]),
        }


def write_avro(path, size):
    types = ["long", "string", "double", "string"]
    fields = [{"name": name, "type": kind} for name, kind in zip(FIELDS, types, strict=True)]
    schema = {"type": "record", "name": "Row", "fields": fields}
    with open(path, "wb") as file:
        fastavro.writer(file, schema, [], codec="deflate")
    first = os.path.getsize(path)
    with open(path, "ab+") as file:
        fastavro.writer(file, schema, rows(size // 100 // REPEATED), codec="deflate", sync_interval=64_000)
        file.seek(first)
        file.write(file.read() * (REPEATED - 1))


def write_parquet(path, size):
    given = rows(size // 100)
    first = pa.RecordBatch.from_pylist(list(itertools.islice(given, 50_000)))
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_batch(first)
        while group := list(itertools.islice(given, 50_000)):
            writer.write_batch(pa.RecordBatch.from_pylist(group, schema=first.schema))


def write_csv(path, size):
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(row.values() for row in rows(size // 100))


def text(size):
    """Give JSON lines, about ``size`` bytes of them, a megabyte or so at a time."""
    part, length = [], 0
    for row in rows(size):
        part.append(json.dumps(row))
        length += len(part[-1]) + 1
        if len(part) == 8000:
            yield "\n".join(part).encode() + b"\n"
            part = []
            if length >= size:
                return


def write_bzip2(path, size):
    with open(path, "wb") as file:
        file.write(bz2.compress(b"".join(text(size // REPEATED))) * REPEATED)


def write_bgzf(path, size):
    """Write blocked gzip, as bgzip does: members of at most 64 KiB that each say how long they are."""
    with open(path, "wb") as file:
        for part in text(size // REPEATED):
            blocks = [bgzf_block(part[start : start + 65_280]) for start in range(0, len(part), 65_280)]
            file.write(b"".join(blocks) * REPEATED)
        file.write(bgzf_block(b""))


def bgzf_block(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = packer.compress(data) + packer.flush()
    header = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0" + (len(packed) + 25).to_bytes(2, "little")
    return header + packed + zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")


def write_gzip(path, size):
    """Write one member."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    with open(path, "wb") as file:
        for part in text(size):
            file.write(packer.compress(part))
        file.write(packer.flush())


def read_avro(path):
    with open(path, "rb") as file:
        return sum(1 for _ in fastavro.reader(file))


def read_parquet(path):
    return sum(1 for batch in pq.ParquetFile(path).iter_batches() for _ in batch.to_pylist())


def read_csv(path):
    with open(path, newline="") as file:
        return sum(1 for _ in csv.reader(file))


LIBRARIES = {
    "avro": (write_avro, read_avro, ReadAvro()),
    "parquet": (write_parquet, read_parquet, ReadParquet()),
    "csv": (write_csv, read_csv, ReadCsv(header=False)),
}
COMPRESSED = {"bzip2": (write_bzip2, "bz2", 1), "bgzf": (write_bgzf, "gz", 5)}  # how often --bzip2-megabytes


def timed(read, path):
    """Run a reader in a process that has imported all that it needs."""
    began = time.perf_counter()
    return Timed(read(path), time.perf_counter() - began)


def alone(read, path, number):
    """Read in processes of their own, at once."""
    found = in_processes(number, timed, read, path)
    return Timed(found[0].result, statistics.mean(one.seconds for one in found))


def megabytes(path):
    return os.path.getsize(path) / 1e6


class Connectors:
    """The ways to read, of one SparkContext."""

    def __init__(self, bench, given, folder):
        self.bench = bench
        self.given = given
        self.folder = folder
        self.sc = bench.spark(CORES)

    def count(self, path, fn, lanes):
        return run_sdf(self.sc.parallelize([path], 1), fn, runner=LiveRunner(lanes=lanes)).count()

    def spark_csv(self, path):
        return SparkSession(self.sc).read.csv(path).rdd.count()

    def write(self, write, name, size):
        path = os.path.join(self.folder, name)
        write(path, int(size * 1e6))
        return path

    def beside_library(self, kind):
        write, read, fn = LIBRARIES[kind]
        size = self.given.avro_megabytes if kind == "avro" else self.given.megabytes
        path = self.write(write, f"a.{kind}", size)
        records = int(size * 1e6) // 100
        runs = {
            "library, one process": lambda: alone(read, path, 1),
            "library, two at once": lambda: alone(read, path, 2),
            "sdf, 1 lane": lambda: self.count(path, fn, 1),
            "sdf, 2 lanes": lambda: self.count(path, fn, 2),
        }
        if kind == "csv":
            runs["spark.read.csv(...).rdd"] = lambda: self.spark_csv(path)
        taken = in_turn(runs, self.given.rounds, warm_up=False)  # it would cost a quarter of the time
        table = self.bench.table(
            f"{kind}, {records:,} records of {megabytes(path):,.1f} MB",
            {"": "{}", "s": "{:.2f}", "M/s": "{:.2f}", "x per core": "{:.2f}"},
        )
        for name, one in taken.items():
            cores = 1 if name in ("library, one process", "library, two at once", "sdf, 1 lane") else CORES
            per_core = taken["library, one process"].median / one.median / cores
            table.row(name, one.median, records / one.median / 1e6, per_core)
            if name == "sdf, 2 lanes" and kind != "csv":
                self.bench.claim(f"{kind} per core, over its library in one process", per_core, at_least=0.9)
        if kind == "csv":
            ratio = taken["spark.read.csv(...).rdd"].median / taken["sdf, 2 lanes"].median
            self.bench.claim("csv, 2 lanes over spark.read.csv", ratio, at_least=1)

    def compressed(self, kind):
        write, ending, times = COMPRESSED[kind]
        path = self.write(write, f"b.{ending}", self.given.bzip2_megabytes * times)
        runs = {f"lanes: {lanes}": lambda lanes=lanes: self.count(path, ReadLines(), lanes) for lanes in (1, CORES)}
        runs["sc.textFile"] = lambda: self.sc.textFile(path, CORES).count()

        def claims(one, two, spark):
            self.bench.claim(f"{kind}, 2 lanes over 1", one / two, at_least=1.8)
            self.bench.claim(f"{kind}, 2 lanes over sc.textFile", spark / two, at_least=1)

        self.beside_first(f"{kind}, lines of one file of {megabytes(path):,.1f} MB", runs, claims)

    def gzip(self):
        path = self.write(write_gzip, "c.json.gz", self.given.gzip_megabytes)
        index = os.path.join(self.folder, "index")

        def parsed():
            fn = ReadJsonLines(index_dir=index)
            lines = run_sdf(self.sc.parallelize([path], 1), fn, runner=LiveRunner())
            return lines.map(lambda row: row["score"]).sum()

        def builds():
            shutil.rmtree(index, ignore_errors=True)
            return parsed()

        runs = {
            "sc.textFile": lambda: self.sc.textFile(path).map(json.loads).map(lambda row: row["score"]).sum(),
            "sdf, builds the index": builds,
            "sdf, has the index": parsed,
        }

        def claims(spark, first, second):
            self.bench.claim("gzip, the run that builds the index, over sc.textFile", spark / first, at_least=1.4)
            self.bench.claim(
                "gzip, the run that has the index, over the one that builds it", first / second, at_least=1
            )

        title = f"gzip, JSON lines parsed, one file of {megabytes(path):,.1f} MB"
        self.beside_first(title, runs, claims, warm_up=False)

    def beside_first(self, title, runs, claims, *, warm_up=True):
        """Measure ways beside the first of them; ``claims`` gets the seconds of each."""
        taken = in_turn(runs, self.given.rounds, warm_up=warm_up)
        table = self.bench.table(title, {"": "{}", "s": "{:.2f}", "x": "{:.2f}"})
        first = next(iter(taken.values())).median
        for name, one in taken.items():
            table.row(name, one.median, first / one.median)
        claims(*(one.median for one in taken.values()))


KINDS = [*LIBRARIES, *COMPRESSED, "gzip"]


def main():
    bench = Bench(__doc__)
    bench.option("--megabytes", 300, quick=2, help="of Parquet and CSV, before compression")
    bench.option("--avro-megabytes", 900, quick=2, help="before compression")
    bench.option("--bzip2-megabytes", 500, quick=4, help="of text; of BGZF five times that")
    bench.option("--gzip-megabytes", 200, quick=4, help="of text")
    bench.option("--only", KINDS, choices=KINDS)
    given = bench.begin()
    with tempfile.TemporaryDirectory() as folder:
        connectors = Connectors(bench, given, folder)
        for kind in given.only:
            if kind in LIBRARIES:
                connectors.beside_library(kind)
            elif kind in COMPRESSED:
                connectors.compressed(kind)
            else:
                connectors.gzip()
    bench.end()


if __name__ == "__main__":
    main()
