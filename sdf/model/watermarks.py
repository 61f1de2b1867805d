"""Watermark estimators: how far event time has come for one work item.

The state of an estimator belongs to the (element, restriction) pair. On a split the primary keeps its estimator and
the residual gets the state captured before the split, so that it cannot be ahead of records still to come (BEAM-7473).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from sdf.errors import WatermarkError

__all__ = ["ManualWatermark", "MonotonicWatermark", "WalltimeWatermark", "WatermarkEstimator"]


class WatermarkEstimator(ABC):
    """What `DoFn.create_watermark_estimator` returns; `process` reaches it as ``tracker.watermark``."""

    @abstractmethod
    def current(self) -> Any:
        """Return the watermark: every later record has a timestamp not below it. It never falls."""

    def state(self) -> Any:
        """Return what a residual needs to go on; the default is the current watermark."""
        return self.current()

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Take over a state that `state` gave, on a fresh estimator."""


class ManualWatermark(WatermarkEstimator):
    """The author moves it.

    Args:
        initial: the first watermark; any ordered type, such as seconds since the epoch.
    """

    def __init__(self, initial: Any) -> None:
        self._current = initial

    def current(self) -> Any:
        return self._current

    def advance(self, watermark: Any) -> None:
        """Move to ``watermark``.

        Raises:
            WatermarkError: if that is lower than now.
        """
        if watermark < self._current:
            raise WatermarkError(
                f"{type(self).__name__}.advance() must not go back: got {watermark!r} after {self._current!r}. "
                f"Use advance_if_greater() where order is not known."
            )
        self._current = watermark

    def advance_if_greater(self, watermark: Any) -> None:
        """Move to ``watermark`` unless that is lower than now."""
        if watermark > self._current:
            self._current = watermark

    def restore(self, state: Any) -> None:
        self._current = state


class MonotonicWatermark(WatermarkEstimator):
    """The highest timestamp seen, for sources in order of time.

    Args:
        initial: the watermark before the first timestamp.
    """

    def __init__(self, initial: Any) -> None:
        self._current = initial

    def current(self) -> Any:
        return self._current

    def observe(self, timestamp: Any) -> None:
        """Take note of a record's timestamp."""
        if timestamp > self._current:
            self._current = timestamp

    def restore(self, state: Any) -> None:
        self._current = state


class WalltimeWatermark(WatermarkEstimator):
    """The time on the clock, floored by its own last value.

    Args:
        clock: returns seconds, for example `time.time`.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._floor = clock()

    def current(self) -> float:
        self._floor = max(self._floor, self._clock())
        return self._floor

    def restore(self, state: float) -> None:
        self._floor = max(self._floor, state)
