"""Runs the attempts at a lane in children, one after the other: each tells why the one before it has failed.

When the worker is told to end, the lane in its child must leave (`sdf.spark.live.preemption`). The signal may come
before there is a child, between two of them, or before the child has a lane. So the worker notes it, and each child has
that note from its fork on. Until its lane is there a child handles the signal as the worker does, and only notes it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from sdf.quarantine.failures import Failure
from sdf.spark import serde
from sdf.spark.child import Child, run_in_child
from sdf.spark.live.preemption import told_to_end

__all__ = ["run_attempts"]


def run_attempts(
    attempt: Callable[[Child, Failure | None, Callable[[], bool]], None], block_seconds: float | None
) -> None:
    """Run attempts in children until one has not failed.

    Args:
        attempt: runs one; called in its child, with why the one before it has failed, and with a function that returns
            whether the worker was told to end. Once its lane handles signals itself, it must ask that.
        block_seconds: see `run_in_child`.
    """
    children: list[int] = []  # the one that runs; none in the child itself
    failure: Failure | None = None
    told = False

    def pass_on() -> None:
        for process_id in children:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGTERM)

    def leave() -> None:
        nonlocal told
        told = True
        pass_on()

    def began(process_id: int) -> None:
        children.append(process_id)
        if told:
            pass_on()

    def work(child: Child) -> None:
        attempt(child, failure, lambda: told)

    with told_to_end(leave):
        while True:
            ended = list(run_in_child(work, block_seconds=block_seconds, load=serde.loads, began=began))
            children.clear()
            if not ended:
                return
            (failure,) = ended
