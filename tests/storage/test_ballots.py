"""Ballots: a file is created once on a disk without hard links, whoever stops, and goes on, at any of their steps."""

import itertools
import threading
from functools import partial

import pytest

from sdf.storage import ballots


class DiedError(BaseException):
    """Stands for the end of a process."""


class Turns:
    """Lets processes, which are threads here, do one step at a time, in a given order.

    Args:
        shows_at_close: others see what is written only when the file is closed, as on a mount of an object store.
    """

    def __init__(self, monkeypatch, *, shows_at_close):
        self.changed, self.running, self.dead = threading.Condition(), None, False
        self.waiting, self.threads, self.results = set(), {}, {}
        self.here = threading.local()
        self.shows_at_close = shows_at_close
        monkeypatch.setattr(ballots, "_DOUBT_SECONDS", 0)
        monkeypatch.setattr(ballots, "open", self.open, raising=False)

    def open(self, path, mode):
        """Stand in for the built-in."""
        self.turn()
        file = open(path, mode, buffering=0)  # noqa: SIM115, closed by the caller
        return WrittenInSteps(file, self) if mode == "xb" else file

    def turn(self):
        """Wait for the next turn of this process; the test itself needs none."""
        name = getattr(self.here, "name", None)
        if name is None:
            return
        with self.changed:
            self.running = None
            self.waiting.add(name)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.running == name or self.dead)
            self.waiting.discard(name)
            if self.dead:
                raise DiedError

    def start(self, name, function):
        def run():
            self.here.name = name
            try:
                self.turn()
                self.results[name] = function()
            except (FileExistsError, DiedError) as error:
                self.results[name] = error
            with self.changed:
                self.running = None
                self.changed.notify_all()

        self.threads[name] = threading.Thread(target=run)
        self.threads[name].start()
        with self.changed:
            self.changed.wait_for(lambda: name in self.waiting)

    def go(self, name, steps=None):
        """Let a process do so many steps, None: all; return whether there are more."""
        for _ in itertools.count() if steps is None else range(steps):
            with self.changed:
                if name in self.results:
                    return False
                self.running = name
                self.changed.notify_all()
                self.changed.wait_for(lambda: self.running is None)
        return name not in self.results

    def end(self):
        """Let those die that have not ended."""
        with self.changed:
            self.dead = True
            self.changed.notify_all()
        for thread in self.threads.values():
            thread.join()


class WrittenInSteps:
    """A file of which a reader may see a half, or nothing before it is closed."""

    def __init__(self, file, turns):
        self.file, self.turns, self.late = file, turns, b""

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        if kind is not DiedError:
            self.turns.turn()
            self.file.write(self.late)
        self.file.close()

    def write(self, data):
        self.turns.turn()
        now = 0 if self.turns.shows_at_close else len(data) // 2
        self.file.write(data[:now])
        self.late = data[now:]

    def flush(self):
        pass

    def fileno(self):
        return self.file.fileno()


def read(path):
    """Return what a reader is told, b"" for nothing."""
    return ballots.read(path) or b""


def outcome(path, turns, names):
    """Check what all that have run to their end were told; return the content that was decided, if any was told."""
    won = [name for name in names if turns.results.get(name, "died") is None]
    read = [told for told in map(turns.results.get, names) if isinstance(told, bytes) and told]
    assert len(won) <= 1
    told = {*map(str.encode, won), *read}
    assert len(told) <= 1, "two have been told two things"
    return next(iter(told), None)


@pytest.mark.parametrize("third", ["creates", "reads"])
@pytest.mark.parametrize("shows_at_close", [False, True], ids=["shows halves", "shows closed files"])
def test_whoever_pauses_or_dies_one_content_is_decided(tmp_path, monkeypatch, shows_at_close, third):
    """A stops after any step, B after any of its steps; then they and C run to the end, in any order, or die."""
    runs, torn, overtaken = 0, 0, 0
    for order in ("CAB", "CBA", "ACB", "aCBA", "CA", "CB", "AC", "C"):  # a: only one step of A
        for first in itertools.count():
            for second in itertools.count():
                path = tmp_path / f"{runs}"
                turns = Turns(monkeypatch, shows_at_close=shows_at_close)
                for name in "AB":
                    turns.start(name, partial(ballots.create, path, name.encode()))
                turns.start("C", partial(ballots.create, path, b"C") if third == "creates" else partial(read, path))
                more_of_a, more_of_b = turns.go("A", first), turns.go("B", second)
                torn += path.exists() and ballots.size(path) is None
                for name in order:
                    turns.go(name.upper(), 1 if name == "a" else None)
                turns.end()
                decided = outcome(path, turns, "ABC")
                if {*"ABC"} <= {*order}:
                    assert decided is not None or third == "reads"
                    overtaken += all(isinstance(turns.results[name], FileExistsError) for name in "AB")
                try:
                    ballots.create(path, b"later")
                    assert decided is None
                    decided = b"later"
                except FileExistsError:
                    pass
                assert ballots.read(path) == (decided or ballots.read(path)) is not None
                assert ballots.size(path) == len(ballots.read(path))
                runs += 1
                if not more_of_b:
                    break
            if not more_of_a:
                break
    assert torn > 100
    assert overtaken > 10 or third == "reads"
