"""The driver: of lanes and of stages, in runs that are kept and in runs that are saved. Drivers die, others go on."""

import pickle
from contextlib import suppress

import attrs

from sdf import StagedRunner
from sdf.errors import CoordinatorError, StageError
from sdf.lanes.coordinator import Coordinator
from sdf.lanes.messages import Bye, Hello
from sdf.quarantine.options import Quarantine
from sdf.saving.saving import Saving
from sdf.scheduling.factoring import deal
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue
from sdf.spark.call import Call
from sdf.spark.staged.receipts import given_up
from simulation.executor import Task
from simulation.faults import LANE_STEP, RECEIPT, STAGE_STEP, Fault
from simulation.lane import LaneChild
from simulation.stage import StageChild
from simulation.user import blocks_in
from simulation.worker import HANG_SECONDS, Worker

LOOK_SECONDS = 0.2  # as in sdf.spark.live.rounds, and the next two
MOST_IDLE_ROUNDS = 3
END_SECONDS = 1.0
MOST_FAILURES = 10**6


class DriverDied(BaseException):
    """Ends a driver as a crash does."""


class CheckedSaving(Saving):
    """Checks that a segment holds what its work items hold, and that a driver has the open work of the one before it.

    Attributes:
        world: the world.
        known: what the driver before it had not committed; None if some of that may be lost.
    """

    world = known = None

    def begin(self, work, expand):
        self.ledger = work.ledger
        todo = super().begin(work, expand)
        self.world.counts["the next driver waits for deferred work"] += sum(seconds > 0 for _, seconds in todo)
        assert self.known in (None, open_work(work.ledger)), "the next driver has other work"
        return todo

    def commit(self, item_ids, messages, records, seconds):
        (number,) = messages
        item_ids = list(item_ids)
        parts = [(self.ledger.item(item_id).element, self.ledger.holds(item_id)) for item_id in item_ids]
        held = [block for element, part in parts if part is not None for block in blocks_in(element, part)]
        written = self.world.sink.records[number]
        assert sorted(written) == sorted(held), "a segment holds other records than its work items"
        assert (len(written),) == tuple(records), "a segment counts other records"
        self.world.note("committed", tuple(item_ids), number)
        super().commit(item_ids, messages, records, seconds)

    def set_aside(self, item, block):
        self.world.note("set aside", item.id, block.element, tuple(block.restriction))
        super().set_aside(item, block)


def open_work(ledger):
    """Return what is neither committed nor set aside, in order."""
    nodes = (node for node in ledger._nodes if not node.void and node.owner not in ledger._sealed)
    return sorted((node.item.element_id, node.holds.start, node.holds.stop) for node in nodes)


@attrs.define(eq=False)
class Job:
    """A Spark job of lanes."""

    tasks: list = attrs.Factory(list)

    def is_over(self):
        return all(task.ended for task in self.tasks)


class LanesDriver:
    """The driver of a run of lanes.

    Args:
        world: the world.
        saving: in a saved run, its log; else None.
    """

    def __init__(self, world, saving=None):
        self.world, self.saving = world, saving
        plan, clock = world.plan, world.clock
        world.driver = self
        self.children = {}  # every attempt at a lane, by the name of its connection
        self.contents = {}  # the records of each lane that was sealed
        self.segment_seconds = plan.commit_seconds if plan.saved else float("inf")
        self.work = RunState(world.fn)
        self._late, self._ticks, self._jobs = [], False, []
        self._outlived = []  # the tasks of the last job, whose attempts may go on for one job more
        later = []
        if saving is None:
            first, *self._late = world.parts()
            items = list(self.work.add(world.expand(first)))
            seconds = 0.0
            for number, part in enumerate(self._late):
                seconds += world.random.choice([0.0, 0.05, 0.5, 2.0])
                clock.at(seconds, self._expands, part, number == len(self._late) - 1)
        else:
            todo = saving.begin(self.work, lambda: world.expand(plan.elements))
            items = [item for item, seconds in todo if seconds <= 0]
            later = [(item, clock.now + seconds) for item, seconds in todo if seconds > 0]
        backlog = WorkQueue(self.work.costs)
        for item in items:
            backlog.push(item)
        self.coordinator = Coordinator(
            self.work,
            deal(backlog, self.work.costs, plan.lanes, cut=self.work.cut),
            send=self.send,
            min_piece_seconds=0.001,
            patience_seconds=0.5,
            saved=self._saved if plan.saved else None,
            commit_seconds=self.segment_seconds,
            more_comes=bool(self._late),
        )
        for item, due in later:
            self.coordinator.delay(item, due)

    # The coordinator.

    def send(self, name, message):
        self.children[name].connection.answer(message)

    def hears(self, name, message):
        if self.saving is not None and self.world.faults.strikes(Fault.DRIVER_DIES):
            raise DriverDied
        if isinstance(message, Hello):
            self.coordinator.connected(name, message, self.world.clock.now)
        else:
            self.coordinator.received(name, message, self.world.clock.now)
        self._ticks_soon()

    def loses(self, name):
        del self.children[name]
        self.coordinator.lost(name, self.world.clock.now)
        self._ticks_soon()

    def _ticks_soon(self):
        if not self._ticks and self.coordinator.waiting():
            self._ticks = True
            self.world.clock.at(self.world.random.choice([0.01, 0.05, 0.3]), self.tick)

    def tick(self):
        self._ticks = False
        if self._late and self.world.faults.strikes(Fault.FREES_SLOT):
            self.coordinator.frees_slot(self.world.clock.now)
        self.coordinator.tick(self.world.clock.now)
        self._ticks_soon()

    def _saved(self, item_ids, message):
        self.saving.commit(item_ids, message.messages, message.records, message.seconds)

    def _expands(self, elements, last):
        """Some elements are expanded late."""
        world = self.world
        self._late.pop()
        world.counts["expanded late"] += len(elements)
        world.counts["expanded late, an attempt is idle"] += bool(elements and self.coordinator._stealing.idle())
        self.coordinator.expanded(world.expand(elements), world.clock.now, last=last)
        self._ticks_soon()

    def suffer(self, fault, child):
        """A fault hits the driver, while a lane takes a step."""
        if fault is Fault.TOLD_TO_LEAVE and not child.connection.cut:
            self.coordinator.leave(child.name)
        elif fault is Fault.JOIN:
            self._start_lanes(1)
        else:
            self.world.faults.postpone(fault)

    # Spark.

    def _task(self, lane_number):
        def begin(attempt):
            return Worker(self.world, LaneChild(self.world, self, attempt, lane_number), is_lane=True)

        def done(child, attempt, first):
            before = self.contents.setdefault(lane_number, child.records)
            assert before == child.records, f"two results of lane {lane_number}"
            self.world.counts["completed"] += 1
            self.world.counts["ended before the last was expanded"] += bool(self._late)

        return Task(f"lane {lane_number}", begin, done, LANE_STEP)

    def _start_lanes(self, count):
        job = Job([self._task(number) for number in range(count)])
        self._jobs.append(job)
        self.world.executors.submit(job.tasks)

    def _survives(self):
        return self.world.faults.strikes(Fault.OUTLIVES_JOB)

    # Runs that are kept.

    def action(self, wanted=None, seconds=None):
        """Run an action over some lanes; ``seconds``: give it up after so long, as take() does.

        Returns:
            The records of each lane.
        """
        world = self.world
        wanted = range(world.plan.lanes) if wanted is None else wanted
        job = Job([self._task(number) for number in wanted])
        world.executors.submit(job.tasks)
        world.clock.run(job.is_over, float("inf") if seconds is None else world.clock.now + seconds)
        if not job.is_over():
            for child in list(self.children.values()):
                if not child.attempt.over and world.random.random() < 0.5:
                    with suppress(CoordinatorError):
                        child.connection.send(Bye())
        world.executors.cancel(job.tasks, self._survives)
        return {number: self.contents[number] for number in wanted if number in self.contents}

    # Runs that are saved.

    def save(self):
        """Run jobs until all work is committed, as sdf.spark.live.rounds does."""
        ledger, idle, world = self.work.ledger, 0, self.world
        rounds = 0
        while left := ledger.uncommitted():
            rounds += 1
            done, faults = len(ledger) - left, world.faults.number
            self._round()
            world.counts["jobs"] += 1
            world.counts["further jobs"] += rounds > 1
            moved = len(ledger) - ledger.uncommitted() > done or world.faults.number > faults
            idle = 0 if moved else idle + 1
            assert idle < MOST_IDLE_ROUNDS, "jobs commit nothing"
        ledger.prove()

    def _round(self):
        clock, policy, over_at = self.world.clock, self.coordinator.policy, None
        replaced = policy.departed
        self._start_lanes(self.world.plan.lanes)
        while self._jobs:
            clock.run(self._job_has_ended, clock.now + LOOK_SECONDS)
            self._end_jobs()
            if policy.departed > replaced:
                self._start_lanes(policy.departed - replaced)
                replaced = policy.departed
            if self.coordinator.attempts() or self.work.ledger.uncommitted():
                over_at = None
            elif over_at is None:
                over_at = clock.now
            elif clock.now - over_at > END_SECONDS:
                self.world.executors.cancel([task for job in self._jobs for task in job.tasks])
                self._jobs.clear()

    def _job_has_ended(self):
        return any(job.is_over() for job in self._jobs)

    def _end_jobs(self):
        for job in [each for each in self._jobs if each.is_over()]:
            self._jobs.remove(job)
            self.contents.clear()  # the numbers of lanes are those of the job
            self.world.executors.cancel(self._outlived)
            self.world.executors.cancel(job.tasks, self._survives)
            self._outlived = job.tasks
            for child in list(self.children.values()):
                while child.attempt.over and child.connection.known:  # their ends are known before the next job
                    child.connection.tell_driver()


class StagesDriver:
    """What `StagedRun` asks of Spark (`sdf.spark.staged.run.Stages`), and the run.

    Args:
        world: the world.
        saving: in a saved run, its log; else None.
    """

    def __init__(self, world, saving=None):
        self.world, self.saving = world, saving
        world.driver = self
        self.unexpanded, self._expanded, self._fresh, self._begun = 0, set(), [], False
        self._receipts, self._arrives = [], False
        self._stages = {}  # by number, until it is given up: its tasks, and the numbers of those without a receipt
        quarantine = (
            Quarantine(max_failures=MOST_FAILURES, block_seconds=HANG_SECONDS) if world.plan.quarantine else None
        )
        self.run = StagedRunner().staged(self, Call(world.plan.elements, world.fn, {}, None, quarantine), saving)

    def save(self):
        """Run until all work is committed."""
        self.run.run_stages()

    @property
    def work(self):
        return self.run._work

    @property
    def count_slots(self):
        return self.world.executors.slots

    def expand(self, elements):
        return self.world.expand(elements)

    def start_expanding(self, elements):
        """Expand them in partitions, each of which may take long, and may be brought twice."""
        world = self.world
        parts = world.parts()
        self.unexpanded = len(parts)
        for number, part in enumerate(parts):
            for _ in range(1 + world.faults.strikes(Fault.EXPANDED_TWICE)):
                world.clock.at(world.random.choice([0.1, 0.2, 1.0, 5.0]), self._expands, number, part)

    def _expands(self, number, elements):
        if number in self._expanded:
            return
        self._expanded.add(number)
        self.world.counts["expanded late"] += self._begun
        self.unexpanded -= 1
        self._fresh += self.world.expand(elements)
        self._arrives = True

    def take_expanded(self):
        fresh, self._fresh = self._fresh, []
        return fresh

    def start(self, number, bundles, *, min_piece_seconds):
        self._begun = True
        sent = pickle.loads(pickle.dumps(bundles))
        tasks = [self._task(number, at, *bundle, min_piece_seconds) for at, bundle in enumerate(sent)]
        self._stages[number] = tasks, set(range(len(tasks)))
        self.world.note("stage", number, len(tasks))
        self.world.clock.at(0.05, self.world.executors.submit, tasks)

    def _task(self, stage, number, items, budget_seconds, min_piece_seconds):
        def begin(attempt):
            child = StageChild(self.world, attempt, stage, number, items, budget_seconds, min_piece_seconds)
            return Worker(self.world, child, is_lane=False)

        def done(receipt, attempt, first):
            self._tell(receipt)

        return Task(f"task {stage}/{number}", begin, done, STAGE_STEP)

    def _tell(self, receipt):
        """Bring a receipt to the driver: some come late, as they are read from the end of the block, some twice."""
        struck = self.world.faults.of(RECEIPT)
        times = [0.5 if Fault.RECEIPT_LATE in struck else 0.001]
        if Fault.RECEIPT_DOUBLED in struck:
            times.append(times[0] + self.world.random.choice([0.0, 1.0]))
        for seconds in times:
            self.world.clock.at(seconds, self._arrive, pickle.dumps(receipt), Fault.DRIVER_DIES in struck)

    def _arrive(self, receipt, dies):
        receipt = pickle.loads(receipt)
        self._receipts.append(receipt)
        _, missing = self._stages.get(receipt.stamp.stage, (None, set()))
        missing.discard(receipt.stamp.task)
        if dies:
            raise DriverDied

    def receive(self, timeout_seconds=None):
        """Let time pass until a receipt is there, or until the timeout."""
        self._arrives = False
        clock = self.world.clock
        clock.run(lambda: self._receipts or self._arrives, clock.now + max(timeout_seconds, 1e-4))
        found, self._receipts = self._receipts, []
        self.world.note("receipts", tuple((each.stamp, each.counts) for each in found))
        return found

    def cancel(self):
        self.world.clock.clear()

    def close(self):
        """Nothing is open."""

    def suffer(self, fault, child):
        """A fault hits it, while a task takes a step."""
        if self.world.executors.several_are_known():
            self.give_up(*child.task)
        else:
            self.world.faults.postpone(fault)

    def give_up(self, stage, task):
        """Spark gives up a stage, since a task of it has lost its executor each time."""
        tasks, missing = self._stages.pop(stage)
        self.world.executors.cancel(tasks)
        self.world.note("gives up", stage, task)
        self.world.counts["tasks withdrawn"] += len(missing) - 1
        self.world.clock.at(0.01, self._hears_of_the_end, stage, task, missing)

    def _hears_of_the_end(self, stage, task, missing):
        self._receipts += given_up("run", stage, missing, task, (), StageError("its executor or worker was lost"))
