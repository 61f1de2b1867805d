"""The clock of a checkpoint: no step of the system's clock moves it, and whoever resumes waits as long as was asked."""

import types

import pytest

from sdf.journal import clock
from sdf.journal.clock import Clock
from sdf.journal.pending import Pending
from sdf.spark.stream.checkpoint import Checkpoint
from sdf.spark.stream.given import Given
from sdf.spark.stream.pins import Pin
from sdf.storage.disk import Disk

HOUR, YEAR = 3_600_000, 365 * 86_400_000
STEPS = [-10 * YEAR, -HOUR, 0, HOUR, 10 * YEAR]
DELAY = 3000


@pytest.fixture
def wall(monkeypatch):
    """The system's clock, which a test moves, and beside it the time that passes."""
    system = types.SimpleNamespace(now=20 * YEAR, passed=0)
    monkeypatch.setattr(clock, "_wall", lambda: system.now)
    monkeypatch.setattr(clock, "_monotonic", lambda: system.passed)
    return system


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_the_systems_clock_is_no_time_that_passes(wall, step):
    """A stream that runs knows how long it waits by what passes."""
    ours = Clock()
    begun = ours()
    wall.now += step
    assert ours() == begun == 20 * YEAR
    wall.passed += 300
    assert ours() == begun + 300


def test_a_clock_goes_on_from_what_it_has_reached(wall):
    """It never goes back to what it has passed."""
    ours = Clock()
    ours.reach(21 * YEAR)
    ours.reach(20 * YEAR)
    wall.passed += 5
    assert ours() == 21 * YEAR + 5


class Fn:
    on_commit = None
    scans = True


def checkpoint(path, left=()):
    """Open a checkpoint as a driver does, of one step whose element has ``left`` as its work."""
    step = types.SimpleNamespace(name="Fn", fn=Fn(), expand=lambda rdd, due: left, forget=lambda: None)
    now = Clock()
    opened = Checkpoint(Disk(path), [step], Given((), ({},), {}), now, None)
    opened.begin(None)
    return opened, now


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("later", STEPS)
def test_what_a_dead_driver_has_deferred_is_due_after_that_delay(wall, tmp_path, step, later):
    """Its clock was wrong, or that of the next driver is; nothing of its batch was committed."""
    part = Pending(0, "a", None)
    checkpoint(tmp_path, [part])
    wall.now += step
    first, now = checkpoint(tmp_path, [part])
    first.write_pins([Pin(((part,),), ((1,),), taken=(0,), left=(Pending(0, "a", 1, due=now() + DELAY),))])
    wall.now += later
    again, now = checkpoint(tmp_path)
    assert again.follows
    (left,) = again.pin(0).left
    assert left.due - now() <= DELAY
    if later <= 0:
        assert left.due - now() > 0
