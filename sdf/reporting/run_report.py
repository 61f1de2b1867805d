"""RunReport: what a run did, where and for how long; as text, as JSON, and as a page (`sdf.reporting.run_page`)."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any

import attrs

from sdf.errors import show
from sdf.reporting.findings import slow_starts
from sdf.reporting.html import write
from sdf.reporting.notebook import fragment
from sdf.reporting.run_facts import RunFacts, count_of, findings
from sdf.reporting.run_page import page

__all__ = ["RunReport"]

_MOST_LINES = 5


@attrs.frozen
class RunReport(RunFacts):
    """What a run did. ``print(report)`` prints a summary, `save` writes a page, `to_json` has every number.

    A notebook cell that ends with the report shows the summary and the timeline.
    """

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report as a page for browsers: one file that needs no network.

        It shows what each slot did when, where in an element the time was spent, the splits, and the same work without
        splitting.

        Args:
            path: the path of the file; an existing file is replaced.

        Raises:
            OSError: if the file cannot be written.
        """
        write(path, page(self))

    def to_json(self) -> str:
        """Return a JSON object with all attributes of this class; elements and restrictions are texts.

        ``elements_by_id`` maps the ``element_id`` of the pieces to the text of the element.
        """
        data = attrs.asdict(self, recurse=False)
        data["split_elements"] = [show(element) for element in self.split_elements]
        data["tasks"] = [attrs.asdict(task) for task in self.tasks]
        data["notes"] = [[show(element), text] for element, text in self.notes]
        data["slow_blocks"] = [[show(element), *rest] for element, *rest in self.slow_blocks]
        data["failures"] = [
            {
                **attrs.asdict(block, recurse=False),
                "element": show(block.element),
                "restriction": show(block.restriction),
            }
            for block in self.failures
        ]
        data["pieces"] = [
            {**attrs.asdict(piece, recurse=False, filter=_not_element), "restriction": show(piece.restriction)}
            for piece in self.pieces
        ]
        elements = {piece.element_id: piece.element for piece in self.pieces}
        data["elements_by_id"] = {element_id: show(element) for element_id, element in elements.items()}
        found, lost = self.straggler, self.idle
        data["straggler"] = None if found is None else {**attrs.asdict(found), "element": show(found.element)}
        data["slow_hosts"] = [attrs.asdict(host) for host in self.slow_hosts]
        data["idle"] = None if lost is None else attrs.asdict(lost)
        derived = ("records", "busy_seconds", "ideal_seconds", "unsplit_seconds", "efficiency")
        return json.dumps({"version": 1, **data, **{name: getattr(self, name) for name in derived}})

    def _repr_html_(self) -> str:
        return fragment(self, self._headlines(), self._details())

    def __str__(self) -> str:
        return "\n".join((*self._headlines(), *self._details()))

    def _headlines(self) -> list[str]:
        """Return lines on what the run did, how its work was divided, its ideal and unsplit times, and the findings."""
        if self.nothing_to_report is not None:
            return [f"{self.name}: {self.nothing_to_report}"]
        what = f"{count_of(self.records, 'record')} of {count_of(self.elements, 'element')} in {self.seconds:.2f} s"
        busy = f", {self.efficiency:.0%} of {count_of(self.slots, 'slot')} busy" if self.complete else ""
        lines = [f"{self.name}: {what}{busy}", self.division]
        if self.comparable:
            all_busy = f"{self.ideal_seconds:.2f} s with all slots busy to the end"
            lines.append(f"the work alone: {all_busy}, about {self.unsplit_seconds:.2f} s without splitting")
        return [*lines, *findings(self), *self._failed()]

    def _failed(self) -> list[str]:
        """Return lines on the blocks that were set aside, at most `_MOST_LINES` of them by name."""
        if not self.failures:
            return []
        lines = [
            f"set aside after {count_of(block.attempts, 'attempt')}: {show(block.restriction, 100)} of "
            f"{show(block.element, 100)}: {block.error.splitlines()[0][:200]}"
            for block in self.failures[:_MOST_LINES]
        ]
        more = len(self.failures) - _MOST_LINES
        return [
            f"{count_of(len(self.failures), 'block')} failed; everything but these is here exactly once",
            *lines,
            *([f"... and {count_of(more, 'block')} more that failed"] if more > 0 else []),
        ]

    def _details(self) -> list[str]:
        """Return lines on what was slow, what was not split, and remarks."""
        starts = [f"slow start: {start}" for start in slow_starts(self.pieces)[:_MOST_LINES]]
        blocks = [
            f"slow block: at least {seconds:.2f} s at {position} of {show(element, 100)}"
            for element, position, seconds in self.slow_blocks
        ]
        refusals = [f"not split, {count_of(times, 'time')}: {why}" for why, times in self.refusals]
        return [*starts, *blocks, *refusals, *self._noted()]

    def _noted(self) -> list[str]:
        """Return one line per distinct remark, at most `_MOST_LINES`."""
        by_text: dict[str, list[Any]] = {}
        for element, text in self.notes:
            by_text.setdefault(text, []).append(element)
        lines = [
            f"{show(elements[0], 100)}{f' and {len(elements) - 1:,} more' if len(elements) > 1 else ''}: {text}"
            for text, elements in by_text.items()
        ]
        more = len(lines) - _MOST_LINES
        return lines[:_MOST_LINES] + ([f"... and {count_of(more, 'note')} more"] if more > 0 else [])


def _not_element(attribute: attrs.Attribute[Any], value: Any) -> bool:
    return attribute.name != "element"
