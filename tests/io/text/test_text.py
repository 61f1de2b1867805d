"""What readers of text say where bytes are no text: name the encoding first, and only then to do without records."""

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
    assert "It begins as text in UTF-16 does, which cannot be split: convert" in said(fn, ROWS.encode("utf-16"))


@pytest.mark.parametrize(
    ("fn", "data"), [(ReadJsonLines(), b"{\n"), (ReadCsv(), b"a,b\n1\n")], ids=["no JSON", "a field too few"]
)
def test_no_encoding_is_advised_for_text(said, fn, data):
    """What is wrong with it is something else."""
    assert "encoding=" not in said(fn, data)
