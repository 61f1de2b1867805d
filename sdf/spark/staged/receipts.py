"""How receipts reach the driver: through an accumulator as each task ends; a missing one is read from its block.

Spark updates accumulators on the driver as each task ends, before the stage ends. But updates may be missing or doubled
(SPARK-732, SPARK-41497). So the accumulator is only the fast way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark import RDD, Accumulator, AccumulatorParam, accumulators

from sdf.spark.staged.stored_blocks import Receipt, receipt_of

__all__ = ["ReceiptParam", "materialise", "read_receipts"]


class ReceiptParam(AccumulatorParam[list[Receipt]]):
    """Collects receipts on a worker; on the driver, passes on those of each task as Spark adds them."""

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
        """Remove the accumulator from PySpark, which would keep it and the run; later receipts are dropped."""
        self._deliver = lambda receipt: None
        accumulators._accumulatorRegistry.pop(receipts.aid, None)


def materialise(rdd: RDD[Any]) -> Iterable[Receipt | None]:
    """Compute and store all blocks. Unlike RDD.count(), this does not send them to a second Python worker."""
    rdd._jrdd.count()
    return ()


def read_receipts(rdd: RDD[Any], tasks: list[int]) -> Iterable[Receipt | None]:
    """Return the receipts at the end of the stored blocks of some tasks; None for a block that was cut short."""
    return rdd.context.runJob(rdd, _last_receipt, tasks)


def _last_receipt(block: Iterable[Any]) -> list[Receipt | None]:
    return [receipt_of(block)]
