"""A DataSourceWriter as a sink: written as Spark would, committed once, and asked about if nobody can tell."""

import json
import os
import re
from pathlib import Path

import pytest

from sdf.errors import MissingExtraError

pytest.importorskip("sdf.spark.source", exc_type=MissingExtraError)

from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage
from support.fns import CountFn, expected
from support.sinking import TOKEN, place, prepare, save

from sdf import LiveRunner, StagedRunner, abort_save, save_sdf
from sdf.errors import InvalidTypeError, InvalidValueError, SinkError
from sdf.sinks import DataSourceSink

ELEMENTS = [("a", 7), ("b", 0), ("c", 30)]


class Written(WriterCommitMessage):
    def __init__(self, path):
        self.path = path


class FolderWriter(DataSourceWriter):
    """Writes lines of JSON; the commit makes one file that names the token."""

    def __init__(self, folder, token=None, dies=False):
        self.folder = str(folder)
        self.token = token
        self.dies = dies

    def write(self, iterator):
        path = Path(self.folder) / os.urandom(8).hex()
        path.write_text("".join(json.dumps(record) + "\n" for record in iterator))
        return Written(str(path))

    def commit(self, messages):
        text = "".join(Path(message.path).read_text() for message in messages)
        with open(f"{self.folder}/all-{self.token}", "a") as file:
            file.write(text)
        if self.dies:
            raise OSError("the line is dead")

    def abort(self, messages):
        for message in messages:
            os.unlink(message.path)


def rows(folder):
    return sorted(tuple(json.loads(line)) for path in folder.glob("all-*") for line in path.read_text().splitlines())


ROWS = sorted(expected(ELEMENTS).elements())


@pytest.mark.parametrize("runner", [StagedRunner(), LiveRunner()], ids=lambda runner: type(runner).__name__)
def test_a_run_is_saved_through_a_writer(sc, tmp_path, runner):
    """With a function, the writer knows the token; the same call again does not commit again."""
    folder = tmp_path / "out"
    folder.mkdir()
    sink = DataSourceSink(lambda token: FolderWriter(folder, token))
    for _ in range(2):
        summary = save_sdf(
            sc.parallelize(ELEMENTS, 2), CountFn(), sink, checkpoint=tmp_path / "checkpoint", runner=runner
        )
        assert summary.records == 37
        assert rows(folder) == ROWS
    assert len(list(folder.glob("all-sdf-*-0"))) == 1


@pytest.mark.parametrize("answer", [lambda folder: True, lambda folder: bool(rows(folder))])
def test_a_death_while_it_commits_is_asked_about(sc, tmp_path, answer):
    """The answer may be a word, or a function that looks."""
    folder = tmp_path / "out"
    folder.mkdir()

    def call(committed=None, dies=False):
        sink = DataSourceSink(FolderWriter(folder, dies=dies), committed=committed)
        save_sdf(sc.parallelize(ELEMENTS, 2), CountFn(), sink, checkpoint=tmp_path / "checkpoint")

    with pytest.raises(SinkError, match="the line is dead"):
        call(dies=True)
    with pytest.raises(SinkError, match=re.escape("cannot tell whether FolderWriter has committed")):
        call()
    call(lambda token: answer(folder))
    assert rows(folder) == ROWS


def test_a_commit_that_did_not_happen_is_made_up_for(tmp_path):
    """The function says no."""
    sink = DataSourceSink(FolderWriter(tmp_path), committed=lambda token: False)
    message = sink.write(iter(ROWS), place())
    sink.check_commit(TOKEN)
    prepare(sink, resumed=True)
    sink.commit([message], TOKEN)
    assert rows(tmp_path) == ROWS


def test_a_segment_without_records_has_no_message(tmp_path):
    """The writer is not asked."""
    sink = DataSourceSink(FolderWriter(tmp_path))
    assert save(sink, [], ROWS)[0] is None
    assert rows(tmp_path) == ROWS


def test_a_run_is_given_up_through_abort(sc, tmp_path):
    """It gets the messages of all that was written; what is committed stays."""
    folder = tmp_path / "out"
    folder.mkdir()
    sink = DataSourceSink(FolderWriter(folder, dies=True))
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(SinkError, match="the line is dead"):
        save_sdf(sc.parallelize(ELEMENTS, 2), CountFn(), sink, checkpoint=checkpoint)
    with pytest.raises(SinkError, match="cannot tell whether FolderWriter has committed"):
        abort_save(sink, checkpoint=checkpoint)
    with pytest.raises(SinkError, match="does not remove what was committed"):
        abort_save(DataSourceSink(FolderWriter(folder), committed=lambda token: True), checkpoint=checkpoint)
    abort_save(DataSourceSink(FolderWriter(folder), committed=lambda token: False), checkpoint=checkpoint)
    assert [path.name for path in folder.iterdir()] == ["all-None"]


def test_wrong_arguments(sc, tmp_path):
    """Each is told before any work."""
    for wrong in (None, FolderWriter, "folder"):
        with pytest.raises(InvalidTypeError, match="must be a DataSourceWriter"):
            DataSourceSink(wrong)
    with pytest.raises(InvalidTypeError, match="committed must be a function"):
        DataSourceSink(FolderWriter(tmp_path), committed=True)
    with pytest.raises(InvalidTypeError, match=re.escape("it made None")):
        DataSourceSink(lambda token: None).write(iter([1]), place())
    with pytest.raises(InvalidValueError, match="needs a checkpoint for DataSourceSink"):
        save_sdf(sc.parallelize(ELEMENTS), CountFn(), DataSourceSink(FolderWriter(tmp_path)))
