"""SqlTable gives back each value that it took, in every type of column of both databases, or refuses it."""

import json
import math
import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy
import pytest

from sdf.errors import BadRecordError
from sdf.sinks import SqlTable
from sdf.sinks.sql import _Insert

sqlalchemy = pytest.importorskip("sqlalchemy")

UTC = timezone.utc
EAST = timezone(timedelta(hours=5))
NAN = float("nan")
UUID = uuid.UUID(int=2**127 + 1)

VALUES = [
    None, True, 0, 1, -5, 2**31, 2**53 + 1, 2**63, 10**30,
    0.0, 1.0, 1.5, 0.1, 0.1 + 0.2, 1e300, math.inf, NAN,
    Decimal("1"), Decimal("0.1"), Decimal("1.10"), Decimal("1234567890123456789.0123456789"), Decimal("NaN"),
    "", "x", "x  ", "7", "0x1F", "1.5", "true", "2024-01-02", "2024-01-02T03:04:05", "10:00", "infinity",
    "é\u0301", str(UUID),
    b"", b"x", b"\0\xff", bytearray(b"x"), memoryview(b"x"),
    date(2024, 1, 2), date(1, 1, 1), time(10), time(10, tzinfo=EAST), time(10, 0, 0, 1),
    datetime(2024, 1, 2), datetime(2024, 1, 2, 23, 59), datetime(2024, 1, 2, 3, tzinfo=UTC),
    datetime(2024, 1, 2, 3, tzinfo=EAST), datetime(9999, 12, 31, 23, 59, 59, 999999), timedelta(days=1, microseconds=1),
    UUID, [], [1], [1.5], ["x"], [None], [[1], [2]], (1, 2), [datetime(2024, 1, 2, tzinfo=EAST)], {}, {"a": 1},
    {"a": [1.5, None, {"b": "x"}]}, {1: "a"}, {"a": NAN}, {"a": 1.0}, {"a": 2**70},
    numpy.int64(5), numpy.uint64(2**63), numpy.float32(0.1), numpy.float64(1.5), numpy.bool_(True), numpy.str_("x"),
    numpy.bytes_(b"x"), numpy.array([1, 2]), numpy.array([0.5]), numpy.array(3), numpy.datetime64("2024-01-02", "ns"),
    numpy.timedelta64(5, "s"), numpy.array(["2024-01-02"], "datetime64[D]"), numpy.longdouble(0.1),
]  # fmt: skip

SQLITE = [
    "integer", "int", "bigint", "smallint", "text", "varchar(3)", "char(5)", "clob", "blob", "", "real", "double",
    "float", "numeric", "numeric(38,10)", "decimal(5,2)", "boolean", "date", "datetime", "timestamp", "time", "json",
    "uuid", "json not null",
]  # fmt: skip
POSTGRES = [
    "smallint", "integer", "bigint", "real", "double precision", "numeric", "numeric(38,10)", "numeric(5,2)", "money",
    "text", "varchar(3)", "char(5)", "\"char\"", "name", "bytea", "boolean", "date", "time", "time(0)", "timetz",
    "timestamp", "timestamp(0)", "timestamptz", "interval", "interval day", "uuid", "json", "jsonb", "int[]",
    "float8[]", "numeric(5,2)[]",
    "text[]", "varchar(3)[]", "timestamp[]", "timestamptz[]", "date[]", "jsonb[]", "bit(3)", "varbit", "inet", "cidr",
    "xml",
    "int4range", "point", "oid", "int not null", "jsonb not null",
]  # fmt: skip


# What some of the columns must take, by its text: to refuse everything would be safe, too.
TAKEN = {
    "sqlite integer": {"0", "-5", "1.0", "Decimal('1')", "np.int64(5)", "b''", "'x'"},
    "sqlite numeric(38,10)": {"0.1", "Decimal('0.1')", "Decimal('1.10')", "9007199254740993", "np.float32(0.1)"},
    "sqlite json": {"{'a': [1.5, None, {'b': 'x'}]}", "[1]", "'x'", "array([1, 2])"},
    "sqlite timestamp": {"datetime.datetime(2024, 1, 2, 23, 59)"},
    "postgresql smallint": {"0", "-5", "1.0", "Decimal('1')", "np.int64(5)"},
    "postgresql real": {"1.5", "0.1", "inf", "nan", "np.float32(0.1)"},
    "postgresql numeric(38,10)": {"0.1", "Decimal('1234567890123456789.0123456789')", "Decimal('NaN')", "nan"},
    "postgresql numeric": {"0.30000000000000004", "1e+300", "Decimal('1234567890123456789.0123456789')"},
    "postgresql numeric(5,2)": {"0.1", "Decimal('1.10')", "1.5"},
    "postgresql varchar(3)": {"''", "'x  '", "np.str_('x')"},
    "postgresql bytea": {"b'x'", "bytearray(b'x')", "np.bytes_(b'x')"},
    "postgresql date": {"datetime.date(1, 1, 1)", "'2024-01-02'"},
    "postgresql timestamp": {"datetime.datetime(2024, 1, 2, 23, 59)", "'2024-01-02T03:04:05'"},
    "postgresql timestamptz": {repr(datetime(2024, 1, 2, 3, tzinfo=EAST))},
    "postgresql interval": {repr(timedelta(days=1, microseconds=1))},
    "postgresql uuid": {repr(UUID), repr(str(UUID))},
    "postgresql jsonb": {"{'a': [1.5, None, {'b': 'x'}]}", "[1]", "'x'", "{'a': 1180591620717411303424}"},
    "postgresql int[]": {"[]", "[1]", "[None]", "(1, 2)", "array([1, 2])"},
    "postgresql timestamptz[]": {repr([datetime(2024, 1, 2, tzinfo=EAST)])},
}


def taken(engine, kind):
    """Write each value into a column of a table; return those that were taken with what is there, by the driver."""
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS t")
        connection.exec_driver_sql(f"CREATE TABLE t (v {kind}, sdf_attempt TEXT, sdf_row INTEGER)")
        table = sqlalchemy.Table("t", sqlalchemy.MetaData(), autoload_with=connection)
    insert = _Insert(SqlTable(engine.url.render_as_string(hide_password=False), "t"), engine, table, "attempt")
    found = []
    for number, value in enumerate(VALUES):
        try:
            insert.all_of([{"v": value}], number)
        except BadRecordError:
            continue
        with engine.begin() as connection:
            [(there,)] = connection.exec_driver_sql(f"SELECT v FROM t WHERE sdf_row = {number}")
        found.append((value, there))
    return found


def is_same(given, found, kind):
    """Return whether a driver's value is the one given, by rules of this test's own."""
    if given is None or found is None:
        return given is found
    if hasattr(given, "dtype"):
        given = given.tolist()
    if kind.startswith("sqlite json") and isinstance(found, (str, bytes)):
        found = json.loads(found)
    if isinstance(given, float) and given != given:
        return found != found
    if isinstance(given, Decimal) and given.is_nan():
        return found.is_nan()
    if isinstance(given, dict):
        return given.keys() == found.keys() and all(is_same(value, found[key], "") for key, value in given.items())
    if isinstance(given, (list, tuple)):
        return len(given) == len(found) and all(is_same(*pair, "") for pair in zip(given, found, strict=True))
    if isinstance(given, Decimal) and isinstance(found, float):
        return Decimal(repr(found)) == given
    if isinstance(given, float) and isinstance(found, Decimal):
        return Decimal(repr(given)) == found
    if isinstance(given, float) and kind == "postgresql real" and given != found:  # of PostgreSQL, of 32 bits
        return float(numpy.float32(given)) == given and float(str(numpy.float32(given))) == found
    if isinstance(given, (date, time)) and isinstance(found, str):
        return type(given).fromisoformat(found) == given
    if isinstance(given, str) and isinstance(found, (date, time)):
        return type(found).fromisoformat(given) == found
    if isinstance(given, str) and not isinstance(found, str):
        return given == str(found)
    return given == found


@pytest.mark.parametrize("kind", SQLITE)
def test_sqlite(kind, tmp_path):
    """What is taken is there; what must be taken is."""
    path = tmp_path / "my.db"
    path.touch()
    assert_taken_or_refused(f"sqlite:///{path}", kind)


@pytest.mark.filterwarnings("ignore:Did not recognize type")
@pytest.mark.parametrize("kind", POSTGRES)
def test_postgresql(kind, postgresql):
    """What is taken is there; what must be taken is."""
    assert_taken_or_refused(postgresql, kind)


def assert_taken_or_refused(url, kind):
    engine = SqlTable(url, "t")._make_engine()
    found = taken(engine, kind)
    engine.dispose()
    kind = f"{engine.dialect.name} {kind}"
    assert [(value, other) for value, other in found if not is_same(value, other, kind)] == []
    values = {repr(value) for value, _ in found}
    assert TAKEN.get(kind, set()) <= values
    assert kind != "sqlite json" or not {"nan", "inf", "{'a': nan}"} & values  # no JSON to SQLite's functions
    assert ("None" in values) is ("not null" not in kind)
