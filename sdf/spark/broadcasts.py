"""Broadcasts that are freed when nobody can use them any more.

PySpark keeps the file of a broadcast in the driver's temporary directory until somebody destroys the broadcast. Only
its last user could, and who that is nobody knows: RDDs that the user made from ours hold on to it, in Python or, where
union() made them say, only in the JVM. So Python's garbage collection has to find it gone, and then the JVM's.

A finalizer may run in any thread at any time, also amid a call to the JVM. So it only says that Python has forgotten a
broadcast; the rest is done by a thread, which lives as long as there are broadcasts. It has both collect garbage now
and then: a driver may leave that for half an hour, and Py4J's objects are cycles, so that Python holds on to the JVM's
RDDs until then. Spark itself then frees the blocks of the broadcast, and those of a result that was dropped without
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
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from py4j.protocol import Py4JError
from pyspark import Broadcast, SparkContext

__all__ = ["free", "send", "use_of"]

_LOOK_EVERY_SECONDS = 30.0
_COLLECT_EVERY_SECONDS = 60.0
_MUCH_BYTES = 32 << 20  # more than this is not left lying so long
_COLLECT_SHARE = 0.05  # of the time, at most: a collection stops all threads
_BACKOFF_SECONDS = 0.5  # twice as long each time that it was in vain
_MOST_COLLECTIONS = 10
_PY4J_SECONDS = 1.5  # in which Py4J tells the JVM what Python has forgotten
_JVM_GONE = (Py4JError, OSError, AttributeError)


@attrs.define(eq=False)
class _Use:
    """What is known of a broadcast. It does not keep the broadcast alive.

    Attributes:
        sc: where it was sent.
        path: its file.
        size_bytes: of the file.
        in_jvm: a weak reference of the JVM's to it.
        forgotten_at: when Python has forgotten it, monotonic seconds.
        collections: how often garbage was collected since then.
        freed: nobody can use it any more.
    """

    sc: SparkContext
    path: str
    size_bytes: int
    in_jvm: Any
    forgotten_at: float = math.inf
    collections: int = 0
    freed: bool = False

    def lasts(self) -> bool:
        return not self.freed and self.sc._jsc is not None


def send(sc: SparkContext, value: bytes) -> Broadcast[bytes]:
    """Broadcast a value until nobody can use it any more."""
    sent = sc.broadcast(value)
    in_jvm = sc._jvm.java.lang.ref.WeakReference(sent._jbroadcast)  # type: ignore[union-attr]
    _cleaner.watch(sent, _Use(sc, sent._path, os.path.getsize(sent._path), in_jvm))
    return sent


def use_of(sent: Broadcast[bytes]) -> Callable[[], bool]:
    """Return a function that tells whether somebody may still use a broadcast; it does not keep it alive.

    Nobody does after the end of the SparkContext. It may be called in any thread, and asks nobody.
    """
    return _cleaner.uses[sent].lasts


def free(sent: Broadcast[bytes]) -> None:
    """Free a broadcast at once: the caller knows that nobody uses it any more, as after a failure."""
    use = _cleaner.uses[sent]
    with suppress(*_JVM_GONE):
        jsc = use.sc._jsc
        if jsc is not None and not jsc.sc().isStopped():  # else it would be one of the next context's, by its number
            sent._jbroadcast.destroy(False)
    _cleaner.free(use)


class _Cleaner:
    """The thread that frees broadcasts."""

    def __init__(self) -> None:
        self.uses: WeakKeyDictionary[Broadcast[bytes], _Use] = WeakKeyDictionary()
        self._lock = threading.Lock()  # never taken by a finalizer
        self._lasting: set[_Use] = set()
        self._thread: threading.Thread | None = None
        self._forgotten: queue.SimpleQueue[_Use] = queue.SimpleQueue()  # a finalizer may put into it amid anything
        self._waiting: set[_Use] = set()  # Python has forgotten them, the JVM may not have
        self._collected_at = -math.inf
        self._collection_seconds = 0.0

    def watch(self, sent: Broadcast[bytes], use: _Use) -> None:
        weakref.finalize(sent, self._forgotten.put, use).atexit = False
        self.uses[sent] = use
        with self._lock:
            self._lasting.add(use)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sdf-cleaner", daemon=True)
                self._thread.start()

    def free(self, use: _Use) -> None:
        use.freed = True
        with suppress(OSError):  # it has gone already, or its disk has
            os.unlink(use.path)
        with self._lock:
            self._lasting.discard(use)
        self._forgotten.put(use)  # the thread ends if it was the last

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
        """Return how long to wait for more before looking at those that wait."""
        if not self._waiting:
            return None
        return max(0.0, min(self._collect_at() - time.monotonic(), _LOOK_EVERY_SECONDS))

    def _collect_at(self) -> float:
        """Return when to have garbage collected: seldom where there is little of it, or it was in vain.

        It may be so for long: Spark holds on to the RDDs of the last job until another one runs, and the user to some
        in the JVM as long as he likes.
        """
        hopeful = [use for use in self._waiting if use.collections < _MOST_COLLECTIONS]
        if not hopeful:
            return math.inf  # some time it is collected without being asked for
        is_much = sum(use.size_bytes for use in hopeful) > _MUCH_BYTES
        backoff = _BACKOFF_SECONDS * 2 ** min(use.collections for use in hopeful)
        pause: float = max(backoff, self._collection_seconds / _COLLECT_SHARE)
        if not is_much:
            pause = max(pause, _COLLECT_EVERY_SECONDS)
        return max(self._collected_at + pause, min(use.forgotten_at for use in hopeful) + _BACKOFF_SECONDS)

    def _look(self) -> None:
        """Free what the JVM has forgotten too, or what went with its SparkContext."""
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
        with suppress(*_JVM_GONE):
            SparkContext._jvm.System.gc()  # type: ignore[union-attr]
        self._collected_at = time.monotonic()
        self._collection_seconds = self._collected_at - resumed + paused - began
        for use in self._waiting:
            use.collections += 1


def _is_in_jvm(use: _Use) -> bool:
    try:
        return use.sc._jsc is not None and not use.in_jvm.refersTo(None)
    except _JVM_GONE:
        return False


_cleaner = _Cleaner()
