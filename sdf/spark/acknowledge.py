"""Has a Python worker acknowledge at once what Spark has sent it, which saves 40 ms in each task.

Spark's executor sends a task to its Python worker in two packets. The second is small, so the executor's kernel holds
it until the first is acknowledged (Nagle's algorithm). The worker has nothing to say yet, so its kernel delays that by
40 ms. TCP_QUICKACK, which Linux has, ends the delay. One giant element on 4 slots at 1 s of work per slot
(benchmarks/skew.py) takes LiveRunner 1.11 of the ideal, and 1.18 without this.

The option is set through C. A ``socket.socket`` of the connection would give it Python's default timeout, and so make
the worker's own end non-blocking: PySpark then takes a pause for the end of the elements.

Spark 4.1 can talk over Unix domain sockets, which have no such delay (``spark.python.unix.domain.socket.enabled``).
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
from contextlib import suppress

__all__ = ["acknowledge"]

_OPEN_FILES = "/proc/self/fd"
_YES = ctypes.c_int(1)


def acknowledge() -> None:
    """Acknowledge what this worker has received, on each of its TCP connections; call this as a task begins."""
    if not hasattr(socket, "TCP_QUICKACK") or not os.path.isdir(_OPEN_FILES):
        return
    set_option = ctypes.CDLL(None).setsockopt
    for number in map(int, os.listdir(_OPEN_FILES)):
        with suppress(OSError):  # it is closed by now
            if stat.S_ISSOCK(os.fstat(number).st_mode):  # other kinds of sockets refuse the option
                set_option(number, socket.IPPROTO_TCP, socket.TCP_QUICKACK, ctypes.byref(_YES), ctypes.sizeof(_YES))
