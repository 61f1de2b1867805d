"""Sinks on S3: the marker comes last, nothing is overwritten, and whatever dies is done again."""

import os

import pytest
from support.sinking import TOKEN, DiedError, Points, place, prepare, run, save

from sdf.errors import InvalidValueError, SinkError
from sdf.sinks import JsonLinesFiles, ParquetFiles, TextFiles, Token, on_objects
from sdf.storage.objects import Objects

s3fs = pytest.importorskip("s3fs")
OTHER = Token("another run", 0)


@pytest.fixture
def store(s3_server):
    """Give a file system, and the URL of a bucket."""
    return s3_server.shared_fs, f"s3://{s3_server.bucket()}"


@pytest.fixture
def sink(store):
    return TextFiles(f"{store[1]}/a/out")


def content(fs, url):
    """Return all objects below a URL, by their names."""
    fs.invalidate_cache()
    root = fs._strip_protocol(url)
    return {path.removeprefix(f"{root}/"): fs.cat_file(path) for path in fs.find(root)}


def lines(fs, sink):
    found = content(fs, sink.path)
    return sorted(line for name, data in found.items() if name.endswith(".txt") for line in data.decode().splitlines())


@pytest.mark.parametrize("kind", [TextFiles, JsonLinesFiles, ParquetFiles])
def test_what_is_committed_is_there_and_nothing_else(store, kind):
    """Staging has gone too."""
    fs, url = store
    sink = kind(f"{url}/a/out")
    save(sink, ["a", "b"], [], ["c"])
    found = sorted(content(fs, url))
    assert len(found) == 3
    assert found[0] == "a/out/_SUCCESS"
    assert all(name.startswith("a/out/segment-") for name in found[1:])


@pytest.fixture
def small_parts(monkeypatch):
    """The smallest that S3 takes."""
    monkeypatch.setattr(on_objects, "_PART_BYTES", 5 << 20)


def test_others_read_what_was_written(store, s3_server, small_parts):
    """pyarrow and pandas, from several files of several parts."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pandas = pytest.importorskip("pandas")
    fs, url = store
    schema = {"id": pa.int64(), "data": pa.binary()}  # not found from the first 16 MiB
    sizes = {"target_bytes": 8 << 20, "row_group_bytes": 1 << 20}
    sink = ParquetFiles(f"{url}/out", compression=None, schema=schema, **sizes)
    records = [{"id": number, "data": os.urandom(160_000)} for number in range(100)]
    [message] = save(sink, records)
    assert message["files"] == 2
    bucket = url.removeprefix("s3://")
    found = pq.read_table(f"{bucket}/out", filesystem=fs).sort_by("id")
    assert found.to_pylist() == records
    frame = pandas.read_parquet(sink.path, storage_options=s3_server.config)
    assert sorted(frame["id"]) == list(range(100))


def test_no_records_make_a_marker(store):
    """And a file with the schema, if one is given."""
    pa = pytest.importorskip("pyarrow")
    fs, url = store
    save(TextFiles(f"{url}/none"), [])
    assert list(content(fs, f"{url}/none")) == ["_SUCCESS"]
    save(ParquetFiles(f"{url}/schema", schema={"x": pa.int64()}), [])
    assert list(content(fs, f"{url}/schema")) == ["_SUCCESS", "empty.parquet"]


def test_nothing_is_visible_before_the_commit(store, sink):
    """What no message names stays out for ever."""
    fs, url = store
    prepare(sink)
    sink.write(iter(["lost"]), place("lost"))
    kept = sink.write(iter(["kept"]), place("kept"))
    assert content(fs, sink.path) == {}
    sink.commit([kept], TOKEN)
    assert lines(fs, sink) == ["kept"]
    sink.clean(TOKEN)
    assert sorted(content(fs, url)) == ["a/out/_SUCCESS", "a/out/kept-0.txt"]


@pytest.mark.parametrize("name", ["theirs", "below/theirs", "_SUCCESS", "_committing", "segment-0.txt"])
def test_a_target_with_something_in_it_is_refused(store, sink, name):
    """By the preparation, and by the commit if it came later; nothing of it is touched."""
    fs, _ = store
    prepare(sink)
    message = sink.write(iter(["a"]), place())
    fs.pipe(f"{sink.path}/{name}", b"theirs")
    with pytest.raises(SinkError, match="Nothing was changed there"):
        prepare(sink, token=OTHER)
    for _ in range(2):
        with pytest.raises(SinkError, match=r"(Nothing was changed there|has 6 bytes)"):
            sink.commit([message], TOKEN)
    found = content(fs, sink.path)
    if name == "segment-0.txt":  # it looks as if it were this run's own until it is compared
        del found["_committing"]
    assert found == {name: b"theirs"}


def test_a_target_that_is_an_object_is_refused(store, sink):
    """It is no directory."""
    store[0].pipe(sink.path, b"theirs")
    with pytest.raises(SinkError, match="is an object"):
        prepare(sink)


def test_two_runs_that_commit_to_one_target(store, sink):
    """The first claims it; the second changes nothing."""
    fs, _ = store
    prepare(sink)
    prepare(sink, token=OTHER)
    messages = [sink.write(iter(["a"]), place("a")), sink.write(iter(["b"]), place("b", token=OTHER))]
    sink.commit([messages[0]], TOKEN)
    with pytest.raises(SinkError, match="not of this run"):
        sink.commit([messages[1]], OTHER)
    assert lines(fs, sink) == ["a"]


def test_two_outputs_with_one_path_are_refused(sink):
    """Each would commit away the files of the other."""
    prepare(sink)
    with pytest.raises(SinkError, match="cannot write output 'bad'"):
        prepare(sink, tag="bad")


@pytest.mark.parametrize("data", [None, b"longer"])
def test_an_object_that_is_not_as_it_was_written_is_missed(store, sink, data):
    """Nothing is copied."""
    fs, _ = store
    prepare(sink)
    messages = [sink.write(iter(["a"]), place(name)) for name in ("one", "two")]
    path = f"{sink.stage(TOKEN).where}/two-0.txt"
    fs.rm(path) if data is None else fs.pipe(path, data)
    with pytest.raises(SinkError, match=r"the file 'two-0.txt' of 2 bytes (is not there|has 6 bytes)"):
        sink.commit(messages, TOKEN)
    assert lines(fs, sink) == []


def test_a_commit_without_staging_is_refused(sink):
    """Rather than an empty result."""
    prepare(sink)
    sink.clean(TOKEN)
    with pytest.raises(SinkError, match="neither a committed result there nor the staging directory"):
        sink.commit([], TOKEN)


def test_a_worker_that_finds_no_nonce_pulls_nothing(sink):
    """It comes too late, or sees another store."""

    def pulled():
        pytest.fail("a record was pulled")
        yield

    with pytest.raises(SinkError, match=r"the staging directory 's3://.*' of this run is not there"):
        sink.write(pulled(), place())


@pytest.mark.parametrize("kind", [TextFiles, ParquetFiles])
def test_an_attempt_that_comes_after_the_end_leaves_nothing(store, kind):
    """If it had not begun its object."""
    fs, url = store
    sink = kind(f"{url}/a/out")
    prepare(sink)

    def records():
        sink.commit([], TOKEN)
        sink.clean(TOKEN)
        yield "zombie"

    with pytest.raises(SinkError, match="has no nonce"):
        sink.write(records(), place("zombie"))
    assert list(content(fs, url)) == ["a/out/_SUCCESS"]


def test_a_segment_that_fails_leaves_nothing(store, sink, small_parts):
    """Neither an object nor the parts of one."""
    fs, _ = store
    prepare(sink)

    def records():
        for _ in range(12):
            yield "x" * (1 << 20)
        raise KeyError("the user's own")

    with pytest.raises(KeyError):
        sink.write(records(), place())
    assert list(content(fs, sink.stage(TOKEN).where)) == ["nonce"]
    bucket = sink.path.split("/")[2]
    assert "Uploads" not in fs.call_s3("list_multipart_uploads", Bucket=bucket)


def test_a_copy_that_is_there_counts_as_made(store, sink, monkeypatch):
    """Though what it was made from has gone."""
    fs, _ = store
    prepare(sink)
    messages = [sink.write(iter([name]), place(name)) for name in ("one", "two")]
    with monkeypatch.context() as patch:
        patch.setattr(on_objects.ObjectStage, "_create_own", dying(on_objects.ObjectStage._create_own, "_SUCCESS"))
        with pytest.raises(DiedError):
            sink.commit(messages, TOKEN)
    fs.rm(f"{sink.stage(TOKEN).where}/two-0.txt")
    sink.commit(messages, TOKEN)
    assert lines(fs, sink) == ["one", "two"]


def test_abort_removes_what_a_commit_had_begun(store, sink, monkeypatch):
    """What is committed it does not touch."""
    fs, url = store
    prepare(sink)
    messages = [sink.write(iter(["a"]), place(name)) for name in ("one", "two")]
    with monkeypatch.context() as patch:
        patch.setattr(on_objects.ObjectStage, "_create_own", dying(on_objects.ObjectStage._create_own, "_SUCCESS"))
        with pytest.raises(DiedError):
            sink.commit(messages, TOKEN)
    assert len(content(fs, sink.path)) == 3
    sink.abort(messages, TOKEN)
    assert content(fs, url) == {}
    messages = save(sink, ["a"])
    with pytest.raises(SinkError, match="was committed"):
        sink.abort(messages, TOKEN)
    assert lines(fs, sink) == ["a"]


def dying(function, name):
    def wrapped(stage, what):
        if what == name:
            raise DiedError
        function(stage, what)

    return wrapped


def make_mortal(monkeypatch, points):
    for kind, names in (
        (Objects, ("_put", "remove")),
        (on_objects.Upload, ("finish",)),
        (s3fs.S3FileSystem, ("copy", "rm")),
    ):
        for name in names:
            monkeypatch.setattr(kind, name, points.around(name, getattr(kind, name)))


POINTS = [
    pytest.param(Points.kinds, id="some"),
    pytest.param(Points.states, id="all", marks=pytest.mark.slow("test_a_run_that_dies_anywhere_is_resumed[some]")),
]


# Dear: each death is followed by two runs of some fifty requests.
@pytest.mark.parametrize("choose", POINTS)
def test_a_run_that_dies_anywhere_is_resumed(store, monkeypatch, capsys, choose):
    """At each change of the store; who waits for the marker sees all or nothing."""
    fs, url = store
    segments, logged = {"one": ["a", "b"], "two": ["c"]}, {}
    monkeypatch.setattr(on_objects, "_COPIES_AT_ONCE", 1)
    points = Points(log=logged)
    with monkeypatch.context() as patch:
        make_mortal(patch, points)
        run(TextFiles(f"{url}/counted"), segments, logged)
    for at in choose(points):
        sink, written = TextFiles(f"{url}/{at}/out"), {}
        with monkeypatch.context() as patch:
            make_mortal(patch, Points(at))
            with pytest.raises(DiedError):
                run(sink, segments, written)
        if "_SUCCESS" in content(fs, sink.path):
            assert lines(fs, sink) == ["a", "b", "c"]
        for _ in range(2):
            run(sink, segments, written)
        assert lines(fs, sink) == ["a", "b", "c"]
        names = sorted(name for name in content(fs, f"{url}/{at}") if ".tmp-" not in name)
        assert [name for name in names if not name.startswith("out/")] == []
        assert len(names) == 3
    assert len(points.seen) > 25
    assert len(choose(points)) > 4
    with capsys.disabled():
        print(f"\nTextFiles on S3: died at {len(choose(points))} of {len(points.seen)} points")


def test_a_bucket_that_is_not_there_is_told(s3_server):
    """Before any work."""
    with pytest.raises(SinkError, match="TextFiles cannot prepare 's3://no-such-bucket/out'"):
        prepare(TextFiles("s3://no-such-bucket/out"))


def test_a_bucket_alone_is_no_target():
    """The checkpoint lies beside."""
    with pytest.raises(InvalidValueError, match="below the root or bucket"):
        TextFiles("s3://bucket/")


def test_a_retry_adds_objects_and_changes_none(store):
    """Whatever dies, the same commit again ends it, and one that is made again changes nothing."""
    fs, url = store
    sink, retry = ParquetFiles(f"{url}/a/out"), Token(TOKEN.app, 1)
    save(sink, [{"x": 0.5, "y": "a"}])
    before = content(fs, url)
    prepare(sink, token=retry)
    message = sink.write(iter([{"x": 1}]), place("later", token=retry))
    assert content(fs, sink.path) == {name.removeprefix("a/out/"): data for name, data in before.items()}
    for _ in range(2):
        sink.commit([message], retry)
        prepare(sink, token=retry, resumed=True)
    sink.clean(retry)
    after = content(fs, url)
    assert sorted(after) == sorted([*before, "a/out/later-0.parquet"])
    assert before.items() <= after.items()
    pq = pytest.importorskip("pyarrow.parquet")
    with fs.open(f"{sink.path}/later-0.parquet") as file:
        assert pq.read_table(file).to_pylist() == [{"x": 1.0, "y": None}]


def test_a_retry_adds_to_nothing_but_the_result_of_its_run(store):
    """Nothing is changed where there is none."""
    fs, url = store
    sink = TextFiles(f"{url}/a/out")
    save(sink, ["a"], token=OTHER)
    before = content(fs, url)
    with pytest.raises(SinkError, match="is not there any more"):
        prepare(sink, token=Token(TOKEN.app, 1))
    assert content(fs, url) == before
