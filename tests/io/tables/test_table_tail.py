"""TailTable: rows that are added to SQLite and to a real PostgreSQL."""

import itertools
import re
import sys

import pytest
from support.following import Following

from sdf import OffsetRange
from sdf.errors import InvalidTypeError, InvalidValueError, MissingExtraError, ReadError, SourceError
from sdf.execution.invoker import Invoker
from sdf.io import TableQuery, TailTable
from sdf.io.tables import tail as tail_module
from sdf.model.restrictions import UNBOUNDED

sa = pytest.importorskip("sqlalchemy")

NAMES = itertools.count()


class Table:
    """A table of a name of its own, and what follows it."""

    def __init__(self, url, kind=sa.BigInteger):
        self.url, self.name = url, f"tailed_{next(NAMES)}"
        self.engine = sa.create_engine(url)
        self.table = sa.Table(self.name, sa.MetaData(), sa.Column("k", kind), sa.Column("t", sa.Text))
        self.table.metadata.create_all(self.engine)
        self.fns = []

    def add(self, *keys):
        with self.engine.begin() as connection:
            connection.execute(self.table.insert(), [{"k": key, "t": f"row {key}"} for key in keys])

    def follow(self, element=None, **options):
        fn = TailTable(self.url, **{"key": "k", "poll_seconds": 3, **options})
        fn.setup()
        self.fns.append(fn)
        return Following(fn, element or self.name)

    def close(self):
        for fn in self.fns:
            fn.teardown()
        self.engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/test.db" if request.param == "sqlite" else request.getfixturevalue("postgresql")


@pytest.fixture
def table(url):
    table = Table(url)
    yield table
    table.close()


def keys(rows):
    return [row["k"] for row in rows]


def test_rows_are_given_as_they_come(table):
    """Each once, in the order of the key; and the parts again from what was pinned."""
    tail = table.follow()
    assert (tail.read(), tail.delay_seconds) == ([], 3)
    table.add(7, -3, 5)
    assert tail.read() == [{"k": key, "t": f"row {key}"} for key in (-3, 5, 7)]
    assert tail.read() == []
    table.add(20, 8)
    assert keys(tail.read()) == [8, 20]
    tail.again()


def test_a_part_can_be_cut_at_every_row(table):
    """As it is when the time of a batch is up."""
    table.add(1, 2, 5, 9)
    tail = table.follow(chunk_rows=2)
    for cut in range(1, 4):
        attempt = Invoker(tail.fn, table.name, tail.left)
        found = []
        for row in attempt.run():
            found.append(row["k"])
            if len(found) == cut:
                attempt.split(0)
        (rest,) = attempt.residuals
        again = keys(Invoker(tail.fn, table.name, attempt.primary).run())
        assert again == found
        assert found + keys(Invoker(tail.fn, table.name, rest.restriction).run()) == [1, 2, 5, 9]


def test_it_begins_after_a_key(table):
    table.add(1, 2, 3)
    assert keys(table.follow(after=2).read()) == [3]


def test_conditions_columns_and_positions_are_those_of_read_table(table):
    table.add(1, 2, 3)
    element = TableQuery(table.name, columns=("t",), where="k <> 2")
    assert table.follow(element, with_position=True).read() == [
        ((table.name, 1), {"t": "row 1"}),
        ((table.name, 3), {"t": "row 3"}),
    ]


def test_draining_keeps_what_is_there_now(table):
    tail = table.follow()
    assert tail.fn.truncate(table.name, OffsetRange(4, tail.left.stop)) == OffsetRange(4, 4)
    table.add(1, 6)
    assert tail.fn.truncate(table.name, OffsetRange(4, tail.left.stop)) == OffsetRange(4, 7)
    assert tail.fn.truncate(table.name, OffsetRange(4, 6)) == OffsetRange(4, 6)


def test_a_key_that_is_there_twice(table):
    """Its second row would be lost where the part is cut between the two."""
    table.add(1, 2, 2)
    with pytest.raises(ReadError, match="has two rows with the key k = 2"):
        table.follow().read()


def test_rows_without_a_key(table):
    table.add(1, None)
    with pytest.raises(SourceError, match="has rows without a key"):
        table.follow()


def test_a_row_without_a_key_that_comes_later(table):
    """No range would ever read it."""
    tail = table.follow()
    table.add(1)
    assert keys(tail.read()) == [1]
    table.add(None)
    with pytest.raises(SourceError, match=r"has rows without a key \(k is NULL\)"):
        tail.read()


def test_after_the_greatest_key_no_other_can_come(table):
    """So there is nothing new, and no number that the database cannot compare with."""
    tail = table.follow()
    table.add(2**63 - 1, 5)
    assert keys(tail.read()) == [5, 2**63 - 1]
    table.add(6)
    assert tail.read() == []
    fn, rest = TailTable(table.url, key="k"), OffsetRange(2**63, UNBOUNDED)
    assert fn.split_backlog(table.name, rest, 2, None) == [rest]


def test_a_key_of_another_type(url):
    table = Table(url, sa.Text)
    table.add("a")
    with pytest.raises(SourceError, match=r"the key 'k' of .* must be integers that grow"):
        table.follow()
    table.close()


@pytest.mark.parametrize("stop", [2, 3, 4])
def test_a_key_between_two_integers_is_refused(tmp_path, stop):
    """SQLite keeps 2.5 in a column of integers: it is seen by the part that it lies in."""
    table = Table(f"sqlite:///{tmp_path}/test.db")
    with table.engine.begin() as connection:
        connection.exec_driver_sql(f"DROP TABLE {table.name}")
        connection.exec_driver_sql(f"CREATE TABLE {table.name} (k INTEGER, t TEXT)")
        connection.exec_driver_sql(f"INSERT INTO {table.name} VALUES (1, ''), (2.5, ''), (4, '')")
    fn = TailTable(table.url, key="k")
    fn.setup()
    trackers = [fn.create_tracker(table.name, OffsetRange(*ends)) for ends in itertools.pairwise((1, stop, 5))]
    with pytest.raises(ReadError, match="should be of type int only"):
        _ = [list(fn.process(table.name, tracker)) for tracker in trackers]
    fn.teardown()
    table.close()


def test_wrong_options():
    with pytest.raises(InvalidTypeError, match="TailTable after must be an integer"):
        TailTable("sqlite://", key="k", after="1")
    with pytest.raises(InvalidValueError, match="TailTable poll_seconds must be a number >= 0"):
        TailTable("sqlite://", key="k", poll_seconds=-1)
    with pytest.raises(InvalidTypeError, match="TailTable key must be the name of a column"):
        TailTable("sqlite://", key=5)


def test_missing_extra(monkeypatch):
    """It says who needs it."""
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(MissingExtraError, match="TailTable needs sqlalchemy"):
        TailTable("sqlite://", key="k")


def test_what_is_not_there(tmp_path, table):
    """It says who looked for it, and where no file of SQLite is, none is made."""
    with pytest.raises(SourceError, match="TailTable: there is no table nothing in "):
        table.follow("nothing")
    with pytest.raises(SourceError, match=r"TailTable: table .* has no column 'x'; it has "):
        table.follow(key="x")
    path = tmp_path / "missing.db"
    fn = TailTable(f"sqlite:///{path}", key="k")
    fn.setup()
    with pytest.raises(SourceError, match=re.escape(f"TailTable: there is no database '{path}' on host '")):
        fn.get_initial_restriction("t")
    fn.teardown()
    assert not path.exists()


def test_a_value_of_another_type(tmp_path):
    """It says in which table."""
    table = Table(f"sqlite:///{tmp_path}/test.db")
    with table.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE dates (k INTEGER, v DATE)")
        connection.exec_driver_sql("INSERT INTO dates VALUES (1, 'x')")
    with pytest.raises(ReadError, match=r"TailTable: table dates in .* has a value that is not of its column's type"):
        table.follow("dates").read()
    table.close()


@pytest.mark.parametrize("length", [None, 1, 4, 100])
def test_a_backlog_is_cut_between_keys(table, monkeypatch, length):
    """However far they lie apart; the last part goes on with the rows that are added."""
    monkeypatch.setattr(tail_module, "_LEAST_PART_KEYS", 2)
    there = [3, 4, 5, 9, 10, 17, 18, 19]
    table.add(*there)
    tail = table.follow()
    given = tail.read_divided(4, length)
    assert [key for rows in given for key in keys(rows)] == there
    assert len(given) == {None: 4, 1: 4, 4: 4, 100: 1}[length]
    table.add(20)
    assert keys(tail.read()) == [20]
    tail.again()


def test_a_table_without_new_rows_is_not_cut(table):
    """Neither is a part that has an end."""
    tail = table.follow()
    assert tail.fn.split_backlog(table.name, tail.left, 4, None) == [tail.left]
    table.add(1)
    tail.read()
    assert tail.fn.split_backlog(table.name, tail.left, 4, None) == [tail.left]
