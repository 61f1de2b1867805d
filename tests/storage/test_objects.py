"""Objects: replies that get lost, writes that meet, servers and clients that overwrite, caches, and errors."""

import re

import pytest

pytest.importorskip("moto")
pytest.importorskip("s3fs")

import fsspec

from sdf.errors import InvalidValueError, JournalDiskError, MissingExtraError
from sdf.journal.journal import Journal
from sdf.storage.objects import Objects
from sdf.storage.places import storage_at


@pytest.fixture
def url(s3_server):
    return f"s3://{s3_server.bucket()}/state"


@pytest.fixture
def objects(s3_server, url):
    """The store has been tried out: what a test counts are its own requests."""
    objects = storage_at(url, "test")
    objects.create("first", b"")
    s3_server.asked.clear()
    return objects


def puts(what, times, key="one"):
    """Return what disturbs so many writes of a key."""
    left = iter(range(times))

    def disturb(environ):
        mine = environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].endswith(f"/{key}")
        return what if mine and next(left, None) is not None else None

    return disturb


def written(server, key="one"):
    """Return how often a key was written, or tried to."""
    return sum(method == "PUT" and path.endswith(f"/{key}") for method, path in server.asked)


def test_an_object_whose_reply_was_lost_is_ours(s3_server, objects):
    """The client sends it again by itself, and is refused because of its own object."""
    with s3_server.disturbed(puts("lose the reply", 1)):
        objects.create("one", b"mine")
    assert (written(s3_server), objects.read("one")) == (2, b"mine")


def test_an_object_of_another_is_not_ours_even_if_a_reply_was_lost(s3_server, objects, url):
    """What was lost is that it is there already."""
    storage_at(url, "test").create("one", b"other")
    with s3_server.disturbed(puts("lose the reply", 1)), pytest.raises(FileExistsError):
        objects.create("one", b"mine")
    assert objects.read("one") == b"other"


def test_an_object_that_is_gone_when_we_look_whose_it_was_is_not_ours(s3_server, objects, url):
    """Its writer has removed it meanwhile."""
    other = storage_at(url, "test")
    other.create("one", b"mine")

    def remove_it_before_it_is_read(environ):
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            s3_server.disturb = None
            other.remove("one")

    with s3_server.disturbed(remove_it_before_it_is_read), pytest.raises(FileExistsError):
        objects.create("one", b"mine")


def test_writes_that_met_are_sent_again(s3_server, objects):
    """The store could not say who was first, and asks for it."""
    with s3_server.disturbed(puts("conflict", 3)):
        objects.create("one", b"mine")
    assert (written(s3_server), objects.read("one")) == (4, b"mine")


def test_writes_that_meet_for_ever_are_an_error(s3_server, objects, monkeypatch):
    """Of the store, not of a file that exists."""
    monkeypatch.setattr("sdf.storage.objects._PAUSES_SECONDS", (0.0, 0.0))
    with s3_server.disturbed(puts("conflict", 100)), pytest.raises(OSError, match="At the same time") as caught:
        objects.create("one", b"mine")
    assert not isinstance(caught.value, FileExistsError)
    assert written(s3_server) == 3


def ignore_the_condition(environ):
    environ.pop("HTTP_IF_NONE_MATCH", None)


def test_a_store_that_overwrites_is_refused_before_anything_is_written(s3_server, url):
    """As old servers do, and as a client does that does not know the condition."""
    objects = storage_at(url, "test")
    objects.replace("one", b"there")
    with s3_server.disturbed(ignore_the_condition):
        for _ in range(2):
            with pytest.raises(OSError, match=rf"{url} creates an object that is there already.*If-None-Match"):
                objects.create("one", b"mine")
        with pytest.raises(JournalDiskError, match="creates an object that is there already"):
            open_journal(storage_at(url, "test"))
    assert objects.read("one") == b"there"
    assert (objects.names(""), objects.half_written("")) == (["one"], [])


def test_a_lost_reply_while_the_store_is_tried_out(s3_server, url):
    """It was refused to create something twice, which is all there is to know."""
    lost = iter([1])
    with s3_server.disturbed(
        lambda environ: "lose the reply" if "tmp-" in environ["PATH_INFO"] and next(lost, 0) else 0
    ):
        storage_at(url, "test").create("one", b"mine")


def test_a_store_is_tried_out_once(s3_server, objects):
    """Each driver does it before its first file; it costs three requests."""
    objects.create("one", b"1")
    objects.create("two", b"2")
    assert len(s3_server.asked) == 2


def test_a_client_that_caches_is_not_believed(s3_server, url):
    """What others have written and removed since is seen."""
    objects, other = Objects(s3_server.fs(use_listings_cache=True), url, "test"), storage_at(url, "test")
    other.create("blocks/1", b"1")
    assert objects.names("blocks") == ["blocks/1"]
    other.create("blocks/2", b"2")
    assert objects.names("blocks") == ["blocks/1", "blocks/2"]
    other.create("blocks/3", b"3")
    assert objects.size("blocks/3") == 1
    assert objects.names("blocks")[2:] == ["blocks/3"]
    other.create("blocks/4", b"4")
    assert objects.read("blocks/4") == b"4"
    assert objects.names("blocks")[3:] == ["blocks/4"]
    other.replace("blocks/4", b"four")
    assert (objects.size("blocks/4"), objects.read("blocks/4")) == (4, b"four")


def test_the_mark_of_a_directory_is_no_name(s3_server, objects, url):
    """As consoles and other programs make it."""
    s3_server.fs().call_s3("put_object", Bucket=url.split("/")[2], Key="state/blocks/", Body=b"")
    objects.create("blocks/1", b"1")
    assert objects.names("blocks") == ["blocks/1"]


def test_what_has_objects_below_it_is_no_object(objects):
    """Clients take it for a directory of no bytes."""
    objects.create("blocks/1", b"1")
    assert objects.size("blocks") is None


def test_to_remove_what_a_store_says_is_not_there_is_no_error(s3_server):
    """S3 says so of buckets only, other stores of each object."""
    storage_at("s3://absent/state", "test").remove("one")


def open_journal(storage):
    return Journal(storage, config={}, inputs=["a"], clock=lambda: 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endpoint_url": "http://127.0.0.1:1"}, "EndpointConnectionError"),
        ({"key": None, "secret": None, "profile": "nobody"}, "nobody"),
    ],
    ids=["away", "no credentials"],
)
def test_what_a_client_raises_is_an_oserror(s3_server, url, options, said):
    """Also what is none with it; so the journal says that nothing is lost."""
    objects = Objects(s3_server.fs(config_kwargs={"retries": {"max_attempts": 0}}, **options), url, "test")
    objects.fs.retries = 1
    with pytest.raises(OSError, match=said):
        objects.read("one")
    with pytest.raises(JournalDiskError, match=rf"the journal in {url} cannot be used: .*{said}"):
        open_journal(objects)


def test_a_bucket_that_is_not_there_is_said(s3_server):
    """A new journal cannot begin."""
    with pytest.raises(JournalDiskError, match="bucket does not exist"):
        open_journal(storage_at("s3://absent/state", "test"))


@pytest.mark.parametrize(
    ("protocol", "name"),
    [
        ("memory", "fsspec.implementations.memory.MemoryFileSystem"),
        ("file", "fsspec.implementations.local.LocalFileSystem"),
    ],
)
def test_a_file_system_that_looks_first_is_refused_by_name(protocol, name):
    """No trial can tell: it refuses the second creator, unless both look at the same time."""
    message = f"job must be on a store where of two writers that create a file one is refused (got '/x' on {name}, "
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        Objects(fsspec.filesystem(protocol), "/x", "job")


def test_a_library_that_does_not_send_the_condition_is_refused(s3_server, tmp_path, monkeypatch):
    """s3fs of October 2024 takes the wish to create, and overwrites."""
    (tmp_path / "s3fs-2024.10.0.dist-info").mkdir()
    (tmp_path / "s3fs-2024.10.0.dist-info" / "METADATA").write_text("Name: s3fs\nVersion: 2024.10.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"needs a newer s3fs: 2024\.10\.0 is installed.*'s3fs>=2024\.12'"):
        storage_at("s3://bucket/state", "job")
