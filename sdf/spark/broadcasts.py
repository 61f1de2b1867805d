"""Broadcasts that are freed when nobody can use them any more.

PySpark keeps the file of a broadcast in the driver's temporary directory until somebody destroys the broadcast. No code
knows its last user: RDDs that the user derived from ours refer to it, in Python or, after union() for example, only in
the JVM. So it is freed when first Python's garbage collector and then the JVM's have found it unreachable.

A finalizer may run in any thread at any time, even during a call to the JVM. So it only queues that Python has dropped
the broadcast. A thread does the rest, and lives as long as there are broadcasts. It runs both garbage collectors now
and then: a driver may not collect for half an hour, and Py4J's objects are cycles, which keep the JVM's RDDs alive till
Python collects. Spark itself then frees the blocks of the broadcast, and those of a result that was dropped without
unpersist().
"""

from __future__ import annotations

import gc
import math
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import attrs
from pyspark import Broadcast, SparkContext

from sdf.spark.door.broadcasts import destroy, file_of, presence_in_jvm
from sdf.spark.door.context import collect_garbage, is_stopped
from sdf.spark.door.errors import GONE

__all__ = ["free", "send", "use_of"]

T = TypeVar("T")

_LOOK_EVERY_SECONDS = 30.0
_COLLECT_EVERY_SECONDS = 60.0
_MUCH_BYTES = 32 << 20  # in total; above it garbage is collected more often than that
_COLLECT_SHARE = 0.05  # largest share of the time: a collection stops all threads
_BACKOFF_SECONDS = 0.5  # doubled with each collection in vain
_MOST_COLLECTIONS = 10
_PY4J_SECONDS = 1.5  # for Py4J to release in the JVM what Python has dropped


@attrs.define(eq=False)
class _Use:
    """The state of a broadcast. It does not keep the broadcast alive.

    Attributes:
        sc: the context that sent the broadcast.
        path: the file of the broadcast.
        size_bytes: size of the file.
        is_in_jvm: says whether the JVM refers to the broadcast.
        forgotten_at: monotonic seconds when Python dropped the broadcast; infinity before.
        collections: number of garbage collections since then.
        freed: True once the broadcast is freed.
    """

    sc: SparkContext
    path: str
    size_bytes: int
    is_in_jvm: Callable[[], bool]
    forgotten_at: float = math.inf
    collections: int = 0
    freed: bool = False

    def lasts(self) -> bool:
        return not self.freed and not is_stopped(self.sc)


def send(sc: SparkContext, value: T) -> Broadcast[T]:
    """Broadcast a value until nobody can use it any more. PySpark pickles it with Python's own pickler, into a file."""
    sent = sc.broadcast(value)
    path = file_of(sent)
    _cleaner.watch(sent, _Use(sc, path, os.path.getsize(path), presence_in_jvm(sc, sent)))
    return sent


def use_of(sent: Broadcast[Any]) -> Callable[[], bool]:
    """Return a function that says whether somebody may still use a broadcast, without keeping it alive.

    After the end of the SparkContext it returns False. It may be called in any thread, and does not call the JVM.
    """
    return _cleaner.uses[sent].lasts


def free(sent: Broadcast[Any]) -> None:
    """Free a broadcast at once. The caller knows that nobody uses it any more, for example after a failure."""
    use = _cleaner.uses[sent]
    with suppress(*GONE):
        destroy(use.sc, sent)
    _cleaner.free(use)


class _Cleaner:
    """The thread that frees broadcasts."""

    def __init__(self) -> None:
        self.uses: WeakKeyDictionary[Broadcast[Any], _Use] = WeakKeyDictionary()
        self._lock = threading.Lock()  # never taken by a finalizer
        self._lasting: set[_Use] = set()
        self._thread: threading.Thread | None = None
        self._forgotten: queue.SimpleQueue[_Use] = queue.SimpleQueue()  # a finalizer may call put() at any point
        self._waiting: set[_Use] = set()  # dropped by Python, perhaps not by the JVM
        self._collected_at = -math.inf
        self._collection_seconds = 0.0

    def watch(self, sent: Broadcast[Any], use: _Use) -> None:
        weakref.finalize(sent, self._forgotten.put, use).atexit = False
        self.uses[sent] = use
        with self._lock:
            self._lasting.add(use)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sdf-cleaner", daemon=True)
                self._thread.start()

    def free(self, use: _Use) -> None:
        use.freed = True
        with suppress(OSError):  # the file is gone already, or its disk is
            os.unlink(use.path)
        with self._lock:
            self._lasting.discard(use)
        self._forgotten.put(use)  # wakes the thread, which ends if this was the last one

    def _run(self) -> None:
        while self._is_needed():
            with suppress(queue.Empty):
                use = self._forgotten.get(timeout=self._pause_seconds())
                while True:
                    use.forgotten_at = time.monotonic()
                    self._waiting.add(use)
                    use = self._forgotten.get_nowait()
            self._waiting = {use for use in self._waiting if not use.freed}
            self._look()

    def _is_needed(self) -> bool:
        with self._lock:
            if not self._lasting:
                self._thread = None
            return bool(self._lasting)

    def _pause_seconds(self) -> float | None:
        """Return the longest time to wait for another dropped broadcast before `_look`; None for no limit."""
        if not self._waiting:
            return None
        return max(0.0, min(self._collect_at() - time.monotonic(), _LOOK_EVERY_SECONDS))

    def _collect_at(self) -> float:
        """Return when to collect garbage, monotonic seconds: seldom if there is little, or collections were in vain.

        They may be in vain for long: Spark keeps the RDDs of the last job until another job runs, and a user may keep
        RDDs in the JVM.
        """
        hopeful = [use for use in self._waiting if use.collections < _MOST_COLLECTIONS]
        if not hopeful:
            return math.inf  # Python and the JVM will collect some time by themselves
        is_much = sum(use.size_bytes for use in hopeful) > _MUCH_BYTES
        backoff = _BACKOFF_SECONDS * 2 ** min(use.collections for use in hopeful)
        pause: float = max(backoff, self._collection_seconds / _COLLECT_SHARE)
        if not is_much:
            pause = max(pause, _COLLECT_EVERY_SECONDS)
        return max(self._collected_at + pause, min(use.forgotten_at for use in hopeful) + _BACKOFF_SECONDS)

    def _look(self) -> None:
        """Free the broadcasts that the JVM has dropped too, or whose SparkContext has ended."""
        if time.monotonic() >= self._collect_at():
            self._collect()
        for use in self._waiting:
            if not _is_in_jvm(use):
                self.free(use)

    def _collect(self) -> None:
        began = time.monotonic()
        if gc.isenabled():
            gc.collect()
        paused = time.monotonic()
        time.sleep(_PY4J_SECONDS)
        resumed = time.monotonic()
        with suppress(*GONE):
            collect_garbage()
        self._collected_at = time.monotonic()
        self._collection_seconds = self._collected_at - resumed + paused - began
        for use in self._waiting:
            use.collections += 1


def _is_in_jvm(use: _Use) -> bool:
    try:
        return not is_stopped(use.sc) and use.is_in_jvm()
    except GONE:
        return False


_cleaner = _Cleaner()
