"""The commit of files on a disk: exactly what is named, all at once, whatever dies and whoever comes too late."""

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest
from support.sinking import TOKEN, DiedError, Points, make_mortal, place, prepare, refuse_links, save, tree

from sdf.errors import InvalidTypeError, InvalidValueError, SinkError
from sdf.sinks import JsonLinesFiles, ParquetFiles, TextFiles, Token, files, on_disk
from sdf.storage import ballots, disk

OTHER = Token("another run", 0)


def lines(path):
    return sorted(line for file in Path(path).glob("*.txt") for line in file.read_text().splitlines())


def staging(sink, token=TOKEN):
    return Path(sink.stage(token).where)


@pytest.fixture
def sink(tmp_path):
    return TextFiles(tmp_path / "out")


# The way of a run


def test_what_is_committed_is_there_and_nothing_else(sink, tmp_path):
    """Two segments, one of them empty, and staging has gone."""
    messages = save(sink, ["a", "b"], [], ["c"])
    assert messages[1] is None
    assert messages[0] == {"files": 1, "bytes": 4, "names": [["segment-0-0.txt", 4]]}
    assert lines(sink.path) == ["a", "b", "c"]
    assert sorted(os.listdir(sink.path)) == ["_SUCCESS", "segment-0-0.txt", "segment-2-0.txt"]
    assert os.listdir(tmp_path) == ["out"]


def test_what_no_message_names_stays_out(sink):
    """The file of an attempt that was lost."""
    prepare(sink)
    sink.write(iter(["lost"]), place("lost"))
    kept = sink.write(iter(["kept"]), place("kept"))
    sink.commit([kept], TOKEN)
    assert lines(sink.path) == ["kept"]
    assert (staging(sink) / "lost-0.txt").exists()
    sink.clean(TOKEN)
    assert not staging(sink).exists()


def test_nothing_is_visible_before_the_commit(sink, tmp_path):
    """Only a name that Spark and pyarrow skip."""
    prepare(sink)
    sink.write(iter(["a"]), place())
    assert os.listdir(tmp_path) == ["_out.sdf"]


def test_no_records_make_an_empty_directory(sink):
    """With the marker, so that a reader can tell it from a run that has not ended."""
    save(sink, [], [])
    assert os.listdir(sink.path) == ["_SUCCESS"]


def test_an_empty_directory_may_be_there(sink):
    """Then it is replaced."""
    os.mkdir(sink.path)
    save(sink, ["a"])
    assert lines(sink.path) == ["a"]


def test_a_file_ends_at_its_size(tmp_path):
    """A segment may have several; together they hold its records, in order."""
    sink = TextFiles(tmp_path / "out", target_bytes=1000)
    records = [f"{number:099}" for number in range(1000)]
    [message] = save(sink, records)
    assert message["files"] > 2
    files = sorted(Path(sink.path).glob("*.txt"), key=lambda path: int(path.stem.rpartition("-")[2]))
    assert [line for file in files for line in file.read_text().splitlines()] == records
    assert message["bytes"] == sum(file.stat().st_size for file in files)


def test_the_log_beside_stays(sink, tmp_path):
    """The default checkpoint lies where staging does."""
    (tmp_path / "_out.sdf").mkdir()
    (tmp_path / "_out.sdf" / "log").touch()
    save(sink, ["a"])
    assert os.listdir(tmp_path / "_out.sdf") == ["log"]


def test_beside_has_the_same_parent(sink, tmp_path):
    """So that the commit can be one rename."""
    assert sink.beside() == f"{tmp_path}/_out.sdf"
    assert TextFiles("s3://bucket/a/out/").beside() == "s3://bucket/a/_out.sdf"


# What is refused


def test_a_target_with_something_in_it_is_refused(sink):
    """Before any work, and again by the commit; nothing of it is touched."""
    os.mkdir(sink.path)
    Path(sink.path, "theirs").write_text("theirs")
    with pytest.raises(SinkError, match=r"but '.*/out' has 'theirs', which is not of this run.*give another path"):
        prepare(sink)
    assert tree(sink.path) == {"theirs": b"theirs"}


def test_a_target_that_was_filled_meanwhile_is_refused(sink):
    """The work is not lost: when it is empty again, the commit goes on."""
    prepare(sink)
    message = sink.write(iter(["a"]), place())
    os.mkdir(sink.path)
    Path(sink.path, "theirs").write_text("theirs")
    for _ in range(2):
        with pytest.raises(SinkError, match=r"has 'theirs'"):
            sink.commit([message], TOKEN)
    assert tree(sink.path) == {"theirs": b"theirs"}
    Path(sink.path, "theirs").unlink()
    sink.commit([message], TOKEN)
    assert lines(sink.path) == ["a"]


def test_a_target_that_is_filled_at_the_last_moment_is_not_overwritten(sink, monkeypatch):
    """After the commit has looked: the system refuses the rename."""
    prepare(sink)
    message = sink.write(iter(["a"]), place())
    rename = os.rename

    def late(source, target):
        os.mkdir(target)
        Path(target, "theirs").write_text("theirs")
        rename(source, target)

    monkeypatch.setattr(on_disk.os, "rename", late)
    with pytest.raises(SinkError, match=r"has 'theirs'"):
        sink.commit([message], TOKEN)
    assert tree(sink.path) == {"theirs": b"theirs"}


def test_the_result_of_another_run_is_refused(sink):
    """Also by the commit."""
    save(sink, ["a"])
    with pytest.raises(SinkError, match=r"is not of this run"):
        prepare(sink, token=OTHER)
    with pytest.raises(SinkError, match=r"is not of this run"):
        sink.commit([], OTHER)
    assert lines(sink.path) == ["a"]


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to(".")], ids=["file", "link"])
def test_a_target_that_is_no_directory_is_refused(sink, make):
    """A rename could not put one there."""
    make(Path(sink.path))
    with pytest.raises(SinkError, match=r"Give (another path|the path of a directory)"):
        prepare(sink)


def test_two_outputs_with_one_path_are_refused(sink):
    """Each would commit away the files of the other."""
    prepare(sink)
    with pytest.raises(SinkError, match=r"cannot write output 'bad'.*Give each output a path of its own"):
        prepare(sink, tag="bad")
    with pytest.raises(SinkError, match=r"this is output 'bad'"):
        sink.write(iter([]), place(tag="bad"))


def test_a_file_named_twice_is_refused(sink):
    """Its records would be counted twice."""
    prepare(sink)
    message = sink.write(iter(["a"]), place())
    with pytest.raises(SinkError, match=r"two messages name the file 'segment-0.txt'"):
        sink.commit([message, message], TOKEN)


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_text("longer")], ids=["removed", "changed"])
def test_a_file_that_is_not_as_it_was_written_is_missed(sink, harm):
    """The commit names it, and nothing is visible."""
    prepare(sink)
    message = sink.write(iter(["a"]), place())
    file = staging(sink) / "segment-0.txt"
    harm(file)
    for _ in range(2):
        with pytest.raises(SinkError, match=r"the file 'segment-0.txt' of 2 bytes (is not there|has 6 bytes)"):
            sink.commit([message], TOKEN)
    assert not os.path.exists(sink.path)
    file.unlink(missing_ok=True)
    file.write_text("a\n")  # as the message asks for
    sink.commit([message], TOKEN)
    assert lines(sink.path) == ["a"]


def test_a_file_that_nobody_named_does_not_come_with_the_commit(sink):
    """Somebody put it into the directory that becomes the target."""
    prepare(sink)
    message = sink.write(iter(["a"]), place())
    (staging(sink) / "commit").mkdir()
    (staging(sink) / "commit" / "theirs").touch()
    with pytest.raises(SinkError, match=r"has 'theirs', which this commit does not name"):
        sink.commit([message], TOKEN)
    assert not os.path.exists(sink.path)


def test_a_commit_without_staging_is_refused(sink):
    """Rather than an empty result."""
    prepare(sink)
    message = sink.write(iter(["a"]), place())
    sink.clean(TOKEN)
    with pytest.raises(SinkError, match=r"neither a committed result there nor the staging directory"):
        sink.commit([message], TOKEN)
    with pytest.raises(SinkError, match=r"neither a committed result there nor the staging directory"):
        sink.commit([], TOKEN)


def test_abort_removes_what_was_written(sink, tmp_path):
    """A target that was there stays empty."""
    prepare(sink)
    message = sink.write(iter(["a"]), place())
    sink.abort([message], TOKEN)
    assert os.listdir(tmp_path) == []
    sink.abort([message], TOKEN)


def test_abort_does_not_touch_what_is_committed(sink):
    """Whoever asks for it."""
    messages = save(sink, ["a"])
    with pytest.raises(SinkError, match=r"does not remove '.*/out': run-0 was committed"):
        sink.abort(messages, TOKEN)
    assert lines(sink.path) == ["a"]


def test_abort_leaves_other_runs_alone(sink):
    """Their staging lies side by side."""
    prepare(sink)
    prepare(sink, token=OTHER)
    message = sink.write(iter(["a"]), place(token=OTHER))
    sink.abort([], TOKEN)
    sink.commit([message], OTHER)
    assert lines(sink.path) == ["a"]


def test_an_abort_that_died_is_done_again(sink, tmp_path, monkeypatch):
    """Also if a run went on in between."""
    prepare(sink)
    with monkeypatch.context() as patch:
        make_mortal(patch, Points(at=3), on_disk)
        with pytest.raises(DiedError, match="after rename"):
            sink.abort([], TOKEN)
    prepare(sink, resumed=True)
    sink.abort([], TOKEN)
    assert os.listdir(tmp_path) == []


# Workers


def pulled():
    """Records that must not be asked for."""
    pytest.fail("a record was pulled")
    yield


def test_a_host_that_sees_another_disk_says_so_before_any_work(sink):
    """A cluster whose hosts write each to its own /data."""
    with pytest.raises(
        SinkError, match=r"TextFiles on host '.+': the staging directory .*_out.sdf/stage-run-0' of this"
    ):
        sink.write(pulled(), place())
    assert not os.path.exists(sink.beside())


@pytest.mark.parametrize("kind", [TextFiles, ParquetFiles])
def test_an_attempt_that_comes_after_the_end_leaves_nothing(kind, tmp_path):
    """It may have begun before the end: wherever it is, it does not bring staging back."""
    sink = kind(tmp_path / "out")
    prepare(sink)
    messages = []

    def records():
        yield "zombie"
        sink.commit(messages, TOKEN)
        sink.clean(TOKEN)
        yield "zombie"

    with pytest.raises(SinkError, match=r"No such file"):
        sink.write(records(), place("zombie"))
    with pytest.raises(SinkError, match=r"is not there"):
        sink.write(pulled(), place("zombie"))
    assert os.listdir(sink.path) == ["_SUCCESS"]
    assert os.listdir(tmp_path) == ["out"]


def test_a_segment_that_fails_leaves_no_file(tmp_path):
    """The user's exception passes as it is."""
    sink = TextFiles(tmp_path / "out", target_bytes=1)
    prepare(sink)

    def records():
        yield from ["a"] * 1000
        raise OSError("the user's own")

    with pytest.raises(OSError, match=r"^the user's own$") as raised:
        sink.write(records(), place())
    assert not isinstance(raised.value, SinkError)
    assert os.listdir(staging(sink)) == ["nonce"]


def test_a_full_disk_says_how_to_go_on(sink, monkeypatch):
    """What was written of the segment is removed."""
    prepare(sink)

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(on_disk.os, "fsync", full)
    with pytest.raises(SinkError, match=r"TextFiles cannot write '.*/out'.*No space left.*run again to resume"):
        sink.write(iter(["a"]), place())
    monkeypatch.undo()
    assert os.listdir(staging(sink)) == ["nonce"]


# Crashes


def run(sink, segments, written):
    """Do all that a run does to the disk; remember what each segment returned."""
    prepare(sink)
    for name, records in segments.items():
        written[name] = sink.write(iter(records), place(name))
    sink.commit(list(written.values()), TOKEN)
    sink.clean(TOKEN)


@pytest.mark.parametrize("is_volume", [False, True], ids=["disk", "volume"])
@pytest.mark.parametrize("kind", [TextFiles, JsonLinesFiles, ParquetFiles])
def test_a_run_that_dies_anywhere_is_resumed(kind, is_volume, tmp_path, monkeypatch, capsys):
    """Before and after all that is done to the disk; until the rename nothing is visible, from then on all.

    A volume has no such rename: there it is the marker that says when all is visible.
    """
    monkeypatch.setattr(ballots, "_DOUBT_SECONDS", 0)
    storage = (disk, ballots, on_disk) if is_volume else (disk, on_disk)
    segments, logged = {"one": ["a", "b"], "two": ["c"], "none": []}, {}
    counted = Points(log=logged)
    with monkeypatch.context() as patch:
        make_mortal(patch, counted, *storage, is_volume=is_volume)
        run(kind(tmp_path / "counted"), segments, logged)
    expected = read(kind, tmp_path / "counted")
    assert sorted(expected) == ["a", "b", "c"]
    for at in counted.states():
        sink, written, points = kind(tmp_path / f"{at}"), {}, Points(at)
        with monkeypatch.context() as patch:
            make_mortal(patch, points, *storage, is_volume=is_volume)
            with pytest.raises(DiedError):
                run(sink, segments, written)
        if is_volume:
            monkeypatch.setattr(os, "link", refuse_links)
        if os.path.exists(f"{sink.path}/_SUCCESS" if is_volume else sink.path):
            assert sorted(read(kind, sink.path)) == sorted(expected)
        prepare(sink, resumed=True)
        for name in segments.keys() - written.keys():  # what the log does not have is written anew
            written[name] = sink.write(iter(segments[name]), place(f"{name}-again"))
        for _ in range(2):
            sink.commit(list(written.values()), TOKEN)
        sink.clean(TOKEN)
        assert sorted(read(kind, sink.path)) == sorted(expected)
        assert [name for name in os.listdir(tmp_path) if name.startswith("_")] == []
        assert sum(not name.startswith("_") for name in os.listdir(sink.path)) == 2
    assert len(counted.seen) > 70
    with capsys.disabled():
        print(f"\n{kind.__name__}: died at {len(counted.states())} of {len(counted.seen)} points")


@pytest.mark.parametrize("first", [True, False], ids=["without links", "with links"])
def test_a_commit_that_began_on_one_kind_of_disk_ends_on_the_other(sink, tmp_path, monkeypatch, first):
    """Two hosts may know a place in two ways; what is in the target already is this commit's own."""
    prepare(sink)
    messages = [sink.write(iter([name]), place(name)) for name in "abc"]
    with monkeypatch.context() as patch:
        points = Points(2 if first else 4)  # after the first file
        make_mortal(patch, points, on_disk, is_volume=first)
        patch.setattr(on_disk, "has_links", lambda directory: not first)
        with pytest.raises(DiedError):
            sink.commit(messages, TOKEN)
    assert points.seen[-1] == ("after rename" if first else "after link")
    monkeypatch.setattr(on_disk, "has_links", lambda directory: first)
    prepare(sink, resumed=True)
    sink.commit(messages, TOKEN)
    sink.clean(TOKEN)
    assert lines(sink.path) == ["a", "b", "c"]
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("began", [False, True])
def test_a_run_on_a_volume_can_be_given_up(sink, monkeypatch, began):
    """Files that its commit has put into the target go again."""
    monkeypatch.setattr(on_disk, "has_links", lambda directory: False)
    prepare(sink)
    messages = [sink.write(iter([name]), place(name)) for name in "abc"]
    if began:
        with monkeypatch.context() as patch:
            make_mortal(patch, Points(4), on_disk)
            with pytest.raises(DiedError):
                sink.commit(messages, TOKEN)
        assert len(lines(sink.path)) == 2
    sink.abort(messages, TOKEN)
    save(sink, ["d"], token=OTHER)
    assert lines(sink.path) == ["d"]


def test_files_of_a_retry_are_added_on_a_volume(sink, monkeypatch):
    """They are renamed; a second try finds them there."""
    monkeypatch.setattr(on_disk, "has_links", lambda directory: False)
    save(sink, ["a"])
    more = Token(TOKEN.app, 1)
    prepare(sink, token=more)
    message = sink.write(iter(["b"]), place("more", token=more))
    for _ in range(2):
        sink.commit([message], more)
    sink.clean(more)
    assert lines(sink.path) == ["a", "b"]


def test_staging_is_removed_though_its_listing_lags(sink, tmp_path, monkeypatch):
    """As that of a mounted object store may: a directory that looks empty is not."""
    rmtree, tries = shutil.rmtree, []

    def lagging(path):
        tries.append(path)
        if os.path.exists(path) and len(tries) < 4:
            raise OSError(errno.ENOTEMPTY, "Directory not empty")
        rmtree(path)

    monkeypatch.setattr(on_disk.shutil, "rmtree", lagging)
    monkeypatch.setattr(on_disk, "_PAUSES_SECONDS", (0, 0, 0))
    save(sink, ["a"])
    assert len(tries) > 3
    assert os.listdir(tmp_path) == ["out"]


def read(kind, path):
    """Read a result as others do."""
    if kind is TextFiles:
        return lines(path)
    duckdb = pytest.importorskip("duckdb")
    if kind is JsonLinesFiles:
        return [
            row[0] for row in duckdb.sql(f"select json ->> '$' from read_json_objects('{path}/*.jsonl')").fetchall()
        ]
    return [row[0] for row in duckdb.sql(f"select value from '{path}/*.parquet'").fetchall()]


@pytest.mark.parametrize("is_volume", [False, True], ids=["disk", "volume"])
def test_two_drivers_that_commit_at_once_commit_once(tmp_path, monkeypatch, is_volume):
    """The one that was taken over may be late: both find the same result, or an error that harms nothing."""
    if is_volume:
        monkeypatch.setattr(on_disk, "has_links", lambda directory: False)
    for turn in range(20):
        sink = TextFiles(tmp_path / f"{turn}")
        prepare(sink)
        messages = [sink.write(iter([f"{n}"]), place(f"s{n}")) for n in range(20)]
        failures = []

        def commit(sink=sink, messages=messages, failures=failures):
            try:
                sink.commit(messages, TOKEN)
            except SinkError as error:
                failures.append(error)

        drivers = [threading.Thread(target=commit) for _ in range(2)]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()
        sink.commit(messages, TOKEN)
        assert lines(sink.path) == sorted(f"{n}" for n in range(20))
        assert len(failures) < 2


# Options


def test_a_path_becomes_absolute(monkeypatch, tmp_path):
    """A worker's directory is another one."""
    monkeypatch.chdir(tmp_path)
    assert TextFiles("a/out/").path == f"{tmp_path}/a/out"
    assert TextFiles(Path("out")) == TextFiles(f"file://{tmp_path}/out")


@pytest.mark.parametrize(
    "path", ["hdfs:/x/y", "hdfs://x/y", "s3a://b/x", "dbfs:/x", "s3://bucket", "/", "", "ftp://h/x"]
)
def test_a_path_that_cannot_be_is_refused(path):
    """When the sink is made, not when it runs; no local directory of that name is made."""
    with pytest.raises(InvalidValueError, match=r"the path of a sink"):
        TextFiles(path)


@pytest.mark.parametrize("path", [None, 5, b"out"])
def test_a_path_of_another_type_is_refused(path):
    """With what was given."""
    with pytest.raises(InvalidTypeError, match=r"the path of a sink must be"):
        TextFiles(path)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"compression": "lzma"}, "compression of lines must be None, 'gzip' or 'zstd' \\(got 'lzma'\\)"),
        ({"target_bytes": 0}, "target_bytes of a sink must be >= 1 \\(got 0\\)"),
        ({"target_bytes": "1M"}, "target_bytes of a sink must be an integer, a number of bytes \\(got '1M'\\)"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options, error):
    """Before any work."""
    with pytest.raises((InvalidTypeError, InvalidValueError), match=error):
        TextFiles("/out", **options)


def test_the_identity_is_plain_data():
    """It goes into the log's digest."""
    assert TextFiles("/data/out", compression="gzip").identity() == {
        "sink": "TextFiles",
        "path": "/data/out",
        "target_bytes": files.TARGET_BYTES,
        "compression": "gzip",
    }


# Retries


def test_a_retry_adds_files_and_changes_none(sink, tmp_path):
    """The same commit again changes nothing."""
    retry = Token(TOKEN.app, 1)
    save(sink, ["a"])
    before = tree(sink.path)
    prepare(sink, token=retry)
    message = sink.write(iter(["b"]), place("later", token=retry))
    sink.write(iter(["lost"]), place("lost", token=retry))
    assert tree(sink.path) == before
    for _ in range(2):
        sink.commit([message], retry)
        prepare(sink, token=retry, resumed=True)
    sink.clean(retry)
    assert tree(sink.path) == {**before, "later-0.txt": b"b\n"}
    assert os.listdir(tmp_path) == ["out"]


def test_a_retry_adds_nothing_if_one_of_its_files_is_lost(sink):
    """The error names it."""
    retry = Token(TOKEN.app, 1)
    save(sink, ["a"])
    prepare(sink, token=retry)
    messages = [sink.write(iter([name]), place(name, token=retry)) for name in ("b", "c")]
    (staging(sink, retry) / "c-0.txt").unlink()
    with pytest.raises(SinkError, match=r"'c-0.txt' of 2 bytes is not there"):
        sink.commit(messages, retry)
    assert lines(sink.path) == ["a"]


def test_a_retry_that_comes_too_late_adds_nothing(sink):
    """Its staging has gone, as when another driver has ended it."""
    retry = Token(TOKEN.app, 1)
    save(sink, ["a"])
    prepare(sink, token=retry)
    message = sink.write(iter(["b"]), place("later", token=retry))
    sink.clean(retry)
    with pytest.raises(SinkError, match="Both were removed"):
        sink.commit([message], retry)
    assert lines(sink.path) == ["a"]


def test_a_retry_adds_to_nothing_but_the_result_of_its_run(sink):
    """Neither to that of another run, nor to none."""
    for _ in range(2):
        with pytest.raises(SinkError, match="is not there any more"):
            prepare(sink, token=Token(TOKEN.app, 1))
        if not os.path.exists(sink.path):
            save(sink, ["a"], token=OTHER)
    assert lines(sink.path) == ["a"]
