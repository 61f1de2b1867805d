"""The server calls a run's coordinator through a `ContainedRun`: an error on the driver fails this run and no other.

All runs share the server's thread, and user code runs there too: `restriction_size` of residuals, `is_tiled_by` in the
ledger's proof, the pickling of elements. sdf itself may have bugs. After a call that raises, the coordinator's state
may be wrong. So `ContainedRun` calls only its reports from then on, and no lane is sealed any more. The run's attempts,
also those that Spark starts later, fail with that error, which names the DoFn, and so does the user's action.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import attrs

from sdf import errors
from sdf.errors import LedgerError, SdfError, text_of
from sdf.execution.expansion import Expanded
from sdf.lanes.coordinator import Coordinator
from sdf.lanes.messages import Fail, FromLane, Hello, ToLane
from sdf.lanes.segmented import RaisedError
from sdf.reporting.progress import RunProgress
from sdf.reporting.run_report import RunReport
from sdf.spark.jobs import WorkerTraceback
from sdf.spark.live.link import Address

__all__ = ["ContainedRun"]

log = logging.getLogger("sdf.server")

_LOOK_SECONDS = 0.5
_MOST_CHARACTERS = 10_000  # of the error text sent to each attempt

T = TypeVar("T")


@attrs.define(eq=False)
class ContainedRun:
    """See the module's docstring. Call it from the server's thread, and what follows `look` from any thread.

    Args:
        address: where its lanes connect.
        coordinator: the run's coordinator.
        send: sends a message to an attempt.
        alive: called now and then; once it returns False the server forgets the run.
        watch: called often with the coordinator and monotonic seconds, to show progress; or None.

    Attributes:
        failure: the error that the run has failed with, None if it has not.
    """

    address: Address
    coordinator: Coordinator
    _send: Callable[[Hashable, ToLane], None]
    _alive: Callable[[], bool]
    _watch: Callable[[Coordinator, float], None] | None
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _names: set[Hashable] = attrs.field(factory=set)  # of the connected attempts
    _soon: queue.SimpleQueue[Callable[[], None]] = attrs.field(factory=queue.SimpleQueue)  # for the server's thread
    failure: SdfError | None = attrs.field(default=None, init=False)

    def connected(self, name: Hashable, hello: Hello) -> None:
        """See `Coordinator.connected`."""
        self._names.add(name)
        if self.failure is not None:
            self._send(name, Fail(self.failure))
        self._contained(lambda: self.coordinator.connected(name, hello, time.monotonic()))

    def received(self, name: Hashable, message: FromLane) -> None:
        """See `Coordinator.received`."""
        self._contained(lambda: self.coordinator.received(name, message, time.monotonic()))

    def lost(self, name: Hashable) -> None:
        """See `Coordinator.lost`."""
        self._names.discard(name)
        self._contained(lambda: self.coordinator.lost(name, time.monotonic()))

    def tick(self) -> None:
        """See `Coordinator.tick`; also do what other threads have asked for."""
        with suppress(queue.Empty):
            while True:
                self._contained(self._soon.get_nowait())
        self._contained(lambda: self.coordinator.tick(time.monotonic()))

    def waiting(self) -> bool:
        """See `Coordinator.waiting`."""
        return bool(self._contained(self.coordinator.waiting))

    def alive(self) -> bool:
        """Return whether the run can still be used."""
        try:
            return self._alive()
        except BaseException as error:  # as in `_contained`
            with self._lock:
                self._fail(error)
            return True

    def look(self) -> None:
        """Show the progress of the run. If that fails, stop showing it; the run goes on."""
        if self._watch is None:
            return
        try:
            with self._lock:
                self._watch(self.coordinator, time.monotonic())
        except BaseException:  # as in `_contained`
            log.exception("progress of %s cannot be shown any more; the run goes on", self.coordinator.name)
            self._watch = None

    def report(self) -> RunReport:
        """Return what has been done so far, also after a failure."""
        with self._lock:
            return self.coordinator.report(time.monotonic())

    def progress(self) -> RunProgress:
        """Return how far the run is, also after a failure."""
        with self._lock:
            return self.coordinator.progress(time.monotonic())

    def attempts(self) -> list[tuple[Hashable, Hello]]:
        """See `Coordinator.attempts`."""
        with self._lock:
            return self.coordinator.attempts()

    def expanded(self, elements: Sequence[Expanded], *, last: bool) -> None:
        """Have the server's thread enter these elements, soon (`Coordinator.expanded`)."""
        self._soon.put(lambda: self.coordinator.expanded(elements, time.monotonic(), last=last))

    def frees_slot(self) -> None:
        """Have the server's thread free a slot, soon (`Coordinator.frees_slot`)."""
        self._soon.put(lambda: self.coordinator.frees_slot(time.monotonic()))

    def not_expanded(self, error: BaseException) -> None:
        """Elements could not be expanded: have the server's thread fail the run, soon."""
        self._soon.put(lambda: self._fail(error, expanding=True))

    def idle_seconds(self) -> float:
        """See `Coordinator.idle_seconds`."""
        with self._lock:
            return self.coordinator.idle_seconds(time.monotonic())

    def leave(self, names: Iterable[Hashable]) -> None:
        """Have the server's thread tell these attempts to leave, soon (`Coordinator.leave`)."""
        for name in names:
            self._soon.put(partial(self.coordinator.leave, name))

    def uncommitted_seconds(self) -> float:
        """See `Coordinator.uncommitted_seconds`."""
        with self._lock:
            return self.coordinator.uncommitted_seconds(time.monotonic())

    def _contained(self, call: Callable[[], T]) -> T | None:
        """Return what ``call`` returns; None if the run has failed, also if it fails of this call."""
        if self.failure is not None:
            return None
        with self._lock:
            try:
                return call()
            except BaseException as error:  # also SystemExit, which would end the thread that serves all runs
                self._fail(error)
                return None

    def _fail(self, error: BaseException, *, expanding: bool = False) -> None:
        if self.failure is not None:
            return
        if not (expanding and isinstance(error, SdfError)):  # else the action tells all of it
            log.error("%s failed on the driver", self.coordinator.name, exc_info=error)
        self.failure = _explained(self.coordinator.name, error, expanding=expanding)
        for name in self._names:
            self._send(name, Fail(self.failure))
        self.coordinator.failed(time.monotonic())


def _explained(name: str, error: BaseException, *, expanding: bool = False) -> SdfError:
    """Return the error to send to the attempts: a class of `sdf.errors` made from one text of bounded length."""
    text = text_of(error)
    if isinstance(error.__cause__, WorkerTraceback):
        text += f"\n{error.__cause__}"  # the cause itself is not sent
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[: _MOST_CHARACTERS // 2]} ... {text[-_MOST_CHARACTERS // 2 :]}"
    if isinstance(error, RaisedError):  # by the attempts, not on the driver
        return error.error
    before = f"{name} failed on the driver, and all its lanes with it:"
    if isinstance(error, SdfError) and type(error).__module__ == errors.__name__:
        return type(error)(text if expanding else f"{before} {text}")
    return LedgerError(f"{before} {type(error).__name__}: {text}. The driver's log has the traceback.")
