"""RunReport: what a run did, where and for how long."""

from __future__ import annotations

from typing import Any

import attrs

from sdf.errors import show

__all__ = ["RunReport", "TaskRun"]

_MOST_LINES = 5


@attrs.frozen
class TaskRun:
    """One committed task.

    Attributes:
        stage: number of its stage, from 0.
        task: number in the stage.
        worker: host and process id of the Python worker.
        began: seconds since the epoch, on the worker's clock.
        seconds: how long it ran; of a lane, without the time in which it waited for work.
        work_items: how many work items it ran.
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
class RunReport:
    """What a run did.

    Attributes:
        name: of the DoFn.
        elements: how many there were.
        stages: how many Spark jobs ran work items; 1 for `LiveRunner`, whose jobs are the user's.
        splits: how often a work item was cut in two, planned or while it ran.
        split_elements: the elements whose work was cut, in order.
        seconds: from the call to the proof; of `LiveRunner` from the first lane's begin to the last one's end.
        slots: the most tasks that Spark could run at once; of `LiveRunner` the lanes.
        tasks: one per committed task, in order of stage and task.
        retries: how often a lane was begun anew because its attempt was lost; of `LiveRunner` only.
        replays: how often a lane that had ended was run again; of `LiveRunner` only.
        notes: pairs of an element and what `DoFn.remark` said of it, in order.
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

    @property
    def records(self) -> int:
        """How many records there are, over all outputs."""
        return sum(task.records for task in self.tasks)

    @property
    def busy_seconds(self) -> float:
        """How long tasks ran, added up."""
        return sum(task.seconds for task in self.tasks)

    @property
    def efficiency(self) -> float:
        """The share of all slot-seconds of the run in which tasks ran, 0 to 1."""
        return min(1.0, self.busy_seconds / (self.seconds * self.slots)) if self.seconds > 0 else 1.0

    def __str__(self) -> str:
        return (
            f"{self.name}: {_count(self.records, 'record')} of {_count(self.elements, 'element')} in "
            f"{self.seconds:.2f} s, {self.efficiency:.0%} of {_count(self.slots, 'slot')} busy\n"
            f"{_count(len(self.tasks), 'task')} in {_count(self.stages, 'stage')}; "
            f"{_count(self.splits, 'split')} of {_count(len(self.split_elements), 'element')}" + self._noted()
        )

    def _noted(self) -> str:
        """Return one line per remark, alike ones together, up to a few."""
        by_text: dict[str, list[Any]] = {}
        for element, text in self.notes:
            by_text.setdefault(text, []).append(element)
        lines = [
            f"\n{show(elements[0], 100)}{f' and {len(elements) - 1:,} more' if len(elements) > 1 else ''}: {text}"
            for text, elements in by_text.items()
        ]
        more = len(lines) - _MOST_LINES
        return "".join(lines[:_MOST_LINES]) + (f"\n... and {_count(more, 'note')} more" if more > 0 else "")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
