"""StagedRunner's planning under simulated time: how close does it come to the ideal where a range has a dear part?"""

import heapq
import itertools
from bisect import bisect_left, bisect_right

import attrs
import pytest

from sdf.dofn import DoFn
from sdf.expansion import Expanded
from sdf.invoker import Residual
from sdf.items import Outcome, Part, Ran
from sdf.planner import Backlog, Limits, Tuning, plan_stage, tasks_allowed
from sdf.restrictions import OffsetRange
from sdf.work import Work, enter

JOB_SECONDS = 0.1  # from the end of a task until a task of the next stage runs
TUNING, LIMITS = Tuning(0.5, 0.2, None), Limits(1, None, None)


@attrs.frozen
class Blocks:
    """One range of blocks, of which a share is dearer than the others."""

    slots: int
    seconds: float  # of work per slot
    share: float
    times: float
    at: float  # of the range, where the dear ones begin

    def ends(self):
        """Return how much work there is up to each block; a dear one takes 50 ms."""
        each = 0.05 / self.times
        blocks = round(self.slots * self.seconds / (each * (1 - self.share + self.share * self.times)))
        first = int(blocks * self.at)
        dear = range(first, first + round(blocks * self.share))
        return [0.0, *itertools.accumulate(0.05 if block in dear else each for block in range(blocks))]


class RangeFn(DoFn):
    """Element: how many blocks."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker):
        raise NotImplementedError("nothing runs here")


def attempt(ends, plan):
    """Return how long a task runs, and what it did: when its budget is spent it stops at the end of a block."""
    now, units, ran, parts = 0.0, 0, [], []
    for item in plan.items:
        if now >= plan.budget_seconds:
            break
        start, stop = item.restriction
        at = stop
        if now + ends[stop] - ends[start] > plan.budget_seconds + TUNING.min_piece_seconds:
            at = min(stop, bisect_right(ends, ends[start] + plan.budget_seconds - now))
        seconds = ends[at] - ends[start]
        now, units = now + seconds, units + at - start
        ran.append(Ran(item.id, 0.0, seconds, at - start, 0))
        if at < stop:
            late = min(max(start, bisect_left(ends, ends[at] - 0.25)), at - 1)  # a quarter of a second before
            at_its_end = (ends[at] - ends[late]) / (at - late) * (at - start)
            rest = (Residual(OffsetRange(at, stop)),)
            parts.append(Part(item.id, OffsetRange(start, at), rest, at - start, max(seconds, at_its_end)))
    return now, Outcome(len(ran), tuple(parts), units, now, tuple(ran))


def makespan(blocks):
    """Return how long a run takes, over the ideal."""
    ends = blocks.ends()
    whole = OffsetRange(0, len(ends) - 1)
    work = Work(RangeFn())
    backlog = Backlog(work.costs)
    enter(work, backlog, [Expanded(whole.stop, whole, ((whole, whole.stop),))])
    now, running, numbers = 0.0, [], itertools.count()
    while len(backlog) or running:
        left = sum(max(0.0, expected - now) for _, _, expected, _ in running)
        known = work.costs.mean() is not None
        width = tasks_allowed(blocks.slots, backlog.seconds() + left, TUNING, LIMITS, costs_known=known)
        planned = plan_stage(
            backlog, work.costs, tasks=width - len(running), width=width, running_seconds=left, elapsed_seconds=now,
            tuning=TUNING, limits=LIMITS, cut=work.cut,
        )  # fmt: skip
        for plan in planned:
            task = next(numbers)
            work.ledger.assign(task, plan.items)
            seconds, outcome = attempt(ends, plan)
            heapq.heappush(running, (now + JOB_SECONDS + seconds, task, now + plan.expected_seconds, outcome))
        now = running[0][0]
        while running and running[0][0] <= now + 0.005:
            _, task, _, outcome = heapq.heappop(running)
            for item, _ in work.commit(task, 0, outcome):
                backlog.push(item)
    work.ledger.prove()
    return now * blocks.slots / ends[-1]


@pytest.mark.parametrize("at", [0.05, 0.2, 0.33, 0.5, 0.62, 0.8, 0.94])
@pytest.mark.parametrize(("share", "times"), [(0.05, 50), (0.005, 1000)])
@pytest.mark.parametrize(("slots", "seconds", "most"), [(2, 20, 1.2), (8, 20, 1.2), (2, 60, 1.15), (8, 60, 1.15)])
def test_a_dear_part_is_shared_out(slots, seconds, most, share, times, at):
    """Wherever it lies. Up to 1.65 if what waits kept the cost that it had, or tasks stayed long after a surprise."""
    assert 1 <= makespan(Blocks(slots, seconds, share, times, at)) <= most
