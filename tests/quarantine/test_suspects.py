"""How the blocks that fail are found: each of them, nothing else, and in how many runs."""

import math
import random

import pytest
from support.planning import RangeFn

from sdf.errors import TooManyFailuresError
from sdf.execution.expansion import expand
from sdf.execution.invoker import Residual
from sdf.execution.work_items import Outcome, Part
from sdf.model.offset_trackers import UnsplittableTracker
from sdf.model.restrictions import OffsetRange
from sdf.quarantine.failures import DIED, HUNG, KILLED, RAISED, Failure
from sdf.quarantine.suspects import Suspects
from sdf.scheduling.run_state import RunState


class Driver:
    """Runs work in which some blocks fail, as a driver and its workers do, one attempt after the other.

    Args:
        bad: how each bad block fails, by its position.
        ahead: how many blocks the DoFn has claimed beyond the one that it works on.
        width: the most work items in one attempt.
        splits: whether attempts hand back a part, now and then.
        lost: the share of attempts that are lost with their executors, and tried again.
    """

    def __init__(self, blocks, bad, *, ahead=0, width=1, splits=False, lost=0.0, seed=0, fn=None, most=1000):
        self.bad, self.ahead, self.width, self.splits, self.lost = bad, ahead, width, splits, lost
        self.random = random.Random(seed)
        fn = fn or RangeFn()
        self.work = RunState(fn)
        self.suspects = Suspects(self.work, most)
        self.company = list(self.work.add([expand(fn, blocks)]))
        self.attempts = self.failed_attempts = self.committed = 0
        self.done = []

    def run(self):
        while self.company or len(self.suspects):
            if self.company and (self.random.random() < 0.5 or not len(self.suspects)):
                self.random.shuffle(self.company)
                items = [self.company.pop() for _ in range(min(self.width, len(self.company)))]
                self.attempt(items, alone=False, idle=False)
            elif self.suspects.waiting:
                self.attempt([self.suspects.waiting.popleft()], alone=True, idle=False)
            elif not self.company:
                self.attempt([self.suspects.for_idle.popleft()], alone=True, idle=True)
        self.work.ledger.prove()
        return self

    def attempt(self, items, *, alone, idle):
        self.attempts += 1
        owner = ("attempt", self.attempts)
        self.work.ledger.assign(owner, items)
        parts, run = [], []
        for number, item in enumerate(items):
            start, stop = item.restriction
            until = self.random.randint(start + 1, stop) if self.splits and stop - start > 1 else stop
            found = next((at for at in range(start, until) if at in self.bad), None)
            if found is not None:
                how = self.bad[found]
                knows = alone or how == RAISED
                failure = Failure(item.id, how, how, min(found + self.ahead, stop - 1) if knows else None)
                todo = [one for one, _ in self.work.ledger.commit(owner, 0, Outcome(0))]
                self.failed_attempts += 1
                self.company += self.suspects.failed_attempt(todo, failure, idle=idle)
                return
            run += range(start, until)
            if until < stop:
                parts.append(Part(item.id, OffsetRange(start, until), (Residual(OffsetRange(until, stop)),)))
                outcome = Outcome(number + 1, tuple(parts), len(run), 1.0)
                break
        else:
            outcome = Outcome(len(items), (), len(run), 1.0)
        if self.random.random() < self.lost:  # the task is tried again, and does something else by the clock
            for item in items:
                self.work.ledger.release(owner, item.id)
            if alone:
                (self.suspects.for_idle if idle else self.suspects.waiting).append(items[0])
            else:
                self.company += items
            return
        for item, _ in self.work.commit(owner, 0, outcome):
            if not self.suspects.admits(item):
                self.company.append(item)
        self.done += run

    def check(self, blocks):
        """The bad blocks are set aside, each by itself; all others are done once."""
        assert sorted(tuple(block.restriction) for block in self.suspects.failed) == [
            (at, at + 1) for at in sorted(self.bad)
        ]
        assert sorted(self.done) == [at for at in range(blocks) if at not in self.bad]


@pytest.mark.parametrize("how", [RAISED, DIED, KILLED, HUNG])
@pytest.mark.parametrize("ahead", [0, 1, 5, 1000])
def test_any_two_bad_blocks_of_a_part_are_set_aside(how, ahead):
    """Also if the DoFn buffers, or claims ahead: then the position claimed last is not the culprit."""
    for first in range(12):
        for second in range(first, 12):
            Driver(12, {first: how, second: how}, ahead=ahead).run().check(12)


def test_a_block_that_raises_takes_one_more_run_of_its_part():
    """Of a DoFn that claims each block as it reads it: the part, what lies around the block, and the block."""
    for at in range(1, 999):
        driver = Driver(1000, {at: RAISED}).run()
        assert (driver.attempts, driver.failed_attempts) == (4, 2)


@pytest.mark.parametrize("how", [DIED, HUNG])
def test_a_block_that_takes_its_process_along_takes_one_run_more(how):
    """A process that dies tells no position; run alone, the part tells each claim."""
    for at in range(1, 999):
        driver = Driver(1000, {at: how}).run()
        assert driver.failed_attempts == 3


@pytest.mark.parametrize("ahead", [1, 3, 100, 10**6])
@pytest.mark.parametrize("bad", [1, 3, 10])
def test_bad_blocks_of_a_dofn_that_misleads_take_a_logarithm_each(ahead, bad):
    """About k * (log2 n + 1) failed attempts for k of n blocks, and two for each hint that was wrong."""
    blocks = 4096
    for seed in range(20):
        places = random.Random(seed).sample(range(blocks), bad)
        driver = Driver(blocks, dict.fromkeys(places, RAISED), ahead=ahead, seed=seed).run()
        driver.check(blocks)
        assert driver.failed_attempts <= bad * (math.log2(blocks) + 1 + 2)


def test_what_kills_a_process_must_do_so_twice_while_nothing_else_runs():
    """The memory may have been taken by others."""
    driver = Driver(8, {3: KILLED}).run()
    (block,) = driver.suspects.failed
    assert block.attempts == 5  # in company, alone in its part, alone, and twice on an idle cluster


def test_a_part_that_cannot_be_cut_is_set_aside_whole():
    """As a .gz without an index."""

    class WholeFn(RangeFn):
        def create_tracker(self, element, restriction):
            return UnsplittableTracker(restriction)

    driver = Driver(10, {4: RAISED}, fn=WholeFn()).run()
    (block,) = driver.suspects.failed
    assert block.restriction == OffsetRange(0, 10)
    assert block.attempts == 2
    assert driver.done == []


def test_too_many_failures_end_the_run_with_the_first_errors():
    """The message has the first three."""
    driver = Driver(100, dict.fromkeys(range(0, 100, 2), RAISED), most=3)
    with pytest.raises(TooManyFailuresError, match=r"4 blocks failed, and max_failures is 3.*OffsetRange") as caught:
        driver.run()
    assert str(caught.value).count(RAISED) == 3


@pytest.mark.parametrize("seed", range(200))
def test_no_block_is_lost_and_no_innocent_one_is_set_aside(seed):
    """10,000 blocks of which 30 raise, 5 kill their worker and 2 hang, whatever else is split or lost meanwhile."""
    chance = random.Random(seed)
    places = chance.sample(range(10_000), 37)
    bad = dict.fromkeys(places[:30], RAISED) | dict.fromkeys(places[30:35], chance.choice([DIED, KILLED]))
    bad |= dict.fromkeys(places[35:], HUNG)
    driver = Driver(
        10_000, bad, ahead=chance.choice([0, 0, 1, 7, 10**6]), width=chance.randint(1, 5), splits=True,
        lost=chance.choice([0, 0.1, 0.3]), seed=seed,
    )  # fmt: skip
    driver.run().check(10_000)
