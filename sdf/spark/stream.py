"""stream_sdf: work without an end, in micro-batches, each of which happens once whatever crashes.

A batch goes through the chain of DoFns step by step. Each step is planned, and the plan is written down; it is run
until its time is up, and what it read is pinned; what it gave are elements for the next step. When the last step is
pinned the sink gets its records, and when the sink has returned the batch is committed, with all the work that is left.
The journal (`sdf.journal`) says how far a batch had come when a driver died: the next driver goes on from there, under
the same batch id, with the same records.
"""

from __future__ import annotations

import contextlib
import logging
import numbers
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
from pyspark import RDD

from sdf.disk import Disk
from sdf.dofn import DoFn, check_fn
from sdf.errors import InvalidTypeError, InvalidValueError, WatermarkError, blame, show
from sdf.journal import Journal
from sdf.pending import Pending, dump, from_json, load, to_json
from sdf.planner import scaled
from sdf.restrictions import is_integer
from sdf.spark.jobs import slot_counter
from sdf.spark.microbatch import Pin, Step

__all__ = ["Batch", "StreamSummary", "stream_sdf"]

log = logging.getLogger("sdf.stream")


@attrs.frozen
class Batch:
    """What the sink of a stream gets.

    Attributes:
        id: the number of the batch, from 1; after a crash the same records come again under the same number.
        rdd: the records, one partition per task, in the same order each time; kept until the sink returns.
        watermark: no later record is older, in the unit of the estimators; None if there are none.
    """

    id: int
    rdd: RDD[Any]
    watermark: Any


@attrs.frozen
class StreamSummary:
    """What a call of `stream_sdf` did.

    Attributes:
        batches: how many it committed.
        records: how many records they had.
        watermark: the last one, None if there are no estimators.
        done: whether all work has come to its end.
    """

    batches: int
    records: int
    watermark: Any
    done: bool


def stream_sdf(
    rdd: RDD[Any],
    fns: DoFn | Sequence[DoFn],
    *,
    checkpoint: str | os.PathLike[str],
    foreach_batch: Callable[[Batch], Any],
    batch_seconds: float = 1.0,
    max_batches: int | None = None,
    stop_when_idle: bool = False,
    max_items_per_batch: int | None = None,
    min_tasks: int | None = None,
    max_tasks: int | None = None,
    stop: threading.Event | None = None,
    drain: bool = False,
) -> StreamSummary:
    """Run work that may have no end, batch after batch, and return when it is told to stop.

    SIGINT and SIGTERM, where this runs in the main thread, end it after the batch; a second one ends it at once.

    Args:
        rdd: the elements to begin with. A stream that is resumed goes on with those that it was begun with.
        fns: a DoFn, or a chain of them: the outputs of one are the elements of the next, in the same batch.
        checkpoint: a directory of this stream alone, on a disk that the driver sees: it holds the journal.
        foreach_batch: called with each `Batch` that has records; it must make the same of the same batch id when it is
            called again, for instance by writing ``out/{batch.id}`` with overwrite.
        batch_seconds: how long the tasks of a batch run before they split; the pause between two beginnings at least.
        max_batches: return after so many committed batches.
        stop_when_idle: return when a batch found nothing new, and no work is due.
        max_items_per_batch: at most so many work items in a step of a batch; the rest waits its turn.
        min_tasks: at least so many tasks for a step where there is work for them; None: as many as Spark has slots.
        max_tasks: never more than so many; None: as many as Spark has slots.
        stop: set it from another thread to end the stream after the batch.
        drain: when it ends, ask each DoFn's `DoFn.truncate` what is still to be done, do that, and close the journal.

    Returns:
        What this call did.

    Raises:
        InvalidTypeError, InvalidValueError: for wrong arguments, before any job runs.
        JournalError: if the journal there cannot be gone on with, or another driver runs on it.
        SdfError: any other of the tree. What the sink raises is raised as it is. The journal stays whole.
    """
    chain = [fns] if isinstance(fns, DoFn) else list(fns) if isinstance(fns, Sequence) else fns
    if not isinstance(rdd, RDD):
        raise InvalidTypeError(f"stream_sdf() needs an RDD of elements (got {show(rdd)}).")
    if not isinstance(chain, list) or not chain:
        raise InvalidTypeError(f"stream_sdf() needs a DoFn or a sequence of them (got {show(fns)}).")
    for fn in chain:
        check_fn(fn, None, "stream_sdf()")
    if not callable(foreach_batch):
        raise InvalidTypeError(f"stream_sdf() foreach_batch must be callable (got {show(foreach_batch)}).")
    if not isinstance(batch_seconds, (int, float)) or not 0 < batch_seconds < 1e6:
        raise InvalidValueError(f"stream_sdf() batch_seconds must be a number > 0 (got {show(batch_seconds)}).")
    bounds = {"max_batches": max_batches, "max_items_per_batch": max_items_per_batch, "min_tasks": min_tasks}
    for name, value in {**bounds, "max_tasks": max_tasks}.items():
        if value is not None and (not is_integer(value) or value < 1):
            raise InvalidValueError(f"stream_sdf() {name} must be an integer >= 1, or None (got {show(value)}).")
    if min_tasks is not None and max_tasks is not None and min_tasks > max_tasks:
        raise InvalidValueError(f"stream_sdf() min_tasks must be <= max_tasks (got {min_tasks} and {max_tasks}).")
    stopped = threading.Event() if stop is None else stop
    with _signals(stopped):
        stream = _Stream(rdd, chain, checkpoint, foreach_batch, float(batch_seconds), max_items_per_batch)
        try:
            stream.limit_tasks(min_tasks, max_tasks)
            stream.begin(rdd)
            stream.run(stopped, max_batches, stop_when_idle)
            if drain:
                stream.drain()
            return stream.summary()
        finally:
            stream.close()


@contextlib.contextmanager
def _signals(stopped: threading.Event) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM set an event, and the second do what it did before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: Any) -> None:
        stopped.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _now() -> int:
    return time.time_ns() // 1_000_000


class _Stream:
    """One call of `stream_sdf`."""

    def __init__(
        self,
        rdd: RDD[Any],
        fns: list[DoFn],
        checkpoint: str | os.PathLike[str],
        foreach_batch: Callable[[Batch], Any],
        batch_seconds: float,
        max_items: int | None,
    ) -> None:
        self._foreach_batch = foreach_batch
        self._batch_seconds = batch_seconds
        self._max_items = max_items
        names = [type(fn).__name__ for fn in fns]
        self._journal = Journal(
            Disk(checkpoint),
            config={"fns": names},
            inputs=[f"{number} {name}" for number, name in enumerate(names)],
            clock=_now,
        )
        run_id = uuid.uuid4().hex
        self._steps = [Step(rdd.context, fn, number, run_id) for number, fn in enumerate(fns)]
        self._slots = slot_counter(rdd.context)
        self._min_tasks: int | None = None
        self._max_tasks: int | None = None
        self._pending: list[Pending] = []
        self._fresh = 0  # elements that the first batch begins with
        self._watermark: Any = None
        self._done = False
        self._batches = 0
        self._records = 0

    def limit_tasks(self, minimum: int | None, maximum: int | None) -> None:
        """Bound the tasks of a step."""
        self._min_tasks, self._max_tasks = minimum, maximum

    def close(self) -> None:
        """Leave no job and nothing stored behind."""
        for step in self._steps:
            step.close()

    def summary(self) -> StreamSummary:
        """Return what was done so far."""
        return StreamSummary(self._batches, self._records, self._watermark, self._done)

    def begin(self, rdd: RDD[Any]) -> None:
        """Find out from the journal what is to be done; only where there is none, from the elements."""
        head = self._journal.head.data
        if head["kind"] == "commit":
            self._watermark = head["watermark"]
            self._done = head["status"] == "done"
            if head["checkpoint"] is not None:
                state, self._pending = load(self._journal.get(head["checkpoint"]))
                self._acknowledge([from_json(part) for part in state["committed"]])
            return
        start = self._journal.ahead("start")
        if start is None:
            start = [to_json(one) for one in self._steps[0].expand(rdd)]
            start = self._journal.write_ahead("start", start)
        self._pending = [from_json(one) for one in start]
        self._fresh = len(self._pending)

    def run(self, stopped: threading.Event, max_batches: int | None, stop_when_idle: bool) -> None:
        """Run batches until it is time to stop."""
        while not self._done and not stopped.is_set() and (max_batches is None or self._batches < max_batches):
            began = time.monotonic()
            advanced = self._batch()
            due_in = self._due_in_seconds()
            if not advanced and stop_when_idle and due_in > 0:
                return
            pause = self._batch_seconds - (time.monotonic() - began)
            if not self._done:
                stopped.wait(max(0.0, pause if advanced else max(pause, due_in)))

    def drain(self) -> None:
        """Do what is left of finite work, drop what has no end, and close the journal."""
        left = []
        for one in self._pending:
            step = self._steps[one.step]
            with blame(lambda step=step, one=one: f"{step.name}.truncate() of {show(one.restriction)}"):  # type: ignore[misc]
                rest = step.fn.truncate(one.element, one.restriction)
            if rest is not None:
                left.append(attrs.evolve(one, restriction=rest, due=0))
        self._pending = left
        while self._pending:
            time.sleep(min(max(0.0, self._due_in_seconds()), 3600.0))
            self._batch()
        if not self._done:
            self._commit([], 0, [0] * len(self._steps))

    def _due_in_seconds(self) -> float:
        """Return how long it takes until the first work is due; 0 if some is, or none is left."""
        earliest = min((one.due for one in self._pending), default=0)
        return max(0.0, (earliest - _now()) / 1000)

    def _batch(self) -> bool:
        """Run one batch; return whether anything came of it."""
        now = _now()
        number = self._journal.next_seq
        records = self._journal.head.data.get("output", {}).get("stop", 0)
        elements: RDD[Any] | None = None
        pins: list[Pin] = []
        fresh = [self._fresh] + [0] * (len(self._steps) - 1)
        left: list[Pending] = []
        for step in self._steps:
            pin, kept = self._step(step, number, elements, now)
            left += [*kept, *pin.left]
            pins.append(pin)
            if step.number + 1 < len(self._steps):
                fresh[step.number + 1] = pin.records
                elements = step.records(pin) if pin.records else None
        if not any(parts for pin in pins for parts in pin.tasks) and not self._fresh:
            self._journal.discard_ahead()
            self._pending = left
            self._forget()
            return False
        self._pending = left
        self._advance_watermark()
        if pins[-1].records:
            self._foreach_batch(Batch(number, self._steps[-1].records(pins[-1]), self._watermark))
        committed = [part for pin in pins for parts in pin.tasks for part in parts]
        self._commit(committed, pins[-1].records, fresh)
        self._batches += 1
        self._records += pins[-1].records
        self._fresh = 0
        log.info("batch %d: %d records, output at %d", number, pins[-1].records, records + pins[-1].records)
        return True

    def _step(self, step: Step, number: int, elements: RDD[Any] | None, now: int) -> tuple[Pin, list[Pending]]:
        """Run one step of a batch, or follow what is written of it; return what it read, and the work it left alone."""
        mine = [one for one in self._pending if one.step == step.number]
        plan = self._journal.ahead(f"plan-{step.number}")
        if plan is None:
            fresh = [] if elements is None else step.expand(elements)
            due = [place for place, one in enumerate(mine) if one.due <= now]
            room = len(due) + len(fresh) if self._max_items is None else self._max_items
            taken, admitted = due[:room], fresh[: max(0, room - len(due))]
            work = [*(mine[place] for place in taken), *admitted]
            if not work and not fresh:
                return Pin((), (), ()), mine
            tasks = step.plan(work, self._tasks(len(work))) if work else []
            plan = self._journal.write_ahead(
                f"plan-{step.number}",
                {
                    "tasks": [[to_json(one) for one in share] for share in tasks],
                    "taken": taken,
                    "later": [to_json(one) for one in fresh[len(admitted) :]],
                },
            )
        gone = set(plan["taken"])
        kept = [one for place, one in enumerate(mine) if place not in gone] + [from_json(one) for one in plan["later"]]
        written = self._journal.ahead(f"pin-{step.number}")
        if written is None:
            shares = [[from_json(one) for one in share] for share in plan["tasks"]]
            pin = step.run(number, shares, self._batch_seconds, _now()) if shares else Pin((), (), ())
            mine_too = pin.to_json()
            written = self._journal.write_ahead(f"pin-{step.number}", mine_too)
            if written == mine_too:
                return pin, kept
            step.forget()  # another driver was faster: what counts is what it read
        return Pin.from_json(written), kept

    def _tasks(self, work: int) -> int:
        slots = self._slots()
        most = self._max_tasks or max(slots, self._min_tasks or 0)
        return scaled(work, min(self._min_tasks or slots, most), most)

    def _advance_watermark(self) -> None:
        """Move the watermark to the lowest of all work that is left; it never goes back."""
        held = []
        for one in self._pending:
            step = self._steps[one.step]
            if type(step.fn).create_watermark_estimator is DoFn.create_watermark_estimator:
                continue
            estimator = step.fn.create_watermark_estimator(one.element, one.restriction)
            if estimator is None:
                continue
            if one.watermark is not None:
                estimator.restore(one.watermark)
            current = estimator.current()
            if not isinstance(current, numbers.Real):
                raise WatermarkError(
                    f"{step.name}: in a stream a watermark must be a number, such as seconds since the epoch (got "
                    f"{show(current)})."
                )
            held.append(current)
        if held:
            lowest = min(held)
            self._watermark = lowest if self._watermark is None else max(self._watermark, lowest)

    def _commit(self, parts: list[Pending], records: int, fresh: list[int]) -> None:
        """Commit a batch: the work that is left, and how far everything has come."""
        head = self._journal.head.data
        begun = head["kind"] == "commit"
        reached = [one["stop"] for one in head["inputs"]] if begun else [0] * len(fresh)
        names = [one["id"] for one in head["inputs"]] if begun else head["inputs"]
        out = head["output"]["stop"] if begun else 0
        heard = [part for part in parts if type(self._steps[part.step].fn).on_commit is not DoFn.on_commit]
        state = {"v": 1, "committed": [to_json(part) for part in heard]}
        self._done = not self._pending
        self._journal.commit(
            {
                "inputs": [
                    {"id": name, "start": at, "stop": at + more}
                    for name, at, more in zip(names, reached, fresh, strict=True)
                ],
                "output": {"start": out, "stop": out + records},
                "checkpoint": self._journal.put(dump(state, self._pending)),
                "watermark": self._watermark,
                "status": "done" if self._done else "running",
            }
        )
        self._forget()
        self._acknowledge(heard)

    def _forget(self) -> None:
        for step in self._steps:
            step.forget()

    def _acknowledge(self, parts: list[Pending]) -> None:
        """Tell sources that what was read of them is committed."""
        for part in parts:
            step = self._steps[part.step]
            with blame(lambda step=step, part=part: f"{step.name}.on_commit() of {show(part.restriction)}"):  # type: ignore[misc]
                step.fn.on_commit(part.element, part.restriction)
