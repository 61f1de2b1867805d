"""ArrowRows: the records of a DoFn as Arrow batches of a DataFrame's schema, or an error that names the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

import attrs
import pyarrow  # type: ignore[import-untyped]
from pyspark.sql.types import ArrayType, StructType

from sdf.errors import InvalidTypeError, OutputError, show
from sdf.model.dofn import TaggedOutput
from sdf.sinks.arrays import as_array, batch_of
from sdf.sinks.casts import fitted, stored
from sdf.sinks.columns import Misfit, names_of, twice
from sdf.spark.door.arrow import arrow_schema
from sdf.spark.source.texts import Texts

__all__ = ["ArrowRows"]

_ROWS = 1024  # records in one Arrow batch: a task holds so many at a time
_ROWS_TOGETHER = 10_000  # that smaller batches are joined to, as in Spark's own: each costs the JVM about a millisecond


class ArrowRows:
    """Makes Arrow batches of records.

    A dict, a pyspark Row, a named tuple, an attrs class or a dataclass is taken by name, another tuple or a list by
    position; if the schema has one column, a record may be its value. Taken by name, a record may have fields that the
    schema lacks, which are dropped; columns that the record lacks are null. A `pyarrow.RecordBatch` must have all
    columns. A text in a column of numbers, truth values, dates or times is cast to its type. Apart from that, a column
    takes what the columns of a sink take: what it cannot hold without loss does not fit.

    Args:
        schema: schema of the DataFrame.
        name: name of the DoFn, for messages.
        texts: how text is cast.
    """

    def __init__(self, schema: StructType, name: str, texts: Texts) -> None:
        self._schema = schema
        self._arrow = arrow_schema(schema)
        self._columns = schema.fieldNames()
        self._lists_are_values = len(schema.fields) == 1 and isinstance(schema.fields[0].dataType, ArrayType)
        self._name = name
        self._texts = texts
        self._from_text = [place for place, field in enumerate(self._arrow) if texts.matter_in(field.type)]

    def batches(self, records: Iterable[Any]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the batches of records, in their order.

        Raises:
            InvalidTypeError, InvalidValueError: for a record that does not fit the schema.
            OutputError: for a record with a tag.
        """
        rows: list[Any] = []
        small: list[pyarrow.RecordBatch] = []  # cast, and not yielded yet
        for record in records:
            if isinstance(record, pyarrow.RecordBatch):
                yield from self._made(rows)
                rows = []
                small.append(self._cast(record))
                if sum(batch.num_rows for batch in small) < _ROWS_TOGETHER:
                    continue
            else:
                rows.append(record)
                if len(rows) < _ROWS and not small:
                    continue
            yield from _together(small)
            small = []
            if len(rows) == _ROWS:
                yield from self._made(rows)
                rows = []
        yield from _together(small)
        yield from self._made(rows)

    def _made(self, records: list[Any]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the Arrow batches of single records; raise an error that names the record if one does not fit."""
        if not records:
            return
        try:
            yield self._batch(records)
        except Misfit:
            for record in records:
                try:
                    self._batch([record])
                except Misfit as misfit:
                    raise self._misfit(record, _said(misfit)) from misfit
            raise

    def _batch(self, records: list[Any]) -> pyarrow.RecordBatch:
        columns: list[Sequence[Any]] = list(zip(*map(self._row, records), strict=True))
        return batch_of(self._with_texts_cast(columns, records), self._arrow)

    def _with_texts_cast(self, columns: list[Sequence[Any]], records: list[Any]) -> list[Sequence[Any]]:
        """Return columns with the values of texts in those of other types, and null for the text that stands for it."""
        for place in self._from_text:
            found = [row for row, value in enumerate(columns[place]) if type(value) is str]
            if found:
                field = pyarrow.field(self._columns[place], pyarrow.string())
                texts = as_array([columns[place][row] for row in found], field, field.name)
                values, bad = self._texts.cast(texts, self._arrow[place].type)
                if bad:
                    raise self._misfit(records[found[bad[0]]], self._no_value(place, texts[bad[0]].as_py()))
                column = list(columns[place])
                for row, text, value in zip(found, texts, values, strict=True):
                    try:
                        column[row] = value.as_py()
                    except (OverflowError, ValueError) as error:  # a time that Arrow has and Python has not
                        raise self._misfit(records[row], f"{self._no_value(place, text.as_py())} ({error})") from error
                columns[place] = column
        return columns

    def _no_value(self, place: int, text: str) -> str:
        return (
            f"column {self._columns[place]!r} must be of type {self._arrow[place].type} (got {text!r}). If that text "
            f"stands for null, name it in the option nullValue of the read; its option mode='PERMISSIVE' makes null of "
            f"all that is no value of its column"
        )

    def _row(self, record: Any) -> tuple[Any, ...]:
        """Return the values of a record, in the order of the columns."""
        if isinstance(record, TaggedOutput):
            raise OutputError(
                f"{self._name}.process() gave {show(record)}, but a data source reads the main output only. Read tags "
                f"with run_sdf(..., tags=({record.tag!r},))."
            )
        if isinstance(record, Mapping):
            return self._by_name(record, record.keys(), record.get)
        if isinstance(record, tuple) and (hasattr(record, "_fields") or hasattr(record, "__fields__")):
            names = names_of(record)
            if len(set(names)) < len(names):
                raise self._misfit(record, f"it has two fields of the name {twice(names)!r}")
            return self._by_name(record, names, dict(zip(names, record, strict=True)).get)
        if isinstance(record, tuple) or (isinstance(record, list) and not self._lists_are_values):
            if len(record) != len(self._columns):
                raise self._misfit(record, f"it has {len(record)} values")
            return tuple(record)
        if attrs.has(type(record)) or is_dataclass(record):
            return self._by_name(record, names_of(record), lambda name: getattr(record, name, None))
        if len(self._columns) != 1:
            raise self._misfit(record, "it is one value")
        return (record,)

    def _by_name(self, record: Any, names: Iterable[str], get: Callable[[str], Any]) -> tuple[Any, ...]:
        if self._columns and not set(self._columns).intersection(names):
            raise self._misfit(record, "it has none of the columns")
        return tuple(map(get, self._columns))

    def _cast(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return the columns of a batch that the schema names, in its types."""
        columns = []
        for place, field in enumerate(self._arrow):
            if batch.schema.names.count(field.name) != 1:
                has = "two columns" if field.name in batch.schema.names else "no column"
                raise self._misfit(batch, f"it has {has} {field.name!r}; it has {show(batch.schema.names)}")
            column = batch.column(field.name)
            given = stored(batch.schema.field(field.name)).type
            if place in self._from_text and given in (pyarrow.string(), pyarrow.large_string()):
                texts = column.cast(pyarrow.string())
                column, bad = self._texts.cast(texts, field.type)
                if bad:
                    raise self._misfit(batch, self._no_value(place, texts[bad[0]].as_py()))
            try:
                columns.append(fitted(column, field, field.name))
            except Misfit as misfit:
                raise self._misfit(batch, _said(misfit)) from misfit
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._arrow)

    def _misfit(self, record: Any, why: str) -> InvalidTypeError:
        what = f"record {show(record)}"
        if isinstance(record, pyarrow.RecordBatch):
            what = f"batch of Arrow ({', '.join(f'{field.name} {field.type}' for field in record.schema)})"
        return InvalidTypeError(
            f"{self._name}.process() gave the {what}, which does not fit the schema "
            f"{self._schema.simpleString()}: {why}. Give data_source() the schema that the records have, or yield "
            f"records that fit it."
        )


def _said(misfit: Misfit) -> str:
    return f"in field {misfit.path!r} {show(misfit.value)} {misfit.flaw}"


def _together(batches: list[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Yield batches as one; nothing for none."""
    if batches:
        yield from pyarrow.Table.from_batches(batches).combine_chunks().to_batches()
