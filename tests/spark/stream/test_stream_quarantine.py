"""A stream with quarantine: bad blocks are set aside, all other records come once and in order, also after crashes."""

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from support.following import GrowingFn
from support.streaming import grouped

from sdf import OffsetRange, Quarantine, stream_sdf
from sdf.errors import ProcessError, StageError, TooManyFailuresError
from sdf.io import FileBlocks, ReadLines, TailKafka, TailLines, TopicPartition, WatchFiles
from sdf.sinks import SqlTable

WHATS = ["raises", "exits", "is killed", "hangs"]
EACH = [
    pytest.param(what, marks=[pytest.mark.slow("the same test with a process that is killed")] * (what == "exits"))
    for what in WHATS
]


def do(what):
    if what == "exits":
        os._exit(7)
    if what == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "takes its worker along":
        for pid in (os.getppid(), os.getpid()):
            os.kill(pid, signal.SIGKILL)
    if what == "hangs":
        time.sleep(600)
    if what == "raises":
        raise ValueError("no number")


def parsed(text):
    """Gives a text back, unless it says what else to do."""
    if text.split()[-1:] and " ".join(text.split()[1:]) in [*WHATS, "takes its worker along"]:
        do(" ".join(text.split()[1:]))
    yield text


class BadWords(GrowingFn):
    """Gives the words of a file that grows, except those that say what else to do."""

    def process(self, element, tracker):
        for word in super().process(element, tracker):
            do(word.replace("_", " "))
            yield word


class Kept:
    """Keeps the records and the failures of each batch by its key."""

    def __init__(self):
        self.batches = {}

    def __call__(self, batch):
        given = (batch.rdd.collect(), batch.failures)
        assert self.batches.setdefault(batch.key, given) == given

    def records(self):
        return [record for records, _ in self.batches.values() for record in records]

    def failures(self):
        return [block for _, failures in self.batches.values() for block in failures]


@pytest.fixture
def stream(sc, tmp_path):
    """Give a function that runs a stream with quarantine until it is idle."""

    def run(element, fns, keep=None, **options):
        options = {"checkpoint": tmp_path / "journal", "idle": True, "batch_seconds": 0.1, **options}
        options = {"on_failure": Quarantine(block_seconds=2.0), **options}
        return stream_sdf(sc.parallelize([element], 1), fns, foreach_batch=keep, **grouped(**options))

    return run


def lines_with(*bad, count=30):
    """Return lines 0 to ``count``, some of which say what else to do: pairs of number and that."""
    return [f"{number} {dict(bad)[number]}" if number in dict(bad) else f"{number}" for number in range(count)]


@pytest.mark.parametrize("what", EACH)
def test_bad_lines_of_a_file_that_grows_are_set_aside(stream, tmp_path, what):
    """Also the first, the last, and two in a row; the others come in order."""
    bad = [5] if what == "hangs" else [0, 5, 6, 11]  # each attempt at a line that hangs takes block_seconds
    lines, path, kept = lines_with(*((number, what) for number in bad), count=12), tmp_path / "a.log", Kept()
    path.write_text("".join(f"{line}\n" for line in lines))
    summary = stream(str(path), [TailLines(), parsed], kept)
    assert kept.records() == [line for line in lines if " " not in line]
    data = path.read_bytes()
    held = [data[block.restriction.start : block.restriction.stop].decode().strip() for block in kept.failures()]
    assert held == [line for line in lines if " " in line]
    assert list(summary.failures) == kept.failures()


@pytest.mark.parametrize("what", EACH)
def test_bad_positions_of_a_dofn_of_ones_own(stream, tmp_path, what):
    """An offset range without an end, which is cut at the position claimed last."""
    words, path, kept = [str(number) for number in range(20)], tmp_path / "words", Kept()
    words[3] = words[19] = what.replace(" ", "_")
    path.write_text(" ".join(words))
    stream(str(path), BadWords(), kept)
    assert kept.records() == [word for word in words if word.isdigit()]
    assert [block.restriction for block in kept.failures()] == [OffsetRange(3, 4), OffsetRange(19, 20)]


def test_bad_messages_of_a_partition(stream):
    """One message each is set aside, though messages are read many at a time."""
    kafka = pytest.importorskip("confluent_kafka")
    brokers = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = brokers.list_topics(timeout=10).brokers.values()
    brokers.list_topics("topic", timeout=10)
    lines, kept = lines_with((7, "raises"), (8, "is killed"), count=20), Kept()
    for line in lines:
        brokers.produce("topic", line.encode(), partition=1)
    assert brokers.flush(10) == 0
    config = {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}

    def value_of(record):
        yield from parsed(record.value.decode())

    stream(TopicPartition("topic", 1), [TailKafka(config, poll_seconds=0.1), value_of], kept)
    assert kept.records() == [line for line in lines if " " not in line]
    assert [(block.restriction.start, block.restriction.stop) for block in kept.failures()] == [(7, 8), (8, 9)]


def test_bad_lines_of_files_that_are_found(stream, tmp_path):
    """Files that do not grow are cut at the blocks of their reader, here 100 bytes."""
    lines, kept = lines_with((40, "raises"), (120, "exits"), count=200), Kept()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("".join(f"{line}\n" for line in lines))
    fns = [WatchFiles(interval_seconds=60), FileBlocks(100), ReadLines(), parsed]
    stream(f"{tmp_path}/in/*.txt", fns, kept)
    starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(200)]
    blocks = [range(block.restriction.start, block.restriction.stop) for block in kept.failures()]
    assert [len(block) for block in blocks] == [100, 100]
    others = [line for start, line in zip(starts, lines, strict=True) if not any(start in block for block in blocks)]
    assert sorted(kept.records(), key=int) == others
    assert not any(" " in line for line in others)


def test_a_block_that_takes_its_worker_along(stream, tmp_path):
    """Nobody tells what was claimed last: of files that do not grow parts are cut in halves, of others none can be."""
    lines, kept = lines_with((7, "takes its worker along"), count=40), Kept()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("".join(f"{line}\n" for line in lines))
    stream(f"{tmp_path}/in/*.txt", [WatchFiles(interval_seconds=60), FileBlocks(30), ReadLines(), parsed], kept)
    (block,) = kept.failures()
    assert "its executor or worker was lost" in block.error
    held = [number for number in range(40) if str(number) not in kept.records()]
    assert 7 in held
    assert held == list(range(held[0], held[-1] + 1))
    with pytest.raises(StageError, match=r"TailLines failed \d+ times on .* it claimed last is not known"):
        stream(f"{tmp_path}/in/a.txt", [TailLines(), parsed], kept, checkpoint=tmp_path / "other")


def test_a_stream_that_ends_after_each_batch_goes_on_searching(stream, tmp_path):
    """What is known of a part that failed is in the journal; each batch is another driver's here."""
    lines, path, kept = lines_with((4, "raises"), (21, "exits")), tmp_path / "a.log", Kept()
    path.write_text("".join(f"{line}\n" for line in lines))
    drivers = 0
    while stream(str(path), [TailLines(), parsed], kept, max_batches=1).batches:
        drivers += 1
        assert drivers < 60
    assert kept.records() == [line for line in lines if " " not in line]
    assert [block.attempts for block in kept.failures()] == sorted(block.attempts for block in kept.failures())
    assert len(kept.failures()) == 2


def test_the_journal_tells_what_was_set_aside(stream, tmp_path):
    """With how often it was tried, and why."""
    path = tmp_path / "words"
    path.write_text("1 raises 2")
    stream(str(path), BadWords(), Kept())
    command = [sys.executable, "-m", "sdf.journal", "show", str(tmp_path / "journal")]
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert f"failed: OffsetRange(start=1, stop=2) of element '{path}', 2 attempts: " in shown
    assert "ValueError: no number" in shown


def test_a_sink_gets_all_but_what_was_set_aside(stream, tmp_path):
    """Each record once."""
    path = tmp_path / "words"
    path.write_text("1 2 raises 3 exits 4")
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("CREATE TABLE t (word TEXT)")
    summary = stream(str(path), [BadWords(), as_row], None, sink=SqlTable(f"sqlite:///{tmp_path}/t.db", "t"))
    assert (summary.records, len(summary.failures)) == (4, 2)
    with sqlite3.connect(tmp_path / "t.db") as database:
        assert database.execute("SELECT word FROM t ORDER BY word").fetchall() == [("1",), ("2",), ("3",), ("4",)]


def as_row(word):
    yield {"word": word}


def test_too_many_failures_end_the_stream_and_it_goes_on_later(stream, tmp_path):
    """The batches before are committed."""
    path, kept = tmp_path / "words", Kept()
    path.write_text("1 raises 2 raises 3")
    with pytest.raises(TooManyFailuresError, match="2 blocks failed, and max_failures is 1"):
        stream(str(path), BadWords(), kept, on_failure=Quarantine(max_failures=1))
    stream(str(path), BadWords(), kept)
    assert kept.records() == ["1", "2", "3"]
    assert len(kept.failures()) == 2


def test_without_quarantine_the_stream_ends(stream, tmp_path):
    """As before."""
    path = tmp_path / "words"
    path.write_text("1 raises 2")
    with pytest.raises(ProcessError, match="no number"):
        stream(str(path), BadWords(), Kept(), on_failure=None)
