"""Outlets: where the records of a stage's task go: into the block that it leaves in Spark's storage, or to sinks."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from typing import Any

import attrs

from sdf.errors import BadRecordError
from sdf.execution.bundle import Bundle
from sdf.execution.timekeeper import Timekeeper
from sdf.model.dofn import DoFn
from sdf.saving.segments import Targets, blame_record, write_segment
from sdf.scheduling.commit_interval import budget_of_retry
from sdf.spark.staged.stored_blocks import batches

__all__ = ["Given", "Saved", "Stored"]


@attrs.frozen
class Given:
    """What a task has given.

    Attributes:
        counts: number of records of each output, the main output first.
        size: bytes of all its pickled records; 0 if they went to sinks.
        messages: what the sink of each output says.
    """

    counts: tuple[int, ...]
    size: int = 0
    messages: tuple[Any, ...] = ()


class Stored:
    """Records are stored, in batches.

    Args:
        tags: the declared tags.
        most: a number of records, and a number of bytes. A task that has given either has spent its budget.
    """

    stores = True  # the task leaves a block, which its stamp begins

    def __init__(self, tags: tuple[str, ...], most: tuple[float, float] = (math.inf, math.inf)) -> None:
        self.tags = tags
        self._most = most

    def budget_seconds(self, budget_seconds: float, retries: int) -> float:
        """Return the budget of an attempt; ``retries`` attempts came before it."""
        return budget_seconds

    def give(
        self, bundle: Bundle, fn: DoFn, side_inputs: Mapping[str, Any], timekeeper: Timekeeper
    ) -> Generator[Any, None, Given]:
        """Run the bundle; yield what goes into the block."""
        counts, size = [0] * (1 + len(self.tags)), 0
        for batch in batches(bundle.outputs(), self.tags, counts, type(fn).__name__):
            size += len(batch[1])
            if sum(counts) >= self._most[0] or size >= self._most[1]:
                timekeeper.end_budget()
            yield batch
        return Given(tuple(counts), size)


class Saved:
    """Records go to the sinks of a saved run; the task is one segment."""

    stores = False

    def __init__(self, targets: Targets) -> None:
        self.tags = targets.tags
        self._targets = targets

    def budget_seconds(self, budget_seconds: float, retries: int) -> float:
        """See `Stored.budget_seconds`."""
        return budget_of_retry(budget_seconds, retries)

    def give(
        self, bundle: Bundle, fn: DoFn, side_inputs: Mapping[str, Any], timekeeper: Timekeeper
    ) -> Generator[Any, None, Given]:
        """Run the bundle; nothing goes into a block."""
        yield from ()
        try:
            messages, counts = write_segment(bundle.outputs(), self._targets, type(fn).__name__)
        except BadRecordError as error:
            raise blame_record(error, fn, bundle.held(), side_inputs) from error
        return Given(counts, 0, messages)
