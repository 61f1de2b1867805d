"""Runs the work items of one task, one after the other, and hands back remaining work on request.

The thread that iterates `Bundle.outputs` does the work. A second thread may call `Bundle.hand_back` at any time: work
items not yet started are given back whole, and the running work item is split if enough of it is left.
"""

from __future__ import annotations

import inspect
import math
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import attrs

from sdf.execution.executor import Executor
from sdf.execution.work_items import CANNOT, JUST_OPENED, NOTHING_CLAIMED, TOO_LITTLE, Outcome, Part, WorkItem, units
from sdf.model.dofn import DoFn, call_hook

__all__ = ["Bundle"]


class Bundle:
    """One attempt at one task.

    Args:
        fn: the DoFn, set up.
        items: the task's work items, in the order to run them.
        side_inputs: keyword arguments for `process`.
        clock: monotonic seconds.
        on_start: called with each work item before it runs, or None.
        on_claim: see `Executor`.

    Attributes:
        fn: the DoFn.
        ended_at: when its outputs had ended, by ``clock``.
        raised: whether the user's code raised while `outputs` ran; not a reader of the outputs, nor ``finish_bundle``,
            which no work item is to blame for.
    """

    def __init__(
        self,
        fn: DoFn,
        items: Sequence[WorkItem],
        *,
        side_inputs: Mapping[str, Any] | None = None,
        clock: Callable[[], float],
        on_start: Callable[[WorkItem], None] | None = None,
        on_claim: Callable[[Any], None] | None = None,
    ) -> None:
        self.fn = fn
        self._items = items
        self._executor = Executor(fn, side_inputs=side_inputs, clock=clock, on_claim=on_claim)
        self._on_start = on_start
        self.raised = False
        self._finishing = False  # all work items have run
        self._outputs: Callable[[], Generator[Any, None, None] | None] = lambda: None
        self._clock = clock
        self._lock = Lock()
        self._stop = len(items)  # work items from here on are not started
        self._next = 0
        self._parts: list[Part] = []
        self._refused: str | None = None
        self._began = self.ended_at = clock()

    def outputs(self) -> Iterator[Any]:
        """Return an iterator over all outputs. `outcome` is complete only once they have ended."""
        outputs = self._run()
        self._outputs = weakref.ref(outputs)  # a reference would be a cycle, and put off the end of outputs left unread
        return outputs

    def _run(self) -> Generator[Any, None, None]:
        try:
            call_hook(self.fn, "start_bundle")
            while True:
                with self._lock:
                    if self._next == self._stop:
                        break
                    item = self._items[self._next]
                    self._next += 1
                if self._on_start is not None:
                    self._on_start(item)
                with self._executor.start(item).outputs() as outputs:
                    yield from outputs
                with self._lock:
                    part = self._executor.end()
                if part is not None:
                    self._parts.append(part)
        except GeneratorExit:  # the reader reads no more
            raise
        except BaseException:  # of any kind, such as the panic of a library in Rust
            self.raised = True
            raise
        self._finishing = True
        call_hook(self.fn, "finish_bundle")
        self.ended_at = self._clock()

    def outcome(self) -> Outcome:
        """Return what this attempt did with the work items; call it once `outputs` has ended."""
        ran, slow = self._executor.take_report()
        seconds = self._clock() - self._began
        executor = self._executor
        return Outcome(
            self._stop, tuple(self._parts), executor.units, seconds, ran, slow, self._refused, executor.late,
            tuple(executor.firsts),
        )  # fmt: skip

    def last_started(self) -> tuple[WorkItem | None, Any]:
        """Return the work item that was started last, and the position that it claimed last if it has not ended."""
        if self._next == 0:
            return None, None
        running = self._executor.running
        return self._items[self._next - 1], None if running is None else running.invoker.last_claimed

    def progress(self) -> tuple[Any, ...]:
        """Return a value that changes with each claim and record, and all the time while no work item is at work.

        So it does while the reader of the outputs works, and in ``finish_bundle``.
        """
        outputs = self._outputs()
        if outputs is None or self._finishing or inspect.getgeneratorstate(outputs) != inspect.GEN_RUNNING:
            return (self._clock(),)
        with self._lock:
            running = self._executor.running
            if running is None:
                return (self._next,)
            return self._next, running.invoker.records, running.units()

    def held(self) -> list[WorkItem]:
        """Return the work items started so far, in order, each cut to what this attempt ran of it."""
        primaries = {part.item_id: part.primary for part in self._parts}
        started = self._items[: self._next]
        held = [attrs.evolve(item, restriction=primaries.get(item.id, item.restriction)) for item in started]
        return [item for item in held if item.restriction is not None]

    def note_claim(self) -> None:
        """Note how far the running work item is (`Running.note`); the second thread calls it often, until the end."""
        with self._lock:
            if self._executor.running is not None:
                self._executor.running.note()

    def hand_back(self, min_piece_seconds: float, *, just_opened: bool = False) -> bool:
        """Give back unstarted work items, and split the running one.

        Unstarted work is given back if all that is left takes more than ``min_piece_seconds``; the running work item is
        split if it alone does. A second thread calls this. A work item may take long to reach its first claim, for
        example to open a file. Then it runs as long again before it is split, unless ``just_opened`` is set.

        Returns:
            True if there is nothing more to give back. False if nothing was started, or if the running work item has
            claimed nothing yet, was just opened, has too little left or cannot be split now: call again later.
            `outcome` has the last reason.
        """
        self._refused = self._hand_back(min_piece_seconds, just_opened)
        return self._refused is None

    def _hand_back(self, min_piece_seconds: float, just_opened: bool) -> str | None:
        """Hand back; return the reason if that was not possible, else None."""
        with self._lock:
            if self._next == 0:
                return "nothing was started"  # with a very short budget, no task would ever do any work
            running = self._executor.running
            done = left_seconds = 0.0
            if running is not None:
                done, _ = running.units()
                left_seconds = running.seconds_left()
                if done > 0:  # the mean hides that it may have become expensive
                    left_seconds = max(left_seconds, running.seconds_left_at_most())
                elif math.isinf(left_seconds) and self._executor.items > 0:
                    left_seconds = running.seconds()  # estimate overrun, or none: assume as long again
            elapsed = self._clock() - self._began
            if left_seconds + self._unstarted_seconds(elapsed, self._executor.units + done) <= min_piece_seconds:
                return TOO_LITTLE
            self._stop = self._next
        if running is None or left_seconds <= min_piece_seconds:
            return TOO_LITTLE
        opening = running.opening_seconds()
        if not just_opened and opening is not None and running.seconds() < 2 * opening:
            return JUST_OPENED
        if running.split(0):
            return None
        return CANNOT if running.invoker.started else NOTHING_CLAIMED

    def _unstarted_seconds(self, elapsed: float, done: float) -> float:
        """Return the estimated seconds of the unstarted work items: by size or by number, whichever is more."""
        unstarted, running = self._items[self._next : self._stop], self._executor.running
        begun = self._executor.items + (0 if running is None else running.invoker.begun)
        by_number = sum(item.elements for item in unstarted) * elapsed / max(1, begun)
        return max(by_number, sum(map(units, unstarted)) * elapsed / done if done > 0 else 0.0)
