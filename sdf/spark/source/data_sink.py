"""data_sink: a sink as a data source of Spark SQL to write to, so that ``df.write.format("sdf")`` fills it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import pyarrow  # type: ignore[import-untyped]
from pyspark.sql.types import StructType

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.sinks.sink import Place, Sink, SinkRun, Token
from sdf.spark import serde
from sdf.spark.door.arrow import arrow_schema
from sdf.spark.door.data_sources import DataSource, DataSourceArrowWriter, WriterCommitMessage
from sdf.spark.payload import telling

__all__ = ["SdfDataSink", "data_sink"]


def data_sink(sink: Sink, *, name: str = "sdf") -> type[SdfDataSink]:
    """Return a data source to write to, for ``spark.dataSource.register``; each write is one commit of a sink.

    ``df.write.format(name).mode("append").save()`` makes the rows visible all at once, or none of them. It begins anew
    after a crash; `save_sdf` goes on where it was. Parquet files, and tables of Delta and Iceberg that are not there
    yet, get the schema of the DataFrame, unless the sink has one. A sink that does not append needs an empty target.

    Args:
        sink: where the rows go.
        name: name of the format.

    Returns:
        A class.

    Raises:
        InvalidTypeError: if ``sink`` is no sink, or ``name`` no name.
        InvalidValueError: for a sink with ``on_error="tag"``: a write has no output for what does not fit.
        UnpicklableError: if the sink cannot be sent.

    Source: the Python data source API of Spark 4; tried with 4.3.
    """
    if not isinstance(sink, Sink):
        raise InvalidTypeError(f"data_sink() needs a sink, such as ParquetFiles('out') (got {show(sink)}).")
    if not isinstance(name, str) or not name:
        raise InvalidTypeError(f"data_sink() name must be a name such as 'sdf' (got {show(name)}).")
    if sink.rejects:
        raise InvalidValueError(
            f"data_sink() has no output for what does not fit, but {type(sink).__name__} has on_error='tag'. Leave it "
            f"out, or use save_sdf(), which has such an output."
        )
    pickled = serde.dumps(sink, type(sink).__name__)

    class BoundDataSink(SdfDataSink):  # has no importable name, so it is pickled by value
        _format_name, _sink = name, pickled

    return BoundDataSink


class SdfDataSink(DataSource):
    """The base of the classes that `data_sink` returns. Spark makes an instance per write. There are no options."""

    _format_name: ClassVar[str]
    _sink: ClassVar[bytes]

    @classmethod
    def name(cls) -> str:
        return cls._format_name

    @telling()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        sink: Sink = serde.loads(self._sink)
        if overwrite:
            raise InvalidValueError(
                f"{type(sink).__name__} adds to its target and replaces nothing. Write to the format "
                f"{self._format_name!r} with mode('append') (got mode('overwrite'))."
            )
        sink = sink.for_schema(arrow_schema(schema))
        token = Token(uuid.uuid4().hex, 0)
        sink.prepare(SinkRun(token, "main", resumed=False))
        return SinkWriter(sink, token)


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote: the message of the sink; None if there were no rows."""

    message: Any


class SinkWriter(DataSourceArrowWriter):
    """Writes the rows of one query: Spark calls `write` in each task, then `commit` or `abort` beside the driver."""

    def __init__(self, sink: Sink, token: Token) -> None:
        self._sink = sink
        self._token = token

    @telling()
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        filled = (batch for batch in iterator if batch.num_rows)
        records: Iterator[Any] = filled
        if not self._sink.takes_batches:
            records = chain.from_iterable(map(_rows, filled))
        return Written(self._sink.write(records, Place(self._token, "main", uuid.uuid4().hex)))

    @telling()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = [one.message for one in messages if isinstance(one, Written)]
        self._sink.commit([one for one in written if one is not None], self._token)
        self._sink.clean(self._token)

    @telling()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if messages and None not in messages:
            return  # all tasks have ended, so a commit has failed, which may have been made all the same
        self._sink.abort([one.message for one in messages if isinstance(one, Written)], self._token)


def _rows(batch: pyarrow.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch."""
    names = batch.schema.names
    columns = [_values(column) for column in batch.columns]
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _values(column: pyarrow.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return [_value(one, column.type) for one in values] if pyarrow.types.is_nested(column.type) else values


def _value(value: Any, kind: pyarrow.DataType) -> Any:
    """Return a value of Arrow with dicts for its maps, which are lists of pairs there."""
    if value is None:
        return None
    if pyarrow.types.is_map(kind):
        return {key: _value(one, kind.item_type) for key, one in value}
    if pyarrow.types.is_list(kind):
        return [_value(one, kind.value_type) for one in value]
    if pyarrow.types.is_struct(kind):
        return {field.name: _value(value[field.name], field.type) for field in kind}
    return value
