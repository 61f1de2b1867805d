"""How receipts reach the driver: through an accumulator as each task ends; a missing one is read from its block.

The accumulator may lose or double a receipt (`sdf.spark.as_tasks_end`). If a task takes its executor along, nobody is
left to send one: the driver makes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from pyspark import RDD

from sdf.quarantine.failures import KILLED, WITHDRAWN, Failure
from sdf.spark.door.rdds import compute
from sdf.spark.staged.stored_blocks import Receipt, Stamp, receipt_of

__all__ = ["given_up", "materialise", "read_receipts"]


def materialise(rdd: RDD[Any]) -> Iterable[Receipt | None]:
    """Compute and store all blocks. Unlike RDD.count(), this does not send them to a second Python worker."""
    compute(rdd)
    return ()


def read_receipts(rdd: RDD[Any], tasks: list[int]) -> Iterable[Receipt | None]:
    """Return the receipts at the end of the stored blocks of some tasks; None for a block that was cut short."""
    return rdd.context.runJob(rdd, lambda block: [receipt_of(block)], tasks)


def given_up(
    run_id: str, stage: int, tasks: Iterable[int], lost: int, tags: tuple[str, ...], error: BaseException
) -> list[Receipt]:
    """Return the receipts of those tasks of a job that had not ended when Spark gave it up. The lost one comes first.

    Args:
        run_id, stage: of the job.
        tasks: these tasks.
        lost: the task that lost its executor each time that Spark tried it.
        tags: the declared tags.
        error: of the job.
    """
    began, said = time.time(), f"its executor or worker was lost: {error}"
    receipts = []
    for task in sorted(tasks, key=lambda task: task != lost):  # as long as others are in flight, it had company
        failure = Failure(None, KILLED if task == lost else WITHDRAWN, said)
        receipts.append(Receipt.failed(failure, Stamp(run_id, stage, task, -1), tags, "", began, 0.0))
    return receipts
