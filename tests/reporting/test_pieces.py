"""What is told of work items that have run: slow blocks, and the schedule without splitting."""

import pytest
from support.clock import Clock
from support.fns import CountFn
from support.pages import report_of

from sdf.execution.bundle import Bundle
from sdf.execution.measured_run import Running
from sdf.execution.work_items import Ran, SlowBlock, WorkItem, slowest
from sdf.model.dofn import DoFn
from sdf.model.restrictions import ByteKeyRange, OffsetRange
from sdf.model.trackers import Progress
from sdf.reporting.pieces import PieceRun, unsplit, whole_seconds


def test_the_ten_slowest_are_kept_in_order():
    """The slowest first."""
    blocks = [SlowBlock(0, str(number), number / 10) for number in range(25)]
    assert [block.position for block in slowest(*blocks)] == [str(number) for number in range(24, 14, -1)]


def running_over(stops):
    """Run 0 ... 9; at each claim that ``stops`` names the clock goes on in steps, with a note after each."""
    clock = Clock()
    running = Running(CountFn(), WorkItem(7, 0, (0, 10), OffsetRange(0, 10), 10.0), side_inputs=None, clock=clock)
    with running.outputs() as outputs:
        for _, i in outputs:
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


def test_the_last_block_is_slow_to_the_end_of_its_work_item():
    """Nobody looks any more, as when a task has given back all but that block."""
    clock = Clock()
    running = Running(CountFn(), WorkItem(7, 0, (0, 10), OffsetRange(0, 10), 10.0), side_inputs=None, clock=clock)
    with running.outputs() as outputs:
        for _, i in outputs:
            if i == 9:
                running.note()
                clock.now += 6.0
    clock.now += 5.0  # until somebody asks
    (block,) = running.slow_blocks()
    assert (block.position, block.seconds) == ("9", 6.0)


def test_nothing_is_noted_of_what_has_ended():
    """A lane may wait for a verdict then."""
    clock = Clock()
    running = Running(CountFn(), WorkItem(7, 0, (0, 10), OffsetRange(0, 10), 10.0), side_inputs=None, clock=clock)
    with running.outputs() as outputs:
        for _ in outputs:
            running.note()
    for _ in range(5):
        clock.now += 0.1
        running.note()
    assert running.slow_blocks() == ()
    assert running.ran(7, 0.0, 10.0).seconds == 0.0


class KeysFn(DoFn):
    """A key for each byte; its tracker counts in shares of the range that it has."""

    def get_initial_restriction(self, element):
        return ByteKeyRange()

    def process(self, element, tracker):
        for number in range(256):
            if not tracker.try_claim(bytes([number])):
                return
            yield number


class UnknownFn(CountFn):
    """Its tracker knows nothing of progress."""

    def create_tracker(self, element, restriction):
        tracker = super().create_tracker(element, restriction)
        tracker.progress = lambda: Progress(0, None)
        return tracker


def test_a_block_that_is_split_behind_is_one_block():
    """The shares that its tracker counts in are others after each split."""
    clock = Clock()
    running = Running(KeysFn(), WorkItem(7, 0, "a", ByteKeyRange(), 1.0), side_inputs=None, clock=clock)
    with running.outputs() as outputs:
        for number in outputs:
            for _ in range(20 if number == 3 else 0):
                running.note()
                clock.now += 0.1
                running.halve()
    (block,) = running.slow_blocks()
    assert (block.position, round(block.seconds, 6)) == ("b'\\x03'", 1.9)


def test_blocks_of_a_tracker_that_does_not_count_are_told_apart():
    """By the positions that are claimed: ten of 0.05 s are not one of 0.5 s."""
    clock = Clock()
    running = Running(UnknownFn(), WorkItem(7, 0, (0, 10), OffsetRange(0, 10), 10.0), side_inputs=None, clock=clock)
    with running.outputs() as outputs:
        for _ in outputs:
            running.note()
            clock.now += 0.05
    assert running.slow_blocks() == ()


def test_the_slowest_block_comes_first():
    """The last block counts too."""
    blocks = running_over({2: 5, 9: 9}).slow_blocks()
    assert [block.position for block in blocks] == ["9", "2"]


class OpensFn(CountFn):
    """Opens for a second, looked at ten times, before it claims what it has; then its first block takes half of one."""

    def __init__(self, clock):
        self.clock, self.running = clock, None

    def wait(self, times):
        for _ in range(times):
            self.clock.now += 0.1
            self.running.note()

    def process(self, element, tracker):
        self.wait(10)
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            if i == element[0]:
                self.wait(6)
            yield i


def opened():
    """Return one that has run."""
    clock = Clock()
    fn = OpensFn(clock)
    fn.running = Running(fn, WorkItem(7, 0, (0, 10), OffsetRange(0, 10), 10.0), side_inputs=None, clock=clock)
    with fn.running.outputs() as outputs:
        list(outputs)
    return fn.running


def test_time_before_the_first_claim_is_no_slow_block():
    """Nothing was claimed yet; the block behind it is one, and as long as it was seen itself."""
    (block,) = opened().slow_blocks()
    assert (block.position, round(block.seconds, 6)) == ("0", 0.5)


def test_time_before_the_first_claim_is_told():
    """From the begin to the last look at which nothing was claimed."""
    assert round(opened().ran(7, 0.0, 10.0).opening_seconds, 6) == 1.0


def test_what_claims_before_the_first_look_has_no_opening():
    """As far as anyone knows."""
    assert running_over({4: 5}).ran(7, 0.0, 10.0).opening_seconds == 0.0


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
    both = Ran(1, 0.5, 1.0, 2.0, 3, 0.25).and_then(Ran(1, 9.0, 1.0, 2.0, 3, 0.5, elements=0))
    assert both == Ran(1, 0.5, 2.0, 4.0, 6, 0.75)


def piece(element_id, seconds, number=0, opening=0.0):
    return PieceRun(number, element_id, None, None, "initial", None, 0, 0.0, seconds, 1.0, 1, opening)


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


def test_an_element_in_one_piece_is_opened_once():
    """As its first piece opens it, wherever that stands among the others."""
    pieces = [piece(0, 3.0, number=5, opening=2.0), piece(0, 4.0, number=1, opening=0.5), piece(1, 1.0, number=2)]
    assert whole_seconds(pieces) == {0: 5.0, 1: 1.0}


@pytest.mark.parametrize("parts", [1, 2, 50])
def test_without_splitting_the_same_work_takes_the_same_however_fine_it_was_cut(parts):
    """Ten seconds of work, and two to open it, which each part does again."""
    pieces = [piece(0, 2.0 + 10.0 / parts, number=number, opening=2.0) for number in range(parts)]
    assert max(end for _, _, end in unsplit(pieces, 2)) == pytest.approx(12.0)
