"""StagedRunner and its options; `sdf.spark.staged.run` is one run."""

from __future__ import annotations

import logging
from typing import Any

import attrs
from pyspark import StorageLevel

from sdf.errors import InvalidTypeError, InvalidValueError
from sdf.options import count, options, positive
from sdf.reporting.run_report import RunReport
from sdf.saving.saving import Saving
from sdf.scheduling.factoring import Limits, Tuning
from sdf.spark import broadcasts
from sdf.spark.call import Call
from sdf.spark.payload import sending
from sdf.spark.result import Result
from sdf.spark.staged.rate_limits import shared_by_tasks
from sdf.spark.staged.result import results
from sdf.spark.staged.run import StagedRun
from sdf.spark.staged.stage_jobs import StageJobs
from sdf.spark.staged.stages import Stages

__all__ = ["StagedRunner"]

log = logging.getLogger("sdf.staged")

_FIRST_BUDGET_SECONDS = 0.5


@options
@attrs.frozen(kw_only=True)
class StagedRunner:
    """Runs stages until no work is left, and splits stragglers between stages. The default of `run_sdf`.

    The defaults are right for most runs.

    Args:
        budget_seconds: a task splits after this many seconds, give or take a block. None: after the seconds that it
            was planned to take, which fall towards the end of the run.
        slots: how many tasks Spark can run at once. None: Spark is asked, or on Spark Connect its settings; where those
            do not tell, the run finds it out.
        tasks_per_slot: how many tasks to keep in flight per slot. With more than 1 some wait in Spark's queue, which
            makes dynamic allocation request executors.
        min_tasks: keep at least this many tasks in flight while there is work to cut for them.
        max_tasks: keep at most this many in flight, for example to spare a database. None: as many as there are slots.
        max_items_per_stage: the most work items in one stage. None: no bound.
        min_piece_seconds: estimated seconds of the smallest piece worth a task of its own; no task splits off less. If
            starting a stage measurably takes longer than this, that time is used instead.
        storage_level: where Spark keeps the records of the stages until they are read.

    Raises:
        InvalidValueError: for a number out of range, or ``min_tasks > max_tasks``.
        InvalidTypeError: for a storage level of the wrong type or that stores nothing, or an unknown option.
    """

    budget_seconds: float | None = positive(None)
    slots: int | None = count(None)
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

    def run(self, call: Call, tags: tuple[str, ...]) -> dict[str, Result[Any]]:
        """Run all of it now and return one RDD per output, each with its ``report``. Called by `run_sdf`."""
        sc = call.elements.context
        with sending(sc, call.fn, shared_by_tasks(call.side_inputs, self.max_tasks, sc, "StagedRunner")) as payload:
            level, quarantine = self.storage_level, call.quarantine
            jobs = StageJobs(sc, payload, call.name, tags=tags, storage_level=level, quarantine=quarantine)
            run = self.staged(jobs, call)
            report = run.run_stages()
            log.info("%s", report)
            return results(sc, payload, tags, run, report)

    def save(self, call: Call, saving: Saving) -> RunReport:
        """Run all that is not committed yet, and write its records to the sinks. Called by `save_sdf`."""
        sc = call.elements.context
        with sending(sc, call.fn, shared_by_tasks(call.side_inputs, self.max_tasks, sc, "StagedRunner")) as payload:
            jobs = StageJobs(sc, payload, call.name, targets=saving.targets, quarantine=call.quarantine)
            report = self.staged(jobs, call, saving).run_stages()
        broadcasts.free(payload.broadcast)
        return report

    def staged(self, jobs: Stages, call: Call, saving: Saving | None = None) -> StagedRun:
        """Return a run with these options; see `StagedRun`."""
        tuning = Tuning(_FIRST_BUDGET_SECONDS, self.min_piece_seconds, self.budget_seconds)
        limits = Limits(self.min_tasks, self.max_tasks, self.max_items_per_stage)
        return StagedRun(jobs, call, tuning, limits, self.slots, self.tasks_per_slot, saving)
