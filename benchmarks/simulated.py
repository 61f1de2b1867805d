"""A world under simulated time: elements whose costs differ, and slots of changing speed that come late and are lost.

What runs is simulated event by event: tasks and lanes take time, messages take a delay (`simulated_staged.py`,
`simulated_live.py`). What the driver decides is done by the code that does it in a run, and timed: as long as it takes
nobody gets an answer. What Spark and the network take is told by `Overheads`.
"""

import heapq
import itertools
import random
import time
from bisect import bisect_right

import attrs

from sdf import DoFn, OffsetRange
from sdf.execution.expansion import Expanded
from sdf.scheduling.run_state import enter

UNITS = 10_000  # of each element


@attrs.frozen
class Overheads:
    """What is not sdf's; `startup.py` measures it.

    Attributes:
        message_seconds: one way between lane and driver.
        job_seconds: from when Spark has taken a stage until its tasks are in the queue.
        stage_seconds: for which the driver's thread waits until Spark has taken a stage.
        launch_seconds: between two tasks that Spark's driver starts.
        restart_seconds: until a lost slot runs tasks again.
    """

    message_seconds: float
    job_seconds: float
    stage_seconds: float
    launch_seconds: float
    restart_seconds: float


class Launcher:
    """Spark's driver, which starts one task after the other."""

    def __init__(self, overheads):
        self.seconds = overheads.launch_seconds
        self.free = 0.0

    def __call__(self, now):
        """Return when a task begins that can be started now."""
        self.free = max(now, self.free) + self.seconds
        return self.free


class UnitsFn(DoFn):
    """Element: a number. What it costs is in the `World`, which only the simulated slots know."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNITS)

    def process(self, element, tracker):
        raise NotImplementedError("nothing runs here")


class Slot:
    """How much work a slot has done by when: its speed is another one every ``period`` seconds."""

    def __init__(self, speeds, period, begins):
        self.begins = begins
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
        late: which share of the slots comes later, within half of the ideal makespan.
        overheads: what Spark and the network take.
    """

    def __init__(self, slots, elements, seconds, alpha, spread, period, losses, late, overheads):
        choose = random.Random(slots)
        raw = [choose.paretovariate(alpha) for _ in range(elements)]
        periods = int(3 * seconds / period) + 1
        self.slots = [
            Slot(
                [choose.uniform(1 - spread, 1 + spread) for _ in range(periods)],
                period,
                choose.uniform(0, seconds / 2) if number < late * slots else 0.0,
            )
            for number in range(slots)
        ]
        self.slots.sort(key=lambda slot: slot.begins)
        self.overheads = overheads
        scale = sum(slot.by(seconds) - slot.by(slot.begins) for slot in self.slots) / sum(raw)
        self.unit_work = [one * scale / UNITS for one in raw]
        self.ideal = seconds
        self.lost_at = [[at for at in self._losses(choose, losses, seconds) if at > slot.begins] for slot in self.slots]

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
            began = lost + self.overheads.restart_seconds
        return self.slots[slot].after(began, work)


class Driver:
    """The thread of the driver that decides: one thing after the other, each for as long as it really takes.

    Attributes:
        seconds: of CPU so far.
        free: when it is done with all so far.
    """

    def __init__(self):
        self.seconds = self.free = 0.0

    def __call__(self, now, function, *args):
        """Call a function with the time at which its turn comes, and the rest."""
        began = time.process_time()
        self.free = max(self.free, now)
        result = function(self.free, *args)
        taken = time.process_time() - began
        self.seconds += taken
        self.free += taken
        return result

    def waits(self, seconds):
        """Let it wait for Spark."""
        self.free += seconds


def entered(_now, world, work, backlog):
    """Enter the elements of a world, as a runner does once they are expanded."""
    whole = OffsetRange(0, UNITS)
    enter(work, backlog, [Expanded(number, whole, ((whole, UNITS),)) for number in range(len(world.unit_work))])


def plain(world, tasks):
    """Return the makespan of Spark's own scheduling: even tasks in order, each to the next free slot."""
    free = [(slot.begins, number) for number, slot in enumerate(world.slots)]
    heapq.heapify(free)
    starts = Launcher(world.overheads)
    total = len(world.unit_work) * UNITS
    ends = 0.0
    for task in range(tasks):
        at, slot = heapq.heappop(free)
        end = world.run(slot, starts(at), work_of(world, total * task // tasks, total * (task + 1) // tasks))
        heapq.heappush(free, (end, slot))
        ends = max(ends, end)
    return ends


def work_of(world, first, last):
    """Return the work of some units, counted through all elements."""
    work = 0.0
    while first < last:
        element = first // UNITS
        until = min(last, (element + 1) * UNITS)
        work += (until - first) * world.unit_work[element]
        first = until
    return work
