"""A mount without hard links, appending and syncs of directories holds what a disk holds: tried on a real one."""

import os
from pathlib import Path

import pytest
from support.at_once import at_once
from support.sinking import save
from support.volume import mounted

from sdf.journal.journal import Journal
from sdf.saving.run_log import RunLog
from sdf.sinks import DeltaTable, ParquetFiles, TextFiles, Token
from sdf.storage.disk import Disk, has_links


@pytest.fixture(scope="module", params=[(), ("--at-close", "--late-seconds", "1")], ids=["plain", "late"])
def volume(request, tmp_path_factory):
    """Mount a volume, with what is written and listed at once, or late."""
    with mounted(tmp_path_factory.mktemp("volume"), *request.param) as path:
        yield path


@pytest.fixture
def place(volume, request):
    """A directory of the test's own there."""
    path = volume / request.node.name.partition("[")[0]
    path.mkdir()
    return path


def test_a_volume_lacks_what_sdf_does_without(place):
    """Else these tests would show nothing."""
    (place / "file").write_bytes(b"1")
    with pytest.raises(OSError):
        os.link(place / "file", place / "link")
    with pytest.raises(OSError):
        os.open(place / "file", os.O_WRONLY | os.O_APPEND)
    handle = os.open(place, os.O_RDONLY)
    with pytest.raises(OSError):
        os.fsync(handle)
    os.close(handle)
    assert not has_links(place)


def create_all(place, name, number):
    """Create files that other processes create too; return those that were created here."""
    disk, won = Disk(place), []
    for at in range(number):
        try:
            disk.create(f"blocks/{at}", name)
        except FileExistsError:
            continue
        won.append(at)
    return won


def test_of_processes_that_create_a_file_one_wins(place):
    """In each of 50 races."""
    names = (b"a", b"b", b"c")
    won = at_once(*((create_all, place, name, 50) for name in names))
    assert sorted(at for one in won for at in one) == list(range(50))
    assert {at: Disk(place).read(f"blocks/{at}") for at in range(50)} == {
        at: name for name, one in zip(names, won, strict=True) for at in one
    }


def test_a_journal_and_a_log_are_kept_there(place):
    """Each read by the next driver."""
    for number in range(4):
        journal = Journal(Disk(place / "journal"), config={}, inputs=["a"], clock=lambda: 1)
        assert journal.head.seq == number
        journal.write_ahead("pin-0", number)
        journal.advance([1], 1, checkpoint=[journal.put(b"%d" % number)], watermark=number, status="running")
        log = RunLog(Disk(place / "log"), driver=f"{number}", clock=lambda: 1)
        assert list(log.read()) == list(range(number))
        log.append([number])


def test_files_are_published_there(place):
    """Each line once, and the marker."""
    sink = TextFiles(place / "out")
    save(sink, ["a", "b"], ["c"])
    files = [Path(sink.path, name) for name in ("_SUCCESS", "segment-0-0.txt", "segment-1-0.txt")]
    assert [file.read_text() for file in files[1:]] == ["a\nb\n", "c\n"]
    assert files[0].exists()


def test_rows_are_published_there(place):
    """As another reader finds them."""
    parquet = pytest.importorskip("pyarrow.parquet")
    sink = ParquetFiles(place / "out")
    save(sink, [{"n": 1}, {"n": 2}], [{"n": 3}])
    files = [f"{sink.path}/segment-{number}-0.parquet" for number in range(2)]
    assert [parquet.ParquetFile(file).read().to_pylist() for file in files] == [[{"n": 1}, {"n": 2}], [{"n": 3}]]


@pytest.mark.parametrize("volume", [()], indirect=True)
def test_a_delta_table_is_written_there(place):
    """In one version for each run. delta-rs finds a version by a listing, which must not be late."""
    deltalake = pytest.importorskip("deltalake")
    sink = DeltaTable(place / "table")
    for number in range(3):
        save(sink, [{"n": number}], token=Token(f"run {number}", 0))
    rows = deltalake.DeltaTable(sink.path).to_pyarrow_table().to_pylist()
    assert sorted(row["n"] for row in rows) == [0, 1, 2]
