"""The driver's side of a saved run: what it begins, resumes, retries and commits, and what the sinks hear of it."""

import attrs
import pytest
from support.clock import Clock
from support.fns import CountFn
from support.memory import Memory

from sdf.errors import JournalError, SinkError
from sdf.execution.expansion import expand
from sdf.execution.invoker import Residual
from sdf.quarantine.failures import FailedBlock
from sdf.saving.run_log import RunLog
from sdf.saving.saving import Saving
from sdf.scheduling.run_state import RunState
from sdf.sinks import Sink, Token


@attrs.frozen
class ToldSink(Sink):
    """Writes down what it is told."""

    name: str
    told: list
    fails: list = attrs.field(factory=list, eq=False)

    def identity(self):
        return [self.name]

    def prepare(self, run):
        self.told.append(("prepare", self.name, run.token.version, run.resumed))

    def write(self, records, place):
        raise NotImplementedError

    def commit(self, messages, token):
        if self.fails:
            raise self.fails.pop()
        self.told.append(("commit", self.name, messages))

    def clean(self, token):
        self.told.append(("clean", self.name, token.version))

    def abort(self, messages, token):
        raise NotImplementedError


class Runs:
    """Drivers of one saved run with two outputs and two elements, one after another."""

    def __init__(self, storage=None):
        self.storage, self.clock, self.drivers = storage or Memory(), Clock(0.0), 0
        self.told, self.fails = [], []

    def driver(self, identity="mine", retry=False):
        """Begin another driver; return what it does and hears."""
        self.drivers += 1
        self.told.clear()
        name = f"driver {self.drivers}"
        return Saving(
            RunLog(self.storage, driver=name, clock=lambda: int(self.clock.now * 1000)),
            {"fn": identity},
            [("main", ToldSink("main", self.told, self.fails)), ("bad", ToldSink("bad", self.told))],
            app="app", driver=name, commit_seconds=60.0, clock=self.clock, retry=retry,
        )  # fmt: skip

    def begun(self, saving, elements=2):
        """Return the state of the run, and what is to do."""
        work = RunState(CountFn())
        return work, saving.begin(work, lambda: [expand(CountFn(), (number, 3)) for number in range(elements)])

    def commit(self, saving, work, items, number=0):
        """Commit the work of some items in one segment."""
        work.ledger.assign("lane", items)
        ids = work.ledger.commit_first("lane", len(items), items[-1].id, ("part", number))
        saving.commit(ids, [f"main {number}", f"bad {number}"], [3 * len(items), 0], 1.0)

    def end(self, *, failed):
        """Run to the end, and return the second element's work item. It is set aside if ``failed``, else committed."""
        saving = self.driver()
        work, ((first, _), (second, _)) = self.begun(saving)
        self.commit(saving, work, [first])
        if failed:
            saving.set_aside(second, FailedBlock(second.element, second.restriction, "no number", 3))
        else:
            self.commit(saving, work, [second], 1)
        saving.finish()
        saving.close()
        return second


def test_the_first_driver_begins_and_the_next_one_resumes():
    """The sinks hear which of the two it is."""
    runs = Runs()
    first = runs.driver()
    assert (first.resumed, first.over, runs.told) == (
        False, False, [("prepare", "main", 0, False), ("prepare", "bad", 0, False)],
    )  # fmt: skip
    first.close()
    second = runs.driver()
    assert (second.resumed, second.over, runs.told) == (
        True, False, [("prepare", "main", 0, True), ("prepare", "bad", 0, True)],
    )  # fmt: skip
    second.close()


def test_what_another_driver_has_prepared_is_resumed_by_the_same_call_only():
    """Another DoFn would mix its records with these."""
    runs = Runs()
    runs.driver().close()
    with pytest.raises(JournalError, match="fn"):
        runs.driver("another")


def test_what_is_committed_is_not_to_do_again():
    """Elements come from the log, whose work is the same; the rest of it is to do."""
    runs = Runs()
    saving = runs.driver()
    work, todo = runs.begun(saving)
    assert len(todo) == 2
    runs.commit(saving, work, [todo[0][0]])
    saving.close()
    again = runs.driver()
    work = RunState(CountFn())
    (left,) = again.begin(work, lambda: pytest.fail("they are in the log"))
    assert left[0].element == todo[1][0].element
    again.close()


@pytest.mark.parametrize("step", [-(10**9), -3600, -1, 0, 2, 3600, 10**9])
@pytest.mark.parametrize("asked", [0.5, 3.0])
def test_deferred_work_waits_no_longer_than_was_asked_whatever_the_next_drivers_clock_says(step, asked):
    """It may be that of another host, or one that was set meanwhile."""
    runs = Runs()
    runs.clock.now = 2e9
    saving = runs.driver()
    _, todo = runs.begun(saving)
    saving._split(todo[0][0].id, None, [Residual(todo[0][0].restriction, asked, deferred=True)])
    saving.close()
    runs.clock.now += step
    again = runs.driver()
    waits = {item.element: seconds for item, seconds in again.begin(RunState(CountFn()), list)}
    again.close()
    assert waits[todo[1][0].element] == 0
    assert waits[todo[0][0].element] == pytest.approx(max(0, min(asked, asked - step)))


def test_at_the_end_the_sinks_commit_all_messages_and_the_main_output_comes_last():
    """Then they clean, once; a later driver has nothing to do."""
    runs = Runs()
    saving = runs.driver()
    work, todo = runs.begun(saving)
    for number, (item, _) in enumerate(todo):
        runs.commit(saving, work, [item], number)
    runs.told.clear()
    saving.finish()
    saving.close()
    assert runs.told == [
        ("commit", "bad", ["bad 0", "bad 1"]), ("commit", "main", ["main 0", "main 1"]),
        ("clean", "main", 0), ("clean", "bad", 0),
    ]  # fmt: skip
    later = runs.driver()
    assert (later.over, later.resumed, runs.told) == (True, True, [])
    later.close()


def test_what_a_sink_could_not_commit_the_next_driver_commits():
    """And not again what was committed before."""
    runs = Runs()
    saving = runs.driver()
    work, todo = runs.begun(saving)
    runs.commit(saving, work, [item for item, _ in todo])
    runs.fails.append(OSError("full"))
    with pytest.raises(SinkError, match=r"ToldSink\.commit\(\) of output 'main' raised OSError: full"):
        saving.finish()
    saving.close()
    again = runs.driver()
    runs.told.clear()
    again.finish()
    again.close()
    assert runs.told == [("commit", "main", ["main 0"]), ("clean", "main", 0), ("clean", "bad", 0)]


def test_seconds_that_were_lost_add_up_over_drivers():
    """Those that a dead driver had not committed, and those that this one lost with workers."""
    runs = Runs()
    saving = runs.driver()
    runs.begun(saving)
    runs.clock.now += 11.0
    saving.pulse(4.0, 2.5)
    assert saving.repeated_seconds == 2.5
    saving.close()
    again = runs.driver()
    again.pulse(0.0, 1.0)
    assert again.repeated_seconds == 7.5
    again.close()


def test_only_a_run_that_is_done_can_be_retried():
    """Else it goes on by itself."""
    runs = Runs()
    runs.driver().close()
    with pytest.raises(JournalError, match="no run that is done"):
        runs.driver(retry=True)


@pytest.mark.parametrize("failed", [True, False])
def test_a_retry_runs_what_was_set_aside_and_is_resumed_as_any_run(failed):
    """If nothing was, there is nothing to do. The driver that ended the run may have died before it had cleaned."""
    runs = Runs()
    second = runs.end(failed=failed)
    retry = runs.driver(retry=True)
    assert (retry.over, retry.resumed) == (not failed, False)
    if failed:
        assert retry.targets.token == Token("app", 1)
        assert runs.told == [
            ("clean", "main", 0), ("clean", "bad", 0), ("prepare", "main", 1, False), ("prepare", "bad", 1, False),
        ]  # fmt: skip
        retry.close()
        again = runs.driver(retry=True)
        assert (again.over, again.resumed) == (False, True)
        assert runs.told == [("prepare", "main", 1, True), ("prepare", "bad", 1, True)]
        (left,) = again.begin(RunState(CountFn()), list)
        assert left[0].element == second.element
        again.close()
