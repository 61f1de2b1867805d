"""Connectors: DoFns that read real data and can be split anywhere. Each is written against the public surface only.

Each needs an extra, for example ``pip install 'sdf[files,avro]'``; the error that misses one names it.
"""

from __future__ import annotations

from sdf.io.blocks import FileBlocks
from sdf.io.files import FileBlock, FileInfo
from sdf.io.lines import ReadLines
from sdf.io.match import MatchFiles
from sdf.io.text import BadRecord

__all__ = ["BadRecord", "FileBlock", "FileBlocks", "FileInfo", "MatchFiles", "ReadLines"]
