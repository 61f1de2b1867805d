"""The interfaces of Python data sources for streams that are told how much to read: Spark has them from 4.2."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

__all__ = ["ReadAllAvailable", "ReadLimit", "ReadMaxBytes", "SupportsTriggerAvailableNow"]
