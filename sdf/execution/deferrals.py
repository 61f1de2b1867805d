"""Deferrals: how long deferred work waits, and when deferring it once more is an error.

Work that is deferred again and again without a single claim would keep a finite run going for ever. Its delays double,
and after `_MOST_IDLE` times in a row it is an error.
"""

from __future__ import annotations

from typing import Any

from sdf.errors import DeferError, show
from sdf.execution.work_items import WorkItem

__all__ = ["Deferrals"]

_MOST_IDLE = 100
_IDLE_SECONDS = 0.01  # doubled for each deferral in a row without a claim: 0.02 s at first, 2.56 s at most


class Deferrals:
    """Counts, by work item, how often in a row it was deferred without a claim.

    Args:
        name: name of the DoFn, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: dict[int, int] = {}

    def note(self, item: WorkItem, primary: Any) -> None:
        """Note that a work item was split or deferred, and that its ``primary`` was run; None if nothing was run.

        Raises:
            DeferError: if this work was deferred too often in a row without a claim.
        """
        if primary is not None:
            self._idle.pop(item.id, None)
            return
        times = self._idle[item.id] = self._idle.get(item.id, 0) + 1
        if times > _MOST_IDLE:
            element, restriction = item.work.named()
            raise DeferError(
                f"{self._name}.process() deferred {show(restriction)} of element {show(element)} {times} "
                f"times in a row without a claim. Finite work must come to an end; stream_sdf() runs work without one."
            )

    def delay_seconds(self, residual: WorkItem, asked_seconds: float, *, cut_from: int | None = None) -> float:
        """Return how many seconds a residual waits, given that `process` asked for ``asked_seconds``.

        Args:
            residual: the deferred work.
            asked_seconds: the delay that `process` asked for.
            cut_from: the work item that was noted as deferred; None: the parent of the residual.
        """
        before = residual.parent if cut_from is None else cut_from
        times = 0 if before is None else self._idle.get(before, 0)
        if not times:
            return asked_seconds
        self._idle[residual.id] = times
        return max(asked_seconds, _IDLE_SECONDS * (1 << min(times, 8)))
