"""Behind: how many records and bytes are there that a stream has not read yet, as far as its DoFns know."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from sdf.journal.remaining import RemainingPart
from sdf.model.dofn import DoFn
from sdf.spark.stream.steps import Step

__all__ = ["Backlog"]

_LOOK_SECONDS = 5.0  # a look may ask about each of many thousand files


class Backlog:
    """Looks now and then how far a stream is behind.

    Args:
        steps: the steps of its chain.

    Attributes:
        records: how many records it is behind; None if no DoFn knows.
        bytes: how many bytes it is behind; None if no DoFn knows.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = [step if type(step.fn).backlog is not DoFn.backlog else None for step in steps]
        self._looked = float("-inf")
        self.records: int | None = None
        self.bytes: int | None = None

    def look(self, remaining: Iterable[RemainingPart], *, now: bool = False) -> None:
        """Look, unless that was done a moment ago; ``now``: all the same."""
        if not any(self._steps) or (not now and time.monotonic() < self._looked + _LOOK_SECONDS):
            return
        counts: list[list[int]] = [[], []]
        for work in remaining:
            step = self._steps[work.part.step]
            if step is not None:
                for known, count in zip(counts, step.backlog(work.part), strict=True):
                    known += [] if count is None else [count]
        self.records, self.bytes = (sum(known) if known else None for known in counts)
        self._looked = time.monotonic()
