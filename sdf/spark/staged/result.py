"""The result of a run of stages: an RDD per output that reads the committed blocks, and its report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from pyspark import RDD, SparkContext

from sdf.quarantine.failures import FAILED
from sdf.reporting.run_report import RunReport
from sdf.spark import broadcasts
from sdf.spark.actions import InterruptiblePipelinedRDD
from sdf.spark.payload import Payload
from sdf.spark.result import Result
from sdf.spark.staged.contents import Content
from sdf.spark.staged.run import StagedRun
from sdf.spark.staged.stored_blocks import Receipt
from sdf.spark.staged.task import ReadCommitted

__all__ = ["StagedRDD", "results"]

_PARTITIONS_PER_SLOT = 3  # of the result, as Spark's tuning guide recommends
_SHORT_SECONDS = 15.0  # the result of a shorter run has one per slot: reading two more takes 140 ms, 1 % of this
_PARTITION_BYTES = 64 << 20  # more partitions, if their mean would be larger than this


def results(
    sc: SparkContext, payload: Payload, tags: tuple[str, ...], run: StagedRun, report: RunReport
) -> dict[str, Result[Any]]:
    """Return the RDD of each output, by its name.

    Args:
        sc: the SparkContext.
        payload: the DoFn as sent to workers, for replays of lost blocks.
        tags: the declared tags.
        run: the run, which has ended; with quarantine the blocks that it has set aside are the output "failed".
        report: its report.
    """
    stages, committed, failed = run.stages.blocks(), run.committed(), run.failed()
    names = ("main", *tags)
    aside = {} if failed is None else {FAILED: StagedRDD(sc.parallelize(failed, 1), _as_it_is, report, ())}
    if not committed:
        return {**{name: StagedRDD(sc.parallelize([], 1), _as_it_is, report, ()) for name in names}, **aside}
    receipts = [receipt for receipt, _ in committed]
    blocks = _together(sc.union(stages), receipts, report.slots, report.seconds)
    stamps = tuple(receipt.stamp for receipt in receipts)
    contents = broadcasts.send(sc, [Content.of(content) for _, content in committed])
    found: dict[str, Result[Any]] = {}
    for tag, name in enumerate(names):
        counts = tuple(receipt.counts[tag] for receipt in receipts)
        read = ReadCommitted(payload, stamps, counts, contents, tag, tags)
        found[name] = StagedRDD(blocks, read, report, tuple(stages))
    return {**found, **aside}


def _together(blocks: RDD[Any], receipts: list[Receipt], slots: int, seconds: float) -> RDD[Any]:
    """Return the blocks of all stages, several to a partition: reading one in a task of its own costs 10 ms."""
    size = sum(receipt.size for receipt in receipts)
    per_slot = _PARTITIONS_PER_SLOT if seconds >= _SHORT_SECONDS else 1
    partitions = max(per_slot * slots, math.ceil(size / _PARTITION_BYTES))
    return blocks.coalesce(partitions) if partitions < len(receipts) else blocks


class StagedRDD(InterruptiblePipelinedRDD, Result[Any]):
    """The records of one output of a run, with its `RunReport`."""

    def __init__(
        self,
        blocks: RDD[Any],
        read: Callable[[int, Iterable[Any]], Iterable[Any]],
        report: RunReport,
        stored: tuple[RDD[Any], ...],
    ) -> None:
        super().__init__(blocks, read)
        self._reported = lambda: report
        self._stored = stored

    def unpersist(self, blocking: bool = False) -> RDD[Any]:
        """Free the stages' blocks too; an action on the result after that replays the pinned parts."""
        for blocks in self._stored:
            blocks.unpersist(blocking)
        return super().unpersist(blocking)


def _as_it_is(partition: int, records: Iterable[Any]) -> Iterable[Any]:
    return records
