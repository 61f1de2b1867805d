"""What `TableInvoker` and `Table` check, row by row, and what a report may name."""

import pickle
from array import array
from contextlib import suppress

import attrs
import pytest
from support.clock import Clock

from sdf import DoFn, OffsetRange, OffsetRangeTracker
from sdf.errors import ClaimError, InvalidTypeError, OutputError, ProcessError, SplitError, UnpicklableError
from sdf.execution.bulk.invoker import TableInvoker
from sdf.execution.bulk.naming import RowNames
from sdf.execution.bulk.table import Rows, Table
from sdf.execution.executor import Executor, run_to_end
from sdf.execution.work_items import Ran, WorkItem
from sdf.model.restrictions import tiling_flaw
from sdf.model.trackers import Progress
from sdf.model.watermarks import ManualWatermark, MonotonicWatermark

SIZES = [3, 0, 4, 2]


class RowFn(DoFn):
    """Element: its name. Each row is given by a function of its name."""

    def __init__(self, **rows):
        self.rows = rows

    def get_initial_restriction(self, element):
        raise AssertionError("the table has it")

    def process(self, element, tracker):
        return self.rows.get(element, claims)(tracker)


def claims(tracker):
    yield from tracker.claims()


class OwnFn(RowFn):
    """With a tracker of its own, so that each row has an invoker of its own."""

    def create_tracker(self, element, restriction):
        return Own(restriction)


class Own(OffsetRangeTracker):
    pass


kinds = pytest.mark.parametrize("kind", [RowFn, OwnFn])


def table_of(sizes=SIZES, blobs=None):
    names = [chr(ord("a") + row) if row < 26 else str(row) for row in range(len(sizes))]
    blobs = blobs or tuple(pickle.dumps(names[at : at + 32]) for at in range(0, len(names), 32))
    return Table(0, blobs, array("q", [0] * len(sizes)), array("q", sizes))


def item_of(table, rows=None):
    return WorkItem(0, 100, table, rows or table.whole(), None)


def outputs_of(fn, table, rows=None, **options):
    with TableInvoker(fn, table, rows or table.whole(), **options).outputs() as outputs:
        return list(outputs)


def seen_while_it_runs(fn, table, at, look):
    """Call ``look`` with the invoker when it has given ``at`` outputs; return what that returns."""
    invoker = TableInvoker(fn, table, table.whole())
    with invoker.outputs() as outputs:
        for number, _ in enumerate(outputs, start=1):
            if number == at:
                found = look(invoker)
    return found, invoker


# What `process` may return.


@kinds
@pytest.mark.parametrize(
    "given", [list, tuple, iter, lambda found: map(int, found), lambda found: (each for each in found)]
)
def test_a_row_may_return_any_iterable(kind, given):
    """As the `process` of any element."""
    fn = kind(a=lambda tracker: given([*tracker.claims()]), c=lambda tracker: given([*tracker.claims()]))
    assert outputs_of(fn, table_of()) == [0, 1, 2, 0, 1, 2, 3, 0, 1]


@kinds
def test_a_row_may_return_none(kind):
    """If it has claimed all."""
    fn = kind(c=lambda tracker: [None for _ in tracker.claims()] and None)
    assert outputs_of(fn, table_of()) == [0, 1, 2, 0, 1]


@kinds
@pytest.mark.parametrize("wrong", ["text", b"bytes", {}, 7])
def test_a_row_must_not_return_anything_else(kind, wrong):
    """The error names its element."""
    fn = kind(c=lambda tracker: wrong)
    with pytest.raises(InvalidTypeError, match=r"of element 'c': it must yield records or return an iterable"):
        outputs_of(fn, table_of())


@kinds
def test_a_row_whose_process_raises_the_end_of_an_iterator_has_failed(kind):
    """As any element: it neither ends the rows, nor becomes another error."""
    fn = kind(c=lambda tracker: [next(iter([])) for _ in tracker.claims()])
    with pytest.raises(ProcessError, match=r"process\(\) on .* of element 'c' raised StopIteration"):
        outputs_of(fn, table_of())


# Nothing of a row is left for the next one.


def until_refused(tracker):
    at = 0
    while tracker.try_claim(at):
        yield at
        at += 1


@kinds
def test_the_outputs_at_a_refused_claim_are_of_that_row_only(kind):
    """Rows that claim until they are refused, and rows that do not, one after the other."""
    assert outputs_of(kind(a=until_refused, d=until_refused), table_of()) == [0, 1, 2, 0, 1, 2, 3, 0, 1]


def in_blocks(tracker):
    yield from tracker.claims(range(10), position=int)


def too_many(tracker):
    yield from until_refused(tracker)
    yield "too many"


@kinds
def test_a_row_that_ends_with_its_claims_excuses_none_behind_it(kind):
    """After a refused claim of its own, an output is an error."""
    with pytest.raises(OutputError, match=r"of element 'c': it gave 1 output after a refused claim"):
        outputs_of(kind(a=in_blocks, c=too_many), table_of())


@kinds
def test_a_row_that_ends_with_its_claims_takes_no_deferral_from_one_behind_it(kind):
    """Its last block was others'; that of the row behind it is not."""

    def defers(tracker):
        yield tracker.try_claim(0)
        tracker.defer_remainder()

    table = table_of()
    invoker = TableInvoker(kind(a=in_blocks, c=defers), table, table.whole())
    with invoker.outputs() as outputs:
        list(outputs)
    assert [one.restriction for one in invoker.residuals] == [Rows((3, 0), (4, 0)), Rows((2, 1), (3, 0))]


@kinds
def test_an_empty_row_must_give_nothing(kind):
    """It has no block to which an output could belong."""
    with pytest.raises(OutputError, match=r"of element 'b': it gave 1 output before its first claim"):
        outputs_of(kind(b=lambda tracker: iter(["x"])), table_of())


def swallows(tracker):
    tracker.try_claim(1)
    with suppress(ClaimError):
        tracker.try_claim(0)
    yield tracker.try_claim(3)


@kinds
def test_an_error_that_a_row_swallows_is_raised_at_its_end(kind):
    """As of any element."""
    with pytest.raises(ClaimError, match=r"of element 'c': try_claim\(\) positions must increase"):
        outputs_of(kind(c=swallows), table_of())


class MarksFn(OwnFn):
    """Gives the watermark before each block."""

    def create_watermark_estimator(self, element, restriction):
        return ManualWatermark(0)

    def process(self, element, tracker):
        for at in tracker.claims():
            yield tracker.watermark.current()
            tracker.watermark.advance(at + 10)


def test_only_the_first_row_goes_on_from_a_watermark():
    """It belongs to an element."""
    assert outputs_of(MarksFn(), table_of([2, 2]), watermark=5) == [5, 10, 0, 10]


class TimesFn(MarksFn):
    """Each block is of time 3."""

    def create_watermark_estimator(self, element, restriction):
        return MonotonicWatermark(0)

    def process(self, element, tracker):
        for _ in tracker.claims():
            tracker.watermark.observe(3)
            yield element


def test_late_records_of_all_rows_are_counted():
    """Those of rows that have ended, too."""
    invoker = TableInvoker(TimesFn(), table_of(), table_of().whole(), late_below=5)
    with invoker.outputs() as outputs:
        assert len(list(outputs)) == invoker.late == invoker.records == sum(SIZES)


@kinds
def test_whoever_watches_claims_sees_those_of_all_rows(kind):
    """With the row, and the position in it."""
    seen = []
    outputs_of(kind(), table_of(), on_claim=lambda number, position: seen.append((number, position)))
    assert seen == [(at + 1, (row, at)) for row, size in enumerate(SIZES) for at in range(size)]


# Elements that do not unpickle.


@kinds
@pytest.mark.parametrize("rows", [32, 40])
def test_elements_that_do_not_unpickle_are_not_the_fault_of_a_row(kind, rows):
    """Neither of the one before them, nor of one that never was."""
    good = pickle.dumps([str(row) for row in range(32)])
    table = table_of([1] * rows, (good, b"broken") if rows > 32 else (b"broken",))
    with pytest.raises(UnpicklableError, match=r"^elements do not unpickle here \(UnpicklingError.*Mend the"):
        outputs_of(kind(), table)


@kinds
def test_an_error_of_a_tracker_names_the_row(kind):
    """Also of the first row, when none has run."""

    class BadFn(kind):
        def create_tracker(self, element, restriction):
            raise OSError("no tracker")

    with pytest.raises(
        ProcessError, match=r"create_tracker\(\) on OffsetRange\(start=0, stop=3\) of element 'a' raised"
    ):
        outputs_of(BadFn(), table_of())


# Splits and progress.


@kinds
def test_a_row_that_is_much_of_what_is_left_is_split_inside(kind):
    """Even if it was not seen to run for long."""
    _, invoker = seen_while_it_runs(kind(), table_of([40, 1, 1]), 2, lambda invoker: invoker.split(0.5))
    assert [one.restriction for one in invoker.residuals] == [Rows((1, 0), (3, 0)), Rows((0, 21), (1, 0))]


@kinds
def test_a_row_that_is_little_of_what_is_left_is_split_inside_if_it_runs_long(kind):
    """Its size tells nothing then."""

    def split(invoker):
        invoker.note(1.0)
        invoker.note(2.0)
        return invoker.split(0)

    _, invoker = seen_while_it_runs(kind(), table_of([4] * 20), 5, split)
    assert [one.restriction for one in invoker.residuals] == [Rows((2, 0), (20, 0)), Rows((1, 1), (2, 0))]
    assert invoker.primary == Rows((0, 0), (1, 1))


@kinds
def test_work_left_is_that_of_the_part(kind):
    """Of rows that are held in part, and after a split inside a row."""
    table = table_of([4, 4, 4])
    assert TableInvoker(kind(), table, Rows((0, 1), (2, 2))).progress() == Progress(0, 9)

    def split(invoker):
        invoker.note(1.0)
        invoker.note(2.0)
        invoker.split(0)
        return invoker.progress()

    found, _ = seen_while_it_runs(kind(), table, 6, split)
    assert found == Progress(5, 1)  # the sixth block is claimed, and not done


@kinds
def test_parts_tile_also_in_the_middle_of_a_deferral(kind):
    """A lane may look between the call and the end of `process`."""
    found = []

    def defers(tracker):
        yield tracker.try_claim(0)
        tracker.defer_remainder()
        found.append(invoker.parts())

    table = table_of()
    invoker = TableInvoker(kind(c=defers), table, table.whole())
    with invoker.outputs() as outputs:
        list(outputs)
    ((primary, residuals),) = found
    assert tiling_flaw(table.whole(), [primary, *(one.restriction for one in reversed(residuals))], None) is None


@kinds
def test_rows_behind_a_deferred_one_do_not_wait_where_they_are_replayed(kind):
    """Only the deferred row does, though nothing was claimed before it."""
    events, deferred = [], []

    def defers(tracker):
        if not deferred:
            deferred.append(tracker.defer_remainder(5))
            return
        yield from claims(tracker)

    table = table_of([1, 1, 1])
    run = run_to_end(kind(a=defers), [item_of(table)], clock=Clock(), sleep=lambda seconds: events.append("sleep"))
    events.extend([] if output is None else ["row"] for output in run)
    assert events == [["row"], ["row"], "sleep", ["row"]]


# What a lane says, and what a report names.


def test_positions_are_pairs_of_integers():
    """A lane may send anything."""
    for position in ("x", (1,), (1, 2.0), (True, 0), [1, 0], None):
        with pytest.raises(InvalidTypeError, match=r"a position is a row and a number of offsets"):
            Rows((0, 0), position)


def test_a_table_has_no_size_for_rows_that_it_has_not():
    """Nor are there rows for what is no part of an element's restriction."""
    table = table_of()
    for rows in (Rows((0, 0), (5, 0)), Rows((-1, 0), (2, 0)), Rows((3, 0), (2, 0))):
        with pytest.raises(SplitError, match=r"do not lie in rows 0 up to 4"):
            table.size(rows, None)
    for part in (OffsetRange(0, 9), OffsetRange(-1, 2), (0, 1), "x"):
        with pytest.raises(SplitError, match=r"of element 'a' gave .* is no part of OffsetRange\(start=0, stop=3\)"):
            table.rows_of(0, part)


def ran(row, elements=1):
    return Ran(0, 0.0, 1.0, 1.0, 1, 0.0, elements, row)


def test_a_report_names_no_row_that_was_not_there():
    """Whatever a lane says."""
    table, names = table_of(), RowNames()
    item = item_of(table)
    found = names.ran(item, Rows((1, 0), (3, 0)), [ran(-1, 2), ran(0), ran(2), ran(3), ran(77), ran(-2)])
    assert [one.row for one, *_ in found] == [-1, 2, -2]
    assert [names.block(item, row) for row in (0, 3)] == ["a", "d"]
    assert [names.block(item, row) for row in (-1, 4, 77)] == [table] * 3
    alone = WorkItem(0, 0, "x", OffsetRange(0, 1), 1)
    assert [one.row for one, *_ in names.ran(alone, OffsetRange(0, 1), [ran(-1), ran(3)])] == [-1]


def test_a_row_that_ran_long_tells_how_long_it_took_to_open():
    """Up to its first claim, from periodic looks; the rows before it took their own time."""
    clock = Clock()

    def opens(tracker):
        for _ in range(3):
            clock.now += 0.5
            running.note()
        yield from tracker.claims()

    executor = Executor(RowFn(b=opens), side_inputs=None, clock=clock)
    running = executor.start(item_of(table_of([1, 1, 1])))
    with running.outputs() as outputs:
        for _ in outputs:
            running.note()
            clock.now += 1
            running.note()
    executor.end()
    told, _ = executor.take_report()
    assert {each.row: (each.seconds, each.opening_seconds) for each in told if each.row == 1} == {1: (2.0, 1.0)}


def test_rows_that_all_ran_long_are_told():
    """One of them has what the others have not, such as the records of all."""
    clock = Clock()
    executor = Executor(RowFn(), side_inputs=None, clock=clock)
    running = executor.start(item_of(table_of([1, 1])))
    with running.outputs() as outputs:
        for _ in outputs:
            running.note()
            clock.now += 1
            running.note()
    executor.end()
    told, _ = executor.take_report()
    assert [(each.row, each.elements, each.seconds) for each in told] == [(-1, 1, 1.0), (0, 1, 1.0)]


def test_a_row_that_ran_for_less_than_a_tenth_of_a_second_is_told_with_the_others():
    """And one of a twentieth is not even kept in mind."""
    for seconds, kept in ((0.04, 0), (0.07, 3)):
        clock = Clock()
        executor = Executor(RowFn(), side_inputs=None, clock=clock)
        running = executor.start(item_of(table_of([1, 1, 1])))
        with running.outputs() as outputs:
            for _ in outputs:
                running.note()
                clock.now += seconds
                running.note()
        executor.end()
        assert len(running.invoker.dear_rows()) == kept
        assert [(each.row, each.elements) for each in executor.take_report()[0]] == [(-1, 3)]


def test_a_report_has_the_remarks_on_rows_by_their_elements():
    """Those of an element that does not unpickle on the driver are there, too."""
    table, names = table_of(), RowNames()
    item = item_of(table)
    notes = ((1, "gzip"), (3, "zstd"))
    first = names.remarks(item, notes)
    assert first == [(table.element(1), "gzip"), (table.element(3), "zstd")]
    assert names.element(item, 3) is first[1][0]
    broken = attrs.evolve(table, blobs=(b"no pickle",))
    told = RowNames().remarks(item_of(broken), notes)
    assert [text for _, text in told] == ["gzip", "zstd"]
    assert "an element that the driver cannot show" in repr(told[0][0])
    assert RowNames().remarks(attrs.evolve(item, element="a.gz"), "one piece") == [("a.gz", "one piece")]
