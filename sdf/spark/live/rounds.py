"""The Spark jobs of a saved run with lanes: as many lanes as there are slots, on a cluster that may grow and shrink."""

from __future__ import annotations

import logging
import queue
import time

import attrs
from pyspark import SparkContext

from sdf.errors import StageError
from sdf.reporting.run_report import RunReport
from sdf.saving.saving import Saving
from sdf.scheduling.run_state import RunState
from sdf.spark.display import Display
from sdf.spark.door.errors import EXECUTOR_LOST
from sdf.spark.jobs import Ended, Jobs, slot_counter
from sdf.spark.live.contained_run import ContainedRun
from sdf.spark.live.executors import Executors
from sdf.spark.live.link import SaveLaneTask
from sdf.spark.payload import Payload

__all__ = ["Rounds"]

log = logging.getLogger("sdf.saving")

_LOOK_SECONDS = 0.2  # executors that come wait half of it for work, on average; a look takes some milliseconds
_MOST_IDLE_ROUNDS = 3
_IDLE_SECONDS = 1.0  # while an attempt waits longer than this for work, a further lane would wait, too
_END_SECONDS = 1.0  # in which tasks end once their lanes have
_GONE_SECONDS = 30.0  # in which an attempt of a job that has ended is gone; one that hangs may stay
_COUNT_SECONDS = 10.0  # slots are counted so long after executors have changed: Spark's counts may lag behind


@attrs.define(eq=False, slots=False)
class Rounds:
    """Runs the lanes of a saved run until all work is committed.

    A job can end with work left: Spark has counted a copy of a lane as done, and has killed another copy that had taken
    work. The next job does that work.

    While a job runs, others of few lanes are started beside it:

    - For each lane that left because it, or its process, was told to: Spark counts that lane as done, and would use no
      executor that comes in place of the one that goes.
    - For slots that have come. With dynamic allocation Spark asks for executors only while tasks wait for slots, so
      there are twice as many lanes as slots, and those that wait cost nothing.
    - For a job that has failed because executors were lost.

    Args:
        sc: where to run them.
        task: runs a lane.
        lanes: how many there are in a job.
        grows: whether to start more when there are more slots.
        work: the state of the run.
        served: its coordinator.
        saving: its log.
        payload: the run's DoFn.
        display: shows the progress, or None.
    """

    _sc: SparkContext
    _task: SaveLaneTask
    _lanes: int
    _grows: bool
    _work: RunState
    _served: ContainedRun
    _saving: Saving
    _payload: Payload
    _display: Display | None

    def __attrs_post_init__(self) -> None:
        self._events: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._jobs = Jobs(self._sc, self._payload.run_id, self._events)
        self._count_slots = slot_counter(self._sc)
        self._per_slot = 2 if self._sc.getConf().get("spark.dynamicAllocation.enabled") == "true" else 1
        self._executors = Executors(self._sc)
        self._slots = self._lanes
        self._running = self._started = 0  # jobs; lanes, without those that took the place of others
        self._idle_rounds, self._left = 0, self._work.ledger.uncommitted()
        self._done = len(self._work.ledger) - self._left
        self._over_at: float | None = None  # when it was first seen that nothing is left to do

    def run(self) -> RunReport:
        """Run the lanes, show the progress to its end, and prove that all is committed.

        Raises:
            StageError: if several jobs in a row commit nothing, though work is left.
            SdfError: the error of a lane, or of the log.
        """
        try:
            while self._left:
                self._run_round()
                if not self._waits_for_attempts():
                    self._judge()
                if self._left:
                    log.info("%s: the lanes have ended with %d work items left", self._work.name, self._left)
            self._work.ledger.prove()
            self._saving.pulse(0.0, self._served.coordinator.policy.lost_seconds)
        except BaseException:
            self._jobs.cancel()
            raise
        finally:
            if self._display is not None:
                self._display.show(attrs.evolve(self._served.progress(), ended=True))
                self._display.wait()
        return attrs.evolve(
            self._served.report(),
            executors=tuple(self._executors.events),
            lost_seconds=self._served.coordinator.policy.lost_seconds,
        )

    def _run_round(self) -> None:
        self._started = 0
        self._slots = self._count_slots()
        self._start(max(self._lanes, self._slots) if self._grows else self._lanes)
        replaced, self._over_at = self._served.coordinator.policy.departed, None
        while self._running:
            self._wait()
            before, replaced = replaced, self._served.coordinator.policy.departed
            if replaced > before:
                self._start(replaced - before, replaces=True)
            attempts = self._served.attempts()
            self._served.leave(self._executors.look(attempts))
            if attempts:
                self._over_at = None
                self._grow()
            else:
                self._end_if_over()

    def _waits_for_attempts(self) -> bool:
        """Return whether attempts outlived their jobs, after waiting until they are gone.

        What they hold cannot be committed before, so these jobs say nothing about whether the run gets on.
        """
        until = time.monotonic() + _GONE_SECONDS
        waited = False
        while self._work.ledger.uncommitted() and self._served.attempts() and time.monotonic() < until:
            waited = True
            self._wait()
        return waited and not self._served.attempts()

    def _start(self, count: int, *, replaces: bool = False) -> None:
        job = self._sc.parallelize(list(range(count)), count).mapPartitionsWithIndex(self._task).collect
        self._jobs.start(count, f"{self._work.name}: lanes", job, {})
        self._running += 1
        self._started += 0 if replaces else count

    def _grow(self) -> None:
        """Start more lanes if there are more slots, unless those that run have too little to do."""
        if time.monotonic() - self._executors.changed_at < _COUNT_SECONDS:
            self._slots = self._count_slots()
        more = self._per_slot * self._slots - self._started
        if self._grows and more > 0 and self._served.idle_seconds() < _IDLE_SECONDS:
            log.info("%s: %d lanes more, as there are %d slots", self._work.name, more, self._slots)
            self._start(more)

    def _wait(self) -> None:
        """Look after the log and the progress; wait a little for the end of a job."""
        self._saving.pulse(self._served.uncommitted_seconds(), self._served.coordinator.policy.lost_seconds)
        if self._display is not None:
            self._display.show(self._served.progress())
        try:
            ended = self._events.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            return
        self._running -= 1
        if ended.error is None:
            return
        if not (isinstance(ended.error, StageError) and EXECUTOR_LOST in str(ended.error)):
            raise ended.error
        self._judge(ended.error)
        log.warning("%s: starting %d lanes again: %s", self._work.name, ended.key, ended.error)
        self._start(ended.key, replaces=True)

    def _judge(self, cause: BaseException | None = None) -> None:
        """A job has ended: raise if it is one of several in a row that committed nothing."""
        ledger = self._work.ledger
        self._left = ledger.uncommitted()
        before, self._done = self._done, len(ledger) - self._left
        self._idle_rounds = 0 if self._done > before else self._idle_rounds + 1
        if self._idle_rounds == _MOST_IDLE_ROUNDS:
            raise StageError(
                f"{self._work.name}: {self._left} work items are not committed, and {self._idle_rounds} Spark jobs in "
                f"a row have not committed any. Committed work is safe: make the same call again. Last failure: "
                f"{cause}."
            ) from cause

    def _end_if_over(self) -> None:
        """Without attempts: if nothing is left to do, end jobs that do not end: their lanes may wait for slots long."""
        now = time.monotonic()
        if self._over_at is None:
            self._over_at = None if self._work.ledger.uncommitted() else now
        elif now - self._over_at > _END_SECONDS:
            self._jobs.cancel()
            self._running = 0
