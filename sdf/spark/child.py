"""Runs work in a child process, so that its death or its hang costs nothing else.

A worker forks a child for each attempt. The child sends what it gives through a pipe, and which work item it runs. A
parent that sees the pipe end before the child has said that it is done knows what ran when the child died. If a block
hangs, the parent kills the child, also one whose interpreter hangs in C code.

A process that the child has forked, such as a pool's, holds the pipe open. So the child is the leader of a group of
processes: when it ends, a thread of the parent kills the group.

The child has a copy of the worker's memory, so nothing that it runs is sent to it. Threads are not copied. What a run's
code opens, such as clients, is therefore opened in the child, for each attempt anew. Importing libraries anew each time
would take longer than many an attempt. So the parent imports what a child has imported, for the children after it.
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
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import attrs

from sdf.errors import SdfError, StageError
from sdf.model.forks import alone
from sdf.quarantine.failures import DIED, HUNG, KILLED, RAISED, Failure

__all__ = ["Child", "ChildTraceback", "run_in_child"]

log = logging.getLogger("sdf.worker")

_FORK = multiprocessing.get_context("fork")
_JOIN_SECONDS = 5.0
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

    def failed(self, failure: Failure) -> None:
        """Tell that a block has failed; the child then ends."""
        self.told = True
        self._send(_FAILED, failure)


def run_in_child(
    work: Callable[[Child], None],
    *,
    block_seconds: float | None,
    load: Callable[[bytes], Any],
) -> Iterator[Any]:
    """Run ``work`` in a child and yield what it gives; the last value is a `Failure` if a block has failed.

    Args:
        work: called in the child.
        block_seconds: how long the child may say nothing while a work item runs; None for no limit.
        load: unpickles a position.

    Raises:
        Exception: what ``work`` raised, if it did not call `Child.failed` before.
        StageError: if the child died before the first work item had started.
    """
    theirs, ours = _FORK.Pipe(duplex=False)[::-1]
    process = _FORK.Process(target=_run, args=(work, theirs, ours), name="sdf-child")
    process.start()
    theirs.close()
    assert process.pid is not None
    group = threading.Thread(target=_end_group, args=(process.pid,), name="sdf-group", daemon=True)
    group.start()
    try:
        yield from _messages(process, group, ours, block_seconds, load)
    finally:
        ours.close()
        process.kill()
        _join(process, group)


def _messages(
    process: Any,
    group: threading.Thread,
    pipe: Connection,
    block_seconds: float | None,
    load: Callable[[bytes], Any],
) -> Iterator[Any]:
    item_id: int | None = None
    claimed: bytes | None = None
    since = time.monotonic()
    hung = False
    while True:
        if block_seconds is not None and item_id is not None and not pipe.poll(0):
            hung = not pipe.poll(max(0.0, since + block_seconds - time.monotonic()))
            if hung:
                process.kill()
        try:
            kind, value = pipe.recv()
        except (EOFError, OSError):  # the child has ended, or was killed in the middle of a message
            break
        except MemoryError as short:  # for one more copy of the records; a block may be to blame
            if item_id is None:
                raise
            yield Failure(item_id, RAISED, f"memory ran out as the worker took over its records: MemoryError: {short}")
            return
        if kind == _GIVEN:
            yield value
            since = time.monotonic()
        elif kind in (_FAILED, _ENDED):
            if kind == _FAILED:
                yield value
            else:
                _import(value)
            return
        elif kind == _RAISED:
            error, text = value
            raise error from ChildTraceback(text)
        else:
            since = time.monotonic()
            if kind == _STARTED:
                item_id, claimed = value, None
            elif kind == _CLAIMED:
                claimed = value
    _join(process, group)
    if item_id is None:
        raise StageError(f"the worker's process ended before any work began: {_how_it_ended(process.exitcode)}.")
    position = None if claimed is None else load(claimed)
    if hung:
        yield Failure(item_id, HUNG, f"neither a claim nor a record in block_seconds={block_seconds:g}", position)
    else:
        how = KILLED if process.exitcode == -signal.SIGKILL else DIED
        yield Failure(item_id, how, f"the process that ran it ended: {_how_it_ended(process.exitcode)}", position)


def _join(process: Any, group: threading.Thread) -> None:
    """Wait for the end of the child, and for nothing that it has forked, before its id is free for others."""
    group.join(_JOIN_SECONDS)
    process.join(_JOIN_SECONDS if group.is_alive() else None)  # a timeout would wait for what those hold open


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return f"{name}, as when memory runs out" if code == -signal.SIGKILL else name
    return f"exit code {code}"


def _run(work: Callable[[Child], None], pipe: Connection, other: Connection) -> None:
    """Run in the child."""
    os.setpgid(0, 0)  # Spark's signals to the worker's group do not reach it any more, so it ends itself
    with suppress(OSError, AttributeError):  # Linux only; the thread cannot act while C code holds the interpreter
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    other.close()
    os.register_at_fork(after_in_child=pipe.close)  # one that has left the group would hold it open for ever
    threading.Thread(target=_end_with_parent, name="sdf-parent", daemon=True).start()
    child = Child(pipe)
    before = set(sys.modules)
    try:
        with alone("a run with quarantine"):
            work(child)
        child._send(_ENDED, [name for name, module in sys.modules.items() if name not in before and _is_found(module)])
    except BrokenPipeError:  # the parent reads no more
        pass
    except BaseException as error:  # of any kind: the parent raises it
        if not child.told:
            child._send(_RAISED, (_sendable(error), traceback.format_exc()))


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
