"""From the log alone a new driver has the same work left, and the same messages: with restrictions of all types."""

import datetime
import itertools

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st
from support.fns import CountFn, DaysFn, Period, Scaled, ScaledFn
from support.histories import Driver, MemoryLog, left_by, numbers

from sdf import OffsetRange


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


FOUR = pytest.param(4, marks=pytest.mark.slow("test_every_small_run_is_replayed[...-3]"))


@pytest.mark.parametrize("kind", [*list(KINDS)[:2], *(pytest.param(kind, marks=pytest.mark.soak) for kind in KINDS)])
@pytest.mark.parametrize("elements", [[("a", 3)], [("a", 2), ("b", 1)], [("a", 0), ("b", 2)]], ids=str)
@pytest.mark.parametrize("most", [3, FOUR])
def test_every_small_run_is_replayed(kind, elements, most):
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
        if len(path) < most:
            todo += [(*path, move) for move in moves(driver)]
    assert runs > {3: 60, 4: 500}[most]


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
@settings(max_examples=60, deadline=None)
def test_a_random_run_is_replayed_from_any_beginning_of_its_log(moves, kind):
    """Whatever is lost of the end of a log, messages and open parts are each number once."""
    assert_replayed(moves, kind)


@pytest.mark.slow("test_a_random_run_is_replayed_from_any_beginning_of_its_log")
@given(moves=MOVES, kind=st.sampled_from(sorted(KINDS)))
@settings(max_examples=300, deadline=None)
def test_many_random_runs_are_replayed_from_any_beginning_of_their_logs(moves, kind):
    """The same of more of them."""
    assert_replayed(moves, kind)


def assert_replayed(moves, kind):
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
            driver.split(key, max(start, at - 1), delay_seconds=fraction, watermark=next(watermarks))
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
