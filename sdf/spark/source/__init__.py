"""A DoFn as a data source of Spark SQL, for batches and streams; and a sink as one to write to."""

from __future__ import annotations

from sdf.spark.source.data_sink import SdfDataSink, data_sink
from sdf.spark.source.data_source import SdfDataSource, data_source

__all__ = ["SdfDataSink", "SdfDataSource", "data_sink", "data_source"]
