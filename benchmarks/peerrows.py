"""The rows of `peers.py`: their data, and how sdf and plain PySpark do them."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import peerdata
import peerprograms
from harness import write_lines
from peerprograms import CORES, NAMES, PIECES, STYLE, ranges

from sdf import DoFn, LiveRunner, OffsetRange, run_sdf
from sdf.io import MatchFiles, ReadAvro, ReadJsonLines, ReadLines, ReadParquet

SDF, BY_HAND = "sdf", ", cut by hand"
LESS = 4  # Beam gets one in so many of the lines and outputs


@attrs.frozen(kw_only=True)
class Row:
    """One job: its arguments, small ones to warm up on, less of it for Beam, and what it must give.

    ``ahead``: by which ratio sdf is to be ahead of a way, where that is not 1.
    """

    name: str  # of its programs
    label: str  # of its claims
    title: str
    amount: float
    unit: str
    spark: dict[str, Callable[..., Any]]
    arguments: list[Any]
    small: list[Any]
    truth: int
    less: list[Any] | None = None
    truth_of_less: int | None = None
    ahead: dict[str, float] = attrs.field(factory=dict)
    by_hand: list[Any] | None = None  # the last argument where it cuts; None: there are programs that cut

    def share(self, peer: str) -> float:
        """Return which share of the row a library does."""
        return 1 / LESS if self.less and peer.startswith("beam") else 1.0

    def variants(self, peer: str) -> dict[str, tuple[str, list[Any]]]:
        """Return the ways of a library: its programs and their arguments."""
        program = f"{self.name}_{STYLE.get(peer, peer)}"
        given = self.arguments if self.share(peer) == 1.0 or self.less is None else self.less
        found = {NAMES[peer]: (program, given)}
        if self.by_hand is None:
            found[NAMES[peer] + BY_HAND] = f"{program}_by_hand", given
        elif self.by_hand and peer != "beam":  # one process: to cut would change nothing
            found[NAMES[peer] + BY_HAND] = program, given[:-1] + self.by_hand
        return {way: each for way, each in found.items() if hasattr(peerprograms, each[0])}


def lengths(path):
    """Return the bytes of a file that are not ends of lines."""
    with open(path, "rb") as file:
        return sum(len(part) - part.count(b"\n") for part in iter(lambda: file.read(1 << 20), b""))


class CountFn(DoFn):
    def get_initial_restriction(self, element):
        return OffsetRange(*element[1:])

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield element[0], i


class SpendFn(DoFn):
    """Element: (first, last) block. One record per block."""

    def __init__(self, work):
        self.work = work

    def get_initial_restriction(self, element):
        return OffsetRange(*element)

    def process(self, element, tracker):
        for block in range(*tracker.current_restriction()):
            if not tracker.try_claim(block):
                return
            yield peerprograms.spend(self.work, block)


class Rows:
    """Makes the rows: their files in a folder, and Spark's ways to do them."""

    def __init__(self, sc, given, folder):
        self.sc = sc
        self.given = given
        self.folder = folder

    def sdf(self, elements, fn):
        return run_sdf(self.sc.parallelize(elements), fn, runner=LiveRunner())

    def path(self, name):
        return os.path.join(self.folder, name)

    def lines(self):
        paths = [self.path(f"{name}.txt") for name in ("all", "small", "less")]
        size = int(self.given.megabytes * 1e6)
        for path, each in zip(paths, (size, 1_000_000, size // LESS), strict=True):
            write_lines(path, each)
        yield Row(
            name="lines",
            label="lines",
            title=f"lines of one file of {self.given.megabytes:,.0f} MB, their lengths summed",
            amount=os.path.getsize(paths[0]) / 1e6,
            unit="MB/s",
            spark={
                SDF: lambda path: self.sdf([path], ReadLines()).map(len).sum(),
                "PySpark": lambda path: self.sc.textFile(path).map(len).sum(),
                "PySpark" + BY_HAND: lambda path: self.sc.textFile(path, PIECES).map(len).sum(),
            },
            arguments=paths[:1],
            small=paths[1:2],
            less=paths[2:],
            truth=lengths(paths[0]),
            truth_of_less=lengths(paths[2]),
        )

    def count(self):
        def elements(count):
            return [["a", 0, count], ["b", 0, count]]

        def flat_map(elements, pieces):
            parts = peerprograms.cut(elements, pieces)
            return self.sc.parallelize(parts, len(parts)).flatMap(peerprograms.outputs).count()

        count = self.given.count
        yield Row(
            name="count",
            label="many outputs",
            title=f"2 elements with {count:,} outputs each, counted",
            amount=2 * count / 1e6,
            unit="M/s",
            spark={
                SDF: lambda elements, _: self.sdf(elements, CountFn()).count(),
                "PySpark": flat_map,
                "PySpark" + BY_HAND: lambda elements, _: flat_map(elements, PIECES // 2),
            },
            arguments=[elements(count), 1],
            small=[elements(1000), 1],
            less=[elements(count // LESS), 1],
            truth=2 * count,
            truth_of_less=2 * (count // LESS),
            ahead={NAMES["beam"]: 10.0},
            by_hand=[PIECES // 2],
        )

    def skew(self):
        total = self.given.seconds * CORES

        def work(blocks, seconds, hot=(0, 0), factor=1):
            return {"blocks": round(blocks), "seconds": seconds, "hot": hot, "hot_seconds": seconds * factor}

        blocks = total / 0.001 / (0.95 + 0.05 * 50)
        hot = round(blocks * 0.62), round(blocks * 0.67)
        small = work(100, 0.001)
        for title, each, pieces in (
            ("one giant element", work(total / 0.02, 0.02), 1),
            ("one element with 5 % of it 50 times as dear", work(blocks, 0.001, hot, 50), 1),
            (f"{self.given.elements:,} small elements", work(self.given.elements, total / self.given.elements), None),
        ):
            yield Row(
                name="skew",
                label=title,
                title=f"{title}, {self.given.seconds:g} s of work per core",
                amount=1.0,
                unit="over ideal",
                spark=self.spending(each["blocks"] if pieces is None else pieces),
                arguments=[each, pieces or each["blocks"]],
                truth=each["blocks"],
                small=[small, 4],
                by_hand=[PIECES] if pieces else [],
            )

    def spending(self, pieces):
        def flat_map(work, pieces):
            parts = self.sc.parallelize(ranges(work["blocks"], pieces), min(pieces, PIECES))
            return parts.flatMap(lambda part: peerprograms.spend_all(part, work)).count()

        def ideal(work, _):
            """The blocks of each kind dealt out evenly."""
            first, last = work["hot"]
            hot = list(range(first, last))
            cold = [*range(first), *range(last, work["blocks"])]
            parts = self.sc.parallelize([hot[core::CORES] + cold[core::CORES] for core in range(CORES)], CORES)
            return parts.flatMap(lambda blocks: (peerprograms.spend(work, block) for block in blocks)).count()

        return {
            SDF: lambda work, pieces: self.sdf(ranges(work["blocks"], pieces), SpendFn(work)).count(),
            "ideal": ideal,
            "PySpark": flat_map,
            **({"PySpark" + BY_HAND: lambda work, _: flat_map(work, PIECES)} if pieces < PIECES else {}),
        }

    def files(self):
        folders = [self.path("files"), self.path("few")]
        lines = b"".join(b"x" * (number * 7919 % 200) + b"\n" for number in range(500))
        for folder, files in zip(folders, (self.given.files, 4), strict=True):
            os.mkdir(folder)
            for number in range(files):
                Path(folder, f"{number}.txt").write_bytes(lines)

        def by_hand(folder):
            return self.sc.parallelize(sorted(os.listdir(folder)), PIECES).map(
                lambda name: peerprograms.length_of_file(os.path.join(folder, name))
            )

        yield Row(
            name="files",
            label="many files",
            title=f"lines of {self.given.files:,} files of {len(lines) / 1e3:.0f} kB, their lengths summed",
            amount=self.given.files * len(lines) / 1e6,
            unit="MB/s",
            spark={
                SDF: lambda folder: self.many(folder).map(len).sum(),
                "PySpark": lambda folder: self.sc.textFile(folder).map(len).sum(),
                "PySpark" + BY_HAND: lambda folder: by_hand(folder).sum(),
            },
            arguments=folders[:1],
            truth=self.given.files * (len(lines) - lines.count(b"\n")),
            small=folders[1:],
        )

    def many(self, folder):
        return run_sdf(self.sdf([folder], MatchFiles()), ReadLines(), runner=LiveRunner())

    def written(self, kind, write):
        """Write a file of records and a small one; return their paths, and what it is."""
        paths = [self.path(f"all.{kind}"), self.path(f"small.{kind}")]
        write(paths[0], self.given.records)
        write(paths[1], 1000)
        return paths, f"one file of {self.given.records:,} records, {os.path.getsize(paths[0]) / 1e6:.0f} MB"

    def avro(self):
        (path, small), what = self.written("avro", peerdata.write_avro)

        def plainly(path):
            return self.sc.parallelize([path], 1).map(peerprograms.records_of_avro).sum()

        yield Row(
            name="avro",
            label="Avro",
            title=f"Avro, {what}, counted",
            amount=self.given.records / 1e6,
            unit="M/s",
            spark={SDF: lambda path: self.sdf([path], ReadAvro()).count(), "PySpark": plainly},
            arguments=[path],
            truth=self.given.records,
            small=[small],
        )

    def gzip(self):
        (path, small), what = self.written("json.gz", peerdata.write_gzip)
        index = self.path("index")

        def field(rows):
            return rows.map(lambda row: row["id"]).sum()

        def sdf(path, fresh):
            if fresh:
                shutil.rmtree(index, ignore_errors=True)
            return field(self.sdf([path], ReadJsonLines(index_dir=index)))

        yield Row(
            name="gzip",
            label="JSON in gzip",
            title=f"JSON lines in gzip, {what}, a field summed",
            amount=self.given.records / 1e6,
            unit="M/s",
            spark={
                SDF: lambda path: sdf(path, True),
                "sdf, has the index of an earlier run": lambda path: sdf(path, False),
                "PySpark": lambda path: field(self.sc.textFile(path).map(json.loads)),
            },
            arguments=[path],
            truth=sum(range(self.given.records)),
            small=[small],
        )

    def parquet(self):
        from pyspark.sql import SparkSession

        (path, small), what = self.written("parquet", peerdata.write_parquet)
        spark = SparkSession(self.sc)

        def by_hand(path):
            groups = peerprograms.row_groups(path)
            return self.sc.parallelize(groups, len(groups)).map(peerprograms.sum_of_row_group).sum()

        yield Row(
            name="parquet",
            label="Parquet",
            title=f"Parquet, {what}, all columns as dicts, a field summed",
            amount=self.given.records / 1e6,
            unit="M/s",
            spark={
                SDF: lambda path: self.sdf([path], ReadParquet()).map(lambda row: row["id"]).sum(),
                "PySpark": lambda path: spark.read.parquet(path).rdd.map(lambda row: row["id"]).sum(),
                "PySpark" + BY_HAND: by_hand,
            },
            arguments=[path],
            truth=sum(range(self.given.records)),
            small=[small],
        )
