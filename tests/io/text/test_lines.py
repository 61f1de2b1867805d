"""ReadLines: which lines a part of a file has, on every small file; what a line means; what is refused."""

import io
import itertools
import re

import attrs
import pytest

from sdf import run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, ProcessError, ReadError
from sdf.io import BadRecord, FileBlock, FileBlocks, FileInfo, ReadCsv, ReadLines
from sdf.io.files.file_fn import FileRange
from sdf.testing import check_dofn

LONGER = pytest.mark.slow("the same test with shorter files")
BOM = b"\xef\xbb\xbf"
LETTERS = [b"a", b"\n", b"\r", "é".encode(), b"@", b"$"]


def words(letters, length):
    """Return all byte strings of so many letters."""
    return [b"".join(word) for word in itertools.product(letters, repeat=length)]


def raw_records(data, delimiter):
    """Return (offset, record with what ends it) of all records: what a plain split says."""
    *ended, last = data.split(delimiter)
    records = [record + delimiter for record in ended] + ([last] if last else [])
    return list(zip(itertools.accumulate(map(len, records), initial=0), records, strict=False))


def lines_of(data, delimiter=None):
    """Return (offset, line) of all lines, as bytes."""
    if delimiter is not None:
        return [(offset, record.removesuffix(delimiter)) for offset, record in raw_records(data, delimiter)]
    return [
        (offset, record.removesuffix(b"\r\n" if record.endswith(b"\r\n") else b"\n"))
        for offset, record in raw_records(data, b"\n")
    ]


def write(tmp_path, data, name="file.txt"):
    path = tmp_path / name
    path.write_bytes(data)
    return str(path)


def read(element, **options):
    split = {name: options.pop(name) for name in ("split_every", "seed", "tags") if name in options}
    return run_direct([element], ReadLines(**options), **split)


# Every small file, every cut


class RawFn(ReadLines):
    """Reads bytes in memory, and gives the whole records of each cell in one piece."""

    data = b""

    def open(self, restriction):
        return io.BytesIO(self.data)

    def records(self, path, offset, data):
        return [(offset, data)]


class Claims:
    """A tracker that remembers the claims, so that each output can be told to belong to one."""

    def __init__(self, restriction):
        self.restriction = restriction
        self.claimed = []

    def current_restriction(self):
        return self.restriction

    def try_claim(self, position):
        self.claimed.append(position)
        return position < self.restriction.stop


def wrong_cells(fn, data, size):
    """Return the starts from which reading to the end does not give, cell by cell, the records that start in it.

    What a part ``[start, stop)`` gives is the same up to its stop, as it hears of the stop only by a refused claim. So
    this tells of all parts, and of every split and split of a residual.
    """
    expected = {}
    for offset, record in raw_records(data, fn.delimiter):
        first, text = expected.get(offset // size * size, (offset, b""))
        expected[offset // size * size] = (first, text + record)
    wrong = []
    for start in range(0, len(data), size):  # a start between two cells is the next cell's
        tracker = Claims(FileRange(start, len(data), FileInfo("f", len(data))))
        found = dict((tracker.claimed[-1], output) for output in fn.process("f", tracker))  # noqa: C402
        due = {cell: piece for cell, piece in expected.items() if cell >= start}
        if found != due or tracker.claimed != [*range(start, len(data), size), len(data)]:
            wrong.append((data, size, start, found))
    return wrong


@pytest.mark.parametrize("delimiter", [b"\n", b"@$"])
@pytest.mark.parametrize("length", [*range(5), *(pytest.param(length, marks=LONGER) for length in range(5, 8))])
def test_every_cell_of_every_short_file_has_the_records_that_start_in_it(delimiter, length):
    """All files of up to 7 letters, all cell sizes from 1 to 8, all starts.

    Beyond 5 letters without those that mean nothing here: ``@`` and ``$`` where LF ends a record, LF and CR elsewhere.
    """
    wrong = []
    letters = LETTERS
    if length > 5:
        letters = LETTERS[:4] if delimiter == b"\n" else [b"a", "é".encode(), b"@", b"$"]
    for size in range(1, 9):
        fn = RawFn(delimiter=delimiter, block_size=size)
        for data in words(letters, length):
            fn.data = data
            wrong += wrong_cells(fn, data, size)
    assert wrong == []


@pytest.mark.parametrize("length", range(8))
def test_every_short_piece_of_whole_records_gives_its_lines(length):
    """What the cells give is turned into lines: strings, bytes and places agree with a plain split."""
    fast, raw = ReadLines(), ReadLines(encoding=None)
    placed, raw_placed = ReadLines(with_position=True), ReadLines(encoding=None, with_position=True)
    wrong = []
    for data in words(LETTERS if length < 6 else LETTERS[:4], length):
        expected = [(offset + 9, line) for offset, line in lines_of(data)]
        if (
            list(fast.records("f", 9, data)) != [line.decode() for _, line in expected]
            or list(raw.records("f", 9, data)) != [line for _, line in expected]
            or list(placed.records("f", 9, data)) != [(("f", offset), line.decode()) for offset, line in expected]
            or list(raw_placed.records("f", 9, data)) != [(("f", offset), line) for offset, line in expected]
        ):
            wrong.append(data)
    assert wrong == []


@pytest.mark.parametrize("length", range(8))
def test_every_short_piece_of_whole_records_is_cut_at_a_delimiter_of_two_bytes(length):
    """LF and CR are data then."""
    fast, raw = ReadLines(delimiter=b"@$"), ReadLines(delimiter=b"@$", encoding=None)
    placed = ReadLines(delimiter=b"@$", with_position=True)
    wrong = []
    for data in words(LETTERS if length < 6 else [b"a", b"\r", b"@", b"$"], length):
        expected = lines_of(data, b"@$")
        if (
            list(fast.records("f", 0, data)) != [line.decode() for _, line in expected]
            or list(raw.records("f", 0, data)) != [line for _, line in expected]
            or list(placed.records("f", 0, data)) != [(("f", offset), line.decode()) for offset, line in expected]
        ):
            wrong.append(data)
    assert wrong == []


@pytest.mark.parametrize("delimiter", [b"abcd", b"@$%", b"ab"])
def test_records_that_end_in_longer_delimiters_survive_every_cell_size(delimiter):
    """A cell may end anywhere in a delimiter, and after fewer bytes of a record than a delimiter has."""
    letters = [b"x", delimiter, delimiter[:1], delimiter[:-1], delimiter[1:], delimiter[-1:]]
    wrong = []
    for size in range(1, 9):
        fn = RawFn(delimiter=delimiter, block_size=size)
        for length in range(5):
            for data in words(letters, length):
                fn.data = data
                wrong += wrong_cells(fn, data, size)
    assert wrong == []


# The same through the runners, on files


TABLE = [
    (b"", []),
    (b"\n\n", [(0, ""), (1, "")]),
    (b"\nx", [(0, ""), (1, "x")]),
    (b"ab\ncde\nf\n\nghij\r\nk", [(0, "ab"), (3, "cde"), (7, "f"), (9, ""), (10, "ghij"), (16, "k")]),
    (b"xxxxxxxxxx\ny\n", [(0, "xxxxxxxxxx"), (11, "y")]),
    (b"a\r\nb\r\n", [(0, "a"), (3, "b")]),
    (b"a\rb\nc", [(0, "a\rb"), (4, "c")]),
    ("é\nb\nc\n".encode(), [(0, "é"), (3, "b"), (5, "c")]),
    (b"ab\ncd\nef\n", [(0, "ab"), (3, "cd"), (6, "ef")]),
    (b"a\r\r\nb\r", [(0, "a\r"), (4, "b\r")]),
    (BOM + b"ab\ncd", [(0, "ab"), (6, "cd")]),
    (b"ab\n" + BOM + b"cd", [(0, "ab"), (3, "\ufeffcd")]),
    (BOM + b"\nab", [(0, ""), (4, "ab")]),
]


@pytest.mark.parametrize(("data", "records"), TABLE, ids=[repr(data) for data, _ in TABLE])
@pytest.mark.parametrize("split_every", [None, 1, 2])
def test_table_of_lines_for_every_block_size(tmp_path, data, records, split_every):
    """Section 2 of the file semantics, whatever the blocks and however the run is split."""
    path = write(tmp_path, data)
    expected = [((path, offset), line) for offset, line in records]
    for size in [None, *range(1, len(data) + 2)]:
        found = read(path, with_position=True, block_size=size, split_every=split_every, seed=size)
        assert sorted(found) == expected, size
        assert sorted(read(path, block_size=size)) == sorted(line for _, line in records), size


@pytest.mark.parametrize("size", range(1, 14))
def test_a_delimiter_of_three_bytes_with_a_false_start(tmp_path, size):
    """What only begins as a delimiter does is data."""
    path = write(tmp_path, b"x@$*y@$z@$*w")
    found = read(path, delimiter=b"@$*", with_position=True, block_size=size, split_every=1)
    assert sorted(found) == [((path, 0), "x"), ((path, 4), "y@$z"), ((path, 11), "w")]


@pytest.mark.parametrize(
    ("data", "size", "owned"),
    [
        (b"ab\ncde\nf\n\nghij\r\nk", 3, [[0], [3], [7], [9, 10], [], [16]]),
        (b"xxxxxxxxxx\ny\n", 3, [[0], [], [], [11], []]),
        (b"a\r\nb\r\n", 2, [[0], [3], []]),
        (b"ab\ncd\nef\n", 3, [[0], [3], [6]]),
    ],
)
def test_each_block_owns_the_lines_that_start_in_it(tmp_path, data, size, owned):
    """Blocks as elements: FileBlocks gives them, ReadLines reads each by itself."""
    path = write(tmp_path, data)
    blocks = run_direct([path], FileBlocks(size))
    assert [[at for (_, at), _ in read(block, with_position=True)] for block in blocks] == owned


@pytest.mark.parametrize("size", range(1, 20))
@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_blocks_have_the_same_lines(tmp_path, size, seed):
    """A block is read in smaller blocks, and those are split at every claim."""
    data = b"ab\ncde\nf\n\nghij\r\nk"
    blocks = run_direct([write(tmp_path, data)], FileBlocks(5))
    fn = ReadLines(with_position=True, encoding=None, block_size=size)
    found = run_direct(blocks, fn, split_every=1, seed=seed)
    assert sorted((at, line) for (_, at), line in found) == lines_of(data)


@pytest.mark.parametrize("data", [data for data, _ in TABLE], ids=repr)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_lines_pass_the_check_of_the_contract(tmp_path, data, size):
    """A path, a FileInfo and a FileBlock are elements alike."""
    path = write(tmp_path, data)
    fn = ReadLines(with_position=True, block_size=size)
    check_dofn(fn, path, seed=size)
    blocks = run_direct([path], FileBlocks(7))
    for element in blocks[:1] + [block.file for block in blocks[:1]] + blocks[-1:]:
        check_dofn(fn, element, seed=size)


@pytest.mark.parametrize("delimiter", [None, b"@$", b"*"])
def test_any_part_of_a_file_can_be_cut_anywhere(tmp_path, delimiter):
    """Every cut of a range, and every cut of its end, at the positions of bytes: only whole cells move."""
    data = b"ab\r\ncde@$f*\n\n@$ghij*@$\nk"
    path = write(tmp_path, data)

    @attrs.frozen
    class Cuts:
        first: int
        second: int

    class CutFn(ReadLines):
        cuts = Cuts(0, 0)

        def split_restriction(self, element, restriction):
            edges = [restriction.start, self.cuts.first, self.cuts.second, restriction.stop]
            return [attrs.evolve(restriction, start=start, stop=stop) for start, stop in itertools.pairwise(edges)]

    fn = CutFn(delimiter=delimiter, encoding=None, with_position=True, block_size=3)
    for first, second in itertools.combinations_with_replacement(range(len(data) + 1), 2):
        fn.cuts = Cuts(first, second)
        found = [(at, line) for (_, at), line in run_direct([path], fn)]
        assert found == lines_of(data, delimiter), (first, second)


def test_a_file_is_cut_between_cells_only(tmp_path):
    """A part without a cell would be work for nobody, and a runner that cuts by time would make more and more."""
    path = write(tmp_path, b"a\n" * 50)
    for options, cuts in (({}, set()), ({"block_size": 30}, {30, 60, 90})):
        fn = ReadLines(**options)
        whole = fn.get_initial_restriction(path)
        for fraction in (0, 0.01, 0.3, 0.5, 0.8):
            for claimed in (False, True):
                tracker = fn.create_tracker(path, whole)
                if claimed:
                    tracker.try_claim(0)
                pair = tracker.try_split(fraction)
                if pair is None:
                    assert not cuts
                else:
                    assert pair[1].start in (cuts if claimed else {0, *cuts})


# Sizes that meet those of buffers


@pytest.mark.parametrize("buffer", [4096, 8192, 1 << 16])
@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("block_size", [None, 1000, 4096, 8191, 8192])
def test_files_as_long_as_buffers_are(tmp_path, buffer, more, block_size):
    """Lines of ten bytes, the last without its end, in files of k buffers and one byte more or less."""
    for buffers in (1, 2):
        data = (b"012345678\n" * (buffers * buffer // 10 + 2))[: buffers * buffer + more]
        found = read(write(tmp_path, data), encoding=None, with_position=True, block_size=block_size, split_every=3)
        assert sorted((at, line) for (_, at), line in found) == lines_of(data)


@pytest.mark.parametrize("block_size", [None, pytest.param(1, marks=LONGER), 7, 10, 100, 8192, 9999])
def test_a_thousand_lines_without_the_last_line_feed(tmp_path, block_size):
    """The last line is a line."""
    lines = [f"line {number:04}" for number in range(1000)]
    path = write(tmp_path, "\n".join(lines).encode())
    assert sorted(read(path, block_size=block_size, split_every=5, seed=1)) == lines


@pytest.mark.parametrize("delimiter", [b"\n", b"@$", b"*"])
@pytest.mark.parametrize("block_size", [None, 1000, 1 << 16, 100_003])
def test_lines_longer_than_blocks_and_buffers(tmp_path, delimiter, block_size):
    """Each belongs to where it starts, and is whole; so is what follows it in the same buffer."""
    lines = [b"a" * 300_000, b"", b"b", b"@" * 70_000, b"c" * 65_535, b"d" * 65_536, b"$" * 65_537, b"e"]
    path = write(tmp_path, delimiter.join(lines))
    found = read(path, encoding=None, delimiter=delimiter, with_position=True, block_size=block_size, split_every=1)
    assert [line for _, line in sorted(found)] == lines


def test_a_delimiter_across_every_edge_of_a_buffer(tmp_path):
    """The long record ends before, in and after the edge."""
    for length in range((1 << 16) - 4, (1 << 16) + 4):
        data = b"a" * length + b"<=>" + b"b<=>c"
        path = write(tmp_path, data)
        for size in (1, 2, 3, 4, 5):
            blocks = [
                FileBlock(FileInfo(path, len(data)), 0, size),
                FileBlock(FileInfo(path, len(data)), size, len(data)),
            ]
            found = run_direct(blocks, ReadLines(delimiter=b"<=>", encoding=None))
            assert found == [b"a" * length, b"b", b"c"], (length, size)


def test_a_part_reads_nothing_past_its_stop_if_a_line_ends_there():
    """Asked for the records that start in [3, 6), it asks for bytes up to 6."""
    reads = []

    class Watched(io.BytesIO):
        def read(self, size=-1):
            data = super().read(size)
            reads.append(self.tell())
            return data

        def readline(self, size=-1):
            data = super().readline(size)
            reads.append(self.tell())
            return data

    class WatchedFn(RawFn):
        def open(self, restriction):
            return Watched(b"ab\ncd\nef\n")

    tracker = Claims(FileRange(3, 6, FileInfo("f", 9)))
    assert list(WatchedFn(block_size=3).process("f", tracker)) == [(3, b"cd\n")]
    assert max(reads) == 6


# Too long


@pytest.mark.parametrize("delimiter", [None, b"@$"])
@pytest.mark.parametrize("block_size", [1, 3, 10])
def test_a_record_longer_than_allowed_is_an_error_that_names_file_and_limit(tmp_path, delimiter, block_size):
    """A file without delimiters does not fill the memory."""
    path = write(tmp_path, b"a" * 5000)
    message = f"{path}: the record that begins at byte 0 has more than 1000 bytes"
    with pytest.raises(ReadError, match=re.escape(message)):
        read(path, delimiter=delimiter, max_record_bytes=1000, block_size=block_size)


@pytest.mark.parametrize("delimiter", [b"\n", b"@$"])
@pytest.mark.parametrize("where", ["first", "middle", "last", "without an end"])
@pytest.mark.parametrize("excess", [0, 1])
def test_whether_a_record_is_too_long_does_not_depend_on_the_split(tmp_path, delimiter, where, excess):
    """Nor on where in the file it is."""
    records = [b"a", b"b" * 30, b"", b"c"]
    place = {"first": 0, "middle": 2, "last": 4, "without an end": 4}[where]
    end = b"" if where == "without an end" else delimiter
    records.insert(place, b"x" * (50 - len(end) + excess))
    path = write(tmp_path, delimiter.join(records) + end)
    start = sum(len(record) + len(delimiter) for record in records[:place])
    for block_size in (None, 1, 7, 20, 60):
        if excess:
            with pytest.raises(ReadError, match=f"the record that begins at byte {start} has more than 50 bytes"):
                read(path, delimiter=delimiter, max_record_bytes=50, block_size=block_size)
        else:
            found = read(path, delimiter=delimiter, max_record_bytes=50, block_size=block_size)
            assert sorted(found) == sorted(record.decode() for record in records)


def test_a_record_as_long_as_allowed_is_read(tmp_path):
    """The limit counts what ends the record."""
    path = write(tmp_path, b"b\n" + b"a" * 999 + b"\nc\n")
    assert sorted(read(path, max_record_bytes=1000, block_size=1)) == ["a" * 999, "b", "c"]
    with pytest.raises(ReadError, match="more than 999 bytes"):
        read(path, max_record_bytes=999, block_size=1)


# What a line means


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x0b", "\x0c", "\x85", "\x1c", "\x1d", "\x1e", "\0"])
@pytest.mark.parametrize("with_position", [False, True])
def test_other_signs_that_python_takes_for_line_ends_are_data(tmp_path, sign, with_position):
    """Only LF ends a line."""
    path = write(tmp_path, f"a{sign}b\nc{sign}\n".encode())
    found = read(path, with_position=with_position)
    assert [record[1] if with_position else record for record in found] == [f"a{sign}b", f"c{sign}"]


@pytest.mark.parametrize(
    "encoding", ["utf-8", "latin-1", "iso8859-15", "cp1252", "shift_jis", "gbk", "gb18030", "big5", "euc_jp", "ascii"]
)
@pytest.mark.parametrize("with_position", [False, True])
def test_every_letter_of_an_encoding_survives_every_block(tmp_path, encoding, with_position):
    """All letters that it has, among the first 65,536 of Unicode."""
    letters = [
        chr(code) for code in range(32, 0xD800) if chr(code).encode(encoding, "ignore").decode(encoding) == chr(code)
    ]
    lines = ["".join(letters[at : at + 40]) for at in range(0, len(letters), 40)]
    path = write(tmp_path, "\n".join(lines).encode(encoding))
    found = read(path, encoding=encoding, with_position=with_position, block_size=100)
    assert [record[1] if with_position else record for record in found] == lines


@pytest.mark.parametrize("encoding", ["shift_jis", "gbk", "gb18030", "big5"])
def test_a_delimiter_below_every_byte_of_a_letter_is_found_in_every_encoding(tmp_path, encoding):
    """A tab is no part of any letter."""
    lines = ["表", "ソ", "中文", "", "a\nb"]
    lines = [line for line in lines if line.encode(encoding, "ignore").decode(encoding) == line]
    path = write(tmp_path, "\t".join(lines).encode(encoding))
    assert read(path, encoding=encoding, delimiter=b"\t", block_size=3) == lines


@pytest.mark.parametrize("name", ["utf-8", "UTF8", "utf_8_sig", "utf-8-sig"])
def test_the_byte_order_mark_is_dropped_at_the_start_of_a_file_only(tmp_path, name):
    """Inside a file it is a letter. Each of the names of the encoding means the same."""
    path = write(tmp_path, BOM + b"a\n" + BOM + b"b\n")
    for size in range(1, 11):
        assert read(path, encoding=name, block_size=size) == ["a", "\ufeffb"]


def test_bytes_come_as_they_are(tmp_path):
    """Without an encoding nothing is decoded, and no byte order mark is dropped."""
    path = write(tmp_path, BOM + b"a\xff\r\n\r\n")
    assert read(path, encoding=None) == [BOM + b"a\xff", b""]


def test_a_carriage_return_stays_with_a_delimiter_of_ones_own(tmp_path):
    """Only the default takes CRLF for LF."""
    path = write(tmp_path, b"a\r\nb\n")
    assert read(path, delimiter=b"\n") == ["a\r", "b"]


@pytest.mark.parametrize("delimiter", ["é".encode(), "€€".encode()[:3], b"\xff"])
def test_a_delimiter_may_be_any_bytes(tmp_path, delimiter):
    """Letters, or what is no text at all."""
    path = write(tmp_path, delimiter.join([b"one", b"", b"two"]))
    assert read(path, delimiter=delimiter, block_size=2) == ["one", "", "two"]


@pytest.mark.parametrize("size", [None, *range(1, 12)])
def test_the_position_is_where_the_record_begins(tmp_path, size):
    """The bytes of the file from there on begin with the record."""
    data = "\ufeffÄb\r\n\n\r\ncd\r\rx\nü".encode()
    found = read(write(tmp_path, data), with_position=True, block_size=size)
    assert len(found) == 5
    for (_, offset), line in found:
        assert data[offset:].removeprefix(BOM if offset == 0 else b"").startswith(line.encode())


# What cannot be decoded


BAD = b"ok\nb\xffd\r\n\xc3\nfine\n\xe2\x82"


@pytest.mark.parametrize("size", [None, *range(1, 18)])
@pytest.mark.parametrize("with_position", [False, True])
def test_bad_bytes_go_to_the_tag_with_their_place(tmp_path, size, with_position):
    """The lines around them are read."""
    path = write(tmp_path, BAD)
    outputs = read(path, on_error="tag", tags=("bad",), with_position=with_position, block_size=size, split_every=2)
    good = [((path, 0), "ok"), ((path, 10), "fine")]
    assert sorted(outputs["main"]) == (good if with_position else ["fine", "ok"])
    bad = sorted(outputs["bad"], key=lambda record: record.offset)
    assert [(record.path, record.offset) for record in bad] == [(path, 3), (path, 8), (path, 15)]
    assert [record.data.removesuffix(b"\r") for record in bad] == [b"b\xffd", b"\xc3", b"\xe2\x82"]
    assert all(record.error.startswith("UnicodeDecodeError: 'utf-8' codec can't decode") for record in bad)


def test_bad_bytes_raise_with_file_offset_and_cause(tmp_path):
    """By default; the message says how to go on without them."""
    path = write(tmp_path, BAD)
    message = f"{path} at byte 3: 'utf-8' codec can't decode byte 0xff in position 1: invalid start byte"
    with pytest.raises(ReadError, match=re.escape(message)) as raised:
        read(path)
    assert "on_error='tag'" in str(raised.value)


@pytest.mark.parametrize("size", [1, 2, 5, None])
@pytest.mark.parametrize("errors", ["replace", "backslashreplace", "surrogateescape", "ignore"])
@pytest.mark.parametrize("reader", [ReadLines, lambda **options: ReadCsv(header=False, **options)])
def test_bad_bytes_can_be_read_all_the_same(tmp_path, size, errors, reader):
    """As `bytes.decode` reads them, line by line."""
    path = write(tmp_path, BAD)
    expected = [line.removesuffix(b"\r").decode("utf-8", errors) for line in BAD.split(b"\n")]
    found = run_direct([path], reader(errors=errors, block_size=size))
    assert sorted("".join(line) for line in found) == sorted(expected)


@pytest.mark.parametrize("reader", [ReadLines, ReadCsv])
@pytest.mark.parametrize("errors", ["nothing", "xmlcharrefreplace", 5])
def test_errors_is_what_python_can_do_when_it_decodes(reader, errors):
    """So the mistake shows when the reader is made, not at the first bad byte."""
    with pytest.raises(InvalidValueError, match=rf"{reader.__name__} errors must be 'strict', .* \(got {errors!r}\)"):
        reader(errors=errors)


def test_lines_of_bytes_have_no_bad_bytes():
    """So nothing can be done with them."""
    with pytest.raises(InvalidValueError, match="ReadLines errors is of no use with encoding=None"):
        ReadLines(encoding=None, errors="replace")


def test_bad_bytes_pass_the_check_of_the_contract(tmp_path):
    """A bad record belongs to one part as a good one does."""
    path = write(tmp_path, BAD)
    for size in (1, 2, 5, 30):
        check_dofn(ReadLines(on_error="tag", block_size=size), path, tags=("bad",))


def test_a_tag_that_is_not_declared_is_named(tmp_path):
    """As for any DoFn."""
    with pytest.raises(Exception, match=re.escape("Pass tags=('bad',) to run_direct().")):
        read(write(tmp_path, BAD), on_error="tag")


def test_bad_records_are_values():
    """They compare and say what they are."""
    record = BadRecord("f", 3, b"x", "why")
    assert record == BadRecord("f", 3, b"x", "why")
    assert repr(record) == "BadRecord(path='f', offset=3, data=b'x', error='why')"


# Options


@pytest.mark.parametrize("delimiter", [b"||", b"aba", b"\n\n", b"abcab", b"\r\n\r"])
def test_a_delimiter_that_overlaps_itself_is_refused(delimiter):
    """Where a record starts would depend on where one begins to read."""
    with pytest.raises(InvalidValueError, match=re.escape(f"ReadLines delimiter {delimiter!r} begins as it ends")):
        ReadLines(delimiter=delimiter)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-7", "hz", "iso2022_jp", "cp037"])
def test_an_encoding_in_which_a_line_feed_is_no_line_feed_is_refused(encoding):
    """The message says what to do."""
    with pytest.raises(InvalidValueError, match=re.escape(f"ReadLines cannot split text in {encoding!r}")) as raised:
        ReadLines(encoding=encoding)
    assert "Convert the files to UTF-8." in str(raised.value)


@pytest.mark.parametrize("encoding", ["shift_jis", "cp932", "gbk", "gb18030", "big5", "johab"])
@pytest.mark.parametrize("delimiter", [b"|", b"@$", b"\\", b"0", b"\xb3\xa1"])
def test_a_delimiter_that_may_be_part_of_a_letter_is_refused(encoding, delimiter):
    """The second byte of many letters is one of ASCII."""
    message = f"ReadLines cannot split text in {encoding!r} at {delimiter!r}: its first byte may be part of a letter"
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        ReadLines(encoding=encoding, delimiter=delimiter)


@pytest.mark.parametrize("name", ["no such", "rot13", "hex", "undefined", "idna", "punycode"])
def test_an_encoding_that_is_none_of_text_is_refused(name):
    """Python knows codecs of other things too."""
    with pytest.raises(InvalidValueError, match="ReadLines "):
        ReadLines(encoding=name)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"delimiter": b""}, InvalidValueError, "ReadLines delimiter must not be empty."),
        ({"delimiter": "\n"}, InvalidTypeError, "ReadLines delimiter must be bytes, such as b'\\n' (got '\\n')."),
        ({"encoding": 8}, InvalidTypeError, "ReadLines encoding must be a name such as 'utf-8', or None (got 8)."),
        ({"on_error": "skip"}, InvalidValueError, "ReadLines on_error must be 'raise' or 'tag' (got 'skip')."),
        ({"block_size": 0}, InvalidValueError, "ReadLines block_size must be >= 1 (got 0)."),
        ({"block_size": -1}, InvalidValueError, "ReadLines block_size must be >= 1 (got -1)."),
        (
            {"block_size": 1.0},
            InvalidTypeError,
            "ReadLines block_size must be an integer, a number of bytes (got 1.0).",
        ),
        ({"block_size": True}, InvalidTypeError, "ReadLines block_size must be an integer"),
        ({"max_record_bytes": 0}, InvalidValueError, "ReadLines max_record_bytes must be >= 1 (got 0)."),
        ({"storage_options": "x"}, InvalidTypeError, "ReadLines storage_options must be a mapping"),
    ],
)
def test_bad_options_raise_at_once(options, error, message):
    """Not in a worker, later."""
    with pytest.raises(error, match=re.escape(message)):
        ReadLines(**options)


def test_options_are_named():
    """None can be confused with another."""
    with pytest.raises(TypeError):
        ReadLines(b"\n")
    with pytest.raises(TypeError, match="no_such"):
        ReadLines(no_such=1)


def test_what_fails_in_decoding_other_than_by_its_bytes_is_not_hidden(tmp_path):
    """A ReadError is about the data; anything else passes with its cause."""

    class BrokenFn(ReadLines):
        def records(self, path, offset, data):
            raise ZeroDivisionError("of the user")

    with pytest.raises(ProcessError, match="ZeroDivisionError: of the user"):
        run_direct([write(tmp_path, b"a")], BrokenFn())
