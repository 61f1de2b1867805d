"""run_sdf: the entry to a Spark job. Checks what can be checked before any job runs, then hands over to a runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark import RDD

from sdf.errors import InvalidTypeError, show
from sdf.model.dofn import DoFn, check_fn, check_tags
from sdf.reporting.progress import RunProgress
from sdf.spark.display import display
from sdf.spark.elements import check_rdd
from sdf.spark.jobs import unwound
from sdf.spark.live.runner import LiveRunner
from sdf.spark.staged.runner import StagedRunner

__all__ = ["run_sdf"]


def run_sdf(
    rdd: RDD[Any],
    fn: DoFn,
    *,
    runner: StagedRunner | LiveRunner | None = None,
    side_inputs: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    progress: bool | Callable[[RunProgress], Any] | None = None,
) -> Any:
    """Run a splittable DoFn over the elements of an RDD.

    Works from several threads at once, and under the caller's job group and scheduler pool.

    Args:
        rdd: the elements: small descriptors, such as paths. They are collected on the driver. For
            a DataFrame pass ``df.rdd``.
        fn: the DoFn.
        runner: a `StagedRunner` or a `LiveRunner`; None for a `StagedRunner` with its defaults.
        side_inputs: values by name, passed to `process`; an RDD is collected, and passed as a list.
        tags: names of further outputs, fed by ``yield TaggedOutput(name, value)``.
        progress: a function that gets a `RunProgress` about twice a second, in a thread of its own; True for a bar;
            None for a bar if there is a terminal or a notebook, and tqdm is installed; False for none.

    Returns:
        An RDD of the outputs, each exactly once, in no particular order; with ``tags`` a dict of RDDs, ``"main"`` and
        one per tag. Each has a ``report``, a `RunReport`. With `StagedRunner` the records are computed, and stay in
        Spark's storage until you call ``unpersist()`` on the RDD; an action after that computes them again. With
        `LiveRunner` the RDD is lazy: the work runs in your actions.

    Raises:
        InvalidTypeError, InvalidValueError, UnpicklableError: for wrong arguments, before any job runs.
        UnboundedError: if the work of an element has no end; use ``stream_sdf`` for it.
        ProcessError: if user code raised; the worker's traceback is its cause. With `LiveRunner` your action
            raises Spark's own exception instead, with the text of this error in it: a
            ``pyspark.errors.PythonException`` once there is a SparkSession, a ``Py4JJavaError`` otherwise.
        SdfError: any other error of sdf. No job is left running.
    """
    check_rdd(rdd, "run_sdf()", "or run_direct(elements, fn) without Spark")
    check_fn(fn, side_inputs, "run_sdf()")
    names = check_tags(tags, "run_sdf()")
    if runner is not None and not isinstance(runner, (StagedRunner, LiveRunner)):
        raise InvalidTypeError(
            f"run_sdf() runner must be a StagedRunner or a LiveRunner (got {show(runner)}). Pass an instance, such as "
            f"runner=LiveRunner()."
        )
    values = {name: value.collect() if isinstance(value, RDD) else value for name, value in (side_inputs or {}).items()}
    shown = display(progress, "run_sdf()")
    try:
        outputs = (runner or StagedRunner()).run(rdd, fn, values, names, shown)
    except Exception as error:
        raise unwound(error) from error.__cause__
    return outputs if names else outputs["main"]
