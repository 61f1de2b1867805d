"""How receipts reach the driver: through an accumulator as each task ends; a missing one is read from its block.

The accumulator may lose or double a receipt (`sdf.spark.as_tasks_end`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark import RDD

from sdf.spark.staged.stored_blocks import Receipt, receipt_of

__all__ = ["materialise", "read_receipts"]


def materialise(rdd: RDD[Any]) -> Iterable[Receipt | None]:
    """Compute and store all blocks. Unlike RDD.count(), this does not send them to a second Python worker."""
    rdd._jrdd.count()
    return ()


def read_receipts(rdd: RDD[Any], tasks: list[int]) -> Iterable[Receipt | None]:
    """Return the receipts at the end of the stored blocks of some tasks; None for a block that was cut short."""
    return rdd.context.runJob(rdd, _last_receipt, tasks)


def _last_receipt(block: Iterable[Any]) -> list[Receipt | None]:
    return [receipt_of(block)]
