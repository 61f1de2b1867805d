"""RunReport: what a run did, where and for how long; as text, as JSON, and as a page (`sdf.page`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from sdf.drawing import write
from sdf.errors import show
from sdf.page import page
from sdf.pieces import PieceRun, unsplit

if TYPE_CHECKING:
    from os import PathLike

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
    """What a run did. ``print(report)`` is a summary; `save` makes a page of it, `to_json` has every number.

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
        pieces: one per work item that was run; of `LiveRunner` of the lanes that have ended.
        slow_blocks: element, position as text, and seconds, of the ten slowest blocks, the slowest first. A block is
            seen from 0.1 s on, and its seconds are what it was seen for: at least so long.
        refusals: why work that should have been split was not, and how often.
        slots_over_time: pairs of seconds since the begin and the slots from then on; of `LiveRunner` the lanes that
            were connected.
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

    @property
    def ideal_seconds(self) -> float:
        """How long the run would have taken if all slots had been busy to the end."""
        pieces = sum(piece.seconds for piece in self.pieces)
        return (pieces or self.busy_seconds) / self.slots

    @property
    def unsplit_seconds(self) -> float:
        """How long the same work takes on as many slots if no element is split, those that take longest first."""
        return max((end for _, _, end in unsplit(self.pieces, self.slots)), default=0.0)

    @property
    def division(self) -> str:
        """How the work was divided, as text: tasks, stages, splits."""
        return (
            f"{_count(len(self.tasks), 'task')} in {_count(self.stages, 'stage')}; "
            f"{_count(self.splits, 'split')} of {_count(len(self.split_elements), 'element')}"
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report as a page for browsers: one file that needs no network.

        It shows what each slot did when, the splits, and the same work as it would have been without splitting.

        Args:
            path: of the file; what is there is replaced.

        Raises:
            OSError: if it cannot be written.
        """
        write(path, page(self))

    def to_json(self) -> str:
        """Return all of it as JSON: an object with the attributes of this class, and elements and restrictions as text.

        ``elements_by_id`` maps the ``element_id`` of the pieces to the text of the element.
        """
        data = attrs.asdict(self, recurse=False)
        data["split_elements"] = [show(element) for element in self.split_elements]
        data["tasks"] = [attrs.asdict(task) for task in self.tasks]
        data["notes"] = [[show(element), text] for element, text in self.notes]
        data["slow_blocks"] = [[show(element), *rest] for element, *rest in self.slow_blocks]
        data["pieces"] = [
            {**attrs.asdict(piece, recurse=False, filter=_not_element), "restriction": show(piece.restriction)}
            for piece in self.pieces
        ]
        elements = {piece.element_id: piece.element for piece in self.pieces}
        data["elements_by_id"] = {element_id: show(element) for element_id, element in elements.items()}
        derived = ("records", "busy_seconds", "ideal_seconds", "unsplit_seconds", "efficiency")
        return json.dumps({"version": 1, **data, **{name: getattr(self, name) for name in derived}})

    def __str__(self) -> str:
        if not self.tasks and self.elements:
            return f"{self.name}: nothing of {_count(self.elements, 'element')} has run yet" + self._noted()
        return (
            f"{self.name}: {_count(self.records, 'record')} of {_count(self.elements, 'element')} in "
            f"{self.seconds:.2f} s, {self.efficiency:.0%} of {_count(self.slots, 'slot')} busy\n"
            + self.division
            + self._compared()
            + self._noted()
        )

    def _compared(self) -> str:
        """Return lines on what could be better: the ideal, the slowest blocks, what was not split."""
        if not self.pieces:
            return ""
        ideal, unsplit_at_best = self.ideal_seconds, self.unsplit_seconds
        lines = [f"with all slots busy to the end: {ideal:.2f} s; without splitting, at best: {unsplit_at_best:.2f} s"]
        lines += [
            f"slow block: {seconds:.2f} s at {position} of {show(element, 100)}"
            for element, position, seconds in self.slow_blocks
        ]
        lines += [f"not split, {_count(times, 'time')}: {why}" for why, times in self.refusals]
        return "".join(f"\n{line}" for line in lines)

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


def _not_element(attribute: attrs.Attribute[Any], value: Any) -> bool:
    return attribute.name != "element"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
