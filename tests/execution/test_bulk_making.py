"""Which elements go into a table, whatever their DoFn has of its own."""

import gc
import pickle
import weakref

import attrs
import pytest

from sdf import DoFn, OffsetRange, OffsetRangeTracker, UnsplittableTracker
from sdf.errors import SdfError
from sdf.execution.bulk.making import expand_in_bulk
from sdf.execution.bulk.table import Rows, Table, nearest
from sdf.execution.expansion import expand


class RowFn(DoFn):
    """Element: a number. Each has two blocks."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 2)

    def process(self, element, tracker):
        yield from tracker.claims()


def made(fn, elements=range(40)):
    return list(expand_in_bulk(fn, elements, pickle.dumps))


def numbers(fn, elements=range(40)):
    """Give the number of elements of each table, and 0 for one that is alone."""
    return [len(one.element) if type(one.element) is Table else 0 for one in made(fn, elements)]


def tracked_by(kind):
    """Give a RowFn whose trackers are of a class."""

    class TrackedFn(RowFn):
        def create_tracker(self, element, restriction):
            return kind(restriction)

    return TrackedFn()


def test_as_many_as_are_worth_it():
    """From 16 on, also if they are empty."""

    class EmptyFn(RowFn):
        def get_initial_restriction(self, element):
            return OffsetRange(7, 7)

    assert (numbers(EmptyFn(), range(15)), numbers(EmptyFn(), range(16))) == ([0] * 15, [16])
    assert numbers(RowFn()) == [40]


def test_a_table_takes_no_more_than_a_quarter_of_a_megabyte():
    """Or little more; it is one message, and one task may get it."""
    found = made(RowFn(), [f"{number:01500}" for number in range(1024)])
    assert sum(len(one.element) for one in found) == 1024
    assert [sum(map(len, one.element.blobs)) <= (1 << 18) + (1 << 16) for one in found] == [True] * 6


@pytest.mark.parametrize("whole", [OffsetRange(0, (1 << 62)), OffsetRange(-(1 << 62), 0)])
def test_bounds_that_64_bits_may_not_hold_are_alone(whole):
    """Also if their DoFn has nothing of its own."""

    class FarFn(RowFn):
        def get_initial_restriction(self, element):
            return whole

    assert numbers(FarFn()) == [0] * 40


@attrs.frozen
class Named(OffsetRange):
    name: object = None


class NamedFn(RowFn):
    """Restrictions that carry a name; their trackers are those of all ranges."""

    def get_initial_restriction(self, element):
        return Named(3, 5, f"name of {element}")


def test_a_restriction_that_carries_more_goes_into_a_table():
    """With its attributes, which each part of a row keeps."""
    (one,) = made(NamedFn())
    table = one.element
    rows = Rows((2, 1), (30, 1))
    assert table.range_of(2, rows) == Named(4, 5, "name of 2")
    assert [whole for _, whole in table.work(rows)] == [
        Named(4, 5, "name of 2"),
        *(Named(3, 5, f"name of {row}") for row in range(3, 30)),
        Named(3, 4, "name of 30"),
    ]
    assert [*table.elements(rows)] == [element for element, _ in table.work(rows)] == list(range(2, 31))
    for again in (pickle.loads(pickle.dumps(table.only(rows))), table):
        assert (again.element(30), again.range_of(30, rows)) == (30, Named(3, 4, "name of 30"))


def test_an_element_that_its_restriction_carries_is_pickled_once():
    """As of a file: it is the element, and its ranges carry it."""

    class ItselfFn(RowFn):
        def get_initial_restriction(self, element):
            return Named(0, 2, element)

    (one,) = made(ItselfFn(), [f"{row} " + "x" * 500 for row in range(40)])
    assert sum(map(len, one.element.blobs)) < 40 * 600
    assert one.element.range_of(7, one.element.whole()).name.startswith("7 ")


@attrs.frozen
class Steps:
    """Looks like an `OffsetRange`, and is another one."""

    start: int
    stop: int
    step: int


class StepsFn(RowFn):
    def get_initial_restriction(self, element):
        return Steps(0, 2, 1)


def test_a_restriction_of_another_class_is_alone():
    """Whatever attributes it has; without a tracker of its own it is the error that it is without tables."""

    class OwnStepsFn(StepsFn):
        def create_tracker(self, element, restriction):
            return OffsetRangeTracker((restriction.start, restriction.stop))

        def restriction_size(self, element, restriction):
            return restriction.stop - restriction.start

    assert numbers(OwnStepsFn()) == [0] * 40
    with pytest.raises(SdfError) as alone:
        expand(StepsFn(), 0)
    with pytest.raises(type(alone.value), match="Steps"):
        made(StepsFn())


def test_a_tracker_that_is_no_tracker_of_offsets_is_alone():
    """Its splits may be anything."""
    assert numbers(tracked_by(UnsplittableTracker)) == [0] * 40


@pytest.mark.parametrize("method", ["current_restriction", "try_split", "defer_remainder", None])
def test_a_tracker_that_makes_parts_in_a_way_of_its_own_is_alone(method):
    """They may be of a subclass of OffsetRange, which rows have not. Any other method may be its own."""

    class PagesFn(RowFn):
        def create_tracker(self, element, restriction):
            methods = {name: getattr(OffsetRangeTracker, name) for name in ("try_claim", "check_done")}
            if method is not None:
                methods[method] = lambda self, *given: getattr(super(kind, self), method)(*given)
            kind = type("Pages", (OffsetRangeTracker,), methods)
            return kind(restriction)

    assert numbers(PagesFn()) == ([40] if method is None else [0] * 40)


@pytest.mark.parametrize("kind", [OffsetRangeTracker, type("Own", (OffsetRangeTracker,), {})])
@pytest.mark.parametrize("method", ["current_restriction", "try_split", "defer_remainder"])
def test_a_tracker_with_such_a_method_replaced_is_alone(kind, method):
    """On the object that the DoFn made."""

    class PagesFn(RowFn):
        def create_tracker(self, element, restriction):
            tracker = kind(restriction)
            setattr(tracker, method, getattr(tracker, method))
            return tracker

    assert numbers(PagesFn()) == [0] * 40


def test_a_class_of_trackers_that_was_patched_after_its_first_use_is_alone():
    """If a program patches a class, cloudpickle gives its new methods to the class that a worker has already."""

    class PatchedTracker(OffsetRangeTracker):
        pass

    assert numbers(tracked_by(PatchedTracker)) == [40]
    PatchedTracker.current_restriction = lambda tracker: OffsetRangeTracker.current_restriction(tracker)
    assert numbers(tracked_by(PatchedTracker)) == [0] * 40


def test_a_class_of_trackers_is_let_go():
    """A program may make a class for each run, and a worker that kept them all would run out of memory."""

    class PassingTracker(OffsetRangeTracker):
        pass

    assert numbers(tracked_by(PassingTracker)) == [40]
    kept = weakref.ref(PassingTracker)
    del PassingTracker
    gc.collect()
    assert kept() is None


def test_what_an_object_has_instead_of_its_class_counts():
    """A method may be replaced on a DoFn."""
    fn = RowFn()
    fn.create_tracker = lambda element, restriction: UnsplittableTracker(restriction)
    assert numbers(fn) == [0] * 40


@pytest.mark.parametrize("method", ["split_restriction", "restriction_size"])
def test_each_method_is_asked(method):
    """If it alone is the DoFn's own."""
    answers = {
        "split_restriction": lambda self, element, whole: whole.split(1) if element == 20 else [whole],
        "restriction_size": lambda self, element, part: None if element == 20 else 5,
    }
    fn = type("Fn", (RowFn,), {method: answers[method]})()
    assert numbers(fn) == [0, 39]
    (odd,) = [one for one in made(fn) if type(one.element) is not Table]
    assert odd == expand(fn, 20)


def test_a_remark_on_an_element_goes_with_its_table():
    """By row; an element that is alone has its own."""

    class RemarksFn(RowFn):
        def remark(self, element, whole):
            return f"look at {element}" if element % 20 == 0 else None

    one, two = made(RemarksFn(), [*range(40), *range(980, 1010)]), made(RemarksFn(), range(1, 40, 20))
    assert [each.note for each in one] == [
        ((0, "look at 0"), (20, "look at 20"), (40, "look at 980"), (60, "look at 1000"))
    ]
    assert [(each.element, each.note) for each in two] == [(1, None), (21, None)]
    assert [each.note for each in made(RemarksFn(), [20, 21])] == ["look at 20", None]


def test_sizes_are_those_of_the_dofn():
    """Also if the tracker is the usual one."""

    class SizedFn(RowFn):
        def restriction_size(self, element, restriction):
            return 1.5 * (restriction.stop - restriction.start)

    (table,) = made(SizedFn())
    assert table.pieces == ((table.restriction, 120.0),)
    assert table.element.lengths(0, 2) == [3.0, 3.0]


@pytest.mark.parametrize("entries", [[3], [0, 10], [0, 1, 5, 6, 20]])
def test_the_nearest_entry_is_found(entries):
    """If two entries are equally near, it is the first of them."""
    for value in range(-3, 25):
        assert nearest(entries, value) == min(range(len(entries)), key=lambda at: (abs(entries[at] - value), at))
