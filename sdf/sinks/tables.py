"""Records of which some or all may be tables or record batches of pyarrow: their schema, and their rows in it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from sdf.errors import InvalidValueError
from sdf.sinks.arrow import arrow, types
from sdf.sinks.columns import Misfit, as_batch
from sdf.sinks.schema import check_parquet, found_schema, nullable

__all__ = ["as_table", "runs", "schema_of_most", "tables_of"]


def runs(records: list[Any]) -> Iterator[tuple[bool, list[Any]]]:
    """Yield records in runs that are all tables and record batches, or all other records, and which they are."""
    kinds = set(map(type, records))
    tables = {kind for kind in kinds if issubclass(kind, (arrow.RecordBatch, arrow.Table))}
    if not tables or tables == kinds:
        yield bool(tables), records
        return
    for is_tables, run in groupby(records, lambda record: type(record) in tables):
        yield is_tables, list(run)


def tables_of(records: list[Any], schema: Any) -> list[Any]:
    """Return the records as tables and record batches of a schema."""
    return [as_table(run, schema) if tables else as_batch(run, schema) for tables, run in runs(records)]


def schema_of_most(records: Sequence[Any]) -> Any:
    """Return a schema in which all records fit that come before the first that fits none with them.

    Raises:
        Misfit: if the first record alone has no schema.
    """

    def fails(count: int) -> bool:
        try:
            _schema_of(records[:count])
        except Misfit:
            return True
        return False

    try:
        return _schema_of(records)
    except Misfit:
        count = bisect_left(range(1, len(records)), True, key=fails)
        return _schema_of(records[: max(count, 1)])


def _schema_of(records: Sequence[Any]) -> Any:
    tables, run = next(runs(list(records)))
    if not tables:
        return found_schema(run)
    schema = nullable(_schema_of_table(run[0]))
    try:
        check_parquet(schema)
    except InvalidValueError as error:
        raise Misfit("", run[0].schema, f"is no schema of a file: {error}") from error
    return schema


def _schema_of_table(table: Any) -> Any:
    """Return the schema of a table; columns of a dictionary have the type of its values."""
    return arrow.schema(
        field.with_type(field.type.value_type) if types.is_dictionary(field.type) else field for field in table.schema
    )


def as_table(tables: Sequence[Any], schema: Any) -> Any:
    """Return the rows of tables as one table of a schema; a missing column is null.

    Raises:
        Misfit: if a column does not fit.
    """
    return arrow.concat_tables(_fitted(table, schema) for table in tables)


def _fitted(table: Any, schema: Any) -> Any:
    if isinstance(table, arrow.RecordBatch):
        table = arrow.Table.from_batches([table])
    names = table.column_names
    for name in names:
        if name not in schema.names or names.count(name) > 1:
            raise Misfit(name, table.schema, f"is not one of the columns {', '.join(schema.names)}")
    return arrow.Table.from_arrays([_column(table, field) for field in schema], schema=schema)


def _column(table: Any, field: Any) -> Any:
    if field.name not in table.column_names:
        return arrow.nulls(table.num_rows, field.type)
    column = table.column(field.name)
    if column.type == field.type:
        return column
    if not _widens(column.type, field.type):
        raise Misfit(field.name, table.schema, f"has type {column.type}, not {field.type}")
    try:
        return column.cast(field.type)
    except arrow.ArrowException as error:
        raise Misfit(field.name, table.schema, f"of type {column.type} does not fit {field.type}: {error}") from error


def _widens(old: Any, new: Any) -> bool:
    """Return whether a cast, where it succeeds, changes how a value is stored and not what it is."""
    if types.is_dictionary(old):
        old = old.value_type
    alike = (
        (types.is_integer, types.is_integer),
        (types.is_integer, types.is_floating),
        (types.is_floating, types.is_float64),
        (_is_text, _is_text),
        (_is_bytes, _is_bytes),
        (types.is_decimal, types.is_decimal),
        (types.is_nested, types.is_nested),
    )
    zones = types.is_timestamp(old) and types.is_timestamp(new) and (old.tz is None) == (new.tz is None)
    return bool(types.is_null(old) or old == new or zones or any(a(old) and b(new) for a, b in alike))


def _is_text(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_bytes(kind: Any) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind))
