"""Runs a function on one Python worker, and sends a file to all: on Spark Connect, and on classic Spark."""

from __future__ import annotations

import inspect
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sdf.errors import InvalidTypeError, StageError, show
from sdf.spark.door.connect import text_of_task
from sdf.spark.door.context import folder_of
from sdf.spark.door.errors import OTHER_PYTHON
from sdf.spark.shipping import workers

__all__ = ["is_connect", "look", "send"]


def is_connect(spark: Any) -> bool:
    """Tell whether a session is one of Spark Connect.

    Raises:
        InvalidTypeError: if it is no SparkSession at all.
    """
    connect = sys.modules.get("pyspark.sql.connect.session")  # who has such a session has imported it
    if connect is not None and isinstance(spark, connect.SparkSession):
        return True
    classic = sys.modules.get("pyspark.sql.session")
    if classic is not None and isinstance(spark, classic.SparkSession):
        return False
    raise InvalidTypeError(
        f"ship() needs a SparkSession (got {show(spark)}). Pass the one that `spark` is in a notebook, or "
        f"SparkSession.builder.getOrCreate()."
    )


def look(spark: Any, wanted: Mapping[str, str], *, load: bool = False) -> dict[str, Any]:
    """Run `workers.look` in one task, and return what it says.

    Raises:
        StageError: if the workers run another minor version of Python than this process, or the job fails.
    """
    told: dict[str, Any] = json.loads(_run(spark, _looking(dict(wanted), load)))
    return told


def _looking(wanted: dict[str, str], load: bool) -> Callable[..., str]:
    source = inspect.getsource(workers)

    def run(*_: Any) -> str:  # has no importable name, so it is pickled by value, and needs no sdf where it runs
        import json

        names: dict[str, Any] = {"__name__": "sdf_workers"}
        exec(source, names)
        return json.dumps(names["look"](wanted, load))

    return run


def _run(spark: Any, function: Callable[..., str]) -> str:
    try:
        if not is_connect(spark):
            return str(spark.sparkContext.parallelize([0], 1).map(function).collect()[0])
        return text_of_task(spark, function)
    except Exception as error:
        other = OTHER_PYTHON.search(str(error))
        if other is None:
            raise StageError(f"ship() could not run a job on the Python workers: {_gist(error)}") from error
        raise StageError(
            f"the Python workers run Python {other[1]}, but this client runs Python {other[2]}. DoFns are sent as "
            f"byte code, which only the same minor version understands. Start the client with Python {other[1]}, or "
            f"give the workers Python {other[2]}: on Databricks choose another environment version of the notebook or "
            f"another runtime of the cluster; elsewhere set PYSPARK_PYTHON before the server starts (docs/connect.md)."
        ) from error


def send(spark: Any, name: str, archive: bytes) -> None:
    """Send an archive of Python files; all tasks that the session starts from now on can import from it.

    Raises:
        StageError: if the server does not take it.
    """
    try:
        with _unchanged_path():
            if is_connect(spark):
                with tempfile.TemporaryDirectory(prefix="sdf-") as folder:
                    spark.addArtifacts(_written(folder, name, archive), pyfile=True)
            else:
                sc = spark.sparkContext  # serves the file itself as long as it runs, and then removes this folder
                sc.addPyFile(_written(folder_of(sc), name, archive))
    except Exception as error:
        raise StageError(
            f"ship() could not send {name} ({len(archive):,} bytes) to the Python workers: {_gist(error)}. Install "
            f"what it should hold where they run (docs/connect.md)."
        ) from error


def _gist(error: Exception) -> str:
    """Return the last line of a worker's traceback, if an error of Spark has one; else its first line."""
    text = str(error).strip()
    raised = re.findall(r"^[\w.]+(?:Error|Exception): .*", text.partition("Traceback (most recent")[2], re.MULTILINE)
    return (raised or text.splitlines() or [type(error).__name__])[-1 if raised else 0]


def _written(folder: str, name: str, archive: bytes) -> str:
    path = Path(folder, name)
    path.write_bytes(archive)
    return str(path)


@contextmanager
def _unchanged_path() -> Iterator[None]:
    """Take off the path of this process what Spark puts on it: here everything is installed already."""
    kept = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = [path for path in sys.path if path in kept]
