"""What StagedRunner runs inside a Python worker: a task of a stage, and the reader of committed records."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import attrs
from pyspark import Accumulator, Broadcast, TaskContext

from sdf.errors import ReplayError, show
from sdf.execution.bundle import Bundle
from sdf.execution.executor import run_to_end
from sdf.execution.timekeeper import Timekeeper
from sdf.execution.work_items import WorkItem
from sdf.limits.rate_limit import paced, waits_for_limit
from sdf.model.dofn import TaggedOutput
from sdf.quarantine.failures import Failure
from sdf.quarantine.options import Quarantine
from sdf.spark.child import Child
from sdf.spark.payload import Payload, marked, telling
from sdf.spark.staged.contained import attempts, bundle_of, convicting
from sdf.spark.staged.contents import Content
from sdf.spark.staged.outlets import Saved, Stored
from sdf.spark.staged.stored_blocks import Receipt, Stamp, read_blocks
from sdf.spark.task_start import task_starts, worker_name

__all__ = ["STAGE_PROPERTY", "ReadCommitted", "StageTask", "TimekeeperThread", "replayed", "stage_mark"]

STAGE_PROPERTY = "sdf.stage"  # local property of the jobs whose tasks run and split by the clock


@attrs.frozen(eq=False)
class StageTask:
    """Runs one task of a stage; a function for ``mapPartitionsWithIndex``. It yields its block, or only its receipt.

    A task that stores its records runs work, and splits it by the clock, only in a job that the runner has marked as
    this stage's. When Spark later computes a lost block again, the task yields only a stamp, and the reader replays the
    pinned parts.

    Args:
        payload: the run's DoFn.
        stage: number of the stage.
        outlet: where the records go.
        min_piece_seconds: when the budget is spent, give back the remaining work only if it takes longer than this.
        receipts: brings the task's receipt to the driver as the task ends; None where the job itself does.
        quarantine: its options; None for a run without.
    """

    _payload: Payload
    _stage: int
    _outlet: Stored | Saved
    _min_piece_seconds: float
    _receipts: Accumulator[list[Receipt]] | None = None
    _quarantine: Quarantine | None = attrs.field(default=None, kw_only=True)

    def __call__(self, task: int, partition: Iterable[tuple[tuple[WorkItem, ...], float]]) -> Iterator[Any]:
        task_starts()
        return marked(self._payload.run_id, self._run(task, partition))

    def _run(self, task: int, partition: Iterable[tuple[tuple[WorkItem, ...], float]]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        stamp = Stamp(self._payload.run_id, self._stage, task, context.taskAttemptId())
        ((items, budget_seconds),) = partition  # read to the end, else Spark does not reuse the worker
        if self._outlet.stores:
            yield stamp
            if context.getLocalProperty(STAGE_PROPERTY) != stage_mark(self._payload.run_id, self._stage):
                return
        wall, began, retries = time.time(), time.monotonic(), context.attemptNumber()
        sent = self if self._quarantine is None else attrs.evolve(self, payload=self._payload.here(), receipts=None)
        run = partial(sent._attempt, items, budget_seconds, stamp, retries, wall, began)

        def failed(failure: Failure) -> Receipt:
            seconds = time.monotonic() - began
            receipt = Receipt.failed(failure, stamp, self._outlet.tags, worker_name(), wall, seconds)
            return attrs.evolve(receipt, retries=retries)

        for given in attempts(run, self._quarantine, failed, run_id=self._payload.run_id):
            if isinstance(given, Receipt) and self._receipts is not None:
                self._receipts.add([given])
            yield given

    def _attempt(
        self,
        items: tuple[WorkItem, ...],
        budget_seconds: float,
        stamp: Stamp,
        retries: int,
        wall: float,
        began: float,
        child: Child | None,
    ) -> Generator[Any, None, None]:
        fn, side_inputs = self._payload.load()
        bundle = bundle_of(fn, items, side_inputs, child)
        seconds = self._outlet.budget_seconds(budget_seconds, retries)
        timekeeper = Timekeeper(bundle, seconds, self._min_piece_seconds, clock=time.monotonic)
        with TimekeeperThread(timekeeper, bundle, child), paced(side_inputs), convicting(bundle, child):
            given = yield from self._outlet.give(bundle, fn, side_inputs, timekeeper)
        ended = time.monotonic()
        yield Receipt(
            stamp, bundle.outcome(), given.counts, given.size, worker_name(), wall, ended - began, given.messages,
            retries=retries, closing_seconds=ended - bundle.ended_at,
        )  # fmt: skip


def stage_mark(run_id: str, stage: int) -> str:
    """Return the value of `STAGE_PROPERTY` in the jobs that run a stage."""
    return f"{run_id}/{stage}"


class TimekeeperThread:
    """A thread that makes a bundle keep its budget; the exit of the ``with`` statement raises the thread's error.

    If the bundle runs in a child, the thread also tells the parent that it gets on.
    """

    def __init__(self, timekeeper: Timekeeper, bundle: Bundle, child: Child | None) -> None:
        self._timekeeper = timekeeper
        self._bundle = bundle
        self._child = child
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._watch, name="sdf-timekeeper", daemon=True)

    def _watch(self) -> None:
        try:
            while not self._ended.wait(self._timekeeper.look_seconds):
                self._timekeeper.look()
                if self._child is not None:
                    self._child.beat(time.monotonic() if waits_for_limit() else self._bundle.progress())
        except Exception as error:  # handed to the thread that runs the bundle
            self._failure = error

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._ended.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure


def replayed(payload: Payload, items: Iterable[WorkItem]) -> Iterator[tuple[str | None, Any]]:
    """Run committed work items again, and yield each record with its tag, None for the main output."""
    with telling():
        fn, side_inputs = payload.load()
        with paced(side_inputs):
            for output in run_to_end(fn, items, side_inputs=side_inputs, clock=time.monotonic, sleep=time.sleep):
                yield (output.tag, output.value) if isinstance(output, TaggedOutput) else (None, output)


@attrs.frozen(eq=False)
class ReadCommitted:
    """Gives the committed records of one output; a function for ``mapPartitionsWithIndex`` over all stages' blocks.

    Args:
        payload: the run's DoFn.
        stamps: the committed attempt at each task.
        counts: for each of ``stamps`` its number of records in this output.
        contents: for each of ``stamps`` the work items that it committed; a replay runs them. It is broadcast, as only
            a lost block needs it.
        tag: number of the output, 0 for the main one.
        tags: the declared tags.
        batch: of a stream, the number of its batch that comes again; else None.
    """

    _payload: Payload
    _stamps: tuple[Stamp, ...]
    _counts: tuple[int, ...]
    _contents: Broadcast[list[Content]]
    _tag: int
    _tags: tuple[str, ...]
    _batch: int | None = None

    def __call__(self, partition: int, blocks: Iterable[Any]) -> Iterator[Any]:
        task_starts()
        return chain.from_iterable(read_blocks(blocks, frozenset(self._stamps), self._tag, self._replay))

    def _replay(self, lost: Stamp) -> Iterator[Any]:
        tasks = [(stamp.stage, stamp.task) for stamp in self._stamps]
        if (lost.stage, lost.task) not in tasks:  # its attempt failed, and with quarantine nothing of it counts
            return
        number = tasks.index((lost.stage, lost.task))
        items = self._contents.value[number].items()
        wanted = None if self._tag == 0 else self._tags[self._tag - 1]
        found = 0
        for tag, value in replayed(self._payload, items):
            if tag == wanted:
                found += 1
                yield value
        if found != self._counts[number]:
            name, parts = type(self._payload.load()[0]).__name__, show([item.restriction for item in items])
            gave = f"{parts} again gave {found} records where {self._counts[number]} were"
            raise ReplayError(
                f"{name}.process() is not deterministic: a stored block was lost, and running {gave} committed. Make "
                f"process() depend on nothing but element and restriction, or save the result before it is used twice."
                if self._batch is None
                else f"batch {self._batch} comes again, and {name}.process() of {gave} read before: its code has "
                f"changed, or is not deterministic. It is not committed, but foreach_batch or a sink may have it. Go "
                f"on with the code that it was read with; or pass short_batches='give': it is given as it is now."
            )
