"""A run that fails on the driver: whatever raises, and whenever, it fails alone, and gives no wrong result."""

import logging
from collections import Counter

import pytest
from simulation.driver import LanesDriver
from simulation.lane import LaneChild
from simulation.plan import LANES, draw
from simulation.world import World
from support.fns import CountFn, SlowCountFn, expected
from support.hooks import BOOM, Counted, HookedFn, Ranged, Tiled, hooks
from support.serving import ELEMENTS, open_run, run_all, run_lane, serving, until

from sdf.errors import LedgerError, ProcessError, SdfError, SplitError
from sdf.lanes.messages import Assign, Fail, Hello, Ready, Wait
from sdf.spark import serde
from sdf.spark.live import contained_run as served
from sdf.spark.live.link import Link


class ServedDriver(LanesDriver):
    """A simulated driver whose coordinator is called as the server does it, and may fail."""

    def __init__(self, seed, kind, monkeypatch):
        elements = (("0", 12), ("1 defers", 9), ("2", 5), ("3", 3))
        drawn = draw(seed, runner=LANES, saved=False, late=False, tables=False, quarantine=False, elements=elements)
        super().__init__(World(drawn, HookedFn(kind)))
        monkeypatch.setattr(served.time, "monotonic", self.world.clock.monotonic)
        self.run_of_it = served.ContainedRun(None, self.coordinator, self.send, lambda: True, None)
        self.coordinator = Called(self.run_of_it)

    def send(self, name, message):
        if isinstance(message, Assign):
            hooks("pickling")
        assert self.run_of_it.failure is None or isinstance(message, Fail)
        super().send(name, message)


class Called:
    """Stands in for the coordinator of a run, which may fail."""

    def __init__(self, run):
        self.inner, self.waiting = run.coordinator, run.waiting
        self._run = run

    def called(self, entry, *args):
        hooks.entry = entry
        try:
            getattr(self._run, entry)(*args)
        finally:
            hooks.entry = None

    def connected(self, name, hello, now):
        self.called("connected", name, hello)

    def received(self, name, message, now):
        self.called("received", name, message)

    def lost(self, name, now):
        self.called("lost", name)

    def tick(self, now):
        self.called("tick")


def run_until_it_fails(seed, kind, raises_at, monkeypatch):
    """Run one schedule in which one call raises; return its driver and the error of the first lane that failed."""
    hooks.calls, hooks.raises_at, hooks.raised = 0, None, None
    driver = ServedDriver(seed, kind, monkeypatch)
    hooks.calls, hooks.raises_at = 0, raises_at
    try:
        driver.action()
    except SdfError as error:
        return driver, error
    return driver, None


@pytest.mark.parametrize("kind", [Ranged, Tiled, Counted])
def test_whichever_call_of_the_users_code_raises_the_run_fails_with_its_name(kind, monkeypatch, caplog):
    """At no call of any schedule does it go further than the run, nor is anything sealed after it."""
    caplog.set_level(logging.CRITICAL, "sdf.server")  # pytest formats each traceback twice: most of the CPU
    raised = Counter()
    for seed in range(6):  # later ones call nothing else
        driver, error = run_until_it_fails(seed, kind, None, monkeypatch)
        assert error is None
        for number in range(1, hooks.calls + 1):
            driver, error = run_until_it_fails(seed, kind, number, monkeypatch)
            raised[hooks.raised] += 1
            failure = driver.run_of_it.failure
            assert str(failure).startswith("HookedFn failed on the driver, and all its lanes with it: ")
            assert BOOM + hooks.raised[0] in str(failure)
            if hooks.raised[0] != "pickling":
                assert "of element ('" in str(failure)
            assert error is None or str(error) == str(failure)
            assert not driver.coordinator.inner.sealed()
            assert len(driver.contents) < driver.world.plan.lanes
            sealed = driver.world.counts["Sealed"]
            late = LaneChild(driver.world, driver, None, 0)
            late.connection.tell_driver()
            assert [str(message.error) for message in late.connection.to_lane] == [str(failure)]
            for child in list(driver.children.values()):
                while child.connection.to_driver:
                    child.connection.tell_driver()
            driver.coordinator.tick(0.0)
            assert driver.world.counts["Sealed"] == sealed
            assert driver.run_of_it.report().elements == 4
            assert not driver.run_of_it.waiting()
    entries = {hook: {entry for each, entry in raised if each == hook} for hook, _ in raised}
    proof = {Ranged: "__eq__", Tiled: "is_tiled_by", Counted: "restriction_size"}[kind]
    assert {"restriction_size", "create_tracker", "pickling", proof} <= set(entries)
    assert {"connected", "received"} <= entries["restriction_size"]
    assert "received" in entries[proof]
    assert {"received", "tick"} <= entries["pickling"]


def raises(error):
    def call(*args):
        raise error

    return call


@pytest.mark.parametrize("error", [KeyError("a bug"), AssertionError("a bug"), SystemExit("a bug")], ids=repr)
@pytest.mark.parametrize("entry", ["connected", "received", "lost", "tick", "waiting"])
def test_a_bug_fails_its_run_and_no_other(entry, error):
    """Its lanes say so, those that come later too; another run of the same server goes on, one that comes later too."""
    with serving(SlowCountFn()) as well:
        ill = open_run(well.server, CountFn())
        setattr(ill.coordinator, entry, raises(error))
        with Link(ill.address, Hello(0, "w", 0.0)):
            pass  # so that an attempt is lost, too
        for number in range(2):
            with pytest.raises(LedgerError, match=rf"CountFn failed on the driver.*{type(error).__name__}: .*a bug"):
                run_lane(ill.address, number, CountFn(), [])
        assert ill.report().records == 0
        assert run_all(well, SlowCountFn()) == expected(ELEMENTS)
        assert run_all(open_run(well.server, CountFn()), CountFn()) == expected(ELEMENTS)


def test_a_run_of_which_nobody_can_say_whether_it_is_used_fails():
    """It is not forgotten without a word."""
    with serving(CountFn()) as well:
        ill = open_run(well.server, CountFn(), alive=raises(RuntimeError("gone")))
        until(lambda: ill.failure is not None)
        with pytest.raises(LedgerError, match=r"CountFn failed on the driver.*RuntimeError: gone"):
            run_lane(ill.address, 0, CountFn(), [])
        assert run_all(well, CountFn()) == expected(ELEMENTS)


def test_progress_that_cannot_be_shown_hurts_nobody(caplog):
    """It is said once, and the run goes on."""
    with serving(CountFn()) as well:
        blind = open_run(well.server, CountFn(), watch=raises(RuntimeError("no terminal")))
        assert run_all(blind, CountFn()) == expected(ELEMENTS)
        assert run_all(well, CountFn()) == expected(ELEMENTS)
    assert caplog.text.count("progress of CountFn cannot be shown any more") == 1


def test_a_report_that_fails_fails_whoever_asked_for_it():
    """The run goes on, and the next report is right."""
    with serving(CountFn()) as run:
        report = run.coordinator.report
        run.coordinator.report = raises(KeyError("a bug"))
        with pytest.raises(KeyError, match="a bug"):
            run.report()
        run.coordinator.report = report
        assert run_all(run, CountFn()) == expected(ELEMENTS)
        assert run.report().records == 63


class Broken:
    """A socket of which one method raises."""

    def __init__(self, connection, method, error):
        self.connection = connection
        setattr(self, method, raises(error))

    def __getattr__(self, name):
        return getattr(self.connection, name)


@pytest.mark.parametrize("error", [OSError(105, "no buffers"), KeyError("a bug"), ValueError("fd -1")], ids=repr)
@pytest.mark.parametrize("method", ["send", "recv"])
def test_a_connection_that_cannot_be_served_is_cut_off_by_itself(method, error):
    """The attempt fails, the next one at its lane succeeds, and the others hear nothing of it."""
    with serving(CountFn()) as run, Link(run.address, Hello(0, "w", 0.0)) as link:
        until(lambda: run.coordinator._attempts)
        (peer,) = run.server._peers.values()
        peer.socket = Broken(peer.socket, method, error)
        link.send(Ready(0, 0, 0.0, 0.0))
        until(lambda: not run.coordinator._attempts)
        assert run_all(run, CountFn()) == expected(ELEMENTS)


def test_a_connection_that_the_selector_has_forgotten_is_cut_off_by_itself():
    """It is found out as soon as something is sent to it."""
    with serving(CountFn()) as run, Link(run.address, Hello(0, "w", 0.0)):
        until(lambda: run.coordinator._attempts)
        ((name, peer),) = run.server._peers.items()
        run.server._selector.unregister(peer.file)
        run.server._send(name, Wait())
        until(lambda: not run.coordinator._attempts)
        assert run_all(run, CountFn()) == expected(ELEMENTS)


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("not even that")


@pytest.mark.parametrize(
    ("error", "told", "text"),
    [
        (SplitError("they do not add up."), SplitError, "they do not add up."),
        (ProcessError("x" * 50_000), ProcessError, "xxx ... xxx"),
        (UnspeakableError(), LedgerError, "UnspeakableError: <a message that cannot be shown, RuntimeError>"),
        (type("TheirError", (SdfError,), {})("theirs"), LedgerError, "TheirError: theirs"),
    ],
    ids=["ours", "long", "unspeakable", "theirs"],
)
def test_what_lanes_are_told_of_a_failure(error, told, text):
    """Its class if that is one of ours, the DoFn, and a text of some length, all of which pickles."""
    explained = served._explained("CountFn", error)
    assert type(explained) is told
    assert str(explained).startswith("CountFn failed on the driver, and all its lanes with it: ")
    assert text in str(explained)
    assert len(str(explained)) < 10_200
    assert str(serde.loads(serde.dumps(Fail(explained), "it")).error) == str(explained)
