"""ArrowRows: the records of a DoFn as Arrow batches of a DataFrame's schema, or an error that names the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from itertools import count
from typing import Any

import attrs
import pyarrow  # type: ignore[import-untyped]
from pyspark.sql import Row
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DoubleType, FloatType, StringType, StructType, _make_type_verifier

from sdf.errors import InvalidTypeError, InvalidValueError, OutputError, show
from sdf.model.dofn import TaggedOutput
from sdf.sinks.columns import names_of
from sdf.spark.source.texts import Texts

__all__ = ["ArrowRows"]

_ROWS = 1024  # records in one Arrow batch: a task holds so many at a time
_ROWS_TOGETHER = 10_000  # that smaller batches are joined to, as in Spark's own: each costs the JVM about a millisecond


class ArrowRows:
    """Makes Arrow batches of records.

    A dict, a pyspark Row, an attrs class or a dataclass is taken by name, a tuple or a list by position; if the schema
    has one column, a record may be its value. Taken by name, a record may have fields that the schema lacks, which are
    dropped; columns that the record lacks are null. A `pyarrow.RecordBatch` must have all columns; they are cast if
    that loses nothing. A text in a column of numbers, truth values, dates or times is cast to its type.

    Args:
        schema: schema of the DataFrame.
        name: name of the DoFn, for messages.
        texts: how text is cast.
    """

    def __init__(self, schema: StructType, name: str, texts: Texts) -> None:
        self._schema = schema
        self._arrow = to_arrow_schema(schema, timezone="UTC")
        self._columns = schema.fieldNames()
        self._strings = [place for place, field in enumerate(schema.fields) if isinstance(field.dataType, StringType)]
        floats = (DoubleType, FloatType)
        self._floats = {place for place, field in enumerate(schema.fields) if isinstance(field.dataType, floats)}
        self._verify = _make_type_verifier(schema)  # as createDataFrame() does; the conversion alone would round
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
            table = self._table(records)
        except Exception:
            for record in records:
                try:
                    self._table([record])
                except (OutputError, InvalidTypeError, InvalidValueError):
                    raise
                except Exception as error:  # pyarrow's, or an assert of Spark's converters
                    raise self._misfit(record, f"{type(error).__name__}: {error}".rstrip(": ")) from error
            raise
        yield from table.to_batches()

    def _table(self, records: list[Any]) -> pyarrow.Table:
        rows = [self._row(record) for record in records]
        if self._from_text:
            rows = self._with_texts_cast(rows, records)
        if self._floats:
            rows = [tuple(map(self._as_float, count(), row)) for row in rows]
        for row in rows:
            self._verify(row)
        for place in self._strings:  # Spark would turn any value into a string
            for row, record in zip(rows, records, strict=True):
                if row[place] is not None and not isinstance(row[place], str):
                    raise self._misfit(record, f"column {self._columns[place]!r} is to be a string")
        return LocalDataToArrowConversion.convert(rows, self._schema, False)

    def _with_texts_cast(self, rows: list[tuple[Any, ...]], records: list[Any]) -> list[tuple[Any, ...]]:
        """Return rows with the values of texts in columns of other types, and null for the text that stands for it."""
        columns = list(zip(*rows, strict=True))
        for place in self._from_text:
            found = [row for row, value in enumerate(columns[place]) if type(value) is str]
            if found:
                texts = pyarrow.array([columns[place][row] for row in found], pyarrow.string())
                values, bad = self._texts.cast(texts, self._arrow[place].type)
                if bad:
                    raise self._misfit(records[found[bad[0]]], self._no_value(place, texts[bad[0]].as_py()))
                column = list(columns[place])
                for row, value in zip(found, values.to_pylist(), strict=True):
                    column[row] = value
                columns[place] = tuple(column)
        return list(zip(*columns, strict=True))

    def _no_value(self, place: int, text: str) -> str:
        return (
            f"column {self._columns[place]!r} must be of type {self._arrow[place].type} (got {text!r}). If that text "
            f"stands for null, name it in the option nullValue of the read; its option mode='PERMISSIVE' makes null of "
            f"all that is no value of its column"
        )

    def _as_float(self, place: int, value: Any) -> Any:
        """Return an integer in a float column as a float: Spark does not take integers there."""
        return float(value) if place in self._floats and type(value) is int else value

    def _row(self, record: Any) -> tuple[Any, ...]:
        """Return the values of a record, in the order of the columns."""
        if isinstance(record, TaggedOutput):
            raise OutputError(
                f"{self._name}.process() gave {show(record)}, but a data source reads the main output only. Read tags "
                f"with run_sdf(..., tags=({record.tag!r},))."
            )
        if isinstance(record, Mapping):
            return self._by_name(record, record.keys(), record.get)
        if isinstance(record, Row) and hasattr(record, "__fields__"):
            values = record.asDict()
            return self._by_name(record, values, values.get)
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
        """Return the columns of a batch that the schema names, cast to its types if they differ."""
        lacking = [name for name in self._columns if name not in batch.schema.names]
        if lacking:
            raise self._misfit(batch, f"it has no column {lacking[0]!r}; it has {show(batch.schema.names)}")
        chosen = batch.select(self._columns)
        for place in self._from_text:
            field = chosen.schema.field(place)
            if pyarrow.types.is_string(field.type):
                values, bad = self._texts.cast(chosen.column(place), self._arrow[place].type)
                if bad:
                    raise self._misfit(batch, self._no_value(place, chosen.column(place)[bad[0]].as_py()))
                chosen = chosen.set_column(place, field.name, values)
        try:
            return chosen if chosen.schema.equals(self._arrow) else chosen.cast(self._arrow)
        except (pyarrow.ArrowException, ValueError) as error:
            raise self._misfit(batch, f"{type(error).__name__}: {error}") from error

    def _misfit(self, record: Any, why: str) -> InvalidTypeError:
        what = f"record {show(record)}"
        if isinstance(record, pyarrow.RecordBatch):
            what = f"batch of Arrow ({', '.join(f'{field.name} {field.type}' for field in record.schema)})"
        return InvalidTypeError(
            f"{self._name}.process() gave the {what}, which does not fit the schema "
            f"{self._schema.simpleString()}: {why}. Give data_source() the schema that the records have, or yield "
            f"records that fit it."
        )


def _together(batches: list[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Yield batches as one; nothing for none."""
    if batches:
        yield from pyarrow.Table.from_batches(batches).combine_chunks().to_batches()
