"""How receipts reach the driver: through an accumulator as each task ends; a missing one is read from its block.

The accumulator may lose or double a receipt (`sdf.spark.as_tasks_end`). If a task takes its executor along, nobody is
left to send one: the driver makes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from pyspark import RDD

from sdf.execution.work_items import Outcome
from sdf.quarantine.failures import KILLED, WITHDRAWN, Failure
from sdf.spark.staged.stored_blocks import Receipt, Stamp, receipt_of

__all__ = ["given_up", "materialise", "read_receipts"]


def materialise(rdd: RDD[Any]) -> Iterable[Receipt | None]:
    """Compute and store all blocks. Unlike RDD.count(), this does not send them to a second Python worker."""
    rdd._jrdd.count()
    return ()


def read_receipts(rdd: RDD[Any], tasks: list[int]) -> Iterable[Receipt | None]:
    """Return the receipts at the end of the stored blocks of some tasks; None for a block that was cut short."""
    return rdd.context.runJob(rdd, _last_receipt, tasks)


def _last_receipt(block: Iterable[Any]) -> list[Receipt | None]:
    return [receipt_of(block)]


def given_up(
    run_id: str, stage: int, tasks: Iterable[int], lost: int, tags: tuple[str, ...], error: BaseException
) -> list[Receipt]:
    """Return the receipts of the tasks that did not end, of a job that Spark gave up; that of the lost one first.

    Args:
        run_id, stage: of the job.
        tasks: these tasks.
        lost: the task that lost its executor each time that Spark tried it.
        tags: the declared tags.
        error: of the job.
    """
    receipts = []
    for task in sorted(tasks, key=lambda task: task != lost):  # while the lost one is entered, it had company
        failure = Failure(None, KILLED if task == lost else WITHDRAWN, f"its executor or worker was lost: {error}")
        stamp, counts = Stamp(run_id, stage, task, -1), (0,) * (1 + len(tags))
        receipts.append(Receipt(stamp, Outcome(0), counts, 0, "", time.time(), 0.0, failure=failure))
    return receipts
