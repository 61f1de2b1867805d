"""data_source: a DoFn as a data source of Spark SQL, so that ``spark.read.format("sdf")`` reads through it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from pyspark import SparkContext
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from sdf.errors import InvalidTypeError, show
from sdf.model.dofn import DoFn, check_fn
from sdf.spark import serde
from sdf.spark.jobs import slot_counter
from sdf.spark.source.batch_reader import BatchReader
from sdf.spark.source.chain import Chain, Settings

__all__ = ["SdfDataSource", "data_source"]


def data_source(
    fns: DoFn | Sequence[DoFn],
    schema: str | StructType,
    *,
    name: str = "sdf",
    elements: Iterable[Any] | None = None,
) -> type[SdfDataSource]:
    """Return a data source that reads through a DoFn, for ``spark.dataSource.register``.

    The elements are the paths of the read, ``.load("logs/*.txt")``; or its option ``elements``, a JSON list, in which a
    list stands for a tuple; or else those given here. Readers of files get their paths through `MatchFiles`.

    Args:
        fns: a DoFn, or a chain of them, such as ``[WatchFiles(), TailLines()]``: the outputs of one are the elements of
            the next. Only the last one is run on the executors, those before it where the query is planned.
        schema: of the records of the last one, as Spark has it: ``"id long, name string"``, or a `StructType`.
        name: of the format.
        elements: what is read where a read names nothing; anything that pickles.

    Returns:
        A class. It holds the DoFns as they are now, and how many slots Spark has now.

    Raises:
        InvalidTypeError, InvalidValueError: for wrong arguments.
        UnpicklableError: if a DoFn or the elements cannot be sent.

    Source: the Python data source API of Spark 4; it was tried with 4.3.
    """
    chain: list[Any] = list(fns) if isinstance(fns, Sequence) else [fns]
    if not chain:
        raise InvalidTypeError(f"data_source() needs a DoFn or a sequence of them (got {show(fns)}).")
    for fn in chain:
        check_fn(fn, None, "data_source()")
    if not isinstance(schema, (str, StructType)):
        raise InvalidTypeError(f"data_source() schema must be a string such as 'id long' (got {show(schema)}).")
    if not isinstance(name, str) or not name:
        raise InvalidTypeError(f"data_source() name must be a name such as 'sdf' (got {show(name)}).")
    if isinstance(elements, (str, bytes)) or not (elements is None or isinstance(elements, Iterable)):
        raise InvalidTypeError(f"data_source() elements must be a list of them (got {show(elements)}).")
    given = None if elements is None else serde.dumps(list(elements), "the elements of data_source()")
    sc = SparkContext._active_spark_context
    slots = (os.cpu_count() or 1) if sc is None else slot_counter(sc)()

    class BoundDataSource(SdfDataSource):  # of no importable name, so that it travels whole
        _chain = Chain.of(chain)
        _format_name, _schema, _elements, _slots = name, schema, given, slots

    return BoundDataSource


class SdfDataSource(DataSource):
    """What `data_source` returns a subclass of. Spark makes an instance per read, with its options.

    Options of a read: ``path`` (or `load`), ``elements``; ``numPartitions``, as many as Spark has slots unless given;
    and for streams ``maxSizePerTrigger``.
    """

    _chain: ClassVar[Chain]
    _format_name: ClassVar[str]
    _schema: ClassVar[str | StructType]
    _elements: ClassVar[bytes | None]
    _slots: ClassVar[int]

    @classmethod
    def name(cls) -> str:
        return cls._format_name

    def schema(self) -> StructType | str:
        return self._schema

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._chain, schema, self._settings())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, Spark's name
        from sdf.spark.source.stream_reader import StreamReader  # needs a later Spark than a batch does

        return StreamReader(self._chain, schema, self._settings())

    def _settings(self) -> Settings:
        return Settings.of(self.options, self._format_name, self._elements, self._slots)
