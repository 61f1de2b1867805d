"""Connectors: DoFns that read real data and can be split anywhere. Each uses only the public API.

`FileFn`, `CompressedFn`, `TextFn` and `FixedFn` are the bases of those that read files, for readers of one's own.

Each needs an extra, for example ``pip install '.[files,avro]'`` in a checkout of sdf. If a library is missing, the
error says how to install it.
"""

from __future__ import annotations

import sdf.errors  # noqa: F401, first: it tells if another package has replaced this one
from sdf.io.avro import ReadAvro
from sdf.io.compressed.compression import CompressedFn
from sdf.io.files.blocks import FileBlocks
from sdf.io.files.file_fn import FileBlock, FileFn, FileRange
from sdf.io.files.match import MatchFiles
from sdf.io.files.pinned import FileInfo
from sdf.io.follow.polling import Polled, Watch
from sdf.io.follow.tail import TailLines
from sdf.io.follow.watch import WatchFiles
from sdf.io.groups import ReadGroups
from sdf.io.kafka.tail import TailKafka, WatchTopics
from sdf.io.kafka.topic import ReadKafka
from sdf.io.kafka.values import KafkaRecord, TopicPartition
from sdf.io.lmdb import ReadLmdb
from sdf.io.objects.list_objects import ListObjects
from sdf.io.pages import ReadPages
from sdf.io.parquet import ReadParquet
from sdf.io.tables.table import ReadTable, TableQuery
from sdf.io.tables.tail import TailTable
from sdf.io.tar import ReadTar
from sdf.io.text.csv import ReadCsv
from sdf.io.text.fixed import FixedFn, ReadRecords, ReadSlices
from sdf.io.text.json_array import ReadJson
from sdf.io.text.json_lines import ReadJsonLines
from sdf.io.text.lines import ReadLines
from sdf.io.text.text_fn import BadRecord, TextFn
from sdf.io.text.xml import ReadXml
from sdf.io.warc.records import WarcRecord
from sdf.io.warc.warc import ReadWarc

__all__ = [
    "BadRecord",
    "CompressedFn",
    "FileBlock",
    "FileBlocks",
    "FileFn",
    "FileInfo",
    "FileRange",
    "FixedFn",
    "KafkaRecord",
    "ListObjects",
    "MatchFiles",
    "Polled",
    "ReadAvro",
    "ReadCsv",
    "ReadGroups",
    "ReadJson",
    "ReadJsonLines",
    "ReadKafka",
    "ReadLines",
    "ReadLmdb",
    "ReadPages",
    "ReadParquet",
    "ReadRecords",
    "ReadSlices",
    "ReadTable",
    "ReadTar",
    "ReadXml",
    "ReadWarc",
    "TableQuery",
    "TailKafka",
    "TailLines",
    "TailTable",
    "TextFn",
    "TopicPartition",
    "WarcRecord",
    "Watch",
    "WatchFiles",
    "WatchTopics",
]
