"""The Spark jobs of a saved run with lanes: one, and another one if attempts that nobody replaced left work behind."""

from __future__ import annotations

import logging
import queue

import attrs
from pyspark import SparkContext

from sdf.errors import StageError
from sdf.saving.saving import Saving
from sdf.scheduling.run_state import RunState
from sdf.spark.display import Display
from sdf.spark.jobs import Ended, Jobs
from sdf.spark.live.contained_run import Run
from sdf.spark.live.link import SaveLaneTask

__all__ = ["run_rounds"]

log = logging.getLogger("sdf.saving")

_LOOK_SECONDS = 0.5
_MOST_IDLE_ROUNDS = 3


def run_rounds(
    sc: SparkContext,
    task: SaveLaneTask,
    lanes: int,
    work: RunState,
    served: Run,
    saving: Saving,
    run_id: str,
    display: Display | None,
) -> None:
    """Run lanes until all work is committed, and prove it; show the progress, to its end.

    A job can end with work left: Spark has counted a copy of a lane as done, and has killed another copy that had taken
    work. The next job does that work. For each lane that ended because its process was told to, another job of one lane
    starts at once: Spark counts the lane as done, and would use no executor that comes in place of the one that went.

    Args:
        sc: where to run them.
        task: runs a lane.
        lanes: how many there are in a job.
        work: the state of the run.
        served: its coordinator.
        saving: its log.
        run_id: its id.
        display: shows the progress, or None.

    Raises:
        StageError: if several jobs in a row commit nothing, though work is left.
        SdfError: the error of a lane, or of the log.
    """
    events: queue.SimpleQueue[Ended] = queue.SimpleQueue()
    jobs = Jobs(sc, run_id, events)

    def start(count: int) -> None:
        job = sc.parallelize(list(range(count)), count).mapPartitionsWithIndex(task).collect
        jobs.start("lanes", f"{work.name}: lanes", job, {})

    idle_rounds, left = 0, work.ledger.uncommitted()
    try:
        while left:
            start(lanes)
            running, replaced = 1, served.departed()
            while running:
                running -= _ended(events, served, saving, display)
                for _ in range(replaced, replaced := served.departed()):
                    start(1)
                    running += 1
            before, left = left, work.ledger.uncommitted()
            idle_rounds = 0 if left < before else idle_rounds + 1
            if idle_rounds == _MOST_IDLE_ROUNDS:
                raise StageError(
                    f"{work.name}: {left} work items are not committed, and {idle_rounds} Spark jobs in a row have "
                    f"not committed any. What is committed stays so; make the same call again."
                )
            if left:
                log.info("%s: the lanes have ended with %d work items left; starting them again", work.name, left)
        work.ledger.prove()
        saving.pulse(0.0, served.lost_seconds())
    except BaseException:
        jobs.cancel()
        raise
    finally:
        if display is not None:
            display.show(attrs.evolve(served.progress(), ended=True))
            display.wait()


def _ended(events: queue.SimpleQueue[Ended], served: Run, saving: Saving, display: Display | None) -> bool:
    """Look after the log and the progress; wait a little for the end of a job, and return whether one has ended."""
    saving.pulse(served.uncommitted_seconds(), served.lost_seconds())
    if display is not None:
        display.show(served.progress())
    try:
        ended = events.get(timeout=_LOOK_SECONDS)
    except queue.Empty:
        return False
    if ended.error is not None:
        raise ended.error
    return True
