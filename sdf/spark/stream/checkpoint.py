"""The state of a stream in the journal: the remaining work and the watermark.

The plan and the pin of each step of a batch are written ahead here, and the batch is committed when the sink has it. A
drain changes the remaining work without a batch. The change is planned in place of the next batch's first plan: another
driver may be at that batch, and only one of the two can go on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from pyspark import RDD

from sdf.errors import blame, show
from sdf.journal.journal import START, Journal
from sdf.journal.pending import Pending, dump, from_json, load, to_json
from sdf.model.dofn import DoFn
from sdf.sinks.sink import Sink
from sdf.spark.stream.batch_sink import BatchSink
from sdf.spark.stream.clock import Clock
from sdf.spark.stream.steps import Pin, Plan, Step
from sdf.storage.places import Storage

__all__ = ["Checkpoint"]

_FIRST_PLAN = "plan-0"
_CHANGED = "changed"


class Checkpoint:
    """The state of one stream.

    Args:
        storage: holds the journal.
        steps: the steps of the chain.
        now: the clock; it is set to the time of the journal's last block if it is behind.

    Attributes:
        pending: the remaining work.
        fresh: number of parts that the stream begins with and that no committed batch has counted yet.
        watermark: the last watermark; None without estimators.
        done: whether all work has come to its end.
    """

    def __init__(self, storage: Storage, steps: Sequence[Step], now: Clock) -> None:
        self._steps = steps
        names = [step.name for step in steps]
        self._journal = Journal(
            storage,
            config={"fns": names},
            inputs=[f"{number} {name}" for number, name in enumerate(names)],
            clock=now,
        )
        now.reach(self._journal.head.data["time"])
        self.pending: list[Pending] = []
        self.fresh = 0
        self.watermark: Any = None
        self.done = False

    def sink(self, sink: Sink) -> BatchSink:
        """Return what writes batches into a sink."""
        return BatchSink(sink, self._journal)

    @property
    def driver(self) -> str:
        """The name of this driver."""
        return self._journal.driver

    @property
    def batch(self) -> int:
        """The number of the last commit, 0 for none; the next batch gets the next number."""
        return self._journal.head.seq

    def begin(self, rdd: RDD[Any]) -> None:
        """Take the state from the journal; only a new journal starts with the elements."""
        head = self._journal.head.data
        if head["kind"] == "commit":
            self.watermark = head["watermark"]
            self.done = head["status"] == "done"
            if head["checkpoint"] is not None:
                state, self.pending = load(self._journal.get(head["checkpoint"]))
                self._acknowledge([from_json(part) for part in state["committed"]])
            return
        start = self._journal.ahead(START)
        if start is None:
            start = [to_json(one) for one in self._steps[0].expand(rdd)]
            start = self._journal.write_ahead(START, start)
        self.pending = [from_json(one) for one in start]
        self.fresh = len(self.pending)

    def is_planned(self) -> bool:
        """Tell whether the next batch is already planned, by a driver that has died."""
        return self._journal.ahead(_FIRST_PLAN) is not None

    def follow_change(self) -> bool:
        """Commit the change that a dead driver has planned; return False if there is none."""
        planned = self._journal.ahead(_FIRST_PLAN)
        if planned is None or _CHANGED not in planned:
            return False
        self.pending = [from_json(one) for one in planned[_CHANGED]]
        self._commit([], [])
        return True

    def commit_change(self) -> None:
        """Commit the pending work if it is not what the journal says.

        Raises:
            JournalFencedError: if another driver has planned the next batch.
        """
        if self.done or self._put([]) == self._journal.head.data.get("checkpoint"):
            return
        changed = {_CHANGED: [to_json(one) for one in self.pending]}
        if self._journal.write_ahead(_FIRST_PLAN, changed) != changed:
            raise self._journal.fenced()
        self._commit([], [])

    def plan(self, step: int) -> Plan | None:
        """Return the plan of a step of the next batch, None if there is none.

        Raises:
            JournalFencedError: if another driver has planned a change in place of the batch.
        """
        plan = self._journal.ahead(f"plan-{step}")
        return None if plan is None else self._plan(plan)

    def write_plan(self, step: int, plan: Plan) -> Plan:
        """Write the plan of a step of the next batch; return the plan that counts: the first that a driver has written.

        Raises:
            JournalFencedError: if another driver has planned a change in place of the batch.
        """
        return self._plan(self._journal.write_ahead(f"plan-{step}", plan.to_json()))

    def _plan(self, plan: dict[str, Any]) -> Plan:
        if _CHANGED in plan:
            raise self._journal.fenced()
        return Plan.from_json(plan)

    def pin(self, step: int) -> Pin | None:
        """Return the pin of a step of the next batch, None if nobody has run the step."""
        pin = self._journal.ahead(f"pin-{step}")
        return None if pin is None else Pin.from_json(pin)

    def write_pin(self, step: int, pin: Pin) -> Pin:
        """Write the pin of a step of the next batch; return the pin that counts: ``pin`` itself if it was the first."""
        mine = pin.to_json()
        written = self._journal.write_ahead(f"pin-{step}", mine)
        return pin if written == mine else Pin.from_json(written)

    def key(self, pins: Sequence[Pin]) -> str:
        """Return what names the content of the next batch: see `sdf.spark.stream.micro_batches.Batch`."""
        return self._journal.key([pin.content() for pin in pins])

    def void(self, left: list[Pending]) -> None:
        """Declare the planned batch void, since it read nothing; ``left`` is the remaining work."""
        self.pending = left
        self._journal.void()
        self._forget()

    def reach(self, left: list[Pending]) -> None:
        """Take over the remaining work of a batch that read something, and raise the watermark, before the commit."""
        self.pending = [attrs.evolve(one, tried=False) for one in left]
        lowest = self.lowest(self.pending)
        if lowest is not None and math.isfinite(lowest):  # an estimator without records may say minus infinity
            self.watermark = lowest if self.watermark is None else max(self.watermark, lowest)

    def commit(self, pins: Sequence[Pin]) -> None:
        """Commit a batch: what each step has read, and the remaining work."""
        self._commit([part for pin in pins for parts in pin.tasks for part in parts], [pin.records for pin in pins])

    def lowest(self, work: Iterable[Pending]) -> Any:
        """Return the lowest watermark of some work, None if it has none."""
        marks = (self._steps[one.step].watermark(one) for one in work)
        return min((mark for mark in marks if mark is not None), default=None)

    def _commit(self, parts: list[Pending], records: list[int]) -> None:
        """Commit the remaining work, with the parts that were read and the number of records of each step."""
        to_acknowledge = [part for part in parts if type(self._steps[part.step].fn).on_commit is not DoFn.on_commit]
        records = records or [0] * len(self._steps)
        self.done = not self.pending
        self._journal.advance(
            [self.fresh, *records[:-1]],
            records[-1],
            checkpoint=self._put(to_acknowledge),
            watermark=self.watermark,
            status="done" if self.done else "running",
        )
        self.fresh = 0
        self._forget()
        self._acknowledge(to_acknowledge)

    def _forget(self) -> None:
        """Free the records that the steps keep of the batch."""
        for step in self._steps:
            step.forget()

    def _put(self, parts: list[Pending]) -> dict[str, Any]:
        """Store the remaining work, and the parts for which `on_commit` is to be called."""
        return self._journal.put(dump({"committed": [to_json(part) for part in parts]}, self.pending))

    def _acknowledge(self, parts: list[Pending]) -> None:
        """Call `on_commit` for committed parts."""
        for part in parts:
            step = self._steps[part.step]
            with blame(lambda step=step, part=part: f"{step.name}.on_commit() of {show(part.restriction)}"):  # type: ignore[misc]
                step.here().on_commit(part.element, part.restriction)
