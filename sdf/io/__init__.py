"""Connectors: DoFns that read real data and can be split anywhere. Each is written against the public surface only.

Each needs an extra, for example ``pip install 'sdf[files,avro]'``; the error that misses one names it.
"""

from __future__ import annotations

from sdf.io.avro import ReadAvro
from sdf.io.blocks import FileBlocks
from sdf.io.csv import ReadCsv
from sdf.io.files import FileBlock
from sdf.io.fixed import ReadRecords, ReadSlices
from sdf.io.jsonlines import ReadJsonLines
from sdf.io.kafka import ReadKafka
from sdf.io.kafkaclient import KafkaRecord, TopicPartition
from sdf.io.kafkatail import TailKafka, WatchTopics
from sdf.io.lines import ReadLines
from sdf.io.lmdb import ReadLmdb
from sdf.io.match import MatchFiles
from sdf.io.parquet import ReadParquet
from sdf.io.pinned import FileInfo
from sdf.io.table import ReadTable, TableQuery
from sdf.io.tabletail import TailTable
from sdf.io.tail import TailLines
from sdf.io.text import BadRecord
from sdf.io.watch import WatchFiles

__all__ = [
    "BadRecord",
    "FileBlock",
    "FileBlocks",
    "FileInfo",
    "KafkaRecord",
    "MatchFiles",
    "ReadAvro",
    "ReadCsv",
    "ReadJsonLines",
    "ReadKafka",
    "ReadLines",
    "ReadLmdb",
    "ReadParquet",
    "ReadRecords",
    "ReadSlices",
    "ReadTable",
    "TableQuery",
    "TailKafka",
    "TailLines",
    "TailTable",
    "TopicPartition",
    "WatchFiles",
    "WatchTopics",
]
