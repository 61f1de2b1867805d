"""What the driver knows of a run's work: items to start from, cuts, costs that children inherit."""

import gc
import itertools

import pytest

from sdf.errors import DeferError, SplitError
from sdf.execution.expansion import expand
from sdf.execution.invoker import Residual
from sdf.execution.work_items import Outcome, Part, Ran
from sdf.model.byte_key_tracker import ByteKeyRangeTracker
from sdf.model.dofn import DoFn
from sdf.model.restrictions import ByteKeyRange, OffsetRange
from sdf.scheduling.run_state import RunState, collecting_nothing


class PartsFn(DoFn):
    """Element: the bounds of its parts."""

    def get_initial_restriction(self, element):
        return OffsetRange(element[0], element[-1])

    def split_restriction(self, element, restriction):
        return [OffsetRange(start, stop) for start, stop in itertools.pairwise(element)]

    def process(self, element, tracker):
        return ()


class UnknownFn(PartsFn):
    """Nobody knows how large its work is."""

    def restriction_size(self, element, restriction):
        return None


def work_of(*elements):
    work = RunState(PartsFn())
    return work, list(work.add([expand(PartsFn(), element) for element in elements]))


def test_add_gives_the_parts_that_the_author_made():
    """And counts the cuts."""
    work, items = work_of((0, 5, 9), (0, 4))
    assert [item.restriction for item in items] == [OffsetRange(0, 5), OffsetRange(5, 9), OffsetRange(0, 4)]
    assert (work.name, work.splits, work.split_elements()) == ("PartsFn", 1, ((0, 5, 9),))


def test_cut_enters_both_sides_in_the_ledger():
    """Nobody owns either."""
    work, (item,) = work_of((0, 10))
    front, rest = work.cut(item, 0.3)
    assert (front.restriction, rest.restriction, rest.parent) == (OffsetRange(0, 3), OffsetRange(3, 10), item.id)
    work.ledger.assign("owner", [front, rest])
    work.ledger.seal("owner", 1)
    work.ledger.prove()
    assert work.splits == 1


@pytest.mark.parametrize(("fraction", "kept"), [(0.0, 1), (0.05, 1), (1.0, 9)])
def test_cut_leaves_work_on_either_side(fraction, kept):
    """However small the share is: otherwise the whole would go to one task, or a piece without work to the next."""
    work, (item,) = work_of((0, 10))
    front, rest = work.cut(item, fraction)
    assert (front.restriction, rest.restriction) == (OffsetRange(0, kept), OffsetRange(kept, 10))


def test_cut_declines_where_there_is_one_offset():
    """Nothing is entered in the ledger."""
    work, (item,) = work_of((3, 4))
    assert work.cut(item, 0.5) is None
    assert work.splits == 0


class DozensFn(DoFn):
    """A tracker that cuts at whole dozens only, so that small shares are empty; size: the dozens."""

    def get_initial_restriction(self, element):
        return ByteKeyRange(b"\x00", bytes([element]))

    def restriction_size(self, element, restriction):
        return restriction.stop[0] // 12 - restriction.start[0] // 12

    def create_tracker(self, element, restriction):
        tracker = ByteKeyRangeTracker(restriction)
        start, stop = restriction.start[0], restriction.stop[0]

        def split(fraction):
            at = start + int((stop - start) * fraction)
            return ByteKeyRange(restriction.start, bytes([at])), ByteKeyRange(bytes([at]), restriction.stop)

        tracker.try_split = split
        return tracker

    def process(self, element, tracker):
        raise NotImplementedError


@pytest.mark.parametrize(("fraction", "at"), [(0.01, 19), (0.125, 15), (0.3, 36), (0.0, None)])
def test_cut_of_other_restrictions_tries_twice_the_share_until_there_is_work(fraction, at):
    """A share without work is no reason to leave a straggler whole."""
    work = RunState(DozensFn())
    (item,) = work.add([expand(DozensFn(), 120)])
    pair = work.cut(item, fraction)
    assert (None if pair is None else pair[0].restriction.stop[0]) == at


@pytest.mark.parametrize(
    ("size", "fraction", "kept"),
    [(10, 0.5, 5), (100, 0.25, 25), (15, 1 / 3, 5), (10, 0.49, 4), (10**40, 0.5, 5 * 10**39)],
)
def test_cut_is_at_that_share_of_the_offsets(size, fraction, kept):
    """Which an unclaimed tracker does not: its remainder starts before the first offset."""
    work, (item,) = work_of((7, 7 + size))
    front, rest = work.cut(item, fraction)
    assert (front.restriction, rest.restriction) == (OffsetRange(7, 7 + kept), OffsetRange(7 + kept, 7 + size))


def test_a_residual_inherits_the_cost_of_its_parent():
    """Of this very work, not the mean."""
    work, (item,) = work_of((0, 10))
    work.ledger.assign(0, [item])
    work.costs.learn(item.id, 2.0, 6.0)
    ((child, delay_seconds),) = work.split(0, item.id, OffsetRange(0, 4), [Residual(OffsetRange(4, 10), 1.5)])
    assert (work.costs.seconds_of(child), delay_seconds) == (18.0, 1.5)


def test_a_split_that_does_not_add_up_changes_nothing():
    """The ledger is as before."""
    work, (item,) = work_of((0, 10))
    work.ledger.assign(0, [item])
    with pytest.raises(SplitError, match="do not add up"):
        work.split(0, item.id, OffsetRange(0, 4), [Residual(OffsetRange(5, 10))])
    assert (work.splits, [item.restriction for item in work.ledger.content(0)]) == (0, [OffsetRange(0, 10)])


def test_deferring_for_ever_changes_nothing_but_the_count(monkeypatch):
    """The error comes before the ledger is changed, so that it comes again at the next attempt."""
    monkeypatch.setattr("sdf.execution.deferrals._MOST_IDLE", 0)
    work, (item,) = work_of((0, 10))
    work.ledger.assign(0, [item])
    for _ in range(2):
        with pytest.raises(DeferError, match="in a row without a claim"):
            work.split(0, item.id, None, [Residual(OffsetRange(0, 10))])
    assert [item.restriction for item in work.ledger.content(0)] == [OffsetRange(0, 10)]


def test_commit_counts_once():
    """A second attempt gives nothing to run and no splits."""
    work, (item,) = work_of((0, 10))
    work.ledger.assign("task", [item])
    outcome = Outcome(1, (Part(item.id, OffsetRange(0, 4), (Residual(OffsetRange(4, 10)),), 4, 8.0),), 4, 8.0)
    ((child, delay_seconds),) = work.commit("task", 1, outcome)
    assert (child.restriction, delay_seconds, work.costs.seconds_of(child)) == (OffsetRange(4, 10), 0.0, 12.0)
    assert work.commit("task", 2, outcome) is None
    assert work.splits == 1


def test_a_piece_of_the_report_began_so_long_after_its_task():
    """Both in seconds."""
    work, (item,) = work_of((0, 10))
    (piece,) = work.pieces([(100.0, [Ran(item.id, 2.5, 1.0, 10, 0)])])
    assert (piece.began, piece.seconds, piece.task) == (102.5, 1.0, 0)


@pytest.mark.parametrize("cuts", [1, 2, 5])
def test_of_work_of_unknown_size_what_was_cut_off_counts_as_one_each_time_and_the_rest_as_a_half(cuts):
    """However often it was cut: a whole counts as one."""
    work = RunState(UnknownFn())
    (item,) = work.add([expand(UnknownFn(), (0, 10))])
    assert work.known_units == 1
    work.ledger.assign("task", [item])
    for stop in range(9, 9 - cuts, -1):
        work.split("task", item.id, OffsetRange(0, stop), [Residual(OffsetRange(stop, stop + 1))])
    assert work.known_units == 0.5 + cuts


def test_of_work_of_known_size_a_split_changes_nothing_that_is_known():
    """Its parts add up."""
    work, (item,) = work_of((0, 10))
    work.ledger.assign("task", [item])
    work.split("task", item.id, OffsetRange(0, 4), [Residual(OffsetRange(4, 10))])
    assert work.known_units == 10


def test_what_a_task_ran_of_a_work_item_is_a_share_of_one():
    """A tenth took a second; a work item like it takes ten."""
    work, (item, _) = work_of((0, 100), (0, 100))
    work.ledger.assign("task", [item])
    part = Part(item.id, OffsetRange(0, 10), (Residual(OffsetRange(10, 100)),), 10, 1.0)
    work.commit("task", 1, Outcome(1, (part,), 10, 1.0, (Ran(item.id, 0.0, 1.0, 10, 0),)))
    assert work.costs.mean_of_items() == pytest.approx(10.0)


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("first_ends_first", [True, False])
def test_threads_that_want_no_garbage_collections(collects, first_ends_first):
    """The last of them that ends leaves the collector as the first one found it."""
    was_on = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        both = [collecting_nothing(), collecting_nothing()]
        for one in both:
            one.__enter__()
            assert not gc.isenabled()
        for one in both if first_ends_first else reversed(both):
            assert not gc.isenabled()
            one.__exit__(None, None, None)
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was_on else gc.disable)()
