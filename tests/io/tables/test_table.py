"""ReadTable: rows of SQLite and of a real PostgreSQL, against plain SQL, split at every key."""

import ast
import datetime as dt
import re
import sqlite3
import sys
from collections import Counter
from decimal import Decimal
from itertools import combinations, pairwise, product

import attrs
import pytest
from support.following import Following

from sdf import ByteKeyRange, run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, MissingExtraError, ReadError, SourceError
from sdf.io.tables.keys import KeyRange, first_text
from sdf.io.tables.table import ReadTable, TableQuery
from sdf.io.tables.tail import TailTable
from sdf.serialization.values import Parts
from sdf.testing import check_dofn

sa = pytest.importorskip("sqlalchemy")
from sqlalchemy.dialects import sqlite  # noqa: E402, it may be missing

INTEGERS = (-13, -7, -1, 0, 1, 2, 3, 9, 9, 9, 10, 24)  # negative, with gaps, one three times
TEXTS = (
    "",
    "\x01",
    "A",
    "a",
    "a ",
    "a\x01",
    "ab",
    "b",
    "z",
    "é",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\U00010000",
    "\U0010ffff",
)
BYTES = (b"", b"\x00", b"\x00\x00", b"a", b"a\x00", b"a\x00\x00", b"ab", b"\x7f", b"\xc3", b"\xff", b"\xff\xff")
STEP = pytest.mark.parametrize("chunk_rows", [1, 2, 5, 10, 1000])
ODD = [
    b"\x00",
    b"\x01",
    b"a\x00",
    b"aa",
    b"\xc3\x28",
    b"\xc3\xa9\x00",
    b"\xed\xff",
    b"\xee\x80",
    b"\xf0",
    b"\xf4\x90",
    b"\xff\x00",
]
BYTE_CUTS = sorted({*ODD, *filter(None, BYTES), *(text.encode() for text in TEXTS if text)})


class Claims:
    """A tracker that nobody splits."""

    def __init__(self, restriction):
        self.restriction = restriction

    def current_restriction(self):
        return self.restriction

    def try_claim(self, position):
        return position != b"" and (self.restriction.stop == b"" or position < self.restriction.stop)


def wrong_cuts(fn, element, every_cuts):
    """Return those cuts whose parts do not give the rows of the whole."""
    fn.setup()
    whole = fn.get_initial_restriction(element)
    expected = counted(fn.process(element, Claims(whole)))
    wrong = []
    for cuts in every_cuts:
        marks = [whole.start, *(cut for cut in cuts if whole.start < cut < whole.stop), whole.stop]
        parts = [attrs.evolve(whole, start=start, stop=stop) for start, stop in pairwise(marks)]
        if counted(row for part in parts[::-1] for row in fn.process(element, Claims(part))) != expected:
            wrong.append(cuts)
    fn.teardown()
    return wrong


def make_tables(engine):
    """Make a table for each type of key."""
    metadata = sa.MetaData()
    tables = {
        name: sa.Table(name, metadata, sa.Column("k", kind), sa.Column("n", sa.Integer), sa.Column("t", sa.Text))
        for name, kind in (
            ("integers", sa.BigInteger),
            ("texts", sa.Text),
            ("bytes", sa.LargeBinary),
            ("empty", sa.Integer),
            ("empty_texts", sa.String(9)),
            ("wide", sa.BigInteger),
            ("holes", sa.Integer),
        )
    }
    metadata.create_all(engine)
    keys = {
        "integers": INTEGERS,
        "texts": TEXTS,
        "bytes": BYTES,
        "wide": (-(2**63), -(2**63) + 1, 0, 2**63 - 2, 2**63 - 1),
        "holes": (1, None, 2),
    }
    with engine.begin() as connection:
        for name, values in keys.items():
            rows = [{"k": key, "n": number, "t": f"row {number}"} for number, key in enumerate(values)]
            connection.execute(tables[name].insert(), rows[::-1])


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request, tmp_path_factory):
    """Give each database in turn, filled."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('sqlite')}/test.db"
    else:
        url = request.getfixturevalue("postgresql")
    engine = sa.create_engine(url)
    make_tables(engine)
    engine.dispose()
    return url


@pytest.fixture
def sqlite_url(tmp_path):
    """Give a function that runs a script in a new SQLite database and returns its URL."""

    def make(script):
        with sqlite3.connect(tmp_path / "own.db") as database:
            database.executescript(script)
        database.close()
        return f"sqlite:///{tmp_path}/own.db"

    return make


def plainly(url, sql):
    """Return what plain SQL gives."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        rows = [dict(row) for row in connection.execute(sa.text(sql)).mappings()]
    engine.dispose()
    return rows


def counted(rows):
    return Counter(tuple(sorted(row.items())) for row in rows)


TABLE = pytest.mark.parametrize("table", ["integers", "texts", "bytes", "wide", "empty", "empty_texts"])


@STEP
@TABLE
def test_rows_are_those_of_plain_sql(url, table, chunk_rows):
    """Whatever is claimed and fetched at a time."""
    fn = ReadTable(url, key="k", chunk_rows=chunk_rows)
    assert counted(run_direct([table], fn)) == counted(plainly(url, f"SELECT * FROM {table}"))


@TABLE
def test_it_can_be_split_anywhere(url, table):
    """check_dofn splits it at every claim."""
    check_dofn(ReadTable(url, key="k", chunk_rows=3), table)


@pytest.mark.parametrize("seed", range(3))
@TABLE
def test_checkpoints_change_nothing(url, table, seed):
    """Split after each claim, the parts run in any order."""
    found = run_direct([table], ReadTable(url, key="k", chunk_rows=2), split_every=1, seed=seed)
    assert counted(found) == counted(plainly(url, f"SELECT * FROM {table}"))


@STEP
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow("the same test with fewer cuts"))])
def test_every_cut_of_integers(url, chunk_rows, step):
    """Two cuts anywhere in the range: every row once."""
    cuts = combinations(range(min(INTEGERS), max(INTEGERS) + 2, step), 2)
    assert wrong_cuts(ReadTable(url, key="k", chunk_rows=chunk_rows), "integers", cuts) == []


@pytest.mark.parametrize("table", ["texts", "bytes"])
def test_every_cut_of_byte_keys(url, table):
    """Cuts at keys, between them, and where no key can be since they are no UTF-8: every row once."""
    cuts = [*combinations(BYTE_CUTS, 1), *combinations(BYTE_CUTS[::2], 2)]
    assert wrong_cuts(ReadTable(url, key="k"), table, cuts) == []


def test_rows_of_a_key_are_one_block(url):
    """A key that three rows have is claimed once."""
    assert check_dofn(ReadTable(url, key="k", chunk_rows=1), "integers").claims == len(set(INTEGERS))


def test_integers_are_claimed_by_the_block(url):
    """Ten key values a claim from the first on: [-13, -3), [-3, 7), [7, 17), [17, 27)."""
    assert check_dofn(ReadTable(url, key="k", chunk_rows=10), "integers").claims == 4


def test_empty_blocks_cost_no_claim(url):
    """Keys as far apart as the database allows."""
    assert check_dofn(ReadTable(url, key="k", chunk_rows=10), "wide").claims == 3


def test_range_of_keys_is_pinned(url):
    """What is added below and above while a run reads is not read, though it lies in the last block."""
    fn = ReadTable(url, key="k", chunk_rows=1000)
    fn.setup()
    assert fn.get_initial_restriction("integers") == KeyRange(-13, 25, -13, 25)
    assert fn.get_initial_restriction("texts") == ByteKeyRange(b"\x00", "\U0010ffff".encode() + b"\x00")
    pinned = KeyRange(-7, 10, -7, 10)
    assert sorted(row["k"] for row in fn.process("integers", Claims(pinned))) == [-7, -1, 0, 1, 2, 3, 9, 9, 9]
    fn.teardown()


@pytest.mark.parametrize("table", ["integers", "texts", "bytes"])
def test_restriction_can_be_told_as_data(url, table):
    """A lane can split it."""
    fn = ReadTable(url, key="k")
    fn.setup()
    restriction = fn.get_initial_restriction(table)
    fn.teardown()
    assert Parts(restriction).read(Parts(restriction).describe(restriction)) == restriction


def test_columns(url):
    """Those asked for, in that order, with or without the key; a TableQuery goes first."""
    fn = ReadTable(url, key="k", columns=["t", "n"])
    assert list(run_direct(["integers"], fn)[0]) == ["t", "n"]
    assert run_direct([TableQuery("integers", columns=["n"])], fn)[0] == {"n": 0}


def test_with_position(url):
    """The table and the key."""
    fn = ReadTable(url, key="k", columns=["n"], with_position=True)
    assert run_direct(["texts"], fn)[2] == (("texts", "A"), {"n": 2})


def test_where(url):
    """A condition, with what is special in SQL and in Python's formats."""
    query = TableQuery("integers", where="k = 1 OR t LIKE '%row 11%' OR t = 'ro\\:w' -- and so on")
    assert [row["k"] for row in run_direct([query], ReadTable(url, key="k"), split_every=1)] == [1, 24]


def test_where_that_nothing_meets(url):
    """No rows, no error."""
    assert run_direct([TableQuery("integers", where="k > 99")], ReadTable(url, key="k")) == []


def test_views_and_types(url):
    """A view is as good as a table, and values are of the types of their columns."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE VIEW seen AS SELECT k, CAST(n AS NUMERIC(9, 2)) AS d FROM integers"))
    rows = run_direct(["seen"], ReadTable(url, key="k", chunk_rows=2), split_every=1)
    with engine.begin() as connection:
        expected = connection.execute(sa.select(sa.Table("seen", sa.MetaData(), autoload_with=engine))).mappings()
        assert counted(rows) == counted([dict(row) for row in expected])
        connection.execute(sa.text("DROP VIEW seen"))
    engine.dispose()


def test_postgresql_orders_texts_by_a_language(postgresql):
    """That is why the tests on it show something."""
    assert plainly(postgresql, "SELECT 'B' < 'a' AS of_bytes, 'B' < 'a' COLLATE \"C\" AS forced") == [
        {"of_bytes": False, "forced": True}
    ]


def test_postgresql_schema_and_padded_keys(postgresql):
    """char(n) compares without its padding; a schema of one's own."""
    engine = sa.create_engine(postgresql)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE SCHEMA own"))
        connection.execute(sa.text("CREATE TABLE own.padded (k char(4))"))
        connection.execute(sa.text("INSERT INTO own.padded VALUES ('a'), (E'a\\x01'), ('a!'), ('B'), ('ab'), ('')"))
    engine.dispose()
    padded = TableQuery("padded", schema="own")
    fn = ReadTable(postgresql, key="k")
    assert check_dofn(fn, padded).records == 6
    cuts = [(cut,) for cut in (b"B", b"a", b"a\x00", b"a\x01", b"a\x02", b"a ", b"a!", b"ab")]
    assert wrong_cuts(fn, padded, cuts) == []


def test_postgresql_sends_rows_as_they_are_read(postgresql):
    """A cursor of the server: a worker holds chunk_rows rows, not a part."""
    import psycopg

    engine = sa.create_engine(postgresql)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE sent (k integer)"))
        connection.execute(sa.text("INSERT INTO sent VALUES (1), (2), (3)"))
    engine.dispose()
    cursors = []
    fn = ReadTable(postgresql, key="k", chunk_rows=2)
    fn.setup()
    sa.event.listen(fn._engine, "before_cursor_execute", lambda *of: cursors.append(of[1]))
    rows = fn.process("sent", Claims(KeyRange(1, 4, 1, 4)))
    assert next(rows) == {"k": 1}
    assert isinstance(cursors[-1], psycopg.ServerCursor)
    rows.close()
    fn.teardown()


def test_postgresql_uses_an_index_in_the_order_of_bytes(postgresql):
    """With it a part of a big table of texts is found, not looked for."""
    engine = sa.create_engine(postgresql)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE named (k varchar(20))"))
        connection.execute(sa.text("INSERT INTO named SELECT 'key' || n FROM generate_series(1, 10000) n"))
        connection.execute(sa.text('CREATE INDEX ON named (k COLLATE "C")'))
        connection.execute(sa.text("ANALYZE named"))
    queries = []
    fn = ReadTable(postgresql, key="k")
    fn.setup()
    sa.event.listen(fn._engine, "before_cursor_execute", lambda *of: queries.append((of[2], of[3])))
    assert len(list(fn.process("named", Claims(ByteKeyRange(b"key50", b"key51"))))) == 111
    sql, values = queries[-1]
    with engine.begin() as connection:
        plan = "\n".join(row[0] for row in connection.exec_driver_sql("EXPLAIN " + sql, values))
    fn.teardown()
    engine.dispose()
    assert "Index Cond: " in plan


# Texts as keys


ALPHABET = "\x00\x01a\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
BEGUN = {letter.encode()[:size] for letter in ALPHABET for size in range(1, 5)}
TAILS = sorted({*BEGUN, *(bytes([number]) for number in range(0, 256, 5))})


@pytest.mark.parametrize("lowest", ["\x00", "\x01"])
def test_first_text_for_any_bytes(lowest):
    """A text is at or after the bound if, and only if, its UTF-8 is."""
    alphabet = [letter for letter in ALPHABET if letter >= lowest]
    texts = ["".join(letters) for size in range(3) for letters in product(alphabet, repeat=size)]
    bounds = [b"", *TAILS, *map(b"".join, product(TAILS, repeat=2))]
    wrong = []
    for bound in bounds:
        first = first_text(bound, lowest)
        assert first is None or first.encode() >= bound
        wrong += [(bound, text) for text in texts if (text.encode() >= bound) != (first is not None and text >= first)]
    assert wrong == []


# What can be wrong


def test_rows_without_a_key(url):
    """They would be lost; leaving them out is said aloud."""
    message = "has rows without a key (k is NULL), which belong to no range. Choose another key, or leave them out: "
    with pytest.raises(SourceError, match=re.escape(message + "TableQuery(where='k IS NOT NULL').")):
        run_direct(["holes"], ReadTable(url, key="k"))
    assert len(run_direct([TableQuery("holes", where="k IS NOT NULL")], ReadTable(url, key="k"))) == 2


@pytest.mark.parametrize("key", ["order", "a b", 'a"b', "a:b", "a'b", "a.b"])
def test_the_condition_that_an_error_advises_holds_for_any_name(sqlite_url, key):
    """It is quoted where the name needs it."""
    quoted = '"' + key.replace('"', '""') + '"'
    url = sqlite_url(f"CREATE TABLE t ({quoted} INTEGER); INSERT INTO t VALUES (NULL), (1)")
    with pytest.raises(SourceError) as caught:
        run_direct(["t"], ReadTable(url, key=key))
    where = ast.literal_eval(re.search(r"TableQuery\(where=(.*)\)\.", str(caught.value))[1])
    assert run_direct([TableQuery("t", where=where)], ReadTable(url, key=key)) == [{key: 1}]


def test_missing_table(url):
    """It says which and where, without the password."""
    with pytest.raises(SourceError, match="ReadTable: there is no table nothing in ") as caught:
        run_direct(["nothing"], ReadTable(url, key="k"))
    assert "secret" not in str(caught.value)


def test_missing_file_of_sqlite(tmp_path):
    """It says which, and makes none."""
    path = tmp_path / "missing.db"
    with pytest.raises(SourceError, match=re.escape(f"ReadTable: there is no database '{path}' on host '")):
        run_direct(["t"], ReadTable(f"sqlite:///{path}", key="k"))
    assert not path.exists()


def test_uri_of_sqlite(sqlite_url, tmp_path):
    """A URI is not the name of a file, and says itself whether to make one."""
    sqlite_url("CREATE TABLE t (k INTEGER); INSERT INTO t VALUES (1)")
    url = f"sqlite:///file:{tmp_path}/own.db?mode=ro&uri=true"
    assert run_direct(["t"], ReadTable(url, key="k")) == [{"k": 1}]


@pytest.mark.parametrize("options", [{"key": "x"}, {"key": "k", "columns": ["n", "x"]}], ids=repr)
def test_missing_column(url, options):
    """It says which, and which there are."""
    message = r"ReadTable: table integers in .* has no column 'x'; it has \['k', 'n', 't'\]\."
    with pytest.raises(SourceError, match=message):
        run_direct(["integers"], ReadTable(url, **options))


def test_wrong_condition(url):
    """The words of the database."""
    with pytest.raises(SourceError, match=r"ReadTable: table integers in .*nonsense"):
        run_direct([TableQuery("integers", where="nonsense = 1")], ReadTable(url, key="k"))


def test_database_that_does_not_answer(tmp_path):
    """The words of the driver, without the password."""
    pytest.importorskip("psycopg")
    fn = ReadTable(f"postgresql+psycopg://me:secret@/postgres?host={tmp_path}", key="k")
    with pytest.raises(
        SourceError, match=r"ReadTable: table t in postgresql\+psycopg://me:\*\*\*@.*connection"
    ) as caught:
        run_direct(["t"], fn)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", ["REAL", "DATETIME", "BOOLEAN", ""])
def test_key_of_another_type(sqlite_url, kind):
    """Ranges are made of integers, byte strings and texts."""
    fn = ReadTable(sqlite_url(f"CREATE TABLE t (k {kind})"), key="k")
    with pytest.raises(SourceError, match=r"key 'k' of table t in .* must be integers, byte strings or texts \(it is"):
        run_direct(["t"], fn)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("INTEGER", "'x'", "int"),
        ("INTEGER", "1.5", "int"),
        ("INTEGER", "x'00'", "int"),
        ("TEXT", "x'00'", "str"),
        ("BLOB", "'x'", "bytes"),
        ("BLOB", "1", "bytes"),
    ],
)
def test_key_of_another_type_in_some_row(sqlite_url, kind, value, expected):
    """SQLite allows it; such a row would be lost, or break the order."""
    others = {"INTEGER": "(1), (2)", "TEXT": "('a')", "BLOB": "(x'01')"}[kind]
    url = sqlite_url(f"CREATE TABLE t (k {kind}); INSERT INTO t VALUES {others}, ({value})")
    with pytest.raises(ReadError, match=f"should be of type {expected} only"):
        run_direct(["t"], ReadTable(url, key="k"))


@pytest.mark.parametrize(("kind", "value"), [("DATE", "'x'"), ("DATE", "5"), ("JSON", "'{'")])
def test_value_of_another_type_in_some_row(sqlite_url, kind, value):
    """It says in which table, column and which value; the other columns can be read."""
    url = sqlite_url(f"CREATE TABLE t (k INTEGER, v {kind}); INSERT INTO t VALUES (1, NULL), (2, {value})")
    with pytest.raises(ReadError, match=rf"ReadTable: table t in .* the column 'v' of type .* has {value}: "):
        run_direct(["t"], ReadTable(url, key="k"))
    assert run_direct(["t"], ReadTable(url, key="k", columns=["k"])) == [{"k": 1}, {"k": 2}]


AS_HELD = [
    *("INTEGER", "BIGINT", "REAL", "FLOAT", "DOUBLE", "TEXT", "VARCHAR(5)", "CHAR(3)", "BLOB", ""),
    *("NUMERIC", "DECIMAL(10,2)", "NUMERIC(20,15)", "STRING", "UUID", "ANY"),
]
OTHERS = ["BOOLEAN", "DATE", "DATETIME", "TIMESTAMP", "TIME", "JSON"]
OTHERS += ["JSONB"] if hasattr(sqlite, "JSONB") else []  # of SQLAlchemy 2.1
STORED = [
    *("0", "1", "2", "-1", "9223372036854775807", "1.5", "0.1", "1e300", "9e999", "123456789.123456789", "1e19"),
    *("'x'", "''", "'1'", "'true'", "'false'", "'1.50'", "'2024-01-02'", "'20240102'", "'2024-01-02 03:04:05'"),
    *("'2024-01-02 03:04:05.1234567'", "'2024-01-02 03:04:05.1234560'", "'2024-01-02T03:04:05Z'", "'03:04:05'"),
    *("'03:04:05,1234567'", "x'00'", "x'7b7d'", "'{\"a\": [1, null]}'", "'{'", "NULL"),
]  # fmt: skip


def means(kind, held):
    """Return what a value of SQLite is in a column of a type, ValueError for none."""
    if held is None:
        return None
    if kind == "BOOLEAN":
        return {0: False, 1: True}.get(held, ValueError)
    if kind.startswith("JSON"):
        if isinstance(held, (int, float)):
            return held
        return {"true": True, "false": False, "{": ValueError, "x": ValueError, "": ValueError, b"{}": {}}.get(
            held, {"a": [1, None]} if str(held).startswith('{"') else ValueError
        )
    date, time = dt.date(2024, 1, 2), dt.time(3, 4, 5)
    moment = dt.datetime.combine(date, time)
    times = {
        "2024-01-02": (date, dt.datetime(2024, 1, 2), ValueError),
        "2024-01-02 03:04:05": (ValueError, moment, ValueError),
        "2024-01-02 03:04:05.1234560": (ValueError, moment.replace(microsecond=123456), ValueError),
        "2024-01-02T03:04:05Z": (ValueError, moment.replace(tzinfo=dt.timezone.utc), ValueError),
        "03:04:05": (ValueError, ValueError, time),
    }
    return times.get(held, [ValueError] * 3)[{"DATE": 0, "TIME": 2}.get(kind, 1)]


def by_read(url, table):
    return run_direct([table], ReadTable(url, key="k", columns=["v"]))


def by_tail(url, table):
    fn = TailTable(url, key="k", columns=["v"])
    fn.setup()
    try:
        return Following(fn, table).read()
    finally:
        fn.teardown()


@pytest.mark.parametrize("road", [by_read, by_tail])
@pytest.mark.parametrize("kind", [*AS_HELD, *OTHERS])
def test_a_value_is_what_sqlite_holds_or_an_error_names_it(tmp_path, kind, road):
    """Every declared type with every kind of value; SQLite keeps values of other types."""
    wrong = []
    with sqlite3.connect(tmp_path / "a.db") as connection:
        for number, value in enumerate(STORED):
            connection.execute(f"CREATE TABLE t{number} (k INTEGER, v {kind})")
            connection.execute(f"INSERT INTO t{number} VALUES (1, {value})")
        held = [connection.execute(f"SELECT v FROM t{number}").fetchone()[0] for number in range(len(STORED))]
    connection.close()
    for number, value in enumerate(held):
        expected = value if kind in AS_HELD else means(kind, value)
        try:
            (found,) = road(f"sqlite:///{tmp_path / 'a.db'}", f"t{number}")
        except ReadError as error:
            named = f"the column 'v' of type {kind[:4]}" in str(error) and repr(value) in str(error)
            if expected is ValueError and named:
                continue
            found = {"v": error}
        except SourceError as error:  # the words of SQLite, for bytes that are no JSONB
            if kind == "JSONB" and expected is ValueError:
                continue
            found = {"v": error}
        same = found["v"] == (Decimal(repr(value)) if isinstance(found["v"], Decimal) else expected)
        if not same or isinstance(found["v"], bool) is not isinstance(expected, bool):
            wrong.append((value, found["v"], expected))
    assert wrong == []


def test_a_key_between_two_integers_is_refused_wherever_the_keys_are_cut(sqlite_url):
    """SQLite keeps 2.5 in a column of integers: it lies in the part that ends in 3, and not between the parts."""
    values = ", ".join(f"({key})" for key in (1, 2, 2.5, 3, 4, (1 << 63) - 1))
    fn = ReadTable(sqlite_url(f"CREATE TABLE t (k INTEGER); INSERT INTO t VALUES {values}"), key="k", chunk_rows=1)
    fn.setup()

    def read(*cuts):
        parts = [KeyRange(start, stop, 1, 1 << 63) for start, stop in pairwise(cuts)]
        return [list(fn.process("t", fn.create_tracker("t", part))) for part in parts]

    for cut in (2, 3, 4, (1 << 63) - 1):
        with pytest.raises(ReadError, match="should be of type int only"):
            read(1, cut, 1 << 63)
    assert read(3, 1 << 63) == [[{"k": 3}, {"k": 4}, {"k": (1 << 63) - 1}]]
    fn.teardown()


def test_texts_in_another_encoding(sqlite_url):
    """UTF-16 has another order."""
    fn = ReadTable(sqlite_url("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (k TEXT)"), key="k")
    with pytest.raises(SourceError, match=r"key 'k' of table t in .* is text in a database whose encoding is UTF-16le"):
        run_direct(["t"], fn)


def test_texts_that_ignore_case(sqlite_url):
    """The column's collation does not matter."""
    url = sqlite_url("CREATE TABLE t (k TEXT COLLATE NOCASE); INSERT INTO t VALUES ('a'), ('B'), ('C'), ('d'), ('D')")
    checked = check_dofn(ReadTable(url, key="k"), "t")
    assert (checked.records, checked.claims) == (5, 5)


@pytest.mark.parametrize("element", [5, None, ("t",)], ids=repr)
def test_wrong_element(url, element):
    """It says what an element is."""
    with pytest.raises(InvalidTypeError, match="ReadTable reads a table's name or a TableQuery"):
        run_direct([element], ReadTable(url, key="k"))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"table": 5}, InvalidTypeError, "TableQuery table must be a string (got 5)."),
        ({"table": None}, InvalidTypeError, "TableQuery table must be a string (got None)."),
        ({"where": 5}, InvalidTypeError, "TableQuery where must be a string (got 5)."),
        ({"schema": 5}, InvalidTypeError, "TableQuery schema must be a string (got 5)."),
        ({"columns": "k"}, InvalidTypeError, "TableQuery columns must be a list of names, or None for all (got 'k')."),
        ({"columns": []}, InvalidValueError, "TableQuery columns must be distinct names, at least one (got [])."),
    ],
)
def test_wrong_query(options, error, message):
    """Queries are checked at once."""
    with pytest.raises(error, match=re.escape(message)):
        TableQuery(**{"table": "t", **options})


@pytest.mark.parametrize(
    ("url", "options", "error", "message"),
    [
        (5, {}, InvalidTypeError, "ReadTable url must be a string"),
        ("nonsense", {}, InvalidValueError, "ReadTable url must be one that SQLAlchemy knows"),
        ("nonsense://", {}, InvalidValueError, "ReadTable url must be one that SQLAlchemy knows"),
        ("sqlite://", {"key": 5}, InvalidTypeError, "ReadTable key must be the name of a column (got 5)."),
        ("sqlite://", {"chunk_rows": "5"}, InvalidTypeError, "ReadTable chunk_rows must be an integer"),
        (
            "sqlite://",
            {"chunk_rows": 0},
            InvalidValueError,
            "ReadTable chunk_rows must be >= 1 and <= 2147483647 (got 0).",
        ),
        ("sqlite://", {"chunk_rows": 2**31}, InvalidValueError, "must be >= 1 and <= 2147483647 (got 2147483648)."),
        ("sqlite://", {"columns": "k"}, InvalidTypeError, "ReadTable columns must be a list of names, or None for all"),
        ("sqlite://", {"columns": []}, InvalidValueError, "ReadTable columns must be distinct names, at least one"),
        ("sqlite://", {"columns": ["k", "k"]}, InvalidValueError, "ReadTable columns must be distinct names"),
    ],
)
def test_wrong_option(url, options, error, message):
    """Options are checked at once."""
    with pytest.raises(error, match=re.escape(message)):
        ReadTable(url, **{"key": "k", **options})


def test_missing_extra(monkeypatch):
    """It says how to install it."""
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(
        MissingExtraError,
        match=re.escape("ReadTable needs sqlalchemy") + ".*" + re.escape("pip install 'sqlalchemy>=2'"),
    ):
        ReadTable("sqlite://", key="k")


def test_missing_driver(monkeypatch):
    """It names the driver that the URL asks for, but no package: that of a module's name may be somebody else's."""
    fn = ReadTable("postgresql+psycopg://host/name", key="k")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError) as caught:
        run_direct(["t"], fn)
    assert "ReadTable needs psycopg, the driver that 'postgresql+psycopg' names" in str(caught.value)
    assert "pip install" not in str(caught.value)
