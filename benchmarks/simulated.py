"""A world under simulated time: elements whose costs differ, and slots of changing speed that come late and are lost.

All code of sdf that decides runs as in a job: lanes and bundles in the slots (`simulated_live.py`,
`simulated_staged.py`), planner, ledger and coordinator on the driver. The driver is timed: its answers come that much
later. Simulated are only the clock, the work of `process` (`SlotFn`), and the times of Spark and the network
(`Overheads`).
"""

import heapq
import itertools
import random
import time
from bisect import bisect_right
from unittest.mock import patch

import attrs

from sdf import DoFn, OffsetRange, OffsetRangeTracker
from sdf.execution.expansion import Expanded
from sdf.execution.invoker import Invoker
from sdf.execution.output_count import OutputCount
from sdf.scheduling.run_state import enter

UNITS = 10_000  # of each element
_ROUNDING = 1e-6  # of a unit


@attrs.frozen
class Overheads:
    """What is not sdf's; `startup.py` measures it.

    Attributes:
        message_seconds: one way between lane and driver.
        job_seconds: from when Spark has taken a stage until its tasks are in the queue.
        stage_seconds: for which the driver's thread waits until Spark has taken a stage.
        launch_seconds: between two tasks that Spark's driver starts.
        restart_seconds: until a lost slot runs tasks again.
        wake_seconds: of CPU that a message costs the driver's thread if it sleeps: it is woken, and its code and data
            are in no cache. Messages that come while it is awake cost what its decisions cost. `hundred_lanes.py`
            compares the sum with real lanes.
    """

    message_seconds: float
    job_seconds: float
    stage_seconds: float
    launch_seconds: float
    restart_seconds: float
    wake_seconds: float = 0.0


class Launcher:
    """Spark's driver, which starts one task after the other."""

    def __init__(self, overheads):
        self.seconds = overheads.launch_seconds
        self.free = 0.0

    def __call__(self, now):
        """Return when a task begins that can be started now."""
        self.free = max(now, self.free) + self.seconds
        return self.free


class Timeline:
    """What happens, in the order of its time.

    Attributes:
        now: the time of what happens now.
    """

    def __init__(self):
        self.now = 0.0
        self._events, self._numbers = [], itertools.count()

    def clock(self):
        return self.now

    def at(self, when, action, *args):
        """Let something happen then, or now if that is past."""
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), action, args))

    def run(self, goes_on):
        """Let things happen as long as a function says so.

        A simulated `process` gives way to the others by an output, also before its first claim, so outputs are not
        compared with claims.
        """
        with patch.object(Invoker, "_at_edge", lambda _: None), patch.object(OutputCount, "check", lambda *_: None):
            while goes_on():
                self.now, _, action, args = heapq.heappop(self._events)
                action(*args)


class Driver:
    """The thread of the driver that decides: one thing after the other, each for as long as it really takes.

    Args:
        timeline: of the world.
        clock: seconds of CPU of this process; `none` if the driver is to take no time, so that runs can be repeated.
        wake_seconds: see `Overheads`.

    Attributes:
        seconds: of CPU so far.
        free: when it is done with all so far.
    """

    def __init__(self, timeline, clock=time.process_time, wake_seconds=0.0):
        self._timeline, self._clock, self._wake_seconds = timeline, clock, wake_seconds
        self.seconds = self.free = 0.0

    def __call__(self, function, *args):
        """Call a function with the time at which its turn comes, and the rest."""
        began = self._clock()
        woken = self._wake_seconds if self.free < self._timeline.now else 0.0
        self.free = max(self.free, self._timeline.now)
        result = function(self.free, *args)
        taken = self._clock() - began + woken
        self.seconds += taken
        self.free += taken
        return result

    def waits(self, seconds):
        """Let it wait for Spark."""
        self.free += seconds


def none():
    """Return the time of a clock that stands still."""
    return 0.0


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

    def changes(self, at):
        """Return when its speed changes next."""
        return (int(at / self.period) + 1) * self.period


class SlotFn(DoFn):
    """Element: a number. Claims units as its slot does them: as many as it has done each time it is asked to go on.

    Args:
        world: which knows what the units cost.
        slot: which does them; None on the driver, where nothing runs.
        timeline: which knows the time.

    Attributes:
        opens: when the work item that runs makes its first claim.
        ends: when it will have ended, if nothing is cut off from it.
    """

    def __init__(self, world, slot=None, timeline=None):
        self.world, self.slot, self.timeline = world, slot, timeline
        self.opens = self.ends = 0.0

    def get_initial_restriction(self, element):
        return OffsetRange(*self.world.elements[element])

    def create_tracker(self, _, restriction):
        return self.world.tracker(restriction)

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        began = self.opens = self.slot.after(self.timeline.now, self.world.opening_seconds)
        while self.timeline.now < began:
            self.ends = self.slot.after(began, self.world.work(element, start, stop))
            yield
        at = start
        while tracker.try_claim(at):
            claimed = at
            while at == claimed:
                stop = tracker.current_restriction().stop
                self.ends = self.slot.after(began, self.world.work(element, start, stop))
                yield
                done = self.slot.by(self.timeline.now) - self.slot.by(began)
                at = max(claimed, self.world.reached(element, start, done))


class WholeUntilClaimed(OffsetRangeTracker):
    """Cannot be cut before it has claimed something, as of an element whose size only `process` finds out."""

    def try_split(self, fraction_of_remainder):
        return super().try_split(fraction_of_remainder) if self.progress().completed else None


class World:
    """Elements whose costs are of a Pareto distribution, and the speeds of the slots; the same for all policies.

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

    opening_seconds = 0.0
    tracker = OffsetRangeTracker
    sized = True

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
        self.elements = [(0, UNITS)] * elements
        self._unit_work = [one * scale / UNITS for one in raw]
        self.ideal = seconds
        self.lost_at = [[at for at in self._losses(choose, losses, seconds) if at > slot.begins] for slot in self.slots]

    @staticmethod
    def _losses(choose, losses, seconds):
        at = 0.0
        while losses and (at := at + choose.expovariate(losses / seconds)) < 3 * seconds:
            yield at

    def work(self, element, start, stop):
        """Return the work of some units of an element."""
        return self._unit_work[element] * (stop - start)

    def reached(self, element, start, done):
        """Return the unit at which a slot is that has done so much from a unit on."""
        return start + int(done / self._unit_work[element] + _ROUNDING)

    def run(self, slot, began, work):
        """Return when a slot has done some work that it begins anew whenever it is lost."""
        for lost in self.lost_at[slot]:
            if lost <= began:
                continue
            if self.slots[slot].after(began, work) <= lost:
                break
            began = lost + self.overheads.restart_seconds
        return self.slots[slot].after(began, work)


class Ranges:
    """Elements that are ranges of blocks, each of which has a cost of its own; slots that are alike.

    Args:
        slots: how many.
        costs: seconds of each block.
        elements: the range of blocks of each.
        overheads: what Spark and the network take.
        opening_seconds: how long each work item takes before its first claim.
        tracker: of an element.
        sized: whether the sizes of the elements are known.
        lost: by slot, when it is lost.
    """

    def __init__(
        self,
        slots,
        costs,
        elements,
        overheads,
        *,
        opening_seconds=0.0,
        tracker=OffsetRangeTracker,
        sized=True,
        lost=None,
    ):
        self._until = [0.0, *itertools.accumulate(costs)]  # how much work there is up to each block
        self.slots = [Slot([1.0], 1e9, 0.0) for _ in range(slots)]
        self.lost_at = [[lost[slot]] if slot in (lost or ()) else [] for slot in range(slots)]
        self.elements = elements
        self.overheads = overheads
        self.opening_seconds, self.tracker, self.sized = opening_seconds, tracker, sized
        self.ideal = (self._until[-1] + opening_seconds * len(elements)) / slots

    def work(self, _element, start, stop):
        """Return the work of some blocks."""
        return self._until[stop] - self._until[start]

    def reached(self, _element, start, done):
        """Return the block in which a slot is that has done so much from a block on."""
        return bisect_right(self._until, self._until[start] + done + 1e-9) - 1


def entered(_now, world, work, backlog):
    """Enter the elements of a world, as a runner does once they are expanded."""
    ranges = [OffsetRange(*each) for each in world.elements]
    sizes = [whole.stop - whole.start if world.sized else None for whole in ranges]
    pieces = zip(ranges, sizes, strict=True)
    enter(work, backlog, [Expanded(n, whole, ((whole, size),)) for n, (whole, size) in enumerate(pieces)])


def plain(world, tasks):
    """Return the makespan of Spark's own scheduling: even tasks in order, each to the next free slot."""
    free = [(slot.begins, number) for number, slot in enumerate(world.slots)]
    heapq.heapify(free)
    starts = Launcher(world.overheads)
    total = len(world.elements) * UNITS
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
        work += world.work(element, first - element * UNITS, until - element * UNITS)
        first = until
    return work
