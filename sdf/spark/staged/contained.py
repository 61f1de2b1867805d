"""Attempts at tasks in a run with quarantine: each in a child process, whose failure is a receipt like any other."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from sdf.execution.bundle import Bundle
from sdf.execution.work_items import WorkItem
from sdf.model.dofn import DoFn
from sdf.quarantine.blocks import failure_of
from sdf.quarantine.failures import Failure
from sdf.quarantine.options import Quarantine
from sdf.spark import serde
from sdf.spark.child import Child, run_in_child
from sdf.spark.kept import keep, take
from sdf.spark.staged.stored_blocks import Receipt

__all__ = ["attempts", "bundle_of", "convicting"]


def attempts(
    run: Callable[[Child | None], Generator[Any, None, None]],
    quarantine: Quarantine | None,
    failed: Callable[[Failure], Receipt],
    *,
    run_id: str | None = None,
) -> Iterator[Any]:
    """Yield what an attempt gives, a receipt last.

    Args:
        run: makes the attempt; it gets the child in which it runs, or None without quarantine.
        quarantine: the options of the run; None to run here.
        failed: makes the receipt of an attempt that failed.
        run_id: the run whose child to take, and to keep; ``run`` must pickle then. None for a child of its own.
    """
    if quarantine is None:
        yield from run(None)
        return
    work = partial(_give, run)
    kept = None if run_id is None else partial(keep, run_id)
    taken = None if run_id is None else take(run_id, work)
    limit = quarantine.block_seconds
    for given in run_in_child(work, block_seconds=limit, load=serde.loads, taken=taken, kept=kept):
        yield failed(given) if isinstance(given, Failure) else given


def _give(run: Callable[[Child | None], Generator[Any, None, None]], child: Child) -> None:
    attempt = run(child)
    for given in attempt:
        try:
            child.give(given)
        except MemoryError as error:  # for one more copy of the records; a block may be to blame
            attempt.throw(error)


def bundle_of(fn: DoFn, items: Sequence[WorkItem], side_inputs: Mapping[str, Any], child: Child | None) -> Bundle:
    """Return the bundle of an attempt; if it runs in a child, that tells the parent what runs."""
    told: dict[str, Any] = {}
    if child is not None:
        told["on_start"] = lambda item: child.started(item.id)
        told["on_claim"] = lambda position: child.claimed(serde.dumps(position, "a position"))
    return Bundle(fn, items, side_inputs=side_inputs, clock=time.monotonic, **told)


@contextmanager
def convicting(bundle: Bundle, child: Child | None) -> Iterator[None]:
    """Tell the parent, if there is one, of an error in the ``with`` statement that convicts a block."""
    try:
        yield
    except (GeneratorExit, KeyboardInterrupt):  # ours, or the user's who ends the run
        raise
    except BaseException as error:  # of any kind, such as the panic of a library in Rust
        if child is not None and (failure := failure_of(bundle, error)) is not None:
            child.failed(failure, fit=_is_fit(bundle.fn, error))
        raise


def _is_fit(fn: DoFn, error: BaseException) -> bool:
    """Return whether the DoFn may go on after an error: not without memory, nor after what is no Exception."""
    cause = error.__cause__ or error
    return fn.keeps_setup and isinstance(cause, Exception) and not isinstance(cause, MemoryError)
