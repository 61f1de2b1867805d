"""Work items that wait: each is queued once, at its own lane or at that of an heir."""

from support.fns import CountFn

from sdf import OffsetRange
from sdf.execution.work_items import WorkItem
from sdf.lanes.attempts import LaneState
from sdf.lanes.delayed_work import DelayedWork
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue


def lane(number):
    return LaneState(number, WorkQueue(RunState(CountFn()).costs))


def item(number):
    return WorkItem(id=number, element_id=0, element="a", restriction=OffsetRange(number, number + 1), size=1)


def test_an_item_is_queued_at_its_lane_when_it_is_due_and_not_before():
    """The lane counts it until then."""
    delayed, mine = DelayedWork(), lane(0)
    for number, due in ((0, 2.0), (1, 1.0), (2, 3.0)):
        delayed.add(mine, item(number), due)
    assert list(delayed.resume(0.9)) == []
    assert list(delayed.resume(2.0)) == [mine, mine]
    assert mine.delayed == 1
    assert sorted(mine.queue.pop().id for _ in range(2)) == [0, 1]
    assert delayed


def test_an_heir_gets_what_is_at_lanes_without_an_attempt():
    """If there is no heir now, the next one does; what is at a lane with an attempt stays there."""
    delayed, lost, kept, heir = DelayedWork(), lane(0), lane(1), lane(2)
    kept.attempts.append(None)
    delayed.add(lost, item(0), 1.0)
    delayed.add(kept, item(1), 2.0)
    delayed.desert(lost)
    delayed.adopt(None)
    delayed.adopt(heir)
    assert (lost.delayed, kept.delayed, heir.delayed) == (0, 1, 1)
    assert list(delayed.resume(9.0)) == [heir, kept]
