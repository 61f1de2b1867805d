"""Watermark estimators: never backwards, and a state that a residual can go on from."""

import pickle
import re

import cloudpickle
import pytest

from sdf.errors import WatermarkError
from sdf.model.watermarks import ManualWatermark, MonotonicWatermark, WalltimeWatermark, WatermarkEstimator


class Times:
    """Gives the times of a list, one after the other."""

    def __init__(self, *times):
        self.times = list(times)

    def __call__(self):
        return self.times.pop(0)


@pytest.mark.parametrize("kind", [ManualWatermark, MonotonicWatermark])
@pytest.mark.parametrize("initial", [0, -5, 2.5, "2024-01-01"])
def test_first_value_is_the_one_given(kind, initial):
    """An estimator is created with its first value."""
    assert kind(initial).current() == initial


def test_manual_watermark_advances():
    """The author moves it."""
    watermark = ManualWatermark(5)
    watermark.advance(7)
    assert watermark.current() == 7


def test_manual_watermark_may_stand_still():
    """The same value again is no step back."""
    watermark = ManualWatermark(5)
    watermark.advance(5)
    assert watermark.current() == 5


def test_manual_watermark_that_goes_back_raises():
    """The message has both values and the way out."""
    message = (
        "ManualWatermark.advance() must not go back: got 4 after 5. Use advance_if_greater() where order is not known."
    )
    with pytest.raises(WatermarkError, match=re.escape(message)):
        ManualWatermark(5).advance(4)


def test_a_refused_advance_changes_nothing():
    """The watermark stays where it was."""
    watermark = ManualWatermark(5)
    with pytest.raises(WatermarkError):
        watermark.advance(4)
    assert watermark.current() == 5


@pytest.mark.parametrize(("value", "expected"), [(4, 5), (5, 5), (6, 6)])
def test_advance_if_greater(value, expected):
    """Moves up only."""
    watermark = ManualWatermark(5)
    watermark.advance_if_greater(value)
    assert watermark.current() == expected


@pytest.mark.parametrize(
    ("timestamps", "expected"), [([], 5), ([3], 5), ([7], 7), ([7, 6], 7), ([6, 9, 8], 9), ([5], 5)]
)
def test_monotonic_watermark_is_the_highest_timestamp(timestamps, expected):
    """The highest timestamp seen, and never below the first value."""
    watermark = MonotonicWatermark(5)
    for timestamp in timestamps:
        watermark.observe(timestamp)
    assert watermark.current() == expected


def test_records_below_the_watermark_of_the_stream_are_late():
    """Those below the watermark of the part alone are not; and without a stream none is."""
    watermark = MonotonicWatermark(0)
    watermark.observe(-1)
    watermark.late_below = 5
    for timestamp in (9, 5, 4, 6, 3):
        watermark.observe(timestamp)
    assert watermark.late == 2


def test_walltime_watermark_is_the_clock():
    """The injected clock's time."""
    watermark = WalltimeWatermark(Times(10.0, 11.0))
    assert watermark.current() == 11.0


def test_walltime_watermark_never_goes_back():
    """Floored by its own last value."""
    watermark = WalltimeWatermark(Times(10.0, 12.0, 9.0, 11.0, 13.0))
    assert [watermark.current() for _ in range(4)] == [12.0, 12.0, 12.0, 13.0]


def test_walltime_watermark_is_floored_by_the_restored_state():
    """A worker whose clock is behind does not take the watermark back."""
    watermark = WalltimeWatermark(Times(10.0, 10.5))
    watermark.restore(20.0)
    assert watermark.current() == 20.0


def test_walltime_watermark_of_an_old_state_is_the_clock():
    """A state from before is no reason to lag."""
    watermark = WalltimeWatermark(Times(10.0, 10.5))
    watermark.restore(5.0)
    assert watermark.current() == 10.5


def test_walltime_watermark_never_goes_back_to_an_old_state():
    """Nor to a clock that was set back meanwhile."""
    watermark = WalltimeWatermark(Times(10.0, 7.0))
    watermark.restore(5.0)
    assert watermark.current() == 10.0


@pytest.mark.parametrize("pickler", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])
@pytest.mark.parametrize("kind", [ManualWatermark, MonotonicWatermark])
def test_state_goes_on_in_a_fresh_estimator(kind, pickler):
    """A residual goes on from the state that its primary had, in another process."""
    state = pickle.loads(pickler.dumps(kind(8).state()))
    fresh = kind(0)
    fresh.restore(state)
    assert fresh.current() == 8


def test_default_state_is_the_current_watermark():
    """An estimator of one's own needs two methods."""

    class Own(WatermarkEstimator):
        def current(self):
            return 3

        def restore(self, state):
            pass

    assert Own().state() == 3


def test_interface_cannot_be_made():
    """current() and restore() are required."""
    with pytest.raises(TypeError, match="abstract"):
        WatermarkEstimator()
