"""The SparkContext and its JVM, and the context of a task. `SparkContext._jsc` is None after `stop()`.

All names hold in all versions.
"""

from __future__ import annotations

from typing import Any, cast

from pyspark import SparkContext, TaskContext

__all__ = [
    "active_context",
    "collect_garbage",
    "folder_of",
    "has_ended",
    "in_jvm",
    "is_stopped",
    "java_of",
    "task_values",
    "use_task_values",
]


def is_stopped(sc: SparkContext) -> bool:
    """Return whether `stop()` was called in this process; does not ask the JVM."""
    return sc._jsc is None


def has_ended(sc: SparkContext) -> bool:
    """Return whether a context was stopped, here or in the JVM."""
    return sc._jsc is None or bool(sc._jsc.sc().isStopped())


def in_jvm(sc: SparkContext) -> Any:
    """Return Scala's SparkContext; raise AttributeError if the context was stopped."""
    return cast("Any", sc._jsc).sc()


def active_context() -> SparkContext | None:
    """Return the context of this process, None if there is none; it makes none."""
    return SparkContext._active_spark_context


def folder_of(sc: SparkContext) -> str:
    """Return the driver's temporary directory of a context, which goes with the context."""
    return cast("str", sc._temp_dir)


def collect_garbage() -> None:
    """Run the JVM's garbage collector, after which Spark frees what no RDD refers to any more."""
    cast("Any", SparkContext._jvm).System.gc()


def java_of(sc: SparkContext) -> str:
    """Return the version of the driver's Java."""
    return str(cast("Any", sc._jvm).System.getProperty("java.version"))


def task_values() -> dict[str, Any] | None:
    """Return what a worker knows of the task that runs: its stage, partition, attempt, properties; None outside."""
    context = TaskContext.get()
    return None if context is None else vars(context)


def use_task_values(values: dict[str, Any]) -> None:
    """Let this process answer as the process of another task, as which it works now."""
    vars(TaskContext._getOrCreate()).update(values)
