"""What a disk, an object store and HDFS have in common, whoever else writes there meanwhile."""

import itertools
import threading

import pytest

from sdf.spark.door.hadoop import hadoop_files
from sdf.storage.places import storage_at

CLUSTERS = pytest.mark.clusters
numbers = itertools.count()


def at(place):
    return storage_at(place, "test", beyond=hadoop_files)


@pytest.fixture(params=["disk", "S3", *(pytest.param(one, marks=CLUSTERS) for one in ("HDFS", "viewfs"))])
def place(request, tmp_path):
    """A path or a URL where nothing is yet."""
    if request.param == "disk":
        return str(tmp_path / "state" / "app")
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
    if place.startswith("s3://"):
        bucket, _, key = place.removeprefix("s3://").partition("/")
        request.getfixturevalue("s3_server").put(bucket, [f"{key}/{name}" for name in names])
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
