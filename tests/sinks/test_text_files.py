"""TextFiles: a line for each string."""

import pytest
from support.sinking import place, prepare, save

from sdf.errors import BadRecordError
from sdf.sinks import TextFiles


@pytest.mark.parametrize(("compression", "ending"), [(None, ".txt"), ("gzip", ".txt.gz"), ("zstd", ".txt.zst")])
def test_others_read_what_was_written(tmp_path, compression, ending):
    """pandas, as a table of one column."""
    pandas = pytest.importorskip("pandas")
    lines = ["first", "", "ä\t,\"'", *(f"line {number}" for number in range(2000))]
    save(TextFiles(tmp_path / "out", compression=compression), lines)
    [file] = (tmp_path / "out").glob("*[0-9].txt*")
    assert file.name.endswith(ending)
    options = {"sep": "\x01", "header": None, "skip_blank_lines": False, "keep_default_na": False, "quoting": 3}
    assert pandas.read_csv(file, **options)[0].tolist() == lines


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ("a\nb", r"it must have no line end \(got 'a\\nb'\)"),
        ("a\r", "it must have no line end"),
        ("\n", "it must have no line end"),
        (5, r"writes strings \(got 5\)"),
        (b"a", "writes strings"),
        (None, "writes strings"),
        ("\ud800", "UTF-8, which cannot hold"),
    ],
)
def test_a_record_that_is_no_line(tmp_path, record, error):
    """The message says which it is."""
    sink = TextFiles(tmp_path / "out")
    prepare(sink)
    with pytest.raises(BadRecordError, match=f"record 500 of this segment: TextFiles.*{error}") as raised:
        sink.write(iter([*["a"] * 500, record, *["b"] * 500]), place())
    assert raised.value.number == 500
