"""Expands elements, and puts those into tables that need not be alone. It runs on the workers.

Alone, as an element outside of any table, is an element

- whose restriction is no plain `OffsetRange` with an end, or has other bounds or sizes than 64 bits hold;
- which `split_restriction` cuts, on which the DoFn has a remark, or whose size is unknown;
- which is large: more than a sixteenth of its table by size, so that the planner sees it, or of many bytes;
- which has few neighbours.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sdf.errors import blame
from sdf.execution.bulk.table import ROWS_OF_BLOB, Table
from sdf.execution.expansion import Expanded, checked_size, expand
from sdf.model.dofn import DoFn
from sdf.model.offset_trackers import OffsetRangeTracker
from sdf.model.restrictions import OffsetRange, as_restriction

__all__ = ["expand_in_bulk", "keeps_default"]

_MOST_ROWS = 1024
_LEAST_ROWS = 16  # fewer are no work to speak of, and better off alone: each can go to a slot of its own
_LARGE = 16  # a row of more than one such part of its table
_MOST_BLOB_BYTES = 1 << 16  # 2 KiB an element
_MOST_TABLE_BYTES = 1 << 18
_MOST_OFFSET = 1 << 62
_KINDS = [(kind, 8 * array(kind).itemsize - 1) for kind in "bhiq"]


_Row = tuple[Any, int, int, float]  # an element, the bounds of its restriction, and its size


def keeps_default(fn: DoFn, *methods: str) -> bool:
    """Return whether a DoFn has these methods from `DoFn` itself."""
    return all(getattr(type(fn), name) is getattr(DoFn, name) and name not in vars(fn) for name in methods)


def expand_in_bulk(fn: DoFn, elements: Iterable[Any], dumps: Callable[[Any], bytes]) -> Iterator[Expanded]:
    """Expand elements whose work has an end; yield those that are alone, and tables as an element each.

    Args:
        fn: the DoFn.
        elements: the inputs.
        dumps: pickles a list of elements.

    Raises:
        SdfError: as `expand`.
    """
    rows: list[_Row] = []
    for one in _expanded(fn, elements):
        if isinstance(one, tuple):
            rows.append(one)
            if len(rows) < _MOST_ROWS:
                continue
        yield from _tables(fn, rows, dumps)
        rows = []
        if not isinstance(one, tuple):
            yield one
    yield from _tables(fn, rows, dumps)


def _expanded(fn: DoFn, elements: Iterable[Any]) -> Iterator[Expanded | _Row]:
    """Yield each element expanded, as a row if it may be one of a table."""
    if not keeps_default(fn, "create_tracker", "split_restriction", "remark", "restriction_size"):
        for element in elements:
            one = expand(fn, element)
            yield one if (row := _as_row(fn, one)) is None else row
        return
    initial = fn.get_initial_restriction
    for element in elements:  # for such a DoFn, all that `expand` would ask of it has these answers
        try:
            whole: Any = initial(element)
            if type(whole) is not OffsetRange:
                whole = as_restriction(whole, "it returned")
        except BaseException:
            with blame(lambda: f"{type(fn).__name__}.get_initial_restriction()", element):
                raise
        if type(whole) is OffsetRange and type(whole.stop) is int and _fits(whole.start, whole.stop):
            yield element, whole.start, whole.stop, whole.stop - whole.start
        else:
            yield expand(fn, element, restriction=whole)


def _fits(start: int, stop: int) -> bool:
    return start > -_MOST_OFFSET and stop < _MOST_OFFSET


def _as_row(fn: DoFn, one: Expanded) -> _Row | None:
    whole, ((_, size), *more) = one.restriction, one.pieces
    if more or one.note is not None or size is None or type(whole) is not OffsetRange:
        return None
    if type(whole.stop) is not int or not _fits(whole.start, whole.stop) or size >= _MOST_OFFSET:
        return None
    if not isinstance(fn.create_tracker(one.element, whole), OffsetRangeTracker):
        return None
    return one.element, whole.start, whole.stop, size


def _tables(fn: DoFn, rows: list[_Row], dumps: Callable[[Any], bytes]) -> Iterator[Expanded]:
    """Yield rows as tables, and as elements of their own those that should be alone."""
    if len(rows) < _LEAST_ROWS:
        yield from map(_alone, rows)
        return
    most = sum(row[3] for row in rows) / _LARGE
    yield from (_alone(row) for row in rows if row[3] > most)
    rows = [row for row in rows if row[3] <= most]
    together: list[tuple[bytes, list[_Row]]] = []
    total = 0
    for at in range(0, len(rows), ROWS_OF_BLOB):
        some = rows[at : at + ROWS_OF_BLOB]
        blob = dumps([row[0] for row in some])
        if len(blob) > _MOST_BLOB_BYTES:
            yield from map(_alone, some)
            continue
        together.append((blob, some))
        total += len(blob)
        if total > _MOST_TABLE_BYTES or len(some) < ROWS_OF_BLOB:
            yield _table(fn, together)
            together, total = [], 0
    if together:
        yield _table(fn, together)


def _alone(row: _Row) -> Expanded:
    element, start, stop, size = row
    whole = OffsetRange(start, stop)
    return Expanded(element, whole, ((whole, size),))


def _table(fn: DoFn, together: list[tuple[bytes, list[_Row]]]) -> Expanded:
    rows = [row for _, some in together for row in some]
    sizes = None if keeps_default(fn, "create_tracker", "restriction_size") else array("d", [row[3] for row in rows])
    starts, stops = _packed([row[1] for row in rows]), _packed([row[2] for row in rows])
    table = Table(0, tuple(blob for blob, _ in together), starts, stops, sizes)
    whole = table.whole()
    return Expanded(table, whole, ((whole, checked_size(fn, table, whole)),))


def _packed(numbers: list[int]) -> array[int]:
    """Return numbers as an array of the smallest type that holds them: most are zeros, and others are alike."""
    lowest, highest = min(numbers), max(numbers)
    most = max(highest, -lowest - 1)
    return array(next(kind for kind, bits in _KINDS if most >> bits == 0), numbers)
