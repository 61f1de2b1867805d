"""RDDs whose actions cancel their Spark job when they are interrupted, as by the stop button of a notebook.

PySpark leaves such a job running: KeyboardInterrupt ends the wait for the result, but cancels nothing. PySpark's own
SIGINT handler, which a notebook does not use, tries to cancel all jobs, over the connection that is busy waiting.

RDDs derived from these in Python cancel too: every action of PySpark calls one of `_ACTIONS` in the end, and every
derived RDD comes from one of `_DERIVING`. Other paths do not cancel: a DataFrame, ``sc.union([result, ...])``,
``other.union(result)`` and ``sc.runJob(result, ...)``.
"""

from __future__ import annotations

import functools
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark import RDD, SparkContext

from sdf.spark.door.errors import GONE, GatewayError
from sdf.spark.door.rdds import PipelinedRDD

__all__ = ["InterruptiblePipelinedRDD", "cancel"]

_ACTIONS = (
    "collect",
    "collectWithJobGroup",
    "countApprox",
    "countApproxDistinct",
    "lookup",
    "meanApprox",
    "saveAsHadoopDataset",
    "saveAsHadoopFile",
    "saveAsNewAPIHadoopDataset",
    "saveAsNewAPIHadoopFile",
    "saveAsPickleFile",
    "saveAsSequenceFile",
    "saveAsTextFile",
    "sumApprox",
    "take",
)
_DERIVING = ("cartesian", "coalesce", "mapPartitionsWithIndex", "partitionBy", "union", "zip")
_TRIES = 10  # an interrupt disturbs other threads' connections to the JVM too
_PAUSE_SECONDS = 0.1


def cancel(sc: SparkContext, tag: str) -> bool:
    """Cancel the jobs with a tag; return False if the context or the JVM is gone, and the jobs with it."""
    for _ in range(_TRIES):
        try:
            sc.cancelJobsWithTag(tag)
        except AttributeError:  # the context was stopped
            return False
        except (GatewayError, OSError):
            time.sleep(_PAUSE_SECONDS)
        else:
            return True
    return False


def _interrupt_before(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt that was being handled when an error was raised; None if there was none."""
    context: BaseException | None = error
    while context is not None and not isinstance(context, KeyboardInterrupt):
        context = context.__context__
    return context


@contextmanager
def _cancelled_with_the_call(sc: SparkContext) -> Iterator[None]:
    """Cancel the jobs that this thread starts within the ``with`` statement if an exception ends it."""
    tag = f"sdf-{uuid.uuid4().hex}"
    sc.addJobTag(tag)
    try:
        yield
    except BaseException as error:
        # In another thread: the connection of this one may have broken in the middle of an answer.
        cancelling = threading.Thread(target=cancel, args=(sc, tag), name="sdf-cancel", daemon=True)
        cancelling.start()
        cancelling.join()
        if isinstance(error, GatewayError) and (interrupt := _interrupt_before(error)):
            raise interrupt from None  # PySpark's cleanup failed on the connection that the interrupt broke
        raise
    finally:
        with suppress(*GONE):  # the tag is gone with the connection or the context
            sc.removeJobTag(tag)


def _acts(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: RDD[Any], *args: Any, **kwargs: Any) -> Any:
        with _cancelled_with_the_call(self.ctx):
            return method(self, *args, **kwargs)

    return call


def _derives(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: RDD[Any], *args: Any, **kwargs: Any) -> Any:
        derived = method(self, *args, **kwargs)
        if type(derived) is PipelinedRDD:
            derived.__class__ = InterruptiblePipelinedRDD
        elif type(derived) is RDD:
            derived.__class__ = _InterruptibleRDD
        return derived

    return call


class _InterruptibleRDD(RDD[Any]):
    pass


class InterruptiblePipelinedRDD(PipelinedRDD[Any, Any]):
    """A `PipelinedRDD` whose interrupted actions cancel their jobs."""


for _class in (_InterruptibleRDD, InterruptiblePipelinedRDD):
    for _name in _ACTIONS:
        setattr(_class, _name, _acts(getattr(_class, _name)))
    for _name in _DERIVING:
        setattr(_class, _name, _derives(getattr(_class, _name)))
