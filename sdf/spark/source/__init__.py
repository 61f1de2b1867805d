"""A DoFn as a data source of Spark SQL, for batches and streams."""

from __future__ import annotations

from sdf.spark.source.data_source import SdfDataSource, data_source

__all__ = ["SdfDataSource", "data_source"]
