"""A stream dies at every point of its driver, and goes on: the sink's files hold every record once, all the same."""

import json
import subprocess
import sys
from pathlib import Path

import crashing
import pytest
from crashing import Points, expected, records

from sdf.chain import verify
from sdf.disk import Disk


class Death(BaseException):
    """Ends a stream as a crash does: nothing of the product catches it."""


def die():
    raise Death


@pytest.fixture(scope="module")
def points(sc, tmp_path_factory):
    """What a stream passes that nothing disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "out").mkdir()
    whole = Points(die)
    summary = crashing.run(sc, folder / "journal", folder / "out", whole)
    assert records(folder / "out") == expected()
    assert (summary.records, summary.done) == (len(expected()), True)
    return whole.seen


def survive(sc, folder, *deaths):
    """Run a stream that dies at these points, one life after the other, and then to its end; return the points passed.

    What a sink had been given before a death is given again under the same number.
    """
    out = folder / "out"
    out.mkdir()
    passed = []
    given = {}
    for at in (*deaths, None):
        life = Points(die, at)
        try:
            crashing.run(sc, folder / "journal", out, life)
        except Death:
            assert at is not None
        passed.append(life.seen)
        for path in out.iterdir():
            content = json.loads(path.read_text())
            if len(content) > 1:
                assert given.setdefault(path.name, content) == content
    assert records(out) == expected()
    chain = list(verify(Disk(folder / "journal")))
    assert chain[-1].data["status"] == "done"
    assert chain[-1].data["output"]["stop"] == len(expected())
    return passed


def test_every_kind_of_point_is_there(points):
    """Plan, stage, pin, sink, checkpoint, block, head and cleaning up, for both steps."""
    assert {
        "after create ahead start", "after create ahead plan-0", "after create ahead plan-1",
        "after create ahead pin-0", "after create ahead pin-1", "after stage of step 0", "after stage of step 1",
        "inside sink", "after replace blobs", "after create blocks", "after replace HEAD",
        "after remove ahead plan-1", "after remove blobs",
    } <= set(points)  # fmt: skip


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
def test_a_stream_survives_a_death_at_every_point(sc, points, tmp_path, every):
    """Each time the output is that of the run that nothing disturbed; of the long run no point is left out."""
    died = []
    tried = range(1, len(points) + 1, every)
    for at in tried:
        folder = tmp_path / str(at)
        folder.mkdir()
        lives = survive(sc, folder, at)
        if len(lives[0]) == at:
            died.append(lives[0][-1])
    print(f"\n{len(points)} points, died at {len(died)} of {len(tried)} tried: {sorted(set(died))}")
    assert len(died) > 0.8 * len(tried)  # a run that splits elsewhere may be shorter


@pytest.mark.long
def test_a_stream_survives_deaths_during_recovery(sc, points, tmp_path):
    """It dies, and dies again at each of the first points of its second life, and again of its third."""
    deaths = 0
    for at in range(1, len(points) + 1, 9):
        for again in (1, 4, 9):
            folder = tmp_path / f"{at}-{again}"
            folder.mkdir()
            lives = survive(sc, folder, at, again, again)
            deaths += sum(len(life) == point for life, point in zip(lives, (at, again, again), strict=False))
    print(f"\n{deaths} deaths")
    assert deaths > 0.8 * len(points)


@pytest.mark.long
def test_a_process_may_die_at_any_point(points, tmp_path):
    """The same with os._exit() in a process of its own: no handler runs, nothing is closed."""
    program = str(Path(crashing.__file__))

    def live(folder, point):
        return subprocess.run(
            [sys.executable, program, str(folder / "journal"), str(folder / "out"), str(point)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    died, tried = 0, range(1, len(points) + 1, 10)
    for at in tried:
        folder = tmp_path / str(at)
        (folder / "out").mkdir(parents=True)
        died += live(folder, at).returncode == 9
        done = live(folder, 0)
        assert done.returncode == 0, done.stderr
        assert records(folder / "out") == expected()
    print(f"\n{len(points)} points, {died} of {len(tried)} processes died")
    assert died > 0.8 * len(tried)
