"""What stands out in how pieces ran: the straggler, the time in which no piece ran, slow starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from sdf.errors import show
from sdf.reporting.pieces import PieceRun, whole_seconds

__all__ = ["Idle", "SlowStart", "Straggler", "idle", "rows", "slow_starts", "straggler"]

_LONGER = 1.5  # times as long as an even share, or as the others: that stands out
_SLOW_SECONDS = 0.1  # as of a block
_MOST_CHARACTERS = 100


@attrs.frozen
class Straggler:
    """The element that would have held up the run if it had not been split.

    Attributes:
        element: the element.
        share: of the seconds of all elements, 0 to 1.
        parts: in how many it was run.
        only: whether there was no other element.
    """

    element: Any
    share: float
    parts: int
    only: bool

    def __str__(self) -> str:
        name = show(self.element, _MOST_CHARACTERS)
        share = "more than 99%" if self.share > 0.99 else f"{self.share:.0%}"
        took = "is the only element" if self.only else f"took {share} of the time"
        return f"{name} {took}; it was {f'split into {self.parts:,} parts' if self.parts > 1 else 'not split'}"


def straggler(pieces: Sequence[PieceRun], slots: int) -> Straggler | None:
    """Return the element that took longest, if it is a straggler, else None.

    It is one if it took at least half again as long as an even share of a slot, which is the seconds of all elements
    over the slots: with nobody to share it, its slot would have been the last by far. And it took at least half again
    as long as the others on average, or is the only element: ten files alike on twenty slots have no straggler. Nor has
    a run that no element held up for 0.1 s.
    """
    seconds = whole_seconds(pieces)
    if not seconds:
        return None
    element_id = max(seconds, key=lambda element_id: (seconds[element_id], -element_id))
    longest, total = seconds[element_id], sum(seconds.values())
    others = (total - longest) / max(1, len(seconds) - 1)
    if longest < max(_SLOW_SECONDS, _LONGER * total / slots, _LONGER * others):
        return None
    own = [piece for piece in pieces if piece.element_id == element_id]
    parts = sum(piece.restriction is not None for piece in own)
    return Straggler(own[0].element, longest / total, parts, len(seconds) == 1)


@attrs.frozen
class Idle:
    """For how long of a run no slot ran a piece, in seconds.

    A slot that has no piece while another one runs one waits for work that is not there, and no report knows why. So
    that is none of it.

    Attributes:
        before: the first piece.
        between: two pieces.
        after: the last piece.
    """

    before: float
    between: float
    after: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.before + self.between + self.after

    def __str__(self) -> str:
        return (
            f"{self.before:.2f} s before the first, {self.between:.2f} s between two, {self.after:.2f} s after the last"
        )


def idle(pieces: Iterable[PieceRun], *, began: float, seconds: float) -> Idle:
    """Return for how long no slot ran a piece.

    Args:
        pieces: of the run, at least one.
        began: when the run did, seconds since the epoch. Clocks of hosts differ: pieces that would lie before the run,
            or behind it, are taken to lie at its edge.
        seconds: how long it took. A run of `LiveRunner` stands still between two actions; that is not counted.
    """
    spans = sorted((piece.began, piece.began + piece.seconds) for piece in pieces)
    first = last = spans[0][0]
    busy = 0.0
    for start, end in spans:
        busy += max(0.0, end - max(start, last))
        last = max(last, end)
    left = max(0.0, seconds - busy)
    began = min(max(began, last - seconds), first)
    before = min(first - began, left)
    after = min(max(0.0, began + seconds - last), left - before)
    return Idle(before, left - before - after, after)


def rows(pieces: Iterable[PieceRun], workers: Sequence[str]) -> dict[int, int]:
    """Return the row of each task: that of its Python worker if that is free, else any that is, else a new one.

    A slot is held by one worker at a time, and Spark may replace it.
    """
    spans: dict[int, list[float]] = {}
    for piece in pieces:
        first, last = spans.get(piece.task, (piece.began, piece.began))
        spans[piece.task] = [min(first, piece.began), max(last, piece.began + piece.seconds)]
    row_of: dict[int, int] = {}
    of_worker: dict[str, int] = {}
    free: list[float] = []  # from when on each row is free
    for task in sorted(spans, key=lambda task: spans[task][0]):
        began, end = spans[task]
        worker = workers[task]
        row = of_worker.get(worker)
        if row is None or free[row] > began:
            row = next((row for row, at in enumerate(free) if at <= began), len(free))
        free[row:] = [end, *free[row + 1 :]]
        row_of[task] = of_worker[worker] = row
    return row_of


@attrs.frozen
class SlowStart:
    """An element whose pieces took long to get to their first claim.

    Attributes:
        element: the element.
        seconds: the longest of these starts, at least.
        times: how many of its pieces took 0.1 s or more.
        all_seconds: of these together.
    """

    element: Any
    seconds: float
    times: int
    all_seconds: float

    def __str__(self) -> str:
        again = f", {self.times:,} times, {self.all_seconds:.2f} s in all" if self.times > 1 else ""
        at_most = "up to " if self.times > 1 else ""
        return f"{at_most}{self.seconds:.2f} s before the first claim of {show(self.element, _MOST_CHARACTERS)}{again}"


def slow_starts(pieces: Iterable[PieceRun]) -> list[SlowStart]:
    """Return the elements that took 0.1 s or more to get to a first claim, those that took most for it first."""
    by_element: dict[int, list[PieceRun]] = {}
    for piece in pieces:
        if piece.opening_seconds >= _SLOW_SECONDS:
            by_element.setdefault(piece.element_id, []).append(piece)
    starts = []
    for slow in by_element.values():
        seconds = [piece.opening_seconds for piece in slow]
        starts.append(SlowStart(slow[0].element, max(seconds), len(seconds), sum(seconds)))
    return sorted(starts, key=lambda start: -start.all_seconds)
