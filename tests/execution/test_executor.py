"""Work items that are run to their end in one place: each output once, whatever process() defers."""

import pytest
from simulation.user import BlocksFn, in_tables
from support.clock import Clock
from support.fns import CountFn, OnlyDefersFn

from sdf.errors import DeferError
from sdf.execution import deferrals
from sdf.execution.executor import Executor, run_to_end
from sdf.execution.work_items import WorkItem
from sdf.model.restrictions import OffsetRange


class DefersFn(CountFn):
    """Claims two offsets at a time and defers the rest for a minute."""

    def __init__(self):
        self.bundles = []

    def start_bundle(self):
        self.bundles.append("start")

    def finish_bundle(self):
        self.bundles.append("finish")

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for i in range(start, min(start + 2, stop)):
            tracker.try_claim(i)
            yield element[0], i
        tracker.defer_remainder(60)


def items_of(*counts):
    return [WorkItem(n, n, ("abc"[n], count), OffsetRange(0, count), count) for n, count in enumerate(counts)]


def outputs_of(fn, items, clock):
    def sleep(seconds):
        clock.now += seconds

    return list(run_to_end(fn, items, clock=clock, sleep=sleep))


def test_what_is_deferred_is_run_when_it_is_due():
    """Until all of it has run; what was there first goes first, and all of it is one bundle."""
    fn, clock = DefersFn(), Clock(0.0)
    assert outputs_of(fn, items_of(5, 3), clock) == [
        ("a", 0), ("a", 1), ("b", 0), ("b", 1), ("a", 2), ("a", 3), ("b", 2), ("a", 4),
    ]  # fmt: skip
    assert clock.now == 120
    assert fn.bundles == ["start", "finish"]


def test_work_that_only_defers_ends_in_an_error():
    """It would go on for ever."""
    with pytest.raises(DeferError, match=r"OnlyDefersFn\.process\(\) deferred .* 101 times in a row without a claim"):
        outputs_of(OnlyDefersFn(), items_of(5), Clock())


def test_rows_behind_a_deferred_one_do_not_wait_with_it(monkeypatch):
    """Each defers for a second, at once; twenty of them are not one that gets nowhere."""
    monkeypatch.setattr(deferrals, "_MOST_IDLE", 5)
    fn, clock = BlocksFn(delay_seconds=0.1), Clock(0.0)
    elements = [(f"{number} refused", 1) for number in range(20)]
    (one,) = in_tables(fn, elements, 20)
    assert outputs_of(fn, [WorkItem(0, 0, one.element, one.restriction, 20)], clock) == [
        (name, 0) for name, _ in elements
    ]
    assert clock.now == 1.0


def test_what_is_left_of_one_work_item_is_not_taken_for_another():
    """Each has deferred once, so none has deferred twice in a row, which would take longer."""
    clock = Clock(0.0)
    items = [WorkItem(number, 0, (f"{number} refused", 1), OffsetRange(0, 1), 1) for number in (1, 0)]
    assert outputs_of(BlocksFn(delay_seconds=0.0), items, clock) == [("1 refused", 0), ("0 refused", 0)]
    assert clock.now == 0.02


@pytest.mark.parametrize(
    ("size", "parent", "expected"),
    [(10, None, 5.0), (10, 0, 5.0), (None, None, 0.5), (None, 0, 0.0)],
)
def test_what_a_work_item_should_take_follows_what_ran_before_it(size, parent, expected):
    """Per unit of size, and 1 unit where it is unknown; a piece of unknown size may be anything."""
    clock = Clock()
    executor = Executor(CountFn(), side_inputs=None, clock=clock)
    with executor.start(items_of(4)[0]).outputs() as outputs:
        for _ in outputs:
            clock.now += 0.5
    assert executor.end() is None
    assert (executor.items, executor.units, executor.seconds, executor.records) == (1, 4, 2.0, 4)
    running = executor.start(WorkItem(1, 0, ("a", 10), OffsetRange(0, 10), size, parent))
    assert running.seconds_left_at_most() == expected
