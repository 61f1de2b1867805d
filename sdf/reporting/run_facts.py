"""RunFacts: what a run did, in numbers, and what stands out in them. Other modules decide how to show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs

from sdf.reporting.causes import HOT_OR_SLOW, SLOW_HOST, SlowHost, hosts_of, slow_hosts
from sdf.reporting.findings import Idle, Straggler, barren, blocks_of, idle, straggler
from sdf.reporting.pieces import PieceRun, unsplit

__all__ = ["RunFacts", "TaskRun", "count_of", "findings"]

_SEEN = 0.05  # share of the run: less idle time is not reported
_MOST_HOSTS = 5  # slow ones by name
_NOTHING_SECONDS = 0.005  # fewer seconds are shown as 0.00


def count_of(number: int, what: str) -> str:
    """Return a number of things as text: 1 task, 2 tasks."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


@attrs.frozen
class TaskRun:
    """One committed task.

    Attributes:
        stage: number of its stage, from 0.
        task: its number in the stage.
        worker: host and process id of the Python worker.
        began: when it began, seconds since the epoch on the worker's clock.
        seconds: how long it ran; of a lane, without the time that it waited for work.
        work_items: how many work items it ran; of elements in bulk each one counts.
        handed_back: how many work items it gave back, split off or whole.
        records: how many records it gave, over all outputs.
    """

    stage: int
    task: int
    worker: str
    began: float
    seconds: float
    work_items: int
    handed_back: int
    records: int


@attrs.frozen
class RunFacts:
    """What a run did.

    Attributes:
        name: the name of the DoFn.
        elements: the number of elements.
        stages: how many Spark jobs ran work items; 1 for `LiveRunner`, whose jobs are the user's.
        splits: how often a work item was cut in two, before or while it ran.
        split_elements: the elements whose work was cut, in order.
        seconds: the seconds from the call to the proof of the tiling; of `LiveRunner`, how long lanes have been
            connected so far.
        slots: the most tasks that Spark could run at once; of `LiveRunner`, the most lanes connected at once, or the
            number of lanes before any has connected.
        tasks: one per committed task, in order of stage and task.
        retries: how often a lane was started again because its attempt was lost; `LiveRunner` only.
        replays: how often a lane that had ended was run again; `LiveRunner` only.
        notes: pairs of an element and its `DoFn.remark`, in order.
        pieces: one per work item that was run; of `LiveRunner`, only from lanes that have ended.
        slow_blocks: element, position as text, and seconds of the ten slowest blocks, the slowest first. Only blocks of
            0.1 s or more are listed, and the seconds are a lower bound.
        refusals: pairs of a reason why work that should have been split was not, and how often.
        slots_over_time: pairs of seconds since the begin and the number of slots from then on; of `LiveRunner`, of
            connected lanes.
        runner: name of the runner's class.
        began: when the run began, seconds since the epoch on the driver's clock; None: when its first task did.
        lanes: the number of lanes of `LiveRunner`; tasks and pieces cover those that have ended. 0 for `StagedRunner`.
        rate_limits: for each `RateLimit` its name, the calls a second that it allows, how many calls there were, and
            how many the server has refused; `LiveRunner` only.
        failures: with quarantine the blocks that were set aside, each a `FailedBlock`; no other number counts them.
        executors: for each executor that came or went during a saved run with `LiveRunner`: seconds since the begin,
            its id, and "joined", "decommissioned" (it was told to go), "lost" or "left" (nothing was lost with it).
        lost_seconds: of a saved run with `LiveRunner`, about how many seconds of work were lost before their commit.
    """

    name: str
    elements: int
    stages: int
    splits: int
    split_elements: tuple[Any, ...] = attrs.field(repr=False)
    seconds: float
    slots: int
    tasks: tuple[TaskRun, ...] = attrs.field(repr=False)
    retries: int = 0
    replays: int = 0
    notes: tuple[tuple[Any, str], ...] = attrs.field(default=(), repr=False)
    pieces: tuple[PieceRun, ...] = attrs.field(default=(), repr=False)
    slow_blocks: tuple[tuple[Any, str, float], ...] = attrs.field(default=(), repr=False)
    refusals: tuple[tuple[str, int], ...] = attrs.field(default=(), repr=False)
    slots_over_time: tuple[tuple[float, int], ...] = attrs.field(default=(), repr=False)
    runner: str = ""
    began: float | None = attrs.field(default=None, repr=False)
    lanes: int = 0
    rate_limits: tuple[tuple[str, float, int, int], ...] = ()
    failures: tuple[Any, ...] = attrs.field(default=(), repr=False)
    executors: tuple[tuple[float, str, str], ...] = ()
    lost_seconds: float = 0.0

    @property
    def records(self) -> int:
        """How many records there are, over all outputs."""
        return sum(task.records for task in self.tasks)

    @property
    def busy_seconds(self) -> float:
        """The seconds of all tasks, added up."""
        return sum(task.seconds for task in self.tasks)

    @property
    def efficiency(self) -> float:
        """The share of slot-seconds that tasks used: busy_seconds / (seconds * slots), at most 1; 0 if seconds is 0."""
        return min(1.0, self.busy_seconds / (self.seconds * self.slots)) if self.seconds > 0 else 0.0

    @property
    def ideal_seconds(self) -> float:
        """How long the pieces would have taken if all slots had been busy to the end."""
        pieces = sum(piece.seconds for piece in self.pieces)
        return (pieces or self.busy_seconds) / self.slots

    @property
    def unsplit_seconds(self) -> float:
        """About how long the same work takes on as many slots if no element is split, the longest element first.

        Estimated from the seconds of the pieces, with each element opened once (`sdf.reporting.pieces.whole_seconds`).
        """
        return max((end for _, _, end in unsplit(self.pieces, self.slots)), default=0.0)

    @property
    def complete(self) -> bool:
        """Whether all lanes have ended; always True for `StagedRunner`."""
        return len(self.tasks) >= self.lanes

    @property
    def comparable(self) -> bool:
        """Whether the run can be compared with an unsplit one: it is complete, and unsplit takes 0.005 s or more."""
        return self.complete and self.unsplit_seconds >= _NOTHING_SECONDS

    @property
    def nothing_to_report(self) -> str | None:
        """Why there is nothing to report yet; None if there is something."""
        if self.tasks or not (self.elements or self.lanes):
            return None
        if self.slots_over_time and self.lanes:
            return f"no lane has ended yet, of {self.lanes:,}; a report tells of those that have"
        return f"nothing of {count_of(self.elements, 'element')} has run yet"

    @property
    def straggler(self) -> Straggler | None:
        """The element that would have held up the run (`sdf.reporting.findings.straggler`).

        None if there is none, or if the run is not complete.
        """
        return self._straggler(self.slow_hosts)

    def _straggler(self, slow_hosts: list[SlowHost]) -> Straggler | None:
        if not self.complete:
            return None
        slow = {host.name for host in slow_hosts if host.certain}
        hosts = hosts_of([task.worker for task in self.tasks])
        return straggler(
            self.pieces,
            self.slots,
            slow_blocks=blocks_of(self.pieces, self.slow_blocks),
            slow_tasks=frozenset(task for task, host in enumerate(hosts) if host in slow),
            hosts=hosts,
        )

    @property
    def slow_hosts(self) -> list[SlowHost]:
        """The hosts that took several times as long as the others for like work (`sdf.reporting.causes.slow_hosts`).

        Empty if the run is not complete.
        """
        if not self.complete:
            return []
        blocks = blocks_of(self.pieces, self.slow_blocks)
        return slow_hosts(self.pieces, [task.worker for task in self.tasks], blocks)

    @property
    def idle(self) -> Idle | None:
        """How long no slot ran a piece (`sdf.reporting.findings.idle`).

        None if no piece has run, or if the run is not complete.
        """
        if not self.pieces or not self.complete:
            return None
        began = min(task.began for task in self.tasks) if self.began is None else self.began
        return idle(self.pieces, began=began, seconds=self.seconds)

    @property
    def division(self) -> str:
        """How the work was divided, as text: tasks, stages, splits."""
        return (
            f"{count_of(len(self.tasks), 'task')} in {count_of(self.stages, 'stage')}; "
            f"{count_of(self.splits, 'split')} of {count_of(len(self.split_elements), 'element')}"
        )


def findings(report: RunFacts) -> Iterator[str]:
    """Yield a sentence for each finding: no records, straggler, slow hosts, rate limits, executors, losses, idle time.

    Of a run that is not complete, yield only how many lanes have ended.
    """
    if not report.complete:
        yield f"lanes that have ended: {len(report.tasks):,} of {report.lanes:,}; the others are not in this report"
    without = barren(report.pieces) if report.complete else None
    if without is not None:
        yield f"elements with work but no record: {without}"
    slow = report.slow_hosts
    found = report._straggler(slow)
    if found is not None:
        yield f"straggler: {found}"
    yield from (f"{SLOW_HOST if host.certain else HOT_OR_SLOW}: {host}" for host in slow[:_MOST_HOSTS])
    if len(slow) > _MOST_HOSTS:
        yield f"... and {count_of(len(slow) - _MOST_HOSTS, 'slow host')} more"
    for name, per_second, calls, refused in report.rate_limits:
        rate = calls / report.seconds if report.seconds > 0 else 0.0
        used = f"{rate:.1f} calls a second of {per_second:g}; {refused:,} of {calls:,} refused"
        yield f"rate limit {name!r}: {used} (waits count as work)"
    if report.executors:
        what = Counter(kind for _, _, kind in report.executors)
        yield f"executors: {', '.join(f'{number:,} {kind}' for kind, number in what.items())}"
    if report.retries and report.runner == "LiveRunner" and report.lost_seconds > 0:
        yield f"lost with {count_of(report.retries, 'lane')} before its commit: {report.lost_seconds:.1f} s of work"
    lost = report.idle
    if lost is not None and lost.seconds >= max(_SEEN * report.seconds, _NOTHING_SECONDS):
        yield f"no piece ran: {lost.seconds:.2f} s of {report.seconds:.2f} s ({lost})"
