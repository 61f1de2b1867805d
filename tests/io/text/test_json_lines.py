"""ReadJsonLines: the values are those of json.loads line by line, however the file is cut."""

import contextlib
import functools
import io
import itertools
import json
import re

import cloudpickle
import pytest

from sdf import TaggedOutput, run_direct
from sdf.errors import InvalidTypeError, ReadError
from sdf.io import BadRecord, FileBlock, FileInfo
from sdf.io.text.json_lines import ReadJsonLines
from sdf.testing import check_dofn

LINES = ['{"a": 1}', "[1, 2]", '"\u2028é\x85"', "", "null", "  ", "-0.5", '{"b": {"c": "\\n"}}', "true"]


class FromMemory(ReadJsonLines):
    """Reads bytes that are at hand, for tests of thousands of files."""

    data = b""

    @contextlib.contextmanager
    def open(self, restriction):
        yield io.BufferedReader(io.BytesIO(self.data))

    def read(self, *cuts):
        """Return the outputs of the blocks that lie between cuts, in order."""
        file = FileInfo("f", len(self.data))
        outputs = []
        for start, stop in itertools.pairwise((0, *cuts, file.size)):
            block = FileBlock(file, start, stop)
            tracker = self.create_tracker(block, self.get_initial_restriction(block))
            outputs += [out.value if isinstance(out, TaggedOutput) else out for out in self.process(block, tracker)]
        return outputs


def line_by_line(data):
    """Return what the lines of a file are, as one would read them one after the other."""
    offset, found = 0, []
    for line in data.split(b"\n"):
        text = line.decode()
        text = text.removeprefix("\ufeff") if offset == 0 else text
        if text.strip(" \r\t"):
            try:
                found.append((("f", offset), json.loads(text)))
            except ValueError as error:
                found.append(BadRecord("f", offset, line, f"JSONDecodeError: {error}"))
        offset += len(line) + 1
    return found


@pytest.fixture
def write(tmp_path):
    """Write a file and return its path."""

    def write(data):
        path = tmp_path / "file.jsonl"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(path)

    return write


@pytest.fixture
def path(write):
    return write("\n".join(LINES))


# However it is cut


@pytest.mark.parametrize("with_position", [False, True])
@pytest.mark.parametrize(
    "length", [*range(5), pytest.param(5, marks=pytest.mark.slow("the same test with shorter files"))]
)
def test_all_small_files_are_read_line_by_line_at_every_cut(with_position, length):
    """All texts of a value, a flaw, and what does or does not end a line: same values, same flaws, same offsets."""
    fn = FromMemory(with_position=with_position, on_error="tag")
    for text in itertools.product(("1", "x", "\n", "\r", "\u2028"), repeat=length):
        fn.data = "".join(text).encode()
        expected = line_by_line(fn.data)
        if not with_position:
            expected = [record if isinstance(record, BadRecord) else record[1] for record in expected]
        for cut in range(len(fn.data) + 1):
            assert fn.read(cut) == expected, (fn.data, cut)


@pytest.mark.parametrize("length", range(5))
def test_byte_order_mark_is_dropped_at_the_start_and_nowhere_else(length):
    """All small texts with marks in them, at every pair of cuts."""
    fn = FromMemory(with_position=True, on_error="tag")
    for text in itertools.product(("1", "\ufeff", "\n", "\r"), repeat=length):
        fn.data = "".join(text).encode()
        expected = line_by_line(fn.data)
        for one, two in itertools.combinations_with_replacement(range(len(fn.data) + 1), 2):
            assert fn.read(one, two) == expected, (fn.data, one, two)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block_size", [None, *range(1, 9), 1000])
def test_contract_holds(write, end, block_size):
    """check_dofn splits it everywhere."""
    check_dofn(ReadJsonLines(block_size=block_size), write(end.join(LINES)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("block_size", [1, 5, 30])
def test_values_are_the_same_after_a_checkpoint_at_every_claim(path, block_size, seed):
    """Residuals start anywhere, and run in any order."""
    fn = ReadJsonLines(block_size=block_size, with_position=True)
    found = run_direct([path], fn, split_every=1, seed=seed)
    whole = run_direct([path], ReadJsonLines(with_position=True))
    assert sorted(found, key=repr) == sorted(whole, key=repr)
    assert len(found) == 7


# What a line is


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n", "\r\n", "\n\n \t\n"])
def test_values_are_those_of_json_loads(write, end, last):
    """Lines end in LF or CRLF, the last one may end without."""
    found = run_direct([write(end.join(LINES) + last)], ReadJsonLines())
    assert found == [json.loads(line) for line in LINES if line.strip()]


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"])
def test_only_a_line_feed_ends_a_line(write, sign):
    """What str.splitlines() takes for the end of a line may stand in a string."""
    loads = functools.partial(json.loads, strict=False)  # allows control characters in strings
    assert run_direct([write(f'"a{sign}b"\n1')], ReadJsonLines(loads=loads)) == [f"a{sign}b", 1]


@pytest.mark.parametrize("with_position", [False, True])
def test_blank_lines_are_skipped(write, with_position):
    """Nothing, or nothing but what JSON takes for space."""
    found = run_direct([write("\n1\n\n \n\t\r\n2\n\n")], ReadJsonLines(with_position=with_position))
    assert [value[1] if with_position else value for value in found] == [1, 2]


@pytest.mark.parametrize("data", ["", "\n", "\r\n\r\n", "\ufeff", "\ufeff\n"])
def test_file_without_a_value_gives_nothing(write, data):
    """Empty, blank, or no more than a byte order mark."""
    assert run_direct([write(data)], ReadJsonLines()) == []


def test_position_is_path_and_first_byte_of_the_line(write):
    """The byte order mark belongs to the first line."""
    path = write('\ufeff"é"\r\n\n2')
    assert run_direct([path], ReadJsonLines(with_position=True)) == [((path, 0), "é"), ((path, 10), 2)]


def test_another_delimiter_may_end_a_value(write):
    """Such as the record separator; then values may span lines."""
    assert run_direct([write("[1,\n2]\x1e\n3\n\x1e")], ReadJsonLines(delimiter=b"\x1e")) == [[1, 2], 3]


# What cannot be read


@pytest.mark.parametrize("with_position", [False, True])
@pytest.mark.parametrize(
    ("flaw", "error"),
    [
        (b"{", "Expecting property name enclosed in double quotes"),
        (b"1 2", "Extra data"),
        (b'"\xff"', "'utf-8' codec can't decode byte 0xff"),
        (b"\xef\xbb\xbf1", "Unexpected UTF-8 BOM"),
        (b"1\x00", "Extra data"),
    ],
)
def test_flaw_is_an_error_that_names_file_offset_and_cause(write, with_position, flaw, error):
    """And what there is in the line."""
    path = write(b"1\n\n2\n" + flaw + b"\n3\n")
    with pytest.raises(ReadError) as caught:
        run_direct([path], ReadJsonLines(with_position=with_position))
    assert f"{path} at byte 5: {error}" in str(caught.value)
    assert f"(in {flaw!r})" in str(caught.value)


def test_a_flaw_has_one_position_in_its_line(write):
    """The number of a character; JSON's own text has it as a line and a column too, of a text that is one line."""
    path = write(b'1\n{"a":\n')
    with pytest.raises(ReadError, match=re.escape(f"{path} at byte 2: Expecting value at character 5 (in b'{{")):
        run_direct([path], ReadJsonLines())


@pytest.mark.parametrize("flaw", [b"{", b"\xff", b"[" * 100_000], ids=["syntax", "encoding", "depth"])
def test_flaws_can_be_tagged(write, flaw):
    """With their bytes and offset; all other values are read."""
    path = write(b"1\n" + flaw + b"\r\n2\n" + flaw)
    found = run_direct([path], ReadJsonLines(on_error="tag"), tags=("bad",))
    assert found["main"] == [1, 2]
    second = 2 + len(flaw) + 4
    assert [(bad.path, bad.offset, bad.data) for bad in found["bad"]] == [(path, 2, flaw + b"\r"), (path, second, flaw)]


def test_longer_line_than_allowed_is_an_error(write):
    """It had to be held in memory."""
    with pytest.raises(ReadError, match="allow more with max_record_bytes"):
        run_direct([write('"' + "x" * 100 + '"')], ReadJsonLines(max_record_bytes=50, block_size=10))


# Options


def read_int(text):
    return int(text)


def test_loads_gets_the_text_of_each_line(write):
    """Any function that raises ValueError for what it cannot read."""
    found = run_direct([write("1\n x\n2")], ReadJsonLines(loads=read_int, on_error="tag"), tags=("bad",))
    assert found["main"] == [1, 2]
    assert [bad.data for bad in found["bad"]] == [b" x"]


@pytest.mark.parametrize("loads", [json.loads, read_int, int, lambda text: text])
def test_pickles_with_its_loads(write, loads):
    """A function of a module or of a test, a class, a lambda."""
    fn, path = ReadJsonLines(loads=loads), write("1\n2")
    assert run_direct([path], cloudpickle.loads(cloudpickle.dumps(fn))) == run_direct([path], fn)


def test_loads_must_be_a_function():
    """It is refused where the DoFn is made."""
    message = "ReadJsonLines loads must be a function such as json.loads (got 'json')."
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        ReadJsonLines(loads="json")
