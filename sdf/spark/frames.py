"""run_sdf over a DataFrame: its results are staged as Parquet files, and come back as a DataFrame that reads those.

Each action on a DataFrame runs its plan again, and a plan with the work in it would split anew each time. So the work
runs once, as a saved run, and the plan that the user gets only reads.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.types import StructType

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.model.dofn import DoFn
from sdf.reporting.progress import RunProgress
from sdf.sinks import ParquetFiles
from sdf.spark.live.runner import LiveRunner
from sdf.spark.save import save_sdf
from sdf.spark.staged.runner import StagedRunner

__all__ = ["run_on_frame"]


def run_on_frame(
    frame: Any,
    fn: DoFn,
    *,
    schema: Any,
    staging: Any,
    element: Callable[[Any], Any] | None,
    runner: StagedRunner | LiveRunner | None,
    side_inputs: Mapping[str, Any] | None,
    tags: tuple[str, ...],
    progress: bool | Callable[[RunProgress], Any] | None,
) -> dict[str, Any]:
    """Run a DoFn over the rows of a DataFrame; return a DataFrame per output, each with a ``report``.

    Raises:
        InvalidTypeError, InvalidValueError: for a schema or a place that is missing or wrong.
    """
    spark = frame.sparkSession
    names = ("main", *tags)
    schemas = {name: _as_struct(spark, one) for name, one in _by_output(schema, names).items()}
    if not isinstance(staging, (str, os.PathLike)) or not os.fspath(staging):
        raise InvalidTypeError(
            f"run_sdf() over a DataFrame needs staging=, a directory or URL that this client, the executors and Spark "
            f"can reach (got {show(staging)}). The results are staged there, and the DataFrame reads them."
        )
    root = os.fspath(staging)
    if "://" not in root:
        root = os.path.abspath(root)  # Spark's working directory may be another
    place = f"{root.rstrip('/')}/{type(fn).__name__}-{uuid.uuid4().hex}"
    sinks = {name: ParquetFiles(f"{place}/{name}", schema=_arrow(one)) for name, one in schemas.items()}
    summary = save_sdf(
        frame, fn, sinks, runner=runner, side_inputs=side_inputs, element=element, progress=progress
    )  # fmt: skip
    found: dict[str, Any] = {}
    for name in names:
        found[name] = spark.read.schema(schemas[name]).parquet(_for_spark(f"{place}/{name}"))
        found[name].report = summary.report
    return found


def _by_output(schema: Any, names: tuple[str, ...]) -> dict[str, Any]:
    if schema is None:
        raise InvalidTypeError(
            f"run_sdf() over a DataFrame needs schema=, that of the records, such as 'id long, name string'"
            f"{'; with tags a dict of such' if len(names) > 1 else ''}."
        )
    by_output = dict(schema) if isinstance(schema, Mapping) else {"main": schema}
    if sorted(by_output) != sorted(names):
        raise InvalidValueError(
            f"run_sdf() schema must name each output {list(names)} (got {sorted(by_output)}). With tags pass a dict."
        )
    return {name: by_output[name] for name in names}


def _as_struct(spark: Any, schema: Any) -> StructType:
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str):
        raise InvalidTypeError(
            f"run_sdf() schema must be a string such as 'id long, name string', or a StructType (got {show(schema)})."
        )
    parsed: StructType = spark.createDataFrame([], schema).schema  # the session parses it
    return parsed


def _arrow(schema: StructType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _for_spark(path: str) -> str:
    """Return a path as Spark calls it: the scheme of Hadoop's file system for S3 is s3a."""
    return f"s3a:{path.removeprefix('s3:')}" if path.startswith("s3:") else path
