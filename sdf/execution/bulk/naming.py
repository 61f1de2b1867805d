"""RowNames: what the rows of tables are called where users see them: by their elements, as if there were no tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from sdf.errors import UnpicklableError, show
from sdf.execution.bulk.table import Table
from sdf.execution.work_items import Ran, WorkItem

__all__ = ["RowNames", "Several"]


@attrs.frozen(repr=False)
class Several:
    """Some elements that ran in bulk: how many they are, and the first of them. A report has no tables in it."""

    number: int
    first: Any

    def __repr__(self) -> str:
        return f"{self.number:,} elements, the first of them {show(self.first)}"


@attrs.frozen(repr=False)
class Unknown:
    """Stands for an element that does not unpickle on the driver, where nothing but its name needs it."""

    reason: str

    def __repr__(self) -> str:
        return f"<an element that the driver cannot show: {self.reason}>"


class RowNames:
    """See the module's docstring. It unpickles the elements that it names, each of them once."""

    def __init__(self) -> None:
        self._elements: dict[int, Any] = {}

    def element(self, item: WorkItem, row: int) -> Any:
        """Return the element of a row, the same object each time."""
        number = item.element_id + row
        if number not in self._elements:
            try:
                self._elements[number] = item.element.element(row)
            except UnpicklableError as error:
                self._elements[number] = Unknown(str(error))
        return self._elements[number]

    def remarks(self, item: WorkItem, notes: str | Iterable[tuple[int, str]]) -> list[tuple[Any, str]]:
        """Return element and remark for the remark on a work item, or for those on the rows of a table."""
        if isinstance(notes, str):
            return [(item.element, notes)]
        texts, table, found = dict(notes), item.element, []
        try:
            for row, element in enumerate(table.elements(table.whole()), table.first):  # each blob is unpickled once
                if row in texts:
                    found.append((self._elements.setdefault(item.element_id + row, element), texts[row]))
        except UnpicklableError as error:
            found += [(Unknown(str(error)), text) for text in [*texts.values()][len(found) :]]
        return found

    def cuts(self, item: WorkItem, parts: Iterable[Any]) -> list[tuple[int, Any]]:
        """Return number and element for each of ``parts``, cut off from an item, that begins inside an element.

        A cut between two rows cuts no element.
        """
        if not item.is_rows:
            return [(item.element_id, item.element) for _ in parts]
        return [(item.element_id + part.first, self.element(item, part.first)) for part in parts if part.start[1]]

    def block(self, item: WorkItem, row: int) -> Any:
        """Return the element of a block in a row of a work item."""
        return self.element(item, row) if item.is_rows and _has(item.element, row) else item.element

    def ran(self, item: WorkItem, held: Any, all_ran: Sequence[Ran]) -> list[tuple[Ran, int, Any, Any]]:
        """Return for each entry on a work item: the entry, and number, element and restriction of what it is about.

        Rows that are one entry together have the number of the first of them.

        Args:
            item: the work item.
            held: what it holds, None if nothing.
            all_ran: how it ran; rows that ran long have entries of their own.
        """
        if not item.is_rows:
            return [(ran, item.element_id, item.element, held) for ran in all_ran if ran.row < 0]
        if held is None:  # its first row deferred before a claim; the rows behind it went with it
            row = item.restriction.first
            return [(ran, item.element_id + row, self.element(item, row), None) for ran in all_ran if ran.row < 0]
        table, named = item.element, {ran.row for ran in all_ran}
        found = []
        for ran in all_ran:
            row = ran.row
            if row < 0:
                row = next((row for row in range(held.first, held.end) if row not in named), held.first)
                if ran.elements > 1:
                    found.append((ran, item.element_id + row, Several(ran.elements, self.element(item, row)), held))
                    continue
            if held.first <= row < held.end:  # a lane may say anything
                found.append((ran, item.element_id + row, self.element(item, row), table.range_of(row, held)))
        return found


def _has(table: Table, row: int) -> bool:
    return table.first <= row < table.first + len(table)
