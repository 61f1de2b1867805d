"""alone: keeps a process that the user's code forks out of sdf.

A forked process has a copy of the worker: its work, its connections and its unwritten bytes. If it returns from the
user's code, it does the same work again, and writes into the connections of its parent. Its records may then come
twice, or Spark fails with an error that says nothing of a fork. So the claims of a forked process are refused. As soon
as it returns, it ends and tells its parent, which raises. A parent that has returned before is right without it.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable
from typing import Any

from sdf.errors import ContractError

__all__ = ["alone"]

_FLAW = (
    "a process that it forked came back from it, and would have done the same work once more. End such a process with "
    "os._exit(), or start one with subprocess or multiprocessing"
)
_inside: list[alone] = []  # those of this process


class alone:  # noqa: N801, reads as a statement
    """Context manager around the user's code: only the process that enters it leaves it.

    Args:
        who: names that code in the message; "" if the caller does.
        stop: called in a forked process, so that it claims nothing more; None: it can claim nothing.

    Raises:
        ContractError: in the parent, if a forked process has returned before.
    """

    __slots__ = ("_pid", "_stop", "_told", "_who")

    def __init__(self, who: str = "", *, stop: Callable[[], None] | None = None) -> None:
        self._who = who
        self._stop = stop
        self._told: Any = None  # a byte that all forked processes share; None if there is none

    def __enter__(self) -> None:
        self._pid = os.getpid()
        _inside.append(self)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if os.getpid() != self._pid:
            for one in _inside[_inside.index(self) :]:  # an error may have left those inside as they were
                if one._told is not None:
                    one._told[0] = 1
            if kind is GeneratorExit:  # it came back, and could not give its outputs: an error ends it
                return
            print(f"process {os.getpid()}, forked by {self._pid}, is ended: {_FLAW}.", file=sys.stderr, flush=True)
            os._exit(1)
        _inside.remove(self)
        if error is None and self._told is not None and self._told[0]:
            raise ContractError(f"{self._who}: {_FLAW}." if self._who else _FLAW)

    @staticmethod
    def _before_fork() -> None:
        for one in _inside:
            if one._told is None:
                one._told = mmap.mmap(-1, 1)

    @staticmethod
    def _after_fork() -> None:
        for one in _inside:
            if one._stop is not None:
                one._stop()


os.register_at_fork(before=alone._before_fork, after_in_child=alone._after_fork)
