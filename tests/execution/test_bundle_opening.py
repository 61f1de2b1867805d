"""A task whose work item takes long to open: it gives back nothing before it has worked as long."""

from support.clock import Clock

from sdf import DoFn, OffsetRange
from sdf.execution.bundle import Bundle
from sdf.execution.timekeeper import Timekeeper
from sdf.execution.work_items import WorkItem


def blocks_done(opening_seconds, most=30):
    """Return how many blocks of a second each a task with a budget of a second does, of thirty.

    Args:
        opening_seconds: seconds to the first claim.
        most: the budget ends with so many blocks, too.
    """
    clock, done = Clock(), []

    class Fn(DoFn):
        def get_initial_restriction(self, element):
            return OffsetRange(0, element)

        def process(self, element, tracker):
            passes(opening_seconds)
            for i in range(*tracker.current_restriction()):
                if not tracker.try_claim(i):
                    return
                keeper.look()
                done.append(i)
                passes(1.0)
                if len(done) == most:
                    keeper.end_budget()
                yield i

    def passes(seconds):
        for _ in range(16):
            clock.now += seconds / 16  # exact
            keeper.look()

    bundle = Bundle(Fn(), [WorkItem(0, 0, 30, OffsetRange(0, 30), 30)], clock=clock)
    keeper = Timekeeper(bundle, 1.0, 0.0, clock=clock)
    list(bundle.outputs())
    return len(done)


def test_a_task_works_at_least_as_long_as_it_took_to_open():
    """Each piece opens the element again; with shorter ones most of the time would go into that."""
    assert blocks_done(0.0) == 1
    assert blocks_done(10.0) == 10


def test_a_limit_of_records_does_not_wait_for_that():
    """A sink that asks for no more than it can hold gets no more, however long opening took."""
    assert blocks_done(10.0, most=3) == 3
