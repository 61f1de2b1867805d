"""Every guard has a test that fails when the guard is taken out: each mutant of sdf here must be caught."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sdf

ONCE = "spark/test_exactly_once.py::"
MUTANTS = {
    "a reader believes any block": (
        "spark/blocks.py",
        "if next(block, None) != committed:",
        "if next(block, None) is None:",
        ONCE + "test_blocks_lost_before_the_first_action_and_again_later",
    ),
    "a reader believes any attempt": (
        "spark/blocks.py",
        "if next(block, None) != committed:",
        "if next(block, None) is None:",
        ONCE + "test_only_one_of_two_attempts_counts",
    ),
    "a lost block is computed again by the clock": (
        "spark/stage.py",
        "if context.getLocalProperty(STAGE_PROPERTY) != ",
        "if None == ",
        ONCE + "test_blocks_lost_before_the_first_action_and_again_later",
    ),
    "a second attempt is committed too": (
        "ledger.py",
        "        if owner in self._sealed:\n            return None\n",
        "        self._sealed.pop(owner, None)\n",
        ONCE + "test_only_one_of_two_attempts_counts",
    ),
    "a residual is dropped": (
        "ledger.py",
        "todo += zip(children,",
        "todo += zip(children[1:], [] and",
        ONCE + "test_only_one_of_two_attempts_counts",
    ),
    "a block that was cut short is believed": (
        "spark/blocks.py",
        "if not isinstance(message, Receipt):",
        "if False:",
        ONCE + "test_a_block_without_its_receipt_is_refused",
    ),
    "a replay that gives something else is believed": (
        "spark/stage.py",
        "if found != self._counts[partition]:",
        "if False:",
        ONCE + "test_a_process_that_is_not_deterministic_is_found_out",
    ),
    "parts that do not add up are believed": (
        "expansion.py",
        '        if flaw is not None:\n            raise SplitError(f"its parts',
        '        if False:\n            raise SplitError(f"its parts',
        "spark/test_run_sdf.py::test_a_broken_dofn_is_an_error_that_names_it",
    ),
    "a failed run leaves its jobs": (
        "spark/staged.py",
        "            self._jobs.cancel()\n",
        "",
        "spark/test_run_sdf.py::test_a_failure_leaves_no_job_and_no_stored_block",
    ),
    "a task leaves its input unread": (
        "spark/stage.py",
        "((items, budget_seconds),) = partition",
        "items, budget_seconds = next(iter(partition))",
        "spark/test_run_sdf.py::test_setup_runs_once_per_worker",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name, tmp_path):
    """The test named beside it passes as things are (make test) and fails for the mutant."""
    module, before, after, test = MUTANTS[name]
    shutil.copytree(Path(sdf.__file__).parent, tmp_path / "sdf")
    path = tmp_path / "sdf" / module
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}"}
    tests = Path(__file__).parent.parent
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(tests / test)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 1, done.stdout[-2000:]
