"""Statistics of a run with lanes, for its report and its progress display. No decision depends on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sdf.execution.work_items import Ran, SlowBlock
from sdf.lanes.attempts import Attempt, LaneState
from sdf.reporting.progress import RunProgress
from sdf.reporting.run_facts import TaskRun
from sdf.reporting.run_report import RunReport
from sdf.scheduling.run_state import RunState

__all__ = ["Statistics"]


class Statistics:
    """See the module's docstring.

    Args:
        work: the work of the run.
        lanes: the lanes of the run.

    Attributes:
        left: of a saved run, what attempts have committed that have ended before their lanes were sealed.
        retries: how often an unsealed lane began again after it had lost its attempts; in a saved run, how often an
            attempt was lost with work that it had not committed.
        replays: how often a sealed lane was run again.
        refusals: the reasons why victims declined, each with how often.
    """

    def __init__(self, work: RunState, lanes: Sequence[LaneState]) -> None:
        self._work = work
        self._lanes = lanes
        self.left: list[tuple[TaskRun, Iterable[Ran], tuple[SlowBlock, ...]]] = []
        self._seconds = self._began = 0.0
        self._slots: list[tuple[float, int]] = []  # active seconds, number of attempts connected from then on
        self._ended = False
        self.retries = self.replays = 0
        self.refusals: Counter[str] = Counter()

    def attempts(self, connected: int, now: float) -> None:
        """Note how many attempts are connected from now on."""
        if self._ended:
            return
        before = self._slots[-1][1] if self._slots else 0
        if before == 0:
            self._began = now
        self._slots.append((self._active_seconds(now), connected))
        if connected == 0:
            self._seconds = self._slots[-1][0]

    def has_left(self, attempt: Attempt) -> None:
        """Note what an attempt of a saved run has committed that has ended before its lane was sealed."""
        if (run := attempt.committed_run()) is not None:
            self.left.append((*run, attempt.slow))

    def _active_seconds(self, now: float) -> float:
        """Return the seconds with an attempt connected; the time between two actions does not count."""
        running = bool(self._slots) and self._slots[-1][1] > 0 and not self._ended
        return self._seconds + (now - self._began if running else 0.0)

    def all_sealed(self, now: float) -> None:
        """Note that the run has ended; replays after this do not count."""
        self._seconds = self._active_seconds(now)
        self._ended = True

    def progress(self, now: float, tasks_busy: int) -> RunProgress:
        """Return how far the run is."""
        return RunProgress(
            name=self._work.name,
            seconds=self._active_seconds(now),
            done=min(self._work.done_before + sum(map(_units_done, self._lanes)), self._work.known_units),
            known=self._work.known_units,
            tasks_busy=tasks_busy,
            slots=len(self._lanes),
            splits=self._work.splits,
        )

    def report(self, now: float, lanes: int, rate_limits: tuple[tuple[str, float, int, int], ...]) -> RunReport:
        """Return what has been done so far; ``lanes`` and ``rate_limits`` as in `RunReport`."""
        sealed = [(lane.sealed, lane.ran.values(), lane.slow) for lane in self._lanes if lane.sealed is not None]
        runs = sorted([*sealed, *self.left], key=lambda run: run[0].task)
        return RunReport(
            name=self._work.name,
            elements=self._work.ledger.elements(),
            stages=1,
            splits=self._work.splits,
            split_elements=self._work.split_elements(),
            seconds=self._active_seconds(now),
            slots=max((connected for _, connected in self._slots), default=len(self._lanes)),
            tasks=tuple(task for task, _, _ in runs),
            retries=self.retries,
            replays=self.replays,
            notes=tuple(self._work.notes),
            pieces=self._work.pieces((task.began, ran) for task, ran, _ in runs),
            slow_blocks=self._work.slow_blocks(block for _, _, slow in runs for block in slow),
            refusals=tuple(self.refusals.most_common()),
            slots_over_time=tuple(self._slots),
            runner="LiveRunner",
            lanes=lanes,
            rate_limits=rate_limits,
        )


def _units_done(lane: LaneState) -> float:
    if lane.sealed is not None:
        return lane.units
    return max((attempt.units_done() for attempt in lane.attempts), default=0.0)
