"""The writer of a saved run's log: order, grouping, waiting, failing, ending."""

import threading

import pytest

from sdf.errors import JournalFencedError
from sdf.saving.log_writer import LogWriter


class Log:
    """Keeps what is appended; an append waits until it may go on, and may fail."""

    def __init__(self):
        self.entries = []
        self.begun = threading.Semaphore(0)
        self.free = threading.Event()
        self.free.set()
        self.failure = None

    def append(self, records):
        self.begun.release()
        self.free.wait()
        if self.failure is not None:
            raise self.failure
        self.entries.append(list(records))

    def records(self):
        return [record for entry in self.entries for record in entry]


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def writer(log):
    """A writer whose clock stands still: after its first entry no other is due before it is asked for."""
    writer = LogWriter(log, clock=lambda: 0.0)
    yield writer
    log.free.set()
    writer.close()
    assert not writer._thread.is_alive()


def test_the_first_record_is_written_at_once(log, writer):
    """Nobody has to ask for it."""
    writer.add("a")
    log.begun.acquire()


def test_records_that_come_soon_after_each_other_share_an_entry(log, writer):
    """All that was added by the time that it is asked for, in order."""
    writer.add("a")
    writer.flush()
    writer.add("b", "c")
    writer.add("d")
    writer.flush()
    assert log.entries == [["a"], ["b", "c", "d"]]


def test_what_is_added_during_a_write_comes_next(log, writer):
    """Flush waits for that too."""
    log.free.clear()
    writer.add("a")
    log.begun.acquire()
    writer.add("b")
    log.free.set()
    writer.flush()
    assert log.entries == [["a"], ["b"]]


def test_an_entry_is_due_after_a_second(log):
    """By the clock, without a flush."""
    seconds = iter(range(1000))
    writer = LogWriter(log, clock=lambda: next(seconds))
    for record in "abc":
        writer.add(record)
        log.begun.acquire()
    writer.close()
    assert log.records() == ["a", "b", "c"]


def test_flush_without_records_returns(log, writer):
    """There is nothing to wait for."""
    writer.flush()
    assert log.entries == []


def test_close_writes_what_is_left(log, writer):
    """At once, though the next entry is not due."""
    writer.add("a")
    writer.flush()
    writer.add("b")
    writer.close()
    assert log.records() == ["a", "b"]


def test_many_threads_may_flush(log, writer):
    """Each returns after its own record is durable; those of each thread are in order."""

    def add(name):
        for number in range(50):
            writer.add([name, number])
            writer.flush()
            assert [name, number] in log.records()

    threads = [threading.Thread(target=add, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in range(4):
        assert [record[1] for record in log.records() if record[0] == name] == list(range(50))
    assert len(log.records()) == 200


def test_a_failure_is_raised_by_all_that_wait_from_then_on(log, writer):
    """And nothing is written any more, not even at the end."""
    log.failure = JournalFencedError("another driver")
    writer.add("a")
    with pytest.raises(JournalFencedError):
        writer.flush()
    log.failure = None
    writer.add("b")
    for wait in (writer.flush, writer.check):
        with pytest.raises(JournalFencedError):
            wait()
    writer.close()
    assert log.entries == []


def test_a_failure_wakes_who_waits_already(log, writer):
    """For a record that was added while the write that failed was under way."""
    log.free.clear()
    writer.add("a")
    log.begun.acquire()
    writer.add("b")
    log.failure = JournalFencedError("another driver")
    threading.Timer(0.01, log.free.set).start()
    with pytest.raises(JournalFencedError):
        writer.flush()


def test_check_is_silent_while_all_is_well(log, writer):
    """The seconds that writing took are counted."""
    writer.add("a")
    writer.flush()
    writer.check()
    assert writer.seconds == 0.0
