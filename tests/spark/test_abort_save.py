"""abort_save gives a run up before its end: nothing of it stays, whenever that is, and the next call begins anew."""

import itertools
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from support.fns import CountFn, SlowCountFn, expected
from support.saving import FolderSink, rows
from support.sinking import DiedError, Points, make_mortal

from sdf import LiveRunner, StagedRunner, abort_save, save_sdf
from sdf.errors import InvalidTypeError, InvalidValueError, JournalError, JournalFencedError, ProcessError, SinkError
from sdf.saving import outputs
from sdf.saving.history import History
from sdf.saving.run_log import RunLog
from sdf.sinks import JsonLinesFiles, on_disk
from sdf.storage.disk import Disk

ELEMENTS = [("a", 300), ("b", 5)]


class FailsFn(SlowCountFn):
    """Raises when some of it is written."""

    def __init__(self, seconds, folder):
        super().__init__(seconds)
        self.folder = folder

    def process(self, element, tracker):
        for name, i in super().process(element, tracker):
            if (name, i) == ("a", 290):
                until = time.monotonic() + 60
                while not list(self.folder.rglob("*.jsonl")) and time.monotonic() < until:
                    time.sleep(0.01)
                raise ValueError("not yet")
            yield name, i


class FullFiles(JsonLinesFiles):
    """Cannot commit, so that the run stays there."""

    def commit(self, messages, token):
        raise SinkError("the disk is full.")

    def identity(self):
        return JsonLinesFiles(self.path).identity()


def save(sc, sink, fn=None, runner=None, **options):
    return save_sdf(sc.parallelize(ELEMENTS, 2), fn or CountFn(), sink, commit_seconds=0.02, runner=runner, **options)


def fail(sc, folder, sink=JsonLinesFiles, fn=None, runner=None, error=ProcessError):
    """Begin a run that is not done; return the sink."""
    folder.mkdir(exist_ok=True)
    with pytest.raises(error):
        save(sc, sink(folder / "out"), fn or FailsFn(0.001, folder), runner)
    assert list(folder.rglob("*.jsonl"))
    return JsonLinesFiles(folder / "out")


def tool(what, folder):
    command = [sys.executable, "-m", "sdf.journal", what, str(folder / "_out.sdf")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def history(folder):
    return History(RunLog(Disk(folder / "_out.sdf"), driver="test", clock=lambda: 0))


def kept(folder):
    """Give the files, but for the log."""
    return [path for path in folder.rglob("*") if path.is_file() and path.parent.name not in ("log", "blobs")]


@pytest.mark.parametrize("runner", [StagedRunner(), LiveRunner()], ids=lambda runner: type(runner).__name__)
def test_nothing_stays_but_the_log(sc, tmp_path, runner):
    """The next call begins anew, with any DoFn."""
    sink = fail(sc, tmp_path, runner=runner)
    abort_save(sink)
    assert kept(tmp_path) == []
    assert history(tmp_path).aborted
    assert "given up" in tool("show", tmp_path)
    summary = save(sc, sink, runner=runner)
    assert summary.records == 305
    assert not summary.resumed
    tool("clean", tmp_path)
    tool("verify", tmp_path)
    assert rows(tmp_path / "out") == sorted(expected(ELEMENTS).elements())


def test_a_run_that_cannot_commit_is_given_up(sc, tmp_path):
    """And the next one has a token of its own."""
    sink = fail(sc, tmp_path, FullFiles, CountFn(), error=SinkError)
    before = history(tmp_path)
    assert before.committing
    abort_save(sink)
    assert kept(tmp_path) == []
    assert save(sc, sink).records == 305
    assert history(tmp_path).app != before.app


def test_what_is_committed_is_not_removed(sc, tmp_path):
    """Also if the driver died before the log said so: then the same call ends the run."""
    save(sc, JsonLinesFiles(tmp_path / "out"))
    with pytest.raises(JournalError, match="removes nothing that is visible: all outputs"):
        abort_save(JsonLinesFiles(tmp_path / "out"))

    class CommitsAndFails(FullFiles):
        def commit(self, messages, token):
            JsonLinesFiles.commit(self, messages, token)
            raise SinkError("the line is dead.")

    folder = tmp_path / "other"
    sink = fail(sc, folder, CommitsAndFails, CountFn(), error=SinkError)
    with pytest.raises(SinkError, match="was committed"):
        abort_save(sink)
    assert save(sc, sink).records == 305
    assert rows(folder / "out") == sorted(expected(ELEMENTS).elements())


def test_one_of_two_outputs_is_committed(sc, tmp_path):
    """Then nothing is removed, and the same call ends the run."""
    sinks = {"main": FullFiles(tmp_path / "out"), "more": JsonLinesFiles(tmp_path / "more")}
    with pytest.raises(SinkError, match="full"):
        save(sc, sinks)
    with pytest.raises(JournalError, match=re.escape("visible: the outputs ['more']")):
        abort_save(sinks)
    assert save(sc, {**sinks, "main": JsonLinesFiles(tmp_path / "out")}).records == 305


def test_a_driver_that_still_works_stops(sc, tmp_path):
    """It finds its next entry taken."""

    class AbortsFn(CountFn):
        def __init__(self, program):
            self.program = program

        def process(self, element, tracker):
            for name, i in super().process(element, tracker):
                if (name, i) == ("a", 200):
                    subprocess.run([sys.executable, "-c", self.program], check=True)
                yield name, i

    program = f"import sdf, sdf.sinks; sdf.abort_save(sdf.sinks.JsonLinesFiles({str(tmp_path / 'out')!r}))"
    with pytest.raises(JournalFencedError):
        save(sc, JsonLinesFiles(tmp_path / "out"), AbortsFn(program), LiveRunner(lanes=1))
    assert history(tmp_path).aborted
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("committing", [False, True])
def test_it_may_die_at_any_point(sc, tmp_path, committing):
    """The same call removes the rest; until then no call commits a part of it."""
    home, begun = tmp_path / "home", tmp_path / "begun"
    sink = fail(sc, home, FullFiles, CountFn(), error=SinkError) if committing else fail(sc, home)
    home.rename(begun)
    for at in itertools.count(1):
        shutil.copytree(begun, home)
        with pytest.MonkeyPatch.context() as patch:
            points = mortal(patch, Points(at))
            with suppress(DiedError):
                abort_save(sink)
        abort_save(sink)
        assert kept(home) == []
        assert history(home).aborted
        shutil.rmtree(home)
        if len(points.seen) < at:
            break
    print(f"died at each of {len(points.seen)} points")
    assert len(points.seen) > 7


def mortal(patch, points):
    class PointsDisk(Disk):
        pass

    for what in ("create", "replace", "remove"):
        setattr(PointsDisk, what, points.around(what, getattr(Disk, what)))
    patch.setattr(outputs, "storage_at", lambda where, who, beyond=None: PointsDisk(where))
    make_mortal(patch, points, on_disk)
    return points


def test_wrong_arguments(sc, tmp_path):
    """Each is told, and nothing is removed."""
    with pytest.raises(JournalError, match="found no run to give up"):
        abort_save(JsonLinesFiles(tmp_path / "nothing"))
    with pytest.raises(InvalidTypeError, match=re.escape("abort_save() sink must be a Sink")):
        abort_save(str(tmp_path))
    sink = fail(sc, tmp_path)
    files = set(kept(tmp_path))
    with pytest.raises(JournalError, match="belongs to another run"):
        abort_save(FolderSink(tmp_path / "out"), checkpoint=tmp_path / "_out.sdf")
    with pytest.raises(JournalError, match="belongs to another run"):
        abort_save({"main": sink, "more": JsonLinesFiles(tmp_path / "more")})
    with pytest.raises(InvalidValueError, match="needs a sink for each output"):
        abort_save({"more": sink})
    assert files <= set(kept(tmp_path))  # the task that did not fail may write on until it is interrupted
