"""Running: a work item while it runs, with a clock beside it: how far it is, what it costs, what there is left.

Both runners measure by this: a task of a stage (`sdf.bundle`) and a lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sdf.dofn import DoFn
from sdf.expansion import checked_size
from sdf.invoker import Invoker
from sdf.ledger import Part, WorkItem, units

__all__ = ["Running"]


class Running:
    """One attempt at one work item. `outputs` once; the rest from any thread.

    Args:
        fn: the DoFn, set up.
        item: the work item.
        side_inputs: keyword arguments for `process`.
        clock: monotonic seconds.
    """

    def __init__(
        self, fn: DoFn, item: WorkItem, *, side_inputs: Mapping[str, Any] | None, clock: Callable[[], float]
    ) -> None:
        self._fn = fn
        self.item = item
        self.invoker = Invoker(fn, item.element, item.restriction, side_inputs=side_inputs, watermark=item.watermark)
        self._clock = clock
        self._began = clock()
        self._opened_at: float | None = None  # when it was seen to have claimed something

    def outputs(self) -> Iterator[Any]:
        """Return an iterator of its outputs; see `Invoker.run`."""
        return self.invoker.run()

    def seconds(self) -> float:
        """Return how long it has run."""
        return self._clock() - self._began

    def units(self) -> tuple[float, float]:
        """Return the units done and left, in the unit of its size; half each if the tracker does not know."""
        progress = self.invoker.progress()
        whole = progress.completed + (progress.remaining or 0)
        share = 0.5 if progress.remaining is None or whole <= 0 else progress.completed / whole
        return units(self.item) * share, units(self.item) * (1 - share)

    def seconds_left(self) -> float:
        """Return the seconds that the rest takes if it costs per unit what was done; infinite before any is done."""
        done, left = self.units()
        return left * self.seconds() / done if done > 0 else math.inf

    def note_claim(self) -> None:
        """Note when it has made its first claim; to be called often."""
        if self._opened_at is None and self.invoker.started:
            self._opened_at = self._clock()

    def opening_seconds(self) -> float | None:
        """Return how long it took to get to its first claim, None as long as that was not noted."""
        return None if self._opened_at is None else self._opened_at - self._began

    def done(self) -> tuple[float, Part | None]:
        """Return the units that it did, now that it has ended, and the part if it did not run whole."""
        whole = units(self.item)
        if not self.invoker.residuals:
            return whole, None
        primary = self.invoker.primary
        size = None if primary is None else checked_size(self._fn, self.item.element, primary)
        done = 0.0 if primary is None else whole / 2 if size is None else size
        return done, Part(self.item.id, primary, tuple(self.invoker.residuals), done, self.seconds())
