"""Executors and slots, as the scheduler in the JVM knows them. Python's own API has none of this in any version."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark import SparkContext

from sdf.spark.door.context import in_jvm

__all__ = ["Scheduler", "slots_of_executors"]


def slots_of_executors(sc: SparkContext) -> int:
    """Return how many tasks the present executors can run at once."""
    executors = in_jvm(sc).statusStore().executorList(True)
    return sum(executors.apply(number).maxTasks() for number in range(executors.size()))


class Scheduler:
    """Which executors there are, and what runs on them.

    Args:
        sc: the context; the master must not be local.
    """

    def __init__(self, sc: SparkContext) -> None:
        spark = in_jvm(sc)
        self._backend, self._scheduler = spark.schedulerBackend(), spark.taskScheduler()

    def executors(self) -> set[str]:
        """Return the ids of the executors."""
        return set(filter(None, self._backend.getExecutorIds().mkString(",").split(",")))

    def executor_of(self, task: int) -> str | None:
        """Return the executor that runs a task, by the id of the attempt; None if the task has ended."""
        found = self._scheduler.taskIdToExecutorId().get(task)
        return str(found.get()) if found.isDefined() else None

    def decommissioned(self, executors: Iterable[str]) -> list[str]:
        """Return those of these executors that Spark is decommissioning."""
        if not self._scheduler.executorsPendingDecommission().size():
            return []
        return [one for one in executors if self._scheduler.getExecutorDecommissionState(one).isDefined()]
