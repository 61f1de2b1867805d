"""A world under simulated time: elements whose costs differ, and slots of changing speed that are lost now and then.

What runs is simulated event by event: tasks and lanes take time, messages take a delay (`simulated_staged.py`,
`simulated_live.py`). What the driver decides is done by the code that does it in a run, and timed.
"""

import heapq
import itertools
import random
import time
from bisect import bisect_right

from sdf import DoFn, OffsetRange
from sdf.expansion import Expanded
from sdf.work import enter

RESTART_SECONDS = 5.0  # until Spark runs a task again whose slot was lost
UNITS = 10_000  # of each element


class UnitsFn(DoFn):
    """Element: a number. What it costs is in the `World`, which only the simulated slots know."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNITS)

    def process(self, element, tracker):
        raise NotImplementedError("nothing runs here")


class Slot:
    """How much work a slot has done by when: its speed is another one every ``period`` seconds."""

    def __init__(self, speeds, period):
        self.speeds = speeds
        self.period = period
        self.done = [0.0, *itertools.accumulate(speed * period for speed in speeds)]

    def by(self, at):
        """Return the work that it could have done by a moment."""
        period = min(int(at / self.period), len(self.speeds) - 1)
        return self.done[period] + (at - period * self.period) * self.speeds[period]

    def after(self, at, work):
        """Return when it has done so much work from a moment on."""
        wanted = self.by(at) + work
        period = min(bisect_right(self.done, wanted) - 1, len(self.speeds) - 1)
        return period * self.period + (wanted - self.done[period]) / self.speeds[period]

    def speed(self, at):
        return self.speeds[min(int(at / self.period), len(self.speeds) - 1)]

    def changes(self, at):
        """Return when its speed changes next."""
        return (int(at / self.period) + 1) * self.period


class World:
    """The costs of the elements and the speeds of the slots; the same for all policies.

    Args:
        slots: how many.
        elements: how many.
        seconds: what the ideal makespan is.
        alpha: of the Pareto distribution of the elements' costs.
        spread: speeds are from 1 - spread to 1 + spread.
        period: seconds after which a slot has another speed.
        losses: how often each slot is lost in the ideal makespan, on average.
    """

    def __init__(self, slots, elements, seconds, alpha, spread, period, losses):
        choose = random.Random(slots)
        raw = [choose.paretovariate(alpha) for _ in range(elements)]
        periods = int(3 * seconds / period) + 1
        self.slots = [
            Slot([choose.uniform(1 - spread, 1 + spread) for _ in range(periods)], period) for _ in range(slots)
        ]
        scale = sum(slot.by(seconds) for slot in self.slots) / sum(raw)
        self.unit_work = [one * scale / UNITS for one in raw]
        self.ideal = seconds
        self.lost_at = [sorted(self._losses(choose, losses, seconds)) for _ in range(slots)]

    @staticmethod
    def _losses(choose, losses, seconds):
        at = 0.0
        while losses and (at := at + choose.expovariate(losses / seconds)) < 3 * seconds:
            yield at

    def run(self, slot, began, work):
        """Return when a slot has done some work that it begins anew whenever it is lost."""
        for lost in self.lost_at[slot]:
            if lost <= began:
                continue
            if self.slots[slot].after(began, work) <= lost:
                break
            began = lost + RESTART_SECONDS
        return self.slots[slot].after(began, work)


class Driver:
    """Adds up the CPU time of what the driver does."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self, function, *args):
        began = time.process_time()
        result = function(*args)
        self.seconds += time.process_time() - began
        return result


def entered(world, work, backlog):
    """Enter the elements of a world, as a runner does once they are expanded."""
    whole = OffsetRange(0, UNITS)
    enter(work, backlog, [Expanded(number, whole, ((whole, UNITS),)) for number in range(len(world.unit_work))])


def plain(world, pieces=1):
    """Return the makespan of Spark's own scheduling: tasks in order, each to the next free slot."""
    free = [(0.0, slot) for slot in range(len(world.slots))]
    for unit_work in world.unit_work:
        for _ in range(pieces):
            at, slot = heapq.heappop(free)
            heapq.heappush(free, (world.run(slot, at, unit_work * UNITS / pieces), slot))
    return max(at for at, _ in free)
