"""Spark's executors: hosts with slots, the queue of tasks, their attempts, retries and copies."""

from collections import deque

import attrs

from simulation.faults import STEP, TWIN_STEP, Fault

RESTART_SECONDS = 1.0, 10.0  # of an executor
DOZE_SECONDS = 0.05  # faults hit one that sleeps for so long, on average
SHORT_SECONDS = 3.0  # for which memory is short
MOST_RETRIES = 3  # with one more failure Spark would give up


@attrs.define(eq=False)
class Task:
    """A task of a job. Copies of it run at the same time; the retries are of all of them.

    Attributes:
        name: for the history.
        begin: makes an attempt's process, in a worker: has ``steps()``, which yields the seconds that each step takes,
            or None to sleep until `Executors.wake`, and returns a result, or None if the attempt has failed. Has
            ``gone()``, called when its process is gone, and ``suffer(fault)``.
        done: called with the result of each attempt that ends well, with the attempt, and with whether it is the first.
        opportunity: of the faults that hit such a task, besides those that hit all.
    """

    name: str
    begin: object
    done: object
    opportunity: str = None
    retries: int = 0
    live: int = 0  # attempts
    ended: bool = False


@attrs.define(eq=False)
class Attempt:
    """An attempt at a task, in a slot of a host."""

    number: int
    task: Task
    host: int
    process: object = None
    steps: object = None
    over: bool = False
    asleep: bool = False


class Executors:
    """See the module's docstring.

    Args:
        world: the world.
    """

    def __init__(self, world):
        self.world = world
        self._free = [world.plan.slots] * world.plan.hosts  # None of a host that is lost
        self._queue = deque()
        self.live = {}  # the attempts by number, in the order of their starts
        self._short_until = 0.0  # of memory

    def slots(self):
        """Return how many tasks can run at once now."""
        return max(1, self.world.plan.slots * sum(free is not None for free in self._free))

    def submit(self, tasks):
        """Queue tasks."""
        self._queue.extend(tasks)
        self._launch()

    def clear(self):
        """A driver has died, and its application with it."""
        self._queue.clear()
        for attempt in list(self.live.values()):
            self.end(attempt)
        self._free = [self.world.plan.slots] * self.world.plan.hosts

    def cancel(self, tasks, survives=lambda: False):
        """Spark needs some tasks no more; it kills their attempts but those that survive."""
        tasks = set(tasks)
        self._queue = deque(task for task in self._queue if task not in tasks)
        for attempt in [each for each in self.live.values() if each.task in tasks]:
            if not survives():
                self.end(attempt)
        self._launch()

    def _launch(self):
        world = self.world
        for host, free in enumerate(self._free):
            while free and self._queue:
                free -= 1
                self._free[host] = free
                attempt = Attempt(next(world.numbers), self._queue.popleft(), host)
                self.live[attempt.number] = attempt
                attempt.task.live += 1
                world.note("starts", attempt.number, attempt.task.name, host)
                world.counts["attempts"] += 1
                attempt.process = attempt.task.begin(attempt)
                attempt.steps = attempt.process.steps()
                world.clock.at(world.random.random() * 0.01, self._go_on, attempt)

    def wake(self, attempt):
        """Let an attempt that sleeps go on."""
        if attempt.asleep:
            attempt.asleep = False
            self.world.clock.at(0.0001, self._go_on, attempt)

    def _go_on(self, attempt):
        self._risk(attempt)
        if attempt.over:
            return
        try:
            seconds = next(attempt.steps)
        except StopIteration as ended:
            self._ended(attempt, ended.value)
            return
        if seconds is None:
            attempt.asleep = True
            self.world.clock.at(self.world.random.expovariate(1 / DOZE_SECONDS), self._dozes, attempt)
        else:
            self.world.clock.at(seconds, self._go_on, attempt)

    def _dozes(self, attempt):
        """An attempt that waits for a message may be hit, too."""
        if attempt.asleep:
            self._risk(attempt)

    def _risk(self, attempt):
        """Let faults hit an attempt that runs."""
        task = attempt.task
        for opportunity in (STEP, task.opportunity, TWIN_STEP if task.live > 1 else None):
            if not attempt.over:
                for fault in self.world.faults.of(opportunity):
                    self._suffer(attempt, fault)

    def _ended(self, attempt, result):
        task = attempt.task
        self.world.note("ends", attempt.number, result is not None)
        self.end(attempt)
        if result is None:
            self._again(task)
        else:
            first, task.ended = not task.ended, True
            task.done(result, attempt, first)
            if first:
                self.world.clock.at(self.world.random.choice([0.0, 0.1, 1.0]), self._kill_others, task)
        self._launch()

    def _kill_others(self, task):
        """Spark kills the other attempts at a task that has ended."""
        self.cancel([task])

    def end(self, attempt):
        """The process of an attempt is gone."""
        if not attempt.over:
            attempt.over = True
            del self.live[attempt.number]
            attempt.task.live -= 1
            if self._free[attempt.host] is not None:
                self._free[attempt.host] += 1
            attempt.process.gone()

    def _again(self, task):
        if not task.ended:
            task.retries += 1
            self.world.counts["retries"] += 1
            self._queue.appendleft(task)

    # Faults.

    def _suffer(self, attempt, fault):
        if attempt.over:
            self.world.faults.postpone(fault)
        elif fault in (Fault.CRASH, Fault.TWIN_CRASH):
            if attempt.task.retries >= MOST_RETRIES:
                self.world.faults.postpone(fault)
                return
            self.end(attempt)
            self._again(attempt.task)
            self._launch()
        elif fault is Fault.COPY:
            self._queue.append(attempt.task)
            self._launch()
        elif fault is Fault.EXECUTOR_LOST:
            self._lose(attempt.host, fault)
        elif fault is Fault.INNOCENT_KILLED:
            if not self.several_are_known() or not attempt.process.is_killed():
                self.world.faults.postpone(fault)
                return
            self._short_until = self.world.clock.now + SHORT_SECONDS
        else:
            attempt.process.suffer(fault)

    def is_short_of_memory(self):
        """Return whether processes may be killed since others beside them have taken the memory."""
        return self.world.clock.now < self._short_until and self.several_are_known()

    def several_are_known(self):
        """Return whether several processes run that the driver knows of: it cannot know who takes memory else."""
        return sum(not attempt.process.is_cut() for attempt in self.live.values()) > 1

    def _lose(self, host, fault):
        """A host is lost with all attempts on it, and comes again; Spark runs the tasks again."""
        lost = [attempt for attempt in self.live.values() if attempt.host == host]
        if any(attempt.task.retries >= MOST_RETRIES for attempt in lost):
            self.world.faults.postpone(fault)
            return
        self.world.counts["attempts lost with executors"] += len(lost)
        self._free[host] = None
        for attempt in lost:
            self.end(attempt)
            self._again(attempt.task)
        self.world.clock.at(self.world.faults.random_of(fault).choice(RESTART_SECONDS), self._come, host)
        self._launch()

    def _come(self, host):
        if self._free[host] is None:
            self._free[host] = self.world.plan.slots
            self._launch()
