"""`cut_out` and `cut_share` on each small restriction, of every tracker that has blocks."""

import itertools
import pickle
from array import array

import pytest

from sdf import UNBOUNDED, ByteKeyRange, ByteKeyRangeTracker, DoFn, OffsetRange
from sdf.execution.bulk.table import Rows, Table
from sdf.execution.expansion import cut_out, cut_share
from sdf.execution.work import work_of
from sdf.model.offset_trackers import GrowableOffsetRangeTracker, OffsetRangeTracker
from sdf.model.restrictions import tiling_flaw

KEYS = [b"", b"\x00", b"\x00\x00", b"a", b"a\x00", b"b", b"\xff", b"\xff\xff"]  # as a stop, b"" is no end
SHARES = [0.001, 1 / 3, 0.5, 0.9, 0.999]


class Ranges(DoFn):
    def __init__(self, tracker):
        self.tracker = tracker

    def get_initial_restriction(self, element):
        return element

    def create_tracker(self, element, restriction):
        return self.tracker(restriction)

    def process(self, element, tracker):
        pass


def offsets_in(restriction):
    return list(range(*restriction))


@pytest.mark.parametrize(("start", "stop"), list(itertools.combinations(range(-2, 6), 2)))
def test_each_offset_is_cut_out_alone(start, stop):
    """What lies before and after it is the rest, in order, and no part is empty."""
    for position in range(start, stop):
        before, block, after = cut_out(Ranges(OffsetRangeTracker), "e", OffsetRange(start, stop), position)
        parts = [part for part in (before, block, after) if part is not None]
        assert block == OffsetRange(position, position + 1)
        assert (before is None) == (position == start)
        assert (after is None) == (position == stop - 1)
        assert [i for part in parts for i in offsets_in(part)] == list(range(start, stop))


@pytest.mark.parametrize("start", range(-2, 4))
def test_an_offset_is_cut_out_of_a_range_without_an_end(start):
    """What lies after it has no end, as before."""
    fn = Ranges(lambda restriction: GrowableOffsetRangeTracker(restriction, lambda: 10))
    for position in range(start, 6):
        before, block, after = cut_out(fn, "e", OffsetRange(start, UNBOUNDED), position)
        assert before == (None if position == start else OffsetRange(start, position))
        assert (block, after) == (OffsetRange(position, position + 1), OffsetRange(position + 1, UNBOUNDED))


@pytest.mark.parametrize(("start", "stop"), [*itertools.combinations(KEYS, 2), *((key, b"") for key in KEYS)])
def test_each_key_is_cut_out_alone(start, stop):
    """The block holds the key and no other one: the next key is itself and a zero."""
    inside = [key for key in KEYS if key and key >= start and (not stop or key < stop)]
    for key in inside:
        before, block, after = cut_out(Ranges(ByteKeyRangeTracker), "e", ByteKeyRange(start, stop), key)
        ends = [part for part in (before, block, after) if part is not None]
        assert (ends[0].start, ends[-1].stop) == (start, stop)
        assert all(left.stop == right.start for left, right in itertools.pairwise(ends))
        assert (block.start, block.stop) == (key, key + b"\x00")
        assert all(not part.stop or part.start < part.stop for part in ends)


@pytest.mark.parametrize(("start", "stop"), list(itertools.combinations_with_replacement(range(-2, 4), 2)))
def test_an_offset_outside_cuts_nothing_out(start, stop):
    """As the one claimed last may be: a refused claim is past the stop, and what comes after it may raise."""
    whole = OffsetRange(start, stop)
    for position in [*range(-4, start), *range(stop, 6), UNBOUNDED, b"a", "a", None]:
        assert cut_out(Ranges(OffsetRangeTracker), "e", whole, position) is None


def test_the_closing_claim_of_a_range_without_an_end_cuts_nothing_out():
    """It is no position, and is refused."""
    for position in [-1, UNBOUNDED]:
        assert cut_out(Ranges(GrowableOffsetRangeTracker), "e", OffsetRange(0, UNBOUNDED), position) is None


@pytest.mark.parametrize(("start", "stop"), [*itertools.combinations(KEYS, 2), *((key, b"") for key in KEYS)])
def test_a_key_outside_cuts_nothing_out(start, stop):
    """Nor does b"", the closing claim."""
    outside = [key for key in KEYS if not key or key < start or (stop and key >= stop)]
    for key in [*outside, 7, None]:
        assert cut_out(Ranges(ByteKeyRangeTracker), "e", ByteKeyRange(start, stop), key) is None


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(("start", "stop"), list(itertools.combinations(range(-2, 6), 2)))
def test_each_share_of_offsets_is_cut_in_two_that_are_not_empty(start, stop, share):
    """Only one offset cannot be cut; so to cut halves again and again ends at single offsets."""
    pair = cut_share(Ranges(OffsetRangeTracker), "e", OffsetRange(start, stop), share)
    assert (pair is None) == (stop - start == 1)
    if pair is not None:
        front, back = map(offsets_in, pair)
        assert front
        assert back
        assert front + back == list(range(start, stop))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(("start", "stop"), [*itertools.combinations(KEYS, 2), *((key, b"") for key in KEYS)])
def test_a_share_of_keys_is_cut_in_two_that_are_not_empty(start, stop, share):
    """Or it is not cut; the two meet at one key inside."""
    pair = cut_share(Ranges(ByteKeyRangeTracker), "e", ByteKeyRange(start, stop), share)
    if pair is not None:
        front, back = pair
        assert (front.start, back.stop) == (start, stop)
        assert front.stop == back.start
        assert front.start < front.stop
        assert not stop or back.start < stop


LENGTHS = [2, 0, 3, 1]
PLACES = [(row, at) for row, length in enumerate(LENGTHS) for at in range(max(1, length))] + [(4, 0)]


class RowsFn(DoFn):
    """Element: the bounds of a row."""

    def get_initial_restriction(self, element):
        return OffsetRange(*element)

    def process(self, element, tracker):
        pass


def table_of_lengths():
    bounds = [(7, 7 + length) for length in LENGTHS]
    starts, stops = (array("q", column) for column in zip(*bounds, strict=True))
    return Table(0, (pickle.dumps(bounds),), starts, stops)


def blocks_in(table, rows):
    return [(row, at) for row in range(rows.first, rows.end) for at in offsets_in(table.range_of(row, rows))]


@pytest.mark.parametrize(("start", "stop"), list(itertools.combinations(PLACES, 2)))
def test_each_block_of_rows_is_cut_out_alone(start, stop):
    """What lies before and after it are rows, too; a row that has claimed nothing is cut out whole."""
    table, rows = table_of_lengths(), Rows(start, stop)
    for row, at in [*blocks_in(table, rows), *((row, None) for row in range(rows.first, rows.end))]:
        before, block, after = work_of(table, rows).cut_out(RowsFn(), (row, at))
        parts = [part for part in (before, block, after) if part is not None]
        assert tiling_flaw(rows, parts, None) is None
        assert all(part.start < part.stop for part in parts)
        whole = [one for one in blocks_in(table, rows) if one[0] == row]
        assert blocks_in(table, block) == ([(row, at)] if at is not None else whole)


def test_a_row_or_a_position_that_is_not_there():
    """Nothing is cut out for a row outside; for a position outside of the row, the row is."""
    table, rows = table_of_lengths(), Rows((1, 0), (3, 0))
    for position in [(0, 7), (3, 7), (-1, 7), 7, None, ("x", 7), (1, 7, 8)]:
        assert work_of(table, rows).cut_out(RowsFn(), position) is None
    for at in (3, 10, "x"):
        assert work_of(table, rows).cut_out(RowsFn(), (2, at)) == (Rows((1, 0), (2, 0)), Rows((2, 0), (3, 0)), None)
