"""A driver that saves a run dies, or is overtaken, at every numbered point of what it does: each row is saved once."""

import pytest
from support import saving
from support.crashing import Points
from support.fns import expected
from support.saving import ELEMENTS, rows

from sdf import LiveRunner, StagedRunner
from sdf.errors import JournalFencedError

RUNNERS = pytest.mark.parametrize("runner", [StagedRunner(), LiveRunner()], ids=lambda runner: type(runner).__name__)
ROWS = sorted(expected(ELEMENTS).elements())


class Death(BaseException):
    """Ends a driver as a crash does: nothing of the product catches it."""


def die():
    raise Death


def whole(sc, folder, runner):
    """Run once undisturbed; return the points that were passed."""
    folder.mkdir()
    points = Points(die)
    assert saving.run(sc, folder, runner, points).records == len(ROWS)
    assert rows(folder / "out") == ROWS
    return points.seen


def survive(sc, folder, runner, *deaths):
    """Run until the run is saved, dying once at each of these points; return the points passed in each life."""
    folder.mkdir()
    passed = []
    for at in (*deaths, None):
        life = Points(die, at)
        try:
            summary = saving.run(sc, folder, runner, life)
        except Death:
            assert at is not None
            assert rows(folder / "out") in (None, ROWS)  # nothing, or all
        else:
            assert summary.records == len(ROWS)
        passed.append(life.seen)
    assert rows(folder / "out") == ROWS
    assert not list(folder.glob("out.stage*"))
    return passed


@RUNNERS
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_a_run_survives_a_death_at_every_point(sc, tmp_path, runner, every):
    """Soaking, no point is left out."""
    points = whole(sc, tmp_path / "whole", runner)
    assert {
        "after create log", "after replace blobs", "after prepare", "before commit", "inside commit", "after commit",
        "before clean",
    } <= set(points)  # fmt: skip
    tried = range(1, len(points) + 1, every)
    died = []
    for at in tried:
        lives = survive(sc, tmp_path / str(at), runner, at)
        died += lives[0][-1:] if len(lives[0]) == at else []
    print(f"\n{len(points)} points, died at {len(died)} of {len(tried)} tried: {sorted(set(died))}")
    assert len(died) > 0.7 * len(tried)  # a run that splits elsewhere may be shorter


@RUNNERS
@pytest.mark.parametrize("every", [11, pytest.param(2, marks=pytest.mark.soak)])
def test_a_resume_survives_deaths_too(sc, tmp_path, runner, every):
    """It dies, and dies again at some of the first points of its second life, and again of its third."""
    points = whole(sc, tmp_path / "whole", runner)
    deaths = wanted = 0
    for at in range(1, len(points) + 1, every):
        for again in (2, 6, 11):
            lives = survive(sc, tmp_path / f"{at}-{again}", runner, at, again, again)
            deaths += sum(len(life) == point for life, point in zip(lives, (at, again, again), strict=False))
            wanted += 3
    print(f"\n{deaths} deaths of {wanted} that were tried")
    assert deaths > 0.6 * wanted


@RUNNERS
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_a_driver_that_stops_while_another_one_saves_the_run_changes_nothing(sc, tmp_path, runner, every):
    """As SIGSTOP at every point, a second run to the end, then SIGCONT: it has lost, or says the same."""
    points = whole(sc, tmp_path / "whole", runner)
    tried = range(1, len(points) + 1, every)
    overtaken = same = 0
    for at in tried:
        folder = tmp_path / str(at)
        folder.mkdir()
        second = []

        def overtake(folder=folder, second=second):
            second.append(saving.run(sc, folder, runner))
            assert rows(folder / "out") == ROWS

        try:
            summary = saving.run(sc, folder, runner, Points(overtake, at))
        except JournalFencedError:
            overtaken += 1
        else:
            same += 1
            assert summary.records == len(ROWS)
        assert rows(folder / "out") == ROWS
        assert all(one.records == len(ROWS) for one in second)
    print(f"\n{len(points)} points: of {len(tried)} drivers {overtaken} were overtaken, {same} ended with the same")
    assert overtaken > 0.4 * len(tried)
