"""Preemption: what a saved run's lane does when its Python worker is told to end.

A machine that is taken away, or a service that is stopped, sends SIGTERM to some or all processes of an executor:

- To the Python worker: it would end at once, as PySpark gives its workers the default action.
- To PySpark's daemon, from which the workers are forked, or only to the JVM: the daemon ends, and sends its workers
  SIGHUP. It does so in a moment, so a worker must not die of SIGHUP either.

SIGKILL follows after a time that depends on the cluster: 30 s by default on Kubernetes, a quarter of a second on YARN.
A lane talks to the driver itself, so it can report what it has written without the JVM.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["told_to_end"]

_GRACE_SECONDS = 60  # after this the worker dies all the same, as it would of the signal: its block may hang


@contextmanager
def told_to_end(call: Callable[[], None]) -> Iterator[None]:
    """Within the ``with`` block, SIGTERM and SIGHUP do not end this process, and ``call`` is called instead.

    It is called in the main thread, between any two steps of what runs there. Only that thread can set handlers; in any
    other thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    told = False

    def handle(number: int, frame: Any) -> None:
        nonlocal told
        told = True
        signal.alarm(_GRACE_SECONDS)
        call()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if told:  # else an alarm is one of the user's
            signal.alarm(0)
