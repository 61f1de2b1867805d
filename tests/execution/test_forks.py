"""A process that the user's code forks, and that goes on in sdf, is ended; its parent raises."""

import os
import sys
from array import array
from pickle import dumps

import pytest

from sdf import DoFn, OffsetRange, run_direct
from sdf.errors import ContractError
from sdf.execution.bulk.invoker import TableInvoker
from sdf.execution.bulk.table import Table
from sdf.execution.invoker import Invoker
from sdf.model import forks
from sdf.model.offset_trackers import OffsetRangeTracker

BLOCKS = OffsetRange(0, 9)


def fork():
    """Fork; the parent goes on when its child has ended."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return child


def claims(tracker):
    for position in tracker.claims():
        if position == 4:
            fork()
        yield position


def tries(tracker):
    claim = tracker.try_claim
    for position in range(*tracker.current_restriction()):
        if not claim(position):
            return
        if position == 4:
            fork()
        yield position


def before_claims(tracker):
    fork()
    yield from tries(tracker)


def gives_a_list(tracker):
    fork()
    return list(tracker.claims())


def raises(tracker):
    for position in tracker.claims():
        if position == 4 and not fork():
            raise ValueError("in the child")
        yield position


def exits(tracker):
    for position in tracker.claims():
        if position == 4 and not fork():
            sys.exit(0)
        yield position


class Forks(DoFn):
    def __init__(self, how):
        self.how = how

    def get_initial_restriction(self, element):
        return BLOCKS

    def process(self, element, tracker):
        return self.how(tracker)


class Own(OffsetRangeTracker):
    """Of a class that sdf does not know."""


class OwnForks(Forks):
    def create_tracker(self, element, restriction):
        return Own(restriction)


def alone(fn):
    return Invoker(fn, "e", BLOCKS)


def table(fn):
    made = Table(0, (dumps(["e", "f"]),), array("q", [0, 0]), array("q", [9, 9]))
    return TableInvoker(fn, made, made.whole())


@pytest.mark.parametrize("made", [alone, table])
@pytest.mark.parametrize("kind", [Forks, OwnForks])
@pytest.mark.parametrize("how", [claims, tries, before_claims, gives_a_list, raises, exits])
def test_a_forked_process_that_goes_on_ends_and_its_parent_raises(tmp_path, made, kind, how, capfd):
    """The child gives no block after the one in which it was forked."""
    invoker, given = made(kind(how)), tmp_path / "given"

    def run():
        with invoker.outputs() as outputs:
            for _ in outputs:
                with open(given, "a") as file:
                    file.write(f"{os.getpid()}\n")

    with pytest.raises(ContractError, match=r"Forks\.process\(\).* a process that it forked came back"):
        run()
    by = given.read_text().split()
    assert 9 <= by.count(str(os.getpid())) <= 18
    assert len(by) - by.count(str(os.getpid())) <= 2  # of two rows
    assert f"forked by {os.getpid()}, is ended" in capfd.readouterr().err


def test_so_does_the_parent_of_one_that_cannot_give_its_outputs():
    """As with quarantine, where the pipe to the worker is closed in a forked process; its outputs stay as they are."""
    outputs, parent = alone(Forks(claims)).run(), os.getpid()

    def give():
        with forks.alone():
            for _ in outputs:
                if os.getpid() != parent:
                    raise OSError("the pipe is closed")

    with pytest.raises(ContractError, match=r"Forks\.process\(\).* a process that it forked came back"):
        give()


@pytest.mark.parametrize("hook", ["setup", "start_bundle", "finish_bundle", "get_initial_restriction"])
def test_so_does_one_that_returns_from_another_method(hook):
    """It would do all that comes after."""
    fn = Forks(lambda tracker: list(tracker.claims()))
    original = getattr(fn, hook)
    setattr(fn, hook, lambda *arguments: (fork(), original(*arguments))[1])
    with pytest.raises(ContractError, match=rf"Forks\.{hook}\(\).* a process that it forked came back"):
        run_direct(["e"], fn)


def test_a_forked_process_that_does_not_come_back_is_no_error():
    """As those of multiprocessing."""

    def helped(tracker):
        for position in tracker.claims():
            if os.fork() == 0:
                os._exit(0)
            os.wait()
            yield position

    assert run_direct(["e"], Forks(helped)) == list(range(9))
