"""Runs a function on Python workers, and sends a file to all: on Spark Connect, and on classic Spark."""

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

from pyspark import SparkContext

from sdf.errors import RUN_DOCTOR, InvalidTypeError, StageError, show
from sdf.spark.door.connect import texts_of_tasks
from sdf.spark.door.context import folder_of
from sdf.spark.door.errors import OTHER_PYTHON
from sdf.spark.shipping import workers

__all__ = ["ask", "is_connect", "look", "send"]


def is_connect(spark: Any, who: str = "ship()") -> bool:
    """Tell whether a session is one of Spark Connect.

    Args:
        spark: the session.
        who: name of the caller, for the message.

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
        f"{who} needs a SparkSession (got {show(spark)}). Pass the one that `spark` is in a notebook, or "
        f"SparkSession.builder.getOrCreate()."
    )


def look(spark: Any, wanted: Mapping[str, str], *, load: bool = False) -> dict[str, Any]:
    """Run `workers.look` in one task, and return what it says.

    Raises:
        StageError: if the workers run another minor version of Python than this process, or the job fails.
    """
    (told,) = ask(spark, "ship()", 1, "look", dict(wanted), load)
    return told


def ask(spark: Any, who: str, tasks: int, function: str, *given: Any) -> list[dict[str, Any]]:
    """Call a function of `workers` in some tasks, each with the same arguments, and return what it says.

    Args:
        spark: the session, or a SparkContext.
        who: name of the caller, for messages.
        tasks: the number of tasks.
        function: its name.
        given: its arguments.

    Raises:
        StageError: if the workers run another minor version of Python than this process, or the job fails.
    """
    asking = _asking(function, given)
    try:
        if not isinstance(spark, SparkContext) and is_connect(spark, who):
            texts = texts_of_tasks(spark, tasks, asking)
        else:
            sc = getattr(spark, "sparkContext", spark)
            texts = sc.parallelize(range(tasks), tasks).map(asking).collect()
        return [json.loads(text) for text in texts]
    except Exception as error:
        other = OTHER_PYTHON.search(str(error))
        if other is None:
            raise StageError(f"{who} could not run a job on the Python workers: {_gist(error)}") from error
        raise StageError(
            f"the Python workers run Python {other[1]}, but this client runs Python {other[2]}. DoFns are sent as "
            f"byte code, which only the same minor version understands. Start the client with Python {other[1]}, or "
            f"give the workers Python {other[2]}: on Databricks choose another environment version of the notebook or "
            f"another runtime of the cluster; elsewhere set PYSPARK_PYTHON before the server starts (docs/connect.md). "
            f"{RUN_DOCTOR}"
        ) from error


def _asking(function: str, given: tuple[Any, ...]) -> Callable[..., str]:
    source = inspect.getsource(workers)

    def run(*_: Any) -> str:  # has no importable name, so it is pickled by value, and needs no sdf where it runs
        import json

        names: dict[str, Any] = {"__name__": "sdf_workers"}
        exec(source, names)
        return json.dumps(names[function](*given))

    return run


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
            f"what it should hold where they run (docs/connect.md). {RUN_DOCTOR}"
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
