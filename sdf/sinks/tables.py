"""Records of which some or all may be tables or record batches of pyarrow: their schema, and their rows in it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from sdf.errors import InvalidValueError
from sdf.sinks.arrays import as_batch
from sdf.sinks.arrow import arrow
from sdf.sinks.casts import fitted
from sdf.sinks.columns import Misfit
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
    schema = nullable(run[0].schema)
    try:
        check_parquet(schema)
    except InvalidValueError as error:
        raise Misfit("", run[0].schema, f"is no schema of a file: {error}") from error
    return schema


def as_table(tables: Sequence[Any], schema: Any) -> Any:
    """Return the rows of tables as one table of a schema; a missing column is null.

    Raises:
        Misfit: if a column does not fit.
    """
    return arrow.concat_tables(_fitted(table, schema) for table in tables)


def _fitted(table: Any, schema: Any) -> Any:
    if isinstance(table, arrow.RecordBatch):
        table = arrow.Table.from_batches([table])
    found, known = {}, set(schema.names)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name not in known or name in found:
            raise Misfit(name, table.schema, f"is not one of the columns {', '.join(schema.names)}")
        found[name] = column
    nothing = arrow.chunked_array([arrow.nulls(table.num_rows)])
    columns = [fitted(found.get(field.name, nothing), field, field.name) for field in schema]
    return arrow.Table.from_arrays(columns, schema=schema)
