"""Failures: what a stage leaves to do, if some of its parts failed, or had failed before (`sdf.quarantine.trials`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

import attrs

from sdf.errors import show
from sdf.journal.pending import Pending
from sdf.model.dofn import DoFn
from sdf.quarantine.failures import FailedBlock, Failure
from sdf.quarantine.trials import try_again
from sdf.spark.stream.catch_up import Left, Plan

__all__ = ["settle"]

log = logging.getLogger("sdf.stream")


def settle(
    fn: DoFn,
    plan: Plan,
    read: Sequence[Sequence[Pending]],
    rest: list[list[Left]],
    failures: Mapping[int, Failure],
) -> tuple[tuple[FailedBlock, ...], frozenset[int]]:
    """Put in place of parts that failed what is to be tried next, and of fronts that were read what follows them.

    Args:
        fn: the DoFn, set up if there are failures.
        plan: what the stage was to do.
        read: what each task read.
        rest: what each task left; changed.
        failures: of each task that failed; its ``item_id`` is the id of the part.

    Returns:
        The blocks that were set aside, and the ids of the work that failed.
    """
    blocks: list[FailedBlock] = []
    changed: set[int] = set()
    was_solo = len(plan.tasks) == 1 == len(plan.tasks[0])
    for task, failure in failures.items():
        log.info("a part failed: %s", failure.error)
        left, rest[task] = rest[task], []
        for part, delay in left:
            if not failure.may_blame(part.id):
                rest[task].append((part, delay))
                continue
            verdict = try_again(fn, part.element, part.restriction, part.trial, failure, was_solo=was_solo)
            if verdict.block is not None:
                blocks.append(verdict.block)
                shown = show(verdict.block.restriction), show(verdict.block.element), verdict.block.error
                log.warning("set aside: %s of element %s: %s", *shown)
            assert part.id is not None
            changed.add(part.id)
            if verdict.next is not None:
                restriction, trial = verdict.next
                rest[task].append((attrs.evolve(part, restriction=restriction, trial=trial), None))
    for task, share in enumerate(plan.tasks):
        for one in share:
            if one.trial is not None and any(part.id == one.id for part in read[task]):
                rest[task] = _gone_on(one, rest[task])
    return tuple(blocks), frozenset(changed)


def _gone_on(one: Pending, rest: Iterable[Left]) -> list[Left]:
    """Return what a task left, when it has read some of a part with a trial."""
    others = [left for left in rest if left[0].id != one.id]
    mine = [left for left in rest if left[0].id == one.id]
    if not mine:
        following = one.trial.following()
        if following is None:
            return others
        restriction, trial = following
        return [*others, (attrs.evolve(one, restriction=restriction, trial=trial, seen=None), None)]
    *before, last = mine
    first = attrs.evolve(one.trial, after=())
    kept = [(attrs.evolve(part, trial=first if first.alone else None), delay) for part, delay in before]
    return [*others, *kept, (attrs.evolve(last[0], trial=one.trial.rest()), last[1])]
