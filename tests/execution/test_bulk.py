"""Rows of a table: cut anywhere, deferred, lost or replayed, each block of each element runs exactly once."""

import itertools
import pickle
from array import array

import pytest
from support.clock import Clock

from sdf import DoFn, OffsetRange, OffsetRangeTracker
from sdf.errors import (
    ClaimError,
    DeferError,
    OutputError,
    ProcessError,
    SplitError,
    TilingError,
    UnclaimedWorkError,
)
from sdf.execution.bulk.making import expand_in_bulk
from sdf.execution.bulk.naming import Several
from sdf.execution.bulk.table import Rows, Table
from sdf.execution.deferrals import Deferrals
from sdf.execution.executor import Executor, residual_item, run_to_end
from sdf.execution.expansion import Expanded
from sdf.execution.work import work_of
from sdf.execution.work_items import DEFERRED, Outcome
from sdf.model.watermarks import ManualWatermark
from sdf.scheduling.run_state import RunState

ROWS = [("a", 3, 5), ("b", 0, 0), ("c", 0, 3), ("d", -2, -1)]  # element, start and stop
BLOCKS = [(name, at) for name, start, stop in ROWS for at in range(start, stop)]


class RowFn(DoFn):
    """Gives the name and the position of each block."""

    def get_initial_restriction(self, element):
        return OffsetRange(*element[1:])

    def process(self, element, tracker):
        for at in range(*tracker.current_restriction()):
            if not tracker.try_claim(at):
                return
            yield element[0], at


class ClaimsFn(RowFn):
    """The same with claims()."""

    def process(self, element, tracker):
        for at in tracker.claims():
            yield element[0], at


class OwnTracker(OffsetRangeTracker):
    pass


class OwnFn(RowFn):
    """With a tracker and sizes of its own, and a watermark."""

    def create_tracker(self, element, restriction):
        return OwnTracker(restriction)

    def restriction_size(self, element, restriction):
        return 10.5 * (restriction.stop - restriction.start)

    def create_watermark_estimator(self, element, restriction):
        return ManualWatermark(0)


class DefersFn(RowFn):
    """Defers once after so many blocks of an element, 0 for before the first."""

    def __init__(self, name, after):
        self.name = name
        self.after = after
        self.deferred = False

    def process(self, element, tracker):
        for number, at in enumerate(range(*tracker.current_restriction())):
            if (element[0], number) == (self.name, self.after) and not self.deferred:
                self.deferred = True
                tracker.defer_remainder(7)
                return
            if not tracker.try_claim(at):
                return
            yield element[0], at


class OwnDefersFn(DefersFn, OwnFn):
    """The same with a tracker of its own."""


FNS = [RowFn, ClaimsFn, OwnFn]
every_fn = pytest.mark.parametrize("kind", FNS)


def table_of(rows=ROWS, fn=None):
    sizes = None if not isinstance(fn, OwnFn) else array("d", [10.5 * (stop - start) for _, start, stop in rows])
    blobs = tuple(pickle.dumps(rows[at : at + 32]) for at in range(0, len(rows), 32))
    return Table(0, blobs, array("q", [row[1] for row in rows]), array("q", [row[2] for row in rows]), sizes)


def begun(fn, rows=ROWS):
    """Give the state of a run, and the work item of its only table."""
    table = table_of(rows, fn)
    work = RunState(fn)
    (item,) = work.add([Expanded(table, table.whole(), ((table.whole(), table.size(table.whole(), None)),))])
    return work, item


def sent(item):
    """Give a work item as a worker gets it."""
    return pickle.loads(pickle.dumps(item))


def ran(fn, items):
    return list(run_to_end(fn, map(sent, items), clock=Clock(), sleep=lambda seconds: None))


def run_with(fn, item, at, do, *, long=False, seconds=1.0):
    """Run a work item; when it has given ``at`` outputs do something with it. Give outputs, part and running.

    With ``long``, the running row is seen to take ``seconds``.
    """
    clock = Clock(1.0)
    executor = Executor(fn, side_inputs=None, clock=clock)
    running = executor.start(sent(item))
    outputs = []
    with running.outputs() as given:
        for number, output in enumerate(itertools.chain([None], given)):
            outputs += [output] if number else []
            if number == at:
                if long:
                    running.note()
                    clock.now += seconds
                    running.note()
                do(running)
    return outputs, executor.end(), executor


def commit(work, item, part, owner):
    """Enter what an attempt did; give what is left to run."""
    work.ledger.assign(owner, [item])
    todo = work.commit(owner, "attempt", Outcome(1, () if part is None else (part,)))
    return [each for each, _ in todo]


def finish(work, fn, todo):
    """Run all that is left, each work item by its own; give the outputs."""
    outputs = []
    for item in todo:
        outputs += ran(fn, [item])
        commit(work, item, None, ("rest", item.id))
    work.ledger.prove()
    return outputs


def moments(fn):
    return range(len(BLOCKS) + 1)


# Before it runs.


@every_fn
def test_cut_before_it_runs(kind):
    """At any share of the work, and what comes of it again, down to single blocks: each block once, in order."""
    for fraction in [0.01, 0.2, 0.34, 0.5, 0.7, 0.99]:
        fn = kind()
        work, item = begun(fn)
        todo, done = [item], []
        while todo:
            pair = work.cut(todo[0], fraction)
            if pair is None:
                done.append(todo.pop(0))
            else:
                todo[:1] = pair
        assert len(done) == len(BLOCKS) + 1  # the empty row is a work item, too
        assert sum(each.size for each in done) == item.size
        assert ran(fn, done) == BLOCKS
        assert finish(work, fn, done) == BLOCKS


@every_fn
def test_promoted_before_it_runs(kind):
    """Each row, cut out and then cut inside at each block."""
    for row, (_, start, stop) in enumerate(ROWS):
        for offset in range(1, stop - start):
            fn = kind()
            work, item = begun(fn)
            cuts = [(0, 0), (row, 0), (row, offset), (row + 1, 0), (4, 0)]
            parts = [Rows(*pair) for pair in itertools.pairwise(cuts) if pair[0] != pair[1]]
            items = work._parts(item, parts)
            assert work.splits == 1
            assert work.split_elements() == (ROWS[row],)
            assert finish(work, fn, items) == BLOCKS


# While it runs.


@every_fn
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("fraction", [0, 0.3, 0.5, 0.9])
def test_split_while_it_runs(kind, long, fraction):
    """After any number of blocks: the primary stops there, the residuals are the rest, and the parts tile the table."""
    inside = 0
    for at in moments(kind()):
        fn = kind()
        work, item = begun(fn)
        outputs, part, _ = run_with(fn, item, at, lambda running: running.split(fraction), long=long)
        todo = commit(work, item, part, "first")
        assert ran(fn, work.ledger.content("first")) == outputs  # a replay
        inside += work.splits
        assert outputs + finish(work, fn, sorted(todo, key=lambda one: one.restriction.start)) == BLOCKS
    assert inside or not long or fraction == 0.9


@every_fn
def test_a_long_row_is_split_inside_and_its_rest_is_a_part_of_its_own(kind):
    """So the rows behind it do not look as dear."""
    fn = kind()
    work, item = begun(fn)
    _, part, _ = run_with(fn, item, 3, lambda running: running.split(0), long=True)
    todo = commit(work, item, part, "first")
    assert {each.restriction for each in todo} == {Rows((2, 1), (3, 0)), Rows((3, 0), (4, 0))}
    assert work.split_elements() == (ROWS[2],)


@every_fn
def test_a_short_row_is_not_split_inside(kind):
    """The rows behind it are given away whole, and no element was split."""
    rows = [("small", 0, 3)] * 20
    fn = kind()
    work, item = begun(fn, rows)
    outputs, part, _ = run_with(fn, item, 1, lambda running: running.split(0))
    assert len(outputs) == 3
    (rest,) = commit(work, item, part, "first")
    assert rest.restriction == Rows((1, 0), (20, 0))
    assert (work.splits, work.split_elements()) == (0, ())


@every_fn
def test_split_again_and_again(kind):
    """At every block, and at every pair of blocks."""
    for first, second in itertools.combinations_with_replacement(range(len(BLOCKS)), 2):
        fn = kind()
        work, item = begun(fn)

        def twice(running, again=second - first):
            running.split(0.6)
            if not again:
                running.split(0.3)

        outputs, part, _ = run_with(fn, item, first, twice)
        todo = commit(work, item, part, "first")
        rest = []
        for each in sorted(todo, key=lambda one: one.restriction.start):
            more, part, _ = run_with(fn, each, second - first, lambda running: running.split(0))
            rest += [(each.restriction.start, more)]
            for last in commit(work, each, part, ("second", each.id)):
                rest += [(last.restriction.start, finish_one(work, fn, last))]
        work.ledger.prove()
        assert outputs + [block for _, more in sorted(rest, key=lambda one: one[0]) for block in more] == BLOCKS


def finish_one(work, fn, item):
    outputs = ran(fn, [item])
    commit(work, item, None, ("last", item.id))
    return outputs


def test_before_its_first_claim_no_row_is_split():
    """As of any work item; but the rows behind it can be given away."""
    fn = RowFn()
    _, item = begun(fn)
    outputs, part, _ = run_with(fn, item, 0, lambda running: running.split(0))
    assert (outputs, part) == (BLOCKS, None)


@pytest.mark.parametrize(("seconds", "at"), [(0.04, (1, 0)), (0.06, (0, 1))])
def test_a_row_of_many_is_cut_inside_only_if_it_was_seen_to_run_long(seconds, at):
    """Else what is left begins with the next row."""
    fn = RowFn()
    _, item = begun(fn, [(str(row), 0, 3) for row in range(20)])
    _, part, _ = run_with(fn, item, 1, lambda running: running.split(0), long=True, seconds=seconds)
    assert part.residuals[-1].restriction.start == at


def test_rows_behind_one_that_has_claimed_nothing_yet_are_cut_off():
    """A row may wait long for its first block."""

    class WaitsFn(RowFn):
        def process(self, element, tracker):
            residuals.append(executor.running.split(0.5) if not residuals else None)
            return super().process(element, tracker)

    residuals = []
    _, item = begun(RowFn(), [(str(row), 0, 3) for row in range(20)])
    executor = Executor(WaitsFn(), side_inputs=None, clock=Clock())
    with executor.start(item).outputs() as given:
        outputs = list(given)
    part = executor.end()
    assert residuals[0] is not None
    assert part.residuals[-1].restriction.start == (10, 0)
    assert len(outputs) == 30


# After a lost attempt.


@every_fn
def test_after_a_lost_attempt(kind):
    """What was cut off stays cut off; the rest runs again from its beginning."""
    for at in moments(kind()):
        fn = kind()
        work, item = begun(fn)
        work.ledger.assign("lane", [item])
        _, part, _ = run_with(fn, item, at, lambda running: running.split(0.4), long=True)
        if part is None:
            continue
        todo = [each for each, _ in work.split("lane", item.id, part.primary, part.residuals)]
        again = work.ledger.release("lane", item.id)
        assert again.restriction == part.primary
        assert again.size + sum(each.size for each in todo) == item.size
        assert finish(work, fn, [again, *reversed(todo)]) == BLOCKS


# Deferred.


@pytest.mark.parametrize("kind", [DefersFn, OwnDefersFn])
def test_deferred(kind):
    """At any block of any row: only the rest of this row waits; the rows behind it are run one by one, at once."""
    for row, (name, start, stop) in enumerate(ROWS):
        for after in range(stop - start):
            fn = kind(name, after)
            work, item = begun(fn)
            outputs, part, _ = run_with(fn, item, -1, None)
            work.ledger.assign("first", [item])
            todo = work.commit("first", "attempt", Outcome(1, (part,)))
            waits = {each.restriction: delay for each, delay in todo}
            end = (row + 1, 0)
            assert waits.pop(Rows((row, after), end)) >= 7
            assert waits == {Rows((at, 0), (at + 1, 0)): 0 for at in range(row + 1, len(ROWS))}
            assert [each.origin for each, _ in todo if each.restriction.start == (row, after)] == [DEFERRED]
            items = sorted((each for each, _ in todo), key=lambda one: one.restriction.start)
            assert outputs + finish(work, fn, items) == BLOCKS


@pytest.mark.parametrize("kind", [DefersFn, OwnDefersFn])
def test_deferred_and_run_to_its_end(kind):
    """In a replay, where nobody takes residuals."""
    for name, start, stop in ROWS:
        for after in range(stop - start):
            fn = kind(name, after)
            assert sorted(ran(fn, [begun(fn)[1]])) == sorted(BLOCKS)


@pytest.mark.parametrize("kind", [DefersFn, OwnDefersFn])
def test_deferred_and_split(kind):
    """The runner splits before the row defers, or after it has."""
    for name, start, stop in ROWS:
        for after, at in itertools.product(range(stop - start), range(len(BLOCKS))):
            fn = kind(name, after)
            work, item = begun(fn)
            outputs, part, _ = run_with(fn, item, at, lambda running: running.split(0.5), long=True)
            todo = commit(work, item, part, "first")
            rest = []
            for each in todo:
                fn.deferred = True
                rest += [(each.restriction.start, finish_one(work, fn, each))]
            work.ledger.prove()
            assert outputs + [block for _, more in sorted(rest, key=lambda one: one[0]) for block in more] == BLOCKS


# What a worker gets, and says.


def test_only_what_is_needed_is_sent():
    """The elements around a row, not the table; they keep their numbers."""
    rows = [(str(number), 0, 2) for number in range(100)]
    fn = RowFn()
    work, item = begun(fn, rows)
    parts = work._parts(item, [Rows((0, 0), (40, 0)), Rows((40, 0), (41, 1)), Rows((41, 1), (100, 0))])
    there = [sent(part).element for part in parts]
    assert [(table.first, len(table), len(table.blobs)) for table in there] == [(0, 64, 2), (32, 32, 1), (32, 68, 3)]
    assert ran(fn, parts) == [(str(number), at) for number in range(100) for at in range(2)]


@every_fn
def test_progress(kind):
    """In units of the sizes, also inside a row."""
    fn = kind()
    _, item = begun(fn)
    seen = []
    executor = Executor(fn, side_inputs=None, clock=Clock())
    running = executor.start(sent(item))
    with running.outputs() as outputs:
        seen += [running.units()[1] for _ in outputs]
    assert seen == pytest.approx([(len(BLOCKS) - at) * item.size / len(BLOCKS) for at in range(len(BLOCKS))])
    executor.end()
    assert (executor.items, executor.units, executor.records) == (len(ROWS), item.size, len(BLOCKS))


def test_a_row_that_runs_long_is_reported_by_itself():
    """With its seconds; the rest of the work item has the others."""
    fn = RowFn()
    work, item = begun(fn)
    _, part, executor = run_with(fn, item, 3, lambda running: None, long=True)
    assert part is None
    pieces = work.pieces([(100.0, executor.take_report()[0])])
    rest, dear = pieces
    assert (dear.element, dear.element_id, dear.restriction, dear.seconds) == (ROWS[2], 2, OffsetRange(0, 3), 1.0)
    assert (rest.elements, rest.seconds, rest.records, rest.units) == (3, 0.0, len(BLOCKS), 3.0)
    assert rest.element == Several(3, ROWS[0])
    assert rest.element_id == 0


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("at", range(1, len(BLOCKS) + 1))
def test_each_row_counts_once(at, long):
    """Also if a residual stays with the worker that cut it off, and begins inside a row or between two."""
    fn = RowFn()
    _, item = begun(fn)
    _, part, executor = run_with(fn, item, at, lambda running: running.split(0), long=long)
    for number, residual in enumerate([] if part is None else part.residuals, start=1):
        kept = residual_item(fn, item, residual, -number, item.id)
        with executor.start(kept).outputs() as outputs:
            list(outputs)
        executor.end(item.id)
    assert sum(ran.elements for ran in executor.take_report()[0]) == len(ROWS)


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        (
            "raises",
            ProcessError,
            r"BadFn.process\(\) on OffsetRange\(start=0, stop=3\) of element \('c', 0, 3\) raised",
        ),
        ("before", OutputError, r"on OffsetRange\(start=0, stop=3\) of element \('c', 0, 3\): it gave 1 output before"),
        ("after", OutputError, r"of element \('c', 0, 3\): it gave 1 output after a refused claim, of 3"),
        ("unclaimed", UnclaimedWorkError, r"of element \('c', 0, 3\): \[1, 3\) of"),
        ("never", UnclaimedWorkError, r"of element \('c', 0, 3\): \[0, 3\) of"),
        ("backwards", ClaimError, r"of element \('c', 0, 3\): try_claim\(\) positions must increase"),
        ("returns", ProcessError, r"of element \('c', 0, 3\) raised ValueError: at once"),
    ],
)
@pytest.mark.parametrize("own", [False, True])
def test_errors_name_the_element(kind, error, text, own):
    """Not the table, nor a row before or behind the one that is wrong."""

    class BadFn(OwnFn if own else RowFn):
        def process(self, element, tracker):
            if element[0] != "c":
                return super().process(element, tracker)
            if kind == "returns":
                raise ValueError("at once")
            return self.bad(tracker)

        def bad(self, tracker):
            if kind == "before":
                yield 1
            if kind == "never":
                return
            tracker.try_claim(0)
            if kind == "raises":
                raise ValueError("bad")
            if kind == "backwards":
                tracker.try_claim(0)
            if kind == "unclaimed":
                return
            tracker.try_claim(2)
            tracker.try_claim(3)
            if kind == "after":
                yield 1

    fn = BadFn()
    with pytest.raises(error, match=text):
        ran(fn, [begun(fn)[1]])


def test_an_old_tracker_gets_nothing_of_the_next_row():
    """Each row has a tracker of its own."""
    kept = []

    class KeepsFn(RowFn):
        def process(self, element, tracker):
            kept.append(tracker)
            yield from super().process(element, tracker)

    ran(KeepsFn(), [begun(KeepsFn())[1]])
    assert len(set(map(id, kept))) == len(ROWS)
    with pytest.raises(ClaimError, match=r"must increase"):
        kept[0].try_claim(4)


# What the driver refuses.


def test_rows_that_overlap_are_refused():
    """Of a part, a block twice, or none."""
    work, item = begun(RowFn())
    for parts in (
        [Rows((0, 0), (2, 2)), Rows((2, 1), (4, 0))],
        [Rows((0, 0), (2, 1)), Rows((2, 2), (4, 0))],
        [Rows((0, 0), (2, 1)), Rows((2, 1), (5, 0))],
        [Rows((0, 0), (2, 9)), Rows((2, 9), (4, 0))],
        [Rows((0, 0), (3, 0)), Rows((3, 0), (2, 0)), Rows((2, 0), (4, 0))],
    ):
        with pytest.raises(SplitError):
            work._parts(item, parts)
    assert work.ledger.uncommitted() == 1


def test_a_lost_row_fails_the_proof():
    """The table is like any element; if it is one row, that is named."""
    work, item = begun(RowFn())
    front, rest = work.cut(item, 0.5)
    commit(work, front, None, "first")
    with pytest.raises(TilingError, match=r"of element 4 elements, the first of them \('a', 3, 5\) not committed"):
        work.ledger.prove()
    while (pair := work.cut(rest, 0.1)) is not None:
        commit(work, pair[0], None, ("front", pair[1].id))
        rest = pair[1]
    with pytest.raises(TilingError, match=r"with OffsetRange\(start=-2, stop=-1\) of element \('d', -2, -1\) not comm"):
        work.ledger.prove()


def test_a_row_that_is_deferred_for_ever_is_named():
    """Not the table, whose first row has done its work."""
    work, item = begun(RowFn())
    (_, row, _) = work._parts(item, [Rows((0, 0), (2, 0)), Rows((2, 0), (3, 0)), Rows((3, 0), (4, 0))])
    deferrals = Deferrals("RowFn")
    for _ in range(100):
        deferrals.note(row, None)
    with pytest.raises(DeferError, match=r"deferred OffsetRange\(start=0, stop=3\) of element \('c', 0, 3\) 101 times"):
        deferrals.note(row, None)


class OnlyOnWorkers:
    """Does not unpickle here."""

    def __reduce__(self):
        return int, ("no number",)


def test_an_element_that_does_not_unpickle_on_the_driver_may_run():
    """The driver needs it only for its name in the report, and says why it has none."""
    table = Table(0, (pickle.dumps([OnlyOnWorkers()] * 3),), array("q", [0, 0, 0]), array("q", [2, 2, 2]))
    work = RunState(RowFn())
    (item,) = work.add([Expanded(table, table.whole(), ((table.whole(), 6),))])
    work._parts(item, [Rows((0, 0), (1, 1)), Rows((1, 1), (3, 0))])
    (name,) = work.split_elements()
    assert repr(name).startswith("<an element that the driver cannot show: elements do not unpickle here (ValueError: ")
    assert work_of(item.element, Rows((1, 0), (2, 0))).named() == (item.element, Rows((1, 0), (2, 0)))


def test_each_row_has_a_number():
    """As if it were an element by itself."""
    fn = RowFn()
    work = RunState(fn)
    table, one = table_of(), OffsetRange(0, 1)
    rows = table.whole()
    both = [Expanded(table, rows, ((rows, 6),)), Expanded("x", one, ((one, 1),)), Expanded(table, rows, ((rows, 6),))]
    first, second, third = work.add(both)
    assert [first.element_id, second.element_id, third.element_id] == [0, 4, 5]
    assert work.ledger.elements() == 9


# Which elements are in a table.


def made(fn, elements):
    return list(expand_in_bulk(fn, elements, pickle.dumps))


def test_many_small_elements_are_a_table():
    """In tables of 1,024, and nobody unpickles them before they run."""
    found = made(RowFn(), [(str(number), 0, 2) for number in range(2100)])
    assert [len(one.element) for one in found] == [1024, 1024, 52]
    assert [one.restriction for one in found] == [one.element.whole() for one in found]
    assert [one.pieces for one in found] == [((one.restriction, 2 * len(one.element)),) for one in found]


@every_fn
def test_what_is_alone(kind):
    """A large element; few elements; one of many bytes; and one that the DoFn cuts, or remarks on."""

    class PickyFn(kind):
        def get_initial_restriction(self, element):
            return range(2) if element[0] == "no range" else super().get_initial_restriction(element)

    small = [(f"small {number}", 0, 2) for number in range(100)]
    alone = [("large", 0, 50), ("far", 0, 2)]
    found = made(kind(), [*small[:50], *alone, *small[50:]])
    assert [one.element for one in found if type(one.element) is not Table] == [("large", 0, 50)]
    assert all(type(one.element) is not Table for one in made(kind(), small[:15]))
    assert {type(one.element) for one in made(kind(), [(f"{number}" * 5000, 0, 2) for number in range(20)])} == {tuple}
    assert {type(one.element) for one in made(kind(), [("x", 1 << 70, (1 << 70) + 1)] * 20)} == {tuple}


def test_an_element_of_an_enormous_size_is_alone():
    """A table adds up sizes as 64 bits hold them."""

    class VastFn(OwnFn):
        def restriction_size(self, element, restriction):
            return 10**400 if element[0] == "vast" else 1

    rows = [("small", 0, 1)] * 20
    found = made(VastFn(), [*rows, ("vast", 0, 1), *rows])
    assert [one.pieces[0][1] for one in found] == [10**400, 40]


def test_an_element_that_its_dofn_cuts_is_alone():
    """Its pieces are work items from the begin."""

    class CutsFn(RowFn):
        def split_restriction(self, element, restriction):
            yield from restriction.split(1)

    rows = [(str(number), 0, 1) for number in range(50)]
    found = made(CutsFn(), [*rows, ("two", 0, 2), *rows, *rows])
    assert [one.element[0] for one in found if type(one.element) is not Table] == ["two"]
    assert [len(one.element) for one in found if type(one.element) is Table] == [150]


def test_an_error_of_expansion_names_the_element():
    """As without tables."""

    class BadFn(RowFn):
        def get_initial_restriction(self, element):
            return 1 / element[1]

    with pytest.raises(ProcessError, match=r"BadFn.get_initial_restriction\(\) of element \('a', 0\) raised ZeroDiv"):
        made(BadFn(), [("a", 0)] * 30)
