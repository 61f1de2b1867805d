"""Running: a work item while it runs, with a clock: how far it is, what a unit costs, how much is left.

Both runners use it: the staged one in a task (`sdf.execution.bundle`), the live one in a lane.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sdf.errors import show
from sdf.execution.work import work_of
from sdf.execution.work_items import ADDS_UP, Part, Ran, SlowBlock, WorkItem, slowest, units
from sdf.model.dofn import DoFn

__all__ = ["Running"]

_RECENT_SECONDS = 0.25  # benchmarks/ablate.py: "narrow 0.5 %, 1 s", "slow to start, 64 slots, 2 s"
_MOST_NOTED = 100
_MOST_DEAR = 10
_SLOW_SECONDS = 0.1  # faster blocks are not listed
_POSITION_CHARACTERS = 60
_MOST = 1e200  # offsets have no bound, and sums of floats must not overflow


class Running:
    """One attempt at one work item. Call `outputs` once; call the other methods from any thread.

    Args:
        fn: the DoFn, set up.
        item: the work item.
        side_inputs: keyword arguments for `process`.
        clock: monotonic seconds.
        expected_seconds: estimated seconds of the work item, from those that ran before it; 0 if there is no estimate.
            It is used until some units are done, or until the work item has run longer than that.
        on_claim: see `Invoker`.
    """

    def __init__(
        self,
        fn: DoFn,
        item: WorkItem,
        *,
        side_inputs: Mapping[str, Any] | None,
        clock: Callable[[], float],
        expected_seconds: float = 0.0,
        on_claim: Callable[[int, Any], None] | None = None,
    ) -> None:
        self._fn = fn
        self.item = item
        self._expected_seconds = expected_seconds
        self.invoker = item.work.invoker(
            fn,
            side_inputs=side_inputs,
            watermark=item.watermark,
            late_below=item.late_below,
            on_claim=on_claim,
        )
        self._clock = clock
        self._began = clock()
        self._ended: float | None = None
        self._first: tuple[float, float] | None = None  # of the first note after a claim: time, units
        self._marks: deque[tuple[float, float]] = deque([(self._began, 0.0)])  # recent (time, units done)
        self._unclaimed_seconds = 0.0  # from its start to the last note that saw no claim
        self._block: tuple[Any, float, float] = None, 0.0, 0.0  # last claimed position; first, last time seen
        self._slow: list[SlowBlock] = []
        done, left = self._progress()
        self._scale = units(item) / (done + left) if left is not None and done + left > 0 else None

    @contextmanager
    def outputs(self) -> Iterator[Iterable[Any]]:
        """Return a context manager that gives the outputs; see `Invoker.outputs`. The work item ends at its exit.

        If `process` raises what is no Exception, such as a panic of a library in Rust, a `ProcessError` names it. Only
        a KeyboardInterrupt and a GeneratorExit stay as they are: the user, or the reader, ends the run.
        """
        try:
            with self.invoker.outputs() as outputs:
                yield outputs
        except (Exception, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            named = self.invoker.named(error)
            if named is None:
                raise
            raise named from error
        self._ended = self._clock()

    def seconds(self) -> float:
        """Return how many seconds the work item has run."""
        return self._now() - self._began

    def _now(self) -> float:
        return self._clock() if self._ended is None else self._ended

    def units(self) -> tuple[float, float]:
        """Return the units done and left, in the unit of the work item's size; half each if the tracker has none."""
        done, left = self._progress()
        if left is None or self._scale is None:
            return units(self.item) / 2, units(self.item) / 2
        return _clamped(done * self._scale), _clamped(left * self._scale)

    def _progress(self) -> tuple[float, float | None]:
        """Return the tracker's completed and remaining work, as floats whose sum cannot overflow."""
        progress = self.invoker.progress()
        left = progress.remaining
        return _clamped(progress.completed), None if left is None else _clamped(left)

    def seconds_left(self) -> float:
        """Return units left * mean seconds per unit; before any unit, the rest of the estimate; infinite without it."""
        done, left = self.units()
        mean = self._mean(self._clock(), done)
        if mean is not None:
            return left * mean
        expected = self._expected_seconds - self.seconds()
        return expected if expected > 0 else math.inf

    def _mean(self, now: float, done: float) -> float | None:
        """Return the mean seconds per unit since the first claim was seen, None if no unit was done since.

        The time before that is left out, as opening belongs to no unit, and so are the units done in it.
        """
        since, before = self._first or (self._began, 0.0)
        return (now - since) / (done - before) if done > before else None

    def note(self) -> None:
        """Note how far the work item is. A caller that needs more than the mean calls this about ten times a second."""
        if self._ended is not None:
            return
        now, (done, _) = self._clock(), self.units()
        self.invoker.note(now)
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
        """Note whether the block of the last note still runs; blocks that start and end between two notes are missed.

        The position identifies a block, as no two claims share one. Units do not: they also change within a block, and
        at a split.
        """
        last, since, _ = self._block
        position = self.invoker.last_claimed
        same = position is last
        if position is None:  # the tracker has no positions
            position = self._progress()[0]
            same = position == last
        if not same:
            self._note_slow()
            since = now
        self._block = position, since, now

    def _note_slow(self) -> None:
        position, since, until = self._block
        if until - since >= _SLOW_SECONDS:
            row, position = self.invoker.placed(position)
            if position is None:  # it was opening
                return
            self._slow.append(SlowBlock(self.item.id, show(position, _POSITION_CHARACTERS), until - since, row))
            if len(self._slow) > _MOST_NOTED:
                self._slow = list(slowest(*self._slow))

    def ran(self, item_id: int, task_began: float, units: float) -> Ran:
        """Return how the work item ran; call it after the end.

        Args:
            item_id: the id by which the driver knows the work item.
            task_began: when its task began, by the same clock.
            units: the size of the work done.
        """
        return Ran(
            item_id,
            self._began - task_began,
            self.seconds(),
            units,
            self.invoker.records,
            self._unclaimed_seconds,
            self.invoker.begun,
        )

    def dear_rows(self, task_began: float) -> tuple[Ran, ...]:
        """Return how the rows of a table ran that took long, the ten longest; call it after the end."""
        if self.item.elements == 1:
            return ()
        found = [each for each in self.invoker.dear_rows() if each.seconds >= _SLOW_SECONDS]
        return tuple(
            Ran(self.item.id, each.since - task_began, each.seconds, each.units, 0, each.opening_seconds, row=each.row)
            for each in heapq.nlargest(_MOST_DEAR, found, key=operator.attrgetter("seconds"))
        )

    def slow_blocks(self) -> tuple[SlowBlock, ...]:
        """Return the slowest blocks seen; call it after the end, which also ends the last block."""
        if self._first is not None:
            self._note_block(self._now())
        self._note_slow()
        return slowest(*self._slow) if self._slow else ()

    def seconds_left_at_most(self) -> float:
        """Return the seconds left by the mean or the latest seconds per unit, whichever is higher.

        Without either, or if the tracker knows no remaining work, it is max(elapsed, estimate - elapsed). The latest
        cost shows work that gets expensive near its end long before the mean does.
        """
        cost, (_, left) = self._cost(), self.units()
        if cost is None or self._scale is None:
            return max(self.seconds(), self._expected_seconds - self.seconds())
        return max(0.0, left * cost - self._in_block())

    def _cost(self) -> float | None:
        """Return the mean or the latest seconds per unit, whichever is higher; None before any unit was done."""
        (since, before), (at, done) = self._marks[0], self._marks[-1]
        mean = self._mean(at, done)
        return None if mean is None else max(mean, (at - since) / (done - before) if done > before else 0.0)

    def _in_block(self) -> float:
        """Return the seconds since units done were last seen to grow: about the time spent in the current block."""
        return self._clock() - self._marks[-1][0]

    def halve(self) -> bool:
        """Split so that both sides are estimated to take equally long from now; return whether it was split.

        ``rest`` is the work left with the block that runs, of which about ``ahead`` is done. Both sides take equally
        long if kept - ahead = rest - kept. So kept = (rest + ahead) / 2; ``nearest`` rounds it if work is whole blocks.
        """
        (_, rest), cost = self._progress(), self._cost()
        fraction = 0.5
        if rest and cost and self._scale:
            ahead = min(self._in_block() / (cost * self._scale), rest)
            nearest = 0.5 if isinstance(self.invoker.progress().remaining, int) else 0.0
            fraction = min(1.0, ((rest + ahead) / 2 + nearest) / rest)
        return self.split(fraction)

    def split(self, fraction: float) -> bool:
        """Keep ``fraction`` of the unclaimed work and cut off the rest; return whether it was split."""
        done, _ = self._progress()
        if self.invoker.split(fraction) is None:
            return False
        after, _ = self._progress()
        if self._scale is not None and done > 0 and after > 0:
            self._scale *= done / after  # a tracker may count in fractions of its present restriction
        return True

    def opening_seconds(self) -> float | None:
        """Return the seconds from the start to the first claim, None until `note` has seen a claim."""
        return None if self._first is None else self._first[0] - self._began

    def done(self) -> tuple[float, Part | None]:
        """Return the units done, and the part if the work item did not run whole; call it after the end."""
        whole = units(self.item)
        if not self.invoker.residuals:
            return whole, None
        primary = self.invoker.primary
        given = [residual.restriction for residual in self.invoker.residuals]
        size = 0.0 if primary is None else work_of(self.item.element, primary).size(self._fn)
        sizes = [work_of(self.item.element, part).size(self._fn) for part in given]
        done = whole / 2 if size is None else _clamped(size)
        kept, scale = done, 1.0
        if size is None or None in sizes or done + sum(map(_units, sizes)) > ADDS_UP * whole > 0:
            kept = self._share() if primary is not None else 0.0
            scale = (whole - kept) / (sum(map(_units, sizes)) or 1.0)
        seconds = max(self.seconds(), kept * (self._cost() or 0.0))
        return done, Part(self.item.id, primary, tuple(self.invoker.residuals), kept, seconds, scale)

    def _share(self) -> float:
        """Return the units done where sizes do not add up: those of the tracker if plausible, else half of the size."""
        whole, (done, _) = units(self.item), self.units()
        return done if 0 < done < whole else whole / 2


def _units(size: float | None) -> float:
    return 1.0 if size is None else _clamped(size)


def _clamped(number: float) -> float:
    """Return an estimate as a float whose sums cannot overflow; estimates affect only how long a run takes."""
    return max(0.0, float(min(number, _MOST)))
