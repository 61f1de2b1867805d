"""ReadCsv: the rows are those of csv.reader on the whole file, however it is cut, or there is an error."""

import bz2
import contextlib
import csv
import functools
import gzip
import io
import itertools
import random
import re

import cloudpickle
import pytest
import zstandard
from pyarrow import csv as arrow_csv
from pyarrow import string

from sdf import TaggedOutput, run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, ReadError
from sdf.execution.expansion import expand
from sdf.io import BadRecord, FileBlock, FileBlocks, FileInfo
from sdf.io.text import csv as io_csv
from sdf.io.text.csv import ReadCsv
from sdf.testing import check_dofn

LONGER = pytest.mark.slow("the same test with shorter texts")
TABLE = 'id,name,note\n1,Zoë,"a, b"\n2,,"say ""x"""\r\n\n3,"",\u2028\n4, y ,"\r"\n'
ROWS = [
    {"id": "1", "name": "Zoë", "note": "a, b"},
    {"id": "2", "name": "", "note": 'say "x"'},
    {"id": "3", "name": "", "note": "\u2028"},
    {"id": "4", "name": " y ", "note": "\r"},
]


class FromMemory(ReadCsv):
    """Reads bytes that are at hand, for tests of thousands of files, and counts how often."""

    data = b""
    opened = 0

    @contextlib.contextmanager
    def open(self, restriction):
        FromMemory.opened += 1
        FromMemory.file = io.BufferedReader(io.BytesIO(self.data))
        yield FromMemory.file

    def read(self, *cuts):
        """Return the outputs of the blocks that lie between cuts, in order."""
        file = FileInfo("f", len(self.data))
        blocks = [FileBlock(file, start, stop) for start, stop in itertools.pairwise((0, *cuts, file.size))]
        outputs = []
        for element in [file] if self.quoted_newlines else blocks:
            tracker = self.create_tracker(element, self.get_initial_restriction(element))
            outputs += [out.value if isinstance(out, TaggedOutput) else out for out in self.process(element, tracker)]
        return outputs


def texts(alphabet, most):
    """Give every text of up to so many characters."""
    for length in range(most + 1):
        yield from map("".join, itertools.product(alphabet, repeat=length))


def rows_of(text, **dialect):
    """Return what csv.reader makes of a whole file, None if it is an error."""
    try:
        return list(csv.reader(io.StringIO(text, newline="\n"), strict=True, **dialect))
    except csv.Error:
        return None


def has_newline(rows):
    return any("\n" in field for row in rows for field in row)


def dicts_of(rows):
    """Return the rows below a header as dicts; None if a header or a row is bad."""
    if not rows:
        return []
    names, *rows = rows
    rows = [row for row in rows if row]
    if not names or len(set(names)) < len(names) or any(len(row) != len(names) for row in rows):
        return None
    return [dict(zip(names, row, strict=True)) for row in rows]


def read(fn, *cuts):
    """Return the outputs of all parts, None if one raises."""
    try:
        return fn.read(*cuts)
    except ReadError:
        return None


@pytest.fixture
def write(tmp_path):
    """Write a file and return its path."""

    def write(data, name="file.csv"):
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(path)

    return write


# However it is cut


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("chunk_bytes", [1, 1 << 15])
@pytest.mark.parametrize("length", [4, pytest.param(6, marks=LONGER)])
def test_small_files_give_the_rows_of_csv_reader_at_every_cut_or_an_error(monkeypatch, header, chunk_bytes, length):
    """All texts of a letter, quote, comma and LF: an error where csv.reader has one or a quoted field a newline."""
    monkeypatch.setattr(io_csv, "_CHUNK_BYTES", chunk_bytes)
    fn = FromMemory(header=header)
    for text in texts('a",\n', length if chunk_bytes == 1 and not header else min(length, 5)):
        whole = rows_of(text)
        expected = None if whole is None or has_newline(whole) else dicts_of(whole) if header else whole
        fn.data = text.encode()
        for cut in range(len(text) + 1):
            assert read(fn, cut) == expected, (text, cut)


@pytest.mark.parametrize("header", [False, True])
def test_small_files_give_the_same_at_every_pair_of_cuts(header):
    """Three parts, so that one of them may begin and end in a quoted field."""
    fn = FromMemory(header=header)
    for text in texts('a",\n', 4):
        whole = rows_of(text)
        expected = None if whole is None or has_newline(whole) else dicts_of(whole) if header else whole
        fn.data = text.encode()
        for one, two in itertools.combinations_with_replacement(range(len(text) + 1), 2):
            assert read(fn, one, two) == expected, (text, one, two)


@pytest.mark.parametrize(
    "dialect", [{"escapechar": "\\", "doublequote": False}, {"escapechar": "\\", "quotechar": None}]
)
@pytest.mark.parametrize("length", [4, pytest.param(5, marks=LONGER)])
def test_escaped_newlines_are_errors_too(dialect, length):
    """All texts with a backslash: an error where csv.reader has one, or a row goes on in the next line."""
    dialect["escapechar"] = "\\"
    fn = FromMemory(header=False, **dialect)
    quoting = csv.QUOTE_NONE if dialect.get("quotechar", "") is None else csv.QUOTE_MINIMAL
    for text in texts('a",\n\\', length):
        whole = rows_of(text, quoting=quoting, **dialect)
        expected = None if whole is None or has_newline(whole) else whole
        fn.data = text.encode()
        for cut in range(len(text) + 1):
            assert read(fn, cut) == expected, (text, cut)


@pytest.mark.parametrize("on_error", ["raise", "tag"])
def test_quoted_newline_is_an_error_whatever_on_error_says(on_error):
    """A row that was only set aside would let the lines after it pass for rows."""
    fn = FromMemory(header=False, on_error=on_error)
    for text in texts('a",\n', 5):
        whole = rows_of(text)
        if whole is not None and has_newline(whole):
            fn.data = text.encode()
            for cut in range(len(text) + 1):
                with pytest.raises(ReadError, match="pass quoted_newlines=True to ReadCsv"):
                    fn.read(cut)


@pytest.mark.parametrize("flaw", ["\udcff", "\r"])
def test_a_flaw_in_a_line_hides_no_open_quote(flaw):
    """A line that cannot be read may end in a quoted field, whose second half would pass for a row."""
    fn = FromMemory(header=False, on_error="tag")
    refused = 0
    for text in texts(f'a",{flaw}\n', 6):
        if flaw not in text:
            continue
        mended = csv.reader(io.StringIO(text.replace("\r\n", "\n").replace(flaw, "a"), newline=""), strict=False)
        if has_newline(mended):
            refused += 1
            fn.data = text.encode(errors="surrogateescape")
            with pytest.raises(ReadError, match="pass quoted_newlines=True to ReadCsv"):
                fn.read()
    assert refused > 1000


@pytest.mark.parametrize("header", [False, True])
def test_quoted_newlines_in_one_piece_give_the_rows_of_csv_reader(header):
    """All small texts: its rows, or an error where it has one."""
    fn = FromMemory(header=header, quoted_newlines=True)
    for text in texts('a",\n', 6):
        whole = rows_of(text)
        fn.data = text.encode()
        assert read(fn) == (dicts_of(whole) if header and whole is not None else whole), text


@pytest.mark.parametrize("quoted_newlines", [False, True])
def test_flaws_are_tagged_at_every_cut(quoted_newlines):
    """Rows of another length than the header's, with their bytes and offsets; the other rows are read."""
    fn = FromMemory(header=["x", "y"], on_error="tag", with_position=True, quoted_newlines=quoted_newlines)
    for text in texts("a,\r\n", 5):
        rows = None if re.search("\r[^\r\n]", text) else rows_of(text)  # a lone CR is an error of its own
        if rows is None:
            continue
        fn.data = text.encode()
        lines = fn.data.splitlines(keepends=True) if "\r" not in text else re.findall(b"[^\n]*\n|[^\n]+", fn.data)
        starts = itertools.accumulate(map(len, lines), initial=0)
        expected = []
        for at, line, row in zip(starts, lines, rows, strict=False):
            if len(row) == 2:
                expected.append((("f", at), {"x": row[0], "y": row[1]}))
            elif row:
                error = f"ValueError: expected 2 fields, found {len(row)}"
                expected.append(BadRecord("f", at, line.removesuffix(b"\n"), error))
        for cut in range(len(text) + 1):
            assert fn.read(cut) == expected, (text, cut)


@pytest.mark.parametrize("header", [True, False, ["a", "b", "c"]])
@pytest.mark.parametrize("block_size", [None, *range(1, 9), 1000])
def test_contract_holds(write, header, block_size):
    """check_dofn splits it everywhere."""
    check_dofn(ReadCsv(header=header, block_size=block_size, with_position=True), write(TABLE))


def test_contract_holds_in_one_piece(write):
    """There is one claim, and no split."""
    checked = check_dofn(ReadCsv(quoted_newlines=True), write(TABLE + '5,"\n\n",z\n'))
    assert (checked.claims, checked.records, checked.splits) == (1, 5, 0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("block_size", [1, 5, 30])
def test_rows_are_the_same_after_a_checkpoint_at_every_claim(write, block_size, seed):
    """Residuals start anywhere, and run in any order."""
    found = run_direct([write(TABLE)], ReadCsv(block_size=block_size), split_every=1, seed=seed)
    assert sorted(found, key=lambda row: row["id"]) == ROWS


@pytest.mark.parametrize("block", range(1, 20))
def test_file_blocks_give_the_rows_that_start_in_them(write, block):
    """Each with the header of its file."""
    blocks = run_direct([write(TABLE)], FileBlocks(block))
    assert run_direct(blocks, ReadCsv()) == ROWS


COMPRESSED = pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".bz2", functools.partial(bz2.compress, compresslevel=1)), (".gz", gzip.compress), (".zst", zstandard.compress)],
)


@COMPRESSED
@pytest.mark.parametrize("quoted_newlines", [False, True])
def test_compressed_files_give_the_rows_of_their_text(write, tmp_path, suffix, compress, quoted_newlines):
    """Also in parts that begin later, where the codec has any: they read the header from the start of the text."""
    numbers = random.Random(5)
    rows = [[str(number), f"{numbers.random()},{numbers.random()}"] for number in range(9000)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["id", "note"], *rows])
    path = write(compress(text.getvalue().encode()), "file.csv" + suffix)
    fn = ReadCsv(quoted_newlines=quoted_newlines, index_dir=str(tmp_path / "index"))
    found = run_direct([path], fn, split_every=1, seed=1)
    assert sorted(found, key=lambda row: int(row["id"])) == [{"id": one, "note": two} for one, two in rows]


@COMPRESSED
def test_compressed_files_may_hold_quoted_newlines(write, suffix, compress):
    """In one piece; the report says why."""
    path = write(compress(b'a\n"1\n2"\n3\n'), "file.csv" + suffix)
    fn = ReadCsv(quoted_newlines=True)
    assert run_direct([path], fn) == [{"a": "1\n2"}, {"a": "3"}]
    assert expand(fn, path).note == "quoted_newlines: read in one piece"


# What a row is


def test_rows_are_those_of_pyarrow(write):
    """All kinds of quotes, empty fields, and letters of several bytes."""
    path = write(TABLE.replace('"\r"', "z"))  # pyarrow takes a CR for the end of a line
    as_strings = arrow_csv.ConvertOptions(column_types=dict.fromkeys(("id", "name", "note"), string()))
    expected = arrow_csv.read_csv(path, convert_options=as_strings).to_pylist()
    assert run_direct([path], ReadCsv(block_size=9)) == expected
    assert len(expected) == 4


@pytest.mark.parametrize("quoted_newlines", [False, True])
def test_rows_are_those_of_dict_reader(write, quoted_newlines):
    """Blank lines are skipped where rows are dicts."""
    path = write(TABLE)
    found = run_direct([path], ReadCsv(quoted_newlines=quoted_newlines))
    assert found == list(csv.DictReader(io.StringIO(TABLE, newline="\n"))) == ROWS


@pytest.mark.parametrize("quoted_newlines", [False, True])
def test_rows_without_header_are_lists(write, quoted_newlines):
    """Of any length; a blank line is an empty one."""
    found = run_direct([write("a,b\n\n1\n,,\n")], ReadCsv(header=False, quoted_newlines=quoted_newlines))
    assert found == [["a", "b"], [], ["1"], ["", "", ""]]


@pytest.mark.parametrize("quoted_newlines", [False, True])
def test_given_names_mean_that_the_first_row_is_a_row(write, quoted_newlines):
    """No row of the file names columns."""
    found = run_direct([write("1,2\n3,4")], ReadCsv(header=["a", "b"], quoted_newlines=quoted_newlines))
    assert found == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


@pytest.mark.parametrize("quoted_newlines", [False, True])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"separator": ";"}, "a;b\n1;'x,'\n"),
        ({"separator": "\t"}, "a\tb\n1\t'x,'\n"),
        ({"quotechar": None}, "a,b\n1,\"x'\n"),
        ({"quotechar": "'"}, "a,b\n1,'x,'''\n"),
        ({"quotechar": "'", "doublequote": False, "escapechar": "\\"}, "a,b\n1,'x,\\''\n"),
        ({"skipinitialspace": True}, 'a, b\n1, "x,"\n'),
        ({"separator": "é"}, "aéb\n1éx\n"),
    ],
    ids=repr,
)
def test_dialects_are_those_of_the_csv_module(write, options, text, quoted_newlines):
    """The separator is its delimiter; no quotechar is its QUOTE_NONE."""
    dialect = dict(options)
    dialect["delimiter"] = dialect.pop("separator", ",")
    dialect["quoting"] = csv.QUOTE_NONE if "quotechar" in dialect and not dialect["quotechar"] else csv.QUOTE_MINIMAL
    found = run_direct([write(text)], ReadCsv(quoted_newlines=quoted_newlines, **options))
    assert found == list(csv.DictReader(io.StringIO(text), **dialect))
    assert [list(row) for row in found] == [["a", "b"]]


@pytest.mark.parametrize("quoted_newlines", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252", "shift_jis", "gb18030"])
def test_text_may_be_in_another_encoding(write, quoted_newlines, encoding):
    """Any in which a line feed is a line feed."""
    text = (
        "表,é\n1,2\n"
        if encoding in ("utf-8", "gb18030")
        else "表,x\n1,2\n"
        if encoding == "shift_jis"
        else "a,é\n1,2\n"
    )
    fn = ReadCsv(encoding=encoding, quoted_newlines=quoted_newlines)
    assert run_direct([write(text.encode(encoding))], fn) == list(csv.DictReader(io.StringIO(text)))


def test_only_a_byte_of_a_line_feed_ends_a_line(write):
    """Not an escaped one: that is data in quotes, and an error outside of them."""
    escaped = ReadCsv(header=False, encoding="raw_unicode_escape")
    assert run_direct([write(b'"a\\u000ab"\n1')], escaped) == [["a\nb"], ["1"]]
    with pytest.raises(ReadError, match="at byte 0: new-line character seen in unquoted field"):
        run_direct([write(b"a\\u000ab\n1")], escaped)


@pytest.mark.parametrize("quoted_newlines", [False, True])
@pytest.mark.parametrize("header", [True, False, ["x"]])
def test_byte_order_mark_is_dropped_at_the_start_and_nowhere_else(write, header, quoted_newlines):
    """The first row stays at byte 0."""
    path = write("\ufeffa\n\ufeffb\n")
    rows = [("x", 0, "a"), ("x", 5, "\ufeffb")] if header != True else [("a", 5, "\ufeffb")]  # noqa: E712
    expected = [((path, at), {name: field} if header else [field]) for name, at, field in rows]
    fn = ReadCsv(header=header, with_position=True, quoted_newlines=quoted_newlines)
    assert run_direct([path], fn) == expected


@pytest.mark.parametrize("quoted_newlines", [False, True])
def test_position_is_path_and_first_byte_of_the_row(write, quoted_newlines):
    """Blank lines are counted too."""
    path = write("né\n1\n\n2\r\n3")
    found = run_direct([path], ReadCsv(with_position=True, quoted_newlines=quoted_newlines))
    assert found == [((path, 4), {"né": "1"}), ((path, 7), {"né": "2"}), ((path, 10), {"né": "3"})]


def test_position_of_a_row_that_spans_lines_is_its_first_byte(write):
    """Not that of its last line."""
    path = write('a\n"1\n2\n"\n3\n')
    found = run_direct([path], ReadCsv(with_position=True, quoted_newlines=True))
    assert found == [((path, 2), {"a": "1\n2\n"}), ((path, 9), {"a": "3"})]


@pytest.mark.parametrize("quoted_newlines", [False, True])
@pytest.mark.parametrize("data", ["", "a,b", "a,b\n", "a,b\r\n\r\n"])
def test_file_without_rows_gives_nothing(write, data, quoted_newlines):
    """Empty, or with no more than a header."""
    assert run_direct([write(data)], ReadCsv(quoted_newlines=quoted_newlines)) == []


def test_fields_may_be_longer_than_the_parser_allows_by_itself(write):
    """Its limit is 131,072 characters; ours is max_record_bytes."""
    rows = [{"a": "x" * 200_000}, {"a": "y"}]
    path = write("a\n" + "x" * 200_000 + "\ny\n")
    assert run_direct([path], ReadCsv()) == run_direct([path], ReadCsv(quoted_newlines=True)) == rows


# The header


def test_part_that_begins_later_reads_the_first_line_once():
    """Opened once for its rows and once for the header, however many cells it has."""
    fn = FromMemory(block_size=1)
    fn.data = b"a\n1\n2\n3\n"
    FromMemory.opened = 0
    assert fn.read(1) == [{"a": "1"}, {"a": "2"}, {"a": "3"}]
    assert FromMemory.opened == 1 + 2


@pytest.mark.parametrize("header", [False, ["a"]])
def test_first_line_is_not_read_again_where_it_names_nothing(header):
    """A part that begins later opens the file once."""
    fn = FromMemory(header=header)
    fn.data = b"1\n2\n3\n"
    FromMemory.opened = 0
    fn.read(1)
    assert FromMemory.opened == 2


def test_each_file_has_its_own_header(write):
    """Parts of different files run in turn on the same DoFn."""
    paths = [write(f"{name},x\n1,2\n3,4\n5,6\n", name) for name in "abc"]
    found = run_direct(paths, ReadCsv(block_size=2), split_every=1, seed=3)
    expected = [{name: value, "x": next_value} for name in "abc" for value, next_value in ("12", "34", "56")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("quoted_newlines", [False, True])
@pytest.mark.parametrize("text", ["\n1\n", "a,a\n1,2\n", "a,b,a", "a,b\0,c\n1,2,3\n"])
def test_header_must_name_each_column(write, text, quoted_newlines):
    """Nothing blank, no two alike, as one of their fields would be lost, and no NUL, where other tools end a name."""
    path, got = write(text), text.split("\n")[0].split(",") if text[0] != "\n" else []
    message = f"{path}: its first line must name each column, no two alike, without NULs (got {got!r})."
    with pytest.raises(ReadError, match=re.escape(message)):
        run_direct([path], ReadCsv(quoted_newlines=quoted_newlines, on_error="tag"), tags=("bad",))


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_unreadable_header_is_an_error_in_every_part_with_rows(cut):
    """Also with on_error="tag": nobody knows what the columns are."""
    fn = FromMemory(on_error="tag")
    fn.data = b'a,"b"c\n1,2\n3,4\n'
    with pytest.raises(
        ReadError, match="f: its first line, which should name the columns, cannot be read: ',' expected"
    ):
        fn.read(cut)


@pytest.mark.parametrize("cut", [0, 4, 20])
def test_header_with_a_newline_in_a_name_is_an_error(cut):
    """Unless the file is read in one piece."""
    fn = FromMemory()
    fn.data = b'a,"b\nc"\n1,2\n3,4\n5,6\n'
    with pytest.raises(ReadError, match="pass quoted_newlines=True to ReadCsv"):
        fn.read(min(cut, len(fn.data)))


def test_first_line_longer_than_allowed_is_an_error():
    """Also where only the header is read from it; not even the whole of it is."""
    fn = FromMemory(max_record_bytes=10)
    fn.data = b"a" * 5_000_000 + b"\n1\n2\n"
    last = FileBlock(FileInfo("f", len(fn.data)), len(fn.data) - 3, len(fn.data))
    with pytest.raises(ReadError, match="f: its first line has more than 10 bytes"):
        list(fn.process(last, fn.create_tracker(last, fn.get_initial_restriction(last))))
    assert FromMemory.file.tell() == 11


# What cannot be read


@pytest.mark.parametrize("options", [{}, {"block_size": 1}, {"with_position": True}, {"quoted_newlines": True}])
@pytest.mark.parametrize(("row", "found"), [("1", 1), ("1,2,3", 3)])
def test_row_with_too_few_or_too_many_fields_is_an_error(write, row, found, options):
    """It names file, offset, and how many there should be and are."""
    path = write(f"a,b\n1,2\n{row}\n3,4\n")
    message = f"{path} at byte 8: expected 2 fields, found {found} (in {row.encode()!r})."
    with pytest.raises(ReadError, match=re.escape(message)):
        run_direct([path], ReadCsv(**options))


@pytest.mark.parametrize(
    ("flaw", "error"),
    [
        (b'1,"2"3', "Error: ',' expected after '\"'"),
        (b"1,\xff", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff"),
        (b"1\r2", "Error: new-line character seen in unquoted field"),
        (b"1", "ValueError: expected 2 fields, found 1"),
    ],
)
@pytest.mark.parametrize("with_position", [False, True])
def test_flaws_can_be_tagged(write, flaw, error, with_position):
    """With their bytes and offsets; all other rows are read."""
    path = write(b"a,b\n1,2\n" + flaw + b"\n3,4\n" + flaw)
    found = run_direct([path], ReadCsv(on_error="tag", with_position=with_position), tags=("bad",))
    rows = [row[1] if with_position else row for row in found["main"]]
    assert rows == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert [(bad.offset, bad.data) for bad in found["bad"]] == [(8, flaw), (8 + len(flaw) + 5, flaw)]
    assert all(bad.path == path and bad.error.startswith(error) for bad in found["bad"])


@pytest.mark.parametrize("flaw", [b'1,"2"3', b"1,\xff", b"1\r2", b'1,"'])
def test_flaw_in_a_file_that_is_read_in_one_piece_ends_it(write, flaw):
    """Also with on_error="tag": where the next row starts is not known."""
    path = write(b"a,b\n1,2\n" + flaw + b"\n3,4\n")
    with pytest.raises(ReadError, match=re.escape(f"{path} at byte 8: ")):
        run_direct([path], ReadCsv(on_error="tag", quoted_newlines=True), tags=("bad",))


@pytest.mark.parametrize("suffix", ["", ".bz2", ".gz", ".bgz", ".zst"])
@pytest.mark.parametrize("quoted_newlines", [False, True])
def test_a_file_without_a_byte_has_no_rows(tmp_path, suffix, quoted_newlines):
    """Whatever compression its name stands for."""
    path = tmp_path / f"f{suffix}"
    path.touch()
    assert run_direct([str(path)], ReadCsv(quoted_newlines=quoted_newlines)) == []


def test_an_encoding_that_cannot_be_split_is_refused_by_name():
    """The reader that refuses it is the one that was asked."""
    with pytest.raises(InvalidValueError, match="ReadCsv cannot split text in 'utf-16'"):
        ReadCsv(encoding="utf-16")


def test_quote_that_is_never_closed_does_not_fill_the_memory(write):
    """A row may have max_record_bytes, with all its lines."""
    path = write('a\n1\n"' + "x\n" * 100)
    with pytest.raises(ReadError, match=re.escape(f"{path} at byte 4: this row has more than 50 bytes.")):
        run_direct([path], ReadCsv(quoted_newlines=True, max_record_bytes=50))


@pytest.mark.parametrize("quoted_newlines", [False, True])
def test_longer_line_than_allowed_is_an_error(quoted_newlines):
    """It had to be held in memory; not even the whole of it is read."""
    fn = FromMemory(quoted_newlines=quoted_newlines, max_record_bytes=50, header=["a"])
    fn.data = b"1\n" + b"x" * 5_000_000
    with pytest.raises(ReadError, match="allow more with max_record_bytes"):
        fn.read()
    assert FromMemory.file.tell() < len(fn.data) / 2


# In one piece


def test_file_in_one_piece_says_so_in_the_report(write):
    """Its note; and its size is that of the file."""
    fn, path = ReadCsv(quoted_newlines=True), write(TABLE)
    expanded = expand(fn, path)
    assert expanded.note == "quoted_newlines: read in one piece"
    assert [size for _, size in expanded.pieces] == [len(TABLE.encode())]


def test_file_that_is_split_has_no_note(write):
    """There is nothing to say."""
    assert expand(ReadCsv(), write(TABLE)).note is None


def test_file_block_cannot_be_read_in_one_piece():
    """Where its rows start nobody knows."""
    with pytest.raises(InvalidValueError, match="reads files from their start, not blocks of them"):
        ReadCsv(quoted_newlines=True).get_initial_restriction(FileBlock(FileInfo("f", 10), 0, 5))


# Options


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"separator": None}, InvalidTypeError, "ReadCsv separator must be a character (got None)."),
        ({"separator": b";"}, InvalidTypeError, "ReadCsv separator must be a character (got b';')."),
        ({"separator": ";;"}, InvalidValueError, "ReadCsv separator must be one character, not the end of a line"),
        (
            {"quotechar": ""},
            InvalidValueError,
            "ReadCsv quotechar must be one character, not the end of a line (got '').",
        ),
        ({"escapechar": "\n"}, InvalidValueError, "ReadCsv escapechar must be one character, not the end of a line"),
        ({"separator": "\r"}, InvalidValueError, "ReadCsv separator must be one character, not the end of a line"),
        (
            {"escapechar": '"'},
            InvalidValueError,
            "ReadCsv needs different characters for separator, quotechar, escapechar, comment",
        ),
        ({"header": "ab"}, InvalidTypeError, "ReadCsv header must be True, False or a list of names (got 'ab')."),
        ({"header": 1}, InvalidTypeError, "ReadCsv header must be True, False or a list of names (got 1)."),
        ({"header": ["a", 1]}, InvalidTypeError, "ReadCsv header must be True, False or a list of names"),
        ({"header": []}, InvalidValueError, "ReadCsv header must name each column, no two alike (got [])."),
        ({"header": ["a", "a"]}, InvalidValueError, "ReadCsv header must name each column, no two alike"),
        ({"encoding": None}, InvalidTypeError, "ReadCsv encoding must be a name such as 'utf-8' (got None)."),
        ({"encoding": "utf-16"}, InvalidValueError, "cannot split text in 'utf-16'"),
        ({"quoted_newlines": True, "block_size": 9}, InvalidValueError, "ReadCsv block_size is of no use with quoted_"),
    ],
    ids=repr,
)
def test_options_are_checked_where_the_dofn_is_made(options, error, message):
    """Each message names the option."""
    with pytest.raises(error, match=re.escape(message)):
        ReadCsv(**options)


@pytest.mark.parametrize("options", [{}, {"header": ["a", "b"], "separator": ";"}, {"quoted_newlines": True}])
def test_pickles(write, options):
    """A copy reads the same."""
    fn, path = ReadCsv(on_error="tag", **options), write("a,b\n1,2\n")
    copy = cloudpickle.loads(cloudpickle.dumps(fn))
    assert run_direct([path], copy, tags=("bad",)) == run_direct([path], fn, tags=("bad",))


# Comments


@pytest.mark.parametrize("header", [True, False, ["x", "y"]])
def test_lines_that_begin_with_the_comment_are_left_out_at_every_cut(header):
    """All small texts: the rows of a text without these lines; a header may come after some of them."""
    fn = FromMemory(header=header, comment="#")
    plain = FromMemory(header=header)
    for text in texts("a#\n", 6):
        fn.data = text.encode()
        plain.data = re.sub("^#.*\n?", "", text, flags=re.MULTILINE).encode()
        expected = read(plain)
        for cut in range(len(text) + 1):
            assert read(fn, cut) == expected, (text, cut)


@pytest.mark.parametrize(
    "options", [{}, {"batches": True}, {"quoted_newlines": True}, {"with_position": True}], ids=str
)
def test_comments_are_left_out_whatever_else_is_asked_for(write, options):
    """Also after a byte order mark; in a quoted field there are none."""
    path = write("\ufeff# made today\n#\nn,t\n1,a\n# 2,b\n3,#c\n")
    found = run_direct([path], ReadCsv(comment="#", **options))
    if "batches" in options:
        found = [row for batch in found for row in batch.to_pylist()]
    rows = [row[1] if "with_position" in options else row for row in found]
    assert rows == [{"n": "1", "t": "a"}, {"n": "3", "t": "#c"}]
    if "with_position" in options:
        assert [at for (_, at), _ in found] == [22, 32]
    if "quoted_newlines" in options:
        path = write('#"\nn,t\n1,"a\n# b"\n')
        assert run_direct([path], ReadCsv(comment="#", **options)) == [{"n": "1", "t": "a\n# b"}]


def test_a_file_of_comments_has_no_rows(write):
    """Nor does it lack a header."""
    assert run_direct([write("# a\n# b")], ReadCsv(comment="#")) == []
