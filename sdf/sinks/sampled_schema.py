"""The schema of the first records of a result, of which some or all may be tables."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from sdf.errors import InvalidValueError
from sdf.sinks.columns import Misfit, as_batch
from sdf.sinks.schema import check_parquet, found_schema, nullable
from sdf.sinks.tables import as_table, runs, schema_of_table

__all__ = ["schema_of_most", "tables_of"]


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
    schema = nullable(schema_of_table(run[0]))
    try:
        check_parquet(schema)
    except InvalidValueError as error:
        raise Misfit("", run[0].schema, f"is no schema of a file: {error}") from error
    return schema
