"""What ``python -m sdf.journal`` says of saved runs, and which of their files it removes."""

import re

import pytest
from support.fns import CountFn
from support.memory import Memory
from test_saving import Runs

from sdf.errors import JournalFencedError
from sdf.execution.expansion import expand
from sdf.execution.invoker import Residual
from sdf.model.restrictions import OffsetRange
from sdf.saving.command import main
from sdf.saving.history import History
from sdf.saving.run_log import RunLog
from sdf.saving.tool import run
from sdf.scheduling.run_state import RunState


def begun(elements, committed=0, storage=None):
    """Return the storage of a run whose first ``committed`` elements are committed; each has three positions."""
    runs = Runs(storage)
    saving = runs.driver()
    work, todo = runs.begun(saving, elements)
    if committed:
        runs.commit(saving, work, [item for item, _ in todo[:committed]])
    saving.close()
    return runs.storage


@pytest.mark.parametrize("what", ["show", "verify", "clean"])
def test_what_is_no_checkpoint_of_a_saved_run_is_left_to_others(what, capsys):
    """The journal's own tool shows the checkpoint of a stream."""
    storage = Memory({"blocks/0": b"{}"})
    assert run(what, storage) is None
    assert (capsys.readouterr().out, list(storage.files)) == ("", ["blocks/0"])


@pytest.mark.parametrize(("elements", "lines", "more"), [(2, 1, 0), (21, 20, 0), (22, 20, 1), (50, 20, 29)])
def test_show_names_what_is_left_of_twenty_elements_and_counts_the_others(elements, lines, more, capsys):
    """One element is done."""
    assert run("show", begun(elements, committed=1)) == 0
    told = capsys.readouterr().out
    assert told.count(": 0.0% done, left: OffsetRange(start=0, stop=3)") == lines
    assert (f"  ... and {more} more" in told) == (more > 0)
    assert ("  ... and " in told) == (more > 0)
    assert f"elements: 1 of {elements} done; {1 / elements:.1%} of the work" in told


def test_show_says_how_far_an_element_is_and_names_three_of_the_parts_that_are_left(capsys):
    """And how long the rest may take: 4 of 10 positions took a second."""
    runs = Runs()
    saving, work = runs.driver(), RunState(CountFn())
    ((item, _),) = saving.begin(work, lambda: [expand(CountFn(), ("a", 10))])
    work.ledger.assign("lane", [item])
    parts = [OffsetRange(at, at + 1) for at in range(9, 3, -1)]
    work.split("lane", item.id, OffsetRange(0, 4), list(map(Residual, parts)))
    saving.commit(work.ledger.commit_first("lane", 1, item.id, "part"), ["main", "bad"], [4, 0], 1.0)
    saving.close()
    assert run("show", runs.storage) == 0
    told = capsys.readouterr().out
    assert re.search(r"\('a', 10\): 40\.0% done, left: (OffsetRange\(start=\d, stop=\d+\)(, )?){3} and 3 more\n", told)
    assert "0 of 1 done; 40.0% of the work" in told
    assert "left: about 2 s of one slot, going by the 1 s so far" in told


@pytest.mark.parametrize("what", ["show", "verify"])
def test_who_only_looks_changes_nothing(what):
    """A driver may be at work; ``verify`` reads all."""
    storage = begun(2)
    before = dict(storage.files)
    assert run(what, storage) == 0
    assert storage.files == before


def test_clean_fences_the_driver_and_removes_what_nothing_names(capsys):
    """What the log names stays, and the run goes on."""
    storage = begun(2, committed=1)
    before = dict(storage.files)
    storage.files["blobs/stray"] = b"written before a crash"
    assert run("clean", storage) == 0
    assert "removed 1 files that crashes had left" in capsys.readouterr().out
    assert {name: storage.files[name] for name in before} == before
    assert len(storage.files) == len(before) + 1


def test_clean_keeps_what_the_log_names_of_a_run_that_was_given_up():
    """A reader of the log reads all of it. No driver works on that run, so none is fenced."""
    storage = begun(2, committed=1)
    log = RunLog(storage, driver="gives up", clock=lambda: 0)
    history = History(log)
    log.append([["aborted"]])
    assert history.blobs
    before = dict(storage.files)
    assert run("clean", storage) == 0
    assert storage.files == before
    begun(3, storage=storage)
    before = dict(storage.files)
    assert run("clean", storage) == 0
    assert {name: storage.files[name] for name in before} == before
    assert run("verify", storage) == 0


@pytest.mark.parametrize("retrying", [False, True])
def test_clean_fences_a_driver_that_tries_again_what_was_set_aside(retrying):
    """No driver works on a run that is done: nothing is written then."""
    runs = Runs()
    runs.end(failed=True)
    retry = runs.driver(retry=True) if retrying else None
    before = dict(runs.storage.files)
    assert run("clean", runs.storage) == 0
    assert (runs.storage.files != before) == retrying
    if retrying:
        with pytest.raises(JournalFencedError):
            retry.check_alone()


def test_a_log_that_is_broken_is_told_and_not_repaired(capsys, monkeypatch):
    """The exit code says so."""
    storage = begun(2, committed=1)
    (first, *_) = storage.names("log")
    storage.files[f"log/{first}"] = b"broken"
    monkeypatch.setattr("sdf.saving.command.storage_at", lambda where, who: storage)
    assert main(["verify", "anywhere"]) == 1
    assert capsys.readouterr().err
