"""Watermarks that move though nothing was read, and sources that are idle."""

import threading
import time
from pathlib import Path

import pytest
from support.following import GrowingFn
from support.streaming import grouped

from sdf import UNBOUNDED, MonotonicWatermark, Pace, Until, WalltimeWatermark, stream_sdf
from sdf.errors import InvalidValueError
from sdf.io import TailLines, WatchFiles
from sdf.journal.chain import verify
from sdf.reporting.stream_page import stream_page
from sdf.saving.command import main
from sdf.spark.stream import micro_batches
from sdf.storage.disk import Disk


class TimedFn(GrowingFn):
    """Words are times."""

    def create_watermark_estimator(self, element, restriction):
        return MonotonicWatermark(0)

    def process(self, element, tracker):
        for word in super().process(element, tracker):
            tracker.watermark.observe(int(word))
            yield word


class ClockFn(TimedFn):
    """Also reads the time from the file beside an element, and advances to it without a claim."""

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        there = Path(element).read_text().split()
        clock = Path(f"{element}.clock")
        for i in range(start, len(there) if stop is UNBOUNDED else stop):
            if not tracker.try_claim(i):
                return
            yield there[i]
        if stop is UNBOUNDED:
            tracker.watermark.observe(int(clock.read_text()) if clock.exists() else 0)
            tracker.defer_remainder(self.delay_seconds)


@pytest.fixture
def stream(sc, tmp_path):
    """Give a function that runs a stream of times, by default of one file."""

    def run(fn, foreach_batch, *paths, **options):
        options = {"checkpoint": tmp_path / "journal", "batch_seconds": 0.1, **options}
        rdd = sc.parallelize([str(path) for path in paths or [tmp_path / "times"]])
        return stream_sdf(rdd, fn, foreach_batch=foreach_batch, **grouped(**options))

    return run


def guarded(stop):
    """End a stream that does not end by itself; no test relies on it."""
    guard = threading.Timer(300, stop.set)
    guard.daemon = True
    guard.start()
    return guard


def blocks(tmp_path):
    return [block.data for block in verify(Disk(tmp_path / "journal"))][1:]


class Heard:
    """Notes batches; after the first one it sets the clock of a file, and stops when it hears of that time."""

    def __init__(self, path, stop, fails=False):
        self.path, self.stop, self.fails, self.batches = path, stop, fails, []

    def __call__(self, batch):
        self.batches.append((batch.id, batch.key, batch.rdd.collect(), batch.watermark))
        Path(f"{self.path}.clock").write_text("77")
        if batch.watermark == 77:
            if self.fails:
                self.fails = False
                raise RuntimeError("down")
            self.stop.set()


def test_a_watermark_that_moves_without_a_record_is_committed_and_told(stream, tmp_path):
    """By a block with an empty output, and a batch without records."""
    (tmp_path / "times").write_text("1")
    stop = threading.Event()
    heard, guard = Heard(tmp_path / "times", stop), guarded(stop)
    summary = stream(ClockFn(), heard, stop=stop, watermark_seconds=0.05)
    guard.cancel()
    assert heard.batches[0][2:] == (["1"], 0)
    assert heard.batches[-1][2:] == ([], 77)
    assert summary.watermark == blocks(tmp_path)[-1]["watermark"] == 77
    assert blocks(tmp_path)[-1]["output"] == {"start": 1, "stop": 1}
    assert summary.batches == 1  # of those that have records


def test_a_sink_that_fails_when_it_is_told_is_told_again(stream, tmp_path):
    """With the same number, key and watermark."""
    (tmp_path / "times").write_text("1")
    stop = threading.Event()
    heard, guard = Heard(tmp_path / "times", stop, fails=True), guarded(stop)
    with pytest.raises(RuntimeError, match="down"):
        stream(ClockFn(), heard, stop=stop, watermark_seconds=0.05)
    stream(ClockFn(), heard, stop=stop, watermark_seconds=0.05)
    guard.cancel()
    assert heard.batches[-1] == heard.batches[-2]


def test_a_sink_that_did_not_ask_is_not_told(stream, tmp_path, monkeypatch):
    """The journal has it."""
    monkeypatch.setattr(micro_batches, "_WATERMARK_SECONDS", 0.05)
    (tmp_path / "times").write_text("1")
    stop = threading.Event()
    heard, guard = Heard(tmp_path / "times", stop), guarded(stop)
    looked = threading.Thread(target=lambda: _wait_for_watermark(tmp_path, stop))
    looked.start()
    stream(ClockFn(), heard, stop=stop)
    looked.join()
    guard.cancel()
    assert [records for _, _, records, _ in heard.batches] == [["1"]]
    assert blocks(tmp_path)[-1]["watermark"] == 77


def _wait_for_watermark(tmp_path, stop):
    while not stop.is_set():
        time.sleep(0.05)
        if (tmp_path / "journal").exists() and '"watermark":77' in "".join(
            path.read_text() for path in (tmp_path / "journal" / "blocks").glob("*.json")
        ):
            stop.set()


class WallFn(GrowingFn):
    """Its watermark is the time of the clock."""

    def create_watermark_estimator(self, element, restriction):
        return WalltimeWatermark(time.time)


def test_a_watermark_that_always_moves_writes_few_blocks(stream, tmp_path):
    """None within the minute after a batch, if the sink did not ask; so a stream can be idle."""
    (tmp_path / "times").write_text("1")
    stream(WallFn(), lambda batch: None, idle=True)
    assert len(blocks(tmp_path)) == 1
    stream(WallFn(), lambda batch: None, idle=True, watermark_seconds=0.01)


def test_a_batch_that_comes_again_has_its_watermark(stream, tmp_path):
    """Though the clock has gone on."""
    (tmp_path / "times").write_text("1")
    marks = []

    def sink(batch):
        marks.append(batch.watermark)
        if len(marks) == 1:
            raise RuntimeError("down")

    with pytest.raises(RuntimeError, match="down"):
        stream(WallFn(), sink, idle=True)
    stream(WallFn(), sink, idle=True)
    assert marks[0] == marks[1]


def test_an_idle_source_does_not_hold_the_watermark_for_ever(stream, tmp_path):
    """If that is asked for; what comes late then is given all the same, and counted."""
    busy, silent = tmp_path / "busy", tmp_path / "silent"
    busy.write_text("5")
    silent.write_text("")
    stop, given = threading.Event(), []
    guard = guarded(stop)

    def sink(batch):
        given.append((sorted(batch.rdd.collect()), batch.watermark))
        if batch.watermark and not silent.read_text():
            silent.write_text("3")
        elif given[-1][0] == ["3"]:
            stop.set()
        else:
            busy.write_text(f"{busy.read_text()} {5 + len(given)}")

    summary = stream(TimedFn(), sink, busy, silent, stop=stop, idle_seconds=2)
    guard.cancel()
    assert summary.late == 1
    assert given[0] == (["5"], 0)
    assert given[-1][0] == ["3"]
    assert given[-1][1] > 3
    marks = [mark for _, mark in given]
    assert marks == sorted(marks)


class Late:
    """After the first batch it adds late records to a file; the first call with these fails if that is asked for."""

    def __init__(self, path, fails=False):
        self.path, self.fails, self.calls = path, fails, 0
        path.write_text("5 6 2")

    def __call__(self, batch):
        self.calls += 1
        if self.calls == 1:
            self.path.write_text("5 6 2 3 7 4 6")
        elif self.fails:
            self.fails = False
            raise RuntimeError("down")


def test_late_records_are_counted(stream, tmp_path, capsys):
    """Those below the watermark when their batch began: 3 and 4, as that was 6; not 2, as there was none."""
    summary = stream(TimedFn(), Late(tmp_path / "times"), max_batches=2)
    assert summary.late == 2
    assert [progress.late for progress in summary.history] == [0, 2]
    assert "late records" in stream_page(summary.history)
    assert "late records" not in stream_page(summary.history[:1])
    assert [block.get("late") for block in blocks(tmp_path)] == [None, 2]
    main(["show", str(tmp_path / "journal")])
    shown = capsys.readouterr().out
    assert "output [3, 7)  2 late  watermark 7  running" in shown
    assert shown.count(" late ") == 1


def test_late_records_of_a_batch_that_comes_again_are_counted_once(stream, tmp_path):
    """By the driver that commits it."""
    sink = Late(tmp_path / "times", fails=True)
    with pytest.raises(RuntimeError, match="down"):
        stream(TimedFn(), sink)
    summary = stream(TimedFn(), sink, max_batches=1)
    assert (sink.calls, summary.late) == (3, 2)
    assert [block.get("late") for block in blocks(tmp_path)] == [None, 2]


def test_without_that_it_does(stream, tmp_path):
    """No record of it may come late."""
    busy, silent = tmp_path / "busy", tmp_path / "silent"
    busy.write_text("5")
    silent.write_text("")
    marks = []

    def sink(batch):
        marks.append(batch.watermark)
        busy.write_text(f"{busy.read_text()} {5 + len(marks)}")

    stream(TimedFn(), sink, busy, silent, max_batches=4)
    assert marks == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["watermark_seconds", "idle_seconds"])
def test_wrong_seconds_are_named(stream, tmp_path, name):
    """Before anything is written."""
    with pytest.raises(InvalidValueError, match=f"Pace {name} must be a positive number below 1e.09, or None"):
        stream(TimedFn(), print, **{name: 0})
    assert not (tmp_path / "journal").exists()


def test_the_lines_of_files_have_a_watermark(sc, tmp_path):
    """The lowest of all files that have not ended; what is older in a new file is late."""
    (tmp_path / "logs").mkdir()

    def follow():
        return stream_sdf(
            sc.parallelize([str(tmp_path / "logs")]),
            [WatchFiles(modified="ignore"), TailLines(timestamp=lambda line: int(line.split()[0]))],
            checkpoint=tmp_path / "journal",
            foreach_batch=lambda batch: None,
            until=Until(idle=True),
            pace=Pace(batch_seconds=0.5),
        )

    (tmp_path / "logs" / "a.log").write_text("5 a\n")
    (tmp_path / "logs" / "b.log").write_text("7 b\n")
    summary = follow()
    assert (summary.watermark, summary.late) == (5, 0)
    (tmp_path / "logs" / "c.log").write_text("1 c\n6 c\n")
    summary = follow()
    assert (summary.watermark, summary.late) == (5, 1)
