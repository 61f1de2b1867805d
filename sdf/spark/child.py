"""Runs work in a child process, so that its death or its hang costs nothing else.

A worker forks a child for each attempt. The child sends what it gives through a pipe, and which work item it runs. A
parent that sees the pipe end before the child has said that it is done knows what ran when the child died. If a block
hangs, the parent kills the child, also one whose interpreter hangs in C code.

A process that the child has forked, such as a pool's, holds the pipe open. So the child is the leader of a group of
processes: when it ends, a thread of the parent kills the group.

The child has a copy of the worker's memory, so nothing that it runs first is sent to it. Threads are not copied. What a
run's code opens in `setup`, such as clients, is therefore opened in the child. A child that is fit for it afterwards is
kept for the next attempts of the same run in this worker, which are sent to it (`sdf.spark.kept`). Importing libraries
anew in each child would take longer than many an attempt. So the parent imports what a child has imported, for the
children after it.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import attrs

from sdf.errors import SdfError, StageError
from sdf.model.forks import alone
from sdf.quarantine.failures import DIED, HUNG, KILLED, RAISED, Failure
from sdf.spark import serde

__all__ = ["Child", "ChildTraceback", "Order", "Process", "run_in_child"]

log = logging.getLogger("sdf.worker")

_FORK = multiprocessing.get_context("fork")
_JOIN_SECONDS = 5.0
_SETTLE_SECONDS = 5.0  # for a child that has told a failure to be ready again
_PR_SET_PDEATHSIG = 1  # of Linux

# Kinds of messages.
_GIVEN, _STARTED, _CLAIMED, _ALIVE, _FAILED, _RAISED, _ENDED = range(7)


class ChildTraceback(Exception):  # noqa: N818, it is text, not an error of ours
    """The traceback of an error in a child, as text; the cause of the error that the parent raises."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


@attrs.define(eq=False)
class Child:
    """The child's end of the pipe. Any thread of the child may call its methods."""

    _pipe: Connection
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _progress: Any = None
    told: bool = False  # that a block has failed
    fit: bool = True  # for another attempt

    def _send(self, kind: int, value: Any = None) -> None:
        with self._lock:
            self._pipe.send((kind, value))

    def give(self, value: Any) -> None:
        """Send a value that `run_in_child` yields in the parent."""
        self._send(_GIVEN, value)

    def started(self, item_id: int) -> None:
        """Tell which work item runs from now on."""
        self._send(_STARTED, item_id)

    def claimed(self, position: bytes) -> None:
        """Tell the position claimed last, pickled."""
        self._send(_CLAIMED, position)

    def beat(self, progress: Any) -> None:
        """Tell that there was a claim or a record, if ``progress`` is another than the last time."""
        if progress != self._progress:
            self._progress = progress
            self._send(_ALIVE)

    def failed(self, failure: Failure, *, fit: bool = False) -> None:
        """Tell that a block has failed; the child then ends, unless it is fit for another attempt."""
        self.told, self.fit = True, fit
        self._send(_FAILED, failure)


Order = Callable[[Child], None]


@attrs.define(eq=False)
class Process:
    """A child as its parent sees it.

    Attributes:
        failed: whether its last attempt has failed.
    """

    _process: Any
    _group: threading.Thread
    _pipe: Connection
    _orders: Connection
    failed: bool = False

    @classmethod
    def fork(cls, work: Order) -> Process:
        """Return a new child, which runs ``work``."""
        theirs, ours = _FORK.Pipe(duplex=False)[::-1]
        orders, ordered = _FORK.Pipe(duplex=False)[::-1]
        process = _FORK.Process(target=_run, args=(work, theirs, ordered, (ours, orders)), name="sdf-child")
        process.start()
        theirs.close()
        ordered.close()
        assert process.pid is not None
        group = threading.Thread(target=_end_group, args=(process.pid,), name="sdf-group", daemon=True)
        group.start()
        return cls(process, group, ours, orders)

    def order(self, work: bytes) -> bool:
        """Have an idle child run pickled work; return False if it has died."""
        if not self._process.is_alive():
            return False
        try:
            self._orders.send_bytes(work)
        except OSError:
            return False
        return True

    def dismiss(self) -> None:
        """End an idle child; it has some seconds to tear its DoFn down."""
        self.order(b"")
        self._group.join(_JOIN_SECONDS)
        self.end()

    def end(self) -> None:
        """End it, whatever it does."""
        self._pipe.close()
        self._orders.close()
        self._process.kill()
        self.join()

    def join(self) -> None:
        """Wait for the end of the child, and for nothing that it has forked, before its id is free for others."""
        self._group.join(_JOIN_SECONDS)
        # a timeout would wait for what those hold open
        self._process.join(_JOIN_SECONDS if self._group.is_alive() else None)

    def how_it_ended(self) -> str:
        """Return how it ended, once it has."""
        return _how_it_ended(self._process.exitcode)

    def messages(self, block_seconds: float | None, load: Callable[[bytes], Any]) -> Generator[Any, None, bool | None]:
        """Yield what its attempt gives; return whether it is fit for another one, None if it died before any work.

        See `run_in_child`.
        """
        item_id: int | None = None
        claimed: bytes | None = None
        since = time.monotonic()
        told = hung = False
        pipe, doubtful = self._pipe, self.failed
        while True:
            if told and not pipe.poll(_SETTLE_SECONDS):
                return False
            if block_seconds is not None and item_id is not None and not told and not pipe.poll(0):
                hung = not pipe.poll(max(0.0, since + block_seconds - time.monotonic()))
                if hung:
                    self._process.kill()
            try:
                kind, value = pipe.recv()
            except (EOFError, OSError):  # the child has ended, or was killed in the middle of a message
                break
            except MemoryError as short:  # for one more copy of the records; a block may be to blame
                if item_id is None:
                    raise
                text = f"memory ran out as the worker took over its records: MemoryError: {short}"
                yield Failure(item_id, RAISED, text, doubtful=doubtful)
                return False
            if kind == _GIVEN:
                yield value
                since = time.monotonic()
            elif kind == _FAILED:
                told = True
                yield attrs.evolve(value, doubtful=doubtful)
            elif kind == _ENDED:
                _import(value)
                self.failed = told
                return not (told and doubtful)
            elif kind == _RAISED:
                error, text = value
                raise error from ChildTraceback(text)
            else:
                since = time.monotonic()
                if kind == _STARTED:
                    item_id, claimed = value, None
                elif kind == _CLAIMED:
                    claimed = value
        if told:
            return False
        self.join()
        if item_id is None:
            return None
        position = None if claimed is None else load(claimed)
        if hung:
            text = f"neither a claim nor a record in block_seconds={block_seconds:g}"
            yield Failure(item_id, HUNG, text, position, doubtful)
        else:
            how = KILLED if self._process.exitcode == -signal.SIGKILL else DIED
            text = f"the process that ran it ended: {self.how_it_ended()}"
            yield Failure(item_id, how, text, position, doubtful)
        return False


def run_in_child(
    work: Order,
    *,
    block_seconds: float | None,
    load: Callable[[bytes], Any],
    taken: Process | None = None,
    kept: Callable[[Process], None] | None = None,
) -> Iterator[Any]:
    """Run ``work`` in a child and yield what it gives; the last value is a `Failure` if a block has failed.

    Args:
        work: called in the child, unless ``taken`` runs it already.
        block_seconds: how long the child may say nothing while a work item runs; None for no limit.
        load: unpickles a position.
        taken: a child that has taken the order; None to fork one.
        kept: called with the child when it is fit for another attempt. If it is None the child ends.

    Raises:
        Exception: what ``work`` raised, if it did not call `Child.failed` before.
        StageError: if the child died before the first work item had started.
    """
    if taken is not None and (yield from _run_in(taken, block_seconds, load, kept)):
        return  # else it was dying as it took the order
    process = Process.fork(work)
    if not (yield from _run_in(process, block_seconds, load, kept)):
        raise StageError(f"the worker's process ended before any work began: {process.how_it_ended()}.")


def _run_in(
    process: Process,
    block_seconds: float | None,
    load: Callable[[bytes], Any],
    kept: Callable[[Process], None] | None,
) -> Generator[Any, None, bool]:
    """Yield what a child gives; return whether it has begun any work."""
    fit = None
    try:
        fit = yield from process.messages(block_seconds, load)
    finally:
        if fit and kept is not None:
            kept(process)
        else:
            process.end()
    return fit is not None


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return f"{name}, as when memory runs out" if code == -signal.SIGKILL else name
    return f"exit code {code}"


def _run(work: Order, pipe: Connection, ordered: Connection, others: tuple[Connection, ...]) -> None:
    """Run in the child."""
    os.setpgid(0, 0)  # Spark's signals to the worker's group do not reach it any more, so it ends itself
    with suppress(OSError, AttributeError):  # Linux only; the thread cannot act while C code holds the interpreter
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for other in others:
        other.close()
    for mine in (pipe, ordered):  # a process that has left the group would hold it open for ever
        os.register_at_fork(after_in_child=mine.close)
    threading.Thread(target=_end_with_parent, name="sdf-parent", daemon=True).start()
    while _is_fit_after(work, Child(pipe)):
        try:
            order = ordered.recv_bytes()
        except EOFError:  # the parent has died
            return
        if not order:
            return
        work = serde.loads(order)


def _is_fit_after(work: Order, child: Child) -> bool:
    """Run one attempt; return whether the child may run another one."""
    before = set(sys.modules)
    try:
        try:
            with alone("a run with quarantine"):
                work(child)
        except Exception:  # of any kind: the parent knows of it, or raises it
            if not (child.told and child.fit):
                raise
        child._send(_ENDED, [name for name, module in sys.modules.items() if name not in before and _is_found(module)])
        return True
    except BrokenPipeError:  # the parent reads no more
        return False
    except BaseException as error:  # of any kind: the parent raises it
        if not child.told:
            child._send(_RAISED, (_sendable(error), traceback.format_exc()))
        return False


def _is_found(module: Any) -> bool:
    """Tell whether a module comes from where the parent finds it too."""
    return getattr(getattr(module, "__spec__", None), "has_location", False)


def _import(names: list[str]) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # of any kind: the next child imports it, or fails to
            log.debug("the worker cannot import %s, which its child has imported", name, exc_info=True)


def _sendable(error: BaseException) -> BaseException:
    """Return an error that the parent can raise: itself, if it is one of sdf, which all consist of a text."""
    if isinstance(error, SdfError) and type(error).__module__ == SdfError.__module__:
        return type(error)(str(error))
    return StageError(f"{type(error).__name__}: {error}")


def _end_group(child: int) -> None:
    """Wait until a child has ended, and kill the processes that it has left behind."""
    with suppress(ChildProcessError):  # the user's code ignores SIGCHLD
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # keeps the child's id
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    with suppress(ProcessLookupError):
        os.kill(os.getpid(), signal.SIGKILL)
