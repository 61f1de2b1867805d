"""Schema: the types of the columns of Parquet files, as given or as found from the first records.

Fields are never of type null, and nullable unless a given schema says otherwise. Some attempt is first to propose what
it found; all others take that, so that all files of a result have one schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from itertools import chain
from numbers import Integral, Real
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.extras import need
from sdf.sinks.arrow import arrow, parquet, types
from sdf.sinks.casts import stored
from sdf.sinks.columns import Misfit, is_bool, is_row, is_span, kinds_of, lists_of, names_of, spread
from sdf.sinks.stage import Stage

__all__ = [
    "SCHEMA", "as_schema", "as_text", "check_parquet", "found_schema", "nullable", "proposed", "read_back", "required",
    "without_rows", "written",
]  # fmt: skip

SCHEMA = "schema"  # the file of staging that has it


def as_schema(value: Any, who: str = "ParquetFiles", fit: Callable[[Any], Any] | None = None) -> Any:
    """Return a schema that was given, None for None.

    Args:
        value: the schema.
        who: the sink it was given to, for messages.
        fit: for a table, whose columns are nullable: returns a schema with the types that the sink's tables have;
            raises Misfit for a type that they lack.

    Raises:
        InvalidTypeError: if it is no schema.
        InvalidValueError: if Parquet cannot hold it, or it does not fit.
    """
    if value is None:
        return None
    need("pyarrow", who)
    if isinstance(value, Mapping):
        wrong = [name for name, kind in value.items() if not isinstance(name, str) or not hasattr(kind, "num_fields")]
        if wrong:
            raise InvalidTypeError(
                f"{who} schema must map names to types of pyarrow, such as {{'id': pa.int64()}} (got "
                f"{show(wrong[0])}: {show(value[wrong[0]])})."
            )
        value = arrow.schema(list(value.items()))
    if not isinstance(value, arrow.Schema):
        raise InvalidTypeError(
            f"{who} schema must be a pyarrow.Schema or a dict of names to types (got {show(value)})."
        )
    if not value.names or len(set(value.names)) < len(value.names):
        raise InvalidValueError(
            f"{who} schema must have columns, each with a name of its own (got {show(value.names)})."
        )
    for field in value:
        if _has_null(field.type):
            raise InvalidValueError(f"{who} schema: {field.name!r} has type {field.type}; null is no type of a column.")
    check_parquet(value, who)
    value = arrow.schema([stored(field) for field in value], metadata=value.metadata)
    if fit is None:
        return value
    must = required(value)
    if must:
        raise InvalidValueError(
            f"{who} schema: {must[0]!r}, or what it holds, must not be null (nullable=False), and the columns of its "
            f"tables may be. Leave that out, and let process() see to it."
        )
    try:
        return fit(nullable(value))
    except Misfit as misfit:
        raise InvalidValueError(
            f"{who} schema: {misfit.path!r} has type {misfit.value}, which {misfit.flaw}."
        ) from misfit


def check_parquet(schema: Any, who: str = "ParquetFiles") -> None:
    """Raise InvalidValueError if Parquet cannot hold a schema."""
    need("pyarrow.parquet", who)
    for field in schema:
        try:
            without_rows(arrow.schema([field]))
        except arrow.ArrowException as error:
            raise InvalidValueError(
                f"{who} schema: {field.name!r} has type {field.type}, which Parquet cannot hold: {error}."
            ) from error


def as_text(schema: Any) -> list[str] | None:
    """Return a schema as JSON data."""
    return None if schema is None else [f"{field.name}: {field.type}" for field in schema]


def nullable(schema: Any) -> Any:
    """Return a schema whose fields, nested ones too, are nullable, and of type string where they were of type null."""
    return arrow.schema([stored(field, nullable=True) for field in schema], metadata=schema.metadata)


def required(schema: Any) -> list[str]:
    """Return the names of the columns that must not be null, or that hold what must not."""
    return [field.name for field, allowing in zip(schema, nullable(schema), strict=True) if not field.equals(allowing)]


def proposed(stage: Stage) -> Any:
    """Return the schema that was proposed for the files of a run, None if there is none yet."""
    data = stage.read(SCHEMA)
    return None if data is None else arrow.ipc.read_schema(arrow.py_buffer(data))


def written(stage: Stage, ending: str) -> Any:
    """Return the schema of the files, whose names end so, that a run has written so far; None if there are none."""
    if not stage.committed():
        return proposed(stage) if any(name.endswith(ending) for name in stage.staging.names("")) else None
    opened = stage.open_result(ending)
    if opened is None:
        return None
    with opened as file:
        return parquet.read_schema(file)


def without_rows(schema: Any, **options: Any) -> bytes:
    """Return a file of a schema."""
    buffer = BytesIO()
    parquet.ParquetWriter(buffer, schema, **options).close()
    return buffer.getvalue()


def read_back(schema: Any) -> Any:
    """Return a schema as Parquet gives it back: it has no seconds, for example."""
    return parquet.read_schema(BytesIO(without_rows(schema)))


def _has_null(kind: Any) -> bool:
    if types.is_dictionary(kind):
        return _has_null(kind.value_type)
    return types.is_null(kind) or any(_has_null(kind.field(number).type) for number in range(kind.num_fields))


def found_schema(records: Sequence[Any]) -> Any:
    """Return a schema in which all of some records fit: a column ``value``, or one for each of their fields.

    Raises:
        Misfit: if there is none.
    """
    rows = [is_row(kind) or issubclass(kind, list) for kind in kinds_of(records)]
    if not any(rows):
        return arrow.schema([("value", _found(records, ""))])
    return arrow.schema(_found_fields(records, ""))


def _found_fields(rows: Sequence[Any], path: str) -> list[Any]:
    names: dict[Any, None] = {}
    for row in rows:
        if not (is_row(type(row)) or isinstance(row, list)):
            raise Misfit(path, row, "has no fields, but others have")
        names.update(dict.fromkeys(names_of(row)))
    for name in names:
        if not isinstance(name, str):
            raise Misfit(
                path, rows[0], f"has the key {name!r}, but names of fields are strings; give a schema with map_"
            )
    if not names:
        raise Misfit(path, rows[0], "has no fields; give a schema")
    columns = spread(rows, list(names), path)
    dot = f"{path}." if path else ""
    return [arrow.field(name, _found(values, f"{dot}{name}")) for name, values in zip(names, columns, strict=True)]


def _found(values: Sequence[Any], path: str) -> Any:
    kinds = kinds_of(values)
    if not kinds:
        return arrow.string()
    if all(map(is_row, kinds)):
        return arrow.struct(_found_fields([value for value in values if value is not None], path))
    if all(issubclass(kind, list) or kind.__name__ == "ndarray" for kind in kinds):
        lists = [value for value in lists_of(values, "is no list", path) if value is not None]
        return arrow.list_(_found(list(chain.from_iterable(lists)), f"{path}[]"))
    if all(map(is_bool, kinds)):
        return arrow.bool_()
    if all(issubclass(kind, datetime) for kind in kinds):
        zones = {value.tzinfo is not None for value in values if value is not None}
        if len(zones) == 1:
            return arrow.timestamp("us", "UTC" if zones.pop() else None)
    elif not any(is_bool(kind) or is_span(kind) or issubclass(kind, datetime) for kind in kinds):  # int, date to Python
        for classes, found in (
            (str, arrow.string()),
            (Integral, arrow.int64()),
            (Real, arrow.float64()),
            ((bytes, bytearray, memoryview), arrow.binary()),
            (Decimal, arrow.decimal128(38, 18)),  # as Spark's
            (date, arrow.date32()),
            (time, arrow.time64("us")),
            (timedelta, arrow.duration("us")),
        ):
            if all(issubclass(kind, classes) for kind in kinds):
                return found
    value = next(value for value in reversed(values) if value is not None)
    names = " and ".join(sorted(kind.__name__ for kind in kinds))
    raise Misfit(path, value, f"cannot be in a column: no type is known for {names}")
