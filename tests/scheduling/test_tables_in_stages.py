"""Elements in tables of one row to all of them, in stages, while workers are killed and executors are lost."""

import re
from collections import Counter

import pytest
from support.simulated_tables import StagedTables

from sdf import OffsetRange
from sdf.errors import SdfError
from sdf.execution.bulk.invoker import TableInvoker
from sdf.execution.bulk.table import Table
from sdf.scheduling.ledger import Ledger

SEEDS = 100
RUNS = [0, *(pytest.param(run, marks=pytest.mark.soak) for run in range(1, 20))]
HAPPENED = ("rows", "cut inside a row", "cut between rows", "deferred inside a row", "deferred before a claim")
HAPPENED += ("rows behind", "workers killed", "executors lost", "attempts lost with executors", "copies")
HAPPENED += ("receipts late", "receipts doubled", "retries")


@pytest.mark.parametrize("run", RUNS)
def test_every_record_exactly_once_whatever_happens_when(run):
    """Also where all stored blocks are lost, and what the tasks have committed is run again."""
    counts = Counter()
    for seed in range(run * SEEDS, (run + 1) * SEEDS):
        try:
            counts.update(StagedTables(seed).check())
        except Exception as error:
            raise AssertionError(f"StagedTables({seed}).check()") from error
    print(f"{SEEDS} runs: {dict(counts)}")
    assert [what for what in HAPPENED if not counts[what]] == []


def failures(schedules=40):
    """Yield how schedules fail that find out a bug; without one all pass (above)."""
    for seed in range(schedules):
        try:
            StagedTables(seed).check()
        except (AssertionError, SdfError) as error:
            yield f"{type(error).__name__}: {error}"


def rows_behind_forgotten(monkeypatch):
    monkeypatch.setattr(TableInvoker, "_settle", lambda self, running: None)


def replay_without_truncation(monkeypatch):
    monkeypatch.setattr(Ledger, "content", lambda self, owner: [node.item for node in self._owned[owner].values()])


def a_part_of_a_row_begins_one_block_late(monkeypatch):
    range_of = Table.range_of

    def late(self, row, rows):
        whole = range_of(self, row, rows)
        inside = rows.start[1] > 0 and row == rows.first
        return OffsetRange(min(whole.start + inside, whole.stop), whole.stop)

    monkeypatch.setattr(Table, "range_of", late)


MUTANTS = {
    rows_behind_forgotten: "do not add up|not exactly once",
    replay_without_truncation: "a replay gave something else",
    a_part_of_a_row_begins_one_block_late: "not exactly once",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_seeded_bug_is_found(mutant, monkeypatch):
    """Which check speaks first is the schedules' affair."""
    mutant(monkeypatch)
    assert any(re.search(MUTANTS[mutant], failure) for failure in failures())
