"""ReadParquet: the rows of Parquet files, row group by row group; pyarrow reads them.

The footer of a Parquet file says where its row groups are. Every attempt reads the footer again, on a worker: if the
driver read it to plan a run, it would have to wait for thousands of footers.
"""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from typing import Any, cast

from sdf.errors import InvalidTypeError, ReadError, show
from sdf.extras import Library, need
from sdf.io.files.file_fn import FileRange, OpenedFn

__all__ = ["ReadParquet"]

arrow = Library("pyarrow", "ReadParquet")
types = Library("pyarrow.types", "ReadParquet")

_ROWS_OF_BATCH = 1 << 14
_SIGNATURE_BYTES = 28  # after the metadata in a signed footer: a nonce of 12 bytes and a tag of 16


class ReadParquet(OpenedFn):
    """Reads Parquet. Element: a path, `FileInfo` or `FileBlock`. Position: the first page of a row group's column 0.

    A row is a dict, as pyarrow makes it; a time of day with nanoseconds, which Python does not have, is an error. INT96
    times are in nanoseconds, or in microseconds in batches with a year that nanoseconds do not reach. A part owns the
    row groups that start in it. Memory holds the requested columns of one row group, as they are stored, and one batch
    of rows. An empty file has no rows. Encrypted files are an error, also if the footer and some columns are not
    encrypted.

    Args:
        columns: read only these, as pyarrow names them (``"a.b"`` is the field b of a); None: all.
        batches: yield `pyarrow.RecordBatch` of at most 16,384 rows instead of rows.
        with_position: yield ``((path, number of the row group), row or batch)``.
        options: as for `FileFn`: ``block_size``, ``storage_options``.

    Raises:
        InvalidTypeError: if ``columns`` are not names.
        MissingExtraError: if pyarrow is not installed.
        ReadError: when it runs, if a file is not Parquet, lacks a column, is encrypted, or cannot be read, or if a row
            would have two columns of one name.

    Source: the Apache Parquet format; the position of a row group is as in parquet-mr's splits.
    """

    _schema: Any = None  # of the batches; see for_schema()
    _ranges: Mapping[str, tuple[Any, Any, Any]] = {}

    def __init__(
        self,
        *,
        columns: Sequence[str] | None = None,
        batches: bool = False,
        with_position: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        need("pyarrow.parquet", "ReadParquet")
        self.columns = None if columns is None else _as_names(columns)
        self.batches = batches
        self.with_position = with_position

    def for_schema(self, schema: Any, texts: Any) -> ReadParquet:
        """Return a reader of the columns of a table in batches; called by `data_source` for each read.

        Args:
            schema: the `pyarrow.Schema` of the table.
            texts: of no use here.
        """
        if type(self).process is not ReadParquet.process or self.with_position:
            return self
        reader = copy.copy(self)
        reader.batches, reader._schema = True, schema
        if self.columns is None or set(schema.names) <= set(self.columns):
            reader.columns = schema.names
        return reader

    def for_ranges(self, ranges: Mapping[str, tuple[Any, Any]]) -> ReadParquet:
        """Return a reader that leaves out row groups without a row in a range; called by `data_source` for a query.

        Args:
            ranges: by the name of a column of the schema, its lowest and highest value; None where there is no bound.
        """
        if self._schema is None:
            return self
        reader = copy.copy(self)
        reader._ranges = {name: (self._schema.field(name).type, *bounds) for name, bounds in ranges.items()}
        return reader

    def _read(self, file: io.BufferedReader, part: FileRange, tracker: Any) -> Iterator[Iterable[Any]]:
        path = part.file.path
        with _blame(path):
            opening = partial(need("pyarrow.parquet", "ReadParquet").ParquetFile, file, page_checksum_verification=True)
            opened = opening()
            signed = _is_signed(file, opened.metadata)
        if signed:
            raise ReadError(f"{path} has encrypted columns, which ReadParquet cannot read. Write it without.")
        self._check_columns(path, opened)
        legacy = any(opened.schema.column(at).physical_type == "INT96" for at in range(len(opened.schema)))
        coarse = opening(coerce_int96_timestamp_unit="us") if legacy else None
        groups = [group for group in _row_groups(path, part.file.size, opened.metadata) if group[0] >= part.start]
        for at, number in tracker.claims(groups, position=lambda group: group[0]):
            if _is_outside(opened, number, self._ranges):
                continue
            with _blame(f"{path}: row group {number} at byte {at}"):
                batches = self._batches(opened, number)
                if coarse is not None:
                    batches = map(self._with_int96, batches, self._batches(coarse, number))
                wanted = found = opened.metadata.row_group(number).num_rows
                for batch in batches:
                    found -= batch.num_rows
                    outputs = [batch] if self.batches else _rows(batch)
                    yield zip(repeat((path, number)), outputs) if self.with_position else outputs
                if found:  # pyarrow ends early where a page seems to be none
                    raise ReadError(
                        f"it should have {wanted:,} rows, but {wanted - found:,} were read: the file is damaged."
                    )

    def _batches(self, file: Any, number: int) -> Iterator[Any]:
        options = {"columns": self.columns, "use_threads": False}  # a task has one core
        return cast(Iterator[Any], file.iter_batches(_ROWS_OF_BATCH, row_groups=[number], **options))

    def _with_int96(self, fine: Any, coarse: Any) -> Any:
        """Return a batch that is read in nanoseconds, with those of its INT96 columns in microseconds that need it."""
        schema = fine.schema
        columns = []
        for place, (field, column, other) in enumerate(zip(schema, fine.columns, coarse.columns, strict=True)):
            if column.type != other.type:
                column = _int96(field.name, column, other)
                wanted = None if self._schema is None else self._schema.field(field.name).type
                if wanted is not None and types.is_timestamp(wanted) and types.is_timestamp(column.type):
                    column = column.cast(arrow.timestamp(column.type.unit, wanted.tz))  # INT96 means UTC
                schema = schema.set(place, field.with_type(column.type))
            columns.append(column)
        return arrow.RecordBatch.from_arrays(columns, schema=schema)

    def _check_columns(self, path: str, file: Any) -> None:
        """Raise ReadError if a requested column is missing (pyarrow would ignore that), or a dict would lose one."""
        known = set(file.schema_arrow.names)
        for name in self.columns or ():
            if name not in known and not file.read_row_groups([], columns=[name]).num_columns:
                raise ReadError(f"{path} has no column {name!r}; it has {show(file.schema_arrow.names)}.")
        names = file.read_row_groups([], columns=self.columns).column_names
        if not self.batches and len(set(names)) < len(names):
            raise ReadError(
                f"{path} has two columns of one name, and a dict would lose one of them; it has {show(names)}. Read "
                f"it with batches=True."
            )


def _int96(name: str, fine: Any, coarse: Any) -> Any:
    """Return times as nanoseconds if these hold all of them, else as microseconds.

    Args:
        name: the name of the column.
        fine: its times in nanoseconds; those before 1677 or after 2262 have overflowed.
        coarse: its times in microseconds, whose fractions are cut.
    """
    try:
        coarse.cast(fine.type)
    except arrow.ArrowInvalid as error:
        if not _is_whole(fine, coarse):
            raise ValueError(
                f"the column {name!r} has INT96 times outside of the years 1677 to 2262 beside times with "
                f"nanoseconds, which no type of Arrow holds together. Write it without nanoseconds"
            ) from error
        return coarse
    return fine


def _is_whole(fine: Any, coarse: Any) -> bool:
    """Return whether no time in microseconds has lost a fraction: as nanoseconds it overflows to the same number."""
    if fine.type == coarse.type:
        return True  # none of INT96
    if types.is_struct(fine.type):
        return all(map(_is_whole, fine.flatten(), coarse.flatten()))
    if types.is_map(fine.type):
        return _is_whole(fine.keys, coarse.keys) and _is_whole(fine.items, coarse.items)
    if types.is_nested(fine.type):
        return _is_whole(fine.values, coarse.values)
    return bool(coarse.cast(fine.type, safe=False).equals(fine))


def _rows(batch: Any) -> list[dict[str, Any]]:
    """Return the rows of a batch. Python has no time of day with nanoseconds, and pyarrow would cut them in silence."""
    schema = arrow.schema([_in_microseconds(field) for field in batch.schema])
    if schema.types != batch.schema.types:
        return list(arrow.Table.from_batches([batch]).cast(schema).to_pylist())
    return list(batch.to_pylist())


def _in_microseconds(field: Any) -> Any:
    kind = field.type
    if types.is_time64(kind):
        kind = arrow.time64("us")
    elif types.is_struct(kind):
        kind = arrow.struct([_in_microseconds(kind.field(number)) for number in range(kind.num_fields)])
    elif types.is_map(kind):
        kind = arrow.map_(_in_microseconds(kind.key_field), _in_microseconds(kind.item_field))
    elif types.is_list(kind):
        kind = arrow.list_(_in_microseconds(kind.value_field))
    elif types.is_large_list(kind):
        kind = arrow.large_list(_in_microseconds(kind.value_field))
    elif types.is_fixed_size_list(kind):
        kind = arrow.list_(_in_microseconds(kind.value_field), kind.list_size)
    return field.with_type(kind)


def _is_signed(opened: Any, metadata: Any) -> bool:
    """Return whether a footer is unencrypted but signed, which means that columns are encrypted.

    pyarrow does not report this, and asking it for the position of an encrypted column crashes the process.
    """
    opened.seek(-8, os.SEEK_END)
    size = int.from_bytes(opened.read(4), "little")
    return bool(size == metadata.serialized_size + _SIGNATURE_BYTES)


def _row_groups(path: str, size: int, metadata: Any) -> list[tuple[int, int]]:
    """Return positions and numbers of the row groups that have rows, sorted by position.

    Raises:
        ReadError: if two have the same position, or a position is not in the file: no part would read that row group.
            Also if they have other rows in all than the file.
    """
    groups = [(metadata.row_group(number), number) for number in range(metadata.num_row_groups)]
    rows = sum(group.num_rows for group, _ in groups)
    if rows != metadata.num_rows:
        raise ReadError(
            f"{path}: its footer says that the file has {metadata.num_rows:,} rows, but that its row groups have "
            f"{rows:,} in all: the file is damaged."
        )
    found = sorted((_position(group.column(0)), number) for group, number in groups if group.num_rows)
    positions = [at for at, _ in found]
    if len(set(positions)) < len(positions) or not all(0 <= at < size for at in positions):
        raise ReadError(
            f"{path}: its footer says that the row groups start at the bytes {show(positions)}, but they must differ, "
            f"and the file has {size} bytes."
        )
    return found


def _position(column: Any) -> int:
    """Return the offset of the first page of a column chunk: the dictionary page, if there is one."""
    position: int = column.dictionary_page_offset or column.data_page_offset
    return position


def _is_outside(file: Any, number: int, ranges: Mapping[str, tuple[Any, Any, Any]]) -> bool:
    """Return whether no row of a row group has a value in the range of some column, as far as its statistics show.

    Args:
        file: a `pyarrow.parquet.ParquetFile`.
        number: the number of the row group.
        ranges: by the name of a column, the `pyarrow.DataType` that its values are cast to, and of these the lowest and
            the highest; None where there is no bound.
    """
    if not ranges:
        return False
    group = file.metadata.row_group(number)
    for place in range(group.num_columns):
        name = file.schema.column(place).name
        at = file.schema_arrow.get_field_index(name)  # -1 if two columns have it
        if at >= 0 and name in ranges and name == file.schema.column(place).path:  # else it is a field of a column
            kind, low, high = ranges[name]
            stored = file.schema_arrow.field(at).type
            if _keeps_order(stored, kind) and _lies_outside(group.column(place), stored, low, high):
                return True
    return False


def _keeps_order(stored: Any, kind: Any) -> bool:
    """Return whether values that are stored compare with a bound as the values that they are cast to."""
    return bool(stored == kind or (types.is_integer(stored) and types.is_integer(kind)))


def _lies_outside(column: Any, stored: Any, low: Any, high: Any) -> bool:
    found = column.statistics
    if found is None or not found.has_min_max:
        return False
    least, most = found.min, found.max
    nan_is_left_out = types.is_floating(stored)  # and is the greatest value in Spark
    if not nan_is_left_out and low is not None and type(most) is type(low) and most < low:
        return True
    return high is not None and type(least) is type(high) and bool(least > high)


@contextmanager
def _blame(what: str) -> Iterator[None]:
    """Raise the errors of pyarrow as ReadError that begins with ``what``."""
    try:
        yield
    except (OSError, ValueError, OverflowError) as error:  # pyarrow's errors, and dates outside of Python's range
        raise ReadError(f"{what} cannot be read as Parquet: {type(error).__name__}: {error}") from error


def _as_names(columns: Any) -> list[str]:
    if not isinstance(columns, (list, tuple)) or not all(isinstance(name, str) for name in columns):
        raise InvalidTypeError(f"ReadParquet columns must be a list of names, such as ['id'] (got {show(columns)}).")
    return list(columns)
