"""Bugs seeded into sdf, one for each rule that makes a run exactly once: the simulation finds each of them."""

import re

import pytest

from simulation.mutants import MUTANTS
from simulation.plan import draw, read, shrink
from simulation.world import failure_of

RANGE = 20  # seeds, of which at least one finds a bug
mutants = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)


def found_by(mutant, seeds):
    """Return the first plan that finds a mutant, and how it fails."""
    where, _, says = MUTANTS[mutant]
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        for seed in seeds:
            failure = failure_of(draw(seed, **where))
            if failure is not None and re.search(says, failure):
                return draw(seed, **where), failure
    raise AssertionError(f"{mutant.__name__} is not found by {seeds}")


@mutants
def test_a_seeded_bug_is_found(mutant):
    """Which check speaks first is the schedules' affair; without the bug the same plan passes."""
    first = MUTANTS[mutant][1]
    plan, _ = found_by(mutant, range(first, first + RANGE))
    assert failure_of(plan) is None


@pytest.mark.soak
@mutants
def test_a_thousand_seeds_find_it(mutant):
    """Wherever the search begins."""
    for first in (1000, 2000):
        plan, failure = found_by(mutant, range(first, first + 1000))
        print(f"{mutant.__name__}: {plan.seed - first + 1} seeds, {failure}")


SHRINKS = (
    "an_unjudged_split_does_not_hold_up_the_end",
    "what_lies_behind_a_bad_block_is_forgotten",
    "rows_behind_forgotten",
)


@pytest.mark.parametrize(
    "mutant", [each for each in MUTANTS if each.__name__ in SHRINKS], ids=lambda each: each.__name__
)
def test_a_plan_that_fails_is_shrunk_and_its_command_repeats_it(mutant):
    """It has fewer elements, blocks or faults; the command has its seed, and what differs from what that draws."""
    plan, _ = found_by(mutant, range(MUTANTS[mutant][1], MUTANTS[mutant][1] + RANGE))
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        smallest = shrink(plan, failure_of, most=60)
        repeated = re.fullmatch(r"PYTHONPATH=tests \S+ -m simulation --seed (\d+) --plan '(.*)'", smallest.command())
        again = read(int(repeated[1]), repeated[2])
        assert again == smallest
        assert failure_of(again) == failure_of(smallest) is not None
    assert size_of(smallest) < size_of(plan)


def size_of(plan):
    return sum(size for _, size in plan.elements) + len(plan.elements) + len(plan.faults)
