"""Sinks of `save_sdf`: where the records go, and how they become visible exactly once."""

from sdf.sinks.data_source import DataSourceSink
from sdf.sinks.delta import DeltaTable
from sdf.sinks.iceberg import IcebergTable
from sdf.sinks.json_lines import JsonLinesFiles
from sdf.sinks.parquet import ParquetFiles
from sdf.sinks.sink import Place, Sink, SinkRun, Token
from sdf.sinks.sql import SqlTable
from sdf.sinks.text import TextFiles

__all__ = [
    "DataSourceSink",
    "DeltaTable",
    "IcebergTable",
    "JsonLinesFiles",
    "ParquetFiles",
    "Place",
    "Sink",
    "SinkRun",
    "SqlTable",
    "TextFiles",
    "Token",
]
