"""Work: the content of a work item, one element or rows of a table, and each rule that differs between the two."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import attrs

from sdf.errors import UnpicklableError
from sdf.execution.bulk.invoker import TableInvoker
from sdf.execution.bulk.table import Rows, Table
from sdf.execution.expansion import checked_size, cut_out, cut_share
from sdf.execution.invoker import Invoker
from sdf.model.dofn import DoFn

__all__ = ["OneElement", "TableRows", "Work", "work_of"]


@attrs.frozen
class OneElement:
    """The part ``restriction`` of the work of one element.

    Attributes:
        elements: the number of elements.
    """

    element: Any
    restriction: Any
    elements = 1

    def numbers(self) -> range:
        """Return the numbers of the rows in their table; 0 for one element."""
        return range(1)

    def pairs(self) -> Iterable[tuple[Any, Any]]:
        """Return each element with its restriction."""
        return [(self.element, self.restriction)]

    def named(self) -> tuple[Any, Any]:
        """Return the element and the restriction that an error names."""
        return self.element, self.restriction

    def sent(self) -> Any:
        """Return the element, or the part of the table that a worker needs."""
        return self.element

    def size(self, fn: DoFn) -> float | None:
        """Return the size, checked as `checked_size` does."""
        return checked_size(fn, self.element, self.restriction)

    def cut(self, fn: DoFn, fraction: float) -> tuple[Any, Any] | None:
        """Cut unstarted work into two restrictions, as `cut_share` does."""
        return cut_share(fn, self.element, self.restriction, fraction)

    def cut_out(self, fn: DoFn, position: Any) -> tuple[Any, Any, Any] | None:
        """Cut out the block at a position that an invoker told, as `sdf.execution.expansion.cut_out` does."""
        return cut_out(fn, self.element, self.restriction, position)

    def starts_inside(self) -> bool:
        """Return whether a residual begins inside an element."""
        return True

    def invoker(self, fn: DoFn, **options: Any) -> Invoker:
        """Return the invoker that runs this work; ``options`` are those of `Invoker`."""
        return Invoker(fn, self.element, self.restriction, **options)


@attrs.frozen
class TableRows:
    """Some rows of a table, with the methods of `OneElement`. A position in it is a row and a position in that row."""

    table: Table
    rows: Rows

    @property
    def elements(self) -> int:
        return len(self.rows)

    def numbers(self) -> range:
        return range(self.rows.first, self.rows.end)

    def pairs(self) -> Iterable[tuple[Any, Any]]:
        return self.table.work(self.rows)

    def named(self) -> tuple[Any, Any]:
        """Return the element and the restriction of the row, if there is one row only."""
        rows = self.rows
        if type(rows) is Rows and len(rows) == 1:
            try:
                return self.table.element(rows.first), self.table.range_of(rows.first, rows)
            except UnpicklableError:  # the error that is told matters more
                pass
        return self.table, rows

    def sent(self) -> Table:
        return self.table.only(self.rows)

    def size(self, fn: DoFn) -> float:
        return self.table.size(self.rows, partial(checked_size, fn))

    def cut(self, fn: DoFn, fraction: float) -> tuple[Rows, Rows] | None:
        """Cut between two rows; if there is only one, cut its restriction."""
        if len(self.rows) > 1:
            return self.table.cut(self.rows, fraction)
        row = self.rows.first
        pair = cut_share(fn, self.table.element(row), self.table.range_of(row, self.rows), fraction)
        if pair is None:
            return None
        front, rest = (self.table.rows_of(row, part) for part in pair)
        return front, rest

    def cut_out(self, fn: DoFn, position: Any) -> tuple[Any, Any, Any] | None:
        """Cut out the block at a position; all of the row if the row cannot be cut there."""
        table, rows = self.table, self.rows
        if not (type(position) is tuple and len(position) == 2 and type(position[0]) is int):
            return None  # a lane may say anything
        row, claimed = position
        if not rows.first <= row < rows.end:
            return None
        part = table.range_of(row, rows)
        found = None if claimed is None else cut_out(fn, table.element(row), part, claimed)
        block = table.rows_of(row, part if found is None else found[1])
        before = None if block.start == rows.start else Rows(rows.start, block.start)
        return before, block, None if block.stop == rows.stop else Rows(block.stop, rows.stop)

    def starts_inside(self) -> bool:
        return self.rows.start[1] > 0

    def invoker(self, fn: DoFn, **options: Any) -> TableInvoker:
        return TableInvoker(fn, self.table, self.rows, **options)


Work = OneElement | TableRows


def work_of(element: Any, restriction: Any) -> Work:
    """Return the work of an element or a table."""
    return TableRows(element, restriction) if type(element) is Table else OneElement(element, restriction)
