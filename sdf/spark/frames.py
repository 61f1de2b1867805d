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

from pyspark.sql.types import StructType

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.quarantine.failures import FAILED
from sdf.sinks import ParquetFiles
from sdf.sinks.files import is_on_hdfs
from sdf.sinks.sink import Sink
from sdf.spark.door.arrow import arrow_schema
from sdf.spark.door.errors import FAILURES, SparkError
from sdf.spark.saved_run import SaveSummary

__all__ = ["run_on_frame"]

_FAILED = "element string, restriction string, error string, attempts int"


def run_on_frame(
    spark: Any,
    name: str,
    schema: Any,
    staging: Any,
    tags: tuple[str, ...],
    save: Callable[[Mapping[str, Sink]], SaveSummary],
    *,
    sets_aside: bool,
) -> dict[str, Any]:
    """Run a DoFn over the rows of a DataFrame; return a DataFrame per output, each with a ``report``.

    With quarantine the blocks that were set aside are one of them, with `_FAILED` as its schema: elements and
    restrictions may be of types that Spark has no column for.

    Args:
        spark: the session of the DataFrame.
        name: the name of the DoFn.
        schema, staging: as for `run_sdf`.
        tags: the declared tags.
        save: runs the DoFn as a saved run, given a sink for each output.
        sets_aside: whether it is a run with quarantine.

    Raises:
        InvalidTypeError, InvalidValueError: for a schema or a place that is missing or wrong.
    """
    names = ("main", *tags)
    schemas = {output: _as_struct(spark, one) for output, one in _by_output(schema, names).items()}
    if not isinstance(staging, (str, os.PathLike)) or not os.fspath(staging):
        raise InvalidTypeError(
            f"run_sdf() over a DataFrame needs staging=, a directory or URL that this client, the executors and Spark "
            f"can reach (got {show(staging)}). The results are staged there, and the DataFrame reads them."
        )
    place = f"{_root(os.fspath(staging))}/{name}-{uuid.uuid4().hex}"
    places = {"main": f"{place}/main", **{tag: f"{place}/tag-{quote(tag, safe='')}" for tag in tags}}
    summary = save({output: StagedRows(places[output], schema=_arrow(one)) for output, one in schemas.items()})
    found = {output: spark.read.schema(one).parquet(_for_spark(places[output])) for output, one in schemas.items()}
    if sets_aside:
        rows = [(show(one.element), show(one.restriction), one.error, one.attempts) for one in summary.failures]
        found[FAILED] = spark.createDataFrame(rows, _FAILED)
    for outputs in found.values():
        outputs.report = summary.report
    return found


class StagedRows(ParquetFiles):
    """Where the records of a run over a DataFrame are staged."""

    @property
    def advice(self) -> str:
        return "Give schema= a type that holds it, or change process() so that it does not give it."


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
        except FAILURES as error:  # of the JVM, too, for what Spark takes to be a bug of its own
            raise InvalidValueError(f"run_sdf() schema {schema!r} is none that Spark takes: {_said(error)}") from error
    if not isinstance(schema, StructType):
        raise InvalidTypeError(
            f"run_sdf() schema must be a string such as 'id long, name string', or a StructType (got {show(schema)})."
        )
    try:
        _ = spark.read.schema(schema).parquet().schema  # of no file: it only looks at the schema
    except FAILURES as error:
        raise InvalidValueError(
            f"run_sdf() schema {schema.simpleString()} is none that Spark reads from Parquet files: {_said(error)}"
        ) from error
    return schema  # as given: Spark takes NOT NULL from what it reads, and the records must keep it


def _arrow(schema: StructType) -> Any:
    try:
        return arrow_schema(schema)
    except SparkError as error:
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
    if is_on_hdfs(staging):
        raise InvalidValueError(
            f"run_sdf() staging cannot be on HDFS (got {staging!r}): workers write there by WebHDFS, which Spark's own "
            f"client cannot read. Use an object store or a disk that all hosts share; or save_sdf() with "
            f"ParquetFiles('webhdfs://host:9870/x'), and read hdfs://host/x with Spark."
        )
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
