"""Expands elements, and puts those into tables that need not be alone. It runs on the workers.

Alone, as an element outside of any table, is an element

- whose restriction is no `OffsetRange` with an end, or has other bounds or sizes than 64 bits hold;
- which `split_restriction` cuts, or whose size is unknown;
- whose tracker is no `OffsetRangeTracker`, or overrides what returns restrictions;
- which is large: more than a sixteenth of its table by size, so that the planner sees it, or of many bytes;
- whose class would be pickled by value, if the table outlives the driver: the next driver has a class of its own;
- which has few neighbours.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, compress, islice, repeat
from operator import sub
from typing import Any

import attrs

from sdf.errors import blame
from sdf.execution.bulk.table import ROWS_OF_BLOB, Row, Table
from sdf.execution.expansion import Expanded, checked_size, expand_one, keeps_default
from sdf.model.dofn import DoFn
from sdf.model.forks import alone
from sdf.model.offset_trackers import OffsetRangeTracker
from sdf.model.restrictions import OffsetRange, as_restriction
from sdf.model.trackers import RestrictionTracker

__all__ = ["expand_in_bulk"]

_MOST_ROWS = 1024
_LEAST_ROWS = 16  # fewer are no work to speak of, and better off alone: each can go to a slot of its own
_LARGE = 16  # a row of more than one such part of its table
_MOST_BLOB_BYTES = 1 << 16  # 2 KiB an element
_MOST_TABLE_BYTES = 1 << 18
_MOST_OFFSET = 1 << 62
_BY_VALUE = b"cloudpickle"  # names its functions that make a class or a function again
_ASKED = "create_tracker", "split_restriction", "remark", "restriction_size"
_MAKE_RESTRICTIONS = {"current_restriction", "try_split", "defer_remainder"}
_KINDS = [(kind, 8 * array(kind).itemsize - 1) for kind in "bhiq"]


@attrs.define
class _Rows:
    """Elements that may go into a table: each with its restriction, the bounds of that, its size, and a remark."""

    elements: list[Any] = attrs.field(factory=list)
    wholes: list[OffsetRange] = attrs.field(factory=list)
    starts: list[int] = attrs.field(factory=list)
    stops: list[int] = attrs.field(factory=list)
    sizes: list[float] = attrs.field(factory=list)
    notes: list[Any] = attrs.field(factory=list)

    def __len__(self) -> int:
        return len(self.elements)

    def part(self, rows: slice) -> _Rows:
        """Return some of them."""
        return _Rows(*(column[rows] for column in self._columns()))

    def where(self, chosen: Callable[[float], bool]) -> _Rows:
        """Return those whose size is chosen."""
        are = list(map(chosen, self.sizes))
        return _Rows(*(list(compress(column, are)) for column in self._columns()))

    def _columns(self) -> tuple[list[Any], ...]:
        return self.elements, self.wholes, self.starts, self.stops, self.sizes, self.notes

    def alone(self) -> Iterator[Expanded]:
        """Yield each as an element of its own."""
        for element, whole, size, note in zip(self.elements, self.wholes, self.sizes, self.notes, strict=True):
            yield Expanded(element, whole, ((whole, size),), note)


def expand_in_bulk(
    fn: DoFn,
    elements: Iterable[Any],
    dumps: Callable[[Any], bytes],
    *,
    kept: bool = False,
    unbounded: bool = False,
) -> Iterator[Expanded]:
    """Expand elements; yield a table of small ones as one element, and any other element alone.

    Args:
        fn: the DoFn.
        elements: the inputs.
        dumps: pickles a list of elements.
        kept: whether the tables outlive this driver.
        unbounded: whether work without an end is allowed; it is in no table.

    Raises:
        SdfError: as `expand`.
    """
    expand_some = partial(_expand_plain if keeps_default(fn, *_ASKED) else _expand_each, unbounded=unbounded)
    waiting = iter(elements)
    while some := list(islice(waiting, _MOST_ROWS)):
        rows = _Rows()
        for one in expand_some(fn, some):
            if isinstance(one, _Rows):
                rows = one
            else:
                yield one
        yield from _tables(fn, rows, dumps, kept)


def _expand_plain(fn: DoFn, elements: list[Any], *, unbounded: bool) -> Iterator[Expanded | _Rows]:
    """Expand elements of a DoFn that has only its initial restrictions of its own; yield as `_expand_each`."""
    initial = fn.get_initial_restriction
    wholes: list[Any] = []
    try:
        with alone():
            for element in elements:
                whole: Any = initial(element)
                if type(whole) is not OffsetRange:
                    whole = as_restriction(whole, "it returned")
                wholes.append(whole)
    except BaseException:
        with blame(lambda: f"{type(fn).__name__}.get_initial_restriction()", elements[len(wholes)]):
            raise
    if set(map(type, wholes)) == {OffsetRange}:
        starts, stops = [whole.start for whole in wholes], [whole.stop for whole in wholes]
        if set(map(type, stops)) == {int} and _fits(min(starts), max(stops)):
            yield _Rows(elements, wholes, starts, stops, list(map(sub, stops, starts)), [None] * len(elements))
            return
    yield from _expand_each(fn, elements, wholes, unbounded=unbounded)


def _expand_each(
    fn: DoFn, elements: list[Any], wholes: Iterable[Any] = repeat(None), *, unbounded: bool
) -> Iterator[Expanded | _Rows]:
    """Expand elements; yield those that must be alone, and then the others as rows.

    Args:
        fn: the DoFn.
        elements: the inputs.
        wholes: their initial restrictions; None for one that the DoFn is asked for.
        unbounded: see `expand_in_bulk`.
    """
    rows = _Rows()
    for element, whole in zip(elements, wholes):  # noqa: B905, the second may have no end
        one, tracker = expand_one(fn, element, unbounded=unbounded, restriction=whole)
        if (size := _size_of_row(one, tracker)) is None:
            yield one
            continue
        rows.elements.append(element)
        rows.wholes.append(one.restriction)
        rows.starts.append(one.restriction.start)
        rows.stops.append(one.restriction.stop)
        rows.sizes.append(size)
        rows.notes.append(one.note)
    yield rows


def _fits(start: int, stop: int) -> bool:
    return start > -_MOST_OFFSET and stop < _MOST_OFFSET


def _size_of_row(one: Expanded, tracker: RestrictionTracker) -> float | None:
    """Return the size of an expanded element that may be a row of a table; None if it may not."""
    whole, ((_, size), *more) = one.restriction, one.pieces
    if more or size is None or not isinstance(whole, OffsetRange):
        return None
    if type(whole.stop) is not int or not _fits(whole.start, whole.stop) or size >= _MOST_OFFSET:
        return None
    return size if _makes_ranges(tracker) else None


def _makes_ranges(tracker: Any) -> bool:
    """Return whether a tracker returns parts of the restriction only: a table can hold no other part of a row."""
    return (
        isinstance(tracker, OffsetRangeTracker)
        and all(getattr(type(tracker), name) is getattr(OffsetRangeTracker, name) for name in _MAKE_RESTRICTIONS)
        and _MAKE_RESTRICTIONS.isdisjoint(vars(tracker))  # nor is such a method replaced on the object
    )


def _tables(fn: DoFn, rows: _Rows, dumps: Callable[[Any], bytes], kept: bool) -> Iterator[Expanded]:
    """Yield rows as tables, and as elements of their own those that should be alone."""
    if len(rows) < _LEAST_ROWS:
        yield from rows.alone()
        return
    most = sum(rows.sizes) / _LARGE
    if max(rows.sizes) > most:
        yield from rows.where(lambda size: size > most).alone()
        rows = rows.where(lambda size: size <= most)
    carries = set(map(type, rows.wholes)) != {OffsetRange}
    together: list[tuple[bytes, _Rows]] = []
    total_bytes = 0
    for at in range(0, len(rows), ROWS_OF_BLOB):
        some = rows.part(slice(at, at + ROWS_OF_BLOB))
        blob = dumps(list(map(Row, some.elements, some.wholes)) if carries else some.elements)
        if len(blob) > _MOST_BLOB_BYTES or (kept and _BY_VALUE in blob):
            yield from some.alone()
            continue
        together.append((blob, some))
        total_bytes += len(blob)
        if total_bytes > _MOST_TABLE_BYTES or len(some) < ROWS_OF_BLOB:
            yield _table(fn, together, carries)
            together, total_bytes = [], 0
    if together:
        yield _table(fn, together, carries)


def _table(fn: DoFn, together: list[tuple[bytes, _Rows]], carries: bool) -> Expanded:
    blobs, rows = zip(*together, strict=True)
    starts, stops, sizes, notes = (
        list(chain.from_iterable(column))
        for column in zip(*((some.starts, some.stops, some.sizes, some.notes) for some in rows), strict=True)
    )
    are_lengths = keeps_default(fn, "create_tracker", "restriction_size")
    table = Table(0, blobs, _packed(starts), _packed(stops), None if are_lengths else array("d", sizes), carries)
    whole, remarks = table.whole(), tuple((row, note) for row, note in enumerate(notes) if note is not None)
    return Expanded(table, whole, ((whole, table.size(whole, partial(checked_size, fn))),), remarks or None)


def _packed(numbers: list[int]) -> array[int]:
    """Return numbers as an array of the smallest type that holds them: most are zeros, and others are alike."""
    lowest, highest = min(numbers), max(numbers)
    most = max(highest, -lowest - 1)
    return array(next(kind for kind, bits in _KINDS if most >> bits == 0), numbers)
