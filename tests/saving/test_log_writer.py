"""LogWriter: what is added is written in order, seldom, and an error reaches whoever waits."""

import threading

import pytest
from support.clock import Clock
from support.memory import Memory

from sdf.errors import JournalFencedError
from sdf.saving import log_writer
from sdf.saving.log_writer import LogWriter
from sdf.saving.run_log import RunLog


class Log:
    """Notes the entries; waits at each for leave, if it is told to, and fails where it is told to."""

    def __init__(self, *, waits=False, fails_at=None):
        self.entries = []
        self.fails_at = fails_at
        self.writing, self.leave = threading.Event(), threading.Event()
        if not waits:
            self.leave.set()

    def append(self, records):
        self.writing.set()
        self.leave.wait()
        if len(self.entries) == self.fails_at:
            raise OSError("no space left")
        self.entries.append(list(records))


def writer_to(log):
    return LogWriter(log, clock=Clock(0.0))


def test_what_is_added_while_an_entry_is_written_goes_into_the_next_one():
    """All of it, in order."""
    log = Log(waits=True)
    writer = writer_to(log)
    writer.add(["a"])
    log.writing.wait()
    writer.add(["b"], ["c"])
    writer.add(["d"])
    log.leave.set()
    writer.close()
    assert log.entries == [[["a"]], [["b"], ["c"], ["d"]]]


def test_the_second_entry_waits_for_its_time_or_for_somebody_who_waits_for_it():
    """Here the clock stands still, so its time never comes."""
    log = Log()
    writer = writer_to(log)
    assert writer.seconds == 0
    writer.add(["a"])
    writer.flush()
    log.writing.clear()
    writer.add(["b"])
    assert not log.writing.wait(0.1)
    assert log.entries == [[["a"]]]
    writer.flush()
    assert log.entries == [[["a"]], [["b"]]]
    writer.close()


def test_whoever_flushes_waits_until_it_is_written():
    """Also while an earlier entry is being written."""
    log = Log(waits=True)
    writer = writer_to(log)
    writer.add(["a"])
    log.writing.wait()
    writer.add(["b"])
    flushed = threading.Thread(target=writer.flush)
    flushed.start()
    assert log.entries == []
    log.leave.set()
    flushed.join()
    assert log.entries == [[["a"]], [["b"]]]
    writer.close()


def test_whoever_flushes_waits_for_what_is_being_written():
    """It is not durable before, though nothing is left to write."""
    log = Log(waits=True)
    writer = writer_to(log)
    writer.add(["a"])
    log.writing.wait()
    flushed = threading.Thread(target=writer.flush)
    flushed.start()
    flushed.join(0.1)
    assert flushed.is_alive()
    log.leave.set()
    flushed.join()
    assert log.entries == [[["a"]]]
    writer.close()


def test_whoever_adds_waits_while_too_many_records_wait(monkeypatch):
    """Storage that hangs must not fill the driver's memory."""
    monkeypatch.setattr(log_writer, "_MOST_WAITING", 2)
    log = Log(waits=True)
    writer = writer_to(log)
    writer.add(["a"])
    log.writing.wait()
    writer.add(["b"], ["c"])
    adds = threading.Thread(target=writer.add, args=[["d"]])
    adds.start()
    adds.join(0.05)
    assert adds.is_alive()
    log.leave.set()
    adds.join()
    writer.flush()
    assert [record for entry in log.entries for record in entry] == [["a"], ["b"], ["c"], ["d"]]
    writer.close()


def test_whoever_adds_waits_no_longer_once_writing_has_failed(monkeypatch):
    """It learns of that as it asks."""
    monkeypatch.setattr(log_writer, "_MOST_WAITING", 1)
    log = Log(fails_at=0)
    writer = writer_to(log)
    for name in "abc":
        writer.add([name])
    with pytest.raises(OSError, match="no space left"):
        writer.flush()
    writer.close()


def test_with_nothing_to_write_nothing_is_written():
    """No empty entries."""
    log = Log()
    writer = writer_to(log)
    writer.flush()
    writer.close()
    assert log.entries == []


def test_an_error_is_raised_to_all_who_ask():
    """At once, and ever after; nothing is written any more."""
    log = Log(fails_at=1)
    writer = writer_to(log)
    writer.add(["a"])
    writer.flush()
    writer.check()
    writer.add(["b"])
    for _ in range(2):
        with pytest.raises(OSError, match="no space left"):
            writer.flush()
        with pytest.raises(OSError, match="no space left"):
            writer.check()
        writer.add(["c"])
    writer.close()
    assert log.entries == [[["a"]]]


def test_an_error_ends_the_wait_of_those_who_flush():
    """Though what they wait for is never written."""
    log = Log(waits=True, fails_at=0)
    writer = writer_to(log)
    errors = []

    def flush():
        try:
            writer.flush()
        except OSError as error:
            errors.append(str(error))

    writer.add(["a"])
    log.writing.wait()
    writer.add(["b"])
    threads = [threading.Thread(target=flush) for _ in range(3)]
    for thread in threads:
        thread.start()
    log.leave.set()
    for thread in threads:
        thread.join()
    writer.close()
    assert errors == ["no space left"] * 3


def test_a_driver_that_was_overtaken_hears_of_it():
    """With its next entry."""
    storage = Memory()
    logs = [RunLog(storage, driver=name, clock=lambda: 0) for name in ("one", "other")]
    for log in logs:
        assert list(log.read()) == []
    logs[1].append([["begin"]])
    writer = writer_to(logs[0])
    writer.add(["begin"])
    with pytest.raises(JournalFencedError):
        writer.flush()
    writer.close()
