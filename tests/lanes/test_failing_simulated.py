"""Saved lanes with quarantine under random schedules: blocks that fail are set aside, all others are committed once."""

import logging
from collections import Counter

import pytest
from support.simulated_failing import FailingSimulation

from sdf.quarantine.failures import DIED, HUNG, KILLED, RAISED

SCHEDULES = 300
CHUNKS = [*range(4), *(pytest.param(chunk, marks=pytest.mark.soak) for chunk in range(4, 40))]


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """What cannot be told the driver is a warning, thousands of times here."""
    caplog.set_level(logging.CRITICAL, "sdf.lane")
    caplog.set_level(logging.CRITICAL, "sdf.coordinator")


@pytest.mark.parametrize("chunk", CHUNKS)
def test_every_bad_block_is_set_aside_and_all_others_are_committed_once(chunk):
    """Whatever crashes, is lost or leaves meanwhile: lanes, their workers, suspects, drivers."""
    counts = Counter()
    for seed in range(chunk * SCHEDULES, (chunk + 1) * SCHEDULES):
        try:
            counts += FailingSimulation(seed).check()
        except Exception as error:
            raise AssertionError(f"FailingSimulation({seed}).check()") from error
    happened = (RAISED, DIED, KILLED, HUNG, "set aside", "told", "lost with its worker", "suspects lost", "drivers")
    for what in (*happened, "crash", "zombies", "leaves", "joins", "lost records of the log", "Split"):
        assert counts[what] > 0, f"{what}: {counts}"
