"""The rate limits of a run of lanes: who gets which start time, and how a lane waits for its own."""

import threading

import pytest
from support.clock import Clock

from sdf import RateLimit
from sdf.errors import CoordinatorError
from sdf.lanes.messages import AskStart, ProtocolError, Refused, StartIn
from sdf.lanes.pacing import LaneStartTimes, Pacing

EACH = 1.02 / 10  # between two calls


@pytest.fixture
def sent():
    return []


@pytest.fixture
def pacing(sent):
    limits = [RateLimit("api", per_second=10), RateLimit("other", per_second=10)]
    return Pacing(limits, lambda name, message: sent.append((name, message.limit, round(message.seconds, 9))))


def test_each_lane_that_asks_gets_the_next_start_time(pacing, sent):
    """In seconds from now, for clocks need not agree."""
    for at, name in ((5.0, "a"), (5.0, "b"), (5.05, "c"), (7.0, "a")):
        pacing.received(name, AskStart("api", 0.0), at)
    assert sent == [
        ("a", "api", 0),
        ("b", "api", round(EACH, 9)),
        ("c", "api", round(2 * EACH - 0.05, 9)),
        ("a", "api", 0),
    ]


def test_limits_do_not_know_of_each_other(pacing, sent):
    """Each has its own start times."""
    pacing.received("a", AskStart("api", 0.0), 5.0)
    pacing.received("b", AskStart("other", 0.0), 5.0)
    assert [seconds for *_, seconds in sent] == [0, 0]


def test_after_a_refusal_lanes_that_wait_get_later_start_times(pacing, sent):
    """In the same order, and at three quarters of the rate; a lane that is calling gets nothing."""
    for name in "abc":
        pacing.received(name, AskStart("api", 0.0), 5.0)
    sent.clear()
    pacing.received("a", Refused("api", 0.04, 2.0), 5.05)
    assert sent == [("b", "api", 2.0), ("c", "api", round(2 + EACH / 0.75, 9))]


def test_a_lane_that_is_lost_gets_no_later_start_time(pacing, sent):
    """Its name is forgotten."""
    for name in "abc":
        pacing.received(name, AskStart("api", 0.0), 5.0)
    sent.clear()
    pacing.lost("b")
    pacing.received("a", Refused("api", 0.04, 2.0), 5.05)
    assert [name for name, *_ in sent] == ["c"]


@pytest.mark.parametrize("message", [AskStart("mail", 0.0), Refused("mail", 0, 0)])
def test_a_limit_that_the_run_does_not_have_is_against_the_protocol(pacing, message):
    """Nothing else changes."""
    with pytest.raises(ProtocolError, match="no rate limit 'mail'"):
        pacing.received("a", message, 5.0)


class Counting(threading.Condition):
    """Counts how often somebody waits for it."""

    waits = 0

    def wait(self, timeout=None):
        self.waits += 1
        return super().wait(timeout)


class Waits:
    """A lane's thread that waits for a start time."""

    def __init__(self):
        self.clock, self.sent, self.changed, self.failure = Clock(), [], Counting(), None
        self.times = LaneStartTimes(self.sent.append, self.clock, self.changed, lambda: self.failure)
        self.raised = None
        self.thread = threading.Thread(target=self._wait, daemon=True)
        self.thread.start()
        while not self.sent:
            self.thread.join(0.001)

    def _wait(self):
        try:
            self.times.wait("api")
        except CoordinatorError as error:
            self.raised = error

    def change(self, *messages, seconds=0.0, failure=None):
        """Tell the thread something; return whether it goes on."""
        with self.changed:
            self.clock.now += seconds
            self.failure = failure
            for message in messages:
                self.times.receive(message)
            waits = self.changed.waits
            self.changed.notify_all()
        while self.thread.is_alive() and self.changed.waits == waits:
            self.thread.join(0.001)
        return not self.thread.is_alive()


def test_a_lane_asks_and_waits_for_its_start_time():
    """By its own clock."""
    waits = Waits()
    assert waits.sent == [AskStart("api", 0.0)]
    assert waits.times.asked
    assert not waits.change(StartIn("api", 2.0))
    assert not waits.times.asked
    assert not waits.change(seconds=1.9)
    assert waits.change(seconds=0.2)


def test_a_later_start_time_takes_the_place_of_the_one_before():
    """A call was refused meanwhile."""
    waits = Waits()
    assert not waits.change(StartIn("api", 2.0))
    assert not waits.change(StartIn("api", 5.0))
    assert not waits.change(seconds=3.0)
    assert waits.change(seconds=2.1)


@pytest.mark.parametrize("messages", [(), (StartIn("api", 1000.0),)])
def test_a_lane_that_fails_waits_no_longer(messages):
    """Whether it has a start time or not."""
    waits = Waits()
    assert not waits.change(*messages)
    assert waits.change(failure=CoordinatorError("lost"))
    assert str(waits.raised) == "lost"


def test_a_start_time_that_nobody_waits_for_lapses():
    """The next call asks for one of its own."""
    waits = Waits()
    assert waits.change(StartIn("api", 0.0))
    waits.times.receive(StartIn("api", 0.0))
    other = threading.Thread(target=lambda: waits.times.wait("api"), daemon=True)
    other.start()
    while not waits.changed.waits > 1:
        other.join(0.001)
    assert other.is_alive()
    assert waits.sent == [AskStart("api", 0.0)] * 2
    with waits.changed:
        waits.times.receive(StartIn("api", 0.0))
        waits.changed.notify_all()
    other.join(10)
    assert not other.is_alive()


def test_a_lane_tells_how_late_it_has_started():
    """With its next question; the coordinator then spaces the calls by as much more."""
    waits = Waits()
    assert not waits.change(StartIn("api", 1.0))
    assert waits.change(seconds=1.2)
    other = threading.Thread(target=lambda: waits.times.wait("api"), daemon=True)
    other.start()
    while len(waits.sent) < 2:
        other.join(0.001)
    assert waits.sent[1].late_seconds == pytest.approx(0.2)
    with waits.changed:
        waits.times.receive(StartIn("api", 0.0))
        waits.changed.notify_all()
    other.join(10)


def test_a_limit_does_not_wait_for_another_one():
    """Threads of a lane may use several."""
    waits = Waits()
    other = threading.Thread(target=lambda: waits.times.wait("other"), daemon=True)
    other.start()
    while len(waits.sent) < 2:
        other.join(0.001)
    with waits.changed:
        waits.times.receive(StartIn("other", 0.0))
        waits.changed.notify_all()
    other.join(10)
    assert not other.is_alive()
    assert waits.thread.is_alive()
    assert waits.times.asked
    assert waits.change(StartIn("api", 0.0))
