"""The interfaces of Python data sources: Spark has them from 4.0, filters from 4.1.

Before 4.1 Spark hands over no filters, so classes that nothing is an instance of stand for theirs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from sdf.spark.door.versions import DATA_SOURCES, need_spark

try:
    from pyspark.sql import datasource
except ImportError:
    need_spark(
        DATA_SOURCES,
        "sdf.spark.source, for data sources in Python,",
        "run_sdf() reads over a DataFrame or RDD of the elements, and save_sdf() writes to a sink, without it.",
    )
    raise

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

__all__ = [
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceStreamReader",
    "EqualNullSafe",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "InputPartition",
    "LessThan",
    "LessThanOrEqual",
    "StringStartsWith",
    "WriterCommitMessage",
    "hands_over_filters",
    "value_of",
]

if TYPE_CHECKING or hasattr(datasource, "Filter"):
    from pyspark.sql.datasource import (
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        LessThan,
        LessThanOrEqual,
        StringStartsWith,
    )
else:

    class Filter:
        """Stands for a filter."""

    EqualNullSafe = EqualTo = GreaterThan = GreaterThanOrEqual = In = LessThan = LessThanOrEqual = Filter
    StringStartsWith = Filter

_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def hands_over_filters() -> bool:
    """Return whether Spark plans a query in this process, and hands over its filters.

    Spark does where ``spark.sql.python.filterPushdown.enabled`` is set, and elsewhere refuses a reader that has
    `pushFilters`. The setting cannot be seen here, but Spark plans such queries in a worker of another module.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)  # without Spark's daemon the worker is the main module
    return _WORKER in sys.modules or (spec is not None and spec.name == _WORKER)


def value_of(partition: InputPartition | None) -> Any:
    """Return the value of a partition; None for that which Spark makes if there is none, which 4.0 gives as None."""
    return None if partition is None else partition.value
