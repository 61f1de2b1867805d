"""stream_sdf on a disk that is full, read-only, or has two drivers on it."""

import itertools
import subprocess
import threading

import pytest
from support.fns import SlowCountFn
from support.small_disk import fill
from support.streaming import grouped
from support.watching import lines, sink

from sdf import stream_sdf
from sdf.errors import JournalDiskError, JournalFencedError
from sdf.journal.chain import verify
from sdf.storage.disk import Disk

ELEMENTS = [("a", 60), ("b", 90)]
EXPECTED = sorted([name, number] for name, count in ELEMENTS for number in range(count))


@pytest.fixture
def stream(sc, tmp_path):
    """Give a function that runs a stream on a checkpoint; its sink writes a file for each batch."""
    (tmp_path / "out").mkdir()

    def run(checkpoint, **options):
        return stream_sdf(
            sc.parallelize(ELEMENTS),
            SlowCountFn(),
            **grouped(
                **{"checkpoint": checkpoint, "foreach_batch": sink(tmp_path / "out"), "batch_seconds": 0.2, **options}
            ),
        )

    return run


def test_a_full_disk_ends_the_stream_and_harms_nothing(stream, small_disk, tmp_path):
    """With any number of pages left it says so, and goes on from there when there is room."""
    checkpoint, failures = small_disk / "journal", []
    stream(checkpoint, max_batches=1)
    for pages in itertools.count():
        fill(small_disk, pages * 4096)
        try:
            done = stream(checkpoint, max_batches=1)
        except JournalDiskError as error:
            failures.append(str(error))
        else:
            assert done.batches == 1 or done.done  # a batch whose block was the last that found room has happened
            break
        finally:
            (small_disk / "fill").unlink()
        assert list(verify(Disk(checkpoint)))
    assert len(failures) > 2
    assert all("No space left on device" in one and "start the stream again" in one for one in failures)
    assert stream(checkpoint).done
    assert sorted(lines(tmp_path / "out")) == EXPECTED
    assert list(verify(Disk(checkpoint)))[-1].data["output"]["stop"] == len(EXPECTED)


def test_a_read_only_checkpoint_is_refused_before_any_work(stream, small_disk, tmp_path):
    """A new one, and one that has batches; nothing is given to the sink."""
    stream(small_disk / "journal", max_batches=1)
    given = lines(tmp_path / "out")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for name in ("journal", "new"):
        with pytest.raises(JournalDiskError, match="Read-only file system"):
            stream(small_disk / name)
    assert lines(tmp_path / "out") == given


def test_of_two_drivers_one_is_fenced_out(sc, stream, tmp_path):
    """Whatever they both gave to their sinks under one number is the same, and the chain is whole."""
    outcomes, given = [], [{}, {}]

    def drive(mine):
        def keep(batch):
            mine[batch.id] = batch.rdd.collect()

        try:
            outcomes.append(stream(tmp_path / "journal", foreach_batch=keep))
        except JournalFencedError as error:
            outcomes.append(error)

    drivers = [threading.Thread(target=drive, args=(mine,)) for mine in given]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join(120)
    fenced = [outcome for outcome in outcomes if isinstance(outcome, JournalFencedError)]
    assert (len(outcomes), len(fenced)) == (2, 1)
    assert "Run one driver for each checkpoint." in str(fenced[0])
    one, two = given
    assert all(one[number] == two[number] for number in one.keys() & two.keys())
    records = {**one, **two}
    assert sorted(list(record) for batch in records.values() for record in batch) == EXPECTED
    assert list(verify(Disk(tmp_path / "journal")))[-1].data["status"] == "done"
