"""What PySpark's RDDs are made of: pipelined functions, an RDD in the JVM, accumulators.

`PipelinedRDD` stands in ``pyspark.core.rdd`` from 4.0, in ``pyspark.rdd`` before. `RDD._jrdd` is made at the first use.
"""

from __future__ import annotations

import threading
from typing import Any, cast

from pyspark import RDD, Accumulator, accumulators

try:
    from pyspark.core.rdd import PipelinedRDD
except ImportError:  # before 4.0
    from pyspark.rdd import PipelinedRDD  # type: ignore[import-not-found, no-redef]

__all__ = ["Hooked", "PipelinedRDD", "compute", "forget", "use_serializer"]


class Hooked(RDD[Any]):
    """A base for kinds of RDDs that are told of the jobs that begin with them.

    PySpark pipelines functions that are applied to such an RDD into another one, so the JVM seldom sees it itself.

    Attributes:
        title: name of the RDD in Spark's UI, None for Spark's own.
    """

    title: str | None = None
    _making = threading.RLock()

    def job_begins(self) -> None:
        """Called before each job that begins with this RDD; what it raises keeps the job from beginning."""

    @property
    def _jrdd(self) -> Any:
        self.job_begins()
        with self._making:
            is_made = cast("Any", self)._jrdd_val is not None
            jrdd = super()._jrdd
            return jrdd if is_made or self.title is None else jrdd.setName(self.title)


def use_serializer(rdd: RDD[Any], serializer: Any) -> None:
    """Let workers write the records of an RDD with a serializer, and the driver read them."""
    rdd._jrdd_deserializer = serializer


def compute(rdd: RDD[Any]) -> None:
    """Compute all partitions. Unlike RDD.count(), this does not send the records to a second Python worker."""
    rdd._jrdd.count()


def forget(values: Accumulator[Any]) -> None:
    """Remove an accumulator from PySpark's registry, which would keep it for good."""
    accumulators._accumulatorRegistry.pop(values.aid, None)
