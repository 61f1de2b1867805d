"""sdf: Splittable DoFns for Apache Spark, in Python, on RDDs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sdf.bytekeys import ByteKeyRangeTracker
from sdf.direct import run_direct
from sdf.dofn import DoFn, TaggedOutput
from sdf.errors import SdfError
from sdf.offsets import GrowableOffsetRangeTracker, OffsetRangeTracker, UnsplittableTracker
from sdf.progress import RunProgress, StreamProgress
from sdf.report import RunReport
from sdf.restrictions import UNBOUNDED, ByteKeyRange, OffsetRange
from sdf.trackers import Progress, RestrictionTracker
from sdf.watermarks import ManualWatermark, MonotonicWatermark, WalltimeWatermark, WatermarkEstimator

if TYPE_CHECKING:
    from sdf.spark.live import LiveRunner
    from sdf.spark.run import run_sdf
    from sdf.spark.staged import StagedRunner
    from sdf.spark.stream import Batch, StreamSummary, stream_sdf

__all__ = [
    "UNBOUNDED",
    "Batch",
    "ByteKeyRange",
    "ByteKeyRangeTracker",
    "DoFn",
    "GrowableOffsetRangeTracker",
    "LiveRunner",
    "ManualWatermark",
    "MonotonicWatermark",
    "OffsetRange",
    "OffsetRangeTracker",
    "Progress",
    "RestrictionTracker",
    "RunProgress",
    "RunReport",
    "SdfError",
    "StagedRunner",
    "StreamProgress",
    "StreamSummary",
    "TaggedOutput",
    "UnsplittableTracker",
    "WalltimeWatermark",
    "WatermarkEstimator",
    "run_direct",
    "run_sdf",
    "stream_sdf",
]

_NEEDS_SPARK = {
    "Batch": "sdf.spark.stream",
    "LiveRunner": "sdf.spark.live",
    "StagedRunner": "sdf.spark.staged",
    "StreamSummary": "sdf.spark.stream",
    "run_sdf": "sdf.spark.run",
    "stream_sdf": "sdf.spark.stream",
}


def __getattr__(name: str) -> Any:
    if name in _NEEDS_SPARK:  # imported on first use, so that `import sdf` starts no pyspark
        return getattr(importlib.import_module(_NEEDS_SPARK[name]), name)
    raise AttributeError(f"module 'sdf' has no attribute {name!r}")
