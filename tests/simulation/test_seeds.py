"""Runs of lanes and of stages in every combination, under every fault: exactly once, whatever happens when."""

import pytest

from simulation import plan as plans
from simulation.faults import Fault
from simulation.world import counts_of

SEEDS = 500
MORE = pytest.mark.slow(f"the same test with the first {SEEDS} seeds")
CHUNKS = [
    pytest.param(range(SEEDS, SEEDS + 1000), marks=MORE),
    pytest.param(range(SEEDS + 1000, SEEDS + 2000), marks=MORE),
    *(pytest.param(range(at, at + 1000), marks=pytest.mark.soak) for at in range(10_000, 20_000, 1000)),
]
MESSAGES = (
    "Hello", "Ready", "Assign", "Heartbeat", "StealRequest", "Split", "Returned", "Verdict", "Declined", "Wait",
    "Sealed", "Bye", "Leave", "Fail", "Flush", "SegmentDone", "CommitEvery",
)  # fmt: skip
HAPPENED = (
    "retries", "replays", "completed", "splits", "stages", "jobs", "further jobs", "set aside",
    "tasks withdrawn", "empty segments",
    "innocent suspects killed", "attempts lost with executors", "lost records of the log",
    "the next driver waits for deferred work", "expanded late", "expanded late, an attempt is idle", "gave its slot",
    "ended before the last was expanded", "rows", "rows behind", "cut inside a row", "cut between rows",
    "deferred inside a row", "deferred before a claim",
)  # fmt: skip
COMBINATIONS = [plans.draw(0, **switches).combination() for switches in plans.COMBINATIONS]
MUST = [fault.says for fault in Fault] + [*MESSAGES, *HAPPENED, *COMBINATIONS]


def check(seeds):
    counts = counts_of(map(plans.draw, seeds))
    print(f"{len(seeds)} seeds: {dict(counts.most_common())}")
    assert [what for what in MUST if not counts[what]] == []


# Dear: it alone shows that lanes and stages are exactly once whatever happens.
def test_every_record_exactly_once_whatever_happens_when():
    """In each combination of switches that the product has; each fault strikes, and each message is sent."""
    check(range(SEEDS))


@pytest.mark.parametrize("seeds", CHUNKS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_more_seeds(seeds):
    """The same."""
    check(seeds)


@pytest.mark.parametrize("runner", [plans.LANES, plans.STAGES])
def test_no_combination_is_drawn_that_the_product_does_not_have(runner):
    """Nor is any left out: saved runs have no late elements, lanes no quarantine."""
    drawn = {plans.draw(seed, runner=runner).combination() for seed in range(300)}
    assert drawn == {each for each in COMBINATIONS if each.startswith(runner)}
    assert not [each for each in drawn if "saved" in each and "late" in each]


# 10,000 blocks of which 37 fail.

RUNS = [range(1), pytest.param(range(1, 5), marks=pytest.mark.slow("the same test with seed 0"))]
RUNS += [pytest.param(range(at, at + 20), marks=pytest.mark.soak) for at in range(10, 110, 20)]
OFTEN = (Fault.RAISES, Fault.DIES, Fault.IS_KILLED, Fault.HANGS, Fault.EXECUTOR_LOST, Fault.INNOCENT_KILLED, Fault.COPY)


@pytest.mark.parametrize("seeds", RUNS, ids=str)
@pytest.mark.parametrize("saved", [False, True], ids=["stages", "stages saved"])
def test_of_ten_thousand_blocks_those_37_that_fail_are_set_aside_each_alone(seeds, saved):
    """Nobody innocent is, not even one that is killed now and then, as others have taken the memory."""
    counts = counts_of(plans.ten_thousand(seed, saved=saved) for seed in seeds)
    print(f"{len(seeds)} runs: {dict(counts.most_common())}")
    assert counts["set aside"] == 37 * len(seeds)
    assert [fault for fault in OFTEN if not counts[fault.says]] == []
