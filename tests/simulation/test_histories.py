"""The same seed gives the same history, event by event: so a seed that fails can be run again."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation import plan as plans
from simulation.world import simulate

EACH = [plans.draw(seed, **switches) for seed in range(2) for switches in plans.COMBINATIONS]
DIGEST = """
from simulation import test_histories
for plan in test_histories.EACH:
    print(test_histories.digest(plan))
"""


def digest(plan):
    """Return the hash of what happens."""
    world = simulate(plan)
    return hashlib.sha256(repr((world.history, sorted(world.counts.items()))).encode()).hexdigest()


@pytest.fixture(scope="module")
def digests():
    return [digest(plan) for plan in EACH]


def test_the_same_plan_again(digests):
    """Two seeds of each combination."""
    assert [digest(plan) for plan in EACH] == digests
    assert len({*digests}) == len(EACH)


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_in_another_process(digests, hash_seed):
    """Where strings have other hashes."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.split() == digests, done.stderr


def test_the_command_prints_the_history():
    """And how often each thing has happened."""
    command = [sys.executable, "-m", "simulation", "--seed", "6", "--history"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    world = simulate(plans.draw(6))
    *_, last = world.history
    assert " ".join(map(str, last)) in done.stdout
    assert str(dict(world.counts)) in done.stdout


def test_many_seeds_in_two_processes():
    """Their counts are added up, and the command of each that fails is told."""
    command = [sys.executable, "-m", "simulation", "--seeds", "20", "--processes", "2"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "20 seeds in " in done.stdout
    assert done.stdout.endswith("0 wrong\n")
