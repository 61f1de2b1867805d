"""Whom the report blames for what: runs whose costs are known, with whatever number of slots, sizes and other load."""

import itertools

import pytest
from support.stealing_lanes import run

from sdf.reporting.causes import HOT_BLOCKS, HOT_OR_SLOW, MUCH_WORK, ONE_BLOCK, SLOW_HOST
from sdf.reporting.run_facts import TaskRun
from sdf.reporting.run_report import RunReport

SLOTS = (2, 4, 8)
SIZES = ((1000,), (500, 500), (1000, *[50] * 8), (2000, *[50] * 20), (150,) * 24)
PACES = {  # of a machine that others keep busy for a while
    "always free": lambda now: 1.0,
    "busy first": lambda now: 4.0 if now < 3 else 1.0,
    "busy last": lambda now: 4.0 if now >= 3 else 1.0,
    "busy meanwhile": lambda now: 4.0 if 1 < now < 2 else 1.0,
}
FIRST = frozenset({0})


def in_region(start, stop, seconds):
    """Return the cost of the blocks of an element of which a part is dear."""
    return lambda size: lambda element, at: seconds if element == 0 and start * size <= at < stop * size else 0.006


# By kind of work: the cost of a block, options, the causes and the slow slots that may be named, and what must be: of
# some runs, as in others it cannot be told.
KINDS = {
    "uniform work": (lambda size: lambda element, at: 0.01, {}, {MUCH_WORK}, (), None),
    "too few parts": (lambda size: lambda element, at: 0.01, {"splits": False}, {MUCH_WORK}, (), None),
    "one slow host": (
        lambda size: lambda element, at: 0.01, {"times": {0: 5.0}}, {MUCH_WORK, SLOW_HOST, HOT_OR_SLOW}, FIRST,
        SLOW_HOST,
    ),
    "one hot key": (
        lambda size: lambda element, at: 0.05 if element == 0 else 0.005, {}, {MUCH_WORK, HOT_BLOCKS, HOT_OR_SLOW}, (),
        HOT_BLOCKS,
    ),
    "hot blocks in the middle": (in_region(0.5, 0.6, 0.1), {}, {MUCH_WORK, HOT_BLOCKS, HOT_OR_SLOW}, (), HOT_BLOCKS),
    "hot blocks at the end": (in_region(0.9, 1.0, 0.1), {}, {MUCH_WORK, HOT_BLOCKS, HOT_OR_SLOW}, (), HOT_BLOCKS),
    "one dear block": (
        lambda size: lambda element, at: 8.0 if (element, at) == (0, size // 2) else 0.006, {},
        {MUCH_WORK, HOT_BLOCKS, HOT_OR_SLOW, ONE_BLOCK}, (), ONE_BLOCK,
    ),
}  # fmt: skip


def blamed(sizes, slots, cost, **options):
    """Return what a report blames: causes, each with the slots that it names."""
    names = [f"e{number}" for number in range(len(sizes))]
    pieces, blocks = run(names, sizes, slots, cost, **options)
    tasks = tuple(TaskRun(0, slot, f"host/{slot}", 0.0, 1.0, 1, 0, 1) for slot in range(slots))
    slow = tuple((names[number], "0", seconds) for number, seconds in blocks.items())
    report = RunReport("Fn", 1, 1, 0, (), 1.0, slots, tasks, pieces=tuple(pieces), slow_blocks=slow)
    found = report.straggler
    hosts = [(SLOW_HOST if host.certain else HOT_OR_SLOW, int(host.name[5:])) for host in report.slow_hosts]
    return [*hosts, *([] if found is None else [(found.cause, None)])]


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_blamed_right_or_nothing_is(kind):
    """In some of the runs the right thing is named; in none a wrong one."""
    cost, options, causes, hosts, must = KINDS[kind]
    named = set()
    for slots, sizes, (name, pace) in itertools.product(SLOTS, SIZES, PACES.items()):
        for cause, slot in blamed(sizes, slots, cost(sizes[0]), pace=pace, **options):
            assert cause in causes, (slots, sizes, name)
            assert cause != SLOW_HOST or slot in (None, *hosts), (slots, sizes, name)
            named.add(cause)
    assert must is None or must in named
