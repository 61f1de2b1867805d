"""The key of a batch: the same when the batch comes again, another for any other; sinks that keep keys lose nothing."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from support.following import GrowingFn
from support.streaming import grouped

from sdf import Pace, Until, stream_sdf
from sdf.errors import JournalCorruptError
from sdf.journal.chain import block_name
from sdf.journal.pending import Pending
from sdf.quarantine.failures import FailedBlock
from sdf.sinks import DeltaTable, SqlTable
from sdf.spark.stream.pins import Pin


class Kept:
    """A sink that keeps keys, as the docs advise: a batch whose key it has is skipped."""

    def __init__(self, *fails_at):
        self.batches, self.given, self.fails_at = {}, [], set(fails_at)

    def __call__(self, batch):
        self.given.append((batch.id, batch.key))
        self.batches.setdefault(batch.key, batch.rdd.collect())
        if len(self.given) in self.fails_at:
            raise RuntimeError("down")

    def records(self):
        return sorted(record for records in self.batches.values() for record in records)


@pytest.fixture
def stream(sc, tmp_path):
    """Give a function that adds a word to a growing file, and reads what is new in it."""
    words = tmp_path / "words"
    words.write_text("")

    def run(word, keep=None, sink=None, checkpoint="journal"):
        words.write_text(f"{words.read_text()}{word} ")
        return stream_sdf(
            sc.parallelize([str(words)]),
            GrowingFn(),
            checkpoint=tmp_path / checkpoint,
            foreach_batch=keep,
            sink=sink,
            until=Until(idle=True),
            pace=Pace(batch_seconds=0.1),
        )

    return run


class Turning:
    """Pickles to other bytes each time that it comes back, as sets in another process do."""

    def __init__(self, times):
        self.times = times

    def __reduce_ex__(self, protocol):
        return Turning, (self.times + 1,), None, None, None, print


def test_a_pin_that_comes_back_names_its_records_as_before():
    """Else the batch would come again under another key, and a sink that keeps keys would take its records twice."""
    part, block = Pending(0, Turning(1), None), FailedBlock(Turning(1), None, "error", 3)
    pin = Pin(((part,),), ((1,),), failed=(block,))
    written = json.loads(json.dumps(pin.to_json()))
    again = Pin.from_json(written)
    assert again.content() == {name: written[name] for name in ("tasks", "counts", "failed")}
    assert again.to_json() == {**written, "by": ""}


def test_a_batch_that_comes_again_has_its_key(stream):
    """And the next one has another."""
    keep = Kept(1)
    with pytest.raises(RuntimeError, match="down"):
        stream("a", keep)
    stream("b", keep)
    (first, again, after) = keep.given
    assert (first, first[0], again[1] == after[1]) == (again, 1, False)
    assert keep.records() == ["a", "b"]


def test_a_journal_that_is_begun_anew_has_other_keys(stream, tmp_path):
    """A sink that keeps keys gets all of it again, and skips nothing that is new."""
    keep = Kept()
    stream("a", keep)
    shutil.rmtree(tmp_path / "journal")
    stream("b", keep)
    assert [number for number, _ in keep.given] == [1, 1]
    assert keep.records() == ["a", "a", "b"]


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_journal_that_was_copied_never_has_the_key_of_other_records(stream, tmp_path, in_flight):
    """The original goes on with one word, the copy with two: under one number, not under one key.

    A batch that the original had pinned when it was copied is the same in both.
    """
    keep = Kept(2) if in_flight else Kept()
    stream("a", keep)
    if in_flight:
        with pytest.raises(RuntimeError, match="down"):
            stream("b", keep)
    shutil.copytree(tmp_path / "journal", tmp_path / "copy")
    stream("b", keep)
    stream("c", keep, checkpoint="copy")
    assert {"a", "b", "c"} <= set(keep.records())
    if in_flight:
        assert keep.given[1] in keep.given[2:]


def rows_of(sink, place):
    if isinstance(sink, SqlTable):
        with sqlite3.connect(place) as connection:
            return [row[0] for row in connection.execute("SELECT word FROM words ORDER BY word")]
    import deltalake

    return sorted(row["word"] for row in deltalake.DeltaTable(str(place)).to_pyarrow_table().to_pylist())


@pytest.mark.parametrize("kind", ["delta", "sqlite"])
def test_a_table_takes_what_a_restored_journal_reads(sc, tmp_path, kind):
    """Under numbers that the table has had: nothing is skipped; what the lost blocks had delivered comes again."""
    words, place = tmp_path / "words", tmp_path / "table"
    words.write_text("a ")
    if kind == "sqlite":
        with sqlite3.connect(place) as connection:
            connection.execute("CREATE TABLE words (word TEXT NOT NULL)")
    sink = DeltaTable(place) if kind == "delta" else SqlTable(f"sqlite:///{place}", "words")

    def run():
        rdd = sc.parallelize([str(words)])
        options = {"checkpoint": tmp_path / "journal", "idle": True, "batch_seconds": 0.1}
        stream_sdf(rdd, GrowingFn(as_rows=True), sink=sink, **grouped(**options))

    run()
    shutil.copytree(tmp_path / "journal", tmp_path / "copy")
    words.write_text("a b ")
    run()
    shutil.rmtree(tmp_path / "journal")
    shutil.copytree(tmp_path / "copy", tmp_path / "journal")
    words.write_text("a b c ")
    run()
    assert rows_of(sink, place) == ["a", "b", "b", "c"]


def test_a_damaged_block_says_what_to_do(stream, tmp_path):
    """The advice, followed, loses nothing if the sink keeps keys; and it says so."""
    stream("a", Kept())
    Path(tmp_path / "journal" / block_name(1)).write_bytes(b"garbage")
    with pytest.raises(JournalCorruptError, match=r"Restore the checkpoint.*deduplicate by batch\.key, not by"):
        stream("b", Kept())
