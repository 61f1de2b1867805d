"""Do time and memory of every reader and sink grow with the input, and no faster?

Each row reads or writes an input of size n, then one of 4 n, each in a process of its own: how often more seconds of
CPU and more memory that took. Each input is the hardest for its reader: one long record, many small parts,
marks that only look like the start of something, many columns. 4 is linear; a cost that does not grow is below 4.

    python benchmarks/linear.py [--only WARC Avro]
"""

import bz2
import csv
import gzip
import io
import json
import os
import sqlite3
import tarfile
import tempfile
import time
import uuid
from contextlib import suppress

import fastavro
import lmdb
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from harness import Bench, forget_peak, in_processes, peak_megabytes

from sdf import run_direct
from sdf.errors import SdfError
from sdf.io import (
    ReadAvro,
    ReadCsv,
    ReadJson,
    ReadJsonLines,
    ReadLines,
    ReadLmdb,
    ReadParquet,
    ReadTable,
    ReadTar,
    ReadWarc,
    ReadXml,
)
from sdf.sinks import DeltaTable, JsonLinesFiles, ParquetFiles, Place, SinkRun, SqlTable, TextFiles, Token

MARKER = b"12345678abcdefgh"
SQUARE, LINEAR = 16, 4
ENOUGH_SECONDS, ENOUGH_MEGABYTES = 0.05, 20  # below, a ratio says nothing


def write(name, data):
    with open(name, "wb") as file:
        file.write(data)
    return name


def avro_with_marks(n):
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "bytes"}]}
    with open("a", "wb") as file:
        records = ({"s": MARKER + b"y" * 500} for _ in range(n))
        fastavro.writer(file, schema, records, sync_marker=MARKER, sync_interval=4000)
    return "a"


def tar_of_links(n):
    with tarfile.open("a.tar", "w") as archive:
        for number in range(n):
            member = tarfile.TarInfo(str(number))
            if number:
                member.type, member.linkname = tarfile.LNKTYPE, str(number - 1)
            archive.addfile(member, io.BytesIO())
    return "a.tar"


def warc_in_warc(n):
    inner = b"".join(b"WARC/1.0\r\nContent-Length: 1\r\n\r\n1\r\n\r\n" for _ in range(n)) + b"WARC/1.0\r\n" * n
    return write("a.warc", b"WARC/1.0\r\nContent-Length: %d\r\n\r\n" % len(inner) + inner + b"\r\n\r\n")


def wide_parquet(n):
    pq.write_table(pa.table({f"c{number}": [1.0] * 100 for number in range(n)}), "a.parquet")
    return "a.parquet"


def table(n):
    with sqlite3.connect("a.db") as database:
        database.execute("create table t (k integer primary key, v text)")
        database.executemany("insert into t values (?, 'text')", ((number,) for number in range(n)))
    return "t"


def environment(n):
    with lmdb.open("e", map_size=1 << 32) as opened, opened.begin(write=True) as writing:
        for number in range(n):
            writing.put(b"%09d" % number, b"value")
    return "e"


def text_of(n):
    return b"".join(b"line %d of a log\n" % number for number in range(n))


def csv_of(columns, rows):
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(f"c{number}" for number in range(columns))
    writer.writerows([1] * columns for _ in range(rows))
    return text.getvalue().encode()


READERS = {  # what is read: size, how it is written, and the reader; a file with a flaw is read up to there
    "lines: one long": (10_000_000, lambda n: write("a", b"a" * n), ReadLines()),
    "lines: one long, another delimiter": (10_000_000, lambda n: write("a", b"a" * n), ReadLines(delimiter=b"\r\n")),
    "lines: empty": (200_000, lambda n: write("a", b"\n" * n), ReadLines()),
    "bzip2: small streams": (
        2000,
        lambda n: write("a.bz2", b"".join(bz2.compress(b"line %d\n" % number) for number in range(n))),
        ReadLines(),
    ),
    "bzip2: one long record": (
        20_000_000,
        lambda n: write("a.bz2", bz2.compress(b"a" * n + b"\r\nb\r\n")),
        ReadLines(delimiter=b"\r\n"),
    ),
    "gzip: small members": (
        5000,
        lambda n: write("a.gz", b"".join(gzip.compress(b"line %d\n" % number) for number in range(n))),
        ReadLines(),
    ),
    "zstd: small frames": (
        5000,
        lambda n: write("a.zst", b"".join(zstandard.compress(b"line %d\n" % number) for number in range(n))),
        ReadLines(),
    ),
    "CSV: a missing quote": (
        250_000,
        lambda n: write("a", b'a,b\n1,"x\n' + b"1,2\n" * n),
        ReadCsv(quoted_newlines=True),
    ),
    "CSV: one long field": (5_000_000, lambda n: write("a", b'a\n"' + b"x" * n + b'"\n'), ReadCsv()),
    "CSV: columns": (5000, lambda n: write("a", csv_of(n, 20)), ReadCsv()),
    "CSV: columns, in batches": (60_000, lambda n: write("a", csv_of(n, 3)), ReadCsv(batches=True)),
    "JSON lines: one deep and long": (
        500_000,
        lambda n: write("a", b'{"a":[' + b"1," * n + b"1]}\n"),
        ReadJsonLines(),
    ),
    "JSON array: many brackets": (200_000, lambda n: write("a", json.dumps([[{}]] * n).encode()), ReadJson()),
    "XML: one long start tag": (
        200_000,
        lambda n: write("a", b"<t><r " + b"a='1' " * n + b"/></t>"),
        ReadXml("r", parse=len),
    ),
    "XML: start tags alone": (100_000, lambda n: write("a", b"<t>" + b"<r>" * n), ReadXml("r", on_error="tag")),
    "XML: one long record of comments": (
        100_000,
        lambda n: write("a", b"<t><r>" + b"<!-- </r> -->" * n + b"</r></t>"),
        ReadXml("r", parse=len),
    ),
    "XML: one long comment, hidden tags": (
        100_000,
        lambda n: write("a", b"<t><!--" + b"<r/>" * n + b"--></t>"),
        ReadXml("r", hidden_tags=True),
    ),
    "Avro: marks in records, in parts": (10_000, avro_with_marks, ReadAvro(block_size=100_000)),
    "Parquet: columns": (500, wide_parquet, ReadParquet()),
    "WARC: records and beginnings in one": (5000, warc_in_warc, ReadWarc(walk=False)),
    "tar: links": (3000, tar_of_links, ReadTar()),
    "SQL: rows": (20_000, table, ReadTable("sqlite:///a.db", key="k")),
    "LMDB: keys": (50_000, environment, ReadLmdb()),
}
WRITERS = {
    "text: records": (100_000, lambda n: ["a line of text"] * n, lambda: TextFiles("o")),
    "JSON lines: records": (50_000, lambda n: [{"id": 1, "name": "x"}] * n, lambda: JsonLinesFiles("o")),
    "Parquet: records": (50_000, lambda n: [{"id": 1, "name": "x"}] * n, lambda: ParquetFiles("o")),
    "Parquet: columns": (500, lambda n: [{f"c{i}": 1.0 for i in range(n)}] * 20, lambda: ParquetFiles("o")),
    "Parquet: columns, in tables": (
        250,
        lambda n: [pa.table({f"c{i}": [1.0] * 100 for i in range(n)})] * 5,
        lambda: ParquetFiles("o"),
    ),
    "Delta: columns": (500, lambda n: [{f"c{i}": 1.0 for i in range(n)}] * 20, lambda: DeltaTable("o")),
    "SQL: rows": (10_000, lambda n: [{"k": i, "v": "text"} for i in range(n)], lambda: _sql("sqlite:///o.db")),
}


def _sql(url):
    with sqlite3.connect("o.db") as database:
        database.execute("create table t (k integer primary key, v text)")
    return SqlTable(url, "t")


def save(sink, records):
    token = Token(uuid.uuid4().hex, 0)
    sink.prepare(SinkRun(token, "main", False))
    messages = [sink.write(iter(records), Place(token, "main", "seg-0", None))]
    sink.commit(messages, token)
    sink.clean(token)


def measured(kind, name, times):
    """Return the seconds of CPU and the megabytes that a row takes, without those of making its input."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        size, make, made = (READERS if kind == "read" else WRITERS)[name]
        given = make(size * times)
        sink = None if kind == "read" else made()
        forget_peak()
        before, started = peak_megabytes(), time.process_time()
        if sink is not None:
            save(sink, given)
        else:
            with suppress(SdfError):
                run_direct([given], made, tags=("bad",) if getattr(made, "on_error", "") == "tag" else ())
        return time.process_time() - started, peak_megabytes() - before


def main():
    bench = Bench(__doc__, rounds=1)
    kinds = sorted({name.partition(":")[0] for name in (*READERS, *WRITERS)})
    bench.option("--only", kinds, choices=kinds)
    given = bench.begin()
    formats = {"": "{}", "n": "{:,}", "s": "{:.2f}", "times at 4 n": "{:.1f}", "MB": "{:.0f}", "times": "{:.1f}"}
    shown = bench.table("n and 4 n", formats)
    slowest = largest = 0.0
    for kind, rows in (("read", READERS), ("write", WRITERS)):
        for name, (size, _, _) in rows.items():
            if name.partition(":")[0] not in given.only:
                continue
            [(seconds, megabytes)], [(later, more)] = (in_processes(1, measured, kind, name, k) for k in (1, LINEAR))
            slower = later / max(seconds, ENOUGH_SECONDS)
            larger = more / max(megabytes, ENOUGH_MEGABYTES)
            shown.row(f"{kind} {name}", size, seconds, slower, megabytes, larger)
            slowest, largest = max(slowest, slower), max(largest, larger)
    bench.claim("times as long for 4 n", slowest, at_most=SQUARE / 2)
    bench.claim("times as much memory for 4 n", largest, at_most=SQUARE / 2)
    bench.end()


if __name__ == "__main__":
    main()
