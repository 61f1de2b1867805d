"""When a lane says how far it is."""

from itertools import pairwise

import attrs
import pytest

from sdf.lanes.heartbeat import LOOK_SECONDS, HeartbeatSchedule
from sdf.lanes.messages import Heartbeat

LONG = Heartbeat(item_id=1, splittable=True, units=0.0, seconds=0.0, seconds_left=10_000.0, unstarted=0)


def said(seconds, beat_at):
    """Return when a lane speaks in so many seconds, by what it would say when."""
    beats, times = HeartbeatSchedule(0.0), []
    for look in range(int(seconds / LOOK_SECONDS)):
        now = look * LOOK_SECONDS
        if beats.due(beat_at(now), now):
            beats.sent(beat_at(now), now)
            times.append(now)
    return times


def goes_on(now):
    return attrs.evolve(LONG, units=now, seconds=now, seconds_left=LONG.seconds_left - now)


def test_it_speaks_at_almost_every_look_at_first():
    assert len(said(1.0, goes_on)) >= 10


def test_an_even_lane_grows_quiet():
    times = said(1000, goes_on)
    assert len(times) < 250
    assert [later - earlier for earlier, later in pairwise(times)][-1] == pytest.approx(10, abs=0.1)


def test_it_never_says_nothing_for_longer_than_a_progress_bar_may_stand_still():
    times = said(1000, goes_on)
    assert max(later - earlier for earlier, later in pairwise(times)) < 10.1


@pytest.mark.parametrize(
    "news",
    [
        {"seconds_left": 20_000.0},
        {"seconds_left": 100.0},
        {"item_id": 2},
        {"splittable": False},
    ],
    ids=["dearer", "cheaper", "another work item", "cannot be split"],
)
def test_what_the_coordinator_cannot_work_out_is_said_within_a_second(news):
    times = said(600, lambda now: attrs.evolve(goes_on(now), **news) if now > 505.5 else goes_on(now))
    assert any(505.5 < time <= 506.6 for time in times)


def test_estimates_that_change_all_the_time_are_told_once_a_second():
    times = said(600, lambda now: attrs.evolve(LONG, seconds_left=10_000.0 if int(now * 20) % 2 else 100.0))
    late = [time for time in times if 400 < time < 500]
    assert 90 <= len(late) <= 101
