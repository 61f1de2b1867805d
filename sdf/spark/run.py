"""run_sdf: the entry to a Spark job. Checks what can be checked before any job runs, then hands over to a runner."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from sdf.errors import InvalidTypeError, show
from sdf.model.dofn import DoFn, ElementT, OutT, check_fn, check_tags
from sdf.quarantine.options import Quarantine, check_quarantine
from sdf.reporting.progress import RunProgress
from sdf.spark.call import Call
from sdf.spark.display import display
from sdf.spark.elements import is_dataframe
from sdf.spark.frames import run_on_frame
from sdf.spark.jobs import unwound
from sdf.spark.live.runner import LiveRunner
from sdf.spark.row_elements import as_elements, collected
from sdf.spark.runners import check_runner
from sdf.spark.save import save_sdf
from sdf.spark.staged.runner import StagedRunner

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame
    from typing_extensions import NotRequired, Required, TypedDict, Unpack

    from sdf.spark.result import Result

    class _Options(TypedDict, total=False):
        """Options of `run_sdf` that do not change the type of its result."""

        runner: StagedRunner | LiveRunner | None
        side_inputs: Mapping[str, Any] | None
        progress: bool | Callable[[RunProgress], Any] | None

    class _FrameOptions(_Options):
        """Options that a DataFrame of elements needs."""

        schema: Required[Any]
        staging: Required[str | os.PathLike[str]]
        element: NotRequired[Callable[[Any], Any] | None]


__all__ = ["run_sdf"]


@overload
def run_sdf(
    elements: RDD[ElementT], fn: DoFn[ElementT, OutT], *, on_failure: None = None, **options: Unpack[_Options]
) -> Result[OutT]: ...
@overload
def run_sdf(
    elements: RDD[ElementT], fn: DoFn[ElementT, Any], *, on_failure: Quarantine, **options: Unpack[_Options]
) -> dict[str, Result[Any]]: ...
@overload
def run_sdf(
    elements: RDD[ElementT],
    fn: DoFn[ElementT, Any],
    *,
    tags: Sequence[str],
    on_failure: Quarantine | None = None,
    **options: Unpack[_Options],
) -> dict[str, Result[Any]]: ...
@overload
def run_sdf(
    elements: DataFrame, fn: DoFn[Any, Any], *, on_failure: None = None, **options: Unpack[_FrameOptions]
) -> DataFrame: ...
@overload
def run_sdf(
    elements: DataFrame, fn: DoFn[Any, Any], *, on_failure: Quarantine, **options: Unpack[_FrameOptions]
) -> dict[str, DataFrame]: ...
@overload
def run_sdf(
    elements: DataFrame,
    fn: DoFn[Any, Any],
    *,
    tags: Sequence[str],
    on_failure: Quarantine | None = None,
    **options: Unpack[_FrameOptions],
) -> dict[str, DataFrame]: ...


def run_sdf(
    elements: Any,
    fn: DoFn[Any, Any],
    *,
    runner: StagedRunner | LiveRunner | None = None,
    side_inputs: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    schema: Any = None,
    staging: str | os.PathLike[str] | None = None,
    element: Callable[[Any], Any] | None = None,
    on_failure: Quarantine | None = None,
    progress: bool | Callable[[RunProgress], Any] | None = None,
) -> Any:
    """Run a splittable DoFn over the elements of an RDD or a DataFrame.

    Works from several threads at once, and under the caller's job group and scheduler pool.

    Args:
        elements: an RDD of them: small descriptors, such as paths. They are collected on the driver. Or a
            DataFrame, of Spark Connect too, whose rows they are.
        fn: the DoFn.
        runner: a `StagedRunner` or a `LiveRunner`, on Spark Connect a `StagedRunner`; None for a `StagedRunner` with
            its defaults.
        side_inputs: values by name, passed to `process`; an RDD or a DataFrame is collected, and passed as a list.
        tags: names of further outputs, fed by ``yield TaggedOutput(name, value)``.
        schema: for a DataFrame: the schema of the records, such as ``"id long, name string"``, or a `StructType`; with
            tags a dict of "main" and each tag to one. What a record may be see `sdf.sinks.ParquetFiles`.
        staging: for a DataFrame: a directory or URL that this client, the executors and Spark can reach. Each run
            writes its results into a directory of its own there, and nobody removes them but you.
        element: for a DataFrame: a function that makes an element of a `Row`. None: the value of its only column, or
            the `Row`.
        on_failure: None: the first block that fails ends the run. A `Quarantine` sets blocks aside that fail each time
            they run; needs a `StagedRunner`.
        progress: a function that gets a `RunProgress` about twice a second, in a thread of its own; True for a bar;
            None for a bar if there is a terminal or a notebook, and tqdm is installed; False for none.

    Returns:
        An RDD of the outputs, each exactly once, in no particular order. With ``tags`` or quarantine a dict of RDDs:
        ``"main"``, one per tag, and with quarantine ``"failed"``, whose records are `FailedBlock`. Each has a
        ``report``, a `RunReport`. With `StagedRunner` the records are computed, and stay in Spark's storage until you
        call ``unpersist()`` on the RDD; an action after that computes them again. With `LiveRunner` the RDD is lazy:
        the work runs in your actions, and elements that take long to be expanded join it there.

        For a DataFrame: DataFrames that read what is staged.

    Raises:
        InvalidTypeError, InvalidValueError, UnpicklableError: for wrong arguments, before any job runs.
        UnboundedError: if the work of an element has no end; use ``stream_sdf`` for it.
        TooManyFailuresError: if more blocks failed than a quarantine allows.
        ProcessError: if user code raised; the worker's traceback is its cause. With `LiveRunner` your action
            raises Spark's own exception instead, with the text of this error in it: a
            ``pyspark.errors.PythonException`` once there is a SparkSession, a ``Py4JJavaError`` otherwise.
        SdfError: any other error of sdf. No job is left running.
    """
    given = as_elements(elements, element, "run_sdf()")
    check_fn(fn, side_inputs, "run_sdf()")
    names = check_tags(tags, "run_sdf()")
    quarantine = check_quarantine(on_failure, "run_sdf()", tags=names)
    check_runner(runner, given, "run_sdf()", quarantine)
    if is_dataframe(elements):
        save = partial(save_sdf, elements, fn, runner=runner, side_inputs=side_inputs, element=element)
        save = partial(save, on_failure=on_failure, progress=progress)
        sets_aside, name = quarantine is not None, type(fn).__name__
        outputs = run_on_frame(elements.sparkSession, name, schema, staging, names, save, sets_aside=sets_aside)
        return outputs if len(outputs) > 1 else outputs["main"]
    for name, value in {"schema": schema, "staging": staging}.items():
        if value is not None:
            raise InvalidTypeError(f"run_sdf() {name}= is for a DataFrame of elements (got {show(value)} and an RDD).")
    values = {name: collected(value) for name, value in (side_inputs or {}).items()}
    call = Call(given, fn, values, display(progress, "run_sdf()"), quarantine)
    try:
        outputs = (runner or StagedRunner()).run(call, names)
    except Exception as error:
        raise (told := unwound(error, given)) from told.__cause__
    return outputs if len(outputs) > 1 else outputs["main"]
