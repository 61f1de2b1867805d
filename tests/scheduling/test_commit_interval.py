"""How long a segment may last: as losses of workers and the cost of a commit have it."""

import math

import pytest

from sdf.scheduling.commit_interval import CommitInterval, budget_of_retry


def interval_of(lived, costs=(), *, longest=60.0, running=0):
    """Return an interval after attempts that were lost when they had lived so long, and commits of such costs."""
    interval = CommitInterval(longest)
    for seconds in lived:
        interval.began(100.0)
        interval.ended(100.0 + seconds, losses=1)
    for _ in range(running):
        interval.began(100.0)
    for cost in costs:
        interval.committed(cost)
    return interval


@pytest.mark.parametrize("cost", [0.0, 0.5, 100.0])
def test_without_losses_it_is_what_was_given(cost):
    """Whatever a commit costs, and however many attempts have ended."""
    interval = interval_of([], [cost], running=3)
    interval.ended(101.0, losses=0)
    assert interval.seconds(200.0) == 60.0


def test_it_is_the_root_of_twice_the_cost_times_the_time_between_losses():
    """After a mean cost of 0.5 s, and losses after 100 s on average: Young's formula."""
    assert interval_of([50.0, 150.0], [0.25, 0.75]).seconds(0.0) == pytest.approx(math.sqrt(2 * 0.5 * 100))


def test_the_time_of_attempts_that_still_run_counts():
    """Four have lived 100 s, and one of them was lost."""
    assert interval_of([100.0], [0.5], longest=1e9, running=3).seconds(200.0) == pytest.approx(math.sqrt(400.0))


def test_it_never_gets_longer_than_what_was_given():
    """A user has said how much may be lost."""
    assert interval_of([1e6], [0.5]).seconds(0.0) == 60.0


def test_it_is_never_less_than_ten_times_what_a_commit_costs():
    """Else most of the time would go into commits."""
    assert interval_of([0.1], [2.0]).seconds(0.0) == 20.0


def test_where_nothing_was_committed_yet_it_falls_too():
    """Where all are lost before their first commit, no cost would ever be measured."""
    assert interval_of([20.0]).seconds(0.0) == pytest.approx(math.sqrt(2 * 0.1 * 20))


def test_cheap_commits_do_not_come_more_often_than_once_a_second():
    """The log writes no more often, and each costs the driver something too."""
    assert interval_of([0.01], [1e-6]).seconds(0.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("budget_seconds", "retries", "expected"), [(60.0, 0, 60.0), (60.0, 3, 7.5), (60.0, 10, 1.0), (0.5, 1, 0.5)]
)
def test_a_task_has_half_the_budget_with_each_retry_down_to_a_second(budget_seconds, retries, expected):
    """Or to the budget, if that is shorter."""
    assert budget_of_retry(budget_seconds, retries) == expected
