"""Spark's types as those of Arrow, and which PyArrow Spark takes.

``to_arrow_schema`` takes ``timezone`` from 4.2, ``timestamp_utc``, which is True by default, before.
"""

from __future__ import annotations

import inspect
from typing import Any

from pyspark.sql.types import StructType

__all__ = ["arrow_hindrance", "arrow_schema"]


def arrow_hindrance() -> str:
    """Return why Spark does not take the PyArrow of this process, "" if it does: each version has its own bound."""
    from pyspark.sql.pandas.utils import require_minimum_pyarrow_version

    try:
        require_minimum_pyarrow_version()
    except ImportError as error:
        return str(error)
    return ""


def arrow_schema(schema: StructType) -> Any:
    """Return the `pyarrow.Schema` of a schema of Spark, whose timestamps are of UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    takes_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    options: dict[str, Any] = {"timezone": "UTC"} if takes_zone else {}
    return to_arrow_schema(schema, **options)
