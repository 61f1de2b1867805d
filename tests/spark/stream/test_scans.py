"""Scans run beside the batches: they hold up none, and none of what they find is lost."""

import threading
import time
from pathlib import Path

import pytest
from support.streaming import grouped
from support.watching import lines, sink

from sdf import stream_sdf
from sdf.errors import ProcessError
from sdf.io import TailLines, WatchFiles
from sdf.journal.chain import verify
from sdf.storage.disk import Disk


class GatedWatch(WatchFiles):
    """Scans; from the second scan on it waits for a gate, a file, and notes that it waits."""

    def __init__(self, gate, **options):
        super().__init__(interval_seconds=0.1, modified="ignore", **options)
        self.gate = gate

    @classmethod
    def option_names(cls):
        return WatchFiles.option_names() | {"gate"}

    def process(self, element, tracker):
        scans = tracker.current_restriction()
        if scans.start > 0 and scans.found is None:
            Path(f"{self.gate}.waits").touch()
            while not Path(self.gate).exists():
                time.sleep(0.01)
        yield from super().process(element, tracker)


@pytest.fixture
def home(tmp_path):
    for name in ("logs", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "logs" / "a.log").write_text("a1\n")
    return tmp_path


def follow(sc, home, watch, foreach_batch=None, **options):
    return stream_sdf(
        sc.parallelize([str(home / "logs")], 1),
        [watch, TailLines(poll_seconds=0.05)],
        checkpoint=home / "journal",
        foreach_batch=foreach_batch or sink(home / "out"),
        **grouped(batch_seconds=0.1, **options),
    )


def test_new_lines_do_not_wait_for_a_scan(sc, home):
    """A scan hangs until the sink has had a line that came while it hung; then it finds a file."""
    gate, stop, keep = home / "gate", threading.Event(), sink(home / "out")
    guard = threading.Timer(300, stop.set)
    guard.start()

    def give(batch):
        keep(batch)
        there = lines(home / "out")
        if "b1" in there:
            stop.set()
        elif "a2" in there:
            (home / "logs" / "b.log").write_text("b1\n")
            gate.touch()
        else:
            threading.Thread(target=write_while_it_waits).start()

    def write_while_it_waits():
        while not Path(f"{gate}.waits").exists() and not stop.is_set():
            time.sleep(0.01)
        with open(home / "logs" / "a.log", "a") as file:
            file.write("a2\n")

    follow(sc, home, GatedWatch(str(gate)), give, stop=stop)
    gate.touch()
    guard.cancel()
    assert sorted(lines(home / "out")) == ["a1", "a2", "b1"]


class SlowWatch(WatchFiles):
    """Takes a while for each scan; notes that one has begun."""

    def __init__(self, begun, **options):
        super().__init__(modified="ignore", **options)
        self.begun = begun

    @classmethod
    def option_names(cls):
        return WatchFiles.option_names() | {"begun"}

    def process(self, element, tracker):
        if tracker.current_restriction().found is None:
            Path(self.begun).touch()
            time.sleep(1)
        yield from super().process(element, tracker)


def test_a_scan_is_waited_for_before_an_idle_stream_ends(sc, home):
    """What it finds is given."""
    watch = SlowWatch(str(home / "begun"))
    follow(sc, home, watch, idle=True)
    assert lines(home / "out") == ["a1"]
    (home / "logs" / "b.log").write_text("b1\n")
    follow(sc, home, watch, idle=True)
    assert lines(home / "out") == ["a1", "b1"]


def test_a_scan_is_waited_for_before_a_drained_stream_ends(sc, home):
    """What it finds is given, though the stream was told to stop while the first scan was made."""
    stop, begun = threading.Event(), home / "begun"

    def stop_when_it_has_begun():
        while not begun.exists() and not stop.wait(0.01):
            pass
        stop.set()

    threading.Thread(target=stop_when_it_has_begun).start()
    try:
        follow(sc, home, SlowWatch(str(begun)), stop=stop, drain=True)
    finally:
        stop.set()
    assert lines(home / "out") == ["a1"]


def test_a_scan_that_was_in_flight_at_the_end_is_made_again(sc, home):
    """The journal has no trace of it, and what was there is found."""
    gate, stop = home / "gate", threading.Event()
    watch = GatedWatch(str(gate))

    def give(batch):
        sink(home / "out")(batch)
        (home / "logs" / "b.log").write_text("b1\n")
        threading.Timer(0.5, stop.set).start()
        threading.Timer(1.5, gate.touch).start()

    follow(sc, home, watch, give, stop=stop)
    assert len(list(verify(Disk(home / "journal")))) == 2
    follow(sc, home, watch, idle=True)
    assert lines(home / "out") == ["a1", "b1"]


class FailingWatch(WatchFiles):
    def process(self, element, tracker):
        raise OSError("no such luck")
        yield


def test_a_scan_that_fails_ends_the_stream_with_its_error(sc, home):
    """It names DoFn and element."""
    with pytest.raises(ProcessError, match=r"FailingWatch\.process\(\) .*logs.*no such luck"):
        follow(sc, home, FailingWatch(), idle=True)


def test_waking_a_stream_scans_at_once(sc, home):
    """Though the next scan is due in an hour."""
    wake, stop, keep = threading.Event(), threading.Event(), sink(home / "out")

    def give(batch):
        keep(batch)
        if "b1" in lines(home / "out"):
            stop.set()
            return
        (home / "logs" / "b.log").write_text("b1\n")
        wake.set()

    guard = threading.Timer(300, stop.set)
    guard.start()
    follow(sc, home, WatchFiles(interval_seconds=3600, modified="ignore"), give, wake=wake, stop=stop)
    guard.cancel()
    assert lines(home / "out") == ["a1", "b1"]
