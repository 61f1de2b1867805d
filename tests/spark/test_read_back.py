"""What save_sdf has saved, read by somebody else's reader: the same rows as run_direct gives."""

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_direct, save_sdf
from sdf.sinks import DeltaTable, IcebergTable, JsonLinesFiles, ParquetFiles, SqlTable, TextFiles

ELEMENTS = [("a", 3000), ("é, 'quoted'", 5), ("none", 0), ("b\n", 1)]
RUNNERS = [StagedRunner(), LiveRunner()]


class RowsFn(DoFn):
    """Gives rows with texts, numbers and nothing; of some elements none."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield {"name": element[0], "i": i, "half": i / 2, "odd": None if i % 2 == 0 else i}


class LinesFn(RowsFn):
    """The same as lines of text."""

    def process(self, element, tracker):
        for row in super().process(element, tracker):
            yield json.dumps(row)


def save(sc, tmp_path, sink, fn=None):
    """Save with both runners, one after the other where the sink appends; return how often each row is there."""
    fn = fn or RowsFn()
    for number, runner in enumerate(RUNNERS[: 2 if sink.appends else 1]):
        checkpoint = tmp_path / f"checkpoint-{number}"
        save_sdf(sc.parallelize(ELEMENTS, 3), fn, sink, checkpoint=checkpoint, runner=runner, commit_seconds=0.05)
    return [row if isinstance(row, str) else tuple(row.values()) for row in run_direct(ELEMENTS, fn)] * (number + 1)


def in_order(rows):
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.fixture
def duckdb():
    return pytest.importorskip("duckdb")


def test_parquet(sc, tmp_path, duckdb):
    """By pyarrow, pandas, DuckDB and Spark."""
    parquet, pandas = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pandas")
    out = str(tmp_path / "out")
    expected = in_order(save(sc, tmp_path, ParquetFiles(out)))
    assert in_order(row.values() for row in parquet.read_table(out).to_pylist()) == expected
    assert in_order(duckdb.sql(f"SELECT * FROM '{out}/*.parquet'").fetchall()) == expected
    frame = pandas.read_parquet(out).astype(object)
    assert in_order(frame.where(frame.notna(), None).itertuples(index=False, name=None)) == expected
    from pyspark.sql import SparkSession

    assert in_order(SparkSession(sc).read.parquet(out).collect()) == expected


def test_json_lines(sc, tmp_path, duckdb):
    """By DuckDB and the json module."""
    out = str(tmp_path / "out")
    expected = in_order(save(sc, tmp_path, JsonLinesFiles(out)))
    files = [f"{out}/{name}" for name in os.listdir(out) if name.endswith(".jsonl")]
    assert in_order(duckdb.sql(f"SELECT * FROM read_json({files!r})").fetchall()) == expected
    rows = [json.loads(line) for name in files for line in Path(name).read_text(encoding="utf-8").splitlines()]
    assert in_order(row.values() for row in rows) == expected


def test_text(sc, tmp_path):
    """By Spark."""
    expected = sorted(save(sc, tmp_path, TextFiles(tmp_path / "out"), LinesFn()))
    assert sorted(sc.textFile(str(tmp_path / "out")).collect()) == expected


def test_delta(sc, tmp_path, duckdb):
    """By delta-rs and, over its Arrow reader, DuckDB."""
    deltalake = pytest.importorskip("deltalake")
    sink = DeltaTable(tmp_path / "table")
    expected = in_order(save(sc, tmp_path, sink))
    table = deltalake.DeltaTable(sink.path)
    assert in_order(row.values() for row in table.to_pyarrow_table().to_pylist()) == expected
    assert in_order(duckdb.from_arrow(table.to_pyarrow_dataset()).fetchall()) == expected


@pytest.mark.slow("test_delta")
def test_iceberg(sc, tmp_path, duckdb):
    """By pyiceberg and, from the files that the table names, DuckDB."""
    pyiceberg = pytest.importorskip("pyiceberg.catalog")
    pytest.importorskip("sqlalchemy")
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    catalog = pyiceberg.load_catalog("default", **properties)
    catalog.create_namespace("ns")
    expected = in_order(save(sc, tmp_path, IcebergTable("ns.rows", catalog=properties)))
    scan = catalog.load_table("ns.rows").scan()
    assert in_order(row.values() for row in scan.to_arrow().to_pylist()) == expected
    files = [task.file.file_path.removeprefix("file://") for task in scan.plan_files()]
    assert in_order(duckdb.sql(f"SELECT * FROM read_parquet({files!r})").fetchall()) == expected


DDL = "CREATE TABLE rows (name VARCHAR(100), i INTEGER, half DOUBLE PRECISION, odd INTEGER)"


def test_sqlite(sc, tmp_path):
    """By the sqlite3 module."""
    pytest.importorskip("sqlalchemy")
    path = str(tmp_path / "my.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(DDL)
        expected = in_order(save(sc, tmp_path, SqlTable(f"sqlite:///{path}", "rows")))
        assert in_order(connection.execute("SELECT * FROM rows").fetchall()) == expected


@pytest.mark.slow("test_sqlite")
def test_postgresql(sc, tmp_path, postgresql):
    """By psycopg, and by psql if it is there."""
    import psycopg

    with psycopg.connect(postgresql.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS rows")
        connection.execute(DDL)
        expected = in_order(save(sc, tmp_path, SqlTable(postgresql, "rows")))
        assert in_order(connection.execute("SELECT * FROM rows").fetchall()) == expected
        if shutil.which("psql"):
            lines = psql(postgresql, "SELECT json_build_array(name, i, half, odd) FROM rows")
            assert in_order(map(json.loads, lines)) == expected
        connection.execute("DROP TABLE rows")


def psql(url, statement):
    """Give the lines that psql prints."""
    where = urlsplit(url)
    (home,) = parse_qs(where.query)["host"]
    command = ["psql", "-h", home, "-U", where.username, "-d", where.path.strip("/"), "-Atc", statement]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
