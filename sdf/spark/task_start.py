"""What each of our tasks does first, which makes the start of a Python task in Spark cheaper.

It acknowledges at once what Spark has sent, which saves 40 ms in each task. Spark's executor sends a task to its Python
worker in two packets. The second is small, so the executor's kernel holds it until the first is acknowledged (Nagle's
algorithm). The worker has nothing to say yet, so its kernel delays that by 40 ms. TCP_QUICKACK, which Linux has, ends
the delay. One giant element on 4 slots at 1 s of work per slot (benchmarks/skew.py) takes LiveRunner 1.11 of the ideal,
and 1.18 without this. The option is set through C. A ``socket.socket`` of the connection would give it Python's default
timeout, and so make the worker's own end non-blocking: PySpark then takes a pause for the end of the elements. Spark
4.1 can talk over Unix domain sockets, which have no such delay (``spark.python.unix.domain.socket.enabled``).

It spares Python's garbage collector what a Python worker holds for good, which saves about 20 ms of CPU in each task.
PySpark collects garbage in full after each task. The modules of PySpark and sdf alone are so many objects that this
takes 20 ms, while nothing else of the task's start takes more than 5. `gc.freeze` moves all objects that exist out of
the collector's sight. It is called once in each process, as its first task of sdf begins: the modules are loaded, and
nothing of a DoFn exists yet. A job of 8 empty tasks on two cores takes 120 ms, and 210 ms without this. What was frozen
and falls out of use later is freed as ever, unless it is part of a reference cycle.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import socket
import stat
from contextlib import suppress

__all__ = ["acknowledge", "freeze_once", "task_starts", "worker_name"]

_OPEN_FILES = "/proc/self/fd"
_YES = ctypes.c_int(1)


def task_starts() -> None:
    """Call this in the worker as a task begins, before the task loads its DoFn."""
    acknowledge()
    freeze_once()


def acknowledge() -> None:
    """Acknowledge what this worker has received, on each of its TCP connections."""
    if not hasattr(socket, "TCP_QUICKACK") or not os.path.isdir(_OPEN_FILES):
        return
    set_option = ctypes.CDLL(None).setsockopt
    for number in map(int, os.listdir(_OPEN_FILES)):
        with suppress(OSError):  # it is closed by now
            if stat.S_ISSOCK(os.fstat(number).st_mode):  # other kinds of sockets refuse the option
                set_option(number, socket.IPPROTO_TCP, socket.TCP_QUICKACK, ctypes.byref(_YES), ctypes.sizeof(_YES))


@functools.cache  # gc.get_freeze_count() would tell, too, but it takes 2 ms: it counts each frozen object
def freeze_once() -> None:
    """Freeze the objects of this process, unless that was done before."""
    gc.freeze()


def worker_name() -> str:
    """Return the host and process id of this worker."""
    return f"{socket.gethostname()}/{os.getpid()}"
