"""The Spark jobs of a saved run with lanes: one, and another one if attempts that nobody replaced left work behind."""

from __future__ import annotations

import logging
import queue
from typing import Any

import attrs
from pyspark import RDD

from sdf.errors import StageError
from sdf.saving.saving import Saving
from sdf.scheduling.run_state import RunState
from sdf.spark.display import Display
from sdf.spark.jobs import Ended, Jobs
from sdf.spark.live.contained_run import Run

__all__ = ["run_rounds"]

log = logging.getLogger("sdf.saving")

_LOOK_SECONDS = 0.5
_MOST_IDLE_ROUNDS = 3


def run_rounds(
    lanes: RDD[Any], work: RunState, served: Run, saving: Saving, run_id: str, display: Display | None
) -> None:
    """Run the lanes until all work is committed, and prove it; show the progress, to its end.

    A job can end with work left: Spark has counted a copy of a lane as done, and has killed another copy that had taken
    work. The next job does that work.

    Raises:
        StageError: if several jobs in a row commit nothing, though work is left.
        SdfError: the error of a lane, or of the log.
    """
    events: queue.SimpleQueue[Ended] = queue.SimpleQueue()
    jobs = Jobs(lanes.context, run_id, events)
    idle_rounds, left = 0, work.ledger.uncommitted()
    try:
        while left:
            jobs.start("lanes", f"{work.name}: lanes", lanes.collect, {})
            _wait(events, served, saving, display)
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
    except BaseException:
        jobs.cancel()
        raise
    finally:
        if display is not None:
            display.show(attrs.evolve(served.progress(), ended=True))
            display.wait()


def _wait(events: queue.SimpleQueue[Ended], served: Run, saving: Saving, display: Display | None) -> None:
    """Wait for the end of the job, and look after the log and the progress meanwhile."""
    while True:
        saving.pulse(served.uncommitted_seconds())
        if display is not None:
            display.show(served.progress())
        try:
            ended = events.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            continue
        if ended.error is not None:
            raise ended.error
        return
