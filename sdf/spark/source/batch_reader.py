"""Finite reads of a data source.

Spark asks for the partitions of a read when it plans the query, in a Python process of its own beside the driver.
There the reader expands the elements, runs all DoFns but the last, and deals the last one's work out into partitions;
it cuts work that is too big for one. One task per partition then runs its parts to their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow  # type: ignore[import-untyped]
from pyspark.sql.types import StructType

from sdf.scheduling.even_shares import even_shares
from sdf.spark.door.data_sources import DataSourceReader, Filter, InputPartition
from sdf.spark.payload import telling
from sdf.spark.source.chain import Chain, Settings, expanded, finished, read, started
from sdf.spark.source.filters import ranges_of

__all__ = ["BatchReader", "FilteringReader"]


class BatchReader(DataSourceReader):
    """Reads finite work. Spark calls `partitions` once for each plan of a query, and `read` in each task."""

    def __init__(self, chain: Chain, schema: StructType, settings: Settings) -> None:
        self._chain = chain
        self._schema = schema
        self._settings = settings

    @telling()
    def partitions(self) -> Sequence[InputPartition]:
        with self._chain.set_up() as fns:
            work = started(fns, self._chain, self._settings, unbounded=False)
            for step, fn in enumerate(fns[:-1]):
                found = finished(fn, [one for one in work if one.step == step])
                work += [
                    one for element in found for one in expanded(fns[step + 1], step + 1, element, unbounded=False)
                ]
            last = [one for one in work if one.step == len(fns) - 1]
            return list(map(InputPartition, even_shares(fns[-1], last, self._settings.partitions)))

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read(self._chain, self._schema, self._settings.texts, partition)


class FilteringReader(BatchReader):
    """Reads less where the last DoFn has ``for_ranges()``. Spark applies all filters again, as ranges are coarse."""

    @telling()
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802, Spark's name
        self._chain = self._chain.within(ranges_of(filters, self._schema))
        return filters
