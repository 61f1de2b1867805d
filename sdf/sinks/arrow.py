"""pyarrow, which the sinks that write Parquet share; it is imported when one of them first needs it."""

from __future__ import annotations

from typing import Any

from sdf.extras import Library

__all__ = ["arrow", "compute", "is_view", "parquet", "types"]

arrow = Library("pyarrow", "ParquetFiles")
compute = Library("pyarrow.compute", "ParquetFiles")
parquet = Library("pyarrow.parquet", "ParquetFiles")
types = Library("pyarrow.types", "ParquetFiles")


def is_view(kind: Any, of: str) -> bool:
    """Return whether a type is that of views of "string", "binary", "list" or "large_list"; old pyarrow has none."""
    return str(kind).startswith(f"{of}_view")
