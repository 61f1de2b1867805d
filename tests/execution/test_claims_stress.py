"""Splits in large numbers while `process` loops over claims(): it is given exactly what the runner believes it has.

Two threads split, as often as they can, while another one takes what claims() delivers. Python may switch threads
between any two steps.
"""

import itertools
import random
import sys
import threading
import time

import pytest

from sdf import ByteKeyRange, ByteKeyRangeTracker, OffsetRange, OffsetRangeTracker
from sdf.execution.tracker_views import sides

SPLITS = [  # of each kind
    20_000,
    pytest.param(50_000, marks=pytest.mark.slow("the same test with fewer splits")),
    pytest.param(250_000, marks=pytest.mark.soak),
]
_AT_ONCE = 2_000  # splits that are checked together
_START = 10
_REST_SECONDS = 0 if sys.version_info >= (3, 11) else 1e-5  # Python 3.10 would come back to it at once, time and again
_LONGEST_PAUSE = 3_000  # turns of a loop: about as long as the system lets one thread run
_FRACTIONS = [0.999] * 60 + [0.99] * 20 + [0.9] * 12 + [0.5] * 6 + [0, 1]


def key(number):
    return number.to_bytes(3, "big")


def positions(size):
    """The positions of a range of offsets."""
    runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(_START, _START + size)))
    return runner, tracker.claims(), range(_START, _START + size), int


def blocks(size):
    """Blocks that are positions."""
    every = range(_START, _START + size)
    runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(_START, _START + size)))
    return runner, tracker.claims(every), every, int


def blocks_with_a_position(size):
    """Blocks of several offsets each, so that cuts fall into them."""
    every = [(offset, "block") for offset in range(_START, _START + size, 3)]
    runner, tracker = both_sides(OffsetRangeTracker(OffsetRange(_START, _START + size)))
    return runner, tracker.claims(every, position=lambda block: block[0]), every, lambda block: block[0]


def keys(size):
    """Blocks in the order of keys of bytes."""
    every = [key(number) for number in range(_START, _START + size)]
    runner, tracker = both_sides(ByteKeyRangeTracker(ByteKeyRange(key(_START), key(_START + size))))
    return runner, tracker.claims(every), every, bytes


KINDS = {  # the sizes of ranges, too: a key gets longer with each cut, so few cuts of one range of keys
    positions: (3, 50, 2_000, 20_000),
    blocks: (3, 50, 2_000, 20_000),
    blocks_with_a_position: (3, 50, 2_000, 20_000),
    keys: (3, 20, 50),
}


def both_sides(tracker):
    return sides(tracker, lambda: None, lambda error: None)


@pytest.fixture
def switching():
    """Let Python switch threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Race:
    """One range: the side of its tracker that splits, and what was cut off it."""

    def __init__(self, runner):
        self.runner, self.residuals = runner, []
        self.whole = runner.current_restriction()

    def assert_tiled(self, stop):
        """The parts that were cut off follow each other, from what was delivered to the end of the range."""
        assert self.runner.current_restriction().stop == stop
        self.runner.check_done()
        for residual in sorted(self.residuals, key=lambda residual: residual.start):
            assert residual.start == stop
            stop = residual.stop
        assert stop == self.whole.stop


@pytest.mark.parametrize("most", SPLITS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_position_is_delivered_or_cut_off_once(kind, most, switching, capsys):
    """Whenever the splits come."""
    choose, splits, ranges = random.Random(27), 0, 0
    while splits < most:
        races = raced(kind, choose)
        splits += sum(len(race.residuals) for race, _ in races)
        ranges += len(races)
        for race, stop in races:
            race.assert_tiled(stop)
    with capsys.disabled():
        print(f"\n{kind.__name__}: {splits:,} splits of {ranges:,} ranges, Python {sys.version.split()[0]}")


def raced(kind, choose):
    """Go through ranges while two threads split them; return the races with the stop that each had at its end."""
    races, over, now = [], threading.Event(), []

    def split(seed):
        mine = random.Random(seed)
        fractions = itertools.cycle(mine.sample(_FRACTIONS, len(_FRACTIONS)))
        while not over.is_set():
            if mine.random() < 0.2:  # else most splits come just after a switch, and no other switch comes within them
                for _ in range(mine.randrange(_LONGEST_PAUSE)):
                    pass
            race = now[-1]
            pair = race.runner.try_split(next(fractions))
            if pair is None:
                time.sleep(_REST_SECONDS)
            else:
                race.residuals.append(pair[1])

    def go_on():
        runner, claims, every, position_of = kind(choose.choice(KINDS[kind]))
        now.append(Race(runner))
        delivered = []
        for block in claims:
            delivered.append(block)  # noqa: PERF402 - list() would not let the other threads in between
        stop = runner.current_restriction().stop
        assert delivered == list(itertools.takewhile(lambda block: position_of(block) < stop, every))
        races.append((now[-1], stop))

    go_on()
    threads = [threading.Thread(target=split, args=(choose.random(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        while sum(len(race.residuals) for race, _ in races) < _AT_ONCE:
            go_on()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    return races
