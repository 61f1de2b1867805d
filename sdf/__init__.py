"""sdf: Splittable DoFns for Apache Spark, in Python, on RDDs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sdf.bytekeys import ByteKeyRangeTracker
from sdf.direct import run_direct
from sdf.dofn import DoFn, TaggedOutput
from sdf.errors import SdfError
from sdf.offsets import GrowableOffsetRangeTracker, OffsetRangeTracker, UnsplittableTracker
from sdf.report import RunReport
from sdf.restrictions import UNBOUNDED, ByteKeyRange, OffsetRange
from sdf.trackers import Progress, RestrictionTracker
from sdf.watermarks import ManualWatermark, MonotonicWatermark, WalltimeWatermark, WatermarkEstimator

if TYPE_CHECKING:
    from sdf.spark.live import LiveRunner
    from sdf.spark.run import run_sdf
    from sdf.spark.staged import StagedRunner

__all__ = [
    "UNBOUNDED",
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
    "RunReport",
    "SdfError",
    "StagedRunner",
    "TaggedOutput",
    "UnsplittableTracker",
    "WalltimeWatermark",
    "WatermarkEstimator",
    "run_direct",
    "run_sdf",
]

_NEEDS_SPARK = {"LiveRunner": "sdf.spark.live", "StagedRunner": "sdf.spark.staged", "run_sdf": "sdf.spark.run"}


def __getattr__(name: str) -> Any:
    if name in _NEEDS_SPARK:  # imported on first use, so that `import sdf` starts no pyspark
        return getattr(importlib.import_module(_NEEDS_SPARK[name]), name)
    raise AttributeError(f"module 'sdf' has no attribute {name!r}")
