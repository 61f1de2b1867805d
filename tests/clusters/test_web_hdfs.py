"""Sinks on HDFS, by WebHDFS: the marker comes last, nothing is overwritten, and whatever dies is done again."""

import io
import itertools

import pytest
from support.sinking import TOKEN, DiedError, Points, place, prepare, run, save

from sdf.errors import SinkError
from sdf.sinks import JsonLinesFiles, ParquetFiles, TextFiles, Token
from sdf.storage.places import storage_at
from sdf.storage.web_hdfs import WebHdfs

pytestmark = pytest.mark.clusters
OTHER = Token("another run", 0)
numbers = itertools.count()


@pytest.fixture
def url(hadoop):
    """A place where nothing is yet."""
    return f"{hadoop.web}/sinks/{next(numbers)}"


@pytest.fixture
def sink(url):
    return TextFiles(f"{url}/out")


def content(url):
    """Return all files, and directories without any, below a URL, by their names."""
    here, found = storage_at(url, "test"), {}
    for name, (is_file, _) in here.listed("").items():
        if is_file:
            found[name] = here.read(name)
        else:
            below = content(f"{url}/{name}").items()
            found |= {f"{name}/{inner}": data for inner, data in below} or {f"{name}/": None}
    return found


def lines(sink):
    found = content(sink.path).items()
    return sorted(line for name, data in found if name.endswith(".txt") for line in data.decode().splitlines())


@pytest.mark.parametrize("kind", [TextFiles, JsonLinesFiles, ParquetFiles])
def test_what_is_committed_is_there_and_nothing_else(url, kind):
    """Staging has gone too."""
    save(kind(f"{url}/a/out"), ["a", "b"], [], ["c"])
    found = sorted(content(url))
    assert len(found) == 3
    assert found[0] == "a/out/_SUCCESS"
    assert all(name.startswith("a/out/segment-") for name in found[1:])


def test_a_name_with_odd_signs_is_a_name(hadoop):
    """As a URL of requests would have it otherwise."""
    sink = TextFiles(f"{hadoop.web}/odd/a b%25+ü#&=/out")
    save(sink, ["a"])
    assert lines(sink) == ["a"]


@pytest.mark.parametrize("name", ["theirs", "below/theirs", "_SUCCESS", "_committing", "segment-0.txt"])
def test_a_target_with_something_in_it_is_refused(sink, name):
    """By the preparation, and by the commit if it came later; nothing of it is touched."""
    prepare(sink)
    message = sink.write(iter(["a"]), place())
    storage_at(sink.path, "test").replace(name, b"theirs")
    with pytest.raises(SinkError, match="Nothing was changed there"):
        prepare(sink, token=OTHER)
    for _ in range(2):
        with pytest.raises(SinkError, match=r"(Nothing was changed there|has 6 bytes)"):
            sink.commit([message], TOKEN)
    found = content(sink.path)
    if name == "segment-0.txt":  # it looks as if it were this run's own until it is compared
        del found["_committing"]
    assert found == {name: b"theirs"}


def test_a_target_that_is_a_file_is_refused(url, sink):
    """It is no directory."""
    storage_at(url, "test").create("out", b"theirs")
    with pytest.raises(SinkError, match="is a file"):
        prepare(sink)


def test_two_runs_that_commit_to_one_target(sink):
    """The first claims it; the second changes nothing."""
    prepare(sink)
    prepare(sink, token=OTHER)
    messages = [sink.write(iter(["a"]), place("a")), sink.write(iter(["b"]), place("b", token=OTHER))]
    sink.commit([messages[0]], TOKEN)
    with pytest.raises(SinkError, match="not of this run"):
        sink.commit([messages[1]], OTHER)
    assert lines(sink) == ["a"]


@pytest.mark.parametrize("kind", [TextFiles, ParquetFiles])
def test_an_attempt_that_comes_after_the_end_leaves_nothing(url, kind):
    """It makes no directory."""
    sink = kind(f"{url}/a/out")
    prepare(sink)

    def records():
        sink.commit([], TOKEN)
        sink.clean(TOKEN)
        yield "zombie"

    with pytest.raises(SinkError, match="Parent directory doesn't exist"):
        sink.write(records(), place("zombie"))
    assert list(content(url)) == ["a/out/_SUCCESS"]


def test_a_segment_that_fails_leaves_nothing(sink):
    """Of what it has written."""
    prepare(sink)

    def records():
        yield "x" * (1 << 20)
        raise KeyError("the user's own")

    with pytest.raises(KeyError):
        sink.write(records(), place())
    assert list(content(sink.stage(TOKEN).where)) == ["nonce"]


def test_a_file_is_not_moved_onto_another(url):
    """Which somebody has put there since."""
    here, there = storage_at(f"{url}/a", "test"), storage_at(f"{url}/b", "test")
    here.create("one", b"mine")
    there.create("one", b"theirs")
    with pytest.raises(FileExistsError):
        here.move("one", there)
    assert (here.read("one"), there.read("one")) == (b"mine", b"theirs")


def lose_a_reply(monkeypatch, operation):
    """Break the connection after the first such request was done; return whether it was."""
    requests, lost = pytest.importorskip("requests"), []
    request = requests.Session.request

    def asked(session, method, url, *args, **options):
        answer = request(session, method, url, *args, **options)
        if options.get("params", {}).get("op") == operation and not lost:
            lost.append(url)
            raise requests.ConnectionError("reset by peer")
        return answer

    monkeypatch.setattr(requests.Session, "request", asked)
    return lost


@pytest.mark.parametrize("there", [None, b"other"], ids=["free", "taken"])
def test_a_file_whose_reply_was_lost_is_its_writers(url, monkeypatch, there):
    """And of nobody else."""
    storage = storage_at(url, "test")
    if there is not None:
        storage.create("one", there)
    lost = lose_a_reply(monkeypatch, "RENAME")
    if there is None:
        storage.create("one", b"mine")
    else:
        with pytest.raises(FileExistsError):
            storage.create("one", b"mine")
    assert lost
    assert (storage.read("one"), storage.names(""), storage.half_written("")) == (there or b"mine", ["one"], [])


def test_a_file_that_was_moved_though_the_reply_was_lost_is_there(sink, monkeypatch):
    """The NameNode does not find it in staging again."""
    prepare(sink)
    message = sink.write(iter(["a"]), place())
    with monkeypatch.context() as patch:
        patch.setattr(WebHdfs, "_put", lambda *args: None)  # of the claim and the marker, which are renamed too
        lost = lose_a_reply(patch, "RENAME")
        storage_at(sink.path, "test")._write("there", io.BytesIO(b"x"))
        sink.stage(TOKEN)._put(["segment-0.txt"])
    assert lost
    assert content(sink.path)["segment-0.txt"] == b"a\n"
    assert message["names"] == [["segment-0.txt", 2]]


def make_mortal(monkeypatch, points):
    for name in ("_write", "remove", "move", "_put"):
        monkeypatch.setattr(WebHdfs, name, points.around(name, getattr(WebHdfs, name)))


def test_a_run_that_dies_anywhere_is_resumed(url, monkeypatch):
    """At each change; who waits for the marker sees all or nothing."""
    segments, logged = {"one": ["a", "b"], "two": ["c"]}, {}
    points = Points(log=logged)
    with monkeypatch.context() as patch:
        make_mortal(patch, points)
        run(TextFiles(f"{url}/counted"), segments, logged)
    for at in points.states():
        sink, written = TextFiles(f"{url}/{at}/out"), {}
        with monkeypatch.context() as patch:
            make_mortal(patch, Points(at))
            with pytest.raises(DiedError):
                run(sink, segments, written)
        if "_SUCCESS" in content(sink.path):
            assert lines(sink) == ["a", "b", "c"]
        for _ in range(2):
            run(sink, segments, written)
        assert lines(sink) == ["a", "b", "c"]
        names = [name for name in content(f"{url}/{at}") if ".tmp-" not in name]
        assert len(names) == 3
        assert all(name.startswith("out/") for name in names)
    assert len(points.seen) > 15


def test_a_retry_adds_files_and_changes_none(url):
    """In the schema of the result."""
    pytest.importorskip("pyarrow")
    sink, retry = ParquetFiles(f"{url}/a/out"), Token(TOKEN.app, 1)
    save(sink, [{"x": 0.5, "y": "a"}])
    before = content(url)
    prepare(sink, token=retry)
    message = sink.write(iter([{"x": 1}]), place("later", token=retry))
    for _ in range(2):
        sink.commit([message], retry)
        prepare(sink, token=retry, resumed=True)
    sink.clean(retry)
    after = content(url)
    assert sorted(after) == sorted([*before, "a/out/later-0.parquet"])
    assert before.items() <= after.items()
