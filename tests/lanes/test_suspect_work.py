"""SuspectWork: which suspects run beside others, and which only while nothing else does."""

from support.timed import TimedFn

from sdf.execution.expansion import expand
from sdf.lanes.suspect_work import SuspectWork
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
