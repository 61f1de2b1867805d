"""ListObjects: what s3fs finds, wherever a bucket is cut; parts have keys, and no page is asked for twice."""

import re
from collections import Counter
from itertools import pairwise

import pytest

from sdf import ByteKeyRange, OffsetRange, run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, SourceError
from sdf.io import ListObjects, MatchFiles, ReadLines
from sdf.io.objects.keys import _following
from sdf.testing import check_dofn

NAMES = ["a", "b/c~", "b/d/é", "b/d/\U0001f40d", "b0", "p1/00", "p1/01", "p1/10", "p2", "z"]
LONG = "year=2026/month=11/day=05/part-"


@pytest.fixture(scope="module")
def fs(s3_server):
    return s3_server.fs()


@pytest.fixture(scope="module")
def filled(s3_server, fs):
    """Return a function that makes a bucket of objects with these names, and returns its URL."""

    def fill(names):
        bucket = s3_server.bucket()
        for name in names:
            fs.call_s3("put_object", Bucket=bucket, Key=name, Body=name.encode())
        return f"s3://{bucket}"

    return fill


@pytest.fixture(scope="module")
def small(filled):
    return filled([*NAMES, *(f"in/{name}" for name in NAMES)])


@pytest.fixture(scope="module")
def alike(filled):
    """Keys that differ only after 31 characters."""
    return filled([f"{LONG}{number:03}" for number in range(200)])


def names(url, files):
    return [file.path.removeprefix(f"{url}/") for file in files]


def parts(fn, url, *cuts):
    """Return what the parts between cuts give, in order."""
    edges = [b"", *cuts, b""]
    given = []
    for start, stop in pairwise(edges):
        given += fn.process(url, fn.create_tracker(url, ByteKeyRange(start, stop)))
    return given


def claimed(fn, url, count):
    """Return a tracker, and what process() gives after so many claims."""
    tracker = fn.create_tracker(url, fn.get_initial_restriction(url))
    outputs = fn.process(url, tracker)
    for _ in range(count):
        next(outputs)
    return tracker, outputs


@pytest.mark.parametrize("page_size", [1, 3, 1000])
@pytest.mark.parametrize("directory", ["", "/", "/in", "/in/b/"])
def test_objects_are_those_that_s3fs_finds(fs, small, directory, page_size):
    """In the order of their names, and with size, time and tag as MatchFiles gives them."""
    found = run_direct([small + directory], ListObjects(page_size=page_size))
    fs.invalidate_cache()
    assert [file.path for file in found] == [f"s3://{name}" for name in sorted(fs.find(small + directory))]
    assert found == run_direct([small + directory], MatchFiles())


def test_every_cut_gives_the_objects(small):
    """At keys, right after them, inside of them, and where no text begins or ends."""
    fn, expected = ListObjects(page_size=4), [f"{small}/in/{name}" for name in NAMES]
    keys = [name.encode() for name in NAMES]
    cuts = sorted(
        {*keys, *(key + b"\x00" for key in keys), *(key[:-1] + b"\xff" for key in keys), b"b/d/\x80\xc3\xa9z"}
    )
    url = f"{small}/in"
    wrong = [cut for cut in cuts if [file.path for file in parts(fn, url, cut)] != expected]
    assert wrong == []
    assert [file.path for file in parts(fn, url, *cuts)] == expected


def test_it_can_be_split_anywhere(small):
    """check_dofn splits it at every claim."""
    checked = check_dofn(ListObjects(page_size=3), f"{small}/in", seconds=120)
    assert (checked.complete, checked.records, checked.splits > 10) == (True, len(NAMES), True)


@pytest.mark.parametrize("seed", range(2))
def test_checkpoints_change_nothing(small, seed):
    """Split after each claim, the parts run in any order."""
    found = run_direct([f"{small}/in"], ListObjects(page_size=3), split_every=1, seed=seed)
    assert Counter(names(f"{small}/in", found)) == Counter(NAMES)


@pytest.mark.parametrize(("fraction", "first"), [(0.1, 110), (0.5, 150), (0.9, 190)])
def test_a_split_falls_where_keys_differ(alike, fraction, first):
    """However many characters they share, and though most characters never follow them."""
    fn = ListObjects(page_size=100)
    tracker, outputs = claimed(fn, alike, 1)
    _, residual = tracker.try_split(fraction)
    rest = names(alike, fn.process(alike, fn.create_tracker(alike, residual)))
    assert (len(list(outputs)) + 1, rest[0], len(rest)) == (first, f"{LONG}{first}", 200 - first)


def test_a_split_leaves_the_page_that_is_being_given(s3_server, alike):
    """Until one key is left behind it; so each part asks for pages of its own keys, and one more at most."""
    fn = ListObjects(page_size=30)
    tracker, outputs = claimed(fn, alike, 1)
    given = []
    while (pair := tracker.try_split(0.5)) is not None:
        s3_server.asked.clear()
        given += names(alike, fn.process(alike, fn.create_tracker(alike, pair[1])))
        assert given
        assert len(s3_server.asked) <= -(-len(given) // 30) + 1
    assert len(list(outputs)) + 1 == 31  # the page, and the key behind it
    assert len(given) == 169


def test_what_is_left_of_a_page_is_not_split(s3_server, alike):
    """And the store is not asked: it would take longer than the rest does."""
    fn = ListObjects(page_size=50)
    tracker, _ = claimed(fn, alike, 151)
    s3_server.asked.clear()
    assert tracker.try_split(0.5) is None
    assert s3_server.asked == []


def test_all_that_is_unclaimed_can_be_cut_off(s3_server, alike):
    """Behind the key that was claimed, without a question: so a task ends early."""
    fn = ListObjects(page_size=50)
    tracker, outputs = claimed(fn, alike, 10)
    s3_server.asked.clear()
    key = f"{LONG}009".encode()
    assert tracker.try_split(0) == (ByteKeyRange(b"", key + b"\x00"), ByteKeyRange(key + b"\x00", b""))
    assert list(outputs) == []
    assert s3_server.asked == []
    tracker.check_done()


def test_what_has_not_begun_is_cut_without_the_store(s3_server):
    """The driver plans, and may not reach it. A text lies halfway if all printable characters are as frequent."""
    tracker = ListObjects().create_tracker("s3://bucket/in", ByteKeyRange(b"a3\x00", b"a9\x00"))
    asked = len(s3_server.asked)
    primary, residual = tracker.try_split(0.5)
    assert (primary, residual) == (ByteKeyRange(b"a3\x00", b"a6\x00"), ByteKeyRange(b"a6\x00", b"a9\x00"))
    assert len(s3_server.asked) == asked


@pytest.mark.parametrize(
    "whole", [ByteKeyRange(), ByteKeyRange(b"\xc3\xa9\x00", b"\xc3\xaa\x00"), ByteKeyRange(b"a", b"a\x00")]
)
@pytest.mark.parametrize("fraction", [0.01, 0.5, 0.99])
def test_cuts_of_what_has_not_begun_add_up(whole, fraction):
    """Or there is none, where no printable text lies between."""
    pair = ListObjects().create_tracker("s3://bucket", whole).try_split(fraction)
    assert pair is None or whole.is_tiled_by(pair)


def test_a_run_begins_with_parts_that_have_keys(filled):
    """The first characters in which keys differ behind the first page."""
    url = filled(["2025/67", "2025/89", "2026/1", "2026/2", "2027/1", "2027/2", "2028/1"])
    fn = ListObjects(page_size=2)
    pieces = list(fn.split_restriction(url, ByteKeyRange()))
    given = [names(url, fn.process(url, fn.create_tracker(url, piece))) for piece in pieces]
    assert given == [["2025/67", "2025/89", "2026/1", "2026/2"], ["2027/1", "2027/2"], ["2028/1"]]


def test_few_objects_are_one_piece(small):
    """No more than a page."""
    assert list(ListObjects().split_restriction(small, ByteKeyRange())) == [ByteKeyRange()]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, ["a.gz", "d/b.gz", "d/c"]), ({"regex": r".*\.gz"}, ["a.gz", "d/b.gz"])],
    ids=["all", "regex"],
)
def test_what_is_hidden_and_what_marks_a_directory_is_left_out(filled, options, expected):
    """As MatchFiles does."""
    url = filled(["_SUCCESS", "_tmp/x.gz", "a.gz", "d/", "d/.x.gz", "d/b.gz", "d/c"])
    assert names(url, run_direct([url], ListObjects(**options))) == expected


def test_hidden_names_too(filled):
    """If that is asked for."""
    url = filled(["_SUCCESS", "_tmp/x", "d/", "d/.x"])
    assert names(url, run_direct([url], ListObjects(hidden=True))) == ["_SUCCESS", "_tmp/x", "d/.x"]


def test_a_directory_does_not_have_what_only_begins_as_it_does(filled):
    """Its name ends with a slash."""
    url = filled(["d/a", "d0/b", "d-/c"])
    assert names(url, run_direct([f"{url}/d"], ListObjects())) == ["d/a"]


def test_readers_take_what_it_gives(small):
    """It is pinned, as what MatchFiles gives."""
    assert run_direct(run_direct([f"{small}/in/p1"], ListObjects()), ReadLines()) == [
        "in/p1/00",
        "in/p1/01",
        "in/p1/10",
    ]


def test_a_directory_on_a_disk_is_listed_in_one_piece(tmp_path):
    """As MatchFiles does it."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    fn = ListObjects()
    assert fn.get_initial_restriction(tmp_path) == OffsetRange(0, 1)
    assert run_direct([tmp_path], fn) == run_direct([tmp_path], MatchFiles())
    assert check_dofn(fn, tmp_path).complete


def test_a_directory_bucket_is_listed_in_one_piece(s3_server):
    """Its keys come in no order."""
    url = "s3://name--use1-az4--x-s3/in"
    fn = ListObjects()
    assert fn.get_initial_restriction(url) == OffsetRange(0, 1)
    assert list(fn.split_restriction(url, OffsetRange(0, 1))) == [OffsetRange(0, 1)]


def test_a_directory_without_objects_is_an_error(small):
    """Unless that may be."""
    message = f"ListObjects: '{small}/none' has no objects. Pass missing_ok=True if that may be."
    with pytest.raises(SourceError, match=re.escape(message)):
        run_direct([f"{small}/none"], ListObjects())
    assert run_direct([f"{small}/none"], ListObjects(missing_ok=True)) == []


def test_a_bucket_that_is_not_there_is_an_error(s3_server):
    """It says which."""
    with pytest.raises(SourceError, match="ListObjects: there is no bucket 'nobucket'"):
        run_direct(["s3://nobucket/in"], ListObjects())


def test_a_store_that_does_not_answer_is_an_error():
    """The words of its client, and the directory."""
    options = {"endpoint_url": "http://127.0.0.1:1", "config_kwargs": {"retries": {"max_attempts": 0}}}
    fn = ListObjects(storage_options={**options, "key": "key", "secret": "secret"})
    with pytest.raises(SourceError, match="ListObjects cannot reach 's3://bucket/in/': "):
        run_direct(["s3://bucket/in"], fn)


@pytest.mark.parametrize("element", [5, None, b"s3://bucket"], ids=repr)
def test_wrong_element(element):
    """It says what an element is."""
    with pytest.raises(
        InvalidTypeError, match=re.escape(f"ListObjects lists a bucket or a directory (got {element!r}).")
    ):
        run_direct([element], ListObjects())


def test_a_page_has_no_more_keys_than_s3_gives():
    """It would give fewer, and say nothing."""
    with pytest.raises(InvalidValueError, match=re.escape("ListObjects page_size must be <= 1000 (got 1001): ")):
        ListObjects(page_size=1001)


@pytest.mark.parametrize(
    ("text", "following"), [("ab", "ac"), ("a\ud7ff", "a\ue000"), ("a\U0010ffff", "a\U0010ffff")], ids=ascii
)
def test_the_text_after_all_that_begin_alike(text, following):
    """It can be sent to the store, as half a character cannot."""
    assert _following(text) == following
    following.encode()
