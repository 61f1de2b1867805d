"""What a disk, an object store and HDFS have in common, whoever else writes there meanwhile."""

import io
import itertools
import os
import threading
from contextlib import nullcontext

import pytest
from support.hadoop import add_s3a
from support.power_loss import Recorder

from sdf.spark.door.hadoop import hadoop_files
from sdf.storage import ballots, disk
from sdf.storage.disk import Disk, has_links
from sdf.storage.places import storage_at

CLUSTERS = pytest.mark.clusters
numbers = itertools.count()


def at(place):
    return storage_at(place, "test", beyond=hadoop_files)


@pytest.fixture(
    params=[
        "disk",
        "volume",
        "S3",
        *(pytest.param(one, marks=CLUSTERS) for one in ("HDFS", "viewfs", "WebHDFS", "s3a")),
    ]
)
def place(request, tmp_path, monkeypatch):
    """A path or a URL where nothing is yet."""
    if request.param == "volume":
        Recorder(is_volume=True).patch(monkeypatch)
    if request.param in ("disk", "volume"):
        return str(tmp_path / "state" / "app")
    if request.param == "WebHDFS":
        return f"{request.getfixturevalue('hadoop').web}/state/app{next(numbers)}"
    if request.param == "s3a":
        server = request.getfixturevalue("s3_server")
        add_s3a(request.getfixturevalue("sc"), server.config)
        return f"s3a://{server.bucket()}/state/app"
    if request.param != "S3":
        hadoop, sc = request.getfixturevalue("hadoop"), request.getfixturevalue("sc")
        sc._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.test.link./state", f"{hadoop.url}/of-viewfs")
        url = hadoop.url if request.param == "HDFS" else "viewfs://test"
        return f"{url}/state/app{next(numbers)}"
    return f"s3://{request.getfixturevalue('s3_server').bucket()}/state/app"


@pytest.fixture
def storage(place):
    return at(place)


def test_what_is_created_is_there(storage):
    """Whole, for everybody."""
    storage.create("blocks/1", b"one")
    storage.create("empty", b"")
    other = at(str(storage.root))
    assert (other.read("blocks/1"), other.size("blocks/1")) == (b"one", 3)
    assert (other.read("empty"), other.size("empty")) == (b"", 0)


def test_what_is_there_is_not_created_again(storage, place):
    """Neither by another writer nor by the same one; nothing changes."""
    storage.create("blocks/1", b"one")
    for writer in (storage, at(place)):
        with pytest.raises(FileExistsError):
            writer.create("blocks/1", b"two")
    assert storage.read("blocks/1") == b"one"


def test_of_many_creators_one_wins(place):
    """They begin at the same time, and each writes its name."""
    writers = [at(place) for _ in range(8)]
    begin, won = threading.Barrier(len(writers)), []

    def run(writer):
        begin.wait()
        try:
            writer.create("blocks/1", writer.writer.encode())
        except FileExistsError:
            return
        won.append(writer.writer)

    threads = [threading.Thread(target=run, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [writers[0].read("blocks/1").decode()]


def test_what_is_replaced_is_the_new_one(storage):
    """Whether it was there or not."""
    storage.replace("HEAD", b"1")
    storage.replace("HEAD", b"22")
    assert (storage.read("HEAD"), storage.size("HEAD")) == (b"22", 2)


def test_what_is_not_there_is_no_file(storage):
    """Neither is a directory; and to remove it again is no error."""
    assert (storage.size("blocks/1"), storage.names("blocks"), storage.names("")) == (None, [], [])
    with pytest.raises(FileNotFoundError):
        storage.read("blocks/1")
    storage.remove("blocks/1")
    storage.sync("blocks")


def test_what_is_removed_is_gone(storage):
    """For this writer and for others."""
    storage.create("ahead/plan", b"1")
    storage.remove("ahead/plan")
    assert (storage.size("ahead/plan"), storage.names("ahead")) == (None, [])
    storage.create("ahead/plan", b"2")


def test_names_are_those_right_below(storage):
    """In order, with their directory; no directories, nothing of a directory whose name begins alike."""
    for name in ("b/2", "b/10", "b/1", "b/c/3", "bb/4", "HEAD", "b/half.tmp-1"):
        storage.replace(name, b"x")
    assert storage.names("b") == ["b/1", "b/10", "b/2"]
    assert storage.names("") == ["HEAD"]
    assert (storage.half_written("b"), storage.half_written("")) == (["b/half.tmp-1"], [])


def test_names_of_more_than_a_page(storage, place, request):
    """Stores and NameNodes list a thousand at a time."""
    names = [f"blocks/{number:05d}" for number in range(1002)]
    if place.startswith("s3"):
        bucket, _, key = place.partition("://")[2].partition("/")
        request.getfixturevalue("s3_server").put(bucket, [f"{key}/{name}" for name in names])
    elif place.startswith("webhdfs:"):
        for name in names:
            storage.upload(name, io.BytesIO())
    elif "://" in place:
        for name in names:
            storage._files.createNewFile(storage._path(name))
    else:
        for name in names:
            (storage.root / "blocks").mkdir(parents=True, exist_ok=True)
            (storage.root / name).write_bytes(b"x")
    assert storage.names("blocks") == names


def test_a_relative_directory_stays_where_it_was(tmp_path, monkeypatch):
    """The program may change its working directory meanwhile: one journal must not become two."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    storage = storage_at("state", "test")
    storage.create("blocks/1", b"one")
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        storage.create("blocks/1", b"two")
    storage.replace("blocks/2", b"two")
    assert storage.names("blocks") == ["blocks/1", "blocks/2"]
    assert str(storage.root) == str(tmp_path / "state")


# Disks that have less


def test_a_place_is_asked_what_it_has(tmp_path, monkeypatch):
    """By trying it; nothing stays there."""
    assert has_links(tmp_path)
    Recorder(is_volume=True).patch(monkeypatch)
    assert not has_links(tmp_path)
    assert os.listdir(tmp_path) == []


def test_drivers_that_know_a_place_as_different_disks_share_it(tmp_path, monkeypatch):
    """Such as two hosts that mount it in two ways, or one after the files were copied: who is first is first."""
    Disk(tmp_path).create("blocks/0", b"with links")
    with monkeypatch.context() as patch:
        Recorder(is_volume=True).patch(patch)
        volume = Disk(tmp_path)
        with pytest.raises(FileExistsError):
            volume.create("blocks/0", b"without links")
        volume.create("blocks/1", b"without links")
        assert (volume.read("blocks/0"), volume.size("blocks/0")) == (b"with links", 10)
    with pytest.raises(FileExistsError):
        Disk(tmp_path).create("blocks/1", b"with links")
    assert (Disk(tmp_path).read("blocks/1"), Disk(tmp_path).size("blocks/1")) == (b"without links", 13)


@pytest.mark.parametrize("is_volume", [False, True], ids=["disk", "volume"])
@pytest.mark.parametrize("torn", [b"", b"#sdf s", b"\0" * 99, b"#sdf sealed 4 0123\nte"], ids=repr)
def test_a_torn_file_counts_as_not_written(tmp_path, monkeypatch, torn, is_volume):
    """Until a driver creates it; the one that did not end it has lost, also when it ends it later."""
    monkeypatch.setattr(ballots, "_DOUBT_SECONDS", 0)
    Recorder(is_volume=is_volume).patch(monkeypatch)
    (tmp_path / "1").write_bytes(torn)
    storage = Disk(tmp_path)
    assert storage.size("1") is None
    with pytest.raises(FileNotFoundError):
        storage.read("1")
    storage.create("1", b"one")
    (tmp_path / "1").write_bytes(ballots._sealed(b"late"))
    assert (storage.read("1"), storage.size("1"), storage.names("")) == (b"one", 3, ["1"])
    storage.remove("1")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("data", [b"", b"#sdf s", b"#sdf sealed 1", b"\0" * 20], ids=repr)
def test_content_that_looks_torn_is_kept_all_the_same(storage, data):
    """It is sealed on a disk, however it is published."""
    storage.create("created", data)
    storage.replace("replaced", data)
    assert [storage.read(name) for name in ("created", "replaced")] == [data, data]
    assert [storage.size(name) for name in ("created", "replaced")] == [len(data)] * 2


def test_a_disk_that_renames_onto_free_names_only_replaces_too(tmp_path, monkeypatch):
    """What is replaced may be missing after a crash; whoever replaces files can do without."""

    class FreeNamesOnly(Recorder):
        def replace(self, source, target):
            if os.path.exists(target):
                raise FileExistsError(17, "the name is taken")
            super().replace(source, target)

    FreeNamesOnly().patch(monkeypatch)
    storage = Disk(tmp_path)
    for content in (b"1", b"2"):
        storage.replace("HEAD", content)
    assert (storage.read("HEAD"), os.listdir(tmp_path)) == (b"2", ["HEAD"])


@pytest.mark.parametrize("gone", ["state", "state/blocks"])
def test_a_directory_that_has_gone_is_not_made_again(tmp_path, gone):
    """It was unmounted, say: the disk below shows an empty one, where a log must not go on."""
    storage = Disk(tmp_path / "state")
    storage.create("blocks/1", b"one")
    (tmp_path / gone).rename(tmp_path / "elsewhere")
    for write in (storage.create, storage.replace):
        with pytest.raises(FileNotFoundError, match=r"It was there, and was unmounted or removed: '.*/state"):
            write("blocks/2", b"two")
        with pytest.raises(FileNotFoundError) if gone == "state" else nullcontext():
            write(f"{write.__name__}/1", b"of a directory of its own")
    assert not (tmp_path / gone).exists()
    (tmp_path / "elsewhere").rename(tmp_path / gone)
    storage.create("blocks/2", b"two")


def test_an_error_of_a_sync_is_raised(tmp_path, monkeypatch):
    """It is only a disk that never syncs a directory whose refusal counts for nothing."""

    class Failing(Recorder):
        def fsync(self, handle):
            if os.path.isdir(self.handles[handle]):
                raise OSError(5, "Input/output error")

    Failing().patch(monkeypatch)
    with pytest.raises(OSError, match="Input/output error"):
        Disk(tmp_path).create("1", b"one")
    monkeypatch.setattr(disk.os, "link", lambda source, target: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space left"):
        Disk(tmp_path).create("2", b"two")
