"""Watermark estimators: how far event time has advanced for one work item.

The state of an estimator belongs to the (element, restriction) pair. On a split the primary keeps its estimator and
the residual gets the state from before the split, so that its watermark cannot be ahead of its records (BEAM-7473).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from sdf.errors import WatermarkError

__all__ = ["ManualWatermark", "MonotonicWatermark", "WalltimeWatermark", "WatermarkEstimator"]


class WatermarkEstimator(ABC):
    """The interface of estimators; `process` reaches its estimator as ``tracker.watermark``.

    Attributes:
        late_below: the watermark that the stream had when the batch began; None if it had none, and outside streams.
        late: number of records with a timestamp below that, of an estimator that observes timestamps.
    """

    late_below: Any = None
    late: int = 0

    @abstractmethod
    def current(self) -> Any:
        """Return the watermark, which never falls: no later record has a timestamp below it."""

    def state(self) -> Any:
        """Return the state from which a residual continues; the default is the current watermark."""
        return self.current()

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Set a fresh estimator to a state that `state` returned."""


class _Stored(WatermarkEstimator):
    """An estimator whose state is the watermark itself."""

    def __init__(self, initial: Any) -> None:
        self._current = initial

    def current(self) -> Any:
        return self._current

    def restore(self, state: Any) -> None:
        self._current = state


class ManualWatermark(_Stored):
    """A watermark that `process` moves itself.

    Args:
        initial: the first watermark; any ordered type, such as seconds since the epoch.
    """

    def advance(self, watermark: Any) -> None:
        """Move to ``watermark``.

        Raises:
            WatermarkError: if ``watermark`` is below the current one.
        """
        if watermark < self._current:
            raise WatermarkError(
                f"{type(self).__name__}.advance() must not go back: got {watermark!r} after {self._current!r}. "
                f"Use advance_if_greater() where order is not known."
            )
        self._current = watermark

    def advance_if_greater(self, watermark: Any) -> None:
        """Move to ``watermark`` unless it is below the current one."""
        if watermark > self._current:
            self._current = watermark


class MonotonicWatermark(_Stored):
    """The highest timestamp observed, for sources in time order.

    Args:
        initial: the watermark before the first timestamp.
    """

    def observe(self, timestamp: Any) -> None:
        """Note the timestamp of a record."""
        if timestamp > self._current:
            self._current = timestamp
        if self.late_below is not None and timestamp < self.late_below:
            self.late += 1


class WalltimeWatermark(WatermarkEstimator):
    """The time of a clock; if the clock goes back, the watermark keeps its last value.

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
