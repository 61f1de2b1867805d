"""What an attempt tells of where the first block of a part starts."""

import pickle
from array import array

import pytest

from sdf import ByteKeyRange, DoFn, OffsetRange
from sdf.execution.bulk.table import Table
from sdf.execution.bundle import Bundle
from sdf.execution.invoker import Invoker
from sdf.execution.work import work_of
from sdf.execution.work_items import WorkItem

LENGTH = 4


class ByHandFn(DoFn):
    """Blocks of four positions, each claimed."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 10)

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for at in range(-(-start // LENGTH) * LENGTH, stop, LENGTH):
            if not tracker.try_claim(at):
                return
            yield at
        tracker.try_claim(stop)


class BlocksFn(ByHandFn):
    """The same blocks, delivered."""

    def process(self, element, tracker):
        start = tracker.current_restriction().start
        return tracker.claims(range(-(-start // LENGTH) * LENGTH, 10, LENGTH), position=int)


class EachFn(ByHandFn):
    """Each position is a block."""

    def process(self, element, tracker):
        return tracker.claims()


class KeysFn(ByHandFn):
    """Two keys."""

    def process(self, element, tracker):
        for key in (b"b", b"m"):
            if key >= tracker.current_restriction().start:
                if not tracker.try_claim(key):
                    return
                yield key
        tracker.try_claim(b"")


def first_of(fn, restriction):
    invoker = Invoker(fn, "a", restriction)
    assert invoker.first is None
    list(invoker.run())
    return invoker.first


@pytest.mark.parametrize("start", range(10))
@pytest.mark.parametrize("stop", range(1, 11))
def test_the_first_claim_of_a_part_is_told_unless_no_block_starts_there(start, stop):
    """For all parts of ten positions."""
    if start < stop:
        blocks = [at for at in range(0, 10, LENGTH) if start <= at < stop]
        assert first_of(ByHandFn(), OffsetRange(start, stop)) == tuple(blocks[:1])
        assert first_of(BlocksFn(), OffsetRange(start, stop)) == tuple(blocks[:1])
        assert first_of(EachFn(), OffsetRange(start, stop)) == (start,)


@pytest.mark.parametrize(("start", "stop", "first"), [(b"", b"", (b"b",)), (b"c", b"", (b"m",)), (b"c", b"d", ())])
def test_the_first_key_is_told(start, stop, first):
    """As a position."""
    assert first_of(KeysFn(), ByteKeyRange(start, stop)) == first


@pytest.mark.parametrize("fn", [ByHandFn(), BlocksFn()])
@pytest.mark.parametrize("observes", [True, False])
def test_only_what_was_cut_off_in_a_run_with_quarantine_tells_it(fn, observes):
    """Nothing else can lie behind a block."""
    items = [WorkItem(7, 0, "a", OffsetRange(0, 5)), WorkItem(8, 0, "a", OffsetRange(5, 10), parent=7)]
    bundle = Bundle(fn, items, clock=float, on_claim=(lambda position: None) if observes else None)
    list(bundle.outputs())
    assert bundle.outcome().firsts == (((8, (8,)),) if observes else ())


@pytest.mark.parametrize("kind", [ByHandFn, BlocksFn])
@pytest.mark.parametrize("own_tracker", [True, False])
def test_of_rows_the_first_claim_in_the_first_row_is_told(kind, own_tracker):
    """As the row, and the position in it; the others do not lie behind a block."""

    class Fn(kind):
        if own_tracker:

            def create_tracker(self, element, restriction):
                return super().create_tracker(element, restriction)

    table = Table(0, (pickle.dumps(["a", "b", "c"]),), array("q", [0, 2, 0]), array("q", [10, 10, 10]))
    for start in range(2, 10):
        rows = table.rows_of(1, OffsetRange(start, 10))
        behind = type(rows)(rows.start, (3, 0))
        invoker = work_of(table, behind).invoker(Fn())
        with invoker.outputs() as outputs:
            list(outputs)
        blocks = [at for at in range(0, 10, LENGTH) if at >= start]
        assert invoker.first == (((1, blocks[0]),) if blocks else ())
