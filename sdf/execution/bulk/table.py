"""Table: consecutive elements, pickled, with the bounds of their restrictions; and Rows, a part of its work.

A restriction may be of a subclass of `OffsetRange`, and carry more than its bounds, such as the file that it is of.
Then it is pickled with its element, and a part of a row is `part_of` it.
"""

from __future__ import annotations

import pickle
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import attrs

from sdf.errors import InvalidTypeError, SplitError, UnpicklableError, show
from sdf.model.restrictions import OffsetRange, part_of

__all__ = ["MEND", "ROWS_OF_BLOB", "Row", "Rows", "Table"]

ROWS_OF_BLOB = 32  # rows pickled together: what is sent of a table is a whole number of these
MEND = "Mend the __reduce__ or __setstate__ of their class."

Position = tuple[int, int]


class Row(NamedTuple):
    """An element, and its restriction, which carries more than its bounds."""

    element: Any
    restriction: OffsetRange


@attrs.frozen(repr=False)
class Rows:
    """A part of the work of a table, from one position up to another.

    A position is a row, and how many offsets of the row's range lie before it. So ``(3, 0)`` is where row 3 begins and
    row 2 ends. Parts tile if each starts where the one before it stops, as with any restriction.
    """

    start: Position
    stop: Position

    def __attrs_post_init__(self) -> None:
        for position in (self.start, self.stop):  # a lane may say anything
            if not (type(position) is tuple and [type(number) for number in position] == [int, int]):
                raise InvalidTypeError(f"a position is a row and a number of offsets (got {show(position)}).")

    @property
    def first(self) -> int:
        """The first row of which it holds something."""
        return self.start[0]

    @property
    def end(self) -> int:
        """One more than the last row of which it holds something."""
        row, offsets = self.stop
        return row + (offsets > 0)

    def __len__(self) -> int:
        """Return of how many rows it holds something."""
        return self.end - self.first

    def __repr__(self) -> str:
        return f"rows {_shown(self.start)} up to {_shown(self.stop)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self.start, self.stop)


def _shown(position: Position) -> str:
    row, offsets = position
    return f"{row:,} + {offsets:,}" if offsets else f"{row:,}"


@attrs.frozen(eq=False, repr=False)
class Table:
    """Some elements, each with an `OffsetRange` as its initial restriction, in one piece. Nothing unpickles them
    before they run.

    Attributes:
        first: number of the first row that is here; what is sent of a table keeps the numbers of its rows.
        blobs: lists of `ROWS_OF_BLOB` elements each, pickled; the last may have fewer.
        starts, stops: the bounds of the restrictions.
        sizes: the sizes of the restrictions; None: their lengths.
        carries: whether a restriction carries more than its bounds; then a list is of `Row`.
    """

    first: int
    blobs: tuple[bytes, ...]
    starts: array[int]
    stops: array[int]
    sizes: array[float] | None = None
    carries: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self.first, self.blobs, self.starts, self.stops, self.sizes, self.carries)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.starts)

    def __repr__(self) -> str:
        return f"{len(self):,} elements, the first of them {show(self.element(self.first))}"

    def whole(self) -> Rows:
        """Return all of its work."""
        return Rows((self.first, 0), (self.first + len(self), 0))

    def only(self, rows: Rows) -> Table:
        """Return the part of the table that is needed to run some rows."""
        low = (rows.first - self.first) // ROWS_OF_BLOB
        high = -(-(rows.end - self.first) // ROWS_OF_BLOB)
        if low == 0 and high >= len(self.blobs):
            return self
        kept = slice(low * ROWS_OF_BLOB, high * ROWS_OF_BLOB)
        sizes = None if self.sizes is None else self.sizes[kept]
        first, blobs = self.first + kept.start, self.blobs[low:high]
        return Table(first, blobs, self.starts[kept], self.stops[kept], sizes, self.carries)

    def elements(self, rows: Rows) -> Iterator[Any]:
        """Yield the elements of some rows, unpickled when they are needed."""
        return (element for element, _ in self._listed(rows)) if self.carries else self._listed(rows)

    def work(self, rows: Rows) -> Iterator[tuple[Any, OffsetRange]]:
        """Yield element and restriction of each row of which ``rows`` holds something, cut to what it holds."""
        spans = zip(*self.bounds(rows), strict=True)
        if self.carries:
            for (element, whole), (start, stop) in zip(self._listed(rows), spans, strict=True):
                same = whole.start == start and whole.stop == stop
                yield element, whole if same else part_of(whole, start, stop)
        else:
            for element, (start, stop) in zip(self._listed(rows), spans, strict=True):
                yield element, OffsetRange(start, stop)

    def _listed(self, rows: Rows) -> Iterator[Any]:
        """Yield the entries of the lists, for some rows."""
        row, end = rows.first - self.first, rows.end - self.first
        while row < end:
            blob, at = divmod(row, ROWS_OF_BLOB)
            some = self._loaded(blob)
            upto = min(len(some), at + end - row)
            yield from some[at:upto]
            row += upto - at

    def element(self, row: int) -> Any:
        """Return the element of a row."""
        return self._entry(row).element if self.carries else self._entry(row)

    def _entry(self, row: int) -> Any:
        blob, at = divmod(row - self.first, ROWS_OF_BLOB)
        return self._loaded(blob)[at]

    def _loaded(self, blob: int) -> list[Any]:
        try:
            some: list[Any] = pickle.loads(self.blobs[blob])
        except Exception as error:
            raised = UnpicklableError(f"elements do not unpickle here ({type(error).__name__}: {error}). {MEND}")
            raised.has_context = True  # it is not the fault of the element before
            raise raised from error
        return some

    def range_of(self, row: int, rows: Rows) -> OffsetRange:
        """Return the part of a row's restriction that ``rows`` holds."""
        begin, end = self.span_of(row, rows)
        return part_of(self._entry(row).restriction, begin, end) if self.carries else OffsetRange(begin, end)

    def span_of(self, row: int, rows: Rows) -> tuple[int, int]:
        """Return start and stop of the part of a row's restriction that ``rows`` holds."""
        start, stop = self.starts[row - self.first], self.stops[row - self.first]
        begin = start + rows.start[1] if row == rows.start[0] else start
        end = start + rows.stop[1] if row == rows.stop[0] else stop
        if not start <= begin <= end <= stop:
            raise SplitError(f"{rows!r} lie outside of row {row:,}, {OffsetRange(start, stop)!r}.")
        return begin, end

    def bounds(self, rows: Rows) -> tuple[list[int], list[int]]:
        """Return starts and stops of the parts of rows that ``rows`` holds."""
        some = slice(rows.first - self.first, rows.end - self.first)
        starts, stops = list(self.starts[some]), list(self.stops[some])
        if starts:
            starts[0], _ = self.span_of(rows.first, rows)
            _, stops[-1] = self.span_of(rows.end - 1, rows)
        return starts, stops

    def rows_of(self, row: int, part: Any) -> Rows:
        """Return a part of a row's restriction as `Rows`.

        Raises:
            SplitError: if it is no part of an offset range.
        """
        start, stop = self.starts[row - self.first], self.stops[row - self.first]
        if not isinstance(part, OffsetRange) or not start <= part.start <= part.stop <= stop:
            raise SplitError(
                f"a tracker of element {show(self.element(row))} gave {show(part)}, which is no part of "
                f"{OffsetRange(start, stop)!r}."
            )
        end: Any = part.stop
        return Rows((row, part.start - start), (row + 1, 0) if end == stop else (row, end - start))

    def lengths(self, first: int, end: int) -> list[Any]:
        """Return the size of each row from ``first`` up to ``end``, whole."""
        part = slice(first - self.first, end - self.first)
        if self.sizes is not None:
            return list(self.sizes[part])
        return [stop - start for start, stop in zip(self.starts[part], self.stops[part], strict=True)]

    def size(self, rows: Rows, size_of: Callable[[Any, OffsetRange], float | None]) -> float:
        """Return the size of some rows.

        Args:
            rows: the rows.
            size_of: returns the size of a part of an element; called for rows that ``rows`` holds in part, if the
                sizes are not lengths. A part of unknown size counts as its share of the row.
        """
        self._check(rows)
        total: float = sum(self.lengths(rows.first, rows.end))
        for row in {rows.first, rows.end - 1} if len(rows) else ():
            start, stop = self.span_of(row, rows)
            (whole,), length = self.lengths(row, row + 1), stop - start
            full = self.stops[row - self.first] - self.starts[row - self.first]
            if length < full:
                size = length if self.sizes is None else size_of(self.element(row), self.range_of(row, rows))
                total += (whole * length / full if size is None else size) - whole
        return max(0, total)

    def _check(self, rows: Rows) -> None:
        here = self.whole()
        if not here.start <= rows.start <= rows.stop <= here.stop:
            raise SplitError(f"{rows!r} do not lie in {here!r}.")

    def cut(self, rows: Rows, fraction: float) -> tuple[Rows, Rows]:
        """Cut two or more rows between two of them, so that about ``fraction`` of the work lies in front."""
        done = list(accumulate(self.lengths(rows.first, rows.end), initial=0))
        at = nearest(done, done[-1] * float(fraction)) if done[-1] else round(fraction * len(rows))
        row = rows.first + min(max(at, 1), len(rows) - 1)
        return Rows(rows.start, (row, 0)), Rows((row, 0), rows.stop)


def nearest(ascending: list[Any], value: float) -> int:
    """Return the index of the entry nearest to a value."""
    at = bisect_left(ascending, value)
    if at == len(ascending) or (at and value - ascending[at - 1] <= ascending[at] - value):
        return at - 1
    return at
