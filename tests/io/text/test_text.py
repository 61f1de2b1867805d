"""What readers of text say where bytes are no text: name the encoding first, and only then to do without records."""

import bz2
import codecs
import gzip
import lzma
import re

import pytest

from sdf import run_direct
from sdf.errors import ReadError
from sdf.io import ReadCsv, ReadJsonLines, ReadLines

ROWS = '"name"\n"Zoë"\n'


@pytest.fixture
def said(tmp_path):
    """Return what a reader says of a file that holds these bytes."""

    def read(fn, data):
        (tmp_path / "f.txt").write_bytes(data)
        with pytest.raises(ReadError) as caught:
            run_direct([str(tmp_path / "f.txt")], fn)
        return str(caught.value)

    return read


@pytest.mark.parametrize(
    ("fn", "advice"),
    [
        (ReadLines(), "If the text is not utf-8, name its encoding: ReadLines(encoding='latin-1'), say. To read it"),
        (ReadCsv(), "If the text is not utf-8, name its encoding: ReadCsv(encoding='latin-1'), say. To read it"),
        (ReadCsv(encoding="ascii"), "If the text is not ascii, name its encoding: ReadCsv(encoding='latin-1'), say."),
        (ReadCsv(quoted_newlines=True), "pass errors='replace'. With quoted_newlines"),
        (ReadJsonLines(), "JSON lines are UTF-8: convert the file, or read it with ReadLines(encoding='latin-1')"),
    ],
    ids=["lines", "csv", "csv in ascii", "csv in one piece", "json"],
)  # fmt: skip
def test_an_encoding_is_advised_for_what_is_no_text(said, fn, advice):
    """A file in Latin-1 that is read as UTF-8: to drop its records would lose them."""
    assert advice in said(fn, ROWS.encode("latin-1"))


def test_an_encoding_is_advised_for_the_names_of_columns(said):
    """They are read before any row."""
    text = said(ReadCsv(), "Größe\n1\n".encode("cp1252"))
    assert re.search(r"cannot be read: .* name its encoding: ReadCsv\(encoding='latin-1'\).* errors='replace'\.$", text)


@pytest.mark.parametrize("fn", [ReadLines(), ReadCsv(header=False), ReadJsonLines()], ids=lambda fn: type(fn).__name__)
def test_utf_16_is_told_apart(said, fn):
    """As Latin-1 it would be read, and be nonsense."""
    assert "It is text in UTF-16, which cannot be split: convert" in said(fn, ROWS.encode("utf-16"))


@pytest.mark.parametrize(
    ("fn", "data"), [(ReadJsonLines(), b"{\n"), (ReadCsv(), b"a,b\n1\n")], ids=["no JSON", "a field too few"]
)
def test_no_encoding_is_advised_for_text(said, fn, data):
    """What is wrong with it is something else."""
    assert "encoding=" not in said(fn, data)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    "fn", [ReadLines(), ReadCsv(), ReadCsv(quoted_newlines=True), ReadCsv(header=False), ReadJsonLines()]
)
def test_utf_16_and_utf_32_without_a_mark_are_told_apart(said, fn, encoding):
    """Each of their bytes is a character of UTF-8, so they would be read with NULs between the letters."""
    name = encoding[:6].upper() + encoding[-2:].upper()
    assert f"It is text in {name}, which cannot be split: convert" in said(fn, "10\n20\n".encode(encoding))


def test_nuls_are_read_where_they_end_records_or_are_wanted(tmp_path):
    """Lists of names, as find -print0 writes them, begin as UTF-16 does."""
    (tmp_path / "f").write_bytes(b"a\0b\0")
    assert run_direct([str(tmp_path / "f")], ReadLines(delimiter=b"\0")) == ["a", "b"]
    assert run_direct([str(tmp_path / "f")], ReadLines(errors="replace")) == ["a\0b\0"]
    assert run_direct([str(tmp_path / "f")], ReadLines(encoding=None)) == [b"a\0b\0"]


@pytest.mark.parametrize("fn", [ReadLines(), ReadCsv(), ReadJsonLines()], ids=lambda fn: type(fn).__name__)
@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (gzip.compress(b"a\n"), "It is gzip: pass compression='gzip'."),
        (bz2.compress(b"a\n"), "It is bzip2: pass compression='bzip2'."),
        (lzma.compress(b"a\n"), "It is xz, which cannot be split: write it again, as with xz -dc FILE | zstd."),
    ],
    ids=["gzip", "bzip2", "xz"],
)
def test_compressed_files_without_their_suffix_are_told_apart(said, fn, data, sentence):
    """No encoding is advised: as Latin-1 they would be read, and be nonsense."""
    text = said(fn, data)
    assert sentence in text
    assert "latin-1" not in text


@pytest.mark.parametrize(
    "fn",
    [
        *(ReadCsv(header=header, quoted_newlines=whole) for header in (True, False, ["a"]) for whole in (True, False)),
        *(ReadCsv(batches=True), ReadLines(), ReadLines(with_position=True), ReadJsonLines()),
    ],
)
def test_a_byte_order_mark_alone_is_an_empty_file(tmp_path, fn):
    """As for open() with the encoding utf-8-sig."""
    (tmp_path / "f").write_bytes(codecs.BOM_UTF8)
    assert run_direct([str(tmp_path / "f")], fn) == []


@pytest.mark.parametrize("data", [b'[{"a":1},\n{"a":2}]\n', b'{\n "a": 1\n}\n', b'{"a":\n'])
def test_a_value_that_goes_on_in_the_next_line_is_told_apart(said, data):
    """A file of one JSON value is for another reader."""
    assert "Each line must be a whole JSON value; ReadJson reads a file that is one array." in said(
        ReadJsonLines(), data
    )


def test_rows_that_end_in_a_cr_alone_are_told_apart(said):
    """The parser's own words ask how the file was opened, which nobody here can answer."""
    for text in (said(ReadCsv(), b"a,b\r1,2\r"), said(ReadCsv(quoted_newlines=True), b"a,b\r1,2\r")):
        assert "A row ends in LF or CRLF, and here is a CR alone." in text
        assert "universal" not in text
        assert "newline=" not in text
