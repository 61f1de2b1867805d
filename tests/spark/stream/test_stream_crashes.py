"""A stream dies at every point of its driver, and goes on: the sink's files hold every record once, all the same."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from support import crashing
from support.chains import watermarks_only
from support.crashing import Points, all_expected, expected, records

from sdf import stream_sdf
from sdf.errors import JournalFencedError
from sdf.journal.chain import verify
from sdf.storage.places import storage_at


class Death(BaseException):
    """Ends a stream as a crash does: nothing of the product catches it."""


def die():
    raise Death


CHAINED = pytest.mark.slow("test_a_stream_survives_deaths_one_after_the_other")
ON_S3 = pytest.mark.slow("the same test on a disk, and tests/journal/test_journal_places.py on S3")
disk = pytest.mark.parametrize("checkpoint", ["disk"], indirect=True)


def some_on_s3(on_disk, on_s3, *, soaking):
    """Mark a test that tries every so many of the points: fewer on S3, which takes longer, but all when soaking."""
    waiting = [pytest.param("disk", on_disk, marks=CHAINED), pytest.param("S3", on_s3, marks=CHAINED)]
    soaked = [pytest.param(place, soaking, marks=pytest.mark.soak) for place in ("disk", "S3")]
    return pytest.mark.parametrize(("checkpoint", "every"), [*waiting, *soaked], indirect=["checkpoint"])


@pytest.fixture(scope="module", params=["disk", pytest.param("S3", marks=ON_S3)])
def checkpoint(request):
    """Give a function that returns the checkpoint of a test that has a folder."""
    if request.param == "disk":
        return lambda folder: str(folder / "journal")
    bucket = request.getfixturevalue("s3_server").bucket()
    return lambda folder: f"s3://{bucket}{folder}"


@pytest.fixture(scope="module")
def passed():
    """The points of a stream that nothing disturbs, by its kind of checkpoint."""
    return {}


@pytest.fixture
def points(sc, checkpoint, passed, tmp_path_factory):
    """What a stream passes that nothing disturbs."""
    if checkpoint not in passed:
        passed[checkpoint] = undisturbed(sc, checkpoint, tmp_path_factory.mktemp("whole"))
    return passed[checkpoint]


def undisturbed(sc, checkpoint, folder):
    (folder / "out").mkdir()
    whole = Points(die)
    summary = crashing.run(sc, checkpoint(folder), folder / "out", whole)
    assert records(folder / "out") == all_expected()
    assert (summary.records, summary.done) == (len(expected()), True)
    assert len(watermarks_only(chain_in(checkpoint(folder)))) == 1
    return whole.seen


def chain_in(place):
    return [block.data for block in verify(storage_at(place, "the test"))]


def survive(sc, folder, place, *deaths):
    """Run a stream that dies at these points, one life after the other, and then to its end.

    What a sink had been given before a death is given again under the same number.

    Returns:
        The points that each life has passed, and whether there was a batch in which only the watermark moved.
    """
    out = folder / "out"
    out.mkdir()
    passed = []
    given = {}
    for at in (*deaths, None):
        life = Points(die, at)
        try:
            crashing.run(sc, place, out, life)
        except Death:
            assert at is not None
        passed.append(life.seen)
        for path in out.iterdir():
            content = json.loads(path.read_text())
            if len(content) > 1:
                assert given.setdefault(path.name, content) == content
    assert records(out) == all_expected()
    chain = chain_in(place)
    assert chain[-1]["status"] == "done"
    assert chain[-1]["output"]["stop"] == len(expected())
    return passed, bool(watermarks_only(chain))


def test_every_kind_of_point_is_there(points):
    """Stage, pin, sink, checkpoint, block, head and cleaning up, for all steps."""
    assert {
        "after create ahead start", "after create ahead pin-0", "after create ahead pin-1", "after create ahead pin-2",
        "after stage of step 0", "after stage of step 1", "after stage of step 2",
        "inside sink", "inside sink that hears of a watermark",
        "after replace blobs", "after create blocks", "after replace HEAD",
        "after remove ahead pin-2", "after remove blobs",
    } <= set(points)  # fmt: skip


IN_ORDER = [
    "after create ahead start", "after stage of step 0",
    "after create ahead pin-0", "after create ahead pin-1", "after create ahead pin-2",
    "inside sink", "after sink", "after replace blobs", "after create blocks", "after replace HEAD",
    "after remove ahead pin-0", "after remove ahead pin-2", "after remove blobs",
    "inside sink that hears of a watermark", "after create blocks",
]  # fmt: skip
BACKWARDS = ["after replace HEAD", "inside sink", "after create ahead pin-1"]  # each dies a batch after the one before


@disk
@pytest.mark.parametrize("names", [IN_ORDER, BACKWARDS], ids=["in order", "backwards"])
def test_a_stream_survives_deaths_one_after_the_other(sc, checkpoint, tmp_path, names):
    """After all that changes what the next life finds: each life dies at another such point."""
    lives, moved = survive(sc, tmp_path, checkpoint(tmp_path), *names)
    assert [life[-1] for life in lives[:-1]] == names
    assert moved


@some_on_s3(9, 27, soaking=1)
def test_a_stream_survives_a_death_at_every_point(sc, checkpoint, points, tmp_path, every):
    """Each time the output is that of the run that nothing disturbed; soaking, no point is left out."""
    died, moved = [], 0
    tried = range(1, len(points) + 1, every)
    for at in tried:
        folder = tmp_path / str(at)
        folder.mkdir()
        (first, _), has_moved = survive(sc, folder, checkpoint(folder), at)
        moved += has_moved
        if len(first) == at:
            died.append(first[-1])
    print(f"\n{len(points)} points, died at {len(died)} of {len(tried)} tried: {sorted(set(died))}")
    print(f"in {moved} of them only the watermark moved in one batch")
    assert min(len(died), moved) > 0.8 * len(tried)  # a run that splits elsewhere may be shorter


@some_on_s3(80, 160, soaking=9)
def test_a_stream_survives_deaths_during_recovery(sc, checkpoint, points, tmp_path, every):
    """It dies, and dies again at each of the first points of its second life, and again of its third."""
    deaths = wanted = 0
    for at in range(1, len(points) - 20, every):  # so that the lives after it have points to die at
        for again in (1, 4, 9):
            folder = tmp_path / f"{at}-{again}"
            folder.mkdir()
            lives, _ = survive(sc, folder, checkpoint(folder), at, again, again)
            deaths += sum(len(life) == point for life, point in zip(lives, (at, again, again), strict=False))
            wanted += 3
    print(f"\n{deaths} deaths of {wanted} that were tried")
    assert deaths > 0.8 * wanted  # a run that splits elsewhere may be shorter


def die_for_good(place, out, point, jvm):
    """Run the stream in a process of its own that dies with os._exit() at a point: nothing is closed."""
    command = [sys.executable, crashing.__file__, place, str(out), str(point)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=os.environ | jvm)
    assert done.returncode in (0, 9), done.stderr
    return done.returncode == 9


@pytest.mark.soak
@pytest.mark.parametrize(("every", "jvm"), [(1, "the test's"), (10, "its own")])
def test_a_process_may_die_at_any_point(sc, checkpoint, points, tmp_path, every, jvm):
    """At some the next process dies too, at the first, fourth and ninth of its recovery.

    Its JVM dies with it, or lives on, with the jobs that it had begun.
    """
    gateway = sc._gateway.gateway_parameters
    shared = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    plans = [(at,) for at in range(1, len(points) + 1, every)]
    plans += [(at, again) for at in range(1, len(points) + 1, 9 * every) for again in (1, 4, 9)]

    def live(plan):
        folder = tmp_path / "-".join(map(str, plan))
        (folder / "out").mkdir(parents=True)
        gateway = shared if jvm == "the test's" else {}
        return folder, sum(die_for_good(checkpoint(folder), folder / "out", point, gateway) for point in plan)

    with ThreadPoolExecutor(2) as pool:
        lives = list(pool.map(live, plans))
    for folder, _ in lives:
        crashing.run(sc, checkpoint(folder), folder / "out", Points(die))
        assert records(folder / "out") == all_expected()
        assert chain_in(checkpoint(folder))[-1]["status"] == "done"
    deaths, wanted = sum(died for _, died in lives), sum(map(len, plans))
    print(f"\n{len(points)} points, {len(plans)} plans, {deaths} of {wanted} processes died, the JVM: {jvm}")
    assert deaths > 0.8 * wanted  # a run that splits elsewhere may be shorter


@pytest.mark.slow("test_of_two_drivers_on_one_checkpoint_one_is_fenced_out")
def test_of_two_processes_on_one_checkpoint_one_is_fenced_out(checkpoint, tmp_path):
    """Both begin at once; the other runs to its end, and each record is there once."""
    out, ready = tmp_path / "out", tmp_path / "ready"
    out.mkdir()
    ready.mkdir()
    command = [sys.executable, crashing.__file__, checkpoint(tmp_path), str(out), "0", str(ready)]
    drivers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [driver.communicate(timeout=900)[1] for driver in drivers]
    assert sorted(driver.returncode for driver in drivers) == [0, 1]
    fenced = next(text for driver, text in zip(drivers, said, strict=True) if driver.returncode == 1)
    assert "JournalFencedError" in fenced
    assert records(out) == all_expected()
    assert chain_in(checkpoint(tmp_path))[-1]["status"] == "done"


@disk
def test_of_two_drivers_on_one_checkpoint_one_is_fenced_out(sc, checkpoint, tmp_path):
    """They meet before each batch is given, until one is fenced; both are given the same, and each record is there."""
    meeting, given, names = threading.Barrier(2), {}, crashing.NamesFn()

    def sink(batch):
        with suppress(threading.BrokenBarrierError):
            meeting.wait(300)
        records = batch.rdd.collect()
        assert given.setdefault(batch.id, records) == records

    def drive(_):
        try:
            return stream_sdf(sc.parallelize([6], 1), names, checkpoint=checkpoint(tmp_path), foreach_batch=sink).done
        except JournalFencedError:
            return "fenced"
        finally:
            meeting.abort()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(drive, range(2)), key=str) == [True, "fenced"]
    assert sorted(record for records in given.values() for record in records) == [(f"6.{i}", 5 + i) for i in range(6)]
    assert chain_in(checkpoint(tmp_path))[-1]["status"] == "done"
