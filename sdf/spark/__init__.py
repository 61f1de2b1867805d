"""The runners on Spark, and the only package of sdf that names pyspark.

`run` hands an RDD of elements to a runner. A Spark job on the workers expands it into work items
(`expansion_job`).

- `staged`: stages of tasks. A task that has spent its budget gives back the rest, which joins a later stage.
- `live`: one Spark job of lanes, which split stragglers while they run (`sdf.lanes`).
- `stream`: `stream_sdf`, micro-batches with a journal.
- `source`: a DoFn as a data source of Spark SQL.
- `shipping`: `ship`, which sends sdf to workers that do not have it.

`broadcasts` frees what a run has sent when nobody can use it any more; `actions` are the RDDs that runners return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdf.spark.shipping.ship import Shipped, ship

__all__ = ["Shipped", "ship"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # on first use, so that a worker that imports one module of this package imports no other
        from sdf.spark.shipping import ship as module

        return getattr(module, name)
    raise AttributeError(f"module 'sdf.spark' has no attribute {name!r}")
