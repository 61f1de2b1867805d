"""The elements of a run with lanes: the call waits for the first of them, and a thread adds those that come later.

The lanes then start while tasks still expand elements, each in a slot. But one that is retried may find lanes in all
slots. If no task that expands elements has a slot, a lane without work ends
(`sdf.lanes.coordinator.Coordinator.frees_slot`).

Whoever cancels the jobs of an action may cancel the job that expands elements, too. It is started again when lanes
need it: those that go on, or those of the next action.
"""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

from pyspark import RDD, InheritableThread

from sdf.errors import StageError
from sdf.execution.expansion import Expanded
from sdf.spark.door.context import is_stopped
from sdf.spark.door.errors import JOB_CANCELLED
from sdf.spark.elements import WarnsOnce
from sdf.spark.expansion_job import Expand, ExpandedPartition, ExpansionJob
from sdf.spark.jobs import Ended, Jobs, arrived
from sdf.spark.live.contained_run import ContainedRun
from sdf.spark.payload import Payload

__all__ = ["Expansion"]

# The call waits so long for further partitions: what it waits for is in the report, and fails the call, not an action.
_STRAGGLER_SECONDS = 1.0
_LOOK_EVERY_SECONDS = 1.0
_CANCELLED_SECONDS = 5.0  # in which the lanes of a cancelled action end


class Expansion:
    """See the module's docstring. Call `whole`; or `first`, and `add_rest` if partitions are left.

    Args:
        rdd: the elements.
        payload: the run's DoFn.
        name: name of the DoFn.
        kept: whether the elements outlive this driver.
    """

    def __init__(self, rdd: RDD[Any], payload: Payload, name: str, *, kept: bool = False) -> None:
        self._events: queue.SimpleQueue[Ended | ExpandedPartition] = queue.SimpleQueue()
        self._sc = rdd.context
        self._jobs = Jobs(rdd.context, payload.run_id, self._events)
        self._job = ExpansionJob(rdd, Expand(payload, kept=kept), name, self._jobs, self._events, WarnsOnce(name))

    @property
    def left(self) -> int:
        """How many partitions are not expanded."""
        return self._job.left

    def whole(self) -> Iterator[Expanded]:
        """Return all elements; no job is left running if that fails."""
        try:
            return self._job.finish()
        except BaseException:
            self._jobs.cancel()
            raise

    def first(self, count_slots: Callable[[], int]) -> Iterator[Expanded]:
        """Return all elements or, `_STRAGGLER_SECONDS` after the first partition was expanded, those that are.

        It waits as long as there are as many partitions left as slots. Lanes would have to wait for slots, or take them
        from the tasks that expand elements.
        """
        partitions, until = self.left, math.inf
        while self.left:
            now = time.monotonic()
            if now >= until and self.left < count_slots():
                break
            self._receive(None if until == math.inf else until - now if until > now else _LOOK_EVERY_SECONDS)
            if until == math.inf and self.left < partitions:
                until = time.monotonic() + _STRAGGLER_SECONDS
        if not self.left:
            self._job.close()
        return self._job.take()

    def add_rest(self, run: ContainedRun) -> None:
        """Start a thread that adds the other elements to a run, or fails it."""
        InheritableThread(target=self._add_rest, args=(run,), name="sdf-expansion", daemon=True).start()

    def cancel(self) -> None:
        """Cancel the jobs."""
        self._job.close()
        self._jobs.cancel()

    def _add_rest(self, run: ContainedRun) -> None:
        try:
            looked_at, was_stuck = time.monotonic(), False
            while self.left:
                before = self.left
                try:
                    self._receive(_LOOK_EVERY_SECONDS)
                except StageError as error:
                    if JOB_CANCELLED not in str(error):
                        raise
                    self._wait_for_lanes(run)
                    self._job.start_again()
                if self.left < before:
                    run.expanded(list(self._job.take()), last=not self.left)
                if time.monotonic() - looked_at >= _LOOK_EVERY_SECONDS:
                    looked_at, is_stuck = time.monotonic(), self._jobs.is_stuck()
                    if is_stuck and was_stuck:
                        run.frees_slot()
                    was_stuck = is_stuck and not was_stuck
        except BaseException as error:  # in a thread of its own: the run tells it
            run.not_expanded(error)
            self._jobs.cancel()
        finally:
            self._job.close()

    def _wait_for_lanes(self, run: ContainedRun) -> None:
        """Wait until the lanes of a cancelled action have ended, and there are others; or until the context ends."""
        time.sleep(_CANCELLED_SECONDS)
        while not run.attempts() and not is_stopped(self._sc):
            time.sleep(_LOOK_EVERY_SECONDS)

    def _receive(self, timeout_seconds: float | None) -> None:
        """Wait for expanded partitions or the end of a job, and take all that has arrived.

        Raises:
            SdfError: if an element cannot be expanded, or the job failed.
        """
        for event in arrived(self._events, timeout_seconds):
            self._job.received(event)
