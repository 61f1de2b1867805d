"""A task of a stage in a saved run: its records go to the sinks, and only its receipt goes to the driver."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator

from pyspark import Accumulator, TaskContext

from sdf.errors import BadRecordError
from sdf.execution.timekeeper import Timekeeper
from sdf.execution.work_items import Outcome, WorkItem
from sdf.limits.rate_limit import paced
from sdf.quarantine.failures import Failure
from sdf.quarantine.options import Quarantine
from sdf.saving.segments import Targets, blame_record, write_segment
from sdf.scheduling.commit_interval import budget_of_retry
from sdf.spark.child import Child
from sdf.spark.payload import Payload, marked
from sdf.spark.staged.contained import attempts, bundle_of, convicting
from sdf.spark.staged.stored_blocks import Receipt, Stamp
from sdf.spark.staged.task import Watch, worker_name
from sdf.spark.task_start import task_starts

__all__ = ["SaveTask"]


class SaveTask:
    """Runs one task of a stage as one segment, and yields its receipt; a function for ``mapPartitionsWithIndex``.

    Args:
        payload: the run's DoFn.
        stage: number of the stage.
        targets: the sinks.
        min_piece_seconds: when the budget is spent, give back the remaining work only if it takes longer than this.
        receipts: brings the task's receipt to the driver as the task ends; None where the job itself does.
        quarantine: its options; None for a run without.
    """

    def __init__(
        self,
        payload: Payload,
        stage: int,
        targets: Targets,
        min_piece_seconds: float,
        receipts: Accumulator[list[Receipt]] | None = None,
        *,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._quarantine = quarantine
        self._payload = payload
        self._stage = stage
        self._targets = targets
        self._min_piece_seconds = min_piece_seconds
        self._receipts = receipts

    def __call__(self, task: int, partition: Iterable[tuple[tuple[WorkItem, ...], float]]) -> Iterator[Receipt]:
        task_starts()
        return marked(self._payload.run_id, self._run(task, partition))

    def _run(self, task: int, partition: Iterable[tuple[tuple[WorkItem, ...], float]]) -> Iterator[Receipt]:
        context = TaskContext.get()
        assert context is not None
        stamp = Stamp(self._payload.run_id, self._stage, task, context.taskAttemptId())
        ((items, budget_seconds),) = partition  # read to the end, else Spark does not reuse the worker
        wall, began, retries = time.time(), time.monotonic(), context.attemptNumber()

        def run(child: Child | None) -> Generator[Receipt, None, None]:
            fn, side_inputs = self._payload.load()
            bundle = bundle_of(fn, items, side_inputs, child)
            seconds = budget_of_retry(budget_seconds, retries)
            timekeeper = Timekeeper(bundle, seconds, self._min_piece_seconds, clock=time.monotonic)
            with Watch(timekeeper, bundle, child), paced(side_inputs), convicting(bundle, child):
                try:
                    messages, records = write_segment(bundle.outputs(), self._targets, type(fn).__name__)
                except BadRecordError as error:
                    raise blame_record(error, fn, bundle.held(), side_inputs) from error
            ended = time.monotonic()
            yield Receipt(
                stamp, bundle.outcome(), records, 0, worker_name(), wall, ended - began, messages,
                retries=retries, closing_seconds=ended - bundle.ended_at,
            )  # fmt: skip

        def failed(failure: Failure) -> Receipt:
            seconds, counts = time.monotonic() - began, (0,) * (1 + len(self._targets.tags))
            return Receipt(
                stamp, Outcome(0), counts, 0, worker_name(), wall, seconds, retries=retries, failure=failure
            )  # fmt: skip

        for receipt in attempts(run, self._quarantine, failed):
            if self._receipts is not None:
                self._receipts.add([receipt])
            yield receipt
