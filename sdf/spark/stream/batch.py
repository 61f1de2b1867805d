"""Batch: what the sink of a stream gets. Its records are there until the sink returns; later use is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
from pyspark import RDD

from sdf.errors import StageError
from sdf.quarantine.failures import FailedBlock
from sdf.spark.door.rdds import Hooked, PipelinedRDD

__all__ = ["Batch", "BatchRDD", "Life"]


@attrs.frozen
class Batch:
    """What the sink of a stream gets.

    Attributes:
        id: the number of the batch, from 1; after a crash the same records come again under the same number.
        rdd: the records of the main output, one partition per task, in the same order each time; kept until the sink
            returns.
        watermark: no record to come is older, in the unit of the estimators; None without estimators.
        key: names what the batch holds: the same when it comes again, another for any other batch. Numbers begin again
            with a new checkpoint, and go back with one that was restored from a copy; keys do neither.
        outputs: the records of each output: "main", and each tag, whichever DoFn of the chain gave them.
        lost: what the batch has lost, as texts; see ``fail_on_data_loss`` of the connectors.
        failures: the blocks that were set aside (``on_failure=Quarantine()``); there may be some without any records.
    """

    id: int
    rdd: RDD[Any]
    watermark: Any
    key: str
    outputs: Mapping[str, RDD[Any]]
    lost: tuple[str, ...] = ()
    failures: tuple[FailedBlock, ...] = ()


@attrs.define
class Life:
    """How long the records of a batch are there."""

    batch: int
    is_over: bool = False


class BatchRDD(Hooked, PipelinedRDD[Any, Any]):
    """The records of a batch, or what a function makes of each partition of them.

    Args:
        before: what the function is applied to.
        function: as for `mapPartitionsWithIndex`.
        life: how long the records are there.
    """

    def __init__(
        self, before: RDD[Any], function: Callable[..., Iterable[Any]], life: Life, *, keeps_partitioning: bool = False
    ) -> None:
        super().__init__(before, function, keeps_partitioning)
        self._life = life

    def mapPartitionsWithIndex(  # noqa: N802, the name is Spark's; map, filter and others go through it
        self,
        f: Callable[[int, Iterable[Any]], Iterable[Any]],
        preservesPartitioning: bool = False,  # noqa: N803
    ) -> RDD[Any]:
        return BatchRDD(self, f, self._life, keeps_partitioning=preservesPartitioning)

    def job_begins(self) -> None:
        if self._life.is_over:
            raise StageError(
                f"the records of batch {self._life.batch} were used when that batch was over: they are kept until "
                f"foreach_batch returns. Save or collect them in foreach_batch, and wait there for threads that do."
            )
