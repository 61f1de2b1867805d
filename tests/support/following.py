"""Runs what follows something that grows, as the batches of a stream do."""

from pathlib import Path

from sdf import UNBOUNDED, DoFn, OffsetRange
from sdf.execution.invoker import Invoker


class Following:
    """Asks a DoFn for what is new, again and again.

    Attributes:
        left: what is still to do, None if nothing is.
        delay_seconds: how long it asked to wait.
        pins: the parts that were read, each with what it gave.
    """

    def __init__(self, fn, element, left=None):
        self.fn, self.element = fn, element
        self.left = fn.get_initial_restriction(element) if left is None else left
        self.delay_seconds = None
        self.pins = []

    def attempt(self):
        return Invoker(self.fn, self.element, self.left)

    def read(self):
        attempt = self.attempt()
        found = list(attempt.run())
        self.left, self.delay_seconds = None, None
        if attempt.residuals:
            (residual,) = attempt.residuals
            self.left, self.delay_seconds = residual.restriction, residual.delay_seconds
        if attempt.primary is not None:
            self.pins.append((attempt.primary, found))
        return found

    def read_divided(self, parts, length=None):
        """Read as tasks do that have a part each; return what each gives. All but the last read theirs to its end."""
        cut = self.fn.split_backlog(self.element, self.left, parts, length)
        given = []
        for number, part in enumerate(cut):
            self.left = part
            given.append(self.read())
            if number + 1 < len(cut):
                assert self.delay_seconds in (None, 0)
                assert self.left is None or self.left.start == cut[number + 1].start
        return given

    def again(self):
        """Check that each pinned part gives what it gave before."""
        for pinned, found in self.pins:
            attempt = Invoker(self.fn, self.element, pinned)
            assert list(attempt.run()) == found
            assert attempt.residuals == []


class GrowingFn(DoFn):
    """Element: the path of a file of words that grows. Gives the new words, then defers.

    Args:
        delay_seconds: seconds after which it looks again.
        as_rows: whether words are rows of a table with the column ``word``.
    """

    def __init__(self, delay_seconds=0.2, *, as_rows=False):
        self.delay_seconds, self.as_rows = delay_seconds, as_rows

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNBOUNDED)

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        there = Path(element).read_text().split()
        for i in range(start, len(there) if stop is UNBOUNDED else stop):
            if not tracker.try_claim(i):
                return
            yield {"word": there[i]} if self.as_rows else there[i]
        if stop is UNBOUNDED:
            tracker.defer_remainder(self.delay_seconds)
