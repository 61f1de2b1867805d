"""A saved run of StagedRunner on Spark Connect; each task of a stage is a DataFrame job of its own.

Spark Connect gives the rows of a job in the order of its partitions, and none if one task fails. In one job per stage
the receipts would wait for each other. A job takes about 0.2 s before its task begins; jobs start side by side.

All jobs have the tag of the run, by which they can be interrupted.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import attrs
from pyspark import Broadcast

from sdf.errors import InvalidValueError
from sdf.execution.expansion import Expanded
from sdf.execution.work_items import WorkItem
from sdf.limits.rate_limit import limits_of, shared
from sdf.quarantine.options import Quarantine
from sdf.reporting.run_report import RunReport
from sdf.saving.saving import Saving
from sdf.saving.segments import Targets
from sdf.spark import serde
from sdf.spark.call import Call
from sdf.spark.connect.session import carried, interrupt
from sdf.spark.connect.slots import FoundSlots, configured_slots
from sdf.spark.connect.tasks import RESULT, ExpandTask, SegmentTask, unescaped
from sdf.spark.door.connect import user_of
from sdf.spark.door.errors import SparkError
from sdf.spark.elements import WarnsOnce
from sdf.spark.expansion_job import expanded
from sdf.spark.jobs import Ended, arrived, explain, lost_task, unreachable
from sdf.spark.payload import Payload, pickled_payload
from sdf.spark.staged.outlets import Saved
from sdf.spark.staged.receipts import given_up
from sdf.spark.staged.runner import StagedRunner
from sdf.spark.staged.stored_blocks import Receipt
from sdf.spark.staged.task import StageTask

__all__ = ["save_on_connect"]

_ELEMENTS_PER_TASK = 10_000

log = logging.getLogger("sdf.connect")


@attrs.frozen
class _Task:
    stage: int
    task: int
    submitted: float


@attrs.define(eq=False, slots=False)
class ConnectJobs:
    """The jobs of a run, as `Stages` has them. Call `close` at the end.

    Args:
        spark: the session.
        payload: the DoFn as sent to workers.
        name: name of the DoFn.
        targets: the sinks.
        tag: the tag of the jobs.
        quarantine: its options; None for a run without.

    Attributes:
        unexpanded: how many parts of the elements are not expanded yet: none after `start_expanding`.
    """

    unexpanded = 0
    _spark: Any
    _payload: Payload
    _name: str
    _targets: Targets
    _tag: str
    _quarantine: Quarantine | None = None

    def __attrs_post_init__(self) -> None:
        self._warn = WarnsOnce(self._name)
        self._events: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._cancelled = False
        self._expanded: Iterator[Expanded] = iter(())
        self._gone = False  # the server
        self._configured = configured_slots(self._spark)
        self._found = FoundSlots(time.monotonic)

    def count_slots(self) -> int:
        """Return how many tasks the server runs at once now, as far as that is known."""
        return self._configured or self._found.count()

    def expand(self, elements: Sequence[Any]) -> Iterator[Expanded]:
        """Expand elements, in their order; call this only while no stage runs."""
        per_task = max(1, min(_ELEMENTS_PER_TASK, -(-len(elements) // self.count_slots())))
        parts = [elements[start : start + per_task] for start in range(0, len(elements), per_task)]
        for number, part in enumerate(parts):
            sent = carried(self._spark, serde.dumps(part, f"the elements of {self._name}"))
            self._start(number, f"{self._name}: expansion", ExpandTask(self._payload, sent))
        found: dict[int, list[bytes]] = {}
        while len(found) < len(parts):
            ended = self._events.get()
            if ended.error is not None:
                raise ended.error
            found[ended.key] = ended.value
        return expanded((pickled for number in range(len(parts)) for pickled in found[number]), self._warn)

    def start_expanding(self, elements: Sequence[Any]) -> None:
        """Expand elements; see `Stages`. Here all of them are waited for."""
        self._expanded = self.expand(elements)

    def take_expanded(self) -> Iterator[Expanded]:
        """Return the elements that were expanded since the last call."""
        return self._expanded

    def start(
        self, number: int, bundles: Sequence[tuple[tuple[WorkItem, ...], float]], *, min_piece_seconds: float
    ) -> None:
        """Start the tasks of a stage; see `Stages`. There are no stored blocks: the sinks hold the records."""
        save = StageTask(self._payload, number, Saved(self._targets), min_piece_seconds, quarantine=self._quarantine)
        for task, bundle in enumerate(bundles):
            sent = carried(self._spark, serde.dumps(bundle, f"the work items of {self._name}"))
            key = _Task(number, task, time.monotonic())
            self._start(key, f"{self._name}: stage {number}, task {task}", SegmentTask(save, task, sent))

    def _start(self, key: Any, what: str, task: ExpandTask | SegmentTask) -> None:
        def run() -> None:
            try:
                self._spark.addTag(self._tag)  # of this thread
                if not self._cancelled:
                    rows = self._spark.range(0, 1, 1, 1).mapInArrow(task, RESULT).collect()
                    self._events.put(Ended(key, value=[bytes(row[0]) for row in rows]))
            except BaseException as error:  # of any kind: the waiting thread must get it
                self._events.put(Ended(key, error=self._explained(error, what)))

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=run, name=self._tag, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _explained(self, error: BaseException, what: str) -> BaseException:
        gone = unreachable(error, what)
        self._gone = self._gone or gone is not None
        return gone or explain(error, what, self._payload.run_id, unescaped)

    def receive(self, timeout_seconds: float | None = None) -> list[Receipt]:
        """Wait for a receipt or the failure of a task; return all receipts that have arrived."""
        return [self._receipt(ended) for ended in arrived(self._events, timeout_seconds)]

    def _receipt(self, ended: Ended) -> Receipt:
        if ended.error is not None:
            if self._quarantine is None or lost_task(ended.error) is None:
                raise ended.error
            stage, task = ended.key.stage, ended.key.task
            (lost,) = given_up(self._payload.run_id, stage, [task], task, (), ended.error)
            return lost
        (pickled,) = ended.value
        receipt: Receipt = serde.loads(pickled)
        self._found.ended(ended.key.submitted, receipt.seconds)
        return receipt

    def cancel(self) -> None:
        """Interrupt the running jobs and wait for their threads, unless the server is gone."""
        self._cancelled = True
        for thread in self._threads:
            while thread.is_alive() and not self._gone:
                try:
                    self._spark.interruptTag(self._tag)  # again: a job may have been about to start
                except (SparkError, ValueError):  # the latter of gRPC, if the session was stopped
                    self._gone = True
                thread.join(0.1)

    def close(self) -> None:
        """Nothing is left to free."""


def save_on_connect(runner: StagedRunner, call: Call, saving: Saving) -> RunReport:
    """Run the work that is not committed yet, and write its records to the sinks; see `StagedRunner.save`."""
    spark = call.elements.spark
    for orphans in saving.history.operations:
        interrupt(spark, *orphans)
    tag = f"sdf-{uuid.uuid4().hex}"
    saving.note_operations(spark.session_id, user_of(spark), tag)
    sent = carried(spark, pickled_payload(call.fn, _shared(call.side_inputs, runner, spark)))
    payload = Payload(uuid.uuid4().hex, cast("Broadcast[bytes]", sent))
    jobs = ConnectJobs(spark, payload, call.name, saving.targets, tag, quarantine=call.quarantine)
    return runner.staged(jobs, attrs.evolve(call, elements=call.elements.collect()), saving).run_stages()


def _shared(side_inputs: Mapping[str, Any], runner: StagedRunner, spark: Any) -> dict[str, Any]:
    """Return side inputs whose rate limits are for one of the tasks that run at once; Spark may run each task twice."""
    limits = limits_of(side_inputs)
    if limits and runner.max_tasks is None:
        raise InvalidValueError(
            f"StagedRunner needs max_tasks for {limits[0]!r}: each task has an equal share of it, and Spark Connect "
            f"does not tell how many can run at once. slots= is no bound: a task may wait for a slot. Set max_tasks."
        )
    copies = 2 if limits and spark.conf.get("spark.speculation", "false") == "true" else 1
    return shared(side_inputs, (runner.max_tasks or 1) * copies, "StagedRunner")
