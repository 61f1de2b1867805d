"""An attempt at a stage's task: a bundle with its timekeeper."""

from sdf.errors import ProcessError
from sdf.execution.bundle import Bundle
from sdf.execution.timekeeper import Timekeeper
from sdf.execution.work_items import SUSPECT, Outcome
from sdf.quarantine.blocks import failure_of
from sdf.quarantine.failures import HUNG, KILLED, Failure
from sdf.scheduling.commit_interval import budget_of_retry
from sdf.spark.staged.stored_blocks import Receipt, Stamp
from simulation.faults import LOST
from simulation.user import Dies
from simulation.worker import HANG_SECONDS, Failed


class StageChild:
    """An attempt at a task.

    Args:
        world: the world.
        attempt: Spark's attempt at it.
        stage, number: the task.
        items, budget_seconds, min_piece_seconds: what it has to do.
    """

    def __init__(self, world, attempt, stage, number, items, budget_seconds, min_piece_seconds):
        self.world, self._attempt = world, attempt
        self.task = stage, number
        self._items, self._min_piece_seconds = items, min_piece_seconds
        self._retries = attempt.task.retries
        saved = world.plan.saved
        self._budget = budget_of_retry(budget_seconds, self._retries) if saved else budget_seconds
        self._stamp = Stamp("run", stage, number, attempt.number)
        self._began, self._wall = world.clock.now, world.clock.time()
        self._told = None, None  # what the child has told last: its work item, and the position that it has claimed
        self._killed = False

    def is_killed(self):
        """The system kills its process."""
        self._killed = True
        return True

    def steps(self):
        """Yield the seconds of each step; return its receipt; raise `Failed` if a block fails."""
        world, clock = self.world, self.world.clock
        bundle = Bundle(
            world.fn, self._items, clock=clock.monotonic, on_start=self._started, on_claim=self._claimed
        )  # fmt: skip
        keeper = Timekeeper(bundle, self._budget, self._min_piece_seconds, clock=clock.monotonic)
        records = []
        try:
            for output in bundle.outputs():
                if type(output) is Dies:
                    world.bad_block(output.how)
                    if output.how == LOST:
                        world.driver.give_up(*self.task)
                        yield 0.0  # it is gone
                    if output.how == HUNG:
                        yield HANG_SECONDS
                    raise Failed(self._failure(output.how, output.how))
                records.append(output)
                if self._killed or self._is_hit():
                    raise Failed(self._failure(KILLED, "killed though innocent"))
                yield world.seconds_of(output)
                keeper.look()
        except ProcessError as error:
            if not world.bad_raised(error):
                raise
            raise Failed(failure_of(bundle, error)) from error
        closing, messages = clock.now, ()
        if world.plan.saved:
            number = yield from world.sink.write(records)
            if number is None:
                return None
            messages = (number,)
        else:
            number = world.sink.keep(records)
        world.by_attempt[self._stamp.attempt] = number
        return self._receipt(bundle.outcome(), len(records), messages, clock.now - closing)

    def _started(self, item):
        self._told = item.id, None

    def _claimed(self, position):
        self._told = self._told[0], position

    def _failure(self, how, error):
        item_id, claimed = self._told
        return Failure(item_id, how, error, claimed)

    def _is_hit(self):
        """Tell whether it is killed for the memory that others take; that hits suspects."""
        world = self.world
        hit = self._items[0].origin == SUSPECT and world.executors.is_short_of_memory() and world.random.random() < 0.3
        world.counts["innocent suspects killed"] += hit
        return hit

    def failed(self, failure):
        """Return the receipt of an attempt that has failed."""
        return self._receipt(Outcome(0), 0, (), 0.0, failure)

    def _receipt(self, outcome, count, messages, closing_seconds, failure=None):
        return Receipt(
            self._stamp, outcome, (count,), 0, f"host {self._attempt.host}/1", self._wall,
            self.world.clock.now - self._began, messages, retries=self._retries, closing_seconds=closing_seconds,
            failure=failure,
        )  # fmt: skip

    def gone(self):
        """Nobody hears of it."""

    def suffer(self, fault):
        """Faults hit its stage, none it alone."""
        self.world.driver.suffer(fault, self)
