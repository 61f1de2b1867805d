"""The Spark job that expands the elements of a run, and gives the driver each partition of them as it is done.

So work can begin while a slow partition is still expanded. An accumulator brings what a task has expanded, and may lose
or double it (`sdf.spark.as_tasks_end`). The first attempt at a partition whose elements arrive counts. Partitions of
which nothing has arrived when the job has ended are expanded by a second job.

A partition of more than a megabyte is part of the result of the job, which the driver reads piece by piece. An
accumulator's value would be in the driver's memory several times at once.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

import attrs
from pyspark import RDD, Accumulator

from sdf.execution.expansion import Expanded
from sdf.spark.as_tasks_end import AsTasksEnd
from sdf.spark.elements import WarnsOnce
from sdf.spark.jobs import Ended, Jobs
from sdf.spark.payload import Expand, expanded

__all__ = ["EXPANSION", "ExpandedPartition", "ExpansionJob"]

EXPANSION = "expand"  # the key of its jobs
_MOST_BYTES = 1 << 20  # Spark itself sends larger results another way (spark.task.maxDirectResultSize)


@attrs.frozen
class ExpandedPartition:
    """What an attempt at a partition has expanded, as `Expand` gives it, or some of it."""

    partition: int
    found: list[bytes | Expanded]


def _expand_partition(
    expand: Expand, made: Accumulator[list[ExpandedPartition]] | None, partition: int, elements: Iterable[Any]
) -> Iterator[ExpandedPartition]:
    """Expand a partition, for ``mapPartitionsWithIndex``.

    Args:
        expand: expands elements.
        made: what gets the `ExpandedPartition`, if that is small; None to yield it in any case.
        partition, elements: the partition.
    """
    found: list[bytes | Expanded] = []
    given = expand(elements)
    size_bytes = 0
    for one in given:
        found.append(one)
        size_bytes += _bytes(one)
        if size_bytes > _MOST_BYTES:
            break
    if made is not None and size_bytes <= _MOST_BYTES:
        made.add([ExpandedPartition(partition, found)])
        return
    yield ExpandedPartition(partition, found)
    for one in given:
        yield ExpandedPartition(partition, [one])


def _bytes(one: bytes | Expanded) -> int:
    return len(one) if isinstance(one, bytes) else sum(map(len, one.element.blobs))


class ExpansionJob:
    """Expands elements once. Its owner receives the events, and calls the methods in one thread.

    Args:
        rdd: the elements.
        expand: expands them, on the workers.
        name: name of the DoFn.
        jobs: runs the jobs.
        events: gets each `ExpandedPartition`; the end of a job comes from ``jobs``, with the key `EXPANSION`.
        warn: called for big elements.
    """

    def __init__(
        self, rdd: RDD[Any], expand: Expand, name: str, jobs: Jobs, events: queue.SimpleQueue[Any], warn: WarnsOnce
    ) -> None:
        self._rdd = rdd
        self._expand = expand
        self._name = name
        self._jobs = jobs
        self._events = events
        self._warn = warn
        self._left = set(range(jobs.count_partitions(rdd, f"{name}: expand elements")))
        self._fresh: dict[int, list[bytes | Expanded]] = {}  # by partition
        self._param = AsTasksEnd(events.put)
        self._made = rdd.context.accumulator([], self._param)
        self._runs = False  # whether a job does
        if self._left:
            self._start(rdd.mapPartitionsWithIndex(partial(_expand_partition, expand, self._made)).collect)

    def _start(self, job: Callable[[], Any]) -> None:
        self._runs = True
        self._jobs.start(EXPANSION, f"{self._name}: expand elements", job, {})

    @property
    def left(self) -> int:
        """How many partitions are not expanded."""
        return len(self._left)

    def received(self, event: Ended | ExpandedPartition) -> None:
        """Take an event: what an attempt has expanded, or the end of a job; raise the error of a failed job."""
        if isinstance(event, ExpandedPartition):
            self._arrived(event)
        elif event.error is not None:
            raise event.error
        else:
            self._ended(event.value)

    def _arrived(self, one: ExpandedPartition) -> None:
        """Take what an attempt has expanded, unless another attempt at its partition came first."""
        if one.partition in self._left:
            self._left.discard(one.partition)
            self._fresh[one.partition] = one.found

    def _ended(self, result: list[ExpandedPartition]) -> None:
        """A job has ended, with the partitions that were too big; expand again what has not arrived."""
        self._runs = False
        for partition, some in groupby(result, key=attrgetter("partition")):
            self._arrived(ExpandedPartition(partition, [one for each in some for one in each.found]))
        self.start_again()

    def start_again(self) -> None:
        """Expand again what has not arrived; call this when no job runs."""
        if self._left:
            again = self._rdd.mapPartitionsWithIndex(partial(_expand_partition, self._expand, None))
            self._start(partial(self._rdd.context.runJob, again, list, sorted(self._left)))

    def finish(self) -> Iterator[Expanded]:
        """Wait for the end of the job, and return all elements; nothing else may put into the events meanwhile."""
        try:
            while self._runs:
                self.received(self._events.get())
        finally:
            self.close()
        return self.take()

    def take(self) -> Iterator[Expanded]:
        """Return the elements that have arrived since the last call, in the order of their partitions."""
        fresh, self._fresh = self._fresh, {}
        return expanded(deque(chain.from_iterable(fresh.pop(partition) for partition in sorted(fresh))), self._warn)

    def close(self) -> None:
        """Remove the accumulator from PySpark, which would keep it; what comes later is dropped."""
        self._param.close(self._made)
