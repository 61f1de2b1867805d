"""Running: a work item while it runs, with a clock beside it: how far it is, what it costs, what there is left.

Both runners measure by this: a task of a stage (`sdf.execution.bundle`) and a lane.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sdf.errors import show
from sdf.execution.expansion import checked_size
from sdf.execution.invoker import Invoker
from sdf.execution.work_items import ADDS_UP, Part, Ran, SlowBlock, WorkItem, slowest, units
from sdf.model.dofn import DoFn

__all__ = ["Running"]

_RECENT_SECONDS = 0.25  # benchmarks/ablate.py: "narrow 0.5 %, 1 s", "slow to start, 64 slots, 2 s"
_MOST_NOTED = 100
_SLOW_SECONDS = 0.1  # a block is not listed for less
_POSITION_CHARACTERS = 60
_MOST = 1e200  # offsets have no bound, sums of floats have


class Running:
    """One attempt at one work item. `outputs` once; the rest from any thread.

    Args:
        fn: the DoFn, set up.
        item: the work item.
        side_inputs: keyword arguments for `process`.
        clock: monotonic seconds.
        expected_seconds: what it should take by what ran before it, 0 if nothing did: all that is known of what has
            just begun, until it has done something or has taken longer.
    """

    def __init__(
        self,
        fn: DoFn,
        item: WorkItem,
        *,
        side_inputs: Mapping[str, Any] | None,
        clock: Callable[[], float],
        expected_seconds: float = 0.0,
    ) -> None:
        self._fn = fn
        self.item = item
        self._expected_seconds = expected_seconds
        self.invoker = Invoker(fn, item.element, item.restriction, side_inputs=side_inputs, watermark=item.watermark)
        self._clock = clock
        self._began = clock()
        self._ended: float | None = None
        self._first: tuple[float, float] | None = None  # when it was seen to have claimed something, and the units done
        self._marks: deque[tuple[float, float]] = deque([(self._began, 0.0)])  # when how many units were done, of late
        self._unclaimed_seconds = 0.0  # how long it was seen to have claimed nothing
        self._block: tuple[Any, float, float] = None, 0.0, 0.0  # the position claimed last; seen first, seen last
        self._slow: list[SlowBlock] = []
        done, left = self._progress()
        self._scale = units(item) / (done + left) if left is not None and done + left > 0 else None

    @contextmanager
    def outputs(self) -> Iterator[Iterable[Any]]:
        """Return a context manager that gives its outputs; see `Invoker.outputs`. It has ended when that is left."""
        with self.invoker.outputs() as outputs:
            yield outputs
        self._ended = self._clock()

    def seconds(self) -> float:
        """Return how long it has run."""
        return self._now() - self._began

    def _now(self) -> float:
        return self._clock() if self._ended is None else self._ended

    def units(self) -> tuple[float, float]:
        """Return the units done and left, in the unit of its size; half each if the tracker does not know."""
        done, left = self._progress()
        if left is None or self._scale is None:
            return units(self.item) / 2, units(self.item) / 2
        return _clamped(done * self._scale), _clamped(left * self._scale)

    def _progress(self) -> tuple[float, float | None]:
        """Return what the tracker says is done and left, as floats that can be added up."""
        progress = self.invoker.progress()
        left = progress.remaining
        return _clamped(progress.completed), None if left is None else _clamped(left)

    def seconds_left(self) -> float:
        """Return the seconds that the rest takes if it costs per unit what was done; infinite if nothing tells."""
        done, left = self.units()
        mean = self._mean(self._clock(), done)
        if mean is not None:
            return left * mean
        expected = self._expected_seconds - self.seconds()
        return expected if expected > 0 else math.inf

    def _mean(self, now: float, done: float) -> float | None:
        """Return the seconds per unit up to now, None if nothing tells; what came before the first claim belongs to
        none, and what was done until that was seen took some of that time.
        """
        since, before = self._first or (self._began, 0.0)
        return (now - since) / (done - before) if done > before else None

    def note(self) -> None:
        """Note how far it is; to be called ten times a second or so by whoever wants to know more than the mean."""
        if self._ended is not None:
            return
        now, (done, _) = self._clock(), self.units()
        if self._first is None and self.invoker.started:
            self._first = now, done
            self._marks[0] = now, 0.0
        if self._first is None:
            self._unclaimed_seconds = now - self._began
        else:
            self._note_block(now)
        if done <= self._marks[-1][1]:
            return
        self._marks.append((now, done))
        while len(self._marks) > 2 and self._marks[1][0] <= now - _RECENT_SECONDS:
            self._marks.popleft()

    def _note_block(self, now: float) -> None:
        """Note that a block is the one of the last note, or that it has ended; fast ones are passed over unseen.

        No two claims share a position. Units would not tell: they change inside a block too, and when it is split.
        """
        last, since, _ = self._block
        position = self.invoker.last_claimed
        same = position is last
        if position is None:  # its tracker does not say
            position = self._progress()[0]
            same = position == last
        if not same:
            self._note_slow()
            since = now
        self._block = position, since, now

    def _note_slow(self) -> None:
        position, since, until = self._block
        if until - since >= _SLOW_SECONDS:
            self._slow.append(SlowBlock(self.item.id, show(position, _POSITION_CHARACTERS), until - since))
            if len(self._slow) > _MOST_NOTED:
                self._slow = list(slowest(*self._slow))

    def ran(self, item_id: int, task_began: float, units: float) -> Ran:
        """Return how it ran, now that it has ended.

        Args:
            item_id: the work item as the driver knows it.
            task_began: when its task began, on this clock.
            units: the size of what it did.
        """
        return Ran(
            item_id, self._began - task_began, self.seconds(), units, self.invoker.records, self._unclaimed_seconds
        )

    def slow_blocks(self) -> tuple[SlowBlock, ...]:
        """Return the slowest blocks seen, now that it has ended; the last one ended then."""
        if self._first is not None:
            self._note_block(self._now())
        self._note_slow()
        return slowest(*self._slow) if self._slow else ()

    def seconds_left_at_most(self) -> float:
        """As `seconds_left`, by the mean or the latest cost per unit, whichever is higher; before any, and where the
        tracker does not know, as long again or what is expected.

        Work that gets dear near its end is seen by its latest cost long before its mean tells.
        """
        cost, (_, left) = self._cost(), self.units()
        if cost is None or self._scale is None:
            return max(self.seconds(), self._expected_seconds - self.seconds())
        return max(0.0, left * cost - self._in_block())

    def _cost(self) -> float | None:
        """Return the seconds per unit, at most; None as long as nothing was done."""
        (since, before), (at, done) = self._marks[0], self._marks[-1]
        mean = self._mean(at, done)
        return None if mean is None else max(mean, (at - since) / (done - before) if done > before else 0.0)

    def _in_block(self) -> float:
        """Return the seconds since it was seen to move: what it has done of the block that it claimed last."""
        return self._clock() - self._marks[-1][0]

    def halve(self) -> bool:
        """Split so that both sides take as long from now, as far as is known; tell whether it was split."""
        (_, rest), cost = self._progress(), self._cost()
        fraction = 0.5
        if rest and cost and self._scale:
            ahead = min(self._in_block() / (cost * self._scale), rest)
            nearest = 0.5 if isinstance(self.invoker.progress().remaining, int) else 0.0
            fraction = min(1.0, ((rest + ahead) / 2 + nearest) / rest)
        return self.split(fraction)

    def split(self, fraction: float) -> bool:
        """Cut off all but so much of what is unclaimed; tell whether it was split."""
        done, _ = self._progress()
        if self.invoker.split(fraction) is None:
            return False
        after, _ = self._progress()
        if self._scale is not None and done > 0 and after > 0:
            self._scale *= done / after  # a tracker may count in shares of what it has now
        return True

    def opening_seconds(self) -> float | None:
        """Return how long it took to get to its first claim, None as long as that was not noted."""
        return None if self._first is None else self._first[0] - self._began

    def done(self) -> tuple[float, Part | None]:
        """Return the units that it did, now that it has ended, and the part if it did not run whole."""
        whole = units(self.item)
        if not self.invoker.residuals:
            return whole, None
        primary = self.invoker.primary
        given = [residual.restriction for residual in self.invoker.residuals]
        size = 0.0 if primary is None else checked_size(self._fn, self.item.element, primary)
        sizes = [checked_size(self._fn, self.item.element, part) for part in given]
        done = whole / 2 if size is None else _clamped(size)
        kept, scale = done, 1.0
        if size is None or None in sizes or done + sum(map(_units, sizes)) > ADDS_UP * whole > 0:
            kept = self._share() if primary is not None else 0.0
            scale = (whole - kept) / (sum(map(_units, sizes)) or 1.0)
        seconds = max(self.seconds(), kept * (self._cost() or 0.0))
        return done, Part(self.item.id, primary, tuple(self.invoker.residuals), kept, seconds, scale)

    def _share(self) -> float:
        """Return the units of its size that it did, where sizes do not tell: as its tracker has it, or half of them."""
        whole, (done, _) = units(self.item), self.units()
        return done if 0 < done < whole else whole / 2


def _units(size: float | None) -> float:
    return 1.0 if size is None else _clamped(size)


def _clamped(number: float) -> float:
    """Return a tracker's estimate as a float that can be added up; estimates decide nothing but when a run ends."""
    return max(0.0, float(min(number, _MOST)))
