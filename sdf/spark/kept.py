"""Children that a Python worker keeps between the attempts of a run, so that `setup` runs once in each of them.

A child is kept after an attempt that ended well, and after one in which `process` raised. Beam throws an instance away
whose `process` raised. Loading a model again for each bad block would cost more than the search, so here it is kept
unless `DoFn.keeps_setup` is False. What it gives next is no proof, then: a transaction may be aborted, a buffer half
full. So a failure that follows another one in the same child is doubtful (`Failure.doubtful`), and the child ends.
"""

from __future__ import annotations

import os
from collections import defaultdict
from functools import partial
from multiprocessing.util import Finalize
from typing import Any

import attrs

from sdf.spark import serde
from sdf.spark.child import Child, Order, Process
from sdf.spark.door.context import task_values, use_task_values
from sdf.spark.payload import run_of

__all__ = ["keep", "take"]

# By process id, since a forked process has no children of those that it inherits; then by run.
_kept: defaultdict[int, dict[str, Process]] = defaultdict(dict)


def take(run_id: str, work: Order) -> Process | None:
    """Return the child that was kept for a run, after it has taken the work; None if there is none.

    The children of other runs end. The steps of a stream have ids that begin alike, and keep a child each.
    """
    kept = _kept[os.getpid()]
    for other in [known for known in kept if run_of(known) != run_of(run_id)]:
        kept.pop(other).dismiss()
    process = kept.pop(run_id, None)
    if process is None:
        return None
    order = _Again(work, task_values())
    if process.order(serde.dumps(order, "a task for a process that was kept")):
        return process
    process.end()
    return None


def keep(run_id: str, process: Process) -> None:
    """Keep a child for the next attempt of a run."""
    kept = _kept[os.getpid()]
    if not kept:  # before multiprocessing waits for its children, as in a worker that Spark's daemon has not forked
        Finalize(None, partial(_end_all, os.getpid()), exitpriority=100)
    kept[run_id] = process


def _end_all(pid: int) -> None:
    if pid == os.getpid():
        while _kept[pid]:
            _kept[pid].popitem()[1].dismiss()


@attrs.frozen
class _Again:
    """Work for a child that has a copy of an older task's context."""

    _work: Order
    _context: dict[str, Any] | None

    def __call__(self, child: Child) -> None:
        if self._context is not None:
            use_task_values(self._context)
        self._work(child)
