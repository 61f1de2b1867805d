"""Streams whose data are gone: what is an error, what goes on, and who is told of it."""

import logging
import os
import sqlite3

import pytest
from support.streaming import grouped

from sdf import Pace, Until, stream_sdf
from sdf.errors import InvalidValueError, ReplayError, SourceChangedError
from sdf.io import TailLines, TailTable, WatchFiles
from sdf.saving.command import main
from sdf.sinks import DeltaTable


class CrashError(Exception):
    """The driver dies."""


class Sink:
    """Keeps the records of each batch, and what else it was told; dies at the first batch if it is to."""

    def __init__(self, *, dies=False):
        self.batches, self.lost, self.keys, self.dies = {}, {}, [], dies

    def __call__(self, batch):
        self.keys.append(batch.key)
        if self.dies:
            self.dies = False
            raise CrashError
        self.batches[batch.id], self.lost[batch.id] = sorted(batch.rdd.collect()), batch.lost


class Stream:
    """Follows the files of a directory, with sinks that may die."""

    def __init__(self, sc, folder):
        self.sc, self.folder, self.logs = sc, folder, folder / "logs"
        self.logs.mkdir()

    def run(self, sink=None, *, rotated_seconds=3600, options=None, **arguments):
        tail = TailLines(poll_seconds=0.1, rotated_seconds=rotated_seconds, **(options or {}))
        return stream_sdf(
            self.sc.parallelize([str(self.logs)], 1),
            [WatchFiles(interval_seconds=0.2, modified="ignore"), tail],
            checkpoint=self.folder / "journal",
            foreach_batch=sink,
            **grouped(batch_seconds=0.1, idle=True, **arguments),
        )


GOES_ON = {"fail_on_data_loss": False}


@pytest.fixture
def stream(sc, tmp_path):
    """A stream whose first batch, the lines of two files, is pinned and was maybe given; then one file goes."""
    stream = Stream(sc, tmp_path)
    (stream.logs / "a").write_text("a1\na2\n")
    (stream.logs / "b").write_text("b1\n")
    stream.died = Sink(dies=True)
    with pytest.raises(CrashError):
        stream.run(stream.died)
    os.remove(stream.logs / "a")
    return stream


def test_a_pinned_file_that_is_gone_is_an_error(stream):
    """At each start, until the user says what to do; the message says how."""
    for _ in range(2):
        with pytest.raises(SourceChangedError, match="pass fail_on_data_loss=False to go on with what is there"):
            stream.run(Sink())


def test_a_batch_that_is_short_is_skipped(stream, caplog, capsys):
    """It may have been delivered with all its records. The journal, the summary and a warning say so."""
    sink = Sink()
    with caplog.at_level(logging.WARNING, "sdf.stream"):
        summary = stream.run(sink, options=GOES_ON)
    assert sink.batches == {}
    assert summary.lost[:2] == (
        "TailLines: of 3 records that were read, 1 were there when they came again",
        "batch 1 is short now, and foreach_batch did not get it (short_batches='skip')",
    )
    for text in summary.lost:
        assert f"lost: {text}" in caplog.text
    main(["show", str(stream.folder / "journal")])
    assert f"    lost: {summary.lost[0]}\n" in capsys.readouterr().out
    (stream.logs / "c").write_text("c1\n")
    stream.run(sink, options=GOES_ON)
    assert list(sink.batches.values()) == [["c1"]]


def test_a_short_batch_is_given_to_who_asks_for_it(stream):
    """With what is left, the same key, and what was lost."""
    sink = Sink()
    stream.run(sink, options=GOES_ON, short_batches="give")
    assert sink.batches == {1: ["b1"]}
    assert sink.lost[1] == ("TailLines: of 3 records that were read, 1 were there when they came again",)
    assert sink.keys == stream.died.keys[:1]


def test_what_is_left_is_the_same_when_it_comes_again(stream):
    """The numbers are in the journal before the sink is called, and more may go then."""
    sink = Sink(dies=True)
    with pytest.raises(CrashError):
        stream.run(sink, options=GOES_ON, short_batches="give")
    with pytest.raises(CrashError):
        stream.run(Sink(dies=True), options=GOES_ON, short_batches="give")
    os.remove(stream.logs / "b")
    summary = stream.run(sink, options=GOES_ON, short_batches="give")
    assert sink.batches == {}
    assert summary.lost[0] == "TailLines: of 3 records that were read, 0 were there when they came again"


def test_what_is_there_is_not_lost(stream):
    """The file came back."""
    (stream.logs / "a").write_text("a1\na2\n")
    sink = Sink()
    summary = stream.run(sink, options=GOES_ON)
    assert sink.batches[1] == ["a1", "a2", "b1"]
    assert not any("came again" in text for text in summary.lost)


def test_a_sink_that_has_written_a_batch_commits_all_of_it(sc, tmp_path, monkeypatch):
    """Though its data are gone: nothing has to be read again."""
    pytest.importorskip("deltalake")
    stream, table = Stream(sc, tmp_path), DeltaTable(str(tmp_path / "table"))
    (stream.logs / "a").write_text("a1\na2\n")
    records = {"sink": table}
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "commit", lambda *arguments: (_ for _ in ()).throw(CrashError()))
        with pytest.raises(CrashError):
            run_rows(stream, **records)
    os.remove(stream.logs / "a")
    run_rows(stream, **records)
    import deltalake

    assert sorted(deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table()["line"].to_pylist()) == ["a1", "a2"]


class RowLines(TailLines):
    """Gives lines as rows."""

    def records(self, path, offset, data):
        return [{"line": line} for line in super().records(path, offset, data)]


def run_rows(stream, **arguments):
    return stream_sdf(
        stream.sc.parallelize([str(stream.logs)], 1),
        [
            WatchFiles(interval_seconds=0.2, modified="ignore"),
            RowLines(poll_seconds=0.1, rotated_seconds=3600, fail_on_data_loss=False),
        ],
        checkpoint=stream.folder / "journal",
        **grouped(batch_seconds=0.1, idle=True, **arguments),
    )


def test_what_may_be_lost_before_it_is_read_is_told(sc, tmp_path):
    """The file goes after a look, which is no error."""
    stream, sink = Stream(sc, tmp_path), Sink()
    (stream.logs / "a").write_text("a1\n")
    stream.run(sink)
    os.remove(stream.logs / "a")
    lost = []
    while not lost:
        lost += stream.run(sink, rotated_seconds=0).lost
    assert lost == [f"{stream.logs}/a has gone after byte 3; if there was more, that is lost"]
    assert list(sink.batches.values()) == [["a1"]]


def test_rows_that_are_gone(sc, tmp_path):
    """An error of a replay, or a loss, as the user says."""
    pytest.importorskip("sqlalchemy")
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY)")
    connection.executemany("INSERT INTO rows VALUES (?)", [(1,), (2,), (3,)])
    connection.commit()

    def run(sink, **options):
        return stream_sdf(
            sc.parallelize(["rows"], 1),
            TailTable(f"sqlite:///{tmp_path}/a.db", key="id", poll_seconds=0.1, **options),
            checkpoint=tmp_path / "journal",
            foreach_batch=lambda batch: sink.append([row["id"] for row in batch.rdd.collect()]),
            pace=Pace(batch_seconds=0.1),
            until=Until(idle=True),
            short_batches="give",
        )

    with pytest.raises(AttributeError):
        run(None)
    connection.execute("DELETE FROM rows WHERE id = 2")
    connection.commit()
    with pytest.raises(ReplayError):
        run([])
    given = []
    summary = run(given, fail_on_data_loss=False)
    assert given == [[1, 3]]
    assert summary.lost == ("TailTable: of 3 records that were read, 2 were there when they came again",)
    connection.close()


def test_what_becomes_of_short_batches_is_said_in_one_of_two_words(sc, tmp_path):
    """Before any job runs."""
    with pytest.raises(InvalidValueError, match="short_batches must be 'skip' or 'give'"):
        Stream(sc, tmp_path).run(Sink(), short_batches="drop")
