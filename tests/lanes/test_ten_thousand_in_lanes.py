"""10,000 blocks of which 37 fail, in saved lanes, while sinks raise, executors are lost and the storage is slow."""

import logging
from collections import Counter

import pytest
from support.simulated_ten_thousand import TenThousandBlocks

from sdf.quarantine import suspects
from sdf.quarantine.failures import DIED, HUNG, KILLED, RAISED

RUNS = [range(2), *(pytest.param(range(at, at + 20), marks=pytest.mark.soak) for at in range(0, 200, 20))]
HAPPENED = (
    RAISED,
    DIED,
    KILLED,
    HUNG,
    "innocents killed",
    "innocent suspects killed",
    "told",
    "lost with its worker",
    "sink errors",
)
HAPPENED += ("segments written slowly", "executors lost", "lanes lost with executors", "crash", "set aside")
SELDOM = (
    "sink errors of suspects",
    "suspects lost",
    "suspects lost with executors",
    "suspects given up",
    "slow storage",
)
SELDOM += ("drivers", "lost records of the log", "zombies", "leaves", "joins")


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """What cannot be told the driver is a warning, often here."""
    caplog.set_level(logging.CRITICAL, "sdf.lane")
    caplog.set_level(logging.CRITICAL, "sdf.coordinator")


@pytest.mark.parametrize("seeds", RUNS, ids=str)
def test_the_bad_blocks_are_listed_and_all_others_are_committed_once(seeds):
    """Nobody innocent is among them, not even one that is killed now and then, as others have taken the memory."""
    counts = Counter()
    for seed in seeds:
        try:
            counts.update(TenThousandBlocks(seed).check())
        except Exception as error:
            raise AssertionError(f"TenThousandBlocks({seed}).check()") from error
    print(f"{len(seeds)} runs: {dict(counts)}")
    must = HAPPENED if len(seeds) < 20 else HAPPENED + SELDOM
    assert [what for what in must if not counts[what]] == []


@pytest.mark.soak
def test_one_death_beside_others_would_list_innocent_blocks(monkeypatch):
    """The two deaths while nothing else runs are needed."""
    monkeypatch.setattr(suspects, "_DEATHS_WHEN_IDLE", 0)
    with pytest.raises(AssertionError, match="an innocent block is set aside"):
        print([TenThousandBlocks(seed).check() for seed in range(10)])
