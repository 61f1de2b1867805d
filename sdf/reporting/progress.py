"""How far a run or a stream is, while it runs."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["RunProgress", "StreamProgress"]


@attrs.frozen
class RunProgress:
    """How far a run is.

    Attributes:
        name: of the DoFn.
        seconds: since it began.
        done: work done, in the unit of `DoFn.restriction_size`; of `StagedRunner` by the tasks that have ended. What a
            lane did whose attempt was lost is done again, so it counts no more.
        known: all work, in the same unit; a work item of unknown size counts as 1, so each split makes it more.
        tasks_busy: how many tasks run.
        slots: how many could.
        splits: how often work was cut so far.
        ended: whether this is the last of a run, of `LiveRunner` of an action, whether it went well or not.
    """

    name: str
    seconds: float
    done: float
    known: float
    tasks_busy: int
    slots: int
    splits: int
    ended: bool = False

    @property
    def rate(self) -> float:
        """Work done per second."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate, None before anything is known of it."""
        return (self.known - self.done) / self.rate if self.rate > 0 else None


@attrs.frozen
class StreamProgress:
    """How far a stream is, after a batch.

    Attributes:
        name: of the DoFns.
        batch: number of the last batch that was committed.
        batches: how many this call committed.
        records: how many records that batch had.
        all_records: how many records all of this call had.
        backlog: how many work items are due.
        watermark: the last one, None if there are no estimators.
        lag_seconds: how long after the watermark it is now, where that is in seconds since the epoch; else None.
        seconds: how long that batch took, its sink included.
        ended: whether this is the last of a call.
    """

    name: str
    batch: int
    batches: int
    records: int
    all_records: int
    backlog: int
    watermark: Any
    lag_seconds: float | None
    seconds: float
    ended: bool = False
