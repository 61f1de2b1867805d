"""The simulated worlds of `ablate.py`: the figure of a row is the mean over the row's cases, a world each."""

import itertools
import math
import random

import attrs
from simulated import Overheads, Ranges, WholeUntilClaimed, World

OVERHEADS = Overheads(
    message_seconds=0.001, job_seconds=0.06, stage_seconds=0.02, launch_seconds=0.001, restart_seconds=5.0
)
SLOTS = 8
PLACES = [(place + 0.5) / 8 for place in range(8)]  # where the dear part begins
MORE_PLACES = [(place + 0.5) / 24 for place in range(24)]  # in short runs, which differ more
APART = attrs.evolve(OVERHEADS, launch_seconds=0.1)  # as long as a Python worker takes
SLOW = attrs.evolve(OVERHEADS, job_seconds=0.4, stage_seconds=0.1, launch_seconds=0.02)  # a busy machine


def _dear(seconds, share, times, at):
    each = 0.05 / times
    blocks = round(SLOTS * seconds / (each * (1 - share + share * times)))
    first = int(blocks * at)
    dear = range(first, first + round(blocks * share))
    return [0.05 if block in dear else each for block in range(blocks)]


def _one(costs, overheads=OVERHEADS):
    return Ranges(SLOTS, costs, [(0, len(costs))], overheads)


def _even(seconds, blocks, elements, slots=SLOTS, overheads=OVERHEADS):
    bounds = [blocks * number // elements for number in range(elements + 1)]
    return Ranges(slots, [slots * seconds / blocks] * blocks, list(itertools.pairwise(bounds)), overheads)


def _last_ones_dear(seconds):
    """Return 4,000 elements of one size, of which the last tenth takes a hundred times as long."""
    costs = [1.0] * 3600 + [100.0] * 400
    scale = SLOTS * seconds / sum(costs)
    return Ranges(SLOTS, [cost * scale for cost in costs], list(itertools.pairwise(range(4001))), OVERHEADS)


def _files(seconds):
    """Return files of a Pareto distribution; to open one takes as long as to read fifty of its blocks."""
    choose = random.Random(1)
    sizes = [1 + int(20 * choose.paretovariate(1.1)) for _ in range(400)]
    bounds = [0, *itertools.accumulate(sizes)]
    block = SLOTS * seconds / (sum(sizes) + 50 * len(sizes))
    files = list(itertools.pairwise(bounds))
    return Ranges(SLOTS, [block] * sum(sizes), files, OVERHEADS, opening_seconds=50 * block)


def _few_last_ones_dear(seconds):
    """Return 4,000 elements of one size, of which the last twenty take a thousand times as long."""
    costs = [1.0] * 3980 + [1000.0] * 20
    scale = SLOTS * seconds / sum(costs)
    return Ranges(SLOTS, [cost * scale for cost in costs], list(itertools.pairwise(range(4001))), OVERHEADS)


def _slow_to_open(seconds, opening_seconds):
    blocks = [SLOTS * seconds / 2000] * 2000
    return Ranges(SLOTS, blocks, [(0, 2000)], OVERHEADS, opening_seconds=opening_seconds)


def _whole(seconds, overheads):
    return Ranges(SLOTS, [SLOTS * seconds / 2000] * 2000, [(0, 2000)], overheads, tracker=WholeUntilClaimed)


def _last_is_giant(seconds):
    """Return elements whose sizes are unknown; nearly all the work is in the last."""
    costs = [1e-4] * 7 + [SLOTS * seconds / 2000] * 2000
    elements = [*((n, n + 1) for n in range(7)), (7, 2007)]
    return Ranges(SLOTS, costs, elements, attrs.evolve(OVERHEADS, launch_seconds=0.02), sized=False)


def _two_lost(seconds, at):
    """Return one element, and slots of which two are lost for good."""
    gone = attrs.evolve(OVERHEADS, restart_seconds=math.inf)
    return Ranges(SLOTS, [SLOTS * seconds / 2000] * 2000, [(0, 2000)], gone, lost={2: at, 5: at})


def _worker_lost(seconds, at):
    """Return one element, and two slots of which one loses its worker; Spark retries it 1.5 s later, as measured."""
    soon = attrs.evolve(OVERHEADS, restart_seconds=1.5)
    return Ranges(2, [2 * seconds / 2000] * 2000, [(0, 2000)], soon, lost={0: at})


ROWS = {
    "giant, 1 s": lambda: [_one([SLOTS / 2000] * 2000)],
    "giant, 20 s": lambda: [_one([SLOTS * 20 / 2000] * 2000)],
    "hot 5 %, 1 s": lambda: [_one(_dear(1, 0.05, 50, at)) for at in MORE_PLACES],
    "hot 5 %, 20 s": lambda: [_one(_dear(20, 0.05, 50, at)) for at in PLACES],
    "narrow 0.5 %, 1 s": lambda: [_one(_dear(1, 0.005, 1000, at)) for at in MORE_PLACES],
    "narrow 0.5 %, 20 s": lambda: [_one(_dear(20, 0.005, 1000, at)) for at in PLACES],
    "blocks of 1 s, 20 s": lambda: [_one([1.0] * (SLOTS * 20))],
    "4,000 elements, 1 s": lambda: [_even(1, 4000, 4000)],
    "4,000 elements, 20 s": lambda: [_even(20, 4000, 4000)],
    "4,000 elements, the last dear, 20 s": lambda: [_last_ones_dear(20)],
    "slow to start, hot, 5 s": lambda: [_one(_dear(5, 0.05, 50, at), SLOW) for at in PLACES],
    "slow to start, 64 slots, 2 s": lambda: [_even(2, 6400, n, 64, SLOW) for n in (1, 10, 64, 6400)],
    "lanes start 0.1 s apart, 1 s": lambda: [_even(1, 4000, n, overheads=APART) for n in (1, 8, 4000)],
    "files, 5 s": lambda: [_files(5)],
    "files, 60 s": lambda: [_files(60)],
    "Pareto, 100 s": lambda: [World(SLOTS, 50 * SLOTS, 100.0, 1.5, 0.2, 10.0, 0.0, 0.0, OVERHEADS)],
    "Pareto, 128 slots": lambda: [World(128, 20 * 128, 50.0, 1.5, 0.2, 10.0, 0.0, 0.0, OVERHEADS)],
    "slow to open, hot, 20 s": lambda: [
        Ranges(SLOTS, costs, [(0, len(costs))], OVERHEADS, opening_seconds=1.0)
        for costs in (_dear(20, 0.05, 50, at) for at in PLACES)
    ],
    "slow to open, 20 s": lambda: [_slow_to_open(20, opening) for opening in (0.2, 1.0, 4.0)],
    "4,000 elements, twenty dear, 20 s": lambda: [_few_last_ones_dear(20)],
    "whole until claimed, 5 s": lambda: [_whole(5, each) for each in (OVERHEADS, APART)],
    "sizes unknown, the last is a giant, 5 s": lambda: [_last_is_giant(5)],
    "two slots lost for good, 20 s": lambda: [_two_lost(20, at) for at in (2.0, 10.0, 19.0)],
    "a worker is lost, 2 slots, 20 s": lambda: [_worker_lost(20, at) for at in (10.0, 19.0, 19.9)],
    "losses and latecomers": lambda: [
        World(n, 50 * n, 100.0, 1.5, 0.2, 10.0, 0.5, 0.3, OVERHEADS) for n in range(4, 16)
    ],
}
