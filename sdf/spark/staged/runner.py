"""StagedRunner: its options. A run is in `sdf.spark.staged.run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from pyspark import RDD, StorageLevel

from sdf.errors import InvalidTypeError, InvalidValueError
from sdf.model.dofn import DoFn
from sdf.scheduling.factoring import Limits, Tuning
from sdf.spark.display import Display
from sdf.spark.options import count, positive, runner
from sdf.spark.payload import sending
from sdf.spark.staged.run import StagedRun

__all__ = ["StagedRunner"]

_FIRST_BUDGET_SECONDS = 0.5


@runner
@attrs.frozen(kw_only=True)
class StagedRunner:
    """Runs stages until no work is left, and splits what takes too long between them. The default of `run_sdf`.

    The defaults are right for most runs.

    Args:
        budget_seconds: no task runs longer than this before it splits, give or take a block. None: what a task was
            planned to take, which falls towards the end of the run.
        tasks_per_slot: how many tasks to keep in flight per slot; more than 1 leaves some in the queue, which is what
            makes dynamic allocation ask for executors.
        min_tasks: keep at least so many tasks in flight while there is work to cut for them.
        max_tasks: never more than so many, for instance to spare a database. None: as many as there are slots.
        max_items_per_stage: at most so many work items in one stage. None: no bound.
        min_piece_seconds: the smallest piece worth a task of its own; a task is not split for less either. Where
            starting a stage is seen to take longer than this, that is the smallest piece.
        storage_level: where the records of the stages are kept until they are used.

    Raises:
        InvalidValueError: for a number out of range, or ``min_tasks > max_tasks``.
        InvalidTypeError: for a storage level that is not one, or an option that there is not.
    """

    budget_seconds: float | None = positive(None)
    tasks_per_slot: int = count(1)
    min_tasks: int = count(1)
    max_tasks: int | None = count(None)
    max_items_per_stage: int | None = count(None)
    min_piece_seconds: float = positive(0.2)
    storage_level: StorageLevel = StorageLevel.MEMORY_AND_DISK

    def __attrs_post_init__(self) -> None:
        if self.max_tasks is not None and self.min_tasks > self.max_tasks:
            raise InvalidValueError(
                f"StagedRunner min_tasks must be <= max_tasks (got {self.min_tasks} and {self.max_tasks})."
            )
        if not isinstance(self.storage_level, StorageLevel) or self.storage_level == StorageLevel.NONE:
            raise InvalidTypeError(
                f"StagedRunner storage_level must be a StorageLevel that stores, such as StorageLevel.DISK_ONLY "
                f"(got {self.storage_level!r})."
            )

    def run(
        self,
        rdd: RDD[Any],
        fn: DoFn,
        side_inputs: Mapping[str, Any],
        tags: tuple[str, ...],
        display: Display | None,
    ) -> dict[str, RDD[Any]]:
        """Run all of it now and return one RDD per output, each with its ``report``. Called by `run_sdf`."""
        with sending(rdd.context, fn, side_inputs) as payload:
            run = StagedRun(
                rdd,
                fn,
                payload,
                tags,
                display,
                runner=type(self).__name__,
                tuning=Tuning(_FIRST_BUDGET_SECONDS, self.min_piece_seconds, self.budget_seconds),
                limits=Limits(self.min_tasks, self.max_tasks, self.max_items_per_stage),
                tasks_per_slot=self.tasks_per_slot,
                storage_level=self.storage_level,
            )
            return run.run()
