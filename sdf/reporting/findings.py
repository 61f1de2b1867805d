"""What stands out in how pieces ran: the straggler, the time in which no piece ran, slow starts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from sdf.errors import show
from sdf.reporting.causes import MUCH_WORK, ONE_EACH, cause_of
from sdf.reporting.pieces import PieceRun, counts, pieces_by_element, whole_seconds

__all__ = [
    "Barren",
    "Idle",
    "SlowStart",
    "Straggler",
    "barren",
    "blocks_of",
    "idle",
    "rows",
    "slow_starts",
    "straggler",
]

_LONGER = 1.5  # a straggler takes this many times an even share, and the mean of the others
_SLOW_SECONDS = 0.1  # the same as for a slow block
_MOST_CHARACTERS = 100


@attrs.frozen
class Straggler:
    """The element that would have held up the run if it had not been split.

    Attributes:
        element: the element.
        share: its share of the seconds of all elements, 0 to 1.
        parts: the number of parts in which it ran.
        only: whether it was the only element.
        cause: why, in a few words (`sdf.reporting.causes.cause_of`).
    """

    element: Any
    share: float
    parts: int
    only: bool
    cause: str = MUCH_WORK

    def __str__(self) -> str:
        name = show(self.element, _MOST_CHARACTERS)
        share = "more than 99%" if self.share > 0.99 else f"{self.share:.0%}"
        took = "is the only element" if self.only else f"took {share} of the time"
        parts = f"split into {self.parts:,} parts" if self.parts > 1 else "not split"
        return f"{name} {took}; it was {parts}; cause: {self.cause}"


def blocks_of(pieces: Iterable[PieceRun], slow_blocks: Iterable[tuple[Any, str, float]]) -> dict[int, list[float]]:
    """Return the seconds of ``slow_blocks`` by the number of their element; these are the objects that pieces have."""
    seconds_of: dict[int, list[float]] = {}
    for element, _, seconds in slow_blocks:
        seconds_of.setdefault(id(element), []).append(seconds)
    return {piece.element_id: seconds_of[id(piece.element)] for piece in pieces if id(piece.element) in seconds_of}


def straggler(
    pieces: Sequence[PieceRun],
    slots: int,
    *,
    slow_blocks: Mapping[int, Sequence[float]] | None = None,
    slow_tasks: frozenset[int] = frozenset(),
    hosts: Sequence[Hashable] = ONE_EACH,
) -> Straggler | None:
    """Return the element that took longest, if it is a straggler, else None.

    A straggler takes at least 1.5 times an even share of a slot, which is (seconds of all elements) / slots: unsplit,
    its slot would have ended last by far. It also takes at least 1.5 times the mean of the other elements, so ten equal
    files on twenty slots have no straggler. And it takes at least 0.1 s.

    Args:
        pieces: how work items ran.
        slots: the number of slots.
        slow_blocks: by element, the seconds of each of its slowest blocks, where these are known.
        slow_tasks: the tasks that ran on slow hosts.
        hosts: the host of each task (`sdf.reporting.causes.hosts_of`).
    """
    seconds = whole_seconds(pieces)
    if not seconds:
        return None
    number = counts(pieces)
    element_id = max(seconds, key=lambda element_id: (seconds[element_id] / number[element_id], -element_id))
    longest, total = seconds[element_id] / number[element_id], sum(seconds.values())
    others = (total - longest) / max(1, sum(number.values()) - 1)
    if longest < max(_SLOW_SECONDS, _LONGER * total / slots, _LONGER * others):
        return None
    own = [piece for piece in pieces if piece.element_id == element_id]
    parts = sum(piece.restriction is not None for piece in own)
    cause = cause_of(
        own,
        [piece for piece in pieces if piece.element_id != element_id],
        even_seconds=total / slots,
        longest_block=max((slow_blocks or {}).get(element_id, ()), default=0.0),
        slow_tasks=slow_tasks,
        hosts=hosts,
    )
    return Straggler(own[0].element, longest / total, parts, len(seconds) == 1, cause)


@attrs.frozen
class Idle:
    """The seconds of a run in which no slot ran a piece.

    A slot that is idle while another slot runs a piece does not count: it waits for work that does not exist, and the
    report cannot know why.

    Attributes:
        before: idle seconds before the first piece.
        between: idle seconds between two pieces.
        after: idle seconds after the last piece.
    """

    before: float
    between: float
    after: float

    @property
    def seconds(self) -> float:
        """All idle seconds."""
        return self.before + self.between + self.after

    def __str__(self) -> str:
        return (
            f"{self.before:.2f} s before the first, {self.between:.2f} s between two, {self.after:.2f} s after the last"
        )


def idle(pieces: Iterable[PieceRun], *, began: float, seconds: float) -> Idle:
    """Return how long no slot ran a piece.

    Args:
        pieces: the pieces of the run, at least one.
        began: when the run began, seconds since the epoch. Clocks of hosts differ, so ``began`` is moved where pieces
            would lie outside of the run.
        seconds: how long the run took. The time between two actions of a `LiveRunner` is not counted.
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
    """Return the row of each task: the last row of its Python worker if free, else any free row, else a new one.

    A row stands for a slot. One worker holds a slot at a time, and Spark may replace the worker.
    """
    spans: dict[int, list[float]] = {}
    for piece in pieces:
        first, last = spans.get(piece.task, (piece.began, piece.began))
        spans[piece.task] = [min(first, piece.began), max(last, piece.began + piece.seconds)]
    row_of: dict[int, int] = {}
    of_worker: dict[str, int] = {}
    free: list[float] = []  # per row, the time from which it is free
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
    """An element whose pieces took long to reach their first claim. All seconds are lower bounds.

    Attributes:
        element: the element.
        seconds: the seconds of the slowest start.
        times: how many of its pieces took 0.1 s or more to start.
        all_seconds: the seconds of these starts, added up.
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
    """Return the elements with a piece that took 0.1 s or more to its first claim, the longest total first."""
    starts = []
    for slow in pieces_by_element(piece for piece in pieces if piece.opening_seconds >= _SLOW_SECONDS).values():
        seconds = [piece.opening_seconds for piece in slow]
        starts.append(SlowStart(slow[0].element, max(seconds), len(seconds), sum(seconds)))
    return sorted(starts, key=lambda start: -start.all_seconds)


@attrs.frozen
class Barren:
    """Elements that had work, and gave no record: the wrong file, or an option that fits nothing in it.

    Attributes:
        elements: how many.
        of: how many elements had work.
        example: the first of them.
    """

    elements: int
    of: int
    example: Any

    def __str__(self) -> str:
        return f"{self.elements:,} of {self.of:,}, such as {show(self.example, _MOST_CHARACTERS)}"


def barren(pieces: Iterable[PieceRun]) -> Barren | None:
    """Return how many elements gave no record of their work; None if each gave one. Those in bulk count together."""
    worked = [of for of in pieces_by_element(pieces).values() if any(piece.units > 0 for piece in of)]
    without = [of for of in worked if not any(piece.records for piece in of)]
    if not without:
        return None
    return Barren(sum(map(_elements, without)), sum(map(_elements, worked)), without[0][0].element)


def _elements(pieces: Iterable[PieceRun]) -> int:
    return max(piece.elements for piece in pieces)
