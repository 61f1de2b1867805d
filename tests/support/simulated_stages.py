"""Seeded simulations of one run of StagedRunner: the real `StagedRun`, without Spark and a clock.

In place of Spark's jobs there are hosts with slots under simulated time. The attempts at tasks are real bundles with
real timekeepers; what a worker's process tells of its child is told here, too. Executors are lost with all their
attempts, sinks raise, storage is slow, tasks have copies, receipts come late or twice. The system kills processes that
did nothing wrong, but only where others run beside them. In a saved run drivers die, with the end of their log.
With quarantine some blocks fail, each time that they run.
"""

import heapq
import itertools
import pickle
import random
from collections import Counter, deque
from unittest.mock import patch

import attrs

from sdf import DoFn, OffsetRange, StagedRunner
from sdf.errors import ProcessError
from sdf.execution.bundle import Bundle
from sdf.execution.expansion import expand
from sdf.execution.timekeeper import Timekeeper
from sdf.execution.work_items import SUSPECT, Outcome
from sdf.journal.run_log import RunLog
from sdf.quarantine.blocks import failure_of
from sdf.quarantine.failures import HUNG, KILLED, RAISED, Failure
from sdf.quarantine.options import Quarantine
from sdf.saving import saving as saving_module
from sdf.saving.saving import Saving
from sdf.scheduling.commit_interval import budget_of_retry
from sdf.sinks import Sink
from sdf.spark.staged import run as run_module
from sdf.spark.staged.stored_blocks import Receipt, Stamp
from support.memory import Memory
from support.ten_thousand import bad_of, sizes_of

HANG_SECONDS = 5.0
RESTART_SECONDS = 1.0
SHORT_SECONDS = 3.0  # for which memory is short
MOST_SECONDS = 20_000.0  # with more it hangs
MOST_RETRIES = 3  # with one more failure Spark would give up


class DriverDied(BaseException):
    """Ends a driver as a crash does."""


@attrs.frozen
class Dies:
    """An output that stands for the end of the process, or for its hang."""

    how: str


class SomeBadFn(DoFn):
    """Element: its name, how many blocks it has, and how many of them `process` claims before it reads them."""

    def __init__(self, bad):
        self.bad = bad

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        held = []
        for i in tracker.claims():
            held.append(i)
            if len(held) == element[2]:
                yield from (self.read(element, one) for one in held)
                held = []
        yield from (self.read(element, one) for one in held)

    def read(self, element, i):
        how = self.bad.get((element[0], i))
        if how == RAISED:
            raise ValueError(f"cannot read {i}")
        return (element[0], i) if how is None else Dies(how)


class Clock:
    """Stands in for the module `time`."""

    now = 0.0

    def monotonic(self):
        return self.now

    def time(self):
        return 1e9 + self.now


class Writer:
    """Writes the log at once; see `sdf.saving.log_writer.LogWriter`. A crash loses what nobody has waited for."""

    seconds = 0.0

    def __init__(self, log, *, clock):
        self.log = log
        self.durable = log.next_number

    def add(self, *records):
        self.log.append(records)

    def flush(self):
        self.durable = self.log.next_number

    def check(self):
        """Nothing fails."""

    def close(self):
        """Nothing is open."""


class MessageSink(Sink):
    """Keeps the messages that it commits."""

    def __init__(self):
        self.committed = None

    def identity(self):
        return "messages"

    def prepare(self, run):
        """Nothing to prepare."""

    def write(self, records, place):
        raise NotImplementedError("the simulation writes")

    def commit(self, messages, token):
        self.committed = list(messages)

    def abort(self, messages, token):
        """Nothing is visible."""

    def clean(self, token):
        """Nothing is left."""


@attrs.define(eq=False)
class Task:
    """A task of a stage. Copies of it run at the same time; the retries are of all of them."""

    stage: int
    number: int
    items: tuple
    budget_seconds: float
    min_piece_seconds: float
    retries: int = 0
    ended: bool = False


@attrs.define(eq=False)
class Attempt:
    """An attempt at a task, in a slot of a host."""

    task: Task
    host: int
    steps: object = None  # yields the seconds that each takes; ends as the attempt does
    stamp: Stamp = None
    item_id: int = None  # what its process has told last
    claimed: int = None


class Stages:
    """What `StagedRun` asks of Spark (`sdf.spark.staged.run.Stages`), for one driver."""

    def __init__(self, world, saved):
        self.world, self.saved = world, saved
        self.random, self.clock, self.counts = world.random, world.clock, world.counts
        self.events, self.numbers = [], itertools.count()
        self.queue, self.running, self.receipts = deque(), [], []
        self.free = [world.slots] * world.hosts
        self.short_until = 0.0  # of memory
        self.unexpanded, self.expanded, self.fresh, self.begun = 0, set(), [], False
        self.arrives = False
        self.next_loss()

    @property
    def count_slots(self):
        return lambda: max(1, self.world.slots * sum(free is not None for free in self.free))

    def expand(self, elements):
        return [expand(self.world.fn, element) for element in elements]

    def start_expanding(self, elements):
        """Expand them in partitions, each of which may take long, and may be brought twice."""
        several = self.random.randint(1, 4)
        self.unexpanded = several
        for number in range(several):
            for _ in range(self.random.choice([1, 1, 1, 2])):
                self.at(self.random.choice([0.1, 0.2, 1.0, 5.0]), self.expands, number, elements[number::several])

    def expands(self, number, elements):
        if number in self.expanded:
            self.counts["expanded twice"] += 1
            return
        self.expanded.add(number)
        self.counts["expanded late"] += self.begun
        self.unexpanded -= 1
        self.fresh += self.expand(elements)
        self.arrives = True

    def take_expanded(self):
        fresh, self.fresh = self.fresh, []
        return fresh

    def start(self, number, bundles, *, min_piece_seconds):
        self.begun = True
        sent = pickle.loads(pickle.dumps(bundles))
        tasks = [Task(number, at, *bundle, min_piece_seconds) for at, bundle in enumerate(sent)]
        self.at(0.05, self.queues, tasks)

    def cancel(self):
        self.events.clear()

    def close(self):
        """Nothing is open."""

    def receive(self, timeout_seconds=None):
        """Let time pass until a receipt is there, or until the timeout."""
        assert self.clock.now < MOST_SECONDS, "it hangs"
        until = self.clock.now + max(timeout_seconds, 1e-4)
        self.arrives = False
        while not (self.receipts or self.arrives) and self.events and self.events[0][0] <= until:
            self.clock.now, _, action, args = heapq.heappop(self.events)
            action(*args)
        if not (self.receipts or self.arrives):
            self.clock.now = until
        found, self.receipts = self.receipts, []
        if self.saved and found and self.world.drivers and self.random.random() < 0.02:
            self.world.drivers -= 1
            raise DriverDied
        return found

    # Hosts.

    def at(self, seconds, action, *args):
        heapq.heappush(self.events, (self.clock.now + seconds, next(self.numbers), action, args))

    def queues(self, tasks):
        self.queue.extend(tasks)
        self.queue.extend(copied := [task for task in tasks if self.random.random() < 0.02])
        self.counts["copies"] += len(copied)
        self.launch()

    def launch(self):
        for host, free in enumerate(self.free):
            while free and self.queue:
                free -= 1
                attempt = Attempt(self.queue.popleft(), host)
                attempt.steps = self.run(attempt)
                self.running.append(attempt)
                self.at(0.001, self.go_on, attempt)
            self.free[host] = free

    def next_loss(self):
        self.at(self.random.expovariate(1 / self.world.loss_seconds), self.lose)

    def lose(self):
        """An executor is lost with what runs on it, and comes again; Spark runs its tasks again."""
        self.next_loss()
        host = self.random.randrange(len(self.free))
        lost = [attempt for attempt in self.running if attempt.host == host]
        if self.free[host] is None or any(attempt.task.retries == MOST_RETRIES for attempt in lost):
            return
        self.counts["executors lost"] += 1
        self.counts["attempts lost with executors"] += len(lost)
        self.free[host] = None
        self.running = [attempt for attempt in self.running if attempt.host != host]
        for attempt in lost:
            self.again(attempt.task)
        self.at(RESTART_SECONDS, self.come, host)
        self.launch()

    def come(self, host):
        self.free[host] = self.world.slots
        self.launch()

    def again(self, task):
        if not task.ended:
            task.retries += 1
            self.counts["retries"] += 1
            self.queue.appendleft(task)

    # Attempts.

    def go_on(self, attempt):
        if attempt not in self.running:
            return
        try:
            seconds = next(attempt.steps)
        except StopIteration as ended:
            self.running.remove(attempt)
            self.free[attempt.host] += 1
            if ended.value is None:
                self.again(attempt.task)
            else:
                self.tell(ended.value)
            self.launch()
        else:
            self.at(seconds, self.go_on, attempt)

    def tell(self, receipt):
        """Bring a receipt to the driver: some come late, as they are read from the end of the block, some twice."""
        times = [0.001]
        if self.random.random() < 0.03:
            times = [0.5]
            self.counts["receipts late"] += 1
        if self.random.random() < 0.03:
            times.append(times[0] + self.random.choice([0.0, 1.0]))
            self.counts["receipts doubled"] += 1
        for seconds in times:
            self.at(seconds, self.arrive, pickle.loads(pickle.dumps(receipt)))

    def is_killed(self, task):
        """Tell whether the system kills a process, as others have taken the memory; for a while that hits suspects."""
        suspect = task.items[0].origin == SUSPECT
        chance = 0.3 if suspect and self.clock.now < self.short_until else 0.0003
        if len(self.running) == 1 or self.random.random() >= chance:
            return False
        self.short_until = self.clock.now + SHORT_SECONDS
        self.counts["innocent suspects killed" if suspect else "innocents killed"] += 1
        return True

    def arrive(self, receipt):
        self.receipts.append(receipt)

    def run(self, attempt):
        """Run an attempt; yield the seconds that each step takes, and return its receipt, None if Spark tries again."""
        clock, task, retries = self.clock, attempt.task, attempt.task.retries
        stamp = Stamp("run", task.stage, task.number, next(self.world.attempt_numbers))
        wall, began, records = clock.time(), clock.now, []
        budget = budget_of_retry(task.budget_seconds, retries) if self.saved else task.budget_seconds

        def started(item):
            attempt.item_id, attempt.claimed = item.id, None

        def claimed(position):
            attempt.claimed = position

        bundle = Bundle(self.world.fn, task.items, clock=clock.monotonic, on_start=started, on_claim=claimed)
        keeper = Timekeeper(bundle, budget, task.min_piece_seconds, clock=clock.monotonic)
        failure = None
        try:
            for output in bundle.outputs():
                if isinstance(output, Dies):
                    self.counts[output.how] += 1
                    if output.how == HUNG:
                        yield HANG_SECONDS
                    failure = Failure(attempt.item_id, output.how, output.how, attempt.claimed)
                    break
                records.append(output)
                if self.is_killed(task):
                    failure = Failure(attempt.item_id, KILLED, "killed though innocent", attempt.claimed)
                    break
                yield self.world.seconds_of(output)
                keeper.look()
        except ProcessError as error:
            self.counts[RAISED] += 1
            failure = failure_of(bundle, error)
            assert failure is not None
        if failure is not None and self.world.quarantine is None:
            return None
        messages, closing_seconds = (), 0.0
        if failure is None and self.saved:
            slow = self.random.random() < 0.03
            self.counts["segments written slowly"] += slow
            closing_seconds = self.random.uniform(5, 20) if slow else 0.01
            yield closing_seconds
            if attempt.task.retries < MOST_RETRIES and self.random.random() < 0.05:
                self.counts["sink errors"] += 1
                return None
            messages = (str(stamp.attempt),)
        task.ended = True
        self.world.written[str(stamp.attempt)] = records
        return Receipt(
            stamp, Outcome(0) if failure else bundle.outcome(), (0 if failure else len(records),), 0,
            f"host {attempt.host}/1", wall, clock.now - began, messages, retries=retries,
            closing_seconds=closing_seconds, failure=failure,
        )  # fmt: skip


class Schedule:
    """One schedule of a run that sets nothing aside. Subclasses have ``elements``, ``fn`` and ``seconds_of``.

    Args:
        seed: of all choices.
    """

    saved = False
    quarantine = None
    stages = Stages
    drivers = 0  # how many die

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.clock, self.counts = Clock(), Counter()
        self.attempt_numbers = itertools.count()
        self.written = {}  # the records of each attempt
        self.begin(self.random)

    def begin(self, choose):
        """Choose what there is to do, and where."""
        self.hosts, self.slots = choose.randint(2, 4), choose.randint(1, 3)
        self.block_seconds = choose.choice([0.002, 0.02])
        self.loss_seconds = choose.choice([2.0, 10.0])

    def seconds_of(self, record):
        """Return how long the block of a record takes."""
        return self.block_seconds

    def staged(self, **options):
        return StagedRunner().staged(
            self.stages(self, self.saved), self.elements, self.fn, None, quarantine=self.quarantine, **options
        )  # fmt: skip


class StagedFailing(Schedule):
    """One schedule over 10,000 blocks of which 37 fail, with quarantine.

    Args:
        seed: of all choices.
        saved: whether it is a saved run.
    """

    quarantine = Quarantine(100, HANG_SECONDS)

    def __init__(self, seed, *, saved):
        self.saved = saved
        super().__init__(seed)
        self.files, self.sink = {}, MessageSink()

    def begin(self, choose):
        ahead = [1, 1, 1, 7, 100]
        self.elements = [(str(at), size, choose.choice(ahead)) for at, size in enumerate(sizes_of(choose))]
        self.bad = bad_of(choose, [(name, i) for name, size, _ in self.elements for i in range(size)])
        self.fn = SomeBadFn(self.bad)
        super().begin(choose)
        self.drivers = choose.choice([0, 1, 3]) if self.saved else 0

    def check(self):
        """All but the bad blocks are there once, and these are listed, each alone; return the counts."""
        with patch.object(run_module, "time", self.clock), patch.object(saving_module, "LogWriter", Writer):
            attempts, failed = self.run_saved() if self.saved else self.run()
        records = Counter(itertools.chain.from_iterable(self.written[attempt] for attempt in attempts))
        aside = Counter((block.element[0], *block.restriction) for block in failed)
        assert aside == {(name, i, i + 1): 1 for name, i in self.bad}, "others are set aside"
        wanted = {(name, i): 1 for name, size, _ in self.elements for i in range(size) if (name, i) not in self.bad}
        assert records == wanted, "not exactly once"
        self.counts["set aside"] += len(failed)
        return self.counts

    def run(self):
        """Return the attempts whose records count, and what was set aside."""
        run = self.staged()
        report = run.run_stages()
        assert {*report.failures} == {*run.failed()}
        return [str(receipt.stamp.attempt) for receipt, _ in run.committed()], run.failed()

    def run_saved(self):
        """Run drivers until one has committed; return the same."""
        while self.sink.committed is None:
            driver = f"driver {next(self.attempt_numbers)}"
            log = RunLog(Memory(self.files), driver=driver, clock=lambda: int(self.clock.time() * 1000))
            saving = Saving(
                log, {}, [("main", self.sink)], app="app", driver=driver,
                commit_seconds=self.random.choice([1.0, 10.0]), clock=self.clock.monotonic, wall=self.clock.time,
            )  # fmt: skip
            try:
                self.staged(saving=saving).run_stages()
                saving.finish()
            except DriverDied:
                self.counts["drivers"] += 1
                self.lose_end_of_log(saving)
        return self.sink.committed, saving.failures

    def lose_end_of_log(self, saving):
        writer = saving._writer
        names = sorted(name for name in self.files if name.startswith("log/"))
        lost = min(self.random.choice([0, 1, 3]), writer.log.next_number - writer.durable, len(names))
        self.counts["lost records of the log"] += lost
        for name in names[len(names) - lost :]:
            del self.files[name]
