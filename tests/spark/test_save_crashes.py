"""A driver that saves a run dies, or is overtaken, at every numbered point of what it does: each row is saved once."""

import functools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from support import saving
from support.crashing import Points
from support.fns import expected
from support.saving import ELEMENTS, SINKS, Death, Life, reaching, rows

from sdf import LiveRunner, StagedRunner
from sdf.errors import JournalFencedError

STAGED, LIVE = StagedRunner(), LiveRunner()
ALL = [pytest.param(runner, sink, id=f"{type(runner).__name__}-{sink}") for runner in (STAGED, LIVE) for sink in SINKS]


def every(some, more, soaking):
    """Parametrize with runner, sink and step between points: each runner and sink once; all of them when soaking."""
    cases = [(STAGED, "LinesSink"), (LIVE, "FolderSink")]
    few = [
        pytest.param(*case, step, id=f"{type(case[0]).__name__}-{case[1]}-{step}", marks=marks)
        for step, marks in ((some, ()), (more, pytest.mark.slow(f"the same test in larger steps of {some}")))
        for case in cases
    ]
    many = [pytest.param(*case.values, soaking, id=f"{case.id}-{soaking}", marks=pytest.mark.soak) for case in ALL]
    return pytest.mark.parametrize(("runner", "sink", "step"), [*few, *many])


ROWS = sorted(expected(ELEMENTS).elements())


@pytest.fixture(scope="module")
def whole(module_sc, tmp_path_factory):
    """Give a function that runs undisturbed, once for all tests, and returns the points that were passed.

    They are those of a second run: the first one of a context is slow, and has more.
    """

    @functools.cache
    def points_of(runner_type, sink):
        for _ in range(2):
            points, folder = Life(), tmp_path_factory.mktemp("whole")
            assert saving.run(module_sc, folder, runner_type(), points, sink=sink).records == len(ROWS)
            assert rows(folder / "out") == ROWS
            assert nothing_left(folder)
        return points.seen

    return lambda runner, sink: points_of(type(runner), sink)


def nothing_left(folder):
    """Whether only the result and the checkpoint are there."""
    return {path.name.removeprefix("_") for path in folder.iterdir()} <= {"out", "out.sdf"} and not [
        path for path in folder.rglob("*") if "stag" in path.name or "tmp" in path.name
    ]


def survive(sc, folder, runner, sink, *deaths):
    """Run until the run is saved, dying once at each of these points; return the points passed in each life."""
    folder.mkdir()
    passed = []
    for at in (*deaths, None):
        life = Life(at)
        try:
            summary = saving.run(sc, folder, runner, life, sink=sink)
        except Death:
            assert at is not None
        else:
            assert summary.records == len(ROWS)
        passed.append(life.seen)
        begun = any("before commit" in seen for seen in passed)
        done = any("after commit" in seen for seen in passed)
        assert rows(folder / "out") in ([ROWS] if done else [None, ROWS] if begun else [None])
    assert rows(folder / "out") == ROWS
    assert nothing_left(folder)
    return passed


# Dear: each death is followed by a run.
@every(14, 7, 1)
def test_a_run_survives_a_death_at_every_point(sc, tmp_path, whole, runner, sink, step):
    """Soaking, no point is left out. Nothing is visible before the commit, and nothing but the result is left."""
    points = whole(runner, sink)
    assert {
        "before sync log", "after create log", "after replace packs", "before remove log", "after replace blobs",
        "after prepare", "before commit", "after commit", "before clean",
    } <= set(points)  # fmt: skip
    assert {"FolderSink": "inside commit", "LinesSink": "after rename"}[sink] in points
    tried = range(1, len(points) + 1, step)

    def dies(at):
        seen, *_ = survive(sc, tmp_path / f"{at} {len(list(tmp_path.iterdir()))}", runner, sink, at)
        return seen, seen[-1:] if len(seen) == at else []

    died = [name for at in tried for name in reaching(at, points, dies)]
    print(f"\n{len(points)} points, died at {len(died)} of {len(tried)} tried: {sorted(set(died))}")
    assert len(died) > 0.7 * len(tried)


@every(90, 70, 5)
def test_a_resume_survives_deaths_too(sc, tmp_path, whole, runner, sink, step):
    """It dies, and dies again at some of the first points of its second life, and again of its third."""
    points = whole(runner, sink)
    deaths = wanted = 0
    for number, at in enumerate(range(1, len(points) + 1, step)):
        for again in (2 + number % 5, 13 + number % 7, 27 + number % 11):
            lives = survive(sc, tmp_path / f"{at}-{again}", runner, sink, at, again, again)
            deaths += sum(len(life) == point for life, point in zip(lives, (at, again, again), strict=False))
            wanted += 3
    print(f"\n{deaths} deaths of {wanted} that were tried")
    assert deaths > 0.6 * wanted


@every(28, 14, 1)
def test_a_driver_that_stops_while_another_one_saves_the_run_changes_nothing(sc, tmp_path, whole, runner, sink, step):
    """As SIGSTOP at every point, a second run to the end, then SIGCONT: it has lost, or says the same."""
    points = whole(runner, sink)
    tried = range(1, len(points) + 1, step)

    def stopped(at):
        folder, second, overtaken = tmp_path / f"{at} {len(list(tmp_path.iterdir()))}", [], False
        folder.mkdir()

        def overtake():
            second.append(saving.run(sc, folder, runner, sink=sink))
            assert rows(folder / "out") == ROWS

        first = Points(overtake, at)
        try:
            assert saving.run(sc, folder, runner, first, sink=sink).records == len(ROWS)
        except JournalFencedError:
            overtaken = True
        assert rows(folder / "out") == ROWS
        assert all(one.records == len(ROWS) for one in second)
        return first.seen, overtaken

    overtaken = sum(reaching(at, points, stopped) for at in tried)
    print(f"\n{len(points)} points: of {len(tried)} drivers {overtaken} were overtaken")
    assert overtaken > 0.4 * len(tried)


@every(28, 14, 2)
def test_a_driver_that_stops_while_another_one_begins_and_dies_may_not_go_on(sc, tmp_path, whole, runner, sink, step):
    """The other one dies at any of its points; if it had taken over, the first one stops, and a third one ends it."""
    points = whole(runner, sink)
    tried = range(1, len(points) + 1, step)

    def stopped(at):
        number = len(list(tmp_path.iterdir()))
        folder, other, overtaken = tmp_path / f"{at} {number}", Life(3 + 17 * number % 60), False
        folder.mkdir()

        def overtake():
            with suppress(Death):
                saving.run(sc, folder, runner, other, sink=sink)

        first = Points(overtake, at)
        try:
            assert saving.run(sc, folder, runner, first, sink=sink).records == len(ROWS)
        except JournalFencedError:
            overtaken = True
            assert other.seen
        assert saving.run(sc, folder, runner, sink=sink).records == len(ROWS)
        assert rows(folder / "out") == ROWS
        assert nothing_left(folder)
        return first.seen, (other.dead, overtaken)

    found = [reaching(at, points, stopped) for at in tried]
    deaths, overtaken = (sum(each) for each in zip(*found, strict=True))
    print(f"\n{len(points)} points: of {len(tried)} others {deaths} died, and {overtaken} had taken over")
    assert deaths > 0.5 * len(tried)
    assert overtaken > 0.3 * len(tried)


@pytest.mark.soak
@pytest.mark.parametrize(("runner", "sink"), ALL)
def test_a_process_may_die_at_any_point(sc, tmp_path, whole, runner, sink):
    """With os._exit() in a process of its own: nothing is closed, and its JVM goes on with the jobs that it began."""
    points = whole(runner, sink)
    gateway = sc._gateway.gateway_parameters
    shared = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    tried = range(1, len(points) + 1, 5)

    def die_for_good(at):
        folder = tmp_path / str(at)
        folder.mkdir()
        command = [sys.executable, saving.__file__, str(folder), type(runner).__name__, sink, str(at)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=900, check=False, env=os.environ | shared
        )
        assert done.returncode in (0, 9), done.stderr
        return folder, done.returncode == 9

    with ThreadPoolExecutor(2) as pool:
        lives = list(pool.map(die_for_good, tried))
    for folder, _ in lives:
        assert rows(folder / "out") in (None, ROWS)
        saving.run(sc, folder, runner, sink=sink)
        assert rows(folder / "out") == ROWS
    deaths = sum(died for _, died in lives)
    print(f"\n{len(points)} points, {deaths} of {len(tried)} processes died")
    assert deaths > 0.7 * len(tried)
