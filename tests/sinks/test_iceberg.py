"""IcebergTable, read back by pyiceberg and DuckDB: exactly what was written, once, whoever else writes to the table."""

import json
import os
import pickle
import re
import uuid
from contextlib import suppress
from datetime import date, datetime, timezone
from datetime import time as clock_time
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

import pytest
from support.at_once import at_once
from support.sinking import TOKEN, DiedError, Points, make_mortal, place, prepare, save

from sdf.errors import BadRecordError, InvalidTypeError, InvalidValueError, SinkError
from sdf.sinks import IcebergTable, Token, iceberg, iceberg_catalog, on_disk, table_files, table_sink
from sdf.sinks.on_objects import Upload
from sdf.storage import disk
from sdf.storage.objects import Objects

pyiceberg = pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")
duckdb = pytest.importorskip("duckdb")
fsspec = pytest.importorskip("fsspec")
s3fs = pytest.importorskip("s3fs")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from pyiceberg.catalog import load_catalog  # noqa: E402
from pyiceberg.catalog.sql import SqlCatalog  # noqa: E402
from pyiceberg.partitioning import PartitionField, PartitionSpec  # noqa: E402
from pyiceberg.schema import Schema  # noqa: E402
from pyiceberg.transforms import IdentityTransform  # noqa: E402
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, UUIDType  # noqa: E402

OTHER = Token("another run", 0)
NAME = "ns.lines"


def catalog_at(home, warehouse=None, **more):
    """Make a catalog in a database of SQLite; return its properties."""
    properties = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": warehouse or f"file://{home}/wh"}
    load_catalog("default", **properties, **more).create_namespace("ns")
    return {**properties, **more}


def catalog(sink):
    return catalog_with(sink.catalog)


@lru_cache
def catalog_with(properties):
    return load_catalog("default", **dict(properties))


def opened(sink):
    return catalog(sink).load_table(sink.name)


def exists(sink):
    return catalog(sink).table_exists(sink.name)


def rows(sink):
    """Give the rows, as DuckDB reads the files that the table names."""
    files = [task.file.file_path.removeprefix("file://") for task in opened(sink).scan().plan_files()]
    if not files:
        return []
    return sorted(duckdb.sql(f"SELECT id, name FROM read_parquet({files!r}, union_by_name=true)").fetchall())


def by_iceberg(sink):
    return sorted(opened(sink).scan().to_arrow().to_pylist(), key=str)


def records(*numbers):
    return [{"id": number, "name": f"name {number}"} for number in numbers]


def pairs(*numbers):
    return [(number, f"name {number}") for number in numbers]


def written(sink, *segments, token=TOKEN):
    """Write segments; return their messages."""
    return [sink.write(iter(one), place(f"segment-{number}", token=token)) for number, one in enumerate(segments)]


def make(sink, *numbers, overwrite=False):
    """Add to the table with another writer; make it if it is not there."""
    data = pa.Table.from_pylist(records(*numbers))
    table = catalog(sink).create_table_if_not_exists(sink.name, data.schema)
    (table.overwrite if overwrite else table.append)(data)


def make_with(sink, *fields, **options):
    catalog(sink).create_table(sink.name, Schema(*fields), **options)


def all_files(sink):
    """Give the paths of all files at the table's location, but its metadata."""
    location = iceberg_catalog.location_of(sink.name, sink.catalog, TOKEN)
    fs, path = fsspec.core.url_to_fs(location, use_listings_cache=False)
    return [name for name in fs.find(path) if "/metadata/" not in name and "_trial" not in name]


@pytest.fixture
def sink(tmp_path):
    return IcebergTable(NAME, catalog=catalog_at(tmp_path))


# The way of a run


def test_the_commit_makes_the_table(sink, tmp_path):
    """With exactly the rows of the named segments; staging has gone."""
    messages = save(sink, records(1, 2), [], records(3))
    assert messages[1] is None
    assert rows(sink) == pairs(1, 2, 3)
    assert by_iceberg(sink) == records(1, 2, 3)
    assert len(opened(sink).snapshots()) == 1
    assert sorted(os.listdir(tmp_path / "wh/ns/lines")) == ["data", "metadata"]
    assert len(all_files(sink)) == 2


def test_records_are_added_to_what_is_there(sink):
    """By one commit after the other, each a snapshot that names its run."""
    make(sink, 0)
    save(sink, records(1))
    save(sink, records(2), token=Token("run", 1))
    save(sink, records(3), token=OTHER)
    assert rows(sink) == pairs(0, 1, 2, 3)
    named = [snapshot.summary.additional_properties.get("sdf.app") for snapshot in opened(sink).snapshots()]
    assert named == [None, "run", "run", "another run"]
    assert opened(sink).properties["sdf.run"] == "1"


def test_nothing_is_visible_before_the_commit(sink):
    """There is no table; nor more than what other writers put there."""
    prepare(sink)
    messages = written(sink, records(1))
    assert not exists(sink)
    make(sink, 0)
    assert by_iceberg(sink) == records(0)
    sink.commit(messages, TOKEN)
    assert by_iceberg(sink) == records(0, 1)


def test_what_no_message_names_stays_out(sink):
    """The file of an attempt that was lost."""
    prepare(sink)
    sink.write(iter(records(1)), place("lost"))
    sink.commit([sink.write(iter(records(2)), place("kept"))], TOKEN)
    assert rows(sink) == pairs(2)
    sink.clean(TOKEN)
    assert len(all_files(sink)) == 1


def test_types(tmp_path):
    """As Iceberg has them; read back equal."""
    sink = IcebergTable("ns.t", catalog=catalog_at(tmp_path))
    record = {
        "i": 2**40, "f": 0.1, "s": "é", "b": b"\0", "t": True, "d": date(2026, 1, 2), "n": Decimal("1.5"),
        "at": datetime(2026, 1, 2, 3, 4, 5, 6), "z": datetime(2026, 1, 2, tzinfo=timezone.utc), "l": [1, None],
        "r": {"x": 1, "y": [{"z": "deep"}]}, "c": clock_time(1, 2, 3),
    }  # fmt: skip
    nothing = dict.fromkeys(record)
    save(sink, [record, nothing])
    assert by_iceberg(sink) == sorted([record, nothing], key=str)


def test_a_type_that_iceberg_does_not_have(sink):
    """Is found at the first record, not at the commit; or when the sink is made."""
    prepare(sink)
    with pytest.raises(BadRecordError, match=r"cannot write record 0 .* in field 'x' .* Iceberg does not have"):
        sink.write(iter([pa.table({"x": pa.array([1], pa.duration("us"))})]), place())
    with pytest.raises(InvalidValueError, match=re.escape("'x' has type time64[ns], which Iceberg does not have")):
        IcebergTable(NAME, catalog="x", schema={"x": pa.time64("ns")})


def test_the_schema_of_the_table_is_taken(sink):
    """Columns that are missing are null; what it does not have does not fit."""
    make(sink, 1)
    prepare(sink)
    messages = written(sink, [{"id": 2}, {"name": "x"}])
    with pytest.raises(BadRecordError, match="has the field 'more', which the schema does not have"):
        sink.write(iter([{"id": 1, "more": 2}]), place("bad"))
    sink.commit(messages, TOKEN)
    assert by_iceberg(sink) == [*records(1), {"id": 2, "name": None}, {"id": None, "name": "x"}]


def test_some_columns_only(sink):
    """The others are null for a reader of the table."""
    make(sink, 1)
    save(IcebergTable(NAME, catalog=dict(sink.catalog), schema={"name": pa.string()}), [{"name": "x"}])
    assert by_iceberg(sink) == [*records(1), {"id": None, "name": "x"}]


def test_a_column_that_is_renamed_later(sink):
    """Keeps its values: files number their columns as the table does."""
    save(sink, records(1))
    with opened(sink).update_schema() as change:
        change.rename_column("name", "title")
    assert by_iceberg(sink) == [{"id": 1, "title": "name 1"}]


def test_statistics(sink):
    """Let readers skip files."""
    save(sink, records(1, 2), records(7))
    assert len(list(opened(sink).scan("id = 7").plan_files())) == 1


def test_no_records(sink, tmp_path):
    """Are a snapshot of a table that is there; without a schema there is nothing to make a table of."""
    save(sink, [], [])
    assert not exists(sink)
    made = IcebergTable("ns.made", catalog=dict(sink.catalog), schema={"id": pa.int64()})
    save(made, [])
    assert opened(made).scan().to_arrow().schema.names == ["id"]
    save(made, [], token=OTHER)
    assert opened(made).properties["sdf.another run"] == "0"


def test_a_catalog_by_its_name(tmp_path, monkeypatch):
    """As pyiceberg's configuration has it."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/wh"}
    monkeypatch.setattr(pyiceberg.catalog._ENV_CONFIG, "config", {"catalog": {"mine": properties}})
    load_catalog("mine").create_namespace("ns")
    save(IcebergTable(NAME, catalog="mine"), records(1))
    assert load_catalog("mine", **properties).load_table(NAME).scan().to_arrow().to_pylist() == records(1)
    save(IcebergTable(NAME, catalog={"name": "mine", **properties}), records(2), token=OTHER)
    assert load_catalog("mine").load_table(NAME).scan().to_arrow().num_rows == 2


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
    assert len(opened(sink).snapshots()) == 1
    assert len(all_files(sink)) == 1


def test_a_snapshot_that_has_expired(sink):
    """Its run is still known, by the table's property; or by the summary, if somebody takes the property away."""
    messages = save(sink, records(1))
    make(sink, 5)
    opened(sink).maintenance.expire_snapshots().by_id(opened(sink).snapshots()[0].snapshot_id).commit()
    assert len(opened(sink).snapshots()) == 1
    sink.commit(messages, TOKEN)
    assert rows(sink) == pairs(1, 5)
    messages = save(sink, records(2), token=OTHER)
    with opened(sink).transaction() as change:
        change.remove_properties("sdf.another run")
    sink.commit(messages, OTHER)
    assert rows(sink) == pairs(1, 2, 5)


def run_at_once(*drivers):
    """Commit in processes of their own, at once."""
    modules = ["sdf.sinks.iceberg", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow", "pyiceberg.table"]
    at_once(*[(sink.commit, messages, token) for sink, messages, token in drivers], importing=modules)


# Dear: a process of its own imports pyiceberg.
def test_drivers_of_one_run_at_once(tmp_path):
    """All end well, and the rows are there once: in a table that they make, and in one that was there."""
    homes = tmp_path / "new", tmp_path / "old"
    for home in homes:
        home.mkdir()
    new, old = (IcebergTable(NAME, catalog=catalog_at(home)) for home in homes)
    make(old, 0)
    drivers = []
    for sink in (new, old):
        prepare(sink)
        drivers += [(sink, written(sink, records(1), records(2)), TOKEN)] * 3
    run_at_once(*drivers)
    assert (rows(new), rows(old)) == (pairs(1, 2), pairs(0, 1, 2))


@pytest.mark.slow("test_iceberg.py::test_another_appender_meanwhile, and test_delta.py::test_runs_at_once")
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


def just_before_the_snapshot(monkeypatch, act):
    """Do something when a driver has made its change, before it asks the catalog to take it, once."""
    commit = SqlCatalog.commit_table
    done = []

    def committed(self, *args):
        if not done:
            done.append(True)
            act()
        return commit(self, *args)

    monkeypatch.setattr(SqlCatalog, "commit_table", committed)


MOMENTS = pytest.mark.parametrize("moment", [at_the_commit, just_before_the_snapshot])


@MOMENTS
def test_another_appender_meanwhile(sink, monkeypatch, moment):
    """Each row is there once."""
    make(sink, 0)
    prepare(sink)
    moment(monkeypatch, lambda: make(sink, 5))
    sink.commit(written(sink, records(1)), TOKEN)
    assert rows(sink) == pairs(0, 1, 5)


@MOMENTS
def test_the_same_run_meanwhile(sink, monkeypatch, moment):
    """Committed by another driver after this one had looked."""
    make(sink, 0)
    prepare(sink)
    messages = written(sink, records(1))
    moment(monkeypatch, lambda: sink.commit(messages, TOKEN))
    sink.commit(messages, TOKEN)
    assert rows(sink) == pairs(0, 1)
    assert len(opened(sink).snapshots()) == 2


@MOMENTS
def test_a_table_that_is_made_meanwhile(sink, monkeypatch, moment):
    """By another appender; this one adds to it."""
    prepare(sink)
    moment(monkeypatch, lambda: make(sink, 5))
    sink.commit(written(sink, records(1)), TOKEN)
    assert rows(sink) == pairs(1, 5)


def test_a_table_that_is_made_meanwhile_with_other_columns(sink, monkeypatch):
    """Is an error that names the column; nothing is added."""
    prepare(sink)
    at_the_commit(monkeypatch, lambda: make_with(sink, NestedField(1, "id", StringType())))
    with pytest.raises(SinkError, match="its column 'id' has type large_string, not int64"):
        sink.commit(written(sink, records(1)), TOKEN)
    assert by_iceberg(sink) == []


def test_a_table_that_is_made_meanwhile_with_other_numbers(sink, monkeypatch):
    """Readers find columns by their numbers: they would take the one for the other."""
    prepare(sink)
    fields = NestedField(1, "name", StringType()), NestedField(2, "id", LongType())
    at_the_commit(monkeypatch, lambda: make_with(sink, *fields))
    with pytest.raises(SinkError, match=r"its column 'id' is another one than when the run began: .*'2'"):
        sink.commit(written(sink, records(1)), TOKEN)
    assert by_iceberg(sink) == []


def test_a_table_that_is_dropped_meanwhile(sink):
    """Is made again, unless its fields would get other numbers than the files have."""
    make(sink, 0)
    with opened(sink).update_schema() as change:
        change.delete_column("name")
    with opened(sink).update_schema() as change:
        change.add_column("name", StringType())
    prepare(sink)
    messages = written(sink, records(1))
    catalog(sink).drop_table(NAME)
    with pytest.raises(SinkError, match=r"its column 'name' is another one than when the run began: .*'2'.* not .*'3'"):
        sink.commit(messages, TOKEN)
    assert not exists(sink)
    prepare(sink, token=OTHER)
    sink.commit(written(sink, records(1), token=OTHER), OTHER)
    assert rows(sink) == pairs(1)


@MOMENTS
def test_an_overwrite_meanwhile(sink, monkeypatch, moment):
    """Removes what was there before; the rows of the run come after it."""
    make(sink, 0)
    prepare(sink)
    moment(monkeypatch, lambda: make(sink, 5, overwrite=True))
    sink.commit(written(sink, records(1)), TOKEN)
    assert rows(sink) == pairs(1, 5)


def remove_orphans(sink):
    """Remove all files that no snapshot names, however young, but not below names that begin with ``_``, as Spark."""
    named = {task.file.file_path.removeprefix("file://") for task in opened(sink).scan().plan_files()}
    for path in all_files(sink):
        if path not in named and "/_" not in path:
            os.unlink(path)


def test_orphans_are_removed_while_the_run_writes(sink):
    """The files of the run are not where they are looked for."""
    make(sink, 0)
    prepare(sink)
    messages = written(sink, records(1))
    remove_orphans(sink)
    sink.commit(messages, TOKEN)
    assert rows(sink) == pairs(0, 1)


@MOMENTS
def test_orphans_are_removed_while_the_run_commits(sink, monkeypatch, moment):
    """However young they are: they are put back."""
    make(sink, 0)
    prepare(sink)
    messages = written(sink, records(1))
    moment(monkeypatch, lambda: remove_orphans(sink))
    with suppress(SinkError):  # a footer was not there to be read
        sink.commit(messages, TOKEN)
    sink.commit(messages, TOKEN)
    assert rows(sink) == pairs(0, 1)


def test_orphans_are_removed_after_the_commit(sink):
    """Before the run is cleaned and after: the snapshot names its files."""
    prepare(sink)
    messages = written(sink, records(1))
    sink.commit(messages, TOKEN)
    remove_orphans(sink)
    sink.clean(TOKEN)
    remove_orphans(sink)
    assert rows(sink) == pairs(1)


def test_a_missing_file(sink):
    """Nothing is added."""
    prepare(sink)
    messages = written(sink, records(1), records(2))
    os.unlink(f"{sink.stage(TOKEN).where}/segment-1-0.parquet")
    with pytest.raises(SinkError, match=r"IcebergTable cannot commit .* 'segment-1-0.parquet' of .* is not there"):
        sink.commit(messages, TOKEN)
    assert not exists(sink)


def test_a_file_that_was_changed(sink):
    """Has another size."""
    prepare(sink)
    messages = written(sink, records(1))
    with open(f"{sink.stage(TOKEN).where}/segment-0-0.parquet", "ab") as file:
        file.write(b"x")
    with pytest.raises(SinkError, match=r"bytes has \d+ bytes, neither in"):
        sink.commit(messages, TOKEN)


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
    patch.setattr(iceberg, "_AT_ONCE", 1)
    make_mortal(patch, points, table_files, on_disk, disk)
    for owner, names in (
        (SqlCatalog, ("commit_table", "_write_metadata")),
        (Objects, ("_put", "remove")),
        (Upload, ("finish",)),
        (s3fs.S3FileSystem, ("copy", "rm")),
    ):
        for name in names:
            passing = points.around(name, getattr(owner, name))
            patch.setattr(owner, name, staticmethod(passing) if name == "_write_metadata" else passing)


PLACES = pytest.mark.parametrize("where", ["disk", pytest.param("s3", marks=pytest.mark.soak)])


@pytest.fixture
def new_sink(where, tmp_path, request):
    """Give a function that makes a sink for a table of that name."""
    if where == "disk":
        properties = catalog_at(tmp_path)
    else:
        server = request.getfixturevalue("s3_server")
        properties = catalog_at(tmp_path, f"s3://{server.bucket()}/wh", **s3_properties(server))
    return lambda name: IcebergTable(f"ns.{name}", catalog=properties)


def s3_properties(server):
    """Give what pyiceberg needs to find a server."""
    return {
        "s3.endpoint": server.config["endpoint_url"],
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.region": "us-east-1",
        "s3.request-timeout": "60",
        "s3.connect-timeout": "60",
    }


def survive(new_sink, there, monkeypatch, choose):
    """Let a driver die at the points that are chosen, in a table each; return all points."""
    make(new_sink("first"), 0)  # makes the directories for all tables
    sink, logged = new_sink("whole"), []
    points = Points(log=logged)
    if there:
        make(sink, 0)
    with monkeypatch.context() as patch:
        let_die(patch, points)
        logged_run(sink, logged, resumed=False)
    for at in choose(points):
        sink, logged = new_sink(f"table{at}"), []
        if there:
            make(sink, 0)
        with monkeypatch.context() as patch:
            let_die(patch, Points(at))
            with pytest.raises(DiedError):
                logged_run(sink, logged, resumed=False)
        logged_run(sink, logged, resumed=True)
        assert by_iceberg(sink) == records(*([0] if there else []), 1, 2, 3), points.seen[at - 1]
        assert len(all_files(sink)) == (3 if there else 2), points.seen[at - 1]
    assert any("commit_table" in name for name in points.seen)
    return points


@pytest.mark.slow("test_iceberg.py::test_death_of_a_driver_at_a_point_of_each_kind")
@PLACES
@pytest.mark.parametrize("there", [False, True])
def test_death_of_a_driver_at_any_point(new_sink, where, there, monkeypatch, capsys):
    """While it prepares, writes, commits or cleans: the next one ends the run, with each row once."""
    points = survive(new_sink, there, monkeypatch, Points.states)
    assert len(points.seen) > 20
    with capsys.disabled():
        tried = f"{len(points.states())} of {len(points.seen)}"
        print(f"\nIcebergTable on {where}, {'old' if there else 'new'} table: died at {tried} points")


@pytest.mark.parametrize("where", ["disk"])
@pytest.mark.parametrize("there", [False, True])
def test_death_of_a_driver_at_a_point_of_each_kind(new_sink, where, there, monkeypatch):
    """The next one ends the run, with each row once."""
    points = survive(new_sink, there, monkeypatch, Points.kinds)
    assert len(points.kinds()) > 5


@PLACES
def test_death_while_giving_up(new_sink, where, monkeypatch):
    """At any point: to give up once more leaves the table as it was."""
    tried = None
    while tried is None or tried:
        sink = new_sink(f"table{len(tried or ())}{tried is None}")
        make(sink, 0)
        prepare(sink)
        messages = written(sink, records(1))
        with monkeypatch.context() as patch:
            patch.setattr(iceberg, "_data_files", failing)
            with pytest.raises(SinkError, match="before the snapshot"):
                sink.commit(messages, TOKEN)
        assert len(all_files(sink)) == 5  # two of them are of staging alone
        points = Points(tried and tried.pop())
        with monkeypatch.context() as patch, suppress(DiedError):
            let_die(patch, points)
            sink.abort(messages, TOKEN)
        if tried is None:
            tried = points.states()
            assert len(tried) > 2
        sink.abort(messages, TOKEN)
        assert len(all_files(sink)) == 1, points.seen[-1]
        assert by_iceberg(sink) == records(0)
    with pytest.raises(SinkError, match=r"the table does not hold it, and the staging directory .* is not there"):
        sink.commit(messages, TOKEN)


def failing(*_):
    raise RuntimeError("before the snapshot")


def test_many_others(sink, monkeypatch):
    """It gives up at some time, and says so."""
    make(sink, 0)
    prepare(sink)
    messages = written(sink, records(1))
    monkeypatch.setattr(table_sink, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(table_sink, "_TRIES", 5)
    publish = table_files.TableFiles.publish

    def published(self, sizes, **options):
        publish(self, sizes, **options)
        make(sink, 5)

    with monkeypatch.context() as patch:
        patch.setattr(table_files.TableFiles, "publish", published)
        with pytest.raises(SinkError, match=r"others committed first 5 times. Nothing was added"):
            sink.commit(messages, TOKEN)
    sink.commit(messages, TOKEN)
    assert rows(sink).count((1, "name 1")) == 1


# What is refused


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"id": pa.int32()}, "its column 'id' has type int64, not int32"),
        ({"more": pa.int32()}, "it has no column 'more', only ['id', 'name']"),
    ],
)
def test_a_table_that_cannot_work(sink, schema, message):
    """Is refused before any work."""
    make(sink, 1)
    with pytest.raises(SinkError, match=re.escape(message)):
        prepare(IcebergTable(NAME, catalog=dict(sink.catalog), schema=schema))


def test_a_table_with_partitions(sink):
    """Would have rows where no reader looks for them."""
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="id"))
    make_with(sink, NestedField(1, "id", LongType()), partition_spec=spec)
    with pytest.raises(SinkError, match=r"it has the partitions \['id'\]. Give a table without"):
        prepare(sink)


@pytest.mark.parametrize(
    "field",
    [
        NestedField(1, "x", LongType(), required=True),
        NestedField(1, "x", ListType(2, LongType(), element_required=True)),
        NestedField(1, "x", MapType(2, StringType(), 3, LongType(), value_required=True)),
    ],
    ids=str,
)
def test_a_column_that_must_not_be_null(sink, field):
    """Nobody would check the rows."""
    make_with(sink, field)
    with pytest.raises(SinkError, match="its column 'x' must not be null, which nobody would check"):
        prepare(sink)


def test_a_table_of_format_version_3(sink):
    """pyiceberg would find out that it cannot write it when it commits."""
    make_with(sink, NestedField(1, "x", LongType()))
    path = Path(opened(sink).metadata_location.removeprefix("file://"))
    metadata = {**json.loads(path.read_text()), "format-version": 3, "next-row-id": 0}
    path.write_text(json.dumps(metadata))
    with pytest.raises(SinkError, match="it has format version 3, which pyiceberg does not write"):
        prepare(sink)


def test_numbers_of_fields(sink):
    """Are in the files for all of them, nested ones too: some readers find columns by nothing else."""
    kinds = {"m": pa.map_(pa.string(), pa.int64()), "s": pa.struct({"l": pa.list_(pa.int64())})}
    nested = IcebergTable(NAME, catalog=dict(sink.catalog), schema=kinds)
    for version in range(2):
        save(nested, [{"m": {"a": 1}, "s": {"l": [version]}}], token=Token("run", version))
    for path in all_files(sink):
        schema = str(pq.ParquetFile(path).schema)
        assert sorted(map(int, re.findall(r"field_id=([0-9-]+)", schema)))[-6:] == [1, 2, 3, 4, 5, 6], schema
    assert by_iceberg(sink) == [{"m": [("a", 1)], "s": {"l": [version]}} for version in range(2)]


def test_a_namespace_that_is_not_there(sink):
    """Is an error that says who makes it."""
    with pytest.raises(SinkError, match=r"cannot make 'other.t': the catalog has no namespace 'other'. Make it first"):
        prepare(IcebergTable("other.t", catalog=dict(sink.catalog)))


def test_a_catalog_that_is_not_there(tmp_path):
    """Is an error that names the table and what the catalog says."""
    sink = IcebergTable(NAME, catalog={"type": "sql", "uri": f"sqlite:///{tmp_path}/no/catalog.db", "warehouse": "/x"})
    with pytest.raises(SinkError, match=r"IcebergTable cannot prepare 'ns.lines': .*unable to open database file"):
        prepare(sink)


def test_a_catalog_that_moves_new_tables(sink, monkeypatch):
    """Some give each a directory of its own name: workers would not find it."""
    where = iter(["/a/1", "/a/2"])
    monkeypatch.setattr(SqlCatalog, "_resolve_table_location", lambda *_: next(where))
    with pytest.raises(SinkError, match="the catalog chooses another place for it each time"):
        prepare(sink)


def test_two_outputs_of_a_run_cannot_go_to_one_table(sink):
    """The token could not tell their commits apart."""
    prepare(sink)
    with pytest.raises(SinkError, match="Give each output a path"):
        prepare(sink, tag="bad")


def test_a_worker_that_sees_another_disk(sink):
    """It takes no record."""
    source = iter(records(1))
    with pytest.raises(SinkError, match="Either this host sees another"):
        sink.write(source, place())
    assert next(source) == records(1)[0]


def test_abort_of_what_was_committed(sink):
    """Is refused: the rows stay."""
    messages = save(sink, records(1))
    with pytest.raises(SinkError, match=r"does not remove what run-0 added to .*: it was committed"):
        sink.abort(messages, TOKEN)
    assert rows(sink) == pairs(1)


def test_wrong_options():
    """Raise when the sink is made."""
    for name in ("t", "ns.", ".t", "a..b"):
        with pytest.raises(InvalidValueError, match=r"name must be like 'namespace.table'"):
            IcebergTable(name, catalog="x")
    with pytest.raises(InvalidTypeError, match="name must be a string"):
        IcebergTable(1, catalog="x")
    for wrong in (None, {"uri": 1}, ["x"]):
        with pytest.raises(InvalidTypeError, match="catalog must be the name of a catalog"):
            IcebergTable(NAME, catalog=wrong)
    with pytest.raises(InvalidTypeError, match="IcebergTable schema must be"):
        IcebergTable(NAME, catalog="x", schema=1)


def test_a_sink_is_a_value():
    """Without secrets in what is logged or shown; it appends, so it has no default checkpoint."""
    properties = {"uri": "postgresql://me:secret@host:1/db?password=secret", "token": "secret", "warehouse": "s3://b"}
    sink = IcebergTable(NAME, catalog=properties, schema={"x": pa.int64()})
    assert pickle.loads(pickle.dumps(sink)) == sink
    assert "secret" not in repr(sink) + json.dumps(sink.identity())
    assert sink.identity()["catalog"] == {"uri": "postgresql://host:1/db", "warehouse": "s3://b"}
    assert "schema" not in sink.identity()  # a run that a schema has stopped goes on with another
    assert sink.appends
    assert sink.beside() is None


def test_a_location_as_spark_names_it(s3_server, tmp_path):
    """s3a:// and s3:// are one place."""
    bucket = s3_server.bucket()
    sink = IcebergTable(NAME, catalog=catalog_at(tmp_path, f"s3a://{bucket}/wh", **s3_properties(s3_server)))
    save(sink, records(1, 2), records(3))
    assert by_iceberg(sink) == records(1, 2, 3)
    assert opened(sink).location() == f"s3a://{bucket}/wh/ns/lines"
    assert {task.file.file_path.split(":")[0] for task in opened(sink).scan().plan_files()} == {"s3a"}


def test_locations_of_two_runs(tmp_path):
    """A table that was dropped and made elsewhere is found there by the next run."""
    sink = IcebergTable(NAME, catalog=catalog_at(tmp_path))
    save(sink, records(1))
    catalog(sink).drop_table(NAME)
    catalog(sink).create_table(NAME, pa.Table.from_pylist(records(1)).schema, location=f"file://{tmp_path}/elsewhere")
    save(sink, records(2), token=OTHER)
    assert by_iceberg(sink) == records(2)
    assert len(list(Path(tmp_path, "elsewhere/data").iterdir())) == 1


@pytest.mark.parametrize("value", [uuid.UUID(int=1), str(uuid.UUID(int=1)), uuid.UUID(int=1).bytes], ids=type)
def test_a_uuid_is_written_in_each_form(sink, value):
    """As such, as text and as bytes; what only looks like one does not fit."""
    make_with(sink, NestedField(1, "u", UUIDType(), required=False))
    save(sink, [{"u": value}, {"u": None}])
    assert sorted(opened(sink).scan().to_arrow()["u"].to_pylist(), key=str) == [uuid.UUID(int=1), None]
    prepare(sink, token=OTHER)
    with pytest.raises(BadRecordError, match=r"is no UUID; give a uuid\.UUID"):
        sink.write(iter([{"u": "{00000000000000000000000000000001}"}]), place(token=OTHER))


def test_a_run_that_the_schema_stopped_goes_on_when_the_table_fits(sink):
    """What was written before is added too."""
    make(sink, 1)
    prepare(sink)
    messages = [sink.write(iter(records(2)), place("a"))]
    more = {"id": 3, "name": "x", "more": "y"}
    with pytest.raises(BadRecordError, match="has the field 'more'"):
        sink.write(iter([more]), place("b"))
    with opened(sink).update_schema() as change:
        change.add_column("more", StringType())
    prepare(sink, resumed=True)
    messages.append(sink.write(iter([more]), place("c")))
    sink.commit(messages, TOKEN)
    assert sorted(opened(sink).scan().to_arrow()["more"].to_pylist(), key=str) == [None, None, "y"]


def test_columns_that_iceberg_takes_for_one_are_refused(sink):
    """A column a.b beside the field b of a."""
    prepare(sink)
    with pytest.raises(BadRecordError, match=r"Iceberg does not have together: .*multiple fields for name a\.b"):
        sink.write(iter([{"a.b": 1, "a": {"b": 2}}]), place())
