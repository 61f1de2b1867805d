"""How the blocks that fail are found: each of them, nothing else, and in how many runs."""

import itertools
import math
import random

import pytest
from support.planning import RangeFn

from sdf.errors import TooManyFailuresError
from sdf.execution.expansion import expand
from sdf.execution.invoker import Residual
from sdf.execution.work_items import Outcome, Part
from sdf.model.offset_trackers import UnsplittableTracker
from sdf.model.restrictions import ByteKeyRange, OffsetRange
from sdf.quarantine.failures import DIED, HUNG, KILLED, RAISED, WITHDRAWN, Failure
from sdf.quarantine.suspects import Suspects
from sdf.scheduling.run_state import RunState

LOST = "its executor or worker was lost: nobody tells which work item ran, nor what it claimed"


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
                knows = (alone or how == RAISED) and how != LOST
                failure = Failure(item.id, how, how, min(found + self.ahead, stop - 1) if knows else None)
                if how == LOST:
                    failure = Failure(None, KILLED, how)
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


@pytest.mark.parametrize("how", [RAISED, DIED, KILLED, HUNG, LOST])
@pytest.mark.parametrize("ahead", [0, 1, 5, 1000])
def test_any_two_bad_blocks_of_a_part_are_set_aside(how, ahead):
    """Also if the DoFn buffers, or claims ahead: then the position claimed last is not the culprit."""
    for first in range(12):
        for second in range(first, 12):
            Driver(12, {first: how, second: how}, ahead=ahead).run().check(12)


def test_a_block_that_was_set_aside_says_how_often_it_has_failed():
    """The failures of the parts that held it count, and its own."""
    work = RunState(RangeFn())
    suspects = Suspects(work, 100)
    todo = list(work.add([expand(RangeFn(), 12)]))
    for number, at in enumerate((3, 8)):
        (item,) = [one for one in todo if one.restriction.start <= at < one.restriction.stop]
        todo = suspects.failed_attempt([item], Failure(item.id, RAISED, "no number", at), idle=False)
        block = suspects.waiting.popleft()
        assert suspects.failed_attempt([block], Failure(block.id, RAISED, "no number", at), idle=False) == []
        assert (suspects.failed[-1].restriction, suspects.failed[-1].attempts) == (OffsetRange(at, at + 1), 2 + number)


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


def test_of_a_task_that_was_lost_with_its_executors_each_work_item_runs_alone():
    """Any of them may have ended the executors; each counts that as an attempt."""
    work = RunState(RangeFn())
    suspects = Suspects(work, 100)
    items = list(work.add([expand(RangeFn(), 1) for _ in range(3)]))
    assert suspects.failed_attempt(items, Failure(None, KILLED, "lost"), idle=False) == []
    assert sorted(item.id for item in suspects.waiting) == [0, 1, 2]
    suspects.waiting.clear()
    for _ in range(2):
        suspects.failed_attempt(items[:1], Failure(None, KILLED, "lost"), idle=True)
    assert suspects.failed[0].attempts == 3


def test_what_a_stage_that_was_given_up_had_beside_the_lost_task_is_to_blame_for_nothing():
    """It runs in company again, unless it was a suspect before."""
    work = RunState(RangeFn())
    suspects = Suspects(work, 100)
    suspect, other = work.add([expand(RangeFn(), 1) for _ in range(2)])
    assert suspects.failed_attempt([suspect], Failure(None, KILLED, "lost"), idle=False) == []
    assert suspects.waiting.popleft() is suspect
    assert suspects.failed_attempt([suspect, other], Failure(None, WITHDRAWN, "lost"), idle=True) == [other]
    assert list(suspects.waiting) == [suspect]
    assert suspects.failed == []


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


class KeysFn(RangeFn):
    """Element: anything; all keys."""

    def get_initial_restriction(self, element):
        return ByteKeyRange()


def keys_set_aside(keys, bad, *, ahead, seed=0, told=True):
    """Run keys of which some raise; check that these are set aside, each by itself, and all others are done once.

    Args:
        ahead: how many keys the DoFn has claimed beyond the one that it works on.
        told: whether the position claimed last is that of a key, or of the claim at the end.

    Returns:
        How many attempts failed.
    """
    work, choose, owners = RunState(KeysFn()), random.Random(seed), itertools.count()
    suspects = Suspects(work, 1000)
    company, done, failed = list(work.add([expand(KeysFn(), "e")])), [], 0
    while company or len(suspects):
        alone = suspects.waiting and (not company or choose.random() < 0.5)
        item = suspects.waiting.popleft() if alone else company.pop()
        start, stop = item.restriction
        inside = [key for key in keys if key >= start and (not stop or key < stop)]
        at = next((at for at, key in enumerate(inside) if key in bad), None)
        owner = next(owners)
        work.ledger.assign(owner, [item])
        if at is None:
            done += inside
            work.ledger.seal(owner, 0)
            continue
        failed += 1
        claimed = inside[min(at + ahead, len(inside) - 1)] if told else b""
        assert work.ledger.commit(owner, 0, Outcome(0))
        company += suspects.failed_attempt([item], Failure(item.id, RAISED, "x", claimed), idle=False)
    work.ledger.prove()
    aside = [block.restriction for block in suspects.failed]
    assert sorted(
        key for part in aside for key in keys if part.start <= key and (not part.stop or key < part.stop)
    ) == (sorted(bad))
    assert len(aside) == len(bad)
    assert sorted(done) == sorted(set(keys) - set(bad))
    return failed


@pytest.mark.parametrize("ahead", [0, 1, 2, 1000])
def test_any_two_bad_keys_are_set_aside(ahead):
    """Between two keys there are others without end, so halves alone would never come to a single one."""
    keys = [b"a", b"a\x00", b"aa", b"b", b"long/prefix/0001", b"long/prefix/0002", b"\xff"]
    for first, second in itertools.combinations_with_replacement(keys, 2):
        keys_set_aside(keys, {first, second}, ahead=ahead)


@pytest.mark.parametrize("seed", range(20))
def test_bad_keys_of_a_dofn_that_buffers_take_no_run_for_each_key(seed):
    """The halves of the keys count, beside the one that was claimed last."""
    choose = random.Random(seed)
    keys = sorted({choose.randbytes(choose.randint(1, 6)) for _ in range(1000)})
    assert keys_set_aside(keys, set(choose.sample(keys, 2)), ahead=10**6, seed=seed) < 2 * (10 + 1 + 2 + 10)


def test_a_search_that_no_claim_helps_comes_to_an_end():
    """What is left is set aside whole: here it holds only the bad key, since no other is as near."""
    failed = keys_set_aside([b"a", b"m", b"z"], {b"m"}, ahead=0, told=False)
    assert failed < 300


@pytest.mark.parametrize("blocks", [2**10, 2**40])
def test_an_element_of_which_everything_fails_soon_ends_the_run(blocks):
    """As a file that nobody can open: its halves of halves would be as many as it has bytes."""
    attempts = []

    def run():
        work = RunState(RangeFn())
        suspects = Suspects(work, 10)
        company = list(work.add([expand(RangeFn(), blocks)]))
        while len(attempts) < 10_000:
            item = suspects.waiting.popleft() if suspects.waiting else company.pop()
            attempts.append(item)
            company += suspects.failed_attempt([item], Failure(item.id, DIED, "cannot open it"), idle=False)

    with pytest.raises(TooManyFailuresError):
        run()
    assert len(attempts) <= 2 + math.log2(blocks) + 3 * 10


@pytest.mark.parametrize(
    "seed", [*range(30), *(pytest.param(seed, marks=pytest.mark.slow("the same test")) for seed in range(30, 200))]
)
def test_no_block_is_lost_and_no_innocent_one_is_set_aside(seed):
    """10,000 blocks: 30 raise, 4 kill their process, one its executor, 2 hang, whatever is split or lost meanwhile."""
    chance = random.Random(seed)
    places = chance.sample(range(10_000), 37)
    bad = dict.fromkeys(places[:30], RAISED) | dict.fromkeys(places[30:35], chance.choice([DIED, KILLED]))
    bad |= dict.fromkeys(places[35:], HUNG) | {places[34]: LOST}
    driver = Driver(
        10_000, bad, ahead=chance.choice([0, 0, 1, 7, 10**6]), width=chance.randint(1, 5), splits=True,
        lost=chance.choice([0, 0.1, 0.3]), seed=seed,
    )  # fmt: skip
    driver.run().check(10_000)


# Where blocks end.


def blocks_of(size, length, bad, *, told=True, width=1):
    """Run blocks of ``length`` positions, of which some raise; return the ranges that are named.

    Args:
        told: whether attempts tell their first claims.
        width: the most work items in one attempt.
    """
    work = RunState(RangeFn())
    suspects = Suspects(work, 1000)
    company, owners = list(work.add([expand(RangeFn(), size)])), itertools.count()
    while company or suspects.waiting:
        items = [suspects.waiting.popleft()] if suspects.waiting else [company.pop() for _ in company[:width]]
        owner = next(owners)
        work.ledger.assign(owner, items)
        firsts = []
        for item in items:
            inside = range(-(-item.restriction.start // length) * length, item.restriction.stop, length)
            failed = next((at for at in inside if at in bad), None)
            if failed is not None:
                todo = [one for one, _ in work.ledger.commit(owner, 0, Outcome(0))]
                failure = Failure(item.id, RAISED, "bad", failed)
                company += suspects.failed_attempt(todo, failure, idle=False)
                break
            firsts.append((item.id, tuple(inside[:1])))
        else:
            outcome = Outcome(len(items), (), firsts=tuple(firsts) if told else ())
            assert work.commit(owner, 0, outcome) == []
            suspects.note(outcome)
    work.ledger.prove()
    return sorted(tuple(block.restriction) for block in suspects.blocks())


@pytest.mark.parametrize("length", [1, 3, 4])
@pytest.mark.parametrize("width", [1, 3])
def test_a_block_is_named_up_to_the_next_claim(length, width):
    """For any two bad blocks of ten, whichever part is run first; the last one reaches to the end of the element."""
    size = 10 * length - length // 2
    for bad in itertools.combinations_with_replacement(range(0, size, length), 2):
        named = blocks_of(size, length, set(bad), width=width)
        assert named == [(at, min(at + length, size)) for at in sorted(set(bad))]


def test_of_a_block_nothing_is_named_that_is_not_known():
    """As if an earlier driver had run what lies behind it."""
    assert blocks_of(40, 4, {8, 16}, told=False) == [(8, 9), (16, 17)]


def test_too_many_failures_name_the_blocks_as_far_as_they_are_known():
    """In the error."""
    work = RunState(RangeFn())
    suspects = Suspects(work, 0)
    (item,) = work.add([expand(RangeFn(), 40)])
    _, after = suspects.failed_attempt([item], Failure(item.id, RAISED, "bad", 8), idle=False)
    work.ledger.assign("behind", [after])
    work.commit("behind", 0, Outcome(1))
    suspects.note(Outcome(1, firsts=((after.id, (12,)),)))
    block = suspects.waiting.popleft()
    with pytest.raises(TooManyFailuresError, match=r"The first are: OffsetRange\(start=8, stop=12\) of element 40"):
        suspects.failed_attempt([block], Failure(block.id, RAISED, "bad", 8), idle=False)
