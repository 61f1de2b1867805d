"""A lane of a saved run: when its segments end, and what it says that this costs."""

from support.clock import Clock
from support.timed import TimedFn

from sdf import DoFn, OffsetRange
from sdf.execution.measured_run import Running
from sdf.execution.work_items import WorkItem
from sdf.lanes.lane import CLOSE, WAIT, Lane
from sdf.lanes.messages import Assign, Bye, CommitEvery, Ready, Sealed, SegmentDone, Split, Verdict
from sdf.serialization.values import Parts


class Driver:
    """Runs one lane over one element of so many blocks, each of a second, and accepts all that it gives back.

    Attributes:
        opened: for each call of process(), how many blocks it did.
        done: what the lane said of each segment.
        byes: how often it said that it leaves.
    """

    def __init__(self, size, *, segment_seconds, opening_seconds=0.0, closing_seconds=0.0, leaves_at=None):
        self.clock, self.opened, self.done, self.said = Clock(), [], [], []
        self.closing_seconds = closing_seconds
        self.byes = 0
        driver = self

        class Fn(DoFn):
            def get_initial_restriction(self, element):
                return OffsetRange(0, element)

            def process(self, element, tracker):
                driver.opened.append(0)
                driver.passes(opening_seconds)
                for i in range(*tracker.current_restriction()):
                    if not tracker.try_claim(i):
                        return
                    if i == leaves_at:
                        driver.lane.leave()
                    driver.lane.look()
                    driver.opened[-1] += 1
                    driver.passes(1.0)
                    yield i

        self.lane = Lane(Fn(), clock=self.clock, send=self.said.append, segment_seconds=segment_seconds)
        self.left = OffsetRange(0, size)

    def passes(self, seconds):
        for _ in range(16):
            self.clock.now += seconds / 16  # exact
            self.lane.look()

    def run(self):
        while (running := self.lane.advance()) is not None:
            if isinstance(running, Running):
                list(running.invoker.run())
            elif running is CLOSE:
                self.clock.now += self.closing_seconds
                self.lane.segment_done((None,), (1,))
            self.answer()
        return self

    def answer(self):
        said, self.said[:] = list(self.said), []
        for message in said:
            if isinstance(message, Split):
                ((restriction, _, _),) = message.residuals
                self.left = Parts(OffsetRange(0, 1)).read(restriction)
                self.lane.receive(Verdict(True))
            elif isinstance(message, SegmentDone):
                self.done.append(message)
            elif isinstance(message, Bye):
                self.byes += 1
                self.lane.receive(Sealed())
            elif isinstance(message, Ready) and not self.byes:
                item = None if self.left is None else WorkItem(len(self.done), 0, 0, self.left, None)
                self.left = None
                self.lane.receive(Sealed() if item is None else Assign((item,)))


def test_a_segment_ends_at_the_first_claim_after_its_seconds():
    """A block that has begun is done to its end."""
    assert Driver(10, segment_seconds=2.5).run().opened == [3, 3, 3, 1]


def test_a_segment_runs_at_least_as_long_as_it_took_to_open():
    """Ten seconds to open and a commit every second: more than half of the time would go into opening."""
    assert Driver(30, segment_seconds=1.0, opening_seconds=10.0).run().opened == [10, 10, 10]


def test_the_coordinator_may_shorten_the_segments():
    """Also the one that is under way."""
    driver = Driver(10, segment_seconds=100.0)
    driver.lane.receive(CommitEvery(4.5))
    assert driver.run().opened == [5, 5]


def test_a_lane_says_what_a_commit_costs():
    """What the sinks take to close, and what is cut takes to open again; the last segment cut nothing."""
    driver = Driver(12, segment_seconds=7.0, opening_seconds=3.0, closing_seconds=0.5).run()
    assert driver.opened == [4, 4, 4]
    costs = [round(done.cost_seconds, 1) for done in driver.done]
    assert costs == [3.5, 3.5, 0.5]
    assert [round(done.seconds, 1) for done in driver.done] == [7.5, 7.5, 7.5]


def test_a_lane_that_is_told_to_end_commits_what_it_has_done():
    """It ends at its next claim, though it was just opened and the segment has long to go, and begins nothing else."""
    driver = Driver(30, segment_seconds=100.0, opening_seconds=10.0, leaves_at=3)
    driver.lane.receive(Assign(tuple(WorkItem(number, number, 0, OffsetRange(0, 5), None) for number in range(2))))
    driver.run()
    assert driver.opened == [4]
    assert driver.left == OffsetRange(4, 5)
    assert [done.items for done in driver.done] == [1]
    assert driver.byes == 1


def test_a_lane_that_waits_for_work_and_is_told_to_end_ends():
    """There is nothing to commit."""
    said = []
    lane = Lane(TimedFn(), clock=Clock(), send=said.append, segment_seconds=100.0)
    assert lane.advance() is WAIT
    lane.leave()
    assert lane.advance() is WAIT
    assert [type(message) for message in said] == [Ready, Bye]
    lane.receive(Sealed())
    assert lane.advance() is None
