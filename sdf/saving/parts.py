"""The parts of all elements as the log tells them: compact, because there may be millions, and most are committed.

Work items are numbered as in the ledger: those of the elements first, then the residuals of each split. When another
driver takes over, it joins committed neighbours, and numbers the work items anew. A reader of the log does the same at
that record, so both number alike.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

__all__ = ["Part", "Parts"]

_UNKNOWN = -1.0


@attrs.frozen
class Part:
    """A work item.

    Attributes:
        data: its restriction, as in the log.
        size: its size; None if that is to be asked.
        committed: whether it is committed.
        watermark: state of the watermark estimator as in the log, or None.
        due: the time from which it may run, in milliseconds since the epoch; 0 for at once.
        failed: how often it failed before it was set aside, and why; None if it was not.
        retried: the earlier failure of a block that is being tried again, which its splits inherit; None for others.
    """

    data: Any
    size: float | None
    committed: bool
    watermark: Any = None
    due: int = 0
    failed: tuple[int, str] | None = None
    retried: tuple[int, str] | None = None


class Parts:
    """See the module's docstring. An impossible event raises ValueError or IndexError."""

    def __init__(self) -> None:
        self._data: list[Any] = []  # (start, stop), or JSON data of any other restriction; None: all was cut off
        self._size = array("d")
        self._parent = array("q")
        self._committed = bytearray()
        self._watermarks: dict[int, Any] = {}
        self._dues: dict[int, int] = {}
        self._failed: dict[int, tuple[int, str]] = {}
        self._retried: dict[int, tuple[int, str]] = {}
        self._firsts: list[int] = []  # of each element, the number of its first work item

    def add_element(self, pieces: Sequence[tuple[Any, float | None]]) -> None:
        """Enter the initial work items of the next element, as (restriction, size)."""
        self._firsts.append(len(self._data))
        for data, size in pieces:
            self._append(data, _UNKNOWN if size is None else size, -1)

    def _append(self, data: Any, size: float, parent: int) -> int:
        self._data.append(tuple(data) if type(data) is list else data)
        self._size.append(size)
        self._parent.append(parent)
        self._committed.append(0)
        return len(self._data) - 1

    def split(self, number: int, primary: Any, residuals: Sequence[Sequence[Any]]) -> None:
        """Enter a split; see `sdf.saving.log_records` for its record."""
        self._check_open(number)
        self._data[number] = tuple(primary) if type(primary) is list else primary
        self._size[number] = _UNKNOWN
        for restriction, watermark, _, due in residuals:
            child = self._append(restriction, _UNKNOWN, number)
            if number in self._retried:
                self._retried[child] = self._retried[number]
            if watermark is not None:
                self._watermarks[child] = watermark
            if due:
                self._dues[child] = due

    def commit(self, ranges: Sequence[Sequence[int]]) -> None:
        """Enter that work items are committed, given as [first, last] pairs."""
        for first, last in ranges:
            for number in range(first, last + 1):
                self._check_open(number)
                self._committed[number] = 1

    def set_aside(self, number: int, attempts: int, error: str) -> None:
        """Enter that a work item has failed so often, and is not tried again."""
        self._check_open(number)
        self._failed[number] = attempts, error

    @property
    def some_failed(self) -> bool:
        """Whether a work item was set aside, or is being tried again."""
        return bool(self._failed or self._retried)

    def _check_open(self, number: int) -> None:
        there = 0 <= number < len(self._data) and self._data[number] is not None
        if not there or self._committed[number] or number in self._failed:
            raise ValueError(f"work item {number} is not there, or is committed or set aside already")

    def elements(self) -> Iterator[list[Part]]:
        """Yield the parts of each element, in order, without those that hold nothing; committed neighbours are one."""
        firsts = [*self._firsts, self._roots()]
        child, sibling = self._tree()
        for first, stop in itertools.pairwise(firsts):
            parts: list[Part] = []
            stack = list(range(stop - 1, first - 1, -1))
            while stack:
                number = stack.pop()
                if self._data[number] is not None:
                    self._join(parts, number)
                below = child[number]
                children = []
                while below >= 0:
                    children.append(below)
                    below = sibling[below]
                stack += reversed(children)
            yield parts

    def _roots(self) -> int:
        """Return the number of initial work items."""
        return next((number for number, parent in enumerate(self._parent) if parent >= 0), len(self._parent))

    def _tree(self) -> tuple[array[int], array[int]]:
        """Return for each work item its first child and its next sibling, -1 for none: a later cut lies in front."""
        child = array("q", [-1]) * len(self._parent)
        sibling = array("q", child)
        for number, parent in enumerate(self._parent):
            if parent >= 0:
                sibling[number], child[parent] = child[parent], number
        return child, sibling

    def _join(self, parts: list[Part], number: int) -> None:
        data, committed = self._data[number], bool(self._committed[number])
        if committed and parts and parts[-1].committed and type(data) is tuple and type(parts[-1].data) is tuple:
            before = parts[-1].data
            if before[1] == data[0]:
                parts[-1] = Part((before[0], data[1]), None, committed=True)
                return
        size = self._size[number]
        watermark, due = self._watermarks.get(number), self._dues.get(number, 0)
        failed, retried = self._failed.get(number), None if committed else self._retried.get(number)
        parts.append(Part(data, None if size == _UNKNOWN else size, committed, watermark, due, failed, retried))

    def renumbered(self, *, retry: bool = False) -> Parts:
        """Return the parts as a driver that takes over numbers them; for a retry, what was set aside is open again."""
        fresh = Parts()
        for parts in self.elements():
            fresh._firsts.append(len(fresh._data))
            for part in parts:
                number = fresh._append(part.data, _UNKNOWN if part.size is None else part.size, -1)
                fresh._committed[number] = part.committed
                if part.watermark is not None:
                    fresh._watermarks[number] = part.watermark
                if part.due:
                    fresh._dues[number] = part.due
                if part.failed is not None and retry:
                    fresh._retried[number] = part.failed
                elif part.failed is not None:
                    fresh._failed[number] = part.failed
                elif part.retried is not None:
                    fresh._retried[number] = part.retried
        return fresh
