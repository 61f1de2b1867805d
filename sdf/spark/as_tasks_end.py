"""Values that the driver gets from each task as the task ends, before its job ends.

Spark updates accumulators on the driver as each task ends. But updates may be missing or doubled (SPARK-732,
SPARK-41497). So an accumulator is only the fast way: whoever uses it has another way to what is missing, and knows what
came twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import Accumulator, AccumulatorParam

from sdf.spark.door.rdds import forget

__all__ = ["AsTasksEnd"]


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
        forget(values)
