"""JsonLinesFiles: a line of JSON for each record, or an error that names the field."""

import dataclasses
import datetime
import gzip
import json
import math
from collections import namedtuple

import attrs
import pytest
from support.sinking import place, prepare, save

from sdf.errors import BadRecordError, InvalidValueError
from sdf.sinks import JsonLinesFiles

Point = namedtuple("Point", "x y")


@attrs.frozen
class Attrs:
    x: int
    y: object


@dataclasses.dataclass
class Data:
    x: int
    y: object


class Row(tuple):
    """As pyspark.sql.Row, without Spark."""

    def __new__(cls, **fields):
        row = super().__new__(cls, fields.values())
        row.__fields__ = list(fields)
        return row

    def asDict(self, recursive):
        assert recursive
        return dict(zip(self.__fields__, self, strict=True))


@pytest.fixture
def sink(tmp_path):
    return JsonLinesFiles(tmp_path / "out")


@pytest.mark.parametrize(
    ("record", "value"),
    [
        ({"a": [1, 1.5, None, True, {"b": "ä\n\u2028"}]}, None),
        ("text", None),
        (5, None),
        (None, None),
        ([1, [2]], None),
        ((1, "a"), [1, "a"]),
        (Attrs(1, Data(2, [Attrs(3, None)])), {"x": 1, "y": {"x": 2, "y": [{"x": 3, "y": None}]}}),
        (Point(1, Point(2, 3)), {"x": 1, "y": [2, 3]}),
        (Row(x=1, y="a"), {"x": 1, "y": "a"}),
        ({1: 2}, {"1": 2}),
    ],
)
def test_a_record_is_a_line(sink, tmp_path, record, value):
    """As json reads it."""
    save(sink, [record, "next"])
    [file] = (tmp_path / "out").glob("*.jsonl")
    first, second = file.read_bytes().decode().split("\n")[:-1]
    assert json.loads(first) == (record if value is None else value)
    assert second == '"next"'


@pytest.mark.parametrize(("compression", "ending"), [(None, ".jsonl"), ("gzip", ".jsonl.gz"), ("zstd", ".jsonl.zst")])
def test_others_read_what_was_written(tmp_path, compression, ending):
    """DuckDB and pandas, from several files."""
    duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    sink = JsonLinesFiles(tmp_path / "out", compression=compression, target_bytes=1)
    records = [{"id": number, "name": f"ä{number}", "tags": ["a"] * (number % 3)} for number in range(2000)]
    messages = save(sink, records[:1500], records[1500:])
    assert messages[0]["files"] > 1 or compression == "zstd"  # which holds back more than these
    found = duckdb.sql(f"select * from '{tmp_path}/out/*{ending}' order by id").fetchall()
    assert found == [tuple(record.values()) for record in records]
    frames = [pandas.read_json(file, lines=True) for file in (tmp_path / "out").glob(f"*{ending}")]
    assert sorted(pandas.concat(frames)["id"].tolist()) == list(range(2000))


def test_gzip_is_as_the_standard_library_reads_it(tmp_path):
    """The file's time is not in it."""
    save(JsonLinesFiles(tmp_path / "out", compression="gzip"), ["a", "b"])
    [file] = (tmp_path / "out").glob("*.gz")
    assert gzip.decompress(file.read_bytes()) == b'"a"\n"b"\n'


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"a": {"b": [1, math.nan]}}, r"cannot write nan in field 'a.b\[1\]' as JSON: Out of range"),
        (math.inf, "cannot write inf as JSON"),
        ({"a": b"x"}, "cannot write b'x' in field 'a' as JSON: a bytes is no JSON value"),
        ([{"t": datetime.date(2024, 1, 1)}], r"in field '\[0\].t' as JSON: a date is no JSON value"),
        ({"a": "\ud800"}, "in field 'a' as JSON: .*surrogates not allowed"),
        ({(1, 2): 3}, "keys must be str"),
        (Attrs(1, {2}), r"cannot write \{2\} in field 'y'"),
    ],
)
def test_a_record_that_is_no_json(sink, record, error):
    """The message says which, where in it, and what to do."""
    prepare(sink)
    records = [*range(500), record, *range(500)]
    with pytest.raises(BadRecordError, match=f"record 500 of this segment: .*{error}.*Make it a str") as raised:
        sink.write(iter(records), place())
    assert raised.value.number == 500


@pytest.mark.parametrize(
    ("keys", "name"), [((1, "1"), "1"), ((None, "null"), "null"), ((True, "true"), "true"), ((1.5, "1.5"), "1.5")]
)
@pytest.mark.parametrize("around", [lambda value: value, lambda value: {"a": [value]}, lambda value: Attrs(1, value)])
def test_keys_that_become_one_are_an_error(sink, keys, name, around):
    """One of their values would be lost, at any depth."""
    prepare(sink)
    records = [around({keys[0]: "x"}), around({"y": 1, **dict.fromkeys(keys, "x")})]
    with pytest.raises(BadRecordError, match=f"record 1 .* a value would be lost, as two keys become '{name}'"):
        sink.write(iter(records), place())


def test_a_field_that_is_there_twice_is_not_dropped(sink):
    """As a Row of a join can have it."""
    row = Row(x=1, other=2)
    row.__fields__ = ["x", "x"]
    with pytest.raises(BadRecordError, match="a field would be lost, as two have the name 'x'"):
        save(sink, [row])


def test_a_record_that_contains_itself(sink):
    """Its message ends."""
    record = {}
    record["me"] = record
    prepare(sink)
    with pytest.raises(BadRecordError, match=r"in field 'me.me"):
        sink.write(iter([record]), place())


def test_a_compression_that_is_not_known():
    """Is refused when the sink is made."""
    with pytest.raises(InvalidValueError, match="must be None, 'gzip' or 'zstd'"):
        JsonLinesFiles("/out", compression="bz2")
