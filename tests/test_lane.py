"""A lane: when it says how far it is."""

from test_bundle import Clock, CountFn

from sdf.items import WorkItem
from sdf.restrictions import OffsetRange
from sdf.spark.lane import Lane
from sdf.spark.messages import Ask, Assign, Beat, Declined
from sdf.trackers import Progress


class UnknownFn(CountFn):
    """Its tracker does not know how much is left."""

    def create_tracker(self, element, restriction):
        tracker = super().create_tracker(element, restriction)
        tracker.progress = lambda: Progress(0, None)
        return tracker


def test_a_lane_that_could_not_be_split_says_so_when_it_has_moved_on():
    """Also where all that is known of its progress is what it claimed; else it would never be asked again."""
    clock, said = Clock(), []
    lane = Lane(UnknownFn(clock), clock=clock, send=said.append, records=lambda: 0)
    lane.receive(Assign((WorkItem(0, 0, 9, OffsetRange(0, 9), None),)))
    outputs = lane.advance().invoker.run()
    next(outputs)
    lane.receive(Ask(1e6))
    for _ in range(3):
        clock.now += 1.0
        lane.look()
    assert [type(message) for message in said] == [Declined]
    next(outputs)
    lane.look()
    assert [type(message) for message in said] == [Declined, Beat]
