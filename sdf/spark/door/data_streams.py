"""The interfaces of Python data sources for streams that are told how much to read: Spark has them from 4.2."""

from __future__ import annotations

from sdf.spark.door.versions import STREAM_SOURCES, need_spark

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
except ImportError:
    need_spark(STREAM_SOURCES, "readStream of a data source", "stream_sdf() works without it.")
    raise

__all__ = ["ReadAllAvailable", "ReadLimit", "ReadMaxBytes", "SupportsTriggerAvailableNow"]
