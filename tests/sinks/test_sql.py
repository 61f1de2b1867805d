"""SqlTable on SQLite and on a real PostgreSQL, read back by their own drivers; whatever dies, all once or nothing."""

import gc
import pickle
import re
import sqlite3
import threading
import uuid
from collections import namedtuple
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal

import attrs
import pytest
from support.at_once import at_once
from support.sinking import TOKEN, DiedError, Points, place, prepare, save

from sdf.errors import BadRecordError, InvalidTypeError, InvalidValueError, SinkError
from sdf.sinks import SqlTable, Token

sa = pytest.importorskip("sqlalchemy")

OTHER = Token("another run", 0)
DDL = "CREATE TABLE results (id INTEGER NOT NULL, name VARCHAR(100), at TIMESTAMP, CHECK (id <> 13))"
Named = namedtuple("Named", "name id")


@attrs.frozen
class Attrs:
    id: int
    name: str


@dataclass
class Data:
    name: str
    id: int


class Database:
    """A database, read and written by its own driver."""

    def __init__(self, url):
        self.url = url
        self.is_sqlite = url.startswith("sqlite")

    def ask(self, statement):
        if self.is_sqlite:
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=60)) as connection, connection:
                return connection.execute(statement).fetchall()
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(self.url.replace("+psycopg", "")) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def rows(self, columns="id, name"):
        return sorted(self.ask(f"SELECT {columns} FROM results"))

    def tables(self):
        if self.is_sqlite:
            return {name for [name] in self.ask("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return {name for [name] in self.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


@pytest.fixture(scope="module", autouse=True)
def nothing_synced():
    """A disk that syncs takes most of the time of SQLite, and no test here takes the power away."""

    def connected(connection, record):
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")

    sa.event.listen(sa.Engine, "connect", connected)
    yield
    sa.event.remove(sa.Engine, "connect", connected)


@pytest.fixture
def sqlite(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/my.db")
    database.ask(DDL)
    return database


@pytest.fixture
def postgres(postgresql):
    """The database of the server, emptied: one of its own for each test takes a tenth of a second more."""
    database = Database(postgresql)
    database.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                 "WHERE datname = 'postgres' AND pid <> pg_backend_pid()")  # fmt: skip
    database.ask("DROP SCHEMA IF EXISTS s CASCADE; DROP SCHEMA public CASCADE; "
                 "CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC")  # fmt: skip
    database.ask(DDL)
    return database


@pytest.fixture(params=["sqlite", "postgres"])
def database(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def sink(database):
    return SqlTable(database.url, "results")


def pairs(*numbers):
    return [(number, f"name {number}", None) for number in numbers]


# The way of a run


def test_what_is_committed_is_there_and_nothing_else(sink, database):
    """Two segments, one of them empty; staging has gone, and the commit is marked."""
    messages = save(sink, pairs(1, 2), [], pairs(3))
    assert messages == [{"attempt": "segment-0", "records": 2}, None, {"attempt": "segment-2", "records": 1}]
    assert database.rows() == [(1, "name 1"), (2, "name 2"), (3, "name 3")]
    assert database.tables() == {"results", "sdf_commits", "sdf_stages"}
    assert database.ask("SELECT app, version, target FROM sdf_commits") == [("run", 0, "results")]
    assert database.ask("SELECT * FROM sdf_stages") == []


def test_records_are_added_to_what_is_there(sink, database):
    """By one commit after the other, of one stream or of several runs."""
    database.ask("INSERT INTO results VALUES (0, 'old', NULL)")
    save(sink, pairs(1))
    save(sink, pairs(2), token=Token("run", 1))
    save(sink, pairs(3), token=OTHER)
    assert [number for number, _ in database.rows()] == [0, 1, 2, 3]


def test_kinds_of_records(sink, database):
    """By name or by position; what is missing is NULL."""
    row = {"name": "dict", "id": 1}
    at = datetime(2026, 1, 2, 3, 4, 5, 678)
    records = [row, (2, "tuple", None), Named("named", 3), Attrs(4, "attrs"), Data("data", 5), {"id": 6, "at": at}]
    save(sink, records)
    assert database.rows() == [
        (1, "dict"), (2, "tuple"), (3, "named"), (4, "attrs"), (5, "data"), (6, None),
    ]  # fmt: skip
    [[found]] = database.ask("SELECT at FROM results WHERE id = 6")
    assert str(found) == "2026-01-02 03:04:05.000678"


def test_named_columns_only(database):
    """The others get their defaults; a plain value goes into the only column."""
    save(SqlTable(database.url, "results", columns=["id"]), [5, 6])
    assert database.rows() == [(5, None), (6, None)]


def test_defaults_and_generated_columns(database):
    """What the database fills in is left to it."""
    key = "INTEGER PRIMARY KEY" if database.is_sqlite else "INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    database.ask(f"CREATE TABLE more (id {key}, n INTEGER NOT NULL, d INTEGER NOT NULL DEFAULT 7, "
                 f"twice INTEGER GENERATED ALWAYS AS (n * 2) STORED)")  # fmt: skip
    save(SqlTable(database.url, "more", columns=["n"]), [{"n": 1}], [{"n": 2}])
    assert sorted(database.ask("SELECT n, d, twice FROM more")) == [(1, 7, 2), (2, 7, 4)]


def test_odd_names(database):
    """They are quoted, and a column's name is no parameter's."""
    database.ask('CREATE TABLE "my ""odd"" table" ("a b%s:c" INTEGER, "SELECT" VARCHAR(9) NOT NULL)')
    save(SqlTable(database.url, 'my "odd" table'), [{"a b%s:c": 1, "SELECT": "x"}], [(2, "y")])
    assert sorted(database.ask('SELECT * FROM "my ""odd"" table"')) == [(1, "x"), (2, "y")]


def test_a_schema(postgres):
    """All that is made is made there."""
    postgres.ask("CREATE SCHEMA s; CREATE TABLE s.results (id INTEGER)")
    save(SqlTable(postgres.url, "results", schema="s"), [(1,)])
    assert postgres.ask("SELECT id FROM s.results") == [(1,)]
    assert postgres.tables() == {"results"}


def test_types_of_postgresql(postgres):
    """As its own driver reads them."""
    postgres.ask("CREATE DOMAIN even AS INTEGER CHECK (VALUE % 2 = 0); CREATE TYPE mood AS ENUM ('good', 'bad');"
                 "CREATE TABLE types (j JSONB, a INTEGER[], u UUID, n NUMERIC(30, 10), b BYTEA, z TIMESTAMPTZ, e even, "
                 "m mood, f DOUBLE PRECISION, t BOOLEAN)")  # fmt: skip
    record = ({"a": [1, None]}, [1, None, 3], uuid.uuid4(), Decimal("12345678901234567890.0123456789"), b"\0\xff",
              datetime(2026, 1, 2, tzinfo=timezone.utc), 4, "good", 0.1, True)  # fmt: skip
    sink = SqlTable(postgres.url, "types")
    save(sink, [record, [None] * 10])
    assert postgres.ask("SELECT * FROM types WHERE t") == [record]
    prepare(sink, token=OTHER)
    with pytest.raises(BadRecordError, match="even"):
        sink.write(iter([{"e": 4}, {"e": 3}]), place(token=OTHER))


def test_many_attempts(sink, database):
    """More than a statement takes parameters."""
    prepare(sink)
    messages = [sink.write(iter(pairs(1)), place("first"))]
    stage = next(name for name in database.tables() if name.startswith("sdf_stage_"))
    numbers = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 70000)"
    names = "'a' || n" if database.is_sqlite else "'a' || n::text"
    database.ask(f"INSERT INTO {stage} (id, sdf_attempt, sdf_row) {numbers} SELECT n + 100, {names}, 0 FROM s")
    messages += [{"attempt": f"a{number}", "records": 1} for number in range(1, 70_001) if number % 2]
    sink.commit(messages, TOKEN)
    assert database.ask("SELECT count(*), sum(id % 2) FROM results") == [(35_001, 35_001)]


def test_no_records(sink, database):
    """The commit of nothing is marked as well."""
    save(sink, [], [])
    assert database.rows() == []
    assert database.ask("SELECT app FROM sdf_commits") == [("run",)]


# Once


def test_what_no_message_names_stays_out(sink, database):
    """What a lost attempt wrote."""
    prepare(sink)
    sink.write(iter(pairs(1)), place("lost"))
    kept = sink.write(iter(pairs(2)), place("kept"))
    sink.commit([kept], TOKEN)
    assert database.rows() == [(2, "name 2")]


def test_nothing_is_visible_before_the_commit(sink, database):
    """The rows are in another table."""
    prepare(sink)
    sink.write(iter(pairs(1)), place())
    assert database.rows() == []


def test_a_commit_again_changes_nothing(sink, database):
    """Not right after it, and not after staging has gone."""
    messages = save(sink, pairs(1))
    sink.commit(messages, TOKEN)
    prepare(sink, resumed=True)
    sink.commit(messages, TOKEN)
    sink.clean(TOKEN)
    assert database.rows() == [(1, "name 1")]
    assert database.tables() == {"results", "sdf_commits", "sdf_stages"}


def test_prepared_again_the_run_goes_on(sink, database):
    """What was written before counts."""
    prepare(sink)
    message = sink.write(iter(pairs(1)), place("before"))
    prepare(sink, resumed=True)
    sink.commit([message, sink.write(iter(pairs(2)), place("after"))], TOKEN)
    assert [number for number, _ in database.rows()] == [1, 2]


CHANGES = {
    "a new column": ("ALTER TABLE results ADD COLUMN extra VARCHAR(5)", {"id": 2, "extra": "x"}),
    "a wider column": ("ALTER TABLE results ALTER COLUMN id TYPE BIGINT", {"id": 2**40}),
    "a column that takes NULL": ("ALTER TABLE results ALTER COLUMN id DROP NOT NULL", {"name": "x"}),
    "a condition less": ("ALTER TABLE results DROP CONSTRAINT results_id_check", {"id": 13}),
}


@pytest.mark.parametrize(("server", "change"), [("sqlite", "a new column"), *(("postgres", one) for one in CHANGES)])
def test_a_run_that_the_table_stopped_goes_on_once_the_table_fits(request, server, change):
    """Prepared again, the staging table is as the target is now, and keeps its rows."""
    database = request.getfixturevalue(server)
    statement, record = CHANGES[change]
    sink = SqlTable(database.url, "results")
    prepare(sink)
    first = sink.write(iter([{"id": 1, "name": "a", "at": datetime(2026, 1, 2)}]), place("before"))
    with pytest.raises(BadRecordError):
        sink.write(iter([record]), place("stopped"))
    database.ask(statement)
    for _ in range(2):
        prepare(sink, resumed=True)
    sink.commit([first, sink.write(iter([record]), place("after"))], TOKEN)
    sink.clean(TOKEN)
    key, value = list(record.items())[-1]
    assert database.ask(f"SELECT count(*) FROM results WHERE {key} = '{value}'") == [(1,)]
    assert database.ask("SELECT count(*) FROM results WHERE name = 'a' AND at IS NOT NULL") == [(1,)]
    assert database.tables() == {"results", "sdf_commits", "sdf_stages"}


@pytest.mark.parametrize(
    ("server", "change"),
    [
        ("sqlite", "DROP COLUMN name"),
        ("postgres", "DROP COLUMN name"),
        ("postgres", "ALTER COLUMN n TYPE NUMERIC(9, 1)"),
        ("postgres", "ALTER COLUMN name TYPE VARCHAR(1)"),
    ],
)
def test_a_run_does_not_go_on_if_the_table_would_change_what_was_written(request, server, change):
    """Nothing is lost: it goes on once the table is as before."""
    database = request.getfixturevalue(server)
    database.ask("DROP TABLE results")
    database.ask("CREATE TABLE results (id INTEGER, name VARCHAR(9), n NUMERIC(9, 2))")
    sink = SqlTable(database.url, "results")
    prepare(sink)
    message = sink.write(iter([{"name": "abc", "n": 1.25}]), place())
    database.ask(f"ALTER TABLE results {change}")
    with pytest.raises(SinkError, match=r"have changed, and records that were written before|value too long"):
        prepare(sink, resumed=True)
    database.ask("DROP TABLE results")
    database.ask("CREATE TABLE results (id INTEGER, name VARCHAR(9), n NUMERIC(9, 2))")
    prepare(sink, resumed=True)
    sink.commit([message], TOKEN)
    assert database.ask("SELECT count(*) FROM results WHERE name = 'abc' AND n = 1.25") == [(1,)]


def test_a_named_column_that_the_table_has_lost_is_named(database):
    """The run goes on once the column is there again."""
    sink = SqlTable(database.url, "results", columns=["id", "name"])
    prepare(sink)
    database.ask("ALTER TABLE results DROP COLUMN name")
    with pytest.raises(SinkError, match="has no column 'name' that takes values"):
        prepare(sink, resumed=True)


def test_a_column_that_is_added_with_a_default_does_not_take_what_was_written_without(database):
    """The message says so, not that the database is full."""
    sink = SqlTable(database.url, "results")
    prepare(sink)
    sink.write(iter(pairs(1)), place("before"))
    database.ask("ALTER TABLE results ADD COLUMN extra TEXT NOT NULL DEFAULT 'x'")
    with pytest.raises(
        SinkError, match=r"columns of .* have changed, and records .* do not fit them \(.*(?i:not.null)"
    ):
        prepare(sink, resumed=True)


def test_a_key_of_integers_takes_no_text_in_staging(sqlite):
    """SQLite's rowid refuses it at the commit, where nobody knows the record."""
    sqlite.ask("CREATE TABLE keyed (id INTEGER PRIMARY KEY, name TEXT)")
    sink = SqlTable(sqlite.url, "keyed")
    prepare(sink)
    with pytest.raises(BadRecordError, match=r"record 1 .*CHECK constraint failed: typeof"):
        sink.write(iter([(1, "a"), ("abc", "b")]), place())
    sink.commit([sink.write(iter([(1, "a"), (None, "b")]), place("good"))], TOKEN)
    assert sqlite.ask("SELECT * FROM keyed") == [(1, "a"), (2, "b")]


def test_rows_that_a_trigger_keeps_out_are_an_error(postgres):
    """They would count as saved."""
    postgres.ask("CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';")
    when = "BEFORE INSERT ON results FOR EACH ROW WHEN (NEW.id = 2)"
    postgres.ask(f"CREATE TRIGGER t {when} EXECUTE FUNCTION skip()")
    sink = SqlTable(postgres.url, "results")
    prepare(sink)
    with pytest.raises(SinkError, match=r"of 3 rows the database would add 2\. A trigger"):
        sink.commit([sink.write(iter(pairs(1, 2, 3)), place())], TOKEN)
    assert postgres.rows() == []


@pytest.mark.parametrize("name", ["a%b", 'q"t', "A b", "ü.x"])
def test_names_of_tables(database, name):
    """A percent sign is one, where a driver's parameters have one of their own."""
    quoted = '"' + name.replace('"', '""') + '"'
    database.ask(f"CREATE TABLE {quoted} (id INTEGER)")
    save(SqlTable(database.url, name), [(1,)])
    assert database.ask(f"SELECT * FROM {quoted}") == [(1,)]


def test_two_outputs_of_a_run_go_to_two_tables(database):
    """The commit of one does not count as that of the other."""
    database.ask("CREATE TABLE bad (id INTEGER)")
    main, bad = SqlTable(database.url, "results"), SqlTable(database.url, "bad")
    prepare(main)
    prepare(bad, tag="bad")
    messages = main.write(iter(pairs(1)), place()), bad.write(iter([(13,)]), place(tag="bad"))
    bad.commit(messages[1:], TOKEN)
    main.commit(messages[:1], TOKEN)
    assert database.rows() == [(1, "name 1")]
    assert database.ask("SELECT id FROM bad") == [(13,)]


def test_two_outputs_of_a_run_cannot_go_to_one_table(sink):
    """Its marker could not tell their commits apart."""
    prepare(sink)
    with pytest.raises(SinkError, match=r"the output 'main' of this run goes there. Give each output a table"):
        prepare(sink, tag="bad")
    with pytest.raises(SinkError, match="is for output 'main', not 'bad'"):
        sink.write(iter(pairs(1)), place(tag="bad"))


DRIVERS = ["sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg"]


def test_two_drivers_at_once(sink, database):
    """Each in a process of its own, with rows enough to meet; both end well, and the rows are there once."""
    prepare(sink)
    messages = [sink.write(iter(pairs(*range(1000 * n + 100, 1000 * n + 1100))), place(f"s-{n}")) for n in range(5)]
    at_once(*[(sink.commit, messages, TOKEN)] * 3, importing=DRIVERS)
    assert len(database.rows()) == len(set(database.rows())) == 5000


def test_workers_at_once(sink, database):
    """Each in a process of its own; SQLite lets them wait for each other."""
    prepare(sink)
    small = attrs.evolve(sink, batch_rows=10)
    given = [iter(pairs(*range(1000 * n + 100, 1000 * n + 400))) for n in range(4)]
    messages = at_once(*[(small.write, rows, place(f"w{n}")) for n, rows in enumerate(given)], importing=DRIVERS)
    assert messages == [{"attempt": f"w{n}", "records": 300} for n in range(4)]
    sink.commit(messages, TOKEN)
    assert len(database.rows()) == 1200


def test_drivers_prepare_at_once(sink, database):
    """One makes the tables, the others find them."""
    errors = []

    def driver():
        try:
            prepare(sink, resumed=True)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=driver) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(database.tables()) == 4


class Dying:
    """Lets the process die at one of the statements that SQLAlchemy sends; the database undoes what is open then."""

    def __init__(self, points):
        self.points = points

    def __enter__(self):
        for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
            sa.event.listen(sa.Engine, name, getattr(self, name))

    def __exit__(self, *error):
        for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
            sa.event.remove(sa.Engine, name, getattr(self, name))

    def before_cursor_execute(self, connection, cursor, statement, *args):
        if not statement.startswith("BEGIN"):
            self.points.pass_(f"before {statement}")

    def after_cursor_execute(self, connection, cursor, statement, *args):
        if not statement.startswith("BEGIN"):
            self.points.pass_(f"after {statement}")

    def commit(self, connection):
        self.points.pass_("before COMMIT")


@pytest.mark.soak
def test_death_of_a_driver_at_any_point(sink, database):
    """While it prepares, commits or cleans: the next one ends the run, with each row once."""
    assert_survives_death(sink, database, lambda points: range(1, len(points.seen) + 1))


def changes(points):
    """Return the points that come right after a change or a COMMIT: all others leave the state of one of these."""
    return [
        at
        for at, (before, name) in enumerate(zip(["", *points.seen], points.seen, strict=False), 1)
        if before == "before COMMIT" or re.match(r"after\s+(INSERT|CREATE|DROP|DELETE)", name)
    ]


def around_commits(points):
    """Return the last point before each COMMIT and the first after it, from that of the run on."""
    begin = max(at for at, name in enumerate(points.seen, 1) if name.startswith("before INSERT INTO sdf_commits"))
    commits = [at for at, name in enumerate(points.seen, 1) if name == "before COMMIT" and at > begin]
    return [near for at in commits for near in (at, at + 1) if near <= len(points.seen)]


@pytest.mark.slow("test_sql.py::test_death_of_a_driver_while_it_commits")
def test_death_of_a_driver_at_any_change(sink, database):
    """Whatever it had changed: the next one ends the run, with each row once."""
    assert_survives_death(sink, database, changes)


def test_death_of_a_driver_while_it_commits(sink, database):
    """The next one ends the run, with each row once."""
    assert_survives_death(sink, database, around_commits)


def logged_run(sink, logged, token, at, *, resumed=False):
    """Do all that a driver does; ``logged`` holds the messages that its log has."""
    prepare(sink, token=token, resumed=resumed)
    if not logged:
        logged.append(sink.write(iter([(at + 100, None, None)]), place(f"segment-{resumed}", token=token)))
    sink.commit(logged, token)
    sink.clean(token)


def assert_survives_death(sink, database, choose):
    save(sink, pairs(1))  # makes the tables for all runs
    seen = Points()
    with Dying(seen):
        save(sink, pairs(1), token=Token("count", 0))
    assert any("INSERT INTO results" in name for name in seen.seen)
    assert len(choose(seen)) > 2
    gc.freeze()  # what is there already is not looked through after each death
    for at in choose(seen):
        token = Token(f"run {at}", 0)
        written = []
        with pytest.raises(DiedError), Dying(Points(at)):
            logged_run(sink, written, token, at)
        gc.collect()  # closes the connection, as the end of a process does
        logged_run(sink, written, token, at, resumed=True)
        assert database.ask(f"SELECT count(*) FROM results WHERE id = {at + 100}") == [(1,)], seen.seen[at - 1]
    gc.unfreeze()
    assert database.tables() == {"results", "sdf_commits", "sdf_stages"}


def test_a_crash_after_the_commit(sink, database):
    """The driver did not hear that it had committed."""
    prepare(sink)
    messages = [sink.write(iter(pairs(1)), place())]
    sink.commit(messages, TOKEN)
    sink.commit(messages, TOKEN)
    assert database.rows() == [(1, "name 1")]


# What is refused


def test_counts_that_differ(sink, database):
    """Rows that somebody removed, added, or never wrote; nothing is committed."""
    prepare(sink)
    message = sink.write(iter(pairs(1, 2)), place("mine"))
    for other in (1, 3):
        with pytest.raises(SinkError, match=f"'mine' wrote {other} records, but 2 are in the staging table"):
            sink.commit([{**message, "records": other}], TOKEN)
    with pytest.raises(SinkError, match="'gone' wrote 1 records, but 0 are"):
        sink.commit([message, {"attempt": "gone", "records": 1}], TOKEN)
    with pytest.raises(SinkError, match="two messages name the attempt 'mine'"):
        sink.commit([message, message], TOKEN)
    assert database.rows() == []
    sink.commit([message], TOKEN)
    assert len(database.rows()) == 2


def test_a_key_that_is_there_already(sink, database):
    """Only the commit can tell; nothing of it is added, and when the cause is gone it can be made."""
    database.ask("CREATE UNIQUE INDEX one ON results (id)")
    database.ask("INSERT INTO results VALUES (2, 'old', NULL)")
    prepare(sink)
    messages = [sink.write(iter(pairs(1, 2)), place())]
    with pytest.raises(SinkError, match=r"cannot commit table results of \w+ .*: (IntegrityError|UniqueViolation)"):
        sink.commit(messages, TOKEN)
    assert database.rows() == [(2, "old")]
    database.ask("DELETE FROM results")
    sink.commit(messages, TOKEN)
    assert len(database.rows()) == 2


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((None, "x", None), "(?i)not.null"),
        ((1.5, "x", None), "in field 'id' 1.5 is no integer"),
        ((float("nan"), "x", None), "in field 'id' nan is no integer"),
        ((Decimal("0.5"), "x", None), "in field 'id' .* is no integer"),
        ((1, object(), None), "object"),
        ((10**30, "x", None), "(?i)out of range|too large"),
        ((1, "\ud800", None), "surrogates"),
        ((1, "x", datetime(2026, 1, 1, tzinfo=timezone.utc)), "in field 'at' .* has a time zone, but the column"),
        ((1, "x", "once upon a time"), "(?i)datetime|timestamp"),
        ((1, "x"), "has 2 fields, but 3 are expected"),
        ({"id": 1, "other": 2}, "has the field 'other', which the schema does not have"),
        ("text", "is no row with the fields"),
    ],
)
def test_a_record_that_does_not_fit(sink, database, record, message):
    """It is found in the third batch, and nothing of its segment counts."""
    prepare(sink)
    records = [*pairs(*range(100, 340)), record, *pairs(1, 2)]
    with pytest.raises(BadRecordError, match=message) as caught:
        attrs.evolve(sink, batch_rows=100).write(iter(records), place("bad"))
    assert caught.value.number == 240
    assert str(caught.value).startswith("SqlTable cannot write record 240 of this segment to table results of ")
    sink.commit([sink.write(iter(pairs(1)), place("good"))], TOKEN)
    assert database.rows() == [(1, "name 1")]


def test_a_record_that_postgresql_refuses(postgres):
    """By a type or a condition, where SQLite takes anything."""
    sink = SqlTable(postgres.url, "results")
    prepare(sink)
    for record, message in [
        (("x", "x", None), "invalid input syntax for type integer"),
        ((1, "x" * 101, None), "too long"),
        ((1, "\0", None), "NUL"),
        ((13, "x", None), "violates check constraint"),
        ((2**31, "x", None), "out of range"),
    ]:
        with pytest.raises(BadRecordError, match=message) as caught:
            sink.write(iter([*pairs(1, 2), record]), place())
        assert caught.value.number == 2
    with pytest.raises(BadRecordError, match=r"record 0 .*: in field 'id' \(None, None, None\): NotNullViolation"):
        sink.write(iter([(None, None, None)]), place())


def test_a_strict_table(sqlite):
    """Staging is as strict."""
    sqlite.ask("CREATE TABLE s (n INTEGER) STRICT")
    sink = SqlTable(sqlite.url, "s")
    prepare(sink)
    with pytest.raises(BadRecordError, match="cannot store TEXT value in INTEGER column"):
        sink.write(iter([(1,), ("x",)]), place())


def test_an_error_of_the_table_convicts_no_record(sink, database):
    """The staging table has gone meanwhile."""
    prepare(sink)

    def records():
        yield from pairs(*range(100, 1100))
        [stage] = [name for name in database.tables() if name.startswith("sdf_stage_")]
        database.ask(f"DROP TABLE {stage}")
        yield from pairs(1)

    with pytest.raises(SinkError, match=r"SqlTable cannot write table results of .*(no such table|does not exist)"):
        sink.write(records(), place())


def test_an_error_of_the_records_is_not_touched(sink):
    """Also if it comes from a database of theirs."""
    prepare(sink)

    def records():
        yield from pairs(1)
        raise sa.exc.OperationalError("theirs", {}, None)

    with pytest.raises(sa.exc.OperationalError, match="theirs"):
        sink.write(records(), place())


def test_no_transaction_is_open_while_records_are_made(sink, database):
    """Others can write meanwhile."""
    prepare(sink)

    def records():
        for number in range(3):
            yield number + 100, None, None
            database.ask("DELETE FROM results")

    attrs.evolve(sink, batch_rows=1).write(records(), place())


def test_a_worker_that_sees_another_database(sink, database, tmp_path):
    """It takes no record; an SQLite file that is not there is not made."""
    records = iter(pairs(1))
    with pytest.raises(SinkError, match="Either this host sees another database than the driver"):
        sink.write(records, place())
    prepare(sink, token=OTHER)
    with pytest.raises(SinkError, match="Either this host sees another database than the driver"):
        sink.write(records, place())
    assert next(records) == (1, "name 1", None)
    nowhere = SqlTable(f"sqlite:///{tmp_path}/nowhere.db", "results")
    with pytest.raises(SinkError, match=r"there is no database '.*nowhere.db'"):
        nowhere.write(records, place())
    assert not (tmp_path / "nowhere.db").exists()


def test_an_attempt_that_comes_too_late(sink, database):
    """After the run has ended, it brings nothing back."""
    save(sink, pairs(1))
    with pytest.raises(SinkError, match="this attempt came too late"):
        sink.write(iter(pairs(2)), place("late"))
    assert database.tables() == {"results", "sdf_commits", "sdf_stages"}


def test_abort(sink, database):
    """Removes staging; after it, no driver can commit."""
    prepare(sink)
    messages = [sink.write(iter(pairs(1)), place())]
    sink.abort(messages, TOKEN)
    sink.abort(messages, TOKEN)
    assert database.tables() == {"results", "sdf_commits", "sdf_stages"}
    with pytest.raises(SinkError, match="neither is it marked as committed in 'sdf_commits', nor is the staging table"):
        sink.commit(messages, TOKEN)
    assert database.rows() == []


def test_abort_of_what_was_committed(sink, database):
    """Is refused: the rows stay."""
    prepare(sink)
    sink.commit([sink.write(iter(pairs(1)), place())], TOKEN)
    with pytest.raises(SinkError, match=r"does not remove what run-0 added to table results .*: it was committed"):
        sink.abort([], TOKEN)
    assert len(database.rows()) == 1


def test_abort_of_what_was_never_prepared(sink, database):
    """There is nothing to do."""
    sink.abort([], TOKEN)
    assert database.tables() == {"results"}


def test_abort_while_another_driver_commits(postgres):
    """It waits for that, and is refused then."""
    sink = SqlTable(postgres.url, "results")
    prepare(sink)
    message = sink.write(iter(pairs(1)), place())
    reached, go_on = threading.Event(), threading.Event()

    def pause(connection, cursor, statement, *args):
        if statement.startswith("INSERT INTO results"):
            reached.set()
            go_on.wait(60)

    sa.event.listen(sa.Engine, "before_cursor_execute", pause)
    try:
        driver = threading.Thread(target=sink.commit, args=([message], TOKEN))
        driver.start()
        assert reached.wait(60)
        errors = []

        def abort():
            try:
                sink.abort([message], TOKEN)
            except SinkError as error:
                errors.append(str(error))

        aborting = threading.Thread(target=abort)
        aborting.start()
        while not postgres.ask("SELECT 1 FROM pg_locks WHERE NOT granted"):
            pass
        go_on.set()
        driver.join()
        aborting.join()
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", pause)
    assert len(errors) == 1
    assert "it was committed" in errors[0]
    assert len(postgres.rows()) == 1


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ("nowhere", {}, "there is no table nowhere of .* Make it first, or name its schema="),
        ("results", {"columns": ["id", "x"]}, r"has no column 'x' that takes values; it has \['id', 'name', 'at'\]"),
        ("results", {"columns": ["name"]}, "needs a value in 'id', which is not one of the columns"),
        ("sdf", {}, "needs the name 'sdf_attempt' for itself"),
        ("v", {}, "cannot prepare table v of "),
    ],
)
def test_a_target_that_cannot_work(database, table, options, message):
    """Is refused before any work, and leaves no staging table."""
    database.ask("CREATE TABLE sdf (sdf_attempt INTEGER)")
    database.ask("CREATE VIEW v AS SELECT id, count(*) AS n FROM results GROUP BY id")
    sink = SqlTable(database.url, table, **options)
    with pytest.raises(SinkError, match=message):
        prepare(sink)
    sink.abort([], TOKEN)
    assert database.tables() == {"results", "sdf", "sdf_commits", "sdf_stages"}


def test_no_right_to_insert(postgres):
    """Is found before any work."""
    postgres.ask("CREATE ROLE guest LOGIN; GRANT SELECT ON results TO guest; GRANT CREATE ON SCHEMA public TO guest")
    try:
        with pytest.raises(SinkError, match="permission denied for table results"):
            prepare(SqlTable(postgres.url.replace("tester:secret", "guest"), "results"))
    finally:
        postgres.ask("DROP OWNED BY guest; DROP ROLE guest")


@pytest.mark.parametrize(
    ("args", "options", "error", "message"),
    [
        ((1, "t"), {}, InvalidTypeError, "url must be a string"),
        (("nonsense", "t"), {}, InvalidValueError, "url must be one that SQLAlchemy knows"),
        (("mysql://u:secret@h/d", "t"), {}, InvalidValueError, "postgresql and sqlite (got a URL for 'mysql')"),
        (("sqlite://", "t"), {}, InvalidValueError, "must name a file for SQLite"),
        (("sqlite:///:memory:", "t"), {}, InvalidValueError, "must name a file for SQLite"),
        (("sqlite:///x", None), {}, InvalidTypeError, "table must be a string (got None)"),
        (("sqlite:///x", "t"), {"columns": "id"}, InvalidTypeError, "columns must be a list of names"),
        (("sqlite:///x", "t"), {"columns": []}, InvalidValueError, "columns must be distinct names"),
        (("sqlite:///x", "t"), {"columns": ["a", "a"]}, InvalidValueError, "columns must be distinct names"),
        (("sqlite:///x", "t"), {"schema": 1}, InvalidTypeError, "schema must be a string (got 1)"),
        (("sqlite:///x", "t"), {"batch_rows": "x"}, InvalidTypeError, "batch_rows must be an integer"),
        (("sqlite:///x", "t"), {"batch_rows": 0}, InvalidValueError, "batch_rows must be >= 1 (got 0)"),
        (("sqlite:///x", "t"), {"engine_options": 1}, InvalidTypeError, "engine_options must be a mapping"),
    ],
)
def test_wrong_options(args, options, error, message):
    """Raise when the sink is made, and show no password."""
    with pytest.raises(error, match=re.escape(message)) as caught:
        SqlTable(*args, **options)
    assert "secret" not in str(caught.value)


def test_no_password_is_shown(tmp_path, monkeypatch):
    """Not in the identity, a message or the repr; a relative path is the same everywhere."""
    sink = SqlTable("postgresql+psycopg://me:secret@127.0.0.1:1/db?password=secret", "t", columns=["a"])
    assert sink.identity() == {
        "sink": "SqlTable", "database": ["postgresql", "127.0.0.1", 1, "db"], "table": "t", "columns": ["a"],
        "schema": None,
    }  # fmt: skip
    with pytest.raises(SinkError) as caught:
        prepare(sink)
    assert "secret" not in repr(sink) + str(caught.value)
    assert "table t of postgresql 'db' at 127.0.0.1:1" in str(caught.value)
    monkeypatch.chdir(tmp_path)
    assert SqlTable("sqlite:///my.db", "t").identity()["database"][-1] == f"{tmp_path}/my.db"


def test_a_sink_is_a_value(sink):
    """Sent to the workers; it appends, so it has no default checkpoint."""
    assert pickle.loads(pickle.dumps(sink)) == sink
    assert hash(sink) == hash(attrs.evolve(sink))
    assert sink.appends
    assert sink.beside() is None
