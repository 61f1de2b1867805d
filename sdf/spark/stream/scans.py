"""Scans beside the batches: work that only looks for new elements is run by the driver, in threads of their own.

So a slow directory holds up no batch. What a scan found is given by the next batch, which then writes it down. A scan
that was in flight when the driver died is lost without a trace, and made again. It holds the watermark, as all
remaining work does.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from sdf.execution.invoker import Invoker
from sdf.journal.pending import Pending
from sdf.journal.remaining import RemainingPart
from sdf.model.dofn import DoFn

__all__ = ["Scans"]

_THREADS = 4
_LEAVE_SECONDS = 10.0  # a scan that hangs longer, on a network say, does not keep a stream from ending


class Scans:
    """The scans of one stream, each of some remaining work.

    Args:
        now: milliseconds since the epoch.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._todo: queue.SimpleQueue[tuple[int, DoFn, Pending, dict[str, Any]] | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[int, Pending | None, Pending | None, BaseException | None]]
        self._ended = queue.SimpleQueue()
        self._in_flight: set[int] = set()
        self._stale: set[int] = set()
        self._threads: list[threading.Thread] = []

    def __contains__(self, work: RemainingPart) -> bool:
        """Tell whether some work is being scanned."""
        return work.id in self._in_flight

    def __len__(self) -> int:
        return len(self._in_flight)

    def look_again(self) -> None:
        """Have the scans that are in flight made again, at once, unless they find something."""
        self._stale |= self._in_flight

    @property
    def has_ended(self) -> bool:
        """Whether a scan has ended since `take` was called."""
        return not self._ended.empty()

    def begin(self, work: RemainingPart, fn: DoFn, side_inputs: dict[str, Any]) -> None:
        """Begin to scan; ``fn`` is set up."""
        self._in_flight.add(work.id)
        if len(self._threads) < min(_THREADS, len(self._in_flight)):
            self._threads.append(threading.Thread(target=self._run, name="sdf-scan", daemon=True))
            self._threads[-1].start()
        self._todo.put((work.id, fn, work.now, side_inputs))

    def take(self, work_of: Callable[[int], RemainingPart]) -> None:
        """Enter what has come of the scans that have ended.

        Raises:
            SdfError: if one of them failed.
        """
        while self.has_ended:
            number, first, rest, error = self._ended.get()
            self._in_flight.remove(number)
            if error is not None:
                raise error
            work, now = work_of(number), self._now()
            if first is not None:
                work.found, work.due = (first, rest), now
            elif number in self._stale:
                work.due = now
            elif rest is not None:
                work.due, work.delay, work.watermark, work.tried = rest.due, rest.due - now, rest.watermark, True
            self._stale.discard(number)

    def wait(self, work_of: Callable[[int], RemainingPart]) -> None:
        """Wait until all scans have ended, and enter what came of them."""
        while self._in_flight:
            self._ended.put(self._ended.get())
            self.take(work_of)

    def close(self) -> None:
        """End the threads; a scan that is in flight is waited for, but not for ever."""
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads:
            thread.join(_LEAVE_SECONDS)

    def _run(self) -> None:
        while (scan := self._todo.get()) is not None:
            number, fn, part, side_inputs = scan
            try:
                self._ended.put((number, *self._scan(fn, part, side_inputs), None))
            except BaseException as error:  # of any kind: the driver's thread raises it
                self._ended.put((number, None, None, error))

    def _scan(self, fn: DoFn, part: Pending, side_inputs: dict[str, Any]) -> tuple[Pending | None, Pending | None]:
        """Return the part in which something was found, None for none, and what is left of the work."""
        attempt = Invoker(fn, part.element, part.restriction, side_inputs=side_inputs, watermark=part.watermark)
        deque(attempt.run(), maxlen=0)  # keeps no outputs: running the first part again gives them, in the batch
        primary, residuals = attempt.parts()
        rest = None
        if residuals:
            due = self._now() + int(residuals[0].delay_seconds * 1000)
            rest = attrs.evolve(
                part, restriction=residuals[0].restriction, watermark=residuals[0].watermark, due=due, seen=None
            )
        return None if primary is None else attrs.evolve(part, restriction=primary), rest
