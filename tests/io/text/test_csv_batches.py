"""ReadCsv in batches: what pyarrow's parser gives, which is fast, is what Python's gives; and casts to a schema."""

import gzip
import itertools
import re

import pyarrow
import pytest

from sdf import TaggedOutput, run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, ReadError
from sdf.io import ReadCsv
from sdf.io.text.csv_batches import CsvColumns, _agrees
from sdf.io.text.text_fn import CELL_BYTES

DIALECT = ReadCsv().dialect


class Numbers:
    """Casts text to integers, as the data source of Spark SQL does."""

    def casts_to(self, kind):
        return True

    def cast(self, texts, kind):
        if kind == pyarrow.string():
            return texts, []
        values = [int(text) if text.isdigit() else None for text in texts.to_pylist()]
        bad = [row for row, text in enumerate(texts.to_pylist()) if text and not text.isdigit()]
        return pyarrow.array(values, kind), bad


def schema(**kinds):
    return pyarrow.schema([pyarrow.field(name, kind) for name, kind in kinds.items()])


def unwrapped(output):
    return output.value if isinstance(output, TaggedOutput) else output


def rows(outputs):
    """Return the rows of batches, and the bad ones."""
    found = [one.to_pylist() if isinstance(one, pyarrow.RecordBatch) else [unwrapped(one)] for one in outputs]
    return list(itertools.chain.from_iterable(found))


def told(function):
    """Return what a function gives, or the text of its error."""
    try:
        return function()
    except ReadError as error:
        return str(error)


def same(data, **options):
    """Check that batches of a text have the rows that the reader gives otherwise, or the same error."""
    plain, batches = ReadCsv(**options), ReadCsv(**options, batches=True)
    expected = told(lambda: sorted(map(str, map(unwrapped, plain.records("a.csv", 3, data)))))
    assert told(lambda: sorted(map(str, rows(batches.records("a.csv", 3, data))))) == expected


@pytest.mark.parametrize(
    "length", [*range(5), pytest.param(5, marks=pytest.mark.slow("the same test with shorter texts"))]
)
def test_every_short_text(length):
    """Of what has a meaning in CSV."""
    for signs in itertools.product('a,"\n\r', repeat=length):
        same("".join(signs).encode(), header=["x", "y"])


def test_most_of_them_are_parsed_by_pyarrow():
    """Else the test before would compare Python's parser with itself."""
    texts = ["".join(signs) for signs in itertools.product('a,"\n', repeat=7)]
    regular = [text for text in texts if re.fullmatch(r'(?:(?:a*|"(?:[a,]|"")*"),(?:a*|"(?:[a,]|"")*")\n)+', text)]
    columns = CsvColumns(("x", "y"))
    assert [text for text in regular if columns.parsed(text.encode(), ("x", "y"), DIALECT) is None] == []
    assert len(regular) > 50


@pytest.mark.parametrize(
    ("data", "agrees"),
    [
        (b'a,"b ""c"" d"\n', True),
        (b'"a","b"\r\n"c","d"\r\n', True),
        (b'a"b,c\n', False),
        (b'"a"b,c\n', False),
        (b'"a\nb",c\n', False),
        (b'"a,b\n', False),
        (b"a\rb,c\n", False),
        (b"a\0,b\n", False),
    ],
)
def test_what_the_parsers_may_see_in_different_ways_is_left_to_python(data, agrees):
    """Quotes inside of a field, lines that end in CR, and NUL."""
    assert _agrees(data, DIALECT) is agrees


@pytest.mark.parametrize(
    "options",
    [
        {"separator": "\t"}, {"separator": "§"}, {"quotechar": None}, {"quotechar": "'"}, {"doublequote": False},
        {"doublequote": False, "escapechar": "\\"}, {"escapechar": "\\"}, {"skipinitialspace": True},
        {"encoding": "latin-1"}, {"errors": "replace"}, {"on_error": "tag"},
    ],
    ids=str,
)  # fmt: skip
def test_every_dialect(options):
    """Short texts of what has a meaning in it."""
    signs = ["a", " ", "\n", options.get("separator", ","), options.get("quotechar") or '"', "\\", "é"]
    for length in range(4):
        for text in itertools.product(signs, repeat=length):
            same("".join(text).encode(), header=["x", "y"], **options)
    same(b"\xff,a\nb,c\n", header=["x", "y"], **options)


@pytest.fixture
def flights(tmp_path):
    """Give a file of several cells, and its rows."""
    rows = [{"id": str(i), "name": f'"n", {i}' if i % 7 == 0 else f"n{i}", "n": str(i % 10)} for i in range(60_000)]
    quoted = [f'"""n"", {i}"' if i % 7 == 0 else f"n{i}" for i in range(60_000)]
    lines = [f"{i},{name},{i % 10}\n" for i, name in enumerate(quoted)]
    text = ("id,name,n\n" + "".join(lines)).encode()
    assert len(text) > 3 * CELL_BYTES
    (tmp_path / "a.csv").write_bytes(text)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    return tmp_path, rows


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("options", [{}, {"quoted_newlines": True}, {"columns": ["n", "id"]}], ids=str)
def test_a_file_in_batches(flights, name, options):
    """However it is split."""
    path, expected = flights[0] / name, flights[1]
    columns = options.get("columns", ["id", "name", "n"])
    expected = [{key: row[key] for key in columns} for row in expected]
    found = run_direct([path], ReadCsv(batches=True, **options), split_every=2, seed=1)
    assert all(isinstance(one, pyarrow.RecordBatch) and one.num_rows for one in found)
    assert sorted(rows(found), key=lambda row: int(row["id"])) == expected


def test_columns_without_batches(flights):
    """Rows are dicts of these, in their order."""
    found = run_direct([flights[0] / "a.csv"], ReadCsv(columns=["n", "id"]))
    assert found == [{"n": row["n"], "id": row["id"]} for row in flights[1]]
    assert list(found[0]) == ["n", "id"]


def test_a_column_that_a_file_lacks(flights):
    """Named with those that it has."""
    with pytest.raises(ReadError, match=r"a.csv has no column 'nam'; it has \['id', 'name', 'n'\]"):
        run_direct([flights[0] / "a.csv"], ReadCsv(columns=["nam"]))


def test_a_schema_chooses_and_casts(flights):
    """By name, where the file has a header."""
    wanted = schema(n=pyarrow.int64(), name=pyarrow.string())
    found = run_direct([flights[0] / "a.csv"], ReadCsv().for_schema(wanted, Numbers()), split_every=1)
    assert {one.schema for one in found} == {wanted}
    expected = [{"n": int(row["n"]), "name": row["name"]} for row in flights[1]]
    assert sorted(rows(found), key=str) == sorted(expected, key=str)


def test_a_schema_names_columns_that_have_no_name(tmp_path):
    """By position, where rows are lists."""
    (tmp_path / "a.csv").write_text("1,a\n2,b\n")
    reader = ReadCsv(header=False).for_schema(schema(x=pyarrow.int64(), y=pyarrow.string()), Numbers())
    assert rows(run_direct([tmp_path / "a.csv"], reader)) == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]


LINES = b"1,a\n\n2,b\nNA,c\n4,d\nx,e\n"


@pytest.mark.parametrize("quoted_newlines", [False, True])
def test_what_does_not_cast_is_named(tmp_path, quoted_newlines):
    """With its file, byte, column and text, although pyarrow's parser tells none of them."""
    (tmp_path / "a.csv").write_bytes(b"x,y\n" + LINES)
    reader = ReadCsv(quoted_newlines=quoted_newlines).for_schema(schema(x=pyarrow.int64()), Numbers())
    at = (b"x,y\n" + LINES).index(b"NA")
    with pytest.raises(
        ReadError, match=rf"a.csv at byte {at}: column 'x' must be of type int64 \(got 'NA'\) \(in b'NA"
    ):
        run_direct([tmp_path / "a.csv"], reader)


def test_a_row_that_does_not_cast_is_bad():
    """So that it can be tagged; the others are there."""
    reader = ReadCsv(header=["x", "y"], on_error="tag").for_schema(schema(x=pyarrow.int64()), Numbers())
    found = list(reader.records("a.csv", 0, LINES))
    bad = [one.value for one in found if isinstance(one, TaggedOutput)]
    assert [(one.offset, one.data, one.error) for one in bad] == [
        (LINES.index(b"NA"), b"NA,c", "ValueError: column 'x' must be of type int64 (got 'NA')"),
        (LINES.index(b"x,e"), b"x,e", "ValueError: column 'x' must be of type int64 (got 'x')"),
    ]
    assert rows(one for one in found if not isinstance(one, TaggedOutput)) == [{"x": 1}, {"x": 2}, {"x": 4}]


def test_no_value_in_a_column_that_must_have_one():
    """An empty text is null, but for strings."""
    wanted = pyarrow.schema([pyarrow.field("x", pyarrow.int64(), nullable=False)])
    reader = ReadCsv(header=["x", "y"]).for_schema(wanted, Numbers())
    with pytest.raises(ReadError, match=r"a.csv at byte 4: column 'x' must be of type int64 \(got ''\) \(in b',b"):
        list(reader.records("a.csv", 0, b"1,a\n,b\n"))


def test_a_reader_that_gives_more_than_rows_stays_as_it_is():
    """With positions or ids of blocks, or with a method of the user's own."""

    class Mine(ReadCsv):
        def records(self, path, offset, data):
            return [data]

    for reader in (ReadCsv(with_position=True), ReadCsv(with_block_id=True), Mine()):
        assert reader.for_schema(schema(x=pyarrow.int64()), Numbers()) is reader


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"columns": "ab"}, InvalidTypeError, r"columns must be None or a list of names \(got 'ab'\)"),
        ({"columns": []}, InvalidValueError, r"columns must name each column, no two alike \(got \[\]\)"),
        (
            {"columns": ["a"], "header": ["b"]},
            InvalidValueError,
            r"columns must be names in header, \['b'\] \(got \['a'\]",
        ),
        ({"columns": ["a"], "header": False}, InvalidValueError, r"need names of columns \(got header=False\)"),
        ({"batches": True, "header": False}, InvalidValueError, r"need names of columns \(got header=False\)"),
        ({"batches": True, "with_position": True}, InvalidValueError, "drop with_position"),
    ],
)
def test_options_that_make_no_sense(options, error, text):
    """Named at once."""
    with pytest.raises(error, match=text):
        ReadCsv(**options)
