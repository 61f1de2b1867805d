"""Lanes of a saved run whose Python workers are told to end, as those of a machine that is taken away."""

import json
import os
import signal
import threading
from collections import Counter

import pytest
from support.saving import FolderSink, rows

from sdf import DoFn, LiveRunner, OffsetRange, save_sdf
from sdf.spark.live.preemption import told_to_end


class SignalledFn(DoFn):
    """Element: its name and a count. Sends a signal at some blocks, once each; notes what it claims.

    Args:
        path: where it notes that.
        to: returns the process to send the signal to.
        number: of the signal.
        at: the blocks.
    """

    def __init__(self, path, to, number, at):
        self.path, self.to, self.number, self.at = str(path), to, number, at

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        name, _ = element
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            with open(f"{self.path}/{os.getpid()}", "a") as file:  # a line at once, though the process may be killed
                file.write(json.dumps([name, i]) + "\n")
            if i in self.at and not os.path.exists(f"{self.path}/{name}-{i}.signalled"):
                open(f"{self.path}/{name}-{i}.signalled", "x").close()
                os.kill(self.to(), self.number)
            threading.Event().wait(0.005)
            yield name, i


def claims(path):
    """Return how often each block was claimed."""
    notes = [note for note in path.iterdir() if not note.suffix]
    return Counter(tuple(json.loads(line)) for note in notes for line in note.read_text().splitlines())


@pytest.mark.parametrize(
    ("to", "number"),
    [(os.getpid, signal.SIGTERM), (os.getpid, signal.SIGHUP), (os.getppid, signal.SIGTERM)],
    ids=["worker SIGTERM", "worker SIGHUP", "daemon SIGTERM"],
)
def test_a_worker_that_is_told_to_end_loses_nothing(sc, tmp_path, to, number):
    """It commits what it has done, and others do the rest; without retries of tasks a worker that dies ends the run."""
    noted = tmp_path / "noted"
    noted.mkdir()
    elements = [("a", 300), ("b", 300), ("c", 0)]
    summary = save_sdf(
        sc.parallelize(elements, 2),
        SignalledFn(noted, to, number, {40, 200}),
        FolderSink(tmp_path / "out"),
        runner=LiveRunner(lanes=2),
        commit_seconds=60,
    )
    everything = {(name, i) for name, count in elements for i in range(count)}
    assert len(list(noted.glob("*.signalled"))) == 4
    assert claims(noted) == dict.fromkeys(everything, 1)
    assert rows(tmp_path / "out") == sorted(everything)
    assert summary.report.retries == 0


def test_the_handlers_of_before_are_there_again():
    """Also after an error, and none is set by another thread than the main one."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    called = []

    def fails():
        with told_to_end(lambda: called.append(True)):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert called == [True, True]
    assert [signal.getsignal(number) for number in numbers] == before
    assert signal.alarm(0) == 0

    def elsewhere():
        with told_to_end(called.clear):
            called.append([signal.getsignal(number) for number in numbers])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert called[-1] == before
