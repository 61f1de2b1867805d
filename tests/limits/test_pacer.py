"""The start times of calls: evenly spaced, never made up for, and fewer after a refusal."""

import random

import pytest

from sdf.limits.pacer import Pacer
from sdf.limits.rate_limit import RateLimit


def most_in_a_window(times, seconds):
    """Return the most times in any window of so many seconds."""
    times = sorted(times)
    return max(sum(begin <= time < begin + seconds for time in times[at:]) for at, begin in enumerate(times))


@pytest.mark.parametrize("per_second", [0.1, 1, 2, 7, 100])
def test_no_window_has_more_calls_than_the_limit_allows(per_second):
    """Also if each call takes from nothing to 20 ms to be counted; a limit below 1 has longer windows."""
    chance, now, counted = random.Random(1), 0.0, []
    pacer = RateLimit("api", per_second=per_second).pace()
    for _ in range(400):
        now += chance.choice([0, 0, 0, chance.random() * 3 / per_second])
        start = pacer.start(now)
        assert start >= now
        counted.append(start + chance.random() * 0.02)
    window_seconds = max(1, 1 / per_second)
    assert most_in_a_window(counted, window_seconds) <= per_second * window_seconds


@pytest.mark.parametrize(("per_second", "tasks"), [(1, 1), (5, 1), (5, 3), (5, 5), (100, 1), (100, 8), (100, 100)])
def test_the_shares_of_tasks_together_keep_the_limit(per_second, tasks):
    """Wherever the times of one lie beside those of another."""
    chance, counted = random.Random(tasks), []
    limit = RateLimit("api", per_second=per_second)
    limit.tasks = tasks
    for _ in range(tasks):
        pacer, begin = limit.pace(), chance.random()
        counted += [pacer.start(begin) + chance.random() * 0.02 for _ in range(2 + 2 * per_second // tasks)]
    assert most_in_a_window(counted, 1) <= per_second


def test_all_of_the_limit_but_the_jitter_is_used():
    """If there is always somebody who wants to call."""
    pacer = Pacer(100)
    starts = [pacer.start(0) for _ in range(1000)]
    assert starts[-1] == pytest.approx(999 * 1.02 / 100)


def test_time_that_nobody_used_is_not_made_up_for():
    """After a pause calls are as far apart as ever."""
    pacer = Pacer(10)
    pacer.start(0)
    assert pacer.start(50) == 50
    assert pacer.start(50) == pytest.approx(50.102)


def test_no_call_starts_before_the_server_wants_it():
    """Not even one of a start time given before."""
    pacer = Pacer(10)
    for _ in range(100):
        pacer.start(0)
    pacer.refused(1.0, 0.9, 3.0)
    assert pacer.start(1.0) == 4.0


def test_a_longer_pause_is_not_cut_short_by_a_shorter_one():
    """Two calls were on their way, and the server told each something else."""
    pacer = Pacer(10)
    pacer.refused(1.0, 0.9, 3.0)
    pacer.refused(1.1, 0.8, 0.5)
    assert pacer.start(1.2) == 4.0


def rate_at(pacer, now):
    start = pacer.start(now)
    return 1.02 / (pacer.next_start - start)


def test_after_a_refusal_the_rate_is_three_quarters_and_grows_back():
    """By equal amounts, from when the pause ends."""
    pacer = Pacer(100)
    pacer.refused(1.0, 0.9, 2.0)
    assert [rate_at(pacer, at) for at in (3.0, 4.0, 5.0, 20.0)] == pytest.approx([75, 79, 83, 100])


def test_calls_that_were_on_their_way_count_as_one_refusal():
    """Eight lanes are refused at once; only a call that started after it cuts the rate again."""
    pacer = Pacer(100)
    for _ in range(8):
        pacer.refused(1.0, 0.9, 0.0)
    assert pacer.refused_calls == 8
    assert rate_at(pacer, 1.0) == pytest.approx(75)
    pacer.refused(1.1, 1.05, 0.0)
    assert rate_at(pacer, 1.1) == pytest.approx(0.75 * 75.4)


def test_a_server_that_refuses_everything_is_still_tried():
    """The rate falls to a 64th."""
    pacer = Pacer(64)
    for number in range(1, 101):
        pacer.refused(number / 1e6, (number - 0.5) / 1e6, 0.0)
    assert rate_at(pacer, 100 / 1e6) == pytest.approx(1)


def test_the_calls_are_further_apart_while_callers_are_late():
    """As on a busy machine; half of it is forgotten in ten seconds, and less than 20 ms counts as these."""
    pacer = Pacer(1)
    pacer.late(0.0, 0.2)
    pacer.late(0.1, 0.001)
    spacings = [pacer.start(at) and pacer.next_start - at for at in (10.0, 20.0, 1000.0)]
    assert spacings == pytest.approx([1.1, 1.05, 1.02])


def test_a_caller_that_slept_for_long_does_not_stop_the_others():
    """A quarter of a second is the most that counts."""
    pacer = Pacer(1)
    pacer.late(5.0, 1000.0)
    assert pacer.start(5.0) == 5.0
    assert pacer.next_start == pytest.approx(6.25)
