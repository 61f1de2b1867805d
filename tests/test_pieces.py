"""What is told of work items that have run: slow blocks, and the schedule without splitting."""

import pytest
from pages import report_of

from sdf.bundle import Bundle
from sdf.dofn import DoFn
from sdf.items import Ran, SlowBlock, WorkItem, slowest
from sdf.pieces import PieceRun, unsplit
from sdf.restrictions import OffsetRange
from sdf.running import Running


class CountFn(DoFn):
    def get_initial_restriction(self, element):
        return OffsetRange(*element)

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield i


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_the_ten_slowest_are_kept_in_order():
    """The slowest first."""
    blocks = [SlowBlock(0, str(number), number / 10) for number in range(25)]
    assert [block.position for block in slowest(*blocks)] == [str(number) for number in range(24, 14, -1)]


def running_over(stops):
    """Run 0 ... 9; at each claim that ``stops`` names the clock goes on in steps, with a note after each."""
    clock = Clock()
    running = Running(CountFn(), WorkItem(7, 0, (0, 10), OffsetRange(0, 10), 10.0), side_inputs=None, clock=clock)
    with running.outputs() as outputs:
        for i in outputs:
            for _ in range(stops.get(i, 0)):
                clock.now += 0.05
                running.note()
    return running


def test_a_block_is_slow_from_the_first_to_the_last_look_at_it():
    """Seen at 0.05 s steps, five of them: at least 0.2 s."""
    (block,) = running_over({4: 5}).slow_blocks()
    assert (block.item_id, block.position, round(block.seconds, 6)) == (7, "4", 0.2)


def test_blocks_that_no_two_looks_saw_are_not_slow():
    """However many passed between two looks."""
    assert running_over(dict.fromkeys(range(10), 1)).slow_blocks() == ()


def test_the_slowest_block_comes_first():
    """The last block counts too."""
    blocks = running_over({2: 5, 9: 9}).slow_blocks()
    assert [block.position for block in blocks] == ["9", "2"]


def test_a_bundle_tells_of_each_work_item():
    """When it began, what it did and how many records it gave."""
    clock = Clock()
    items = [WorkItem(3, 0, (0, 2), OffsetRange(0, 2), 2.0), WorkItem(5, 1, (0, 4), OffsetRange(0, 4), 4.0)]
    bundle = Bundle(CountFn(), items, clock=clock)
    for _ in bundle.outputs():
        clock.now += 1.0
    assert bundle.outcome().ran == (Ran(3, 0.0, 2.0, 2.0, 2), Ran(5, 2.0, 4.0, 4.0, 4))


def test_a_bundle_tells_why_it_could_not_be_split():
    """Nothing is claimed before the first output."""
    clock = Clock()
    bundle = Bundle(CountFn(), [WorkItem(0, 0, (0, 9), OffsetRange(0, 9), 9.0)], clock=clock)
    outputs = bundle.outputs()
    assert not bundle.hand_back(0.0)
    next(outputs)
    clock.now += 1.0
    next(outputs)
    assert not bundle.hand_back(1e9)
    assert bundle.outcome().refused == "too little was left"
    assert bundle.hand_back(0.0)
    assert bundle.outcome().refused is None


def test_a_part_that_stayed_counts_as_more_of_the_same():
    """Seconds, units and records are added up."""
    assert Ran(1, 0.5, 1.0, 2.0, 3).and_then(Ran(1, 9.0, 1.0, 2.0, 3)) == Ran(1, 0.5, 2.0, 4.0, 6)


def piece(element_id, seconds):
    return PieceRun(0, element_id, None, None, "initial", None, 0, 0.0, seconds, 1.0, 1)


@pytest.mark.parametrize(
    ("seconds", "slots", "makespan"),
    [([1, 1, 1, 1], 2, 2.0), ([10, 1, 1, 1], 2, 10.0), ([1, 1, 10], 2, 10.0), ([3, 3, 2, 2, 2], 2, 7.0)],
)
def test_without_splitting_each_element_goes_to_the_next_free_slot(seconds, slots, makespan):
    """Those that take longest first."""
    pieces = [piece(number, one) for number, one in enumerate(seconds)]
    assert max(end for _, _, end in unsplit(pieces, slots)) == makespan


def test_pieces_of_one_element_stay_together():
    """A straggler without splitting takes all its seconds on one slot."""
    report = report_of(80)
    assert report.unsplit_seconds == pytest.approx(0.49 * 78)
    assert report.ideal_seconds == pytest.approx(4.9)
