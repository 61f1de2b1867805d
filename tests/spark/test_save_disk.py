"""save_sdf on a disk that is full: an error says so, nothing is lost, and the same call goes on when there is room."""

import itertools

import pytest
from support.fns import SlowCountFn, expected
from support.saving import rows
from support.small_disk import fill

from sdf import LiveRunner, StagedRunner, save_sdf
from sdf.errors import JournalDiskError, SinkError
from sdf.sinks import JsonLinesFiles

ELEMENTS = [("a", 60), ("b", 90)]
ROWS = sorted(expected(ELEMENTS).elements())


WITH_THE_OTHER = pytest.mark.slow("the same test with the other runner")


@pytest.mark.parametrize(
    ("full", "runner"),
    [
        pytest.param("target", StagedRunner(), id="target-StagedRunner"),
        pytest.param("checkpoint", LiveRunner(), id="checkpoint-LiveRunner"),
        pytest.param("target", LiveRunner(), id="target-LiveRunner", marks=WITH_THE_OTHER),
        pytest.param("checkpoint", StagedRunner(), id="checkpoint-StagedRunner", marks=WITH_THE_OTHER),
    ],
)
def test_a_full_disk_ends_the_run_and_harms_nothing(sc, tmp_path, small_disk, runner, full):
    """With any number of pages left; then the run goes on with one page more."""
    out = (small_disk if full == "target" else tmp_path) / "out"
    checkpoint = (small_disk if full == "checkpoint" else tmp_path) / "checkpoint"
    failures = []
    for pages in itertools.count():
        fill(small_disk, pages * 4096)
        try:
            save_sdf(
                sc.parallelize(ELEMENTS, 2), SlowCountFn(0.002), JsonLinesFiles(out), checkpoint=checkpoint,
                commit_seconds=0.05, runner=runner,
            )  # fmt: skip
            break
        except (JournalDiskError, SinkError) as error:
            failures.append(error)
            assert rows(out) in (None, ROWS)  # the log may be full when all is visible
        finally:
            (small_disk / "fill").unlink()
    assert len(failures) > 2
    for error in failures:
        assert "No space left on device" in str(error)
        assert "same call again" in str(error) or "run again to resume" in str(error)
        assert isinstance(error, SinkError if full == "target" else JournalDiskError)
    assert rows(out) == ROWS
