"""pyarrow, which the sinks that write Parquet share; it is imported when one of them first needs it."""

from __future__ import annotations

from sdf.extras import Library

__all__ = ["arrow", "parquet", "types"]

arrow = Library("pyarrow", "ParquetFiles")
parquet = Library("pyarrow.parquet", "ParquetFiles")
types = Library("pyarrow.types", "ParquetFiles")
