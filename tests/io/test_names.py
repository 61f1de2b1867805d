"""Names of columns with dots, quotes, upper case and worse: every sink and reader finds a column by its very name."""

import csv
import sqlite3
import unicodedata

import pytest
from support.sinking import save

from sdf import run_direct
from sdf.errors import BadRecordError, InvalidValueError, SdfError
from sdf.io import MatchFiles, ReadCsv, ReadJsonLines, ReadParquet, ReadTable
from sdf.sinks import DeltaTable, IcebergTable, JsonLinesFiles, ParquetFiles, SqlTable

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "\u00e9") for form in ("NFC", "NFD"))
NAMES = [
    *("a", "a.b", "a.c", "a.b.c", ".", "..", "a.", ".a", "`a`", "a`.`b", 'a"b', '"b"', "a'b", "Upper", "a b", " a"),
    *("SELECT", "order", "null", "rowid", "count(*)", "--", "value", "key", "part", "_1", "_metadata", "sdf"),
    *("a ", "element", "list", "a[0]", "a:b", ":x", "a%b", "%s", "%(x)s", "a\\b", "a\tb", "{a}", "a,b", "a;b"),
    *("$a", "#a", "a=b", COMPOSED, DECOMPOSED, "\U0001f600", "ß", "ss", "İ", "a*", "?", "a/b", "x" * 300),
]  # fmt: skip
ODD = ["", "a\nb", "a\0b"]  # which some cannot have
RECORD = {name: number for number, name in enumerate(NAMES)}


def read(path, fn):
    return run_direct(run_direct([str(path)], MatchFiles()), fn)


def by_parquet(path, record):
    save(ParquetFiles(path / "out"), [record] * 2)
    return read(path / "out", ReadParquet())[0]


def by_parquet_in_batches(path, record):
    schema = {name: pa.int64() for name in record}
    save(ParquetFiles(path / "out", schema=schema), [pa.RecordBatch.from_pylist([record])])
    (batch,) = read(path / "out", ReadParquet(batches=True, columns=list(record)))
    return batch.to_pylist()[0]


def by_json(path, record):
    save(JsonLinesFiles(path / "out"), [record])
    return read(path / "out", ReadJsonLines())[0]


def written_csv(path, record):
    with open(path / "a.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[*record, "more"], [*record.values(), -1]])
    return path / "a.csv"


def by_csv(path, record):
    (row,) = read(written_csv(path, record), ReadCsv(columns=list(record)))
    return {name: int(value) for name, value in row.items()}


def by_csv_in_batches(path, record):
    (batch,) = read(written_csv(path, record), ReadCsv(columns=list(record), batches=True))
    return {name: int(value) for name, value in batch.to_pylist()[0].items()}


def by_delta(path, record):
    deltalake = pytest.importorskip("deltalake")
    save(DeltaTable(path / "out"), [record])
    return deltalake.DeltaTable(path / "out").to_pyarrow_table().to_pylist()[0]


def by_iceberg(path, record):
    catalog = pytest.importorskip("pyiceberg.catalog")
    properties = {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": f"file://{path}/wh"}
    catalog.load_catalog("default", **properties).create_namespace("ns")
    save(IcebergTable("ns.t", catalog=properties), [record])
    return catalog.load_catalog("default", **properties).load_table("ns.t").scan().to_arrow().to_pylist()[0]


def table_of(path, record, *rows):
    """Make a table whose name is a column's, too; return the URL."""
    pytest.importorskip("sqlalchemy")
    columns = ", ".join(f"{quoted(name)} INTEGER" for name in record)
    with sqlite3.connect(path / "a.db") as connection:
        connection.execute(f'CREATE TABLE "a.b" ({columns})')
        connection.executemany(f'INSERT INTO "a.b" VALUES ({", ".join("?" * len(record))})', rows)
    connection.close()
    return f"sqlite:///{path / 'a.db'}"


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def by_sql(path, record):
    """Written by the sink, and read by the connector, with some columns as the key."""
    url = table_of(path, record)
    save(SqlTable(url, "a.b"), [record])
    for name in list(record)[:: 1 + len(record) // 12]:
        reader = ReadTable(url, key=name, columns=list(record)).for_ranges({name: (record[name], record[name])})
        assert run_direct(["a.b"], reader) == [record]
    return run_direct(["a.b"], ReadTable(url, key=next(iter(record))))[0]


ROADS = [
    *(by_parquet, by_parquet_in_batches, by_json, by_csv, by_csv_in_batches, by_delta, by_iceberg, by_sql),
]
TWO_AS_ONE = {by_delta, by_sql}  # names that differ in case


@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_a_column_of_any_name_is_what_it_was(road, tmp_path):
    """All of them in one record."""
    record = RECORD
    if road in TWO_AS_ONE:
        folded = {name.lower(): name for name in NAMES}
        record = {name: RECORD[name] for name in folded.values()}
    assert road(tmp_path, record) == record


@pytest.mark.parametrize("name", ODD, ids=repr)
@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_a_name_is_kept_or_refused(road, name, tmp_path):
    """Never another one."""
    refusing = {
        "": {by_sql},  # SQLAlchemy knows no such column
        "a\nb": {by_csv, by_csv_in_batches},
        "a\0b": {by_csv, by_csv_in_batches, by_delta, by_sql},
    }
    record = {name: 1, "more or less": 2}
    if road not in refusing[name]:
        assert road(tmp_path, record) == record
        return
    with pytest.raises((SdfError, sqlite3.ProgrammingError)):  # the latter of the test's own table
        road(tmp_path, record)


@pytest.mark.parametrize("nested", [False, True])
def test_what_delta_would_take_for_one_name_is_refused(nested, tmp_path):
    """Upper and lower case, and what follows a NUL; also where a schema is given."""
    pytest.importorskip("deltalake")
    for names, flaw in ((("a", "A"), "in another case|Delta does not have"), (("a\0b", "c"), "has a NUL in a name")):
        kind = pa.struct([(name, pa.int64()) for name in names])
        fields = [("s", kind)] if nested else list(kind)
        with pytest.raises(InvalidValueError, match=flaw):
            DeltaTable(tmp_path / "given", schema=pa.schema(fields))
        record = dict.fromkeys(names, 1)
        with pytest.raises(BadRecordError, match=flaw):
            save(DeltaTable(tmp_path / "found"), [{"s": record} if nested else record])
        assert not (tmp_path / "found" / "_delta_log").exists()


def test_statistics_are_those_of_the_column(tmp_path):
    """A row group is left out by the values of the column of that name, and of no other."""
    half = {name: [number, number + 1000] for name, number in RECORD.items()}
    pq.write_table(pa.table(half), tmp_path / "a.parquet", row_group_size=1)
    schema = pa.schema([(name, pa.int64()) for name in NAMES])
    for name, number in RECORD.items():
        reader = ReadParquet().for_schema(schema, None).for_ranges({name: (number + 1000, number + 1000)})
        (batch,) = read(tmp_path / "a.parquet", reader)
        assert batch.to_pylist()[0][name] == number + 1000


def test_two_columns_of_one_name_have_no_statistics(tmp_path):
    """Which of them is asked for is for others to say."""
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    pq.write_table(table, tmp_path / "a.parquet")
    reader = ReadParquet().for_schema(pa.schema([("a", pa.int64())]), None).for_ranges({"a": (2, 2)})
    (batch,) = read(tmp_path / "a.parquet", reader)
    assert batch.schema.names == ["a", "a"]
