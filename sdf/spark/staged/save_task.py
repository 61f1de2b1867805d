"""A task of a stage in a saved run: its records go to the sinks, and only its receipt goes to the driver."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from pyspark import Accumulator, TaskContext

from sdf.errors import BadRecordError
from sdf.execution.bundle import Bundle
from sdf.execution.timekeeper import Timekeeper
from sdf.execution.work_items import WorkItem
from sdf.limits.rate_limit import paced
from sdf.saving.segments import Targets, blame_record, write_segment
from sdf.scheduling.commit_interval import budget_of_retry
from sdf.spark.payload import Payload, marked
from sdf.spark.staged.stored_blocks import Receipt, Stamp
from sdf.spark.staged.task import Watch, worker_name

__all__ = ["SaveTask"]


class SaveTask:
    """Runs one task of a stage as one segment, and yields its receipt; a function for ``mapPartitionsWithIndex``.

    Args:
        payload: the run's DoFn.
        stage: number of the stage.
        targets: the sinks.
        min_piece_seconds: when the budget is spent, give back the remaining work only if it takes longer than this.
        receipts: brings the task's receipt to the driver as the task ends; None where the job itself does.
    """

    def __init__(
        self,
        payload: Payload,
        stage: int,
        targets: Targets,
        min_piece_seconds: float,
        receipts: Accumulator[list[Receipt]] | None = None,
    ) -> None:
        self._payload = payload
        self._stage = stage
        self._targets = targets
        self._min_piece_seconds = min_piece_seconds
        self._receipts = receipts

    def __call__(self, task: int, partition: Iterable[tuple[tuple[WorkItem, ...], float]]) -> Iterator[Receipt]:
        return marked(self._payload.run_id, self._run(task, partition))

    def _run(self, task: int, partition: Iterable[tuple[tuple[WorkItem, ...], float]]) -> Iterator[Receipt]:
        context = TaskContext.get()
        assert context is not None
        stamp = Stamp(self._payload.run_id, self._stage, task, context.taskAttemptId())
        ((items, budget_seconds),) = partition  # read to the end, else Spark does not reuse the worker
        fn, side_inputs = self._payload.load()
        wall, began = time.time(), time.monotonic()
        retries = context.attemptNumber()
        budget_seconds = budget_of_retry(budget_seconds, retries)
        bundle = Bundle(fn, items, side_inputs=side_inputs, clock=time.monotonic)
        timekeeper = Timekeeper(bundle, budget_seconds, self._min_piece_seconds, clock=time.monotonic)
        with Watch(timekeeper), paced(side_inputs):
            try:
                messages, records = write_segment(bundle.outputs(), self._targets, type(fn).__name__)
            except BadRecordError as error:
                raise blame_record(error, fn, bundle.held(), side_inputs) from error
        ended = time.monotonic()
        receipt = Receipt(
            stamp, bundle.outcome(), records, 0, worker_name(), wall, ended - began, messages,
            retries=retries, closing_seconds=ended - bundle.ended_at,
        )  # fmt: skip
        if self._receipts is not None:
            self._receipts.add([receipt])
        yield receipt
