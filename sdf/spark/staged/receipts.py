"""How receipts reach the driver: as each task ends through an accumulator, and if one is missing, from its block.

Spark adds accumulators up on the driver whenever a task ends, which is sooner than the stage ends. It promises little
about them: they may count too little (SPARK-732, SPARK-41497) or twice. So they are only the fast way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark import RDD, Accumulator, AccumulatorParam, accumulators

from sdf.spark.staged.stored_blocks import Receipt, receipt_of

__all__ = ["ReceiptParam", "materialise", "read_receipts"]


class ReceiptParam(AccumulatorParam[list[Receipt]]):
    """Accumulates receipts on a worker; on the driver, where Spark adds them up as each task ends, passes them on."""

    def __init__(self, deliver: Callable[[Receipt], None] | None) -> None:
        self._deliver = deliver

    def __reduce__(self) -> Any:
        return ReceiptParam, (None,)

    def zero(self, value: list[Receipt]) -> list[Receipt]:
        return []

    def addInPlace(self, value1: list[Receipt], value2: list[Receipt]) -> list[Receipt]:  # noqa: N802, Spark's name
        if self._deliver is None:
            return value1 + value2
        for receipt in value2:
            self._deliver(receipt)
        return value1

    def close(self, receipts: Accumulator[list[Receipt]]) -> None:
        """Forget the run and its accumulator, which PySpark would keep; what comes late for it is dropped there."""
        self._deliver = lambda receipt: None
        accumulators._accumulatorRegistry.pop(receipts.aid, None)


def materialise(rdd: RDD[Any]) -> Iterable[Receipt | None]:
    """Compute and store all blocks, without sending them to a second Python worker as RDD.count() would."""
    rdd._jrdd.count()
    return ()


def read_receipts(rdd: RDD[Any], tasks: list[int]) -> Iterable[Receipt | None]:
    """Return the receipts at the end of the stored blocks of some tasks, None for one that was cut short."""
    return rdd.context.runJob(rdd, _last_receipt, tasks)


def _last_receipt(block: Iterable[Any]) -> list[Receipt | None]:
    return [receipt_of(block)]
