"""Which hosts were slow, and why an element is a straggler."""

import itertools
import math
import random

import attrs
import pytest

from sdf.model.restrictions import OffsetRange
from sdf.reporting.causes import (
    HOT_BLOCKS,
    HOT_OR_SLOW,
    LONG_OPENING,
    MUCH_WORK,
    ONE_BLOCK,
    SLOW_HOST,
    SlowHost,
    _Like,
    _others_rate,
    cause_of,
    slow_hosts,
)
from sdf.reporting.pieces import PieceRun

WORKERS = ["host/1", "host/2", "host/3"]


def piece(task, seconds, *, units=1.0, element=0, number=0, opening=0.0):
    return PieceRun(
        number, element, f"e{element}", "part", "initial", None, task, 0.0, seconds, units, 1, opening
    )  # fmt: skip


def names(pieces, workers=WORKERS, blocks=None):
    return [host.name for host in slow_hosts(pieces, workers, blocks or {})]


@pytest.mark.parametrize("times", [0.6, 1.0, 1.9, 2.0, 5.0])
def test_a_worker_is_slow_that_takes_twice_as_long_as_the_others_for_the_same_element(times):
    """However many pieces it ran, and they."""
    for slow, one, two in itertools.product(range(1, 6), range(1, 6), range(6)):
        pieces = [piece(0, 1.0 * times)] * slow + [piece(1, 1.0)] * one + [piece(2, 1.0)] * two
        assert names([*pieces, piece(0, 1.0, element=1)]) == ["host/1"] * (times >= 2), (slow, one, two)


def test_it_is_said_how_many_times_as_long_it_took():
    """By the median of its pieces, over that of the others."""
    pieces = [piece(0, seconds) for seconds in (8.0, 10.0, 12.0)] + [piece(1, seconds) for seconds in (1.0, 2.0, 3.0)]
    (found,) = slow_hosts(pieces, WORKERS, {})
    assert found == SlowHost("host/1", 5.0, places=1)
    assert str(found) == "host/1 took 5.0 times as long as the others for like work"


def test_the_slowest_comes_first():
    """Two of nine, all of which ran for as long."""
    pieces = [piece(task, 45.0, units=45 / (5, 1, 1, 9, 1, 1, 1, 1, 1)[task]) for task in range(9)]
    assert names(pieces, [f"host/{task}" for task in range(9)]) == ["host/3", "host/0"]


def test_a_unit_counts_not_a_piece():
    """A worker whose pieces are longer has done more."""
    assert names([piece(0, 9.0, units=9.0), piece(1, 1.0)]) == []
    assert names([piece(0, 9.0), piece(1, 9.0, units=9.0)]) == ["host/1"]


def test_opening_belongs_to_no_unit():
    """It takes as long for a small piece as for a large one."""
    assert names([piece(0, 9.0, opening=8.0), piece(1, 1.0)]) == []


def test_pieces_whose_size_nobody_knows_compare_with_nothing():
    """Each counts as one unit, however much it is."""
    pieces = [piece(0, 9.0), piece(1, 1.0)]
    assert names([attrs.evolve(one, sized=False) for one in pieces]) == []


@pytest.mark.parametrize(("seconds", "found"), [(0.9, []), (1.1, ["host/1"])])
def test_less_than_a_second_says_nothing_of_a_worker(seconds, found):
    """A machine that is busy may have stopped it for as long."""
    assert names([piece(0, seconds), piece(1, 0.1)]) == found


def test_one_slow_block_does_not_make_its_worker_slow():
    """Nobody could take a part of it, so nobody else has like work."""
    pieces = [piece(0, 19.0, units=10.0), piece(1, 10.0, units=10.0), piece(2, 10.0, units=10.0)]
    assert names([piece(0, 29.0, units=10.0), *pieces[1:]], blocks={0: [19.0]}) == []
    assert names([piece(0, 29.0, units=10.0), *pieces[1:]]) == ["host/1"]


def test_a_hot_region_does_not_make_the_workers_slow_that_run_it():
    """Whoever is idle runs a part of it, and is as slow there, so for all ways to deal its parts to two of three."""
    for tasks in itertools.product(range(2), repeat=4):
        if len(set(tasks)) == 2:
            pieces = [piece(task, 1.0, units=10.0) for task in range(3)] + [piece(task, 9.0) for task in tasks]
            assert names(pieces) == [], tasks


@pytest.mark.parametrize(("seconds", "found"), [(3.0, ["host/1"]), (4.0, [])])
def test_a_worker_is_not_slow_where_the_others_spent_a_quarter_of_their_time_alike(seconds, found):
    """Nine times as long a unit is the data's doing, if it took them as long there."""
    others = [piece(1, 10.0, units=10.0), piece(2, seconds, units=seconds / 9)]
    assert names([piece(0, 9.0), *others]) == found


def ranges(*parts):
    """Return pieces of one element: for each task and rate ten positions, in order."""
    return [
        attrs.evolve(piece(task, 10.0 * rate, units=10.0), restriction=OffsetRange(at, at + 10))
        for at, (task, rate) in zip(range(0, 1000, 10), parts, strict=False)
    ]


@pytest.mark.parametrize(
    ("parts", "certain"),
    [
        ([(0, 5.0), (1, 1.0), (0, 5.0)], True),
        ([(0, 5.0), (0, 5.0), (1, 1.0)], False),
        ([(1, 1.0), (0, 5.0), (0, 5.0), (0, 5.0), (0, 5.0), (1, 1.0)], False),
        ([(0, 0.5), (1, 1.0), (0, 5.0), (0, 5.0), (0, 5.0), (0, 5.0)], False),
    ],
)
def test_a_worker_is_certainly_slow_that_was_so_in_two_places(parts, certain):
    """At a single one the blocks may be hot, however many pieces it was cut into."""
    (found,) = slow_hosts(ranges(*parts), WORKERS, {})
    assert (found.name, found.certain) == ("host/1", certain)
    (found,) = slow_hosts(list(reversed(ranges(*parts))), WORKERS, {})
    assert found.certain == certain


def test_a_hot_element_that_a_worker_ran_alone_is_one_however_often_it_was_cut():
    """A key with the most pairs, say, while others ran the keys with few."""
    hot = [attrs.evolve(piece(0, 5.0), id=number) for number in range(9)]
    assert names([*hot, *(piece(1, 1.0, element=10 + number) for number in range(9))]) == []


@pytest.mark.parametrize(("elements", "found"), [(3, []), (4, ["host/1"])])
def test_of_elements_that_a_worker_ran_alone_four_are_needed(elements, found):
    """Fewer may be dear."""
    slow = [piece(0, 5.0, element=number) for number in range(elements)]
    assert names([*slow, *(piece(1, 1.0, element=10 + number) for number in range(9))]) == found


def test_a_few_dear_elements_do_not_make_a_worker_slow():
    """Less than three quarters of what it ran."""
    own = [piece(0, 9.0 if number % 3 else 1.0, element=number) for number in range(9)]
    assert names([*own, *(piece(1, 1.0, element=10 + number) for number in range(9))]) == []


def test_a_worker_is_not_slow_for_a_few_short_pieces():
    """Less than three quarters of its time."""
    own = [piece(0, 1.0, units=0.2)] * 4
    assert names([*own, piece(1, 9.0, units=9.0)]) == ["host/1"]
    assert names([*own, piece(0, 3.0, units=3.0), piece(1, 9.0, units=9.0)]) == []


def test_workers_of_a_host_count_together_where_there_are_several_hosts():
    """It is the host that is slow."""
    pieces = [piece(0, 9.0), piece(1, 9.0), piece(2, 1.0), piece(3, 1.0)]
    assert names(pieces, ["a/1", "a/2", "b/1", "b/2"]) == ["a"]
    assert names(pieces, ["a/1", "a/2", "a/3", "a/4"]) == []  # three quarters of the others are as slow


def test_one_worker_compares_with_nobody():
    """Nor does a run without pieces."""
    assert names([piece(0, 9.0), piece(0, 1.0)]) == []
    assert names([]) == []


def test_the_others_rate_is_that_of_their_share_of_time():
    """For all ways to leave some of five out, compared with a list of their seconds, one by one."""
    group = [_Like(float(rate), "host", float(seconds), float(rate)) for rate, seconds in enumerate((3, 1, 4, 1, 5))]
    until = [0.0, *itertools.accumulate(one.seconds for one in group)]
    for count in range(5):
        for places in map(list, itertools.combinations(range(5), count)):
            own_until = [0.0, *itertools.accumulate(group[at].seconds for at in places)]
            left = [one.rate for at, one in enumerate(group) if at not in places for _ in range(int(one.seconds))]
            for quarter in (1, 2, 3, 4):
                expected = left[math.ceil(quarter / 4 * len(left)) - 1]
                assert _others_rate(group, until, places, own_until, quarter / 4) == expected, (places, quarter)


def test_thousands_of_pieces_on_a_thousand_slots_take_no_longer():
    """Each piece is looked at a few times, not once for each host."""
    choose = random.Random(0)
    pieces = [piece(number % 1000, choose.uniform(1, 2) * (9 if number % 1000 == 7 else 1)) for number in range(20_000)]
    assert names(pieces, [f"host/{task}" for task in range(1000)]) == ["host/7"]


EVERY_CAUSE = (ONE_BLOCK, LONG_OPENING, SLOW_HOST, HOT_BLOCKS)


@pytest.mark.parametrize("holding", list(itertools.product([False, True], repeat=4)))
def test_the_first_cause_that_holds_is_named(holding):
    """For each set of them; where none holds it is much work."""
    one_block, opening, slow, hot = holding
    own = [
        piece(0, 2.0 + (20.0 if opening else 0.0), units=2.0, opening=20.0 if opening else 0.0),
        piece(1, 2.0, units=2.0, number=1),
        piece(1, 6.0 if hot else 0.0, units=0.1, number=2),
        piece(0, 2.0, units=2.0, number=3),
    ]
    cause = cause_of(
        own,
        [piece(0, 3.0, units=3.0, element=1)],
        even_seconds=5.0,
        longest_block=5.0 if one_block else 4.9,
        slow_tasks=frozenset({0, 1} if slow else ()),
    )
    assert cause == next(itertools.compress(EVERY_CAUSE, holding), MUCH_WORK)


def cause(own, others=(), **options):
    return cause_of(own, others, **{"even_seconds": 1e9, "longest_block": 0.0, **options})


@pytest.mark.parametrize(("other_seconds", "found"), [(5.0, HOT_BLOCKS), (5.1, MUCH_WORK)])
def test_an_element_is_hot_that_takes_twice_as_long_a_unit_as_the_others(other_seconds, found):
    """All of it may be dear."""
    assert cause([piece(0, 10.0)], [piece(0, other_seconds, element=1)]) == found


@pytest.mark.parametrize(("units", "found"), [(2.0, HOT_BLOCKS), (2.1, MUCH_WORK)])
def test_an_element_is_hot_if_half_of_its_time_is_in_a_fifth_of_it(units, found):
    """As the page says of a region."""
    assert cause([piece(0, 5.0, units=units), piece(1, 5.0, units=10.0 - units)], hosts=["one", "one"]) == found


def test_who_ran_the_only_dear_pieces_may_be_slow_instead():
    """No host ran both, so nobody knows."""
    assert cause([piece(0, 5.0, units=1.0), piece(1, 5.0, units=9.0)]) == HOT_OR_SLOW


@pytest.mark.parametrize(("times", "found"), [(4.9, MUCH_WORK), (5.1, HOT_BLOCKS)])
def test_what_ran_at_another_time_was_dear_for_it_only_if_it_is_by_far(times, found):
    """Others may have kept the machine busy then."""
    own = attrs.evolve(piece(0, times), began=10.0)
    assert cause([own], [piece(0, 1.0, element=1)]) == found


def test_nothing_is_hot_where_nobody_knows_sizes():
    """A piece counts as one unit, however much it is."""
    own = [attrs.evolve(piece(0, seconds), sized=False) for seconds in (50.0, 1.0, 1.0, 1.0, 1.0, 1.0)]
    assert cause(own, [piece(0, 1.0, element=1)]) == MUCH_WORK


@pytest.mark.parametrize(("seconds", "found"), [(5.0, SLOW_HOST), (4.9, MUCH_WORK)])
def test_half_of_the_time_on_a_slow_host_is_its_cause(seconds, found):
    """The others did the rest."""
    own = [piece(0, seconds), piece(1, 10.0 - seconds)]
    assert cause(own, slow_tasks=frozenset({0})) == found


@pytest.mark.parametrize(("opening", "found"), [(5.0, LONG_OPENING), (4.9, MUCH_WORK)])
def test_half_of_the_time_before_the_first_claim_is_its_cause(opening, found):
    """In one piece it would be."""
    assert cause([piece(0, 10.0, opening=opening)]) == found


def test_only_the_first_opening_counts():
    """One piece would have opened it once; that each part opens it again is the price of splitting."""
    own = [piece(0, 5.0, units=4.0, opening=1.0)]
    own += [piece(0, 2.0, units=0.1, number=number, opening=1.9) for number in range(1, 9)]
    assert cause(own) == MUCH_WORK
