"""ReadPages: the records of anything that is read page by page, through two functions of the user's.

A page is the block of a claim: one call of ``fetch``. Where pages begin depends only on the whole range, never on how
it is split. So a restriction (`PageRange`) carries the whole range beside its own part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import Any

import attrs

from sdf import OffsetRange, OffsetRangeTracker, RestrictionTracker
from sdf.errors import InvalidTypeError, InvalidValueError, SourceError, blame, show
from sdf.io.connector import Connector
from sdf.numbers import as_integer, is_integer

__all__ = ["PageRange", "ReadPages"]


@attrs.frozen
class PageRange(OffsetRange):
    """Positions ``[start, stop)``, a part of the positions ``[first, end)`` that an element had when it was counted.

    Attributes:
        first: the first position of the element.
        end: the position after the last of the element.
        numbered: whether each position is a record.
    """

    first: int
    end: int
    numbered: bool

    def page_from(self, position: int, size: int) -> int:
        """Return where the first page at or after a position begins: at ``first``, or at a multiple of ``size``."""
        return self.first if position <= self.first else -(-position // size) * size

    def pages(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield start and stop of each page that begins at or after ``start``."""
        begin = self.page_from(self.start, size)
        while begin < self.end:
            stop = min((begin // size + 1) * size, self.end)
            yield begin, stop
            begin = stop


class ReadPages(Connector):
    """Reads pages. Element: whatever ``count`` and ``fetch`` take. Gives the records that ``fetch`` returns.

    Position: where a page begins. Pages begin at the multiples of ``page_size``; the first begins where the element
    does. Each page is one call of ``fetch``, in one task, with ``start`` and ``stop`` as they were counted when the run
    was planned. What is added behind the end later belongs to a later read. The source must not change before the end
    meanwhile: a page that is fetched again must have the same records.

    There are two kinds of positions, and what ``count`` returns says which:

    * A number: position i is record i, as where an API takes ``offset`` and ``limit``. A page that has not exactly
      ``stop - start`` records is an error: the server has a smaller limit, or records came or went.
    * A pair ``(start, stop)`` of integers: positions are values of a key, such as seconds since the epoch. A page is
      the records with a key in ``[start, stop)``; there may be none, or many.

    Ranges of a key suit databases for which an offset is slow, since they pass over all that lies before it. For
    MongoDB, with an hour of ``_id`` on each page::

        @functools.cache  # a client for each process
        def collection(name):
            return pymongo.MongoClient(URI)["shop"][name]

        def count(name):
            first, last = (collection(name).find_one(sort=[("_id", order)])["_id"] for order in (1, -1))
            return int(first.generation_time.timestamp()), int(last.generation_time.timestamp()) + 1

        def fetch(name, start, stop):
            since, until = (ObjectId.from_datetime(datetime.fromtimestamp(at, timezone.utc)) for at in (start, stop))
            return collection(name).find({"_id": {"$gte": since, "$lt": until}})

        run_sdf(sc.parallelize(["orders"]), ReadPages(fetch, count, page_size=3600))

    Args:
        fetch: ``fetch(element, start, stop)`` returns the records of a page, or yields them. It must be picklable, and
            gets the run's side inputs by name, such as a `RateLimit`.
        count: ``count(element)`` returns the number of records, or the pair of the first position and the one after the
            last. It is called once for each element, before the element is read.
        page_size: positions in a page. One call of ``fetch`` should take some milliseconds or more.
        with_position: yield ``((element, start of the page), record)`` instead of ``record``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value; when it runs, if ``count`` or
            ``fetch`` returns something else.
        SourceError: when it runs, if a page has more or fewer records than it has positions that are records.
        ProcessError: when it runs, if ``fetch`` or ``count`` raises; the message names the element and the page.
    """

    def __init__(
        self,
        fetch: Callable[..., Iterable[Any]],
        count: Callable[[Any], int | tuple[int, int]],
        *,
        page_size: int = 1000,
        with_position: bool = False,
    ) -> None:
        for name, function in (("fetch", fetch), ("count", count)):
            if not callable(function):
                raise InvalidTypeError(f"ReadPages {name} must be a function (got {show(function)}).")
        size = as_integer(page_size)
        if not is_integer(size):
            raise InvalidTypeError(f"ReadPages page_size must be an integer (got {show(page_size)}).")
        if size < 1:
            raise InvalidValueError(f"ReadPages page_size must be >= 1 (got {size}).")
        self.fetch = fetch
        self.count = count
        self.page_size = size
        self.with_position = with_position

    def get_initial_restriction(self, element: Any) -> PageRange:
        with blame(lambda: "ReadPages: count()", element):
            counted = self.count(element)
            numbered = not isinstance(counted, (tuple, list))
            first, end = _as_range((0, counted) if numbered else counted, counted)
        return PageRange(first, end, first, end, numbered)

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        return OffsetRangeTracker(restriction, partial(restriction.page_from, size=self.page_size))

    def process(self, element: Any, tracker: Any, **side_inputs: Any) -> Iterator[Any]:
        restriction: PageRange = tracker.current_restriction()
        for start, stop in tracker.claims(restriction.pages(self.page_size), position=lambda page: page[0]):
            records = self._records(element, start, stop, restriction.numbered, side_inputs)
            yield from zip(repeat((element, start)), records) if self.with_position else records

    def _records(
        self, element: Any, start: int, stop: int, numbered: bool, side_inputs: Mapping[str, Any]
    ) -> Iterator[Any]:
        """Yield the records of a page; the error of a page names it."""
        with blame(lambda: f"ReadPages: fetch() of the page [{start}, {stop})", element):
            records = self.fetch(element, start, stop, **side_inputs)
            if not isinstance(records, Iterable) or isinstance(records, (str, bytes, Mapping)) or _is_table(records):
                raise InvalidTypeError(f"it must return an iterable of records, such as a list (got {show(records)}).")
            number = 0
            for number, record in enumerate(records, 1):  # noqa: B007
                yield record
            if numbered and number != stop - start:
                raise SourceError(
                    f"it gave {number} records, but count() returned a number, so the page has {stop - start}. If the "
                    f"server has a limit for a page, pass page_size= for no more than that; if records come and go "
                    f"meanwhile, read a copy. Where a position is no record, let count() return a pair (start, stop)."
                )


def _is_table(records: Any) -> bool:
    """Return whether this is a table, such as a DataFrame of pandas, which is iterated by the names of its columns."""
    return hasattr(records, "__dataframe__") or hasattr(records, "columns")


def _as_range(ends: Any, counted: Any) -> tuple[int, int]:
    positions = [as_integer(value) for value in ends]
    if len(positions) != 2 or not all(map(is_integer, positions)):
        raise InvalidTypeError(
            f"it must return the number of records, or a pair of integers (start, stop) (got {show(counted)})."
        )
    if positions[0] > positions[1]:
        raise InvalidValueError(f"it must return a number >= 0, or a pair start <= stop (got {show(counted)}).")
    return positions[0], positions[1]
