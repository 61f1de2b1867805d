"""run_sdf over a DataFrame: its results are staged as Parquet files, and come back as a DataFrame that reads those.

Each action on a DataFrame runs its plan again, and a plan with the work in it would split anew each time. So the work
runs once, as a saved run, and the plan that the user gets only reads.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import attrs
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.model.dofn import DoFn
from sdf.quarantine.failures import FAILED
from sdf.quarantine.options import Quarantine
from sdf.reporting.progress import RunProgress
from sdf.sinks import ParquetFiles
from sdf.spark.live.runner import LiveRunner
from sdf.spark.save import save_sdf
from sdf.spark.staged.runner import StagedRunner

__all__ = ["run_on_frame"]

_FAILED = "element string, restriction string, error string, attempts int"


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
    quarantine: Quarantine | None,
    progress: bool | Callable[[RunProgress], Any] | None,
) -> dict[str, Any]:
    """Run a DoFn over the rows of a DataFrame; return a DataFrame per output, each with a ``report``.

    With quarantine the blocks that were set aside are one of them, with `_FAILED` as its schema: elements and
    restrictions may be of types that Spark has no column for.

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
    place = f"{_root(os.fspath(staging))}/{type(fn).__name__}-{uuid.uuid4().hex}"
    places = {"main": f"{place}/main", **{tag: f"{place}/tag-{quote(tag, safe='')}" for tag in tags}}
    sinks = {name: ParquetFiles(places[name], schema=_arrow(one)) for name, one in schemas.items()}
    options: dict[str, Any] = {}
    if quarantine is not None:
        options = {"on_failure": "quarantine", **attrs.asdict(quarantine)}
    summary = save_sdf(
        frame, fn, sinks, runner=runner, side_inputs=side_inputs, element=element, progress=progress, **options
    )
    found: dict[str, Any] = {}
    for name in names:
        found[name] = spark.read.schema(schemas[name]).parquet(_for_spark(places[name]))
    if quarantine is not None:
        rows = [(show(one.element), show(one.restriction), one.error, one.attempts) for one in summary.failures]
        found[FAILED] = spark.createDataFrame(rows, _FAILED)
    for outputs in found.values():
        outputs.report = summary.report
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
    if isinstance(schema, str):
        try:
            schema = spark.createDataFrame([], schema).schema  # the session parses it
        except (PySparkException, Py4JJavaError) as error:  # the latter for what Spark takes to be a bug of its own
            raise InvalidValueError(f"run_sdf() schema {schema!r} is none that Spark takes: {_said(error)}") from error
    if not isinstance(schema, StructType):
        raise InvalidTypeError(
            f"run_sdf() schema must be a string such as 'id long, name string', or a StructType (got {show(schema)})."
        )
    try:
        readable: StructType = spark.read.schema(schema).parquet().schema  # of no file: it only looks at the schema
    except (PySparkException, Py4JJavaError) as error:
        raise InvalidValueError(
            f"run_sdf() schema {schema.simpleString()} is none that Spark reads from Parquet files: {_said(error)}"
        ) from error
    return readable


def _arrow(schema: StructType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except PySparkException as error:
        raise InvalidValueError(
            f"run_sdf() schema {schema.simpleString()} has a type that cannot be staged: {_said(error)}"
        ) from error


def _said(error: Exception) -> str:
    """Return the line of an error of Spark that says what is wrong; raise the error if there is none.

    Such as of a server that cannot be reached.
    """
    for line in str(error).splitlines():
        if line.startswith("[") or "Exception: [" in line:
            return line
    raise error


def _root(staging: str) -> str:
    if "://" in staging:
        return staging.rstrip("/")
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", staging)
    if scheme is not None:
        raise InvalidValueError(
            f"run_sdf() staging must be a path, or a URL with // (got {staging!r}). A path of the file system that "
            f"{scheme[1]}: is mounted on also works, such as /dbfs/... for dbfs:/."
        )
    return os.path.abspath(staging)  # Spark's working directory may be another


def _for_spark(path: str) -> str:
    """Return a path as Spark calls it: a glob, and the scheme of Hadoop's file system for S3 is s3a."""
    path = re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
    return f"s3a:{path.removeprefix('s3:')}" if path.startswith("s3:") else path
