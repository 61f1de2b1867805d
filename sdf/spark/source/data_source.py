"""data_source: a DoFn as a data source of Spark SQL, so that ``spark.read.format("sdf")`` reads through it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from pyspark.sql.types import StructType

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.model.dofn import DoFn, check_fn
from sdf.numbers import as_integer, is_integer
from sdf.spark import serde
from sdf.spark.door.data_sources import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    hands_over_filters,
)
from sdf.spark.payload import telling
from sdf.spark.source.batch_reader import BatchReader, FilteringReader
from sdf.spark.source.chain import Chain, Settings
from sdf.spark.source.slots import Slots

__all__ = ["SdfDataSource", "data_source"]


def data_source(
    fns: DoFn | Sequence[DoFn],
    schema: str | StructType,
    *,
    name: str = "sdf",
    elements: Iterable[Any] | None = None,
    slots: int | None = None,
) -> type[SdfDataSource]:
    """Return a data source that reads through a DoFn, for ``spark.dataSource.register``.

    The elements are the paths of the read, ``.load("logs/*.txt")``, and those of its option ``elements``, a JSON list,
    where a list stands for a tuple. A read with neither gets the elements given here. Readers of files get their paths
    through `MatchFiles`.

    Args:
        fns: a DoFn, or a chain of them, such as ``[WatchFiles(), TailLines()]``: the outputs of one are the elements of
            the next. Only the last one runs on the executors; the others run where Spark plans the query.
        schema: schema of the last one's records: a string such as ``"id long, name string"``, or a `StructType`.
        name: name of the format.
        elements: elements for reads that name none; anything that pickles.
        slots: how many partitions a read has that does not say so in its option ``numPartitions``. None: Spark's number
            of slots when the class is registered; 32 where no SparkContext of this process tells, as on Spark Connect.

    Returns:
        A class. It holds the DoFns as they are now.

    Raises:
        InvalidTypeError, InvalidValueError: for wrong arguments.
        UnpicklableError: if a DoFn or the elements cannot be sent.

    Source: the Python data source API of Spark 4; tried with 4.3.
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
    number = None if slots is None else as_integer(slots)
    if number is not None and not is_integer(number):
        raise InvalidTypeError(f"data_source() slots must be an integer, or None (got {show(slots)}).")
    if number is not None and number < 1:
        raise InvalidValueError(f"data_source() slots must be >= 1 (got {show(slots)}).")
    given = None if elements is None else serde.dumps(list(elements), "the elements of data_source()")

    class BoundDataSource(SdfDataSource):  # has no importable name, so it is pickled by value
        _chain = Chain.of(chain)
        _format_name, _schema, _elements, _slots = name, schema, given, Slots(number)

    return BoundDataSource


class SdfDataSource(DataSource):
    """The base of the classes that `data_source` returns. Spark makes an instance per read, with the read's options.

    Options of a read: ``path`` (or `load`); ``elements``; ``numPartitions``, by default the slots of `data_source`; for
    streams ``maxSizePerTrigger``.
    """

    _chain: ClassVar[Chain]
    _format_name: ClassVar[str]
    _schema: ClassVar[str | StructType]
    _elements: ClassVar[bytes | None]
    _slots: ClassVar[Slots]

    @classmethod
    def name(cls) -> str:
        return cls._format_name

    def schema(self) -> StructType | str:
        return self._schema

    @telling()
    def reader(self, schema: StructType) -> DataSourceReader:
        settings = self._settings()
        kind = FilteringReader if hands_over_filters() else BatchReader
        return kind(self._chain.reading(schema, settings.texts), schema, settings)

    @telling()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, Spark's name
        from sdf.spark.source.stream_reader import StreamReader  # needs Spark 4.2, and says so

        settings = self._settings()
        return StreamReader(self._chain.reading(schema, settings.texts), schema, settings)

    def _settings(self) -> Settings:
        return Settings.of(self.options, self._format_name, self._elements, self._slots.number())
