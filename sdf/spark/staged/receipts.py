"""How receipts reach the driver: through an accumulator as each task ends; a missing one is read from its block.

Spark updates accumulators on the driver as each task ends, before the stage ends. But updates may be missing or doubled
(SPARK-732, SPARK-41497). So the accumulator is only the fast way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark import RDD, Accumulator, AccumulatorParam, accumulators

from sdf.spark.staged.stored_blocks import Receipt, receipt_of

__all__ = ["AsTasksEnd", "materialise", "read_receipts"]


class AsTasksEnd(AccumulatorParam[list[Any]]):
    """Collects values on a worker; on the driver, passes on those of each task as Spark adds them."""

    def __init__(self, deliver: Callable[[Any], None] | None) -> None:
        self._deliver = deliver

    def __reduce__(self) -> Any:
        return AsTasksEnd, (None,)

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802, Spark's name
        if self._deliver is None:
            return value1 + value2
        for value in value2:
            self._deliver(value)
        return value1

    def close(self, values: Accumulator[list[Any]]) -> None:
        """Remove the accumulator from PySpark, which would keep it and the run; later values are dropped."""
        self._deliver = lambda value: None
        accumulators._accumulatorRegistry.pop(values.aid, None)


def materialise(rdd: RDD[Any]) -> Iterable[Receipt | None]:
    """Compute and store all blocks. Unlike RDD.count(), this does not send them to a second Python worker."""
    rdd._jrdd.count()
    return ()


def read_receipts(rdd: RDD[Any], tasks: list[int]) -> Iterable[Receipt | None]:
    """Return the receipts at the end of the stored blocks of some tasks; None for a block that was cut short."""
    return rdd.context.runJob(rdd, _last_receipt, tasks)


def _last_receipt(block: Iterable[Any]) -> list[Receipt | None]:
    return [receipt_of(block)]
