"""S3 by Hadoop's client in the driver's JVM: what an S3 server does wrong, and a client that cannot refuse."""

import itertools

import pytest
from support.hadoop import add_s3a

from sdf.errors import InvalidValueError
from sdf.spark.door.hadoop import hadoop_files
from sdf.storage import namenode

pytestmark = pytest.mark.clusters


@pytest.fixture
def url(s3_server, sc):
    add_s3a(sc, s3_server.config)
    return f"s3a://{s3_server.bucket()}/state"


def puts(key, what, times):
    """Return what disturbs so many writes of a key."""
    left = itertools.repeat(what, times)

    def disturb(environ):
        mine = environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].endswith(f"/{key}")
        return next(left, None) if mine else None

    return disturb


@pytest.mark.parametrize("there", [None, b"other"], ids=["free", "taken"])
@pytest.mark.parametrize(("what", "writes"), [("lose the reply", 2), ("conflict", 2)])
def test_a_write_that_is_sent_again_counts_once(s3_server, url, monkeypatch, what, writes, there):
    """The client sends it again if the reply was lost; if it met another write, S3 asks for that."""
    monkeypatch.setattr(namenode, "_PAUSE_SECONDS", (0, 0))
    files = hadoop_files(url, "test")
    if there is not None:
        hadoop_files(url, "test").create("one", there)
    files.create("first", b"")  # the store is tried out
    s3_server.asked.clear()
    with s3_server.disturbed(puts("one", what, 1)):
        if there is None:
            files.create("one", b"mine")
        else:
            with pytest.raises(FileExistsError, match=f"{url}/one: RemoteFileChangedException: "):
                files.create("one", b"mine")
    assert sum(method == "PUT" and path.endswith("/one") for method, path in s3_server.asked) == writes
    assert files.read("one") == (there or b"mine")


def test_a_store_that_overwrites_is_refused_before_anything_is_written(s3_server, url):
    """As old servers do."""
    files = hadoop_files(url, "test")
    with (
        s3_server.disturbed(lambda environ: environ.pop("HTTP_IF_NONE_MATCH", None) and None),
        pytest.raises(OSError, match=rf"{url} creates an object that is there already.*If-None-Match"),
    ):
        files.create("one", b"mine")
    assert (files.names(""), files.half_written("")) == ([], [])


def test_a_client_without_conditional_writes_is_refused(url, sc):
    """As an older one is, which has not heard of them."""
    conf = sc._jsc.hadoopConfiguration()
    settings = {"fs.s3a.create.conditional.enabled": "false", "fs.s3a.impl.disable.cache": "true"}
    for name, value in settings.items():
        conf.set(name, value)
    try:
        with pytest.raises(InvalidValueError, match=r"job cannot be there .*S3AFileSystem without conditional writes"):
            hadoop_files(url, "job")
    finally:
        for name in settings:
            conf.unset(name)
