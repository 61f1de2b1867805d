"""TailTable: follows the rows that are added to a database table, in the order of a growing key, in streams.

The key alone says which rows have been read. So a row must not become visible after a row with a greater key has been
read. If several transactions write at the same time, the numbers of a sequence do not become visible in order: use one
writer, assign the key at commit, or follow a change log instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

from sdf import UNBOUNDED, DoFn, MonotonicWatermark, OffsetRange, RestrictionTracker
from sdf.errors import InvalidTypeError, ReadError, SourceError, show
from sdf.io.options import as_seconds
from sdf.io.tables.keys import IntegerKeys, KeyRange
from sdf.io.tables.table import ReadTable
from sdf.io.timestamps import Timestamp, as_timestamp, observed, watermark_of
from sdf.numbers import as_integer, is_integer

__all__ = ["TailTable"]

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1  # of the keys that databases have
_LEAST_PART_KEYS = 5000  # of a backlog, while it is not known how fast tasks read it


class TailTable(ReadTable):
    """Follows tables that rows are added to, in streams. Element: a name or a `TableQuery`. Gives rows as dicts.

    Position: a key. Keys must be distinct integers, each greater than all that became visible before it; a row that
    becomes visible later with a lower key is not read. Do not change or remove rows that a micro-batch has read: after
    a crash they may be read again, and must be the same.

    Args:
        url: URL of the database, as SQLAlchemy takes it, such as ``"postgresql+psycopg://user@host/name"``.
        key: name of a column of integers that has an index.
        after: read only rows with a greater key; None for all rows.
        poll_seconds: seconds to wait if nothing is new.
        fail_on_data_loss: whether it is an error if rows that a batch has read are gone when it comes again. False: go
            on with those that are there; the journal, the summary and a warning tell of it.
        timestamp: a function from a record to its time, such as seconds since the epoch. The highest so far is the
            watermark of a table: records should come in that order, and late ones are given all the same.
        chunk_rows: rows fetched at a time.
        options: as for `ReadTable`: ``columns``, ``with_position``, ``engine_options``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        SourceError: when it runs, if there is no such database, table or column, if the key is no integer, or if the
            database reports an error.
        ReadError: when it runs, if two rows have one key, or a value is not of its column's type, as SQLite allows.

    Source: the incrementing mode of Kafka Connect's JDBC source.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str,
        after: int | None = None,
        poll_seconds: float = 1.0,
        fail_on_data_loss: bool = True,
        timestamp: Timestamp | None = None,
        **options: Any,
    ) -> None:
        super().__init__(url, key=key, **options)
        self.after = as_integer(after)
        if after is not None and not is_integer(self.after):
            raise InvalidTypeError(f"TailTable after must be an integer, or None for all rows (got {show(after)}).")
        self.poll_seconds = as_seconds(poll_seconds, "TailTable poll_seconds")
        self.fail_on_data_loss = fail_on_data_loss
        self.timestamp = as_timestamp(timestamp, "TailTable timestamp")

    def get_initial_restriction(self, element: Any) -> OffsetRange:  # type: ignore[override]
        if not isinstance(super().get_initial_restriction(element), KeyRange):
            raise SourceError(f"TailTable: the key {self.key!r} of {show(element)} must be integers that grow.")
        return OffsetRange(_LOWEST if self.after is None else self.after + 1, UNBOUNDED)

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        return DoFn.create_tracker(self, element, restriction)

    def truncate(self, element: Any, restriction: OffsetRange) -> OffsetRange:
        """Keep the keys up to the greatest one that the table has now."""
        if restriction.stop is not UNBOUNDED:
            return restriction
        _, stop = self._there(element, restriction.start)
        return OffsetRange(restriction.start, stop)

    def split_backlog(
        self, element: Any, restriction: OffsetRange, parts: int, length: int | None
    ) -> list[OffsetRange]:
        """Cut the keys that the table has after those that were read, however many rows they have."""
        start, end = self._there(element, restriction.start)
        step = length or max(_LEAST_PART_KEYS, -(-(end - start) // parts))
        cuts = range(start, min(start + step * parts, end), step)[1:]
        return [OffsetRange(*ends) for ends in pairwise((restriction.start, *cuts, UNBOUNDED))]

    def _there(self, element: Any, start: int) -> tuple[int, int]:
        """Return the first key from ``start`` on, and the position after the last one; twice ``start`` for none."""
        if start > _HIGHEST:
            return start, start
        with self._reading(self._query_of(element)) as (connection, table):
            keys = cast(IntegerKeys, table.keys)  # others have no restriction
            ends = [connection.scalar(end.where(keys.order >= start)) for end in table.ends()]
        return (start, start) if None in ends else (keys.position(ends[0]), keys.position(ends[1]) + 1)

    def create_watermark_estimator(self, element: Any, restriction: Any) -> MonotonicWatermark | None:
        return watermark_of(self.timestamp)

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        yield from observed(self._process(element, tracker), tracker, self.timestamp)

    def _process(self, element: Any, tracker: Any) -> Iterator[Any]:
        query = self._query_of(element)
        start, stop = tracker.current_restriction()
        with self._reading(query) as (connection, table):
            self._check_keys(query, connection, table)  # again: such a row may be new, and no range would read it
            keys = cast(IntegerKeys, table.keys)  # others have no restriction
            condition = keys.within(start, _HIGHEST + 1 if stop is UNBOUNDED else stop)
            last = None
            for found, record in self._rows(query, connection, table, condition):
                key = keys.position(found)
                if key == last:
                    raise ReadError(
                        f"TailTable: {query} in {self.shown_url} has two rows with the key {self.key} = {key}. Choose "
                        f"a key that is unique."
                    )
                if not tracker.try_claim(key):
                    return
                last = key
                yield record
        if stop is UNBOUNDED:
            tracker.defer_remainder(self.poll_seconds)
        else:
            tracker.try_claim(stop)
