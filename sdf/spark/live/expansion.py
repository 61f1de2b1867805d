"""The elements of a run with lanes: the call waits for the first of them, and a thread adds those that come later.

The lanes then start while tasks still expand elements. Spark's FIFO scheduler gives these tasks slots before the lanes,
as their job is older. But one that is retried may find lanes in all slots. Lanes without work then end
(`sdf.lanes.coordinator.Coordinator.frees_slots`).
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from pyspark import RDD

from sdf.execution.expansion import Expanded
from sdf.spark.elements import WarnsOnce
from sdf.spark.expansion_job import STRAGGLER_SECONDS, ExpandedPartition, ExpansionJob
from sdf.spark.jobs import Ended, Jobs
from sdf.spark.live.contained_run import Run
from sdf.spark.payload import Expand, Payload

__all__ = ["Expansion"]

_SLOTS_EVERY_SECONDS = 1.0


class Expansion:
    """See the module's docstring. Call `first`, and `add_rest` if partitions are left.

    Args:
        rdd: the elements.
        payload: the run's DoFn.
        name: name of the DoFn.
    """

    def __init__(self, rdd: RDD[Any], payload: Payload, name: str) -> None:
        self._events: queue.SimpleQueue[Ended | ExpandedPartition] = queue.SimpleQueue()
        self._jobs = Jobs(rdd.context, payload.run_id, self._events)
        expand = Expand(payload, bulk=True)
        self._job = ExpansionJob(rdd, expand, name, self._jobs, self._events, WarnsOnce(name))
        self._name = name

    @property
    def left(self) -> int:
        """How many partitions are not expanded."""
        return self._job.left

    def first(self, *, wait_for_all: bool) -> Iterator[Expanded]:
        """Return all elements or, `STRAGGLER_SECONDS` after the first partition was expanded, those that are."""
        partitions, until = self.left, math.inf
        try:
            while self.left and (wait_for_all or time.monotonic() < until):
                self._receive(None if until == math.inf else max(0.0, until - time.monotonic()))
                if until == math.inf and self.left < partitions and not wait_for_all:
                    until = time.monotonic() + STRAGGLER_SECONDS
        except BaseException:
            self.cancel()
            raise
        if not self.left:
            self._job.close()
        return self._job.take()

    def add_rest(self, run: Run) -> None:
        """Start a thread that adds the other elements to a run, or fails it."""
        threading.Thread(target=self._add_rest, args=(run,), name="sdf-expansion", daemon=True).start()

    def cancel(self) -> None:
        """Cancel the jobs."""
        self._job.close()
        self._jobs.cancel()

    def _add_rest(self, run: Run) -> None:
        try:
            looked_at, waited = time.monotonic(), 0
            while self.left:
                before = self.left
                self._receive(_SLOTS_EVERY_SECONDS)
                if self.left < before:
                    run.expanded(list(self._job.take()), last=not self.left)
                if time.monotonic() - looked_at >= _SLOTS_EVERY_SECONDS:
                    looked_at, before_waited, waited = time.monotonic(), waited, self._jobs.waiting_tasks()
                    if before_waited and waited:
                        run.frees_slots(waited)
        except BaseException as error:  # in a thread of its own: the run tells it
            run.not_expanded(error)
            self._jobs.cancel()
        finally:
            self._job.close()

    def _receive(self, timeout_seconds: float | None) -> None:
        """Wait for expanded partitions or the end of a job, and take all that has arrived.

        Raises:
            SdfError: if an element cannot be expanded, or the job failed.
        """
        try:
            event = self._events.get(timeout=timeout_seconds)
            while True:
                if isinstance(event, ExpandedPartition):
                    self._job.arrived(event)
                elif event.error is not None:
                    raise event.error
                else:
                    self._job.ended(event.value)
                event = self._events.get_nowait()
        except queue.Empty:
            return
