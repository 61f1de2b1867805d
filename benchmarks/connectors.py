"""How fast are the connectors beside the libraries that they read with, and beside Spark's own way?

Avro and Parquet: records a second and core, beside their library in one process of its own. bzip2 and BGZF: two lanes
beside one. gzip: JSON lines parsed, beside sc.textFile; the first time the index is built, the second time it is there.
All in one run on the same files; ratios are of medians.

    python benchmarks/connectors.py [--megabytes 200] [--gzip-megabytes 500] [--rounds 3] [--only avro parquet]
"""

import argparse
import bz2
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

from pyspark import SparkConf, SparkContext

from sdf import LiveRunner, run_sdf
from sdf.io import ReadAvro, ReadJsonLines, ReadLines, ReadParquet

CORES = 2
LIBRARY = {
    "avro": "import fastavro\nwith open(path, 'rb') as file: count = sum(1 for _ in fastavro.reader(file))",
    "parquet": "import pyarrow.parquet as pq\ncount = sum(1 for batch in pq.ParquetFile(path).iter_batches() "
    "for _ in batch.to_pylist())",
    "parquet batches": "import pyarrow as pa, pyarrow.parquet as pq\npa.set_cpu_count(1)\n"
    "count = sum(batch.num_rows for batch in pq.ParquetFile(path).iter_batches())",
}


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
    import fastavro

    fields = [("id", "long"), ("user", "string"), ("score", "double"), ("text", "string")]
    schema = {"type": "record", "name": "Row", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    with open(path, "wb") as file:
        fastavro.writer(file, schema, rows(size // 100), codec="deflate", sync_interval=64_000)


def write_parquet(path, size):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(list(rows(size // 100))), path, row_group_size=50_000)


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
    with bz2.open(path, "wb") as file:
        for part in text(size):
            file.write(part)


def write_bgzf(path, size):
    """Write blocked gzip, as bgzip does: members of at most 64 KiB that each say how long they are."""
    with open(path, "wb") as file:
        for part in text(size):
            blocks = [bgzf_block(part[start : start + 65_280]) for start in range(0, len(part), 65_280)]
            file.write(b"".join(blocks) * 5)
        file.write(bgzf_block(b""))


def bgzf_block(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = packer.compress(data) + packer.flush()
    header = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0" + (len(packed) + 25).to_bytes(2, "little")
    return header + packed + zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")


def write_gzip(path, size):
    """Write one member until the file has ``size`` bytes."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    with open(path, "wb") as file:
        for part in text(1 << 40):
            file.write(packer.compress(part))
            if file.tell() >= size:
                break
        file.write(packer.flush())


def in_turn(runs, rounds):
    """Run each in turn, ``rounds`` times; check that all give the same; return the median seconds of each."""
    seconds, results = {name: [] for name in runs}, set()
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            result = run()
            took = time.perf_counter() - began
            if isinstance(result, tuple):
                result, took = result  # what a process of its own measured
            seconds[name].append(took)
            results.add(result)
    assert len(results) == 1, results
    return {name: statistics.median(taken) for name, taken in seconds.items()}, results.pop()


def in_processes(path, code, number):
    """Run ``code``, which counts, in processes of its own, at once; return the count and the mean of their seconds."""
    program = f"import time\npath = {path!r}\nt = time.perf_counter()\n{code}\nprint(count, time.perf_counter() - t)"
    started = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(number)
    ]
    found = [process.communicate()[0].split() for process in started]
    return int(found[0][0]), statistics.mean(float(seconds) for _, seconds in found)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--megabytes", type=int, default=500)
    options.add_argument("--gzip-megabytes", type=int, default=500)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", nargs="*", default=["avro", "parquet", "bzip2", "bgzf", "gzip"])
    options = options.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(f"local[{CORES}]").setAppName("connectors")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, Spark {sc.version}")
    size = options.megabytes * 1_000_000

    def count(path, fn, lanes=CORES):
        return run_sdf(sc.parallelize([path], 1), fn, runner=LiveRunner(lanes=lanes)).count()

    with tempfile.TemporaryDirectory() as folder:
        for kind, fn, write in (("avro", ReadAvro(), write_avro), ("parquet", ReadParquet(), write_parquet)):
            if kind not in options.only:
                continue
            path = os.path.join(folder, f"a.{kind}")
            write(path, size)
            runs = {
                "library, one process": lambda path=path, kind=kind: in_processes(path, LIBRARY[kind], 1),
                "library, two at once": lambda path=path, kind=kind: in_processes(path, LIBRARY[kind], 2),
                "sdf, 1 lane": lambda path=path, fn=fn: count(path, fn, 1),
                "sdf, 2 lanes": lambda path=path, fn=fn: count(path, fn),
            }
            in_turn(runs, 1)
            taken, records = in_turn(runs, options.rounds)
            print(f"{kind}, {records:,} records of {os.path.getsize(path) / 1e6:.0f} MB")
            alone = taken["library, one process"]
            for name, seconds in taken.items():
                per_core = alone / seconds / (CORES if "2 lanes" in name else 1)
                print(
                    f"  {name:24}{seconds:8.2f} s{records / seconds / 1e6:8.2f} M/s{per_core:8.2f} x per core",
                    flush=True,
                )

        for kind, write in (("bzip2", write_bzip2), ("bgzf", write_bgzf)):
            if kind not in options.only:
                continue
            path = os.path.join(folder, f"a.{'bz2' if kind == 'bzip2' else 'gz'}")
            write(path, size)
            runs = {
                f"{lanes} lanes": lambda path=path, lanes=lanes: count(path, ReadLines(), lanes) for lanes in (1, 2)
            }
            in_turn(runs, 1)
            taken, records = in_turn(runs, options.rounds)
            print(f"{kind}, {records:,} lines of one file of {os.path.getsize(path) / 1e6:.0f} MB")
            for name, seconds in taken.items():
                print(f"  {name:24}{seconds:8.2f} s{taken['1 lanes'] / seconds:8.2f} x", flush=True)

        if "gzip" in options.only:
            path, index = os.path.join(folder, "b.json.gz"), os.path.join(folder, "index")
            write_gzip(path, options.gzip_megabytes * 1_000_000)

            def parsed(fresh):
                if fresh:
                    shutil.rmtree(index, ignore_errors=True)
                fn = ReadJsonLines(index_dir=index)
                return run_sdf(sc.parallelize([path], 1), fn, runner=LiveRunner()).map(lambda row: row["score"]).sum()

            runs = {
                "sc.textFile": lambda: sc.textFile(path).map(json.loads).map(lambda row: row["score"]).sum(),
                "sdf, builds the index": lambda: parsed(True),
                "sdf, has the index": lambda: parsed(False),
            }
            taken, _ = in_turn(runs, max(1, options.rounds - 2))
            print(f"gzip, JSON lines parsed, one file of {os.path.getsize(path) / 1e6:.0f} MB")
            for name, seconds in taken.items():
                print(f"  {name:24}{seconds:8.2f} s{taken['sc.textFile'] / seconds:8.2f} x", flush=True)
    sc.stop()


if __name__ == "__main__":
    main()
