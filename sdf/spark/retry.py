"""retry_failed: runs the blocks that a saved run has set aside once more, and adds their records to the result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from pyspark import RDD, SparkContext

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.model.dofn import DoFn, check_fn
from sdf.quarantine.options import Quarantine, check_quarantine
from sdf.reporting.progress import RunProgress
from sdf.saving.outputs import sinks_by_output
from sdf.sinks.sink import Sink
from sdf.spark.elements import check_context
from sdf.spark.jobs import unwound
from sdf.spark.row_elements import ConnectElements
from sdf.spark.saved_run import SaveSummary, run_saved
from sdf.spark.staged.runner import StagedRunner

__all__ = ["retry_failed"]


def retry_failed(
    spark: Any,
    fn: DoFn,
    sink: Sink | Mapping[str, Sink],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    commit_seconds: float = 60.0,
    runner: StagedRunner | None = None,
    side_inputs: Mapping[str, Any] | None = None,
    on_failure: Quarantine | None = None,
    progress: bool | Callable[[RunProgress], Any] | None = None,
) -> SaveSummary:
    """Run the blocks that `save_sdf` has set aside once more, and add their records to the saved result, exactly once.

    Mend the DoFn or the data first. The elements and the blocks are in the checkpoint; the DoFn and the sinks are not,
    so they are passed again. If the driver, the cluster or the sink fails, make the same call again. It adds all
    records in one commit at the end: to a table at once, to a directory of files one file after the other. What fails
    again stays set aside, with the new error, for the next call. If no block is set aside, nothing runs.

    Args:
        spark: the `SparkContext` or `SparkSession`, of Spark Connect too, to run on.
        fn: the DoFn, of the class of that call; its code, its fields and the side inputs may differ.
        sink, checkpoint: those of the call of `save_sdf`, which must have ended.
        commit_seconds, runner, side_inputs, progress: as for `save_sdf`.
        on_failure: a `Quarantine`, which says how many blocks may fail again: if there are more, the call raises, and
            nothing is added yet. None: one with its defaults.

    Returns:
        The `SaveSummary` of all that is saved now; ``failures`` are the blocks that are still set aside.

    Raises:
        InvalidTypeError, InvalidValueError, UnpicklableError: for wrong arguments, and for a sink that cannot add to
            its result, before any job runs.
        JournalError: if the checkpoint has no run that is done, or that of another class or sink, or was taken over by
            another driver.
        SinkError: if the result is not there any more, or cannot be added to. Make the same call again.
        SdfError: any other error, as of `save_sdf`.
    """
    elements = _nothing_of(spark)
    check_fn(fn, side_inputs, "retry_failed()")
    sinks = sinks_by_output(sink, (), "retry_failed()")
    for name, one in sinks:
        if not one.takes_retries:
            raise InvalidValueError(
                f"retry_failed() cannot add records to what {type(one).__name__} of output {name!r} has committed: it "
                f"may overwrite that, or refuse. Run the blocks of SaveSummary.failures with run_sdf() or save_sdf() "
                f"and another target. A Sink of your own whose commits follow each other says so: appends = True."
            )
    quarantine = check_quarantine(on_failure or Quarantine(), "retry_failed()", tags=[name for name, _ in sinks])
    options = checkpoint, commit_seconds, runner, side_inputs, quarantine, progress
    try:
        return run_saved("retry_failed()", elements, fn, sinks, *options, retry=True)
    except Exception as error:
        raise (told := unwound(error, elements)) from told.__cause__


def _nothing_of(spark: Any) -> RDD[Any] | ConnectElements:
    """Return no elements, of a session: those of the run are in its checkpoint."""
    modules = [f"{kind.__module__}.{kind.__name__}" for kind in type(spark).__mro__]
    if "pyspark.sql.connect.session.SparkSession" in modules:
        return ConnectElements(spark.range(0), lambda row: row)
    context = spark.sparkContext if "pyspark.sql.session.SparkSession" in modules else spark
    if not isinstance(context, SparkContext):
        raise InvalidTypeError(
            f"retry_failed() takes a SparkContext or a SparkSession first, then the DoFn and the sink: the elements "
            f"are in the checkpoint (got {'a DataFrame' if hasattr(spark, 'sparkSession') else show(spark)})."
        )
    check_context(context, "retry_failed()", "a SparkContext or SparkSession that runs", "Pass one that runs")
    return context.emptyRDD()
