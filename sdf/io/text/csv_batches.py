"""The rows of CSV as Arrow batches.

pyarrow parses several times as fast as Python's parser, but takes for good what that refuses, such as letters after the
quote that ends a field. So it gets only lines in which every quote is where one belongs. Python's parser has the rest,
and whatever pyarrow refuses: it finds the row, and says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs

from sdf.extras import Library

__all__ = ["CsvColumns", "Misfit", "Texts"]

arrow = Library("pyarrow", "ReadCsv")
csv = Library("pyarrow.csv", "ReadCsv")


class Texts(Protocol):
    """Casts texts to the types of columns."""

    def casts_to(self, kind: Any) -> bool:
        """Return whether there are texts that cast to a `pyarrow.DataType`."""

    def cast(self, texts: Any, kind: Any) -> tuple[Any, list[int]]:
        """Return a `pyarrow.Array` of a type for one of strings, and the rows of those that do not cast."""


@attrs.frozen
class Misfit:
    """A text that is no value of its column.

    Attributes:
        column: name of the column.
        kind: the type of the column, a `pyarrow.DataType`.
        text: the text; None where a column that is not to be null has no value.
    """

    column: str
    kind: Any
    text: str | None

    def __str__(self) -> str:
        return f"column {self.column!r} must be of type {self.kind} (got {self.text!r})"


@attrs.frozen
class CsvColumns:
    """The columns of batches.

    Attributes:
        names: their names.
        schema: their `pyarrow.Schema`; None: all are strings.
        texts: casts the strings to the types of the schema; None without a schema.
    """

    names: tuple[str, ...]
    schema: Any = None
    texts: Texts | None = None

    def parsed(self, data: bytes, names: Sequence[str], dialect: Mapping[str, Any]) -> Any:
        """Return the columns of lines as strings, parsed by pyarrow; None if it might not give what Python gives.

        Args:
            data: whole lines in UTF-8.
            names: names of all columns of the lines.
            dialect: as for `csv.reader`.
        """
        if not _agrees(data, dialect):
            return None
        try:
            table = csv.read_csv(
                arrow.BufferReader(data),
                csv.ReadOptions(use_threads=False, block_size=len(data), column_names=names),  # a task has one core
                csv.ParseOptions(delimiter=dialect["delimiter"], quote_char=dialect["quotechar"] or False),
                csv.ConvertOptions(include_columns=self.names, column_types=dict.fromkeys(self.names, arrow.string())),
            )
        except arrow.ArrowInvalid:  # such as another number of fields, or no row at all
            return None
        return table.combine_chunks().to_batches()[0] if table.num_rows else None

    def of_rows(self, rows: Sequence[Sequence[str]], names: Sequence[str]) -> Any:
        """Return the columns of parsed rows as strings."""
        places = {name: place for place, name in enumerate(names)}
        return arrow.RecordBatch.from_arrays(
            [arrow.array([row[places[name]] for row in rows], arrow.string()) for name in self.names], self.names
        )

    def cast(self, batch: Any) -> tuple[Any, dict[int, Misfit]]:
        """Return a batch of strings in the types of the schema, and by their rows the first texts that do not cast."""
        if self.schema is None or self.texts is None:
            return batch, {}
        columns: list[Any] = []
        misfits: dict[int, Misfit] = {}
        for field in self.schema:
            texts = batch.column(field.name)
            values, bad = self.texts.cast(texts, field.type)
            if not field.nullable and values.null_count:
                bad = [row for row, value in enumerate(values) if not value.is_valid]
            for row in bad:
                misfits.setdefault(row, Misfit(field.name, field.type, texts[row].as_py()))
            columns.append(values)
        if misfits:
            return None, misfits
        return arrow.RecordBatch.from_arrays(columns, schema=self.schema), {}


def _agrees(data: bytes, dialect: Mapping[str, Any]) -> bool:
    """Return whether pyarrow gives for lines, if it does not refuse them, the rows of Python's parser."""
    separator, quote = dialect["delimiter"], dialect["quotechar"]
    if not separator.isascii() or dialect["escapechar"] is not None or dialect["skipinitialspace"]:
        return False
    if b"\0" in data or data.count(b"\r") != data.count(b"\r\n"):
        return False
    if quote is None or quote.encode() not in data:
        return quote is None or bool(quote.isascii())
    if not quote.isascii() or not dialect["doublequote"]:
        return False
    pieces = data.split(quote.encode())  # in turn outside of quotes and inside; "" is none outside, inside a field
    outside, inside = pieces[::2], pieces[1::2]
    if len(outside) == len(inside) or any(b"\n" in piece for piece in inside):
        return False
    around = {b"", b"\n", separator.encode()}
    return {piece[-1:] for piece in outside[:-1]} <= around and {piece[:1] for piece in outside[1:]} <= around | {b"\r"}
