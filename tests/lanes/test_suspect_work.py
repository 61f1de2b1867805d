"""SuspectWork: which suspects run beside others, and which only while nothing else does."""

import pytest
from support.timed import TimedFn

from sdf.execution.expansion import expand
from sdf.lanes.suspect_work import SuspectWork, as_failed, failure_in
from sdf.quarantine.failures import RAISED, Failure
from sdf.quarantine.suspects import Suspects
from sdf.scheduling.run_state import RunState


def test_what_must_run_while_nothing_else_does_does_not_run_beside_another_suspect():
    """Else a process that is killed beside it would count against it."""
    work = RunState(TimedFn())
    suspects = Suspects(work, 100)
    waits, idle = work.add([expand(TimedFn(), 10) for _ in range(2)])
    suspects.waiting.append(waits)
    suspects.for_idle.append(idle)
    runs = SuspectWork(work, suspects, lambda ids, message: None)
    assert [item for _, item in runs.take(5, idle=True)] == [waits]
    assert runs.take(5, idle=False) == []
    assert [item for _, item in runs.take(5, idle=True)] == [idle]


@pytest.mark.parametrize("claimed", [None, 7, b"key", (3, None), (3, 7), (3, b"key")], ids=repr)
def test_a_lane_tells_the_position_that_was_claimed_last(claimed):
    """In a table it is a row, and the position in that."""
    failure = Failure(5, RAISED, "no", claimed)
    assert failure_in(as_failed(failure)) == failure


@pytest.mark.parametrize("claimed", ["name", 1.5, (1, 2, 3), ("a", 1), (1, "a")], ids=repr)
def test_a_position_that_json_has_not_is_left_out(claimed):
    """It is only a hint."""
    told = failure_in(as_failed(Failure(5, RAISED, "no", claimed))).claimed
    assert told == ((1, None) if claimed == (1, "a") else None)
