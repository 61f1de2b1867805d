"""The world of one plan: all actors, one clock, the history of all that happens, and how often each thing did."""

import itertools
import logging
import random
from collections import Counter
from contextlib import contextmanager
from unittest.mock import patch

from sdf.execution.expansion import expand
from sdf.saving import saving as saving_module
from sdf.spark.staged import run as run_module
from simulation import check
from simulation.clock import Clock
from simulation.driver import CheckedSaving, DriverDied, LanesDriver, StagesDriver, open_work
from simulation.executor import Executors
from simulation.faults import BAD_BLOCKS, Fault, Faults
from simulation.plan import LANES, shrink
from simulation.sink import MessageSink, Written
from simulation.storage import Storage, Writer
from simulation.user import DEAR_SECONDS, BlocksFn, blocks_of, in_tables, rows_in

MOST_EVENTS = 10_000  # and more for each block; with more it hangs


class World:
    """See the module's docstring.

    Args:
        plan: what is simulated.
        fn: the user's DoFn, if it is another one.

    Attributes:
        history: all that has happened, in order.
        counts: how often each fault has struck, and other things have happened.
    """

    def __init__(self, plan, fn=None):
        self.plan = plan
        self.clock = Clock(MOST_EVENTS + 100 * len(blocks_of(plan.elements)))
        self.random = random.Random(f"{plan.seed} world")
        self.numbers = itertools.count()
        self.history, self.counts = [], Counter()
        self.faults = Faults(plan, self.counts, self.note)
        bad = {each[:2]: each[2] for each in plan.bad}
        self.fn = fn or BlocksFn(random.Random(f"{plan.seed} user"), bad, plan.defer_seconds)
        self.sink = Written(self)
        self.storage = Storage(self)
        self.executors = Executors(self)
        self.by_attempt = {}  # the number of what an attempt at a stage's task has written
        self.driver = None
        self.failed_blocks = []  # what was set aside

    def note(self, *what):
        """Add to the history."""
        self.history.append((self.clock.now, *what))

    def parts(self):
        """Return the elements, in the parts in which they are expanded."""
        return [self.plan.elements[at :: self.plan.parts] for at in range(self.plan.parts)]

    def expand(self, elements):
        if not self.plan.tables:
            return [expand(self.fn, element) for element in elements]
        expanded = [*in_tables(self.fn, elements, self.plan.rows)]
        self.counts["rows"] += rows_in(expanded)
        return expanded

    def seconds_of(self, record):
        """Return how long the block of a record takes."""
        if "dear" in record[0]:
            return DEAR_SECONDS
        return self.plan.block_seconds * self.random.choice([0.3, 1.0, 1.0, 3.0])

    def bad_block(self, how):
        """A bad block takes the process along."""
        self.faults.struck(BAD_BLOCKS[how])

    def bad_raised(self, error):
        """Return whether an error is that of a bad block, and no fault of sdf."""
        bad = "cannot read" in str(error)
        if bad:
            self.faults.struck(Fault.RAISES)
        return bad

    # The run.

    def run(self):
        """Run the plan, and check what comes out."""
        with patched(self.clock):
            if self.plan.saved:
                self._save()
                check.saved(self)
            elif self.plan.runner == LANES:
                check.kept_lanes(self, LanesDriver(self))
            else:
                driver = StagesDriver(self)
                check.kept_stages(self, driver, driver.run.run_stages())
        self.counts[self.plan.combination()] += 1
        return self

    def _save(self):
        """Run drivers until one has committed."""
        self.messages = MessageSink()
        kind = LanesDriver if self.plan.runner == LANES else StagesDriver
        known = None
        for number in itertools.count():
            name = f"driver {number}"
            saving = CheckedSaving(
                self.storage.log(name), {}, [("main", self.messages)], app="app", driver=name,
                commit_seconds=self.plan.commit_seconds, clock=self.clock.monotonic,
            )  # fmt: skip
            saving.world, saving.known = self, known
            try:
                driver = kind(self, saving)
                driver.save()
                saving.finish()
                break
            except DriverDied:
                self.note("driver dies")
                self.clock.clear()
                lost = self.storage.lose_end(saving._writer)
                known = None if lost else open_work(driver.work.ledger)
                self.executors.clear()
                self.clock.clear()
        self.failed_blocks = saving.failures
        self.saving = saving


@contextmanager
def patched(clock):
    """Replace the clock and the thread of the log's writer; say nothing of what cannot be told a driver."""
    loggers = [logging.getLogger(f"sdf.{name}") for name in ("lane", "coordinator", "saving", "staged")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with patch.object(run_module, "time", clock), patch.object(saving_module, "LogWriter", Writer):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def simulate(plan):
    """Run a plan, and check it; return its world."""
    return World(plan).run()


def failure_of(plan):
    """Return how a plan fails, as text; None if it does not."""
    try:
        simulate(plan)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def counts_of(plans):
    """Run plans; return what has happened in all of them. The error of one that fails says how to repeat it."""
    counts = Counter()
    for plan in plans:
        try:
            counts.update(simulate(plan).counts)
        except Exception as error:
            smallest = shrink(plan, failure_of)
            raise AssertionError(
                f"{error}\nRepeat it: {plan.command()}\nA smaller plan, {failure_of(smallest)}: {smallest.command()}"
            ) from error
    return counts
