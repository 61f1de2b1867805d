"""Streams of a data source: a DoFn as a source of Structured Streaming, whose offsets are restrictions.

Spark writes the end offset of a batch into its checkpoint before the batch runs. After a crash it runs the same batch
again, from that offset alone. But how far work without an end can be read now shows only when it runs. So the reader
runs it for a moment and drops the records, in the Python process that Spark keeps for the stream beside the driver.
That finds the parts that are there now. An offset holds these parts, pinned, and the remaining work, in the form of
`sdf.journal.pending`. A batch reads the parts in its end offset, on executors.

An offset range whose DoFn knows its present end (`DoFn.truncate`), such as a partition of Kafka, is not run here.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import attrs
import pyarrow  # type: ignore[import-untyped]
from pyspark.sql.types import StructType

from sdf.errors import JournalError, OutputError, blame, show
from sdf.execution.expansion import checked_size
from sdf.execution.invoker import Invoker
from sdf.journal.clock import Clock
from sdf.journal.pending import Pending, from_json, to_json
from sdf.model.dofn import DoFn, TaggedOutput
from sdf.model.restrictions import UNBOUNDED, OffsetRange
from sdf.scheduling.even_shares import as_work_item, even_shares
from sdf.scheduling.run_state import RunState
from sdf.spark.door.data_sources import DataSourceStreamReader, InputPartition
from sdf.spark.door.data_streams import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from sdf.spark.payload import telling
from sdf.spark.source.chain import Chain, Settings, expanded, read, started

__all__ = ["StreamReader"]

_LOOK_SECONDS = 1.0  # longest time to run work here for one batch: that of a batch of stream_sdf()
_PART_SECONDS = 0.1  # longest run of one part: a second of work then gives ten parts to share out among tasks
_IDLE_SECONDS = 0.1  # shortest delay after a look that finds nothing; Spark asks a hundred times a second
_SPARSE = 1 << 53  # so long a range has far fewer records than offsets: it cannot be shared out evenly


@attrs.frozen
class Waiting:
    """A part that a stream has still to do.

    Attributes:
        part: the part.
        records: number of records it gave when it ran here; it is then never cut. None if it did not run here.
    """

    part: Pending
    records: int | None = None


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the batches of a stream. One instance lives as long as the query; executors call `read` of copies."""

    def __init__(self, chain: Chain, schema: StructType, settings: Settings) -> None:
        self._chain = chain
        self._schema = schema
        self._settings = settings
        self._opened = ExitStack()
        self._fns: list[DoFn] = []
        self._start: Any = None  # the offset that `_waiting` belongs to
        self._waiting: list[Waiting] = []
        self._now = Clock()
        self._only_now = False  # Trigger.AvailableNow: read what is there now, then end
        self._looked = False

    def __reduce__(self) -> Any:
        return StreamReader, (self._chain, self._schema, self._settings)  # without the DoFns that are set up here

    def _set_up(self) -> list[DoFn]:
        if not self._fns:
            self._fns = self._opened.enter_context(self._chain.set_up())
        return self._fns

    @telling()
    def stop(self) -> None:
        self._opened.close()
        self._fns = []

    # Called by Spark, in the order of a batch.

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, Spark's name
        self._only_now = True

    @telling()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        work = started(self._set_up(), self._chain, self._settings, unbounded=True)
        return self._offset([], [Waiting(one) for one in work], [])

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._settings.max_size
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    @telling()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._set_up()
        if start != self._start:
            self._check(start)
            self._now.reach(start.get("time", 0))  # offsets had none before
            self._waiting = [_waiting_from_json(one) for one in start["left"]]
            self._start = start
        room = limit.max_bytes if isinstance(limit, ReadMaxBytes) else math.inf
        moved, passed = self._look(room)
        taken, self._waiting = self._admit(room)
        if not moved and not taken:
            return start  # `_waiting` keeps the new due times
        return self._offset(taken, self._waiting, passed)

    @telling()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        self._check(end)
        parts = [_waiting_from_json(one).part for one in end["read"]]
        return list(map(InputPartition, even_shares(self._set_up()[-1], parts, self._settings.partitions)))

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read(self._chain, self._schema, self._settings.texts, partition)

    @telling()
    def commit(self, end: dict[str, Any]) -> None:
        fns = self._set_up()
        for one in [*end["passed"], *end["read"]]:
            if self._has_on_commit(one["step"]):
                part = from_json(one)
                with blame(lambda part=part: f"{self._chain.names[part.step]}.on_commit() of {show(part.restriction)}"):  # type: ignore[misc]
                    fns[part.step].on_commit(part.element, part.restriction)

    # Offsets.

    def _offset(self, taken: list[Waiting], left: list[Waiting], passed: list[Pending]) -> dict[str, Any]:
        """Return an offset: the parts that its batch reads, the remaining work, and the parts only `commit` needs."""
        return {
            "fns": list(self._chain.names),
            "time": self._now(),
            "read": [self._waiting_to_json(one) for one in taken],
            "left": [self._waiting_to_json(one) for one in left],
            "passed": [self._waiting_to_json(Waiting(one)) for one in passed],
        }

    def _waiting_to_json(self, waiting: Waiting) -> dict[str, Any]:
        return {**to_json(waiting.part), "records": waiting.records}

    def _check(self, offset: dict[str, Any]) -> None:
        """Raise unless an offset was written by a stream of these DoFns."""
        if offset.get("fns") != list(self._chain.names):
            raise JournalError(
                f"the checkpoint holds a stream through {show(offset.get('fns'))}, this one reads through "
                f"{show(list(self._chain.names))}. Give each stream a checkpointLocation of its own."
            )

    def _has_on_commit(self, step: int) -> bool:
        return type(self._fns[step]).on_commit is not DoFn.on_commit

    # Finding the parts that are there now.

    def _is_ready(self, waiting: Waiting) -> bool:
        """Tell whether executors can read a part as it is: it belongs to the last DoFn and has an end."""
        part = waiting.part
        if part.step < len(self._fns) - 1:
            return False
        return waiting.records is not None or self._fns[-1].create_tracker(part.element, part.restriction).is_bounded()

    def _size(self, waiting: Waiting) -> float:
        if waiting.records is not None:
            return waiting.records
        size = checked_size(self._fns[-1], waiting.part.element, waiting.part.restriction)
        return 1.0 if size is None else float(size)

    def _look(self, room: float) -> tuple[bool, list[Pending]]:
        """Run the parts that executors cannot read yet, until ``room`` is filled or the time is up.

        Returns:
            Whether any part got further, and the finished parts without records for executors, which `commit` needs.
        """
        ready = [one for one in self._waiting if self._is_ready(one)]
        todo = deque(one.part for one in self._waiting if not self._is_ready(one))
        room -= sum(map(self._size, ready)) if room < math.inf else 0
        if self._only_now:  # look once, at all there is: ``room`` bounds only what a batch reads
            room, ends = (0.0, 0.0) if self._looked else (math.inf, math.inf)
        else:
            ends = time.monotonic() + _LOOK_SECONDS
        self._looked = True
        now = self._now()
        later: list[Pending] = []
        passed: list[Pending] = []
        moved = False
        while todo and room > 0 and time.monotonic() < ends:
            part = todo.popleft()
            if part.due > now and not self._only_now:
                later.append(part)
                continue
            found = self._truncated(part) or self._run(part, room, ends)
            (todo if found.more else later).extend(found.left)
            moved |= found.part is not None
            for element in found.elements:
                fresh = expanded(self._fns[part.step + 1], part.step + 1, element, unbounded=True)
                for one in map(Waiting, fresh):
                    if self._is_ready(one):
                        ready.append(one)
                        room -= self._size(one)
                    else:
                        todo.append(one.part)
            if found.part is None:
                continue
            if part.step == len(self._fns) - 1 and found.records != 0:
                ready.append(Waiting(found.part, found.records))
                room -= self._size(ready[-1])
            elif self._has_on_commit(part.step):
                passed.append(found.part)
        self._waiting = [*ready, *map(Waiting, [*todo, *later])]  # parts not looked at come before deferred ones
        return moved, passed

    def _truncated(self, part: Pending) -> Found | None:
        """Return the present part of an endless range of offsets if the DoFn knows it without running; else None."""
        fn, whole = self._fns[part.step], part.restriction
        if part.step < len(self._fns) - 1 or not isinstance(whole, OffsetRange) or whole.stop is not UNBOUNDED:
            return None
        with blame(lambda: f"{self._chain.names[part.step]}.truncate() of {show(whole)}"):
            there = fn.truncate(part.element, whole)
        if not isinstance(there, OffsetRange) or there.start != whole.start:
            return None
        if isinstance(there.stop, int) and 0 < there.stop - there.start < _SPARSE:
            rest = attrs.evolve(part, restriction=attrs.evolve(whole, start=there.stop), due=0)
            return Found(attrs.evolve(part, restriction=there), None, [], [rest], more=False)
        return None

    def _run(self, part: Pending, room: float, ends: float) -> Found:
        """Run a part here until its time is up or ``room`` is filled; split off the residual."""
        fn, name, last = self._fns[part.step], self._chain.names[part.step], part.step == len(self._fns) - 1
        ends = min(ends, time.monotonic() + _PART_SECONDS)
        stopped = False

        def stop() -> None:
            nonlocal stopped
            stopped = stopped or invoker.split(0) is not None

        def on_claim(_claims: int, _position: Any) -> None:
            if time.monotonic() >= ends:
                stop()

        invoker = Invoker(fn, part.element, part.restriction, watermark=part.watermark, on_claim=on_claim)
        records, elements = 0, []
        for output in invoker.run():
            records += 1
            if isinstance(output, TaggedOutput):
                raise OutputError(
                    f"{name}.process() gave {show(output)}, but a data source reads the main output only."
                )
            if not last:
                elements.append(output)
            elif records == room:
                stop()
        done = invoker.primary
        delay = max((residual.delay_seconds for residual in invoker.residuals), default=0)
        more = done is not None and (stopped or delay == 0)  # a delay of 0 means that there is more
        due = 0 if more else self._now() + int(max(delay, _IDLE_SECONDS) * 1000)
        left = [Pending(part.step, part.element, one.restriction, one.watermark, due) for one in invoker.residuals]
        pinned = None if done is None else attrs.evolve(part, restriction=done, due=0)
        return Found(pinned, records if last else None, elements, left, more=more)

    def _admit(self, room: float) -> tuple[list[Waiting], list[Waiting]]:
        """Return the parts that the next batch reads, of total size ``room`` but at least one, and the others."""
        taken: list[Waiting] = []
        left: list[Waiting] = []
        for one in self._waiting:
            if room <= 0 or not self._is_ready(one):
                left.append(one)
                continue
            size = self._size(one)
            front, rest = self._cut(one, room / size) if size > room else (one, None)
            if rest is None and size > room and taken:
                left.append(one)
                room = 0  # the next batch begins with it
                continue
            room -= size
            taken.append(front)
            if rest is not None:
                left.append(rest)
        return taken, left

    def _cut(self, waiting: Waiting, fraction: float) -> tuple[Waiting, Waiting | None]:
        """Cut a part at a fraction of its size; while that fails, double the fraction. Uncut: the part and None."""
        while waiting.records is None and fraction < 1:
            work = RunState(self._fns[-1])
            pair = work.cut(as_work_item(self._fns[-1], work, waiting.part), fraction)
            if pair is not None:
                front, rest = (Waiting(attrs.evolve(waiting.part, restriction=item.restriction)) for item in pair)
                return front, rest
            fraction *= 2
        return waiting, None


@attrs.frozen
class Found:
    """The result of a look at one part of the work that executors cannot read yet.

    Attributes:
        part: the finite part that is there now; None for nothing.
        records: number of records of that part; None if it was not run, or its DoFn is not the last.
        elements: outputs of that part, for the next DoFn.
        left: the remaining work.
        more: whether to look at ``left`` again at once.
    """

    part: Pending | None
    records: int | None
    elements: list[Any]
    left: list[Pending]
    more: bool


def _waiting_from_json(data: dict[str, Any]) -> Waiting:
    return Waiting(from_json(data), data["records"])
