"""The history of a saved run: from the log alone, a new driver has the same work left, and the same messages."""

import datetime
import itertools
import json
import zlib

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fns import CountFn, DaysFn, Period, Scaled, ScaledFn
from support.histories import Driver, MemoryLog, Open, left_by, numbers

from sdf import UNBOUNDED, OffsetRange
from sdf.errors import JournalCorruptError, JournalError
from sdf.execution.invoker import Residual
from sdf.execution.work_items import units
from sdf.saving import history as module
from sdf.saving.history import History, split_record
from sdf.scheduling.run_state import RunState


def bounds_of_range(restriction):
    return tuple(restriction)


class TwoPartsFn(CountFn):
    """As CountFn, begun in two parts where there are two numbers."""

    def split_restriction(self, element, restriction):
        middle = element[1] // 2
        return [OffsetRange(0, middle), OffsetRange(middle, element[1])] if middle else [restriction]


class UnsizedFn(CountFn):
    def restriction_size(self, element, restriction):
        return None


def triple(number):
    return 3 * number


KINDS = {
    "offsets": (CountFn(), OffsetRange, bounds_of_range),
    "two parts": (TwoPartsFn(), OffsetRange, bounds_of_range),
    "no sizes": (UnsizedFn(), OffsetRange, bounds_of_range),
    "a type of the user": (
        DaysFn(),
        lambda start, stop: Period(*(DaysFn.first + datetime.timedelta(days=each) for each in (start, stop))),
        lambda period: tuple((day - DaysFn.first).days for day in (period.start, period.stop)),
    ),
    "a type that is pickled": (
        ScaledFn(),
        lambda start, stop: Scaled(start, stop, lambda number: number),
        lambda scaled: (scaled.start, scaled.stop),
    ),
}


def whole(elements):
    return numbers([(number, 0, n) for number, (_, n) in enumerate(elements)], [])


# Every small run


def moves(driver):
    """Return all that can happen next to a run: each as the arguments of `play`."""
    found = [("take over",)]
    for key in driver.open:
        _, start, stop = key
        found += [("commit", key)]
        found += [("split", key, at) for at in range(start + 1, stop)]
        found += [("defer", key, start)]
    if len(driver.open) > 1:
        found.append(("commit", *list(driver.open)[:2][::-1]))
    return found


def play(driver, again, move):
    """Let something happen; return the driver after it."""
    what, *details = move
    if what == "take over":
        return again()
    if what == "commit":
        driver.commit(*details)
    else:
        driver.split(*details, owned=what == "defer", delay_seconds=2.5 if what == "defer" else 0.0)
    return driver


@pytest.mark.parametrize("kind", [*list(KINDS)[:2], *(pytest.param(kind, marks=pytest.mark.soak) for kind in KINDS)])
@pytest.mark.parametrize("elements", [[("a", 3)], [("a", 2), ("b", 1)], [("a", 0), ("b", 2)]], ids=str)
def test_every_small_run_is_replayed(kind, elements):
    """Whatever is split, deferred and committed in whatever order, and wherever drivers take over in between."""
    fn, make, bounds = KINDS[kind]
    runs = 0
    todo = [()]
    while todo:
        path = todo.pop()
        log = MemoryLog()

        def again(log=log):
            return Driver(log, fn, elements, make, bounds)

        driver = again()
        for move in path:
            driver = play(driver, again, move)
        left, messages = left_by(log, fn, bounds)
        assert left == driver.open, path
        assert numbers(left, messages) == whole(elements), path
        runs += 1
        if len(path) < 4:
            todo += [(*path, move) for move in moves(driver)]
    assert runs > 500


# Random larger runs


ELEMENTS = [("a", 40), ("b", 0), ("c", 7), ("d", 1)]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["split", "split", "plan", "defer", "commit", "commit", "commit two", "take over", "crash"]),
        st.integers(0, 1000),
        st.floats(0, 1),
    ),
    max_size=60,
)


@given(moves=MOVES, kind=st.sampled_from(sorted(KINDS)))
@settings(max_examples=300, deadline=None)
def test_a_random_run_is_replayed_from_any_beginning_of_its_log(moves, kind):
    """Whatever is lost of the end of a log, messages and open parts are each number once."""
    fn, make, bounds = KINDS[kind]
    log = MemoryLog()
    driver = Driver(log, fn, ELEMENTS, make, bounds)
    watermarks = itertools.count()
    for what, number, fraction in moves:
        driver.now += 10
        keys = list(driver.open)
        if what in ("take over", "crash") or not keys:
            if what == "crash":
                del log.lines[max(5, len(log.lines) - number % 5) :]
            driver = Driver(log, fn, ELEMENTS, make, bounds)
            continue
        key = keys[number % len(keys)]
        _, start, stop = key
        at = start + 1 + int((stop - start - 1) * fraction)
        if what == "commit two":
            driver.commit(*{key: 0, keys[number // 7 % len(keys)]: 0})
        elif what == "commit":
            driver.commit(key)
        elif what == "defer":
            driver.split(key, min(at - 1, stop), delay_seconds=fraction, watermark=next(watermarks))
        elif start < at < stop:
            driver.split(key, at, owned=what == "split", watermark=next(watermarks) if what == "split" else None)
    left, messages = left_by(log, fn, bounds)
    assert left == driver.open
    assert messages == driver.history.messages(0)
    began = 1 + next(at for at, line in enumerate(log.lines) if '"expanded"' in line)
    for length in range(began, len(log.lines) + 1):
        assert numbers(*left_by(log.beginning(length), fn, bounds)) == whole(ELEMENTS)


def test_a_run_of_many_drivers_costs_no_more_than_its_parts():
    """Committed neighbours are one work item for the next driver; what is between them stays."""
    fn, make, bounds = KINDS["offsets"]
    log = MemoryLog()
    driver = Driver(log, fn, [("a", 100)], make, bounds)
    for at in range(99, 0, -1):
        driver.split((0, 0, at + 1), at)
    driver.commit(*[(0, at, at + 1) for at in range(100) if at != 50])
    driver = Driver(log, fn, [("a", 100)], make, bounds)
    assert [tuple(item.restriction) for item in driver.work.ledger.items()] == [(0, 50), (50, 51), (51, 100)]
    driver.commit((0, 50, 51))
    last = Driver(log, fn, [("a", 100)], make, bounds)
    assert len(last.work.ledger) == 1
    last.work.ledger.prove()


# What a resume knows


def driver_of(fn, elements, log=None):
    return Driver(log or MemoryLog(), fn, elements, OffsetRange, bounds_of_range)


def test_sizes_and_remarks_are_there_again():
    """The report of a resumed run has the remark on an element; known sizes are not asked for again."""

    class RemarkFn(TwoPartsFn):
        def remark(self, element, restriction):
            return "large" if element[1] > 5 else None

    driver = driver_of(RemarkFn(), [("a", 10), ("b", 1)])
    driver.split((0, 0, 5), 2)
    again = driver_of(RemarkFn(), [], driver.log)
    assert [units(item) for item in again.work.ledger.items()] == [2, 3, 5, 1]
    assert again.work.known_units == 11
    assert again.work.notes == [(("a", 10), "large")]


def test_a_deferred_part_waits_until_it_is_due():
    """By the clock on the wall, in milliseconds; a part that was cut off for a thief does not."""
    driver = driver_of(CountFn(), [("a", 10)])
    driver.split((0, 0, 10), 4, delay_seconds=2.5)
    driver.split((0, 0, 4), 2)
    left, _ = left_by(driver.log, CountFn(), bounds_of_range)
    assert left == {(0, 0, 2): Open(), (0, 2, 4): Open(), (0, 4, 10): Open(None, 3500)}


def test_the_state_of_a_watermark_is_there_again():
    """Whatever value it is."""
    driver = driver_of(CountFn(), [("a", 10)])
    driver.split((0, 0, 10), 4, watermark=datetime.date(2020, 1, 1))
    left, _ = left_by(driver.log, CountFn(), bounds_of_range)
    assert left[0, 4, 10].watermark == datetime.date(2020, 1, 1)


def test_a_range_without_an_end_is_a_restriction_too():
    """It is stored as a value, since the stop is no number."""
    residual = Residual(OffsetRange(5, UNBOUNDED), 0.0)
    record = json.loads(json.dumps(split_record(0, OffsetRange(0, 5), [residual], lambda: 0)))
    assert record[2] == [0, 5]
    assert module._value(record[3][0][0]) == OffsetRange(5, UNBOUNDED)


@attrs.frozen
class Named:
    name: str


@pytest.mark.parametrize(
    "element", ["a", ("a", 1), {"a": [1]}, None, b"\0", 2.5, Named("a"), datetime.date(2020, 1, 1)], ids=str
)
def test_elements_are_there_again(element):
    """And are known to be the same."""

    class AnyFn(CountFn):
        def get_initial_restriction(self, element):
            return OffsetRange(0, 1)

    log = driver_of(AnyFn(), [element]).log
    (before,) = History(log).elements()
    assert before == element
    assert History.is_same(before, element)
    assert not History.is_same(before, "another")


def test_arrays_are_the_same_elements():
    """Though to compare two of them gives no bool."""
    numpy = pytest.importorskip("numpy")
    assert History.is_same(numpy.arange(3), numpy.arange(3))
    assert not History.is_same(numpy.arange(3), numpy.arange(1, 4))


def test_elements_count_only_once_all_of_them_are_in_the_log(monkeypatch):
    """A driver that dies among them leaves nothing; the next one expands them again."""
    monkeypatch.setattr(module, "_TOGETHER", 2)
    log = driver_of(CountFn(), [("a", 1), ("b", 2), ("c", 3)]).log
    assert [json.loads(line)[0] for line in log.lines] == ["begin", "prepared", "elements", "elements", "expanded"]
    for length in range(5):
        history = History(log.beginning(length))
        assert history.expanded is None
        assert list(history.elements()) == []
    again = driver_of(CountFn(), [("d", 4)], log.beginning(4))
    assert list(History(again.log).elements()) == [("d", 4)]
    assert len(History(again.log).blobs) == 1


def test_what_was_counted_is_counted_again():
    """Segments, records, seconds, messages and their hash."""
    driver = driver_of(CountFn(), [("a", 10)])
    driver.split((0, 0, 10), 4)
    driver.commit((0, 4, 10))
    driver.commit((0, 0, 4))
    history = History(driver.log)
    assert (history.segments, history.records, history.seconds) == (2, (10, 0), 1.0)
    assert history.messages(0) == [[[0, 4, 10]], [[0, 0, 4]]]
    assert history.messages(1) == []
    assert history.of_messages() == driver.history.of_messages()


def test_work_that_a_driver_lost_is_told():
    """What was under way when it was last heard of; nothing once all was committed."""
    log = MemoryLog()
    log.add(["begin", "app", {}], ["prepared"], ["running", 3.0], ["running", 5.0], ["driver", "b"], ["running", 2.0])
    assert History(log).lost_seconds == 7.0
    log.add(["committing", "hash"])
    assert History(log).lost_seconds == 5.0


def test_how_far_the_commit_was_is_there_again():
    """And that the run is done."""
    log = MemoryLog()
    log.add(["begin", "app", {"the DoFn": "A"}], ["prepared"], ["committing", "hash"], ["committed", "bad"])
    history = History(log)
    assert (history.app, history.committing, history.committed, history.done) == ("app", "hash", {"bad"}, False)
    log.add(["done"])
    assert History(log).done


def test_another_run_is_told_by_what_is_different():
    """The first difference, in words."""
    log = MemoryLog()
    log.add(["begin", "app", {"the DoFn": "a.A", "side inputs": {}}])
    history = History(log)
    history.check_same({"the DoFn": "a.A", "side inputs": {}})
    with pytest.raises(JournalError, match=r"begun with side inputs \{\}, this call has \{'x': 1\}. Use another"):
        history.check_same({"the DoFn": "a.A", "side inputs": {"x": 1}})


# Logs that cannot be


BEGUN = (["begin", "app", {}], ["prepared"])


@pytest.mark.parametrize(
    ("records", "flaw"),
    [
        ([["sing", 1]], "it does not know 'sing'"),
        ([[]], "not enough values"),
        ([["begin"]], "not enough values"),
        ([["commit", [[0, 0]], [None], [1], 0.0]], "work item 0 is not there"),
        ([["split", 0, [0, 1], []]], "work item 0 is not there"),
        ([["expanded", 3]], "it should have 3 elements, it has 0"),
        ([7], "cannot unpack"),
    ],
)
def test_a_record_that_cannot_be_is_told(records, flaw):
    """With the record."""
    log = MemoryLog()
    log.add(*BEGUN, *records)
    with pytest.raises(JournalCorruptError, match=rf"memory: the log holds .* which cannot be: .*{flaw}"):
        History(log)


@pytest.mark.parametrize(
    "record",
    [
        ["split", 0, [0, 5], [[[6, 10], None, False, 0]]],
        ["split", 0, [0, 5], [[[4, 10], None, False, 0]]],
        ["split", 0, [0, 5], []],
        ["split", 0, None, []],
    ],
    ids=["a gap", "an overlap", "the end is gone", "all is gone"],
)
def test_parts_that_do_not_tile_their_element_are_told(record):
    """When the next driver takes the run up."""
    driver = driver_of(CountFn(), [("a", 10)])
    driver.log.add(record)
    with pytest.raises(JournalCorruptError, match="does not add up"):
        History(driver.log).replay(RunState(CountFn()))


@pytest.mark.parametrize("second", [["split", 0, [0, 5], []], ["commit", [[0, 0]], [None], [1], 0.0]])
def test_what_is_committed_does_not_change_any_more(second):
    """Neither split nor committed again."""
    driver = driver_of(CountFn(), [("a", 10)])
    driver.commit((0, 0, 10))
    driver.log.add(second)
    with pytest.raises(JournalCorruptError, match="committed already"):
        History(driver.log)


def test_elements_that_cannot_be_read_are_told():
    """Their blob is what its hash says, but no JSON."""
    log = MemoryLog()
    log.add(*BEGUN, ["elements", log.put(zlib.compress(b"[1, 2]"))], ["expanded", 1])
    with pytest.raises(JournalCorruptError, match="which cannot be"):
        History(log)
