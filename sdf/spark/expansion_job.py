"""How the workers expand the elements of a run, and the Spark job that gives the driver each partition as it is done.

So work can begin while a slow partition is still expanded. An accumulator brings what a task has expanded, and may lose
or double it (`sdf.spark.as_tasks_end`). The first attempt at a partition whose elements arrive counts. Partitions of
which nothing has arrived when the job has ended are expanded by a second job.

A partition of more than a megabyte is part of the result of the job, which the driver reads piece by piece. An
accumulator's value would be in the driver's memory several times at once.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any

import attrs
from pyspark import RDD, Accumulator

from sdf.errors import UnpicklableError, show
from sdf.execution.bulk.making import expand_in_bulk
from sdf.execution.bulk.table import MEND, Row, Table
from sdf.execution.expansion import Expanded, expand
from sdf.spark import serde
from sdf.spark.as_tasks_end import AsTasksEnd
from sdf.spark.elements import BIG_BYTES, BigElement, WarnsOnce, big_element
from sdf.spark.jobs import Ended, Jobs
from sdf.spark.payload import Payload, marked
from sdf.spark.task_start import task_starts

__all__ = ["EXPANSION", "Expand", "ExpandedPartition", "ExpansionJob", "expanded"]

EXPANSION = "expand"  # the key of its jobs
_TOGETHER = 10_000  # elements
_MOST_BYTES = 1 << 20  # Spark itself sends larger results another way (spark.task.maxDirectResultSize)


@attrs.frozen(eq=False)
class Expand:
    """Expands elements into pickled tuples of `Expanded`, for ``mapPartitions``; `expanded` reads them.

    Many are pickled together: collecting ten thousand one by one would double the time of the job. Tables are plain
    values, and go as they are: the driver would hold each twice if it first got it pickled.

    Args:
        payload: the run's DoFn.
        unbounded: whether work without an end is allowed.
        kept: whether the elements outlive this driver.
        in_tables: whether small elements are rows of tables.
    """

    _payload: Payload
    _unbounded: bool = False
    _kept: bool = False
    _in_tables: bool = True

    def __call__(self, elements: Iterable[Any]) -> Iterator[Any]:
        task_starts()
        return marked(self._payload.run_id, self._expand(elements))

    def _expand(self, elements: Iterable[Any]) -> Iterator[bytes | Expanded]:
        fn, _ = self._payload.load()
        name = type(fn).__name__
        made: Iterator[Expanded]
        if self._in_tables:
            made = expand_in_bulk(fn, elements, partial(_dump, name), kept=self._kept, unbounded=self._unbounded)
        else:
            made = (expand(fn, element, unbounded=self._unbounded) for element in elements)
        for together in _together(made):
            if isinstance(together, Expanded):
                yield together
                continue
            pickled = _dump(name, together)
            yield pickled
            if len(pickled) > BIG_BYTES and (big := big_element([one.element for one in together])) is not None:
                yield serde.dumps(big, "the report of a large element")


def _together(made: Iterable[Expanded]) -> Iterator[tuple[Expanded, ...] | Expanded]:
    """Yield what is pickled together, and tables, in order."""
    for are_tables, some in groupby(made, key=lambda one: type(one.element) is Table):
        if are_tables:
            yield from some
            continue
        while together := tuple(islice(some, _TOGETHER)):
            yield together


def _dump(name: str, together: Sequence[Any]) -> bytes:
    """Pickle elements, expanded or not; the error names the one that does not pickle."""
    try:
        return serde.dumps(together, name)
    except UnpicklableError:
        for one in together:
            element = one.element if isinstance(one, (Expanded, Row)) else one
            serde.dumps(one, f"element {show(element)} of {name}, or its restriction,")
        raise


def expanded(given: Iterable[bytes | Expanded], warn: WarnsOnce) -> Iterator[Expanded]:
    """Yield the elements that `Expand` made, and warn of big ones. It keeps none of ``given`` that it has read."""
    waiting = given if isinstance(given, deque) else deque(given)
    while waiting:
        one = waiting.popleft()
        found = one if isinstance(one, Expanded) else _unpickled(one)
        if isinstance(found, Expanded):
            yield found
        elif isinstance(found, BigElement):
            warn(found)
        else:
            yield from found


def _unpickled(pickled: bytes) -> Any:
    try:
        return serde.loads(pickled)
    except Exception as error:
        raise UnpicklableError(
            f"elements or their restrictions do not unpickle on the driver ({type(error).__name__}: {error}). {MEND}"
        ) from error


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
