"""The progress of a run or a stream, while it runs."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["RunProgress", "StreamProgress", "is_terminal"]


@attrs.frozen
class RunProgress:
    """How far a run is.

    Attributes:
        name: the name of the DoFn.
        seconds: seconds since the run began; of `LiveRunner` without the time between two actions.
        done: work done, in the unit of `DoFn.restriction_size`; of `StagedRunner` by the tasks that have ended. When a
            lane's attempt is lost, its work no longer counts, because it is done again.
        known: all work, in the same unit; a work item of unknown size counts as 1, so each split of one adds to it.
        tasks_busy: how many tasks run now.
        slots: how many tasks could run at once; of `LiveRunner` the number of lanes.
        splits: how many splits there were so far.
        ended: whether this is the last report of a run (of `LiveRunner`: of an action), successful or not.
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
        """Seconds that the remaining work takes at this rate; None before any work is done."""
        return (self.known - self.done) / self.rate if self.rate > 0 else None


@attrs.frozen
class StreamProgress:
    """How far a stream is, after a batch.

    Attributes:
        name: the names of the DoFns.
        batch: number of the last committed batch.
        batches: how many batches this call has committed.
        records: how many records the last batch had.
        all_records: how many records all batches of this call had.
        backlog: how many work items are due.
        watermark: the current watermark; None if there are no estimators.
        lag_seconds: (now - watermark) if the watermark is in seconds since the epoch, else None.
        seconds: how long the last batch took, its sink included.
        ended: whether this is the last report of a call.
        behind_records: how many records are there that were not read yet, some seconds ago; None if no DoFn knows.
        behind_bytes: the same in bytes.
        late: how many records of all batches of this call came late, below the watermark.
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
    behind_records: int | None = None
    behind_bytes: int | None = None
    late: int = 0


def is_terminal(stream: Any) -> bool:
    """Tell whether a stream is a terminal; it may be None, closed, or any object that a program put there."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError, OSError):
        return False
