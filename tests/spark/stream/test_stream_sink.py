"""A stream with a sink: each line is in the table once, whatever dies, and whoever is overtaken."""

import os
import random
import sqlite3
from collections import Counter

import pytest
from support import stream_program
from support.killing import kill_once
from support.stream_program import RowsFn
from support.streaming import grouped

from sdf import TaggedOutput, stream_sdf
from sdf.errors import BadRecordError, InvalidTypeError, InvalidValueError, JournalFencedError
from sdf.sinks import DeltaTable, IcebergTable, JsonLinesFiles, SqlTable

KILLS = int(os.environ.get("SDF_STREAM_KILLS", "10"))
FEW = (24, 7, 2)  # rows of each element; in each batch are two work items at most, so there are some batches
MADE = "CREATE TABLE lines (element INTEGER NOT NULL, i INTEGER NOT NULL)"


class Death(BaseException):
    """Ends a driver as a crash does: nothing of the product catches it."""


class Delta:
    """A Delta table in a folder."""

    def __init__(self, home):
        self.sink, self.path = DeltaTable(home / "table"), home / "table"

    def rows(self):
        import deltalake

        table = deltalake.DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()
        return sorted((row["element"], row["i"]) for row in table)


class Sqlite:
    """A table of SQLite in a folder."""

    def __init__(self, home):
        self.path = home / "lines.db"
        with sqlite3.connect(self.path) as connection:
            connection.execute(MADE)
        self.sink = SqlTable(f"sqlite:///{self.path}", "lines")

    def rows(self):
        with sqlite3.connect(self.path) as connection:
            return sorted(connection.execute("SELECT element, i FROM lines").fetchall())


class Iceberg:
    """An Iceberg table whose catalog is a database of SQLite in a folder."""

    def __init__(self, home):
        from pyiceberg.catalog import load_catalog

        uri, warehouse = f"sqlite:///{home}/catalog.db", f"file://{home}/warehouse"
        self.catalog = load_catalog("default", type="sql", uri=uri, warehouse=warehouse)
        self.catalog.create_namespace("ns")
        self.sink = IcebergTable("ns.lines", catalog={"type": "sql", "uri": uri, "warehouse": warehouse})

    def rows(self):
        table = self.catalog.load_table("ns.lines").scan().to_arrow().to_pylist()
        return sorted((row["element"], row["i"]) for row in table)


TABLES = pytest.mark.parametrize("table", [Delta, Iceberg, Sqlite], ids=lambda table: table.__name__)


def run(sc, home, sink, **options):
    options = {"checkpoint": home / "checkpoint", "batch_seconds": 0.05, "max_items": 2, **options}
    return stream_sdf(sc.parallelize(list(enumerate(FEW)), 2), RowsFn(), sink=sink, **grouped(**options))


def expected():
    return stream_program.expected(FEW)


@TABLES
def test_a_table_gets_each_record_once(sc, tmp_path, table):
    """In several batches; foreach_batch is called after the sink has committed."""
    there = table(tmp_path)
    seen = []
    summary = run(sc, tmp_path, there.sink, foreach_batch=lambda batch: seen.append(len(there.rows())))
    assert there.rows() == expected()
    assert summary.batches > 1
    assert seen == sorted(set(seen))
    assert seen[-1] == len(expected())


WHENS = ["before prepare", "before commit", "after commit", "after clean"]
TWICE = pytest.mark.slow("the same test of Sqlite, and of the other tables after their commit")


@pytest.mark.parametrize(
    ("table", "when"),
    [
        pytest.param(table, when, marks=[] if table is Sqlite or when == "after commit" else TWICE)
        for table in (Delta, Iceberg, Sqlite)
        for when in WHENS
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_a_batch_that_comes_again_is_not_written_twice(sc, tmp_path, monkeypatch, table, when):
    """The driver dies at each batch once."""
    there = table(tmp_path)
    order, name = when.split()
    original = getattr(type(there.sink), name)
    died = set()

    def dying(self, *arguments):
        token = arguments[-1] if name != "prepare" else arguments[0].token
        if order == "after":
            original(self, *arguments)
        if token not in died:
            died.add(token)
            raise Death
        if order == "before":
            original(self, *arguments)

    monkeypatch.setattr(type(there.sink), name, dying)
    for _ in range(100):
        try:
            summary = run(sc, tmp_path, there.sink)
        except Death:
            continue
        break
    assert summary.done
    assert there.rows() == expected()
    assert len(died) > 1


@TABLES
def test_a_driver_that_stops_while_another_one_goes_on_has_lost(sc, tmp_path, monkeypatch, table):
    """Stopped before its commit, with the second run to the end in between: it commits nothing again."""
    there = table(tmp_path)
    original = type(there.sink).commit
    stopped = []

    def overtaken(self, messages, token):
        if not stopped:
            stopped.append(token)
            run(sc, tmp_path, there.sink)
        original(self, messages, token)

    monkeypatch.setattr(type(there.sink), "commit", overtaken)
    with pytest.raises(JournalFencedError):
        run(sc, tmp_path, there.sink)
    assert there.rows() == expected()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sink": "table"}, InvalidTypeError, "sink must be a Sink of sdf.sinks"),
        ({"sink": JsonLinesFiles("out")}, InvalidValueError, "sink must be one that appends"),
        ({"sink": None}, InvalidTypeError, "needs foreach_batch="),
    ],
)
def test_a_sink_that_cannot_be_is_named(sc, tmp_path, options, error, message):
    """Before any job."""
    with pytest.raises(error, match=message):
        run(sc, tmp_path, **options)


def test_a_bad_record_names_its_batch(sc, tmp_path):
    """Nothing of that batch is in the table."""
    there = Sqlite(tmp_path)

    class BadFn(RowsFn):
        def process(self, element, tracker):
            for row in super().process(element, tracker):
                yield {**row, "more": 1}

    with pytest.raises(BadRecordError, match=r"batch 1 has a bad record: .*'more'"):
        stream_sdf(sc.parallelize([(0, 3)]), BadFn(), checkpoint=tmp_path / "checkpoint", sink=there.sink)
    assert there.rows() == []


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["delta", "postgresql"])
def test_a_table_holds_each_line_once_after_many_kills(tmp_path, kind, request):
    """Python, the JVM or both are killed at random moments; each stream is killed until it ends."""
    url = request.getfixturevalue("postgresql") if kind == "postgresql" else "-"
    killed, streams = Counter(), 0
    choose = random.Random(kind)
    while sum(killed.values()) < KILLS:
        home = tmp_path / str(streams)
        home.mkdir()
        if kind == "postgresql":
            query(url, "DROP TABLE IF EXISTS lines")
            query(url, MADE)
        kills = 0
        while (victim := live(home, kind, url, choose, kills)) is not None:
            killed[victim] += 1
            kills += 1
        rows = Delta(home).rows() if kind == "delta" else sorted(query(url, "SELECT element, i FROM lines"))
        assert rows == stream_program.expected()
        streams += 1
    print(f"\n{kind}: {streams} streams, killed {dict(killed)}")


def live(home, kind, url, choose, kills):
    """Run the stream once; kill it at a random moment after Spark has started, later with each kill: it has to end."""
    log = home / "log"
    before = log.read_text().count("begins") if log.exists() else 0

    def begun():
        return log.exists() and log.read_text().count("begins") > before

    seconds = choose.uniform(1.5, 4.5 * 1.1**kills)
    return kill_once([stream_program.__file__, str(home), kind, url], log, begun, seconds, choose)


def query(url, text):
    import psycopg

    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        done = connection.execute(text)
        return done.fetchall() if done.description else []


class MixedFn(RowsFn):
    """Gives one row that a table of numbers refuses, unless it was mended."""

    def __init__(self, *, mended):
        self.mended = mended

    def process(self, element, tracker):
        for row in super().process(element, tracker):
            if row["i"] != 3:
                yield row
            elif not self.mended:
                yield {"oops": 3}


def test_a_batch_that_a_sink_has_refused_goes_on_once_the_function_is_mended(sc, tmp_path):
    """Nobody has had a record of it. The summary tells that it was another one before."""
    table = Sqlite(tmp_path)

    def start(fn):
        options = {"checkpoint": tmp_path / "checkpoint", "batch_seconds": 0.05}
        return stream_sdf(sc.parallelize([(0, 7)], 1), fn, sink=table.sink, **grouped(**options))

    for _ in range(2):
        with pytest.raises(
            BadRecordError, match="No sink has any record of the batch: change the table, or the function"
        ):
            start(MixedFn(mended=False))
    summary = start(MixedFn(mended=True))
    assert table.rows() == [(0, i) for i in range(7) if i != 3]
    assert len(summary.lost) == 1
    assert "MixedFn: of 7 records that were read, 6 were there" in summary.lost[0]
    assert summary.done


class OddRowsFn(RowsFn):
    """Gives odd rows to another table, one of them without its columns, unless the DoFn was mended."""

    def __init__(self, *, mended):
        self.mended = mended

    def process(self, element, tracker):
        for row in super().process(element, tracker):
            if row["i"] == 3:
                yield row if self.mended else TaggedOutput("odd", {"oops": 3})
            else:
                yield TaggedOutput("odd", row) if row["i"] % 2 else row


def test_no_sink_commits_a_batch_that_another_one_refuses(sc, tmp_path):
    """So the function may be mended; here it gives the refused row to the other table."""
    tables = [Sqlite(tmp_path / name) for name in ("main", "odd") if not (tmp_path / name).mkdir()]

    def start(fn):
        sinks = {"main": tables[0].sink, "odd": tables[1].sink}
        options = {"checkpoint": tmp_path / "checkpoint", "batch_seconds": 0.05, "tags": ["odd"], "sink": sinks}
        return stream_sdf(sc.parallelize([(0, 7)], 1), fn, **grouped(**options))

    with pytest.raises(BadRecordError, match="No sink has any record of the batch"):
        start(OddRowsFn(mended=False))
    assert [table.rows() for table in tables] == [[], []]
    assert start(OddRowsFn(mended=True)).done
    assert [[i for _, i in table.rows()] for table in tables] == [[0, 2, 3, 4, 6], [1, 5]]
