"""SuspectJobs: runs the suspects of a saved run with lanes, each as a Spark job of one task beside the lanes.

Lanes hold their slots until no work is left for them. So a suspect may wait for a slot until then; all other work goes
on meanwhile.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

import attrs
from pyspark import SparkContext

from sdf.execution.work_items import SUSPECT, Outcome, WorkItem
from sdf.lanes.messages import SegmentDone
from sdf.quarantine.failures import KILLED, Failure
from sdf.quarantine.options import Quarantine
from sdf.saving.segments import Targets
from sdf.spark.jobs import Jobs
from sdf.spark.live.contained_run import Run
from sdf.spark.payload import Payload
from sdf.spark.staged.outlets import Saved
from sdf.spark.staged.stored_blocks import Receipt
from sdf.spark.staged.task import StageTask

__all__ = ["Suspected", "SuspectJobs"]

_MIN_PIECE_SECONDS = 0.2


@attrs.frozen
class Suspected:
    """The key of a suspect's job: the owner of the suspect in the ledger."""

    owner: Hashable


class SuspectJobs:
    """See the module's docstring.

    Args:
        sc: where to run them.
        jobs: runs the jobs.
        payload: the run's DoFn.
        targets: the sinks.
        commit_seconds: a suspect that runs for longer is split, and the rest is a suspect of its own.
        quarantine: the options of the run.
        served: the coordinator of the run.

    Attributes:
        running: how many jobs run.
    """

    def __init__(
        self,
        sc: SparkContext,
        jobs: Jobs,
        payload: Payload,
        targets: Targets,
        commit_seconds: float,
        quarantine: Quarantine,
        served: Run,
    ) -> None:
        self._sc = sc
        self._jobs = jobs
        self._payload = payload
        self._targets = targets
        self._commit_seconds = commit_seconds
        self._quarantine = quarantine
        self._served = served
        self._numbers = itertools.count()
        self._items: dict[Hashable, WorkItem] = {}  # those that run, by owner
        self.running = 0

    def start(self, slots: int, *, idle: bool) -> int:
        """Start jobs for the suspects that wait, at most as many as there are slots; return how many were started.

        Args:
            slots: how many tasks Spark can run at once.
            idle: whether no lane runs.
        """
        taken = self._served.take_suspects(slots - self.running, idle=idle and not self.running)
        for owner, item in taken:
            self._items[owner] = item
            bundle = ((attrs.evolve(item, origin=SUSPECT),), self._commit_seconds)
            number = next(self._numbers)
            outlet = Saved(self._targets)
            task = StageTask(self._payload, number, outlet, _MIN_PIECE_SECONDS, quarantine=self._quarantine)
            job = self._sc.parallelize([bundle], 1).mapPartitionsWithIndex(task).collect
            self._jobs.start(Suspected(owner), f"{self._served.coordinator.name}: suspect {number}", job, {})
        self.running += len(taken)
        return len(taken)

    def ended(self, key: Suspected, receipts: Sequence[Receipt], *, idle: bool) -> None:
        """Enter what a job has found; see `start` for ``idle``."""
        self.running -= 1
        self._items.pop(key.owner)
        (receipt,) = receipts
        done = SegmentDone(1, 0, receipt.messages, receipt.counts, receipt.seconds, receipt.closing_seconds)
        task = receipt.task_run(stage=0, task=0, unstarted=0)  # the report numbers it after the lanes
        idle = idle and not self.running
        self._served.suspect_ended(key.owner, receipt.outcome, receipt.failure, done, idle=idle, task=task)

    def lost(self, key: Suspected, error: Exception, *, idle: bool) -> None:
        """Spark has given up a job since each of its executors was lost: that is a failure of the suspect.

        Args:
            key: of the job.
            error: of the job.
            idle: see `start`.
        """
        self.running -= 1
        failure = Failure(self._items.pop(key.owner).id, KILLED, f"its executors were lost: {error}")
        done = SegmentDone(1, 0, (), (), 0.0, 0.0)
        self._served.suspect_ended(key.owner, Outcome(0), failure, done, idle=idle and not self.running)
