"""The user: a DoFn whose elements say by their names how they give their blocks, and the ways in which blocks fail."""

import itertools
import pickle
from array import array

import attrs

from sdf import DoFn, OffsetRange, UnsplittableTracker
from sdf.execution.bulk.table import ROWS_OF_BLOB, Table
from sdf.execution.expansion import Expanded, expand
from sdf.execution.work import work_of
from sdf.model.offset_trackers import OffsetRangeTracker
from sdf.quarantine.failures import RAISED

KINDS = ("", "", "fast", "fast", "unsized", "parts", "whole", "defers", "refused", "later", "later defers", "dear")
KINDS += ("listed", "listed defers", "ahead", "hold 7", "untold", "untold defers")
DEAR_SECONDS = 0.2


class Untold(int):
    """An offset that no lane can tell the driver, as the restriction that it was given is made of plain ones."""


@attrs.frozen
class Dies:
    """An output that stands for the end of the process, or for its hang."""

    how: str


class BlocksFn(DoFn):
    """Element: (name, N). Gives (name, 0) ... (name, N - 1); the element's name may ask for other ways to do so.

    Args:
        random: of those that defer now and then before their first claim.
        bad: how each block fails that does.
        delay_seconds: how long what is deferred waits; ten times as long if it is refused before its first claim.
    """

    def __init__(self, random=None, bad=None, delay_seconds=0.05):
        self.random, self.bad, self.delay_seconds = random, bad or {}, delay_seconds
        self.refused = set()

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def split_restriction(self, element, restriction):
        if "parts" in element[0]:
            middle = (restriction.start + restriction.stop) // 2
            return [OffsetRange(restriction.start, middle), OffsetRange(middle, restriction.stop)]
        return [restriction]

    def restriction_size(self, element, restriction):
        return None if "unsized" in element[0] else super().restriction_size(element, restriction)

    def create_tracker(self, element, restriction):
        if "whole" in element[0]:
            return UnsplittableTracker(restriction)
        tracker = super().create_tracker(element, restriction)
        if "untold" in element[0]:
            split = tracker.try_split

            def try_split(fraction):
                pair = split(fraction)
                return pair and (pair[0], OffsetRange(Untold(pair[1].start), pair[1].stop))

            tracker.try_split = try_split
        return tracker

    def process(self, element, tracker):
        name = element[0]
        if "refused" in name and name not in self.refused:  # once; nothing tells so before
            self.refused.add(name)
            tracker.defer_remainder(10 * self.delay_seconds)
            return ()
        if "later" in name and self.random.random() < 0.5:
            tracker.defer_remainder(0.02)
            return ()
        positions = self.claims(name, tracker)
        if "listed" in name:
            positions = list(positions)
        elif "ahead" in name:
            positions = itertools.chain(list(itertools.islice(positions, 3)), positions)
        elif "hold" in name:
            positions = in_batches(positions, int(name.split("hold ")[1]))
        return (self.read(name, i) for i in positions)

    def claims(self, name, tracker):
        if "fast" in name or "hold" in name:
            yield from tracker.claims()
            return
        for i in range(*tracker.current_restriction()):
            if "defers" in name and i % 4 == 3 and tracker.current_restriction().start != i:
                tracker.defer_remainder(self.delay_seconds)
                return
            if not tracker.try_claim(i):
                return
            yield i

    def read(self, name, i):
        how = self.bad.get((name, i))
        if how == RAISED:
            raise ValueError(f"cannot read {i}")
        return (name, i) if how is None else Dies(how)


def in_batches(positions, size):
    """Claim so many positions before the first of them is read."""
    while held := list(itertools.islice(positions, size)):
        yield from held


def blocks_of(elements):
    """Return all blocks of elements, in order."""
    return [(name, i) for name, size in elements for i in range(size)]


def blocks_in(element, restriction):
    """Return the blocks in a part of an element, or in rows of a table."""
    if type(element) is not Table:
        return [(element[0], i) for i in range(restriction.start, restriction.stop)]
    rows = range(restriction.first, restriction.end)
    return [(element.element(row)[0], i) for row in rows for i in range(*element.range_of(row, restriction))]


def can_be_cut(name):
    """Return whether each block of an element can be cut out."""
    return "whole" not in name and "untold" not in name


def in_tables(fn, elements, most):
    """Expand elements; yield those that must be alone, and the others in tables of at most so many rows."""
    rows = []
    for element in elements:
        one = expand(fn, element)
        tracker = fn.create_tracker(element, one.restriction)
        plain = isinstance(tracker, OffsetRangeTracker) and "untold" not in element[0]
        if len(one.pieces) > 1 or one.pieces[0][1] is None or not plain:
            yield one
            continue
        rows.append(one)
        if len(rows) == most:
            yield table_of(fn, rows)
            rows = []
    if rows:
        yield table_of(fn, rows)


def table_of(fn, rows):
    """Return expanded elements as one table."""
    elements = [one.element for one in rows]
    blobs = (pickle.dumps(elements[at : at + ROWS_OF_BLOB]) for at in range(0, len(elements), ROWS_OF_BLOB))
    starts = array("q", [one.restriction.start for one in rows])
    stops = array("q", [one.restriction.stop for one in rows])
    table = Table(0, tuple(blobs), starts, stops, array("d", [one.pieces[0][1] for one in rows]))
    whole = table.whole()
    return Expanded(table, whole, ((whole, work_of(table, whole).size(fn)),))


def rows_in(expanded):
    """Return how many elements are in tables."""
    return sum(len(one.element) for one in expanded if type(one.element) is Table)
