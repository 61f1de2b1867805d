"""What work costs, and how what waits follows what lies before it."""

import random

import attrs
import pytest
from support.planning import cut_off, item_of, ran

from sdf.execution.work_items import Outcome, Part, Ran, units
from sdf.model.restrictions import OffsetRange
from sdf.scheduling.cost_model import CostModel


def test_nothing_is_known_at_first():
    """None, not 0."""
    costs = CostModel()
    assert (costs.fit(), costs.known(), costs.rates.rate(0)) == (None, False, None)


@pytest.mark.parametrize(("per_item", "per_unit"), [(0.0, 0.5), (3.0, 0.0), (2.0, 0.25)])
def test_work_that_has_not_begun_costs_seconds_a_work_item_and_seconds_a_unit(per_item, per_unit):
    """Whichever of the two matters."""
    costs = CostModel()
    for number, size in enumerate((1, 5, 40, 1000)):
        ran(costs, number, size, per_item + per_unit * size)
    for size in (1, 40, 5000):
        assert costs.seconds_of(item_of(9, 0, size)) == pytest.approx(per_item + per_unit * size, rel=0.1)


def test_sizes_that_are_alike_do_not_tell_what_a_unit_costs():
    """What they differ by in cost is noise; the next one is a hundred times as large, and as dear."""
    costs = CostModel()
    ran(costs, 0, 100, 1.5)
    ran(costs, 1, 101, 1.0)
    assert costs.seconds_of(item_of(9, 0, 10_000)) == pytest.approx(125, rel=0.2)


def test_a_piece_is_a_share_of_a_work_item():
    """A giant of 1,000 s that ran in a thousand pieces does not make all others look as if they took a second."""
    costs = CostModel()
    for number, (size, seconds) in enumerate([(20, 40.0), (20, 41.0)]):
        ran(costs, number, size, seconds)
    whole = item_of(100, 0, 1000)
    for number in range(100, 1099):
        rest = item_of(number + 1, number - 99, 1000, parent=number)
        costs.cut(whole, 0.1, attrs.evolve(whole, restriction=OffsetRange(0, 1), size=1), rest)
        ran(costs, number, 1, 1.0)
        whole = rest
    assert costs.seconds_of(item_of(9, 0, 20)) == pytest.approx(40, rel=0.1)


def test_what_ran_in_part_is_a_share_of_a_work_item():
    """A tenth of it took five seconds, so all of it takes fifty."""
    costs = CostModel()
    part = Part(0, OffsetRange(0, 10), (), 10, 5.0)
    costs.observe(Outcome(1, (part,), 10, 5.0, (Ran(0, 0.0, 5.0, 10, 0),)), [item_of(0, 0, 100)])
    assert costs.mean_of_items() == pytest.approx(50.0)


def test_what_was_given_back_untouched_is_no_work_item_that_cost_nothing():
    """All of it was deferred, at once."""
    costs = CostModel()
    ran(costs, 0, 10, 5.0)
    part = Part(1, None, (), 0, 0.0)
    costs.observe(Outcome(1, (part,), 0, 0.0, (Ran(1, 0.0, 0.0, 0, 0),)))
    assert costs.mean_of_items() == 5.0


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-170, 1e-3, 1.0, 1e170, 1e199, 1e308, float("inf"), 10**400])
def test_sizes_may_be_in_any_unit(size):
    """The largest and the smallest of floats have no squares, and an integer may be larger than all of them."""
    costs = CostModel()
    for number, times in enumerate((1, 2, 3)):
        item = attrs.evolve(item_of(number, 0, 1), size=size * times)
        costs.observe(Outcome(1, (), units(item), times, (Ran(number, 0.0, times, units(item), 0),)))
    assert 0.5 <= costs.seconds_of(attrs.evolve(item_of(9, 0, 1), size=size * 2)) <= 3.5


def test_a_piece_may_be_next_to_nothing_of_a_work_item():
    """Its size says so: one over the other is less than a float can hold."""
    costs = CostModel()
    whole = attrs.evolve(item_of(0, 0, 9), size=1e200)
    costs.observe(Outcome(1, (Part(0, None, (), 1e-199, 1.0),), 1e-199, 1.0, (Ran(0, 0.0, 1.0, 1e-199, 0),)), [whole])
    assert costs.mean_of_items() >= 1.0


def test_work_without_size_costs_what_a_work_item_did():
    """Empty files, say."""
    costs = CostModel()
    for number in range(4):
        ran(costs, number, 0, 0.5)
    assert (costs.known(), costs.seconds_of(item_of(9, 0, 0))) == (True, 0.5)


def test_a_scale_may_be_one_again():
    """A half of two is one."""
    costs = CostModel()
    whole, rest = item_of(0, 0, 9, size=None), item_of(1, 5, 9, parent=0, size=None)
    costs.observe(Outcome(1, (Part(7, None, (), 0.0, 0.0, 2.0),), 0, 0.0))
    (twice,) = cut_off(costs, attrs.evolve(whole, id=8, parent=7))
    assert costs.counted(twice) == 2.0
    costs.cut(twice, 0.5, twice, attrs.evolve(rest, parent=8))
    assert (costs.counted(twice), costs.counted(rest)) == (1.0, 1.0)


def test_what_ran_together_is_a_mean_of_as_many():
    """A task tells only a sum; ten alike count as one of them ten times."""
    apart, together = CostModel(), CostModel()
    for _ in range(10):
        apart.observe(Outcome(1, (), 3, 7.0))
    together.observe(Outcome(10, (), 30, 70.0))
    for costs in (apart, together):
        costs.observe(Outcome(1, (), 30, 16.0))
    assert together.fit() == pytest.approx(apart.fit())


def test_the_time_between_work_items_is_theirs():
    """A task took ten seconds for four of them, which ran for one each."""
    costs = CostModel()
    costs.observe(Outcome(4, (), 8, 10.0, tuple(Ran(number, 0.0, 1.0, 2, 0) for number in range(4))))
    assert costs.seconds_of(item_of(9, 0, 2)) == 2.5


@pytest.mark.parametrize("seed", range(50))
def test_the_line_meets_the_total_and_never_falls(seed):
    """Whatever ran: more units never cost less, and what ran would cost together what it did."""
    choose, costs, sizes, total = random.Random(seed), CostModel(), [], 0.0
    for _ in range(choose.randrange(1, 30)):
        count, seconds = choose.randrange(1, 4), choose.choice((0.0, 1e-9, choose.random(), choose.paretovariate(1)))
        size = choose.choice((0, 1, 7, choose.randrange(1, 10**9)))
        costs.observe(Outcome(count, (), size * count, seconds))
        sizes += [size] * count
        total += seconds
    if any(sizes):
        per_item, per_unit = costs.fit()
        assert min(per_item, per_unit) >= -1e-9 * total
        assert sum(per_item + per_unit * size for size in sizes) == pytest.approx(total)


def test_an_outcome_without_units_does_not_divide_by_zero():
    """All was deferred: nothing was learnt."""
    costs = CostModel()
    costs.observe(Outcome(1, (Part(0, None, (), 0, 1.0),), 0, 1.0))
    assert (costs.fit(), costs.rates.rate(0)) == (None, None)


def test_what_was_cut_off_costs_what_its_parent_did():
    """And so does what was cut off from that."""
    costs = CostModel()
    ran(costs, 0, 4, 8.0, whole=False)
    child, grandchild = cut_off(costs, item_of(1, 4, 9, parent=0), item_of(2, 6, 9, parent=1))
    assert (costs.rates.rate(child.id), costs.rates.rate(grandchild.id)) == (2.0, 2.0)


def test_a_work_item_of_an_unknown_parent_has_no_cost_of_its_own():
    """The mean is its best guess."""
    costs = CostModel()
    (item,) = cut_off(costs, item_of(1, 4, 9, parent=0))
    assert costs.rates.rate(item.id) is None


@pytest.mark.parametrize("whole", [True, False])
def test_what_waits_follows_what_lies_before_it(whole):
    """It was cut off before anything was known; then its front ran, whole or in part."""
    costs = CostModel()
    (rest,) = cut_off(costs, item_of(1, 4, 9, parent=0))
    ran(costs, 0, 4, 8.0, whole=whole)
    assert costs.rates.rate(rest.id) == 2.0


def test_what_waits_follows_the_nearest_before_it():
    """0 was cut, then 0 again: the order is 0, 2, 1."""
    costs = CostModel()
    far, near = cut_off(costs, item_of(1, 6, 9, parent=0), item_of(2, 3, 6, parent=0))
    ran(costs, 0, 3, 3.0)
    assert (costs.rates.rate(near.id), costs.rates.rate(far.id)) == (1.0, 1.0)
    ran(costs, 2, 3, 30.0)
    assert (costs.rates.rate(near.id), costs.rates.rate(far.id)) == (10.0, 10.0)


def test_what_runs_or_has_run_is_followed_rather_than_what_lies_before_it():
    """Nothing changes behind it, so that the ends of ten thousand tasks cost no more than ten thousand steps."""
    costs = CostModel()
    far, near = cut_off(costs, item_of(1, 6, 9, parent=0), item_of(2, 3, 6, parent=0))
    costs.rates.dequeued(near)
    ran(costs, 0, 3, 3.0)
    assert (costs.rates.rate(near.id), costs.rates.rate(far.id), costs.rates.revision) == (None, None, 0)


@pytest.mark.parametrize("handed_back", [False, True])
def test_what_has_shown_its_cost_keeps_it(handed_back):
    """What lies before it ends later; and what was handed back whole, and entered once more, lies where it lay."""
    costs = CostModel()
    far, near = cut_off(costs, item_of(1, 6, 9, parent=0), item_of(2, 3, 6, parent=0))
    if handed_back:
        cut_off(costs, far)
    costs.rates.dequeued(near)
    ran(costs, 2, 3, 30.0)
    ran(costs, 0, 3, 3.0)
    assert (costs.rates.rate(near.id), costs.rates.rate(far.id)) == (10.0, 10.0)


def fronts(costs):
    """Cut 0, of 9 units, into 0, 1, 2 of one unit each, all taken, and what is left of it: 3. Return that."""
    whole = item_of(0, 0, 9)
    for number in range(3):
        rest = item_of(number + 1, number + 1, 9, parent=number)
        costs.cut(whole, 0.1, item_of(number, number, number + 1), rest)
        costs.rates.queued(rest)
        costs.rates.dequeued(whole)
        whole = rest
    return whole


@pytest.mark.parametrize(
    ("shown", "followed"), [([0], 0), ([1], 1), ([0, 1], 1), ([1, 0], 1), ([2, 0, 1], 2), ([0, 2, 1], 2)]
)
def test_what_is_left_follows_the_nearest_that_has_shown_its_cost(shown, followed):
    """Whatever still runs between them: else a rest that is cheap would look dear as long as more is cut off it."""
    costs = CostModel()
    rest = fronts(costs)
    for number in shown:
        ran(costs, number, 1, 10.0**number)
    assert costs.rates.rate(rest.id) == 10.0**followed


def test_what_was_handed_back_is_cut_like_any_other():
    """0 hands back 4; of that 4 is cut off, and 5 is left."""
    costs = CostModel()
    rest = fronts(costs)
    (back,) = cut_off(costs, item_of(4, 0, 2, parent=0))
    left = item_of(5, 1, 2, parent=4)
    costs.cut(back, 0.5, item_of(4, 0, 1, parent=0), left)
    costs.rates.queued(left)
    costs.rates.dequeued(back)
    ran(costs, 4, 1, 7.0)
    assert (costs.rates.rate(left.id), costs.rates.rate(rest.id)) == (7.0, None)


def test_what_is_left_and_ran_itself_is_nearer_than_all_that_was_cut_off_it():
    """It hands back 4; what lies before it ends later."""
    costs = CostModel()
    rest = fronts(costs)
    costs.rates.dequeued(rest)
    ran(costs, rest.id, 3, 30.0, whole=False)
    (back,) = cut_off(costs, item_of(4, 6, 9, parent=rest.id))
    ran(costs, 2, 1, 70.0)
    assert costs.rates.rate(back.id) == 10.0


def test_a_front_that_was_handed_back_unstarted_follows_too():
    """As what is left does."""
    costs = CostModel()
    rest = fronts(costs)
    costs.rates.queued(item_of(1, 1, 2, parent=0))
    ran(costs, 0, 1, 50.0)
    assert (costs.rates.rate(1), costs.rates.rate(rest.id)) == (50.0, 50.0)


@pytest.mark.parametrize("seconds", [None, 8.0])
def test_parts_whose_sizes_do_not_add_up_count_together_what_the_whole_did(seconds):
    """Each of them is as large as the whole, as parts of a range of keys are; whether costs are known or not."""
    costs = CostModel()
    if seconds is not None:
        ran(costs, 9, 1, seconds)
    whole, rest = item_of(0, 0, 9, size=None), item_of(1, 5, 9, parent=0, size=None)
    costs.cut(whole, 0.75, whole, rest)
    last = item_of(2, 7, 9, parent=1, size=None)
    costs.cut(rest, 0.5, rest, last)
    assert [costs.counted(item) for item in (whole, rest, last)] == [0.75, 0.125, 0.125]
    assert costs.seconds_of(last) == 0.125 * (seconds or 1.0)


def test_parts_of_nothing_count_as_nothing():
    """Whatever their sizes say."""
    costs = CostModel()
    front, rest = item_of(0, 0, 4), item_of(1, 4, 9, parent=0)
    costs.cut(attrs.evolve(front, size=0), 0.5, front, rest)
    assert (costs.counted(front), costs.counted(rest)) == (0.0, 0.0)


def test_parts_whose_sizes_do_not_add_up_follow_like_others():
    """By what they count as: three quarters took 60 s, so the last quarter takes 20."""
    costs = CostModel()
    whole, rest = item_of(0, 0, 9, size=None), item_of(1, 5, 9, parent=0, size=None)
    costs.cut(whole, 0.75, whole, rest)
    costs.rates.queued(rest)
    ran(costs, 0, 1, 60.0)
    assert costs.seconds_of(rest) == pytest.approx(20.0)


def test_what_is_handed_back_counts_as_what_its_task_told():
    """A tenth was left, of a work item that was itself a half of one; the next is cut off as far as it got."""
    costs = CostModel()
    whole, rest = item_of(0, 0, 9, size=None), item_of(1, 5, 9, parent=0, size=None)
    costs.cut(whole, 0.5, whole, rest)
    part = Part(0, OffsetRange(0, 4), (), 0.9, 90.0, 0.1)
    costs.observe(Outcome(1, (part,), 0.5, 90.0, (Ran(0, 0.0, 90.0, 0.5, 0),)))
    (back,) = cut_off(costs, item_of(2, 4, 5, parent=0, size=None))
    assert (costs.counted(back), costs.seconds_of(back)) == (pytest.approx(0.05), pytest.approx(10.0))


def test_a_part_of_size_zero_costs_nothing():
    """Also where the sizes do not add up."""
    costs = CostModel()
    ran(costs, 9, 1, 1.0)
    front, rest = item_of(0, 0, 12), item_of(1, 9, 9, parent=0)
    costs.cut(item_of(0, 0, 10), 0.5, front, rest)
    assert (costs.seconds_of(front), costs.seconds_of(rest)) == (5.0, 0.0)


@pytest.mark.parametrize(
    ("seconds", "surprised"), [(1.0, True), (3.9, True), (4.1, False), (12.0, False), (35.9, False), (36.1, True)]
)
def test_a_cost_of_three_times_or_a_third_is_a_surprise(seconds, surprised):
    """Where one was expected."""
    costs = CostModel()
    ran(costs, 0, 3, 12.0, whole=False)
    (rest,) = cut_off(costs, item_of(1, 3, 6, parent=0))
    ran(costs, rest.id, 3, seconds)
    assert costs.surprised is surprised


@pytest.mark.parametrize(("seconds", "surprised"), [(2.9, False), (3.1, True)])
def test_the_mean_is_an_expectation_too(seconds, surprised):
    """Of what runs in parts: it was planned by that."""
    costs = CostModel()
    ran(costs, 0, 3, 3.0)
    ran(costs, 1, 1, seconds, whole=False)
    assert costs.surprised is surprised


@pytest.mark.parametrize(("seconds", "surprised"), [(30.0, False), (3.0, True)])
def test_a_piece_is_expected_to_cost_what_its_parent_did_and_not_the_mean(seconds, surprised):
    """The parent takes ten times the mean, and still runs."""
    costs = CostModel()
    ran(costs, 0, 3, 3.0)
    costs.learn(1, 1, 10.0)
    (rest,) = cut_off(costs, item_of(2, 3, 6, parent=1))
    ran(costs, rest.id, 3, seconds)
    assert costs.surprised is surprised


def test_what_a_work_item_costs_beside_its_units_is_expected_too():
    """Three seconds to open it, say, and then one unit."""
    costs = CostModel()
    for number, size in enumerate((1, 40, 1000)):
        ran(costs, number, size, 3.0 + 0.25 * size)
    ran(costs, 3, 1, 3.25, whole=False)
    assert not costs.surprised


def test_after_work_that_took_no_time_nothing_is_a_surprise():
    """Three times nothing is nothing."""
    costs = CostModel()
    ran(costs, 0, 3, 0.0)
    ran(costs, 1, 1, 0.1, whole=False)
    assert not costs.surprised


def test_elements_that_differ_are_no_surprise():
    """Nobody said that they are alike."""
    costs = CostModel()
    for number in range(4):
        ran(costs, number, 3, 10.0**number)
    assert not costs.surprised
