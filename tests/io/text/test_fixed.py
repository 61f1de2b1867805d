"""ReadRecords and ReadSlices: which pieces there are never depends on how a file is split."""

import os
import re

import attrs
import cloudpickle
import pytest

from sdf import run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, ReadError
from sdf.io import FileBlock, FileBlocks, FileInfo, ReadCsv, ReadLines
from sdf.io.text import fixed
from sdf.io.text.fixed import ReadRecords, ReadSlices
from sdf.testing import check_dofn

BOTH = pytest.mark.parametrize("kind", [ReadRecords, ReadSlices])
LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def path(tmp_path):
    """Return the path of a file of 30 bytes, no two alike."""
    (tmp_path / "letters").write_bytes(LETTERS[:30])
    return str(tmp_path / "letters")


@pytest.fixture
def small_cells(monkeypatch):
    """Make cells of a few bytes, so that small files have many."""
    monkeypatch.setattr(fixed, "CELL_BYTES", 3)


def outputs_of(fn, element, restriction):
    return list(fn.process(element, fn.create_tracker(element, restriction)))


def read_cut(fn, element, cuts):
    """Return the outputs of the parts that lie between cuts, in order."""
    whole = fn.get_initial_restriction(element)
    edges = [whole.start, *cuts, whole.stop]
    parts = [attrs.evolve(whole, start=edges[i], stop=edges[i + 1]) for i in range(len(edges) - 1)]
    return [output for part in parts for output in outputs_of(fn, element, part)]


def cuts_of(size):
    """Give every cut of a file, and every pair of cuts."""
    yield from ([one] for one in range(size + 1))
    yield from ([one, two] for one in range(size + 1) for two in range(one, size + 1))


# Records


@pytest.mark.parametrize(
    ("part", "starts"),
    [
        ((0, 3), [0]),
        ((3, 6), []),
        ((6, 9), [8]),
        ((9, 12), []),
        ((12, 15), []),
        ((15, 18), [16]),
        ((18, 21), []),
        ((21, 24), []),
        ((24, 27), [24]),
        ((27, 30), []),
    ],
)
def test_record_belongs_to_the_part_that_it_starts_in(path, part, starts):
    """30 bytes in blocks of 3, records of 8: the last is short."""
    fn = ReadRecords(8, block_size=3, with_position=True)
    whole = fn.get_initial_restriction(path)
    found = outputs_of(fn, path, attrs.evolve(whole, start=part[0], stop=part[1]))
    assert found == [((path, start), LETTERS[start : min(start + 8, 30)]) for start in starts]


@pytest.mark.parametrize("size", [0, 1, 4, 5, 8, 11])
@pytest.mark.parametrize("length", range(1, 7))
@pytest.mark.parametrize("block_size", [None, 1, 2, 3, 4, 5, 100])
def test_records_are_the_same_however_the_file_is_cut(tmp_path, small_cells, size, length, block_size):
    """Every cut and every pair of cuts, for small records and blocks."""
    (tmp_path / "file").write_bytes(LETTERS[:size])
    file = FileInfo(str(tmp_path / "file"), size)
    fn = ReadRecords(length, block_size=block_size)
    whole = [LETTERS[start : min(start + length, size)] for start in range(0, size, length)]
    for cuts in cuts_of(size):
        assert read_cut(fn, file, cuts) == whole, cuts


@pytest.mark.parametrize("block", range(1, 12))
@pytest.mark.parametrize("length", [1, 3, 8, 30, 31])
def test_records_do_not_depend_on_file_blocks(path, small_cells, block, length):
    """A FileBlock gives the records that start in it; they may go on in the next one."""
    blocks = run_direct([path], FileBlocks(block))
    assert run_direct(blocks, ReadRecords(length)) == run_direct([path], ReadRecords(length))


def test_short_last_record_can_be_an_error(path):
    """It names file, offset, and how many bytes there are and should be."""
    message = f"{path} at byte 24: the last record has 6 bytes, ReadRecords expects 8."
    with pytest.raises(ReadError, match=re.escape(message)):
        run_direct([path], ReadRecords(8, partial="error"))


@pytest.mark.parametrize("block_size", [None, 1, 7, 11])
@pytest.mark.parametrize("length", [1, 5, 30])
def test_whole_records_are_no_error(path, small_cells, block_size, length):
    """Only a last record that is cut off is."""
    found = run_direct([path], ReadRecords(length, partial="error", block_size=block_size))
    assert b"".join(found) == LETTERS[:30]


@pytest.mark.parametrize("block_size", [None, 1, 3, 10])
def test_short_record_is_an_error_in_exactly_one_part(path, block_size):
    """The part that it starts in; the others read on."""
    fn = ReadRecords(8, partial="error", block_size=block_size)
    parts = list(fn.split_restriction(path, fn.get_initial_restriction(path)))
    owner = [part for part in parts if part.start <= 24 < part.stop]
    for part in parts:
        if part in owner:
            with pytest.raises(ReadError):
                outputs_of(fn, path, part)
        else:
            outputs_of(fn, path, part)
    assert len(owner) == 1


def test_partial_is_keep_or_error():
    """Any other word is refused at once."""
    with pytest.raises(
        InvalidValueError, match=re.escape("ReadRecords partial must be 'keep' or 'error' (got 'drop')")
    ):
        ReadRecords(8, partial="drop")


# Slices


@pytest.mark.parametrize(
    ("size", "block_size", "length", "lengths"),
    [
        (13, 10, 4, [4, 4, 2, 3]),
        (13, None, 4, [4, 4, 4, 1]),
        (20, 10, 5, [5, 5, 5, 5]),
        (3, 10, 4, [3]),
        (10, 3, 4, [3, 3, 3, 1]),
        (0, 10, 4, []),
    ],
)
def test_slices_never_cross_a_block(tmp_path, size, block_size, length, lengths):
    """The last slice of a block is short."""
    (tmp_path / "file").write_bytes(LETTERS[:size])
    found = run_direct([str(tmp_path / "file")], ReadSlices(length, block_size=block_size))
    assert [len(piece) for piece in found] == lengths
    assert b"".join(found) == LETTERS[:size]


@pytest.mark.parametrize("block", range(1, 14))
@pytest.mark.parametrize("length", range(1, 15))
def test_file_blocks_and_block_size_give_the_same_slices(tmp_path, block, length):
    """Either of them says what a block is."""
    (tmp_path / "file").write_bytes(LETTERS[:13])
    path = str(tmp_path / "file")
    blocks = run_direct([path], FileBlocks(block))
    assert run_direct(blocks, ReadSlices(length)) == run_direct([path], ReadSlices(length, block_size=block))


def test_block_size_cuts_a_file_block_into_smaller_blocks(tmp_path):
    """Counted from the start of the FileBlock: 13 bytes, blocks of 10, of 4, slices of 3."""
    (tmp_path / "file").write_bytes(LETTERS[:13])
    blocks = run_direct([str(tmp_path / "file")], FileBlocks(10))
    found = run_direct(blocks, ReadSlices(3, block_size=4))
    assert [len(piece) for piece in found] == [3, 1, 3, 1, 2, 3]


@pytest.mark.parametrize("size", [0, 1, 4, 5, 8, 11])
@pytest.mark.parametrize("length", range(1, 7))
@pytest.mark.parametrize("block_size", [None, 1, 2, 3, 4, 5, 100])
def test_slices_are_the_same_however_the_file_is_cut(tmp_path, small_cells, size, length, block_size):
    """Every cut and every pair of cuts: slices start where the block grid says, not where a part does."""
    (tmp_path / "file").write_bytes(LETTERS[:size])
    file = FileInfo(str(tmp_path / "file"), size)
    fn = ReadSlices(length, block_size=block_size, with_position=True)
    block = block_size or max(1, size)
    whole = [
        ((file.path, start), LETTERS[start : min(start + length, begin + block, size)])
        for begin in range(0, size, block)
        for start in range(begin, min(begin + block, size), length)
    ]
    for cuts in cuts_of(size):
        assert read_cut(fn, file, cuts) == whole, cuts


# Both


@BOTH
@pytest.mark.parametrize("block_size", [None, 1, 3, 10])
@pytest.mark.parametrize("length", [1, 4, 7, 40])
def test_contract_holds(path, small_cells, kind, block_size, length):
    """check_dofn splits it everywhere; restrictions and the DoFn itself are sent."""
    assert check_dofn(kind(length, block_size=block_size), path).records > 0


@BOTH
@pytest.mark.parametrize("seed", range(4))
def test_pieces_are_the_same_after_a_checkpoint_at_every_claim(path, small_cells, kind, seed):
    """Residuals start anywhere, and run in any order."""
    fn = kind(4, block_size=7, with_position=True)
    assert sorted(run_direct([path], fn, split_every=1, seed=seed)) == run_direct([path], fn)


@BOTH
def test_claims_are_made_once_per_cell(path, monkeypatch, kind):
    """Nothing happens per piece that can happen per cell: here are ten pieces in each."""
    monkeypatch.setattr(fixed, "CELL_BYTES", 10)
    assert check_dofn(kind(1), path).claims == 3


@BOTH
def test_cell_holds_at_least_one_piece(path, monkeypatch, kind):
    """However long a piece is."""
    monkeypatch.setattr(fixed, "CELL_BYTES", 1)
    assert run_direct([path], kind(12)) == [LETTERS[:12], LETTERS[12:24], LETTERS[24:30]]


@BOTH
def test_length_may_be_far_greater_than_the_file(path, kind):
    """No more is read, nor memory taken, than there is."""
    assert run_direct([path], kind(1 << 60)) == [LETTERS[:30]]


@BOTH
def test_position_is_path_and_offset(path, kind):
    """With with_position."""
    found = run_direct([path], kind(20, with_position=True))
    assert found == [((path, 0), LETTERS[:20]), ((path, 20), LETTERS[20:30])]


@BOTH
@pytest.mark.parametrize(
    ("length", "error", "message"),
    [
        (0, InvalidValueError, "length must be >= 1 (got 0)."),
        (-4, InvalidValueError, "length must be >= 1 (got -4)."),
        (4.0, InvalidTypeError, "length must be an integer, a number of bytes (got 4.0)."),
        (True, InvalidTypeError, "length must be an integer, a number of bytes (got True)."),
        (None, InvalidTypeError, "length must be an integer, a number of bytes (got None)."),
    ],
)
def test_length_must_be_a_number_of_bytes(kind, length, error, message):
    """It is refused where the DoFn is made."""
    with pytest.raises(error, match=re.escape(f"{kind.__name__} {message}")):
        kind(length)


@BOTH
def test_pickles(path, kind):
    """A copy reads the same."""
    fn = kind(7, block_size=9)
    assert run_direct([path], cloudpickle.loads(cloudpickle.dumps(fn))) == run_direct([path], fn)


@pytest.mark.parametrize(("options", "sizes"), [({}, (20,)), ({"block_size": 8}, (8, 8, 4))])
@pytest.mark.parametrize("with_position", [False, True])
@pytest.mark.parametrize("make", [ReadSlices, ReadRecords])
def test_pieces_with_the_id_of_their_block(tmp_path, options, sizes, with_position, make):
    """The block in which a piece starts."""
    path = tmp_path / "a"
    path.write_bytes(bytes(range(20)))
    found = run_direct([str(path)], make(4, with_block_id=True, with_position=with_position, **options))
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    blocks = [f"{end - size}-{end}" for end, size in zip(ends, sizes, strict=True) for _ in range(size // 4)]
    pieces = [bytes(range(start, start + 4)) for start in range(0, 20, 4)]
    outputs = [((str(path), 4 * at), piece) for at, piece in enumerate(pieces)] if with_position else pieces
    assert [(one.rsplit(":", 1)[1], output) for one, output in found] == list(zip(blocks, outputs, strict=True))


def test_block_ids_are_those_of_the_blocks(tmp_path):
    """So records and blocks can be joined."""
    path = tmp_path / "a"
    path.write_bytes(b"1\n22\n333\n4444\n")
    blocks = run_direct([str(path)], FileBlocks(6))
    lines = run_direct(blocks, ReadLines(with_block_id=True))
    assert lines == [(blocks[0].id, "1"), (blocks[0].id, "22"), (blocks[0].id, "333"), (blocks[1].id, "4444")]
    assert run_direct([str(path)], ReadLines(with_block_id=True, block_size=6)) == lines
    rows = run_direct([str(path)], ReadCsv(header=False, quoted_newlines=True, with_block_id=True))
    assert {block for block, _ in rows} == {FileBlock(blocks[0].file, 0, 14).id}


def test_a_bad_record_has_no_block_id(tmp_path):
    """It has its path and offset."""
    path = tmp_path / "a"
    path.write_bytes(b"1\n\xff\n")
    found = run_direct([str(path)], ReadLines(with_block_id=True, on_error="tag"), tags=("bad",))
    assert [record for _, record in found["main"]] == ["1"]
    assert [record.offset for record in found["bad"]] == [2]


def test_sizes_have_defaults(tmp_path):
    """A block of 128 MiB, and a slice of one."""
    path = tmp_path / "a"
    with open(path, "wb") as file:
        file.truncate((128 << 20) + 5)
    assert [block.stop - block.start for block in run_direct([str(path)], FileBlocks())] == [128 << 20, 5]
    os.truncate(path, (1 << 20) + 5)
    assert [len(piece) for piece in run_direct([str(path)], ReadSlices())] == [1 << 20, 5]
