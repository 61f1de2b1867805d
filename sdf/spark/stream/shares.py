"""Shares: what a step does in a batch, and its pin. Due work that may have news, and new elements, in turn."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import attrs

from sdf.journal.pending import Pending
from sdf.journal.remaining import Remaining, RemainingPart
from sdf.model.dofn import DoFn
from sdf.quarantine.trials import front_of
from sdf.scheduling.even_shares import even_shares
from sdf.scheduling.factoring import scaled
from sdf.spark.stream.catch_up import Plan
from sdf.spark.stream.options import Pace
from sdf.spark.stream.pins import Pin, StageResult, Tried
from sdf.spark.stream.steps import Step

__all__ = ["Share", "even_limits", "pin_of", "plan_of", "share_of"]


@attrs.frozen
class Share:
    """What a step does in a batch.

    Attributes:
        parts: the work to run, by id; the id of a new element is negative.
        after: by id, what is left of the work of which a scan has already read ``parts``.
        kept: new elements that wait their turn.
    """

    parts: Mapping[int, Pending]
    after: Mapping[int, Pending]
    kept: tuple[Pending, ...]


def share_of(
    step: Step, remaining: Iterable[RemainingPart], fresh: Sequence[Pending], now: int, max_items: int | None
) -> Share:
    """Choose what a step does in a batch. Work that is to be scanned beside the batches is never run in one.

    Args:
        step: the step.
        remaining: all remaining work; that which has no news is noted as tried.
        fresh: new elements of the step.
        now: milliseconds since the epoch.
        max_items: the most to run; None for no limit.
    """
    mine = [one for one in remaining if one.part.step == step.number and one.due <= now]
    mine.sort(key=lambda one: (one.due, one.id))  # work that a task had no time to start is due for longest
    due = [one for one in mine if one.found is not None or not step.is_scan(one.part)]
    parts = {one.id: part for one in due if (part := _part(step, one, now)) is not None}
    parts = dict(islice(parts.items(), max_items))
    solo = next((number for number, part in parts.items() if part.trial is not None and part.trial.solo), None)
    if solo is not None:
        return Share({solo: parts[solo]}, {}, tuple(fresh))
    runs = [part for part in fresh if not step.is_scan(part)]
    room = len(runs) if max_items is None else max_items - len(parts)
    parts.update((-1 - at, attrs.evolve(part, id=-1 - at, seen=step.peek(part))) for at, part in enumerate(runs[:room]))
    after = {one.id: one.found[1] for one in due if one.found is not None and one.found[1] is not None}
    return Share(parts, after, (*runs[room:], *(part for part in fresh if step.is_scan(part))))


def _part(step: Step, work: RemainingPart, now: int) -> Pending | None:
    """Return what to run of some due work; None if nothing has changed since it was last run: then it waits again."""
    if work.found is not None:
        return work.found[0]
    seen = step.peek(work.part)
    if seen is None or seen != work.seen:
        return attrs.evolve(work.now, seen=seen)
    work.due, work.tried = now + work.delay, True
    return None


def even_limits(pace: Pace, tasks: int) -> tuple[float, float]:
    """Return how many records, and bytes of records, each of so many tasks gives at most."""
    records, size = (math.inf if most is None else most / tasks for most in (pace.max_records, pace.max_bytes))
    return records, size


def plan_of(step: Step, share: Share, remaining: Remaining, slots: int, pace: Pace) -> Plan:
    """Divide a share among tasks. What is behind comes last, so that nothing waits for it."""
    most = pace.max_tasks or max(slots, pace.min_tasks or 0)
    least = min(pace.min_tasks or slots, most)
    tried = [part for part in share.parts.values() if part.trial is not None]  # each is run whole, in order
    behind = [
        part
        for number, part in share.parts.items()
        if part.trial is None and (number < 0 or remaining[number].is_behind)
    ]
    cut: list[list[Pending]] = []
    if behind and type(step.fn).split_backlog is not DoFn.split_backlog:
        room = most - (len(behind) < len(share.parts))
        cut = step.catch_up.divide(step.here(), behind, room, even_limits(pace, most))
    ids = {part.id for parts in (*cut, tried) for part in parts}
    others = [part for part in share.parts.values() if part.id not in ids]
    room = max(1, most - sum(map(len, cut)))
    tasks = even_shares(step.fn, others, scaled(len(others), min(least, room), room)) if others else []
    for part in tried:
        front, trial = front_of(step.here(), part.element, part.restriction, part.trial)
        tasks.append((attrs.evolve(part, restriction=front, trial=trial),))
    chains = []
    for parts in cut:
        chains.append(range(len(tasks), len(tasks) + len(parts)))
        tasks += [(part,) for part in parts]
    return Plan(tasks, chains)


def pin_of(stage: StageResult, share: Share, held: Any, by: str) -> Pin:
    """Return the pin of a stage that did ``share``; ``held`` and ``by`` are those of `Pin`."""
    planned = share.parts
    read = {part.id for parts in stage.tasks for part in parts} | stage.changed
    left = [share.after[number] for number in planned if number in read and number in share.after]
    waiting: dict[int, list[tuple[Pending, int | None]]] = defaultdict(list)
    for part, delay in stage.rest:
        assert part.id is not None
        if part.id in read:
            left.append(part)
        else:
            waiting[part.id].append((part, delay))
    tried = []
    for number, pieces in waiting.items():
        whole, (first, _) = attrs.evolve(planned[number], seen=None), pieces[0]
        delays = [delay for _, delay in pieces if delay is not None]
        if len(delays) == len(pieces):  # all of it was run
            watermark = first.watermark if len(pieces) == 1 else whole.watermark
            tried.append(Tried(number, min(delays), watermark, first.seen))
            whole = attrs.evolve(whole, due=min(part.due for part, _ in pieces), seen=first.seen)
        if number < 0:
            left.append(whole)
    return Pin(
        tuple(
            tuple(attrs.evolve(part, id=None, due=0, seen=None, trial=None) for part in parts) for parts in stage.tasks
        ),
        stage.counts,
        tuple(number for number in planned if number >= 0 and number in read),
        tuple(attrs.evolve(part, id=None) for part in (*left, *share.kept)),
        held,
        by,
        tuple(one for one in tried if one.id >= 0),
        stage.late,
        stage.failed,
    )
