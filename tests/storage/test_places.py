"""Which storage a path or a URL means: a directory, objects, or none."""

import os
import sys
from pathlib import Path

import pytest

from sdf.errors import InvalidTypeError, InvalidValueError, MissingExtraError
from sdf.storage.disk import Disk
from sdf.storage.objects import Objects
from sdf.storage.places import storage_at
from sdf.storage.web_hdfs import WebHdfs


@pytest.mark.parametrize(
    ("where", "root"),
    [
        ("state/app", "state/app"),
        (Path("/state/app"), "/state/app"),
        ("a:b/c", "a:b/c"),
        ("./s3://x", "s3:/x"),
        ("file:///state/app", "/state/app"),
        ("file:/state/app", "/state/app"),
    ],
    ids=str,
)
def test_a_path_is_a_directory(where, root):
    """Also as a URL, with as many slashes as Java or Python write, and with a colon in a name."""
    storage = storage_at(where, "job")
    assert (type(storage), storage.root) == (Disk, Path(root).absolute())


@pytest.mark.parametrize("url", ["s3://bucket/state/app", "s3://bucket/state/app/", "s3://bucket"])
def test_a_url_of_s3_is_a_place_for_objects(url):
    """Nothing is asked of the store yet."""
    pytest.importorskip("s3fs")
    storage = storage_at(url, "job")
    assert (type(storage), storage.root) == (Objects, url.rstrip("/"))


def test_a_url_of_webhdfs_is_a_place_on_hdfs():
    """Nothing is asked of the NameNode yet."""
    pytest.importorskip("requests")
    storage = storage_at("webhdfs://me@node:9870/state/app/", "job")
    assert (type(storage), storage.root) == (WebHdfs, "webhdfs://me@node:9870/state/app")
    assert (storage.fs.url, storage.fs.pars) == ("http://node:9870/webhdfs/v1", {"user.name": "me"})


@pytest.mark.parametrize("where", ["webhdfs://node/ck", "webhdfs:/ck", "webhdfs://node:9870//ck"])
def test_a_url_of_webhdfs_names_the_port(where):
    """fsspec's own is that of an old Hadoop."""
    with pytest.raises(InvalidValueError, match=r"job must be like 'webhdfs://host:9870/state', .* its HTTP port"):
        storage_at(where, "job")


@pytest.mark.parametrize(
    ("where", "fix"),
    [
        ("hdfs:/ck", "Write it as webhdfs://host:9870/x"),
        ("hdfs://node:8020/ck", "Write it as webhdfs://host:9870/x"),
        ("dbfs:/ck", "/dbfs/x for dbfs:/x"),
        ("s3a:/bucket/ck", "use s3://"),
        ("s3a://bucket/ck", "use s3://"),
        ("S3N://bucket/ck", "use s3://"),
        ("wasbs://c@a.blob.core.windows.net/ck", "use abfs://"),
        ("memory://ck", "use an object store (s3://, gs:// or abfs://), or a disk"),
        ("https://host/ck", "use an object store"),
        ("simplecache::s3://bucket/ck", "use an object store"),
        ("file://host/ck", "write it as file:///x"),
    ],
)
def test_what_cannot_hold_a_log_is_refused_by_name(tmp_path, monkeypatch, where, fix):
    """No directory of that name is made; the message says who, what was given and what to use."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValueError) as caught:
        storage_at(where, "stream_sdf() checkpoint")
    assert str(caught.value).startswith(f"stream_sdf() checkpoint cannot be there (got {where!r}): ")
    assert fix in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "where", ["s3:/bucket/ck", Path("s3://bucket/ck"), "s3:///ck", "s3://bucket//ck", "gs://"], ids=str
)
def test_a_url_with_a_slash_too_few_or_too_many_is_refused(where):
    """As a Path does to it."""
    with pytest.raises(InvalidValueError, match=r"job must be like '(s3|gs)://bucket/state', as a string"):
        storage_at(where, "job")


def test_nothing_is_no_place():
    """It would be the working directory."""
    with pytest.raises(InvalidValueError, match="job must not be empty"):
        storage_at("", "job")


class BytesPath:
    def __fspath__(self):
        return b"state"


@pytest.mark.parametrize("where", [None, 7, b"state", BytesPath()], ids=lambda where: type(where).__name__)
def test_what_is_no_path_is_refused(where):
    """Before anything else is said of it."""
    with pytest.raises(InvalidTypeError, match="job must be a path, or a URL such as"):
        storage_at(where, "job")


@pytest.mark.parametrize(
    ("url", "library"),
    [("gs://b/c", "gcsfs"), ("abfs://c@a.dfs.core.windows.net/x", "adlfs"), ("webhdfs://n:1/x", "requests")],
)
def test_a_missing_library_is_named(monkeypatch, url, library):
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=f"job needs {library}.*pip install '{library}>=2"):
        storage_at(url, "job")


def test_no_two_places_share_a_client():
    """One that has gone wrong, or that lists from a cache, would spoil the other."""
    pytest.importorskip("s3fs")
    one, other = (storage_at("s3://bucket/state", "job") for _ in range(2))
    assert one.fs is not other.fs
    assert not one.fs.dircache.use_listings_cache
    assert one.writer != other.writer
