"""Trials: how a stream finds the blocks that fail, batch after batch, without giving records out of order.

The batch goes on without a part that failed. The next batch tries it again: alone, and only the front of it. What comes
after the front in the element waits. There are three ways to choose a front, in this order:

- The position claimed last is a hint: the front is what lies before it, then the block at it, then the rest.
- A part without an end, such as the messages of a partition, is read up to half as far as before
  (`DoFn.split_backlog`).
- Any other part is cut in halves.

When a front that was read alone has failed and cannot be made shorter, it is set aside. The state of a trial is in the
journal with the part, so a stream that crashes goes on searching where it was.
"""

from __future__ import annotations

from typing import Any

import attrs

from sdf.errors import StageError, blame, show
from sdf.execution.work import work_of
from sdf.model.dofn import DoFn
from sdf.model.restrictions import UNBOUNDED, part_of
from sdf.model.trackers import as_pair
from sdf.quarantine.failures import KILLED, FailedBlock, Failure

__all__ = ["Trial", "Verdict", "front_of", "try_again"]

_FARTHEST = 1 << 40  # positions
_READ_TO_END = (
    2  # fronts that were read in a row, after which nothing is wrong with what follows: both halves were fine
)
_DEATHS_ALONE = 2


@attrs.frozen
class Trial:
    """What is known of a part that has failed.

    Attributes:
        attempts: how often it, or what it was cut out of, has failed.
        alone: whether it runs in a task of its own.
        in_front: whether it is what lies before a hint.
        misled: whether a hint was wrong.
        solo: whether nothing else of the stream may run beside it, since its process was killed.
        deaths: how often that happened while nothing else of the stream ran.
        reach: positions of a part without an end that it reads at most; None for all that is there.
        read: fronts that were read in a row with this reach.
        after: what waits until this part is done: restrictions in order, each with whether it is to run alone.
    """

    attempts: int = 0
    alone: bool = False
    in_front: bool = False
    misled: bool = False
    solo: bool = False
    deaths: int = 0
    reach: int | None = None
    read: int = 0
    after: tuple[tuple[Any, bool], ...] = ()

    def following(self) -> tuple[Any, Trial | None] | None:
        """Return what comes when this part is done, and its trial; None if nothing waits."""
        if not self.after:
            return None
        (restriction, alone), *after = self.after
        trial = Trial(self.attempts if alone else 0, alone, misled=self.misled and alone, after=tuple(after))
        return restriction, trial if alone or after else None

    def rest(self) -> Trial | None:
        """Return the trial of what is left of this part, when some of it was read."""
        if self.reach is None:
            return self
        return None if self.read + 1 == _READ_TO_END else attrs.evolve(self, read=self.read + 1)


@attrs.frozen
class Verdict:
    """What a failed attempt leads to.

    Attributes:
        next: the restriction that is tried next, and its trial; None if nothing is left.
        block: the block that was set aside; None if the search goes on.
    """

    next: tuple[Any, Trial | None] | None
    block: FailedBlock | None = None


def front_of(fn: DoFn, element: Any, restriction: Any, trial: Trial) -> tuple[Any, Trial]:
    """Return what of a part to run now, and its trial: of a part without an end, as far as the trial reaches.

    Args:
        fn: the DoFn, set up.
        element, restriction, trial: the part.
    """
    if trial.reach is None:
        return restriction, trial
    front, *rest = _parts(fn, element, restriction, trial.reach)
    if not rest or front.stop is UNBOUNDED:  # it ends on its own, and leaves the rest
        return front, trial
    return front, attrs.evolve(trial, reach=None, after=((rest[0], False), *trial.after))


def try_again(
    fn: DoFn, element: Any, restriction: Any, trial: Trial | None, failure: Failure, *, was_solo: bool
) -> Verdict:
    """Decide what follows from a failed attempt at a part.

    Args:
        fn: the DoFn, set up.
        element, restriction: the part.
        trial: its trial, if it has failed before.
        failure: what happened.
        was_solo: whether nothing else of the stream ran meanwhile.

    Raises:
        StageError: if it has no end, and it is not known what it claimed last: then no block can be named.
    """
    known = trial or Trial()
    known = attrs.evolve(known, attempts=known.attempts + 1, misled=known.misled or known.in_front, read=0)
    if not known.misled and failure.claimed is None and not known.alone:
        return _alone(restriction, known)  # alone, it tells each claim
    if not known.misled and failure.claimed is not None:
        parts = work_of(element, restriction).cut_out(fn, failure.claimed)
        if parts is not None and not parts[0] is parts[2] is None:
            return _hinted(known, *parts)
    if getattr(restriction, "stop", None) is UNBOUNDED:
        return _without_end(fn, element, restriction, known, failure, was_solo)
    halves = work_of(element, restriction).cut(fn, 0.5)
    if halves is not None:
        front, back = halves
        return Verdict((front, attrs.evolve(known, alone=True, in_front=False, after=((back, True), *known.after))))
    if not known.alone:
        return _alone(restriction, known)
    if failure.how == KILLED and known.deaths + was_solo < _DEATHS_ALONE:
        return Verdict((restriction, attrs.evolve(known, solo=True, deaths=known.deaths + was_solo)))
    return _set_aside(element, restriction, known, failure, known.following())


def _alone(restriction: Any, known: Trial) -> Verdict:
    return Verdict((restriction, attrs.evolve(known, alone=True)))


def _hinted(known: Trial, before: Any, block: Any, after: Any) -> Verdict:
    """Run what lies before the block, then the block alone, then the rest."""
    waiting = known.after if after is None else ((after, False), *known.after)
    if before is None:
        return Verdict((block, attrs.evolve(known, alone=True, in_front=False, after=waiting)))
    return Verdict((before, attrs.evolve(known, alone=False, in_front=True, after=((block, True), *waiting))))


def _without_end(fn: DoFn, element: Any, restriction: Any, known: Trial, failure: Failure, was_solo: bool) -> Verdict:
    parts = None if failure.claimed is None else work_of(element, restriction).cut_out(fn, failure.claimed)
    if parts is not None:  # the hint was wrong, but what is to blame lies no later
        _, block, rest = parts
        front = part_of(restriction, restriction.start, block.stop)
        after = ((rest, False), *known.after)
        return Verdict((front, attrs.evolve(known, alone=True, in_front=False, after=after)))
    reach = _shorter(fn, element, restriction, known.reach or _FARTHEST)
    if reach is not None:
        return Verdict((restriction, attrs.evolve(known, alone=True, reach=reach)))
    if not known.alone:
        return _alone(restriction, known)
    if failure.how == KILLED and known.deaths + was_solo < _DEATHS_ALONE:
        return Verdict((restriction, attrs.evolve(known, solo=True, deaths=known.deaths + was_solo)))
    name = type(fn).__name__
    if failure.claimed is None:
        raise StageError(
            f"{name} failed {known.attempts} times on {show(restriction)} of element {show(element)}, and the position "
            f"that it claimed last is not known, so no block can be set aside: {failure.error}"
        )
    with blame(lambda: f"{name}'s tracker, cutting {show(restriction)} of element {show(element)},"):
        tracker = fn.create_tracker(element, restriction)
        pair = as_pair(tracker.try_split(0)) if tracker.try_claim(failure.claimed) else None
    if pair is None:
        raise StageError(
            f"{name} failed {known.attempts} times on {show(restriction)} of element {show(element)}, and its tracker "
            f"cannot be split after a claim, so no block can be set aside: {failure.error}"
        )
    block, rest = pair
    return _set_aside(element, block, known, failure, (rest, None))


def _set_aside(
    element: Any, restriction: Any, known: Trial, failure: Failure, following: tuple[Any, Trial | None] | None
) -> Verdict:
    block = FailedBlock(*work_of(element, restriction).named(), failure.error, known.attempts)
    return Verdict(following, block)


def _parts(fn: DoFn, element: Any, restriction: Any, length: int) -> list[Any]:
    with blame(lambda: f"{type(fn).__name__}.split_backlog()", element, restriction):
        return list(fn.split_backlog(element, restriction, 2, length))


def _shorter(fn: DoFn, element: Any, restriction: Any, below: int) -> int | None:
    """Return the most positions below ``below``, a power of two, at which a part without an end can be cut."""
    length = below // 2
    while length and len(_parts(fn, element, restriction, length)) < 2:
        length //= 2
    return length or None
