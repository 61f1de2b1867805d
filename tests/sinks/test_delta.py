"""DeltaTable, read back by delta-rs and DuckDB: exactly what was written, once, whoever else writes to the table."""

import json
import os
import pickle
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date, datetime, timezone
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("moto")
pytest.importorskip("s3fs")

from support.at_once import at_once
from support.s3_server import S3Server
from support.sinking import TOKEN, DiedError, Points, make_mortal, place, prepare, save

from sdf.errors import BadRecordError, InvalidTypeError, InvalidValueError, SinkError
from sdf.sinks import DeltaTable, Token, delta, delta_turns, on_disk, table_files
from sdf.sinks.on_objects import Upload
from sdf.storage import disk
from sdf.storage.objects import Objects

deltalake = pytest.importorskip("deltalake")
duckdb = pytest.importorskip("duckdb")
fsspec = pytest.importorskip("fsspec")
s3fs = pytest.importorskip("s3fs")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyarrow.compute")

OTHER = Token("another run", 0)


def opened(sink):
    return deltalake.DeltaTable(sink.path, storage_options=sink.storage_options)


def rows(sink, columns="id, name"):
    """Give the rows, as DuckDB reads the files that the log names."""
    files = opened(sink).file_uris()
    if not files:
        return []
    return sorted(duckdb.sql(f"SELECT {columns} FROM read_parquet({files!r}, union_by_name=true)").fetchall())


def by_delta(sink):
    return sorted(opened(sink).to_pyarrow_table().to_pylist(), key=str)


def records(*numbers):
    return [{"id": number, "name": f"name {number}"} for number in numbers]


def pairs(*numbers):
    return [(number, f"name {number}") for number in numbers]


def written(sink, *segments, token=TOKEN):
    """Write segments; return their messages."""
    return [sink.write(iter(one), place(f"segment-{number}", token=token)) for number, one in enumerate(segments)]


def make(sink, *numbers, **options):
    """Make the table with another writer."""
    deltalake.write_deltalake(sink.path, pa.Table.from_pylist(records(*numbers)), **options)


def parquet_files(sink):
    return sorted(str(path.relative_to(sink.path)) for path in Path(sink.path).rglob("*.parquet"))


@pytest.fixture
def sink(tmp_path):
    return DeltaTable(tmp_path / "table")


# The way of a run


def test_the_commit_makes_the_table(sink):
    """With exactly the rows of the named segments; staging has gone."""
    messages = save(sink, records(1, 2), [], records(3))
    assert messages[1] is None
    assert rows(sink) == pairs(1, 2, 3)
    assert by_delta(sink) == records(1, 2, 3)
    assert opened(sink).version() == 0
    assert sorted(os.listdir(sink.path))[0] == "_delta_log"
    assert len(parquet_files(sink)) == 2
    assert not os.path.exists(f"{sink.path}/_sdf")


def test_records_are_added_to_what_is_there(sink):
    """By one commit after the other, each a version, although their segments have the same names."""
    make(sink, 0)
    save(sink, records(1))
    save(sink, records(2), token=Token("run", 1))
    save(sink, records(3), token=OTHER)
    assert rows(sink) == pairs(0, 1, 2, 3)
    assert opened(sink).version() == 3
    assert opened(sink).transaction_version("run") == 1


def test_nothing_is_visible_before_the_commit(sink):
    """There is no table."""
    prepare(sink)
    written(sink, records(1))
    assert not deltalake.DeltaTable.is_deltatable(sink.path)
    assert os.listdir(sink.path) == ["_sdf"]


def test_what_no_message_names_stays_out(sink):
    """The file of an attempt that was lost."""
    prepare(sink)
    sink.write(iter(records(1)), place("lost"))
    sink.commit([sink.write(iter(records(2)), place("kept"))], TOKEN)
    assert rows(sink) == pairs(2)
    sink.clean(TOKEN)
    assert len(parquet_files(sink)) == 1


def test_types(tmp_path):
    """As Delta has them; read back equal."""
    sink = DeltaTable(tmp_path / "t")
    record = {
        "i": 2**40, "f": 0.1, "s": "é", "b": b"\0", "t": True, "d": date(2026, 1, 2), "n": Decimal("1.5"),
        "at": datetime(2026, 1, 2, 3, 4, 5, 6), "z": datetime(2026, 1, 2, tzinfo=timezone.utc), "l": [1, None],
        "r": {"x": 1},
    }  # fmt: skip
    nothing = dict.fromkeys(record)
    save(sink, [record, nothing])
    assert sorted(opened(sink).to_pyarrow_table().to_pylist(), key=str) == sorted([record, nothing], key=str)


def test_a_type_that_delta_does_not_have(tmp_path):
    """Is found at the first record, not at the commit; or when the sink is made."""
    sink = DeltaTable(tmp_path / "t")
    prepare(sink)
    with pytest.raises(BadRecordError, match=r"cannot write record 0 .* in field 'x' .* Delta does not have"):
        sink.write(iter([{"x": time_of_day()}]), place())
    with pytest.raises(InvalidValueError, match=re.escape("'x' has type time64[us], which Delta does not have")):
        DeltaTable(tmp_path / "t", schema={"x": pa.time64("us")})


def time_of_day():
    return datetime(2026, 1, 1, 2, 3).time()


def test_unsigned_numbers_do_not_wrap(tmp_path):
    """Delta's byte has a sign."""
    sink = DeltaTable(tmp_path / "t", schema={"x": pa.uint8()})
    prepare(sink)
    with pytest.raises(BadRecordError, match="in field 'x' 200"):
        sink.write(iter([{"x": 200}]), place())


def test_the_schema_of_the_table_is_taken(sink):
    """Columns that are missing are null; what it does not have does not fit."""
    make(sink, 1)
    prepare(sink)
    messages = written(sink, [{"id": 2}, {"name": "x"}])
    with pytest.raises(BadRecordError, match="has the field 'more', which the schema does not have"):
        sink.write(iter([{"id": 1, "more": 2}]), place("bad"))
    with pytest.raises(BadRecordError, match="record 1 of this segment: in field 'id' 'x'") as caught:
        sink.write(iter([{"id": 1}, {"id": "x"}]), place("bad"))
    assert caught.value.number == 1
    sink.commit(messages, TOKEN)
    assert sorted(map(str, by_delta(sink))) == sorted(
        map(str, [{"id": 1, "name": "name 1"}, {"id": 2, "name": None}, {"id": None, "name": "x"}])
    )


def test_some_columns_only(sink):
    """The others are null for a reader of the table."""
    make(sink, 1)
    save(DeltaTable(sink.path, schema={"id": pa.int64()}), [{"id": 2}])
    assert by_delta(sink) == [{"id": 1, "name": "name 1"}, {"id": 2, "name": None}]


def test_statistics_are_true(sink):
    """Readers skip files by them."""
    save(sink, [{"id": n, "name": "x" * n, "f": float("nan")} for n in (30, 2, 40)] + [{"id": None, "name": None}])
    [action] = pa.table(opened(sink).get_add_actions(flatten=True)).to_pylist()
    assert (action["num_records"], action["min.id"], action["max.id"], action["null_count.id"]) == (4, 2, 40, 1)
    assert action["null_count.name"] == 1
    assert action.get("max.name") is None
    assert action.get("max.f") is None


def test_statistics_of_a_column_with_a_dot_are_not_those_of_a_nested_field(sink):
    """Both are a.b in the footer of a file."""
    save(sink, [{"a.b": 1, "a": {"b": 100}}, {"a.b": 3, "a": {"b": 300}}])
    found = opened(sink).to_pyarrow_dataset()
    assert found.to_table(filter=pa.compute.field("a.b") <= 3).num_rows == 2


def test_statistics_of_many_columns_convert_the_schema_once_at_most():
    """It was converted for each column: 27 s for 2,000."""
    buffer = BytesIO()
    pq.write_table(pa.table({f"c{number}": [number] for number in range(20)}), buffer)
    footer = pq.ParquetFile(buffer).metadata
    asked = []

    class Schema:
        def to_arrow_schema(self):
            asked.append(footer.schema.to_arrow_schema())
            return asked[-1]

        def __getattr__(self, name):
            return getattr(footer.schema, name)

    class Footer:
        schema = Schema()

        def __getattr__(self, name):
            return getattr(footer, name)

    assert len(delta._stats_of_file(Footer())["minValues"]) == 20
    assert len(asked) <= 1


def test_a_run_that_the_schema_stopped_goes_on_when_the_table_fits(sink):
    """What was written before is added too; the schema of then is kept nowhere."""
    make(sink, 1)
    prepare(sink)
    messages = [sink.write(iter(records(2)), place("a"))]
    more = {"id": 3, "name": "x", "more": 5}
    with pytest.raises(BadRecordError, match=r"Change the table, or pass a schema=, .* make the same call again"):
        sink.write(iter([more]), place("b"))
    opened(sink).alter.add_columns([deltalake.Field("more", "long")])
    prepare(sink, resumed=True)
    messages.append(sink.write(iter([more]), place("c")))
    sink.commit(messages, TOKEN)
    assert rows(sink, "id, more") == [(1, None), (2, None), (3, 5)]


def test_a_run_that_the_first_records_stopped_goes_on_with_a_schema(sink):
    """If there is no table yet."""
    prepare(sink)
    messages = [sink.write(iter([{"id": 1}]), place("a"))]
    with pytest.raises(BadRecordError, match="has the field 'more'"):
        sink.write(iter([{"id": 2, "more": 5}]), place("b"))
    given = DeltaTable(sink.path, schema={"id": pa.int64(), "more": pa.int64()})
    assert given.identity() == sink.identity()
    prepare(given, resumed=True)
    messages.append(given.write(iter([{"id": 2, "more": 5}]), place("c")))
    given.commit(messages, TOKEN)
    assert rows(sink, "id, more") == [(1, None), (2, 5)]


def test_files_of_another_type_than_the_table_has_now_are_refused(sink):
    """If there are any; else what the table holds now counts."""
    prepare(sink)
    messages = [sink.write(iter([{"id": 1}]), place("a"))]
    deltalake.DeltaTable.create(sink.path, deltalake.Schema.from_arrow(pa.schema([("id", pa.string())])))
    with pytest.raises(SinkError, match="its column 'id' has type string, not int64"):
        prepare(sink, resumed=True)
    sink.stage(TOKEN).remove(messages[0]["names"][0][0])
    prepare(sink, resumed=True)
    assert sink.write(iter([{"id": "x"}]), place("b"))["files"] == 1


def test_no_records(sink, tmp_path):
    """Are a version of a table that is there; without a schema there is nothing to make a table of."""
    save(sink, [], [])
    assert not deltalake.DeltaTable.is_deltatable(sink.path)
    made = DeltaTable(tmp_path / "made", schema={"id": pa.int64()})
    save(made, [])
    assert opened(made).to_pyarrow_table().schema.names == ["id"]
    save(made, [], token=OTHER)
    assert opened(made).transaction_version("another run") == 0


# Once


def test_a_commit_again_changes_nothing(sink):
    """Not right after it, and not after staging has gone."""
    prepare(sink)
    messages = written(sink, records(1))
    for _ in range(2):
        sink.commit(messages, TOKEN)
    sink.clean(TOKEN)
    sink.commit(messages, TOKEN)
    prepare(sink, resumed=True)
    assert rows(sink) == pairs(1)
    assert opened(sink).version() == 0
    assert not os.path.exists(f"{sink.path}/_sdf")


def run_at_once(*drivers):
    """Commit in processes of their own, at once."""
    at_once(
        *[(sink.commit, messages, token) for sink, messages, token in drivers],
        importing=["deltalake.transaction", "pyarrow.parquet"],
    )


def test_drivers_of_one_run_at_once(tmp_path):
    """All end well, and the rows are there once: in a table that they make, and in one that was there."""
    new, old = DeltaTable(tmp_path / "new"), DeltaTable(tmp_path / "old")
    make(old, 0)
    drivers = []
    for sink in (new, old):
        prepare(sink)
        drivers += [(sink, written(sink, records(1), records(2)), TOKEN)] * 3
    run_at_once(*drivers)
    assert (rows(new), rows(old)) == (pairs(1, 2), pairs(0, 1, 2))


def test_runs_at_once(sink):
    """Each adds its rows, the first of them makes the table."""
    drivers = []
    for number in range(4):
        token = Token(f"run {number}", 0)
        prepare(sink, token=token)
        drivers.append((sink, written(sink, records(number), token=token), token))
    run_at_once(*drivers)
    assert rows(sink) == pairs(0, 1, 2, 3)


def at_the_commit(monkeypatch, act):
    """Do something when the files are in place and the table has been read, once."""
    publish = table_files.TableFiles.publish
    done = []

    def published(self, sizes, **options):
        publish(self, sizes, **options)
        if not done:
            done.append(True)
            act()

    monkeypatch.setattr(table_files.TableFiles, "publish", published)


def test_another_appender_meanwhile(sink, monkeypatch):
    """Each row is there once."""
    make(sink, 0)
    prepare(sink)
    at_the_commit(monkeypatch, lambda: make(sink, 5, mode="append"))
    sink.commit(written(sink, records(1)), TOKEN)
    assert rows(sink) == pairs(0, 1, 5)


def test_the_same_run_meanwhile(sink, monkeypatch):
    """Committed by another driver after this one had looked."""
    make(sink, 0)
    prepare(sink)
    messages = written(sink, records(1))
    at_the_commit(monkeypatch, lambda: sink.commit(messages, TOKEN))
    sink.commit(messages, TOKEN)
    assert rows(sink) == pairs(0, 1)
    assert opened(sink).version() == 1


def test_a_table_that_is_made_meanwhile(sink, monkeypatch):
    """By another appender; this one adds to it."""
    prepare(sink)
    at_the_commit(monkeypatch, lambda: make(sink, 5))
    sink.commit(written(sink, records(1)), TOKEN)
    assert rows(sink) == pairs(1, 5)


def test_a_table_that_is_made_meanwhile_with_other_columns(sink, monkeypatch):
    """Is an error that names the column; nothing is added."""
    prepare(sink)
    other = pa.table({"id": ["text"]})
    at_the_commit(monkeypatch, lambda: deltalake.write_deltalake(sink.path, other))
    with pytest.raises(SinkError, match="its column 'id' has type string, not int64"):
        sink.commit(written(sink, records(1)), TOKEN)
    assert opened(sink).to_pyarrow_table() == other


def test_an_overwrite_meanwhile(sink, monkeypatch):
    """Removes what was there before; the rows of the run come after it."""
    make(sink, 0)
    prepare(sink)
    at_the_commit(monkeypatch, lambda: make(sink, 5, mode="overwrite"))
    sink.commit(written(sink, records(1)), TOKEN)
    assert rows(sink) == pairs(1, 5)


def vacuum(sink):
    deltalake.DeltaTable(sink.path).vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True
    )


def test_a_vacuum_while_the_run_writes(sink):
    """Of any retention does not find the files."""
    make(sink, 0)
    prepare(sink)
    messages = written(sink, records(1))
    vacuum(sink)
    sink.commit(messages, TOKEN)
    assert rows(sink) == pairs(0, 1)


def test_a_vacuum_while_the_run_commits(sink, monkeypatch):
    """Removes files that no version names yet; they are put back."""
    make(sink, 0)
    prepare(sink)
    messages = written(sink, records(1))
    at_the_commit(monkeypatch, lambda: vacuum(sink))
    sink.commit(messages, TOKEN)
    assert rows(sink) == pairs(0, 1)


def test_a_vacuum_that_leaves_no_version(sink, monkeypatch):
    """Such as that of Spark: the commit succeeds at once, and puts the files back after it."""
    make(sink, 0)
    prepare(sink)
    messages = written(sink, records(1))
    before = parquet_files(sink)
    at_the_commit(monkeypatch, lambda: [os.unlink(path) for path in Path(sink.path).glob("part-*-segment-*")])
    sink.commit(messages, TOKEN)
    assert rows(sink) == pairs(0, 1)
    assert opened(sink).version() == 1
    assert len(parquet_files(sink)) == len(before) + 1


def test_files_that_were_removed_from_the_table_are_vacuumed(sink):
    """They have names that a VACUUM looks at."""
    save(sink, records(1))
    make(sink, 2, mode="overwrite")
    vacuum(sink)
    assert len(parquet_files(sink)) == 1


def test_a_missing_file(sink):
    """Delta would commit an action that names it."""
    prepare(sink)
    messages = written(sink, records(1), records(2))
    os.unlink(f"{sink.stage(TOKEN).where}/segment-1-0.parquet")
    with pytest.raises(SinkError, match=r"the file 'segment-1-0.parquet' of .* bytes is not there"):
        sink.commit(messages, TOKEN)
    assert not deltalake.DeltaTable.is_deltatable(sink.path)


def test_a_file_that_was_changed(sink):
    """Has another size."""
    prepare(sink)
    messages = written(sink, records(1))
    with open(f"{sink.stage(TOKEN).where}/segment-0-0.parquet", "ab") as file:
        file.write(b"x")
    with pytest.raises(SinkError, match=r"bytes has \d+ bytes, neither in"):
        sink.commit(messages, TOKEN)


def test_a_file_that_is_named_twice(sink):
    """Its rows would count twice."""
    prepare(sink)
    messages = written(sink, records(1))
    with pytest.raises(SinkError, match="two messages name the file"):
        sink.commit(messages * 2, TOKEN)


def test_optimize_meanwhile(sink, monkeypatch):
    """Of the files that are there; those of the run come after it."""
    for number in range(3):
        make(sink, number, mode="append")
    prepare(sink)
    at_the_commit(monkeypatch, lambda: opened(sink).optimize.compact())
    sink.commit(written(sink, records(5)), TOKEN)
    assert rows(sink) == pairs(0, 1, 2, 5)
    assert len(opened(sink).file_uris()) == 2


def test_a_vacuum_after_the_commit(sink):
    """Changes nothing, before the run is cleaned and after."""
    prepare(sink)
    messages = written(sink, records(1))
    sink.commit(messages, TOKEN)
    vacuum(sink)
    sink.commit(messages, TOKEN)
    sink.clean(TOKEN)
    vacuum(sink)
    assert rows(sink) == pairs(1)


def test_files_that_a_dead_driver_published_become_young(sink):
    """For a VACUUM with a longer retention removes files that no version names only when they are old."""
    prepare(sink)
    messages = written(sink, records(1))
    files = table_files.TableFiles(sink.path, sink.stage(TOKEN))
    files.publish({"segment-0-0.parquet": messages[0]["bytes"]}, anew=True)
    published = Path(sink.path, files.published("segment-0-0.parquet"))
    os.utime(published, (0, 0))
    sink.commit(messages, TOKEN)
    assert time.time() - published.stat().st_mtime < 24 * 3600


def logged_run(sink, logged, resumed):
    """Do all that a driver does; ``logged`` holds the messages that its log has."""
    prepare(sink, resumed=resumed)
    for number, segment in enumerate([records(1, 2), [], records(3)]):
        if number >= len(logged):
            logged.append(sink.write(iter(segment), place(f"segment-{number}-{resumed}")))
    sink.commit(logged, TOKEN)
    sink.clean(TOKEN)


def let_die(patch, points):
    """Let all that changes the table or staging pass points, one after the other."""
    patch.setattr(table_files, "_AT_ONCE", 1)
    make_mortal(patch, points, table_files, on_disk, disk)
    owners = [(deltalake.DeltaTable, ("create_write_transaction",)), (deltalake.transaction, (MAKE,))]
    owners += [(Objects, ("_put", "remove")), (Upload, ("finish",)), (s3fs.S3FileSystem, ("copy", "rm"))]
    for owner, names in owners:
        for name in names:
            patch.setattr(owner, name, points.around(name, getattr(owner, name)))


MAKE = "create_table_with_add_actions"


@pytest.fixture
def new_sink(where, tmp_path, request):
    """Give a function that makes a sink for a table of that name."""
    if where == "disk":
        return lambda name: DeltaTable(tmp_path / name)
    server = request.getfixturevalue("s3_server")
    bucket = server.bucket()
    return lambda name: DeltaTable(f"s3://{bucket}/{name}", storage_options=storage_options(server))


def all_files(sink):
    """Give the paths of all files in the directory of a table, but those of its log."""
    fs, path = fsspec.core.url_to_fs(sink.path, use_listings_cache=False)
    return [name for name in fs.find(path) if not any(one in name for one in ("_delta_log", "_trial", ".tmp-"))]


def survive(new_sink, exists, monkeypatch, choose):
    """Let a driver die at the points that are chosen, in a table each; return all points."""
    sink, logged = new_sink("whole"), []
    points = Points(log=logged)
    if exists:
        make(sink, 0, storage_options=sink.storage_options)
    with monkeypatch.context() as patch:
        let_die(patch, points)
        logged_run(sink, logged, resumed=False)
    for at in choose(points):
        sink, logged = new_sink(f"table-{at}"), []
        if exists:
            make(sink, 0, storage_options=sink.storage_options)
        with monkeypatch.context() as patch:
            let_die(patch, Points(at))
            with pytest.raises(DiedError):
                logged_run(sink, logged, resumed=False)
        for _ in range(2):
            logged_run(sink, logged, resumed=True)
        assert by_delta(sink) == records(*([0] if exists else []), 1, 2, 3), points.seen[at - 1]
        assert len(all_files(sink)) == (3 if exists else 2), points.seen[at - 1]
    assert any(("create_write" if exists else MAKE) in name for name in points.seen)
    return points


@pytest.mark.slow("test_delta.py::test_death_of_a_driver_at_a_point_of_each_kind")
@pytest.mark.parametrize("where", ["disk", "s3"])
@pytest.mark.parametrize("exists", [False, True])
def test_death_of_a_driver_at_any_point(new_sink, where, exists, monkeypatch, capsys):
    """While it prepares, writes, commits or cleans: the next one ends the run, with each row once."""
    points = survive(new_sink, exists, monkeypatch, Points.states)
    assert len(points.seen) > 20
    with capsys.disabled():
        tried = f"{len(points.states())} of {len(points.seen)}"
        print(f"\nDeltaTable on {where}, {'old' if exists else 'new'} table: died at {tried} points")


def of_the_commit(points):
    """Return the points on S3 that no test of other sinks has."""
    return [at for at in points.kinds() if points.seen[at - 1].split()[1] in ("copy", "create_write_transaction", "rm")]


# Dear: on S3 each death is followed by two runs of some fifty requests.
@pytest.mark.parametrize(
    ("where", "exists", "choose"),
    [("disk", False, Points.kinds), ("disk", True, Points.kinds), ("s3", True, of_the_commit)],
    ids=["new table on disk", "old table on disk", "on s3"],
)
def test_death_of_a_driver_at_a_point_of_each_kind(new_sink, where, exists, choose, monkeypatch):
    """The next one ends the run, with each row once."""
    points = survive(new_sink, exists, monkeypatch, choose)
    assert len(choose(points)) > 2


@pytest.mark.parametrize("where", ["disk", "s3"])
def test_death_while_giving_up(new_sink, where, monkeypatch):
    """At any point: to give up once more leaves the table as it was."""
    points = tried = None
    while tried is None or tried:
        sink = new_sink(f"table-{len(tried or ())}-{tried is None}")
        make(sink, 0, storage_options=sink.storage_options)
        prepare(sink)
        messages = written(sink, records(1))
        name = "segment-0-0.parquet"
        table_files.TableFiles(sink.path, sink.stage(TOKEN)).publish({name: messages[0]["bytes"]}, anew=True)
        points = Points(tried and tried.pop())
        with monkeypatch.context() as patch, suppress(DiedError):
            let_die(patch, points)
            sink.abort(messages, TOKEN)
        if tried is None:
            tried = points.states()
            assert len(tried) > 2
        sink.abort(messages, TOKEN)
        assert len(all_files(sink)) == 1, points.seen[-1]
        assert by_delta(sink) == records(0)


def test_many_others(sink, monkeypatch):
    """It gives up at some time, and says so."""
    make(sink, 0)
    prepare(sink)
    messages = written(sink, records(1))
    monkeypatch.setattr("sdf.sinks.table_sink._PAUSE_SECONDS", 0)
    publish = table_files.TableFiles.publish

    def published(self, sizes, **options):
        publish(self, sizes, **options)
        make(sink, 5, mode="append")

    with monkeypatch.context() as patch:
        patch.setattr(table_files.TableFiles, "publish", published)
        with pytest.raises(SinkError, match=r"others committed first 30 times. Nothing was added"):
            sink.commit(messages, TOKEN)
    sink.commit(messages, TOKEN)
    assert rows(sink).count((1, "name 1")) == 1


# What is refused


@pytest.mark.parametrize(
    ("options", "table", "message"),
    [
        ({"partition_by": "name"}, {}, "it has the partitions ['name']"),
        ({"configuration": {"delta.setTransactionRetentionDuration": "interval 1 days"}}, {},
         "the table has 'delta.setTransactionRetentionDuration', which DeltaTable cannot keep"),
        ({}, {"schema": {"id": pa.int32()}}, "its column 'id' has type int64, not int32"),
        ({}, {"schema": {"more": pa.int32()}}, "it has no column 'more', only ['id', 'name']"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_work(sink, options, table, message):
    """Is refused before any work."""
    make(sink, 1, **options)
    with pytest.raises(SinkError, match=re.escape(message)):
        prepare(DeltaTable(sink.path, **table))


def test_a_table_with_constraints(sink):
    """Nobody would check the rows."""
    make(sink, 1)
    opened(sink).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(SinkError, match=r"the table has 'delta.constraints.positive'"):
        prepare(sink)


def test_a_table_with_a_feature_that_is_not_written(sink):
    """Is refused before any work: delta-rs would refuse the commit."""
    make(sink, 1)
    feature(sink, "rowTracking", "domainMetadata")
    with pytest.raises(SinkError, match="the table has the feature 'domainMetadata', which delta-rs cannot write"):
        prepare(sink)


def feature(sink, *names):
    """Let a table ask its writers for features, as other writers of Delta do."""
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": names}
    version = opened(sink).version() + 1
    Path(sink.path, f"_delta_log/{version:020}.json").write_text(json.dumps({"protocol": protocol}) + "\n")


def test_a_commit_that_is_refused_for_good(sink, monkeypatch):
    """Is not tried again, and says why."""
    make(sink, 1)
    feature(sink, "clustering", "domainMetadata")
    monkeypatch.setattr(delta, "_FEATURES", delta._FEATURES | {"clustering", "domainMetadata"})
    prepare(sink)
    with pytest.raises(SinkError, match=r"cannot commit .*: Unsupported table features required: \[.*ClusteredTable"):
        sink.commit(written(sink, records(1)), TOKEN)
    assert rows(sink) == pairs(1)


@pytest.mark.parametrize(
    "field",
    [
        pa.field("x", pa.int64(), nullable=False),
        pa.field("x", pa.list_(pa.field("element", pa.int64(), nullable=False))),
        pa.field("x", pa.map_(pa.string(), pa.struct([pa.field("y", pa.int64(), nullable=False)]))),
    ],
    ids=str,
)
def test_a_column_that_must_not_be_null(sink, field):
    """Nobody would check the rows."""
    deltalake.DeltaTable.create(sink.path, deltalake.Schema.from_arrow(pa.schema([field])))
    with pytest.raises(SinkError, match="its column 'x' must not be null, which delta-rs does not check"):
        prepare(sink)


CHECKED = {"delta.invariants": '{"expression":{"expression":"x > 0"}}'}
CUT = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}


@pytest.mark.parametrize("mark", [CHECKED, CUT], ids=["an invariant", "a length"])
@pytest.mark.parametrize("depth", ["flat", "struct", "list", "map"])
def test_a_column_with_a_condition_is_refused(sink, mark, depth):
    """At every depth: nobody would check the rows."""
    types = deltalake.schema
    inner = deltalake.Field("x", "string", metadata=mark)
    struct = types.StructType([inner])
    kinds = {"struct": struct, "list": types.ArrayType(struct), "map": types.MapType("string", struct)}
    field = inner if depth == "flat" else deltalake.Field("y", kinds[depth])
    deltalake.DeltaTable.create(sink.path, deltalake.Schema([field]))
    with pytest.raises(SinkError, match=f"the table has '{next(iter(mark))}', which DeltaTable cannot keep"):
        prepare(sink)


def test_a_map(sink):
    """Its keys are never null, and need not be checked."""
    table = DeltaTable(sink.path, schema={"x": pa.map_(pa.string(), pa.int64())})
    for version in range(2):
        save(table, [{"x": {"a": version}}], token=Token("run", version))
    assert by_delta(sink) == [{"x": [("a", 0)]}, {"x": [("a", 1)]}]


def test_two_outputs_of_a_run_cannot_go_to_one_table(sink):
    """Its transaction could not tell their commits apart."""
    prepare(sink)
    with pytest.raises(SinkError, match="Give each output a path"):
        prepare(sink, tag="bad")


def test_a_worker_that_sees_another_disk(sink):
    """It takes no record."""
    source = iter(records(1))
    with pytest.raises(SinkError, match="Either this host sees another"):
        sink.write(source, place())
    assert next(source) == records(1)[0]


def test_abort(sink):
    """Removes what was written and published; after it, no driver can commit."""
    make(sink, 0)
    prepare(sink)
    messages = written(sink, records(1))
    sizes = {"segment-0-0.parquet": messages[0]["bytes"]}
    table_files.TableFiles(sink.path, sink.stage(TOKEN)).publish(sizes, anew=True)
    assert len(parquet_files(sink)) == 3
    sink.abort(messages, TOKEN)
    sink.abort(messages, TOKEN)
    assert len(parquet_files(sink)) == 1
    with pytest.raises(SinkError, match=r"the table does not hold it, and the staging directory .* is not there"):
        sink.commit(messages, TOKEN)
    assert rows(sink) == pairs(0)


def test_abort_of_what_was_committed(sink):
    """Is refused: the rows stay."""
    messages = save(sink, records(1))
    with pytest.raises(SinkError, match=r"does not remove what run-0 added to .*: it was committed"):
        sink.abort(messages, TOKEN)
    assert rows(sink) == pairs(1)


@pytest.mark.parametrize(
    "path",
    ["/t/a%20b", "/t/a\\b", "s3://b/a%2Fb", "s3://b/a#b", "s3://b/./t", "s3://b/a/../t", "s3://b/a/..", "s3://b/a//t"],
)
def test_a_path_that_delta_rs_takes_for_another_is_refused(path):
    """Its log would be elsewhere than the files."""
    with pytest.raises(InvalidValueError, match=f"which delta-rs takes for another path .got {re.escape(repr(path))}"):
        DeltaTable(path)


@pytest.mark.parametrize("name", ["a b", " a", "a ", "a::b", "a+b", "ü", "a:b", "{a}", "a&b=c", "~", "...", ".a"])
def test_a_table_on_s3_may_have_any_other_name(s3, name):
    """Log and files are where its path says."""
    url = f"s3://{s3.bucket()}/{name}/table"
    save(DeltaTable(url), records(1), records(2))
    assert by_delta(DeltaTable(url)) == records(1, 2)
    fs = s3.fs()
    assert [found for found in fs.find(url.split("/")[2]) if not found.startswith(url.removeprefix("s3://"))] == []


def test_wrong_options(tmp_path):
    """Raise when the sink is made."""
    with pytest.raises(InvalidTypeError, match="storage_options must be a mapping"):
        DeltaTable(tmp_path / "t", storage_options="x")
    with pytest.raises(InvalidValueError):
        DeltaTable("http://x/y")
    with pytest.raises(InvalidTypeError, match="DeltaTable schema must be"):
        DeltaTable(tmp_path / "t", schema=1)


def test_a_sink_is_a_value(tmp_path):
    """Without secrets in what is logged; it appends, so it has no default checkpoint."""
    sink = DeltaTable(tmp_path / "t", schema={"x": pa.int64()}, storage_options={"key": "secret"})
    assert pickle.loads(pickle.dumps(sink)) == sink
    assert "secret" not in repr(sink) + json.dumps(sink.identity())
    assert "schema" not in sink.identity()  # a run that a schema has stopped goes on with another
    assert sink.appends
    assert sink.beside() is None


# On S3


def storage_options(server):
    """Give what delta-rs needs to find a server."""
    return {
        "AWS_ENDPOINT_URL": server.config["endpoint_url"],
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


def test_on_s3_files_are_found_by_listing_them(s3):
    """A commit asks for each file at most twice, to copy it."""

    def asked(files):
        sink = DeltaTable(f"s3://{s3.bucket()}/table")
        prepare(sink)
        messages = written(sink, *[records(number) for number in range(files)])
        s3.asked.clear()
        sink.commit(messages, TOKEN)
        return len(s3.asked)

    few, more = asked(1), asked(9)
    assert more - few <= 2 * 8


def test_on_s3_others_read_it(s3):
    """pandas, through delta-rs."""
    pandas = pytest.importorskip("pandas")
    sink = DeltaTable(f"s3://{s3.bucket()}/table")
    save(sink, records(1, 2), records(3))
    frame = pandas.DataFrame(opened(sink).to_pandas()).sort_values("id")
    assert frame.to_dict("records") == records(1, 2, 3)


def test_a_store_that_does_not_answer(s3, monkeypatch):
    """Is an error that says so, before any work; it is not taken for a table that is not there."""
    sink = DeltaTable(f"s3://{s3.bucket()}/table", storage_options={"max_retries": "0"})
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(SinkError, match=r"DeltaTable cannot prepare 's3://.*127.0.0.1:9") as caught:
        prepare(sink)
    assert "\x1b" not in str(caught.value)


@pytest.fixture
def s3(monkeypatch):
    server = S3Server()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.config["endpoint_url"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    yield server
    server.stop()


def test_on_s3(s3):
    """Workers and delta-rs go to the same bucket; what was committed is there once, and staging has gone."""
    sink = DeltaTable(f"s3://{s3.bucket()}/lake/table")
    save(sink, records(1, 2), [], records(3))
    messages = save(sink, records(4), token=OTHER)
    sink.commit(messages, OTHER)
    assert by_delta(sink) == records(1, 2, 3, 4)
    fs = s3.fs()
    assert [name for name in fs.find(sink.path) if "_sdf" in name] == []
    assert len([name for name in fs.find(sink.path) if name.endswith(".parquet")]) == 3


def test_on_s3_a_missing_file(s3):
    """And one that was removed after it was published."""
    sink = DeltaTable(f"s3://{s3.bucket()}/table")
    prepare(sink)
    messages = written(sink, records(1), records(2))
    s3.fs().rm_file(f"{sink.stage(TOKEN).where}/segment-1-0.parquet")
    with pytest.raises(SinkError, match=r"the file 'segment-1-0.parquet' of .* bytes is not there"):
        sink.commit(messages, TOKEN)
    sink.abort(messages, TOKEN)
    assert [name for name in s3.fs().find(sink.path) if name.endswith(".parquet")] == []


def test_on_s3_another_appender_meanwhile(s3, monkeypatch):
    """The store refuses the version that is there."""
    sink = DeltaTable(f"s3://{s3.bucket()}/table")
    prepare(sink)
    at_the_commit(monkeypatch, lambda: make(sink, 5))
    sink.commit(written(sink, records(1)), TOKEN)
    assert by_delta(sink) == records(1, 5)


# A disk without hard links


@pytest.fixture
def volume_sink(tmp_path, monkeypatch):
    """A sink for a table on a disk of which it is believed that it has no links; delta-rs gets no help of them."""
    for module in (delta, table_files):
        monkeypatch.setattr(module, "has_links", lambda directory: False)
    return DeltaTable(tmp_path / "table")


@pytest.mark.parametrize("exists", [False, True])
def test_runs_that_commit_at_once_take_turns(volume_sink, exists):
    """Without turns the table loses about half of the versions."""
    if exists:
        make(volume_sink, 0)
    tokens = [Token(f"run {number}", 0) for number in range(6)]
    messages = {}
    for number, token in enumerate(tokens):
        prepare(volume_sink, token=token)
        messages[token] = [volume_sink.write(iter(records(number + 1)), place(token=token))]
    with ThreadPoolExecutor(len(tokens)) as pool:  # delta-rs does not hold Python's lock
        list(pool.map(lambda token: volume_sink.commit(messages[token], token), tokens))
    assert rows(volume_sink) == pairs(*([0] if exists else []), *range(1, 7))
    assert os.listdir(f"{volume_sink.path}/_sdf/turns") == []


def test_a_run_that_died_in_its_turn_goes_on_with_it(volume_sink, monkeypatch):
    """Others wait, and then say whose turn it is; they go on when the run is given up."""
    monkeypatch.setattr(delta_turns, "_WAIT_SECONDS", 0)
    messages = {}
    for number, token in enumerate((TOKEN, OTHER)):
        prepare(volume_sink, token=token)
        messages[token] = [volume_sink.write(iter(records(number)), place(token=token))]
    with monkeypatch.context() as patch:
        points = Points(1)
        patch.setattr(deltalake.transaction, MAKE, points.around(MAKE, getattr(deltalake.transaction, MAKE)))
        with pytest.raises(DiedError):
            volume_sink.commit(messages[TOKEN], TOKEN)
    refused = rf"the run {TOKEN} has begun to add version 0.*Make the call of that run again.*remove '.*/turns/0+'"
    with pytest.raises(SinkError, match=refused):
        volume_sink.commit(messages[OTHER], OTHER)
    volume_sink.commit(messages[TOKEN], TOKEN)
    volume_sink.commit(messages[OTHER], OTHER)
    assert rows(volume_sink) == pairs(0, 1)


def test_a_run_that_is_given_up_gives_back_its_turn(volume_sink, monkeypatch):
    """With what it has published."""
    prepare(volume_sink)
    messages = [volume_sink.write(iter(records(1)), place())]
    with monkeypatch.context() as patch:
        points = Points(1)
        patch.setattr(deltalake.transaction, MAKE, points.around(MAKE, getattr(deltalake.transaction, MAKE)))
        with pytest.raises(DiedError):
            volume_sink.commit(messages, TOKEN)
    volume_sink.abort(messages, TOKEN)
    save(volume_sink, records(2), token=OTHER)
    assert rows(volume_sink) == pairs(2)


@pytest.mark.parametrize("exists", [False, True])
def test_death_of_a_driver_on_a_volume(volume_sink, tmp_path, exists, monkeypatch):
    """At a point of each kind; its turn is no obstacle to the next one."""
    survive(lambda name: DeltaTable(tmp_path / name), exists, monkeypatch, Points.kinds)
