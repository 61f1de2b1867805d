"""ReadGroups: groups of pairs by key, where a key with very many pairs keeps all slots busy.

A part of the work is a range of row groups (`sdf.grouping.sorted_pairs`). A group belongs to the part in which it
begins, as a line does. So a whole group is read by one task, past the end of its part if need be. Only who says that
parts of a group will do gets them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from sdf import OffsetRange
from sdf.errors import InvalidTypeError, show
from sdf.grouping.sorted_pairs import Pairs
from sdf.io.connector import Connector

__all__ = ["ReadGroups"]


class ReadGroups(Connector):
    """Reads what `sdf.group_by_key` has grouped. Position: the number of a row group, of 50 to 20,000 pairs.

    Args:
        fn: called as ``fn(key, values)`` with an iterator of the values, in no particular order; gives
            ``(key, fn(key, values))``. It returns one result, and is no generator. None: gives ``(key, value)`` for
            each pair, and any part of a key may be split.
        parts: call ``fn`` with parts of a group: then a key with many values is split among slots, and has several
            results. Combine them: ``run_sdf(groups, ReadGroups(fn, parts=True)).reduceByKey(merge)``. False: ``fn``
            always gets all values of a key. The report names the keys that are too big for that.

    Raises:
        InvalidTypeError: for an option of the wrong type; when it runs, if ``fn`` returns an iterator.
        SourceError: when it runs, if the files of the groups are gone.
    """

    def __init__(self, fn: Callable[[Any, Iterator[Any]], Any] | None = None, *, parts: bool = False) -> None:
        if fn is not None and not callable(fn):
            raise InvalidTypeError(f"ReadGroups fn must be callable as fn(key, values), or None (got {show(fn)}).")
        if not isinstance(parts, bool):
            raise InvalidTypeError(f"ReadGroups parts must be True or False (got {show(parts)}).")
        self.fn = fn
        self.parts = parts

    def get_initial_restriction(self, element: Pairs) -> OffsetRange:
        if not isinstance(element, Pairs):
            raise InvalidTypeError(f"ReadGroups reads what group_by_key() returns (got {show(element)}).")
        return OffsetRange(0, element.row_groups)

    def remark(self, element: Pairs, restriction: Any) -> str | None:
        if self.fn is None or self.parts or not element.hot:
            return None
        hot = ", ".join(f"{show(group.key)} ({group.row_groups} row groups)" for group in element.hot)
        return f"one task reads all values of a key, here of {hot}; with parts=True they are split"

    def process(self, element: Pairs, tracker: Any) -> Iterator[Any]:
        with element.reader() as reader:
            if self.fn is None:
                for number in tracker.claims():
                    for key, value in reader.read(number):
                        yield key, pickle.loads(value)
            elif self.parts:
                for number in tracker.claims():
                    for key, pairs in groupby(reader.read(number), itemgetter(0)):
                        yield key, _result(self.fn, key, _values(pairs))
            else:
                yield from self._whole(self.fn, reader, element.row_groups, tracker)

    def _whole(self, fn: Callable[[Any, Iterator[Any]], Any], reader: Any, stop: int, tracker: Any) -> Iterator[Any]:
        """Give the groups that begin in the part."""
        start = tracker.current_restriction().start
        done = [reader.last_key(start - 1)] if start else []  # the key of the last group that has begun
        reached = start  # row groups before this one have no pairs of later keys
        for number in tracker.claims():
            if number < reached:
                continue
            pairs = reader.read(number)
            last = pairs[-1][0]
            for key, found in groupby(pairs, itemgetter(0)):
                if done == [key]:
                    continue
                rest = _Following(reader, key, number + 1, stop if key == last else 0)
                values = chain(_values(found), rest)
                yield key, _result(fn, key, values)
                for _ in values:  # those that fn has left: the group ends after them
                    pass
                done, reached = [key], max(reached, rest.reached)


class _Following:
    """The values of a key in the row groups that follow; ``reached`` is the first one that has other keys."""

    def __init__(self, reader: Any, key: Any, number: int, stop: int) -> None:
        self._reader, self._key, self._stop = reader, key, stop
        self.reached = number

    def __iter__(self) -> Iterator[Any]:
        while self.reached < self._stop:
            pairs = self._reader.read(self.reached)
            if pairs[0][0] != self._key:
                return
            for key, value in pairs:
                if key != self._key:
                    return
                yield pickle.loads(value)
            self.reached += 1


def _result(fn: Callable[[Any, Iterator[Any]], Any], key: Any, values: Iterator[Any]) -> Any:
    result = fn(key, values)
    if isinstance(result, Iterator):
        raise InvalidTypeError(
            f"ReadGroups fn must return one result for a key, such as a number or a list (got {show(result)} for key "
            f"{show(key)}): it would read its values when they are gone. Return list(...)."
        )
    return result


def _values(pairs: Any) -> Iterator[Any]:
    return (pickle.loads(value) for _, value in pairs)
