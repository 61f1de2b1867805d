"""Spark's conversions between its types and Arrow's.

``to_arrow_schema`` takes ``timezone`` from 4.2, ``timestamp_utc``, which is True by default, before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql.types import StructType, _make_type_verifier

__all__ = ["arrow_schema", "table_of", "verifier"]


def arrow_schema(schema: StructType) -> Any:
    """Return the `pyarrow.Schema` of a schema of Spark, whose timestamps are of UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    takes_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    options: dict[str, Any] = {"timezone": "UTC"} if takes_zone else {}
    return to_arrow_schema(schema, **options)


def table_of(rows: Sequence[tuple[Any, ...]], schema: StructType) -> Any:
    """Return rows as a `pyarrow.Table`, converted as createDataFrame() does."""
    from pyspark.sql.conversion import LocalDataToArrowConversion

    return LocalDataToArrowConversion.convert(rows, schema, False)


def verifier(schema: StructType) -> Callable[[Any], None]:
    """Return what raises an error of Spark for a row that does not fit a schema, as createDataFrame() does."""
    verify: Callable[[Any], None] = _make_type_verifier(schema)
    return verify
