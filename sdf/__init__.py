"""sdf: Splittable DoFns for Apache Spark, in Python, on RDDs."""

from __future__ import annotations

__distribution__ = "pyspark-sdf"  # there is another one, whose package is called sdf as well

import importlib
from typing import TYPE_CHECKING, Any

from sdf.direct import run_direct
from sdf.errors import SdfError
from sdf.limits.rate_limit import RateLimit
from sdf.model.byte_key_tracker import ByteKeyRangeTracker
from sdf.model.dofn import DoFn, TaggedOutput
from sdf.model.offset_trackers import GrowableOffsetRangeTracker, OffsetRangeTracker, UnsplittableTracker
from sdf.model.restrictions import UNBOUNDED, ByteKeyRange, OffsetRange
from sdf.model.trackers import Progress, RestrictionTracker
from sdf.model.watermarks import ManualWatermark, MonotonicWatermark, WalltimeWatermark, WatermarkEstimator
from sdf.quarantine.failures import FailedBlock
from sdf.quarantine.options import Quarantine
from sdf.reporting.progress import RunProgress, StreamProgress
from sdf.reporting.run_report import RunReport

if TYPE_CHECKING:
    from sdf.spark.doctor.checkup import Checkup, doctor
    from sdf.spark.grouping import group_by_key
    from sdf.spark.live.runner import LiveRunner
    from sdf.spark.retry import retry_failed
    from sdf.spark.run import run_sdf
    from sdf.spark.save import abort_save, save_sdf
    from sdf.spark.saved_run import SaveSummary
    from sdf.spark.staged.runner import StagedRunner
    from sdf.spark.stream.options import Pace, Until
    from sdf.spark.stream.stream import Batch, StreamSummary, stream_sdf

__all__ = [
    "UNBOUNDED",
    "Batch",
    "ByteKeyRange",
    "ByteKeyRangeTracker",
    "Checkup",
    "DoFn",
    "FailedBlock",
    "GrowableOffsetRangeTracker",
    "LiveRunner",
    "ManualWatermark",
    "MonotonicWatermark",
    "OffsetRange",
    "OffsetRangeTracker",
    "Pace",
    "Progress",
    "Quarantine",
    "RateLimit",
    "RestrictionTracker",
    "RunProgress",
    "RunReport",
    "SaveSummary",
    "SdfError",
    "StagedRunner",
    "StreamProgress",
    "StreamSummary",
    "TaggedOutput",
    "UnsplittableTracker",
    "Until",
    "WalltimeWatermark",
    "WatermarkEstimator",
    "abort_save",
    "doctor",
    "group_by_key",
    "retry_failed",
    "run_direct",
    "run_sdf",
    "save_sdf",
    "stream_sdf",
]

_NEEDS_SPARK = {
    "Batch": "sdf.spark.stream.stream",
    "Checkup": "sdf.spark.doctor.checkup",
    "LiveRunner": "sdf.spark.run",  # imports both, so an error can name the other's option
    "Pace": "sdf.spark.stream.options",
    "SaveSummary": "sdf.spark.saved_run",
    "StagedRunner": "sdf.spark.run",
    "StreamSummary": "sdf.spark.stream.stream",
    "Until": "sdf.spark.stream.options",
    "abort_save": "sdf.spark.save",
    "doctor": "sdf.spark.doctor.checkup",
    "group_by_key": "sdf.spark.grouping",
    "retry_failed": "sdf.spark.retry",
    "run_sdf": "sdf.spark.run",
    "save_sdf": "sdf.spark.save",
    "stream_sdf": "sdf.spark.stream.stream",
}


def __getattr__(name: str) -> Any:
    if name in _NEEDS_SPARK:  # on first use, so that `import sdf` does not import pyspark
        return getattr(importlib.import_module(_NEEDS_SPARK[name]), name)
    raise AttributeError(f"module 'sdf', of the distribution {__distribution__}, has no attribute {name!r}")
