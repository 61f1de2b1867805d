"""What work is expected to cost, learnt from what has run.

- An element that has not begun: by its size (`SizeLine`).
- What was cut off from a work item: at the rate of what it was cut from (`LineageRates`).

Sizes need not add up: each part of a range of keys, or of what has no size, is as large as the whole. Then a part
counts as its share of the whole. Otherwise a piece would look as large as what it was cut from, and splitting would
never end.

A dear front makes the whole rest look dear, and nothing tells that from a rest that is dear. So once an estimate was
wrong, `CostModel.surprised` has the planner plan for shorter times.
"""

from __future__ import annotations

from collections.abc import Iterable

from sdf.execution.work_items import ADDS_UP, Outcome, WorkItem, units
from sdf.scheduling.lineage_rates import LineageRates
from sdf.scheduling.size_line import SizeLine

_WRONG = 3.0  # times as much or as little; benchmarks/ablate.py: "files, 60 s", "4,000 elements, twenty dear, 20 s"
_LEAST_SHARE = 1e-12  # of a work item, that a piece counts as

__all__ = ["CostModel"]


class CostModel:
    """What work items are expected to cost, in seconds.

    Attributes:
        rates: of what was cut off.
        surprised: whether a part of an element cost something else than was expected of it.
    """

    def __init__(self) -> None:
        self.rates = LineageRates()
        self._line = SizeLine()
        self._fit: tuple[float, float] | None = None  # of it, once somebody has asked
        self._scales: dict[int, float] = {}  # what a unit of a work item counts, where that is not 1
        self._scale_behind: dict[int, float] = {}  # and a unit of what was cut off from it last
        self._wholes: dict[int, float] = {}  # of pieces: what that counted which was cut first
        self.surprised = False

    def observe(self, outcome: Outcome, wholes: Iterable[WorkItem] = (), *, gave_back: bool = False) -> None:
        """Learn from what an attempt did.

        Args:
            outcome: what it did.
            wholes: the work items of which it has not run all, as they were.
            gave_back: whether it gave back work items that it had not started: those behind a dear one may be as dear.
        """
        line, self._fit = self.fit(), None
        if gave_back and line is not None and outcome.ran:
            last = outcome.ran[-1]
            self.surprised |= last.seconds > _WRONG * (line[0] + line[1] * last.units)
        for item in wholes:
            self._wholes.setdefault(item.id, self.counted(item))
        parts: dict[int, float] = {}  # how much each of them is, as counted
        for part in outcome.parts:
            scale = self._scale(part.item_id)
            parts[part.item_id] = scale * part.units
            self._scale_behind[part.item_id] = scale * part.scale
            self._show(part.item_id, scale * part.units, part.seconds, line)
        if not outcome.ran:
            items = outcome.started - sum(not done for done in parts.values())
            if items > 0:
                self._line.add(items, outcome.units, outcome.seconds)
            return
        beside = (outcome.seconds - sum(ran.seconds for ran in outcome.ran)) / len(outcome.ran)
        for ran in outcome.ran:
            done = parts.get(ran.item_id)
            if done is None:
                done = ran.units * self._scale(ran.item_id)
                if self.rates.was_cut(ran.item_id):
                    self._show(ran.item_id, done, ran.seconds, line)
            elif not done:
                continue  # all of it was given back
            whole = self._wholes.get(ran.item_id)
            share = min(max(done / whole, _LEAST_SHARE), 1.0) if whole and done else 1.0
            self._line.add(share, done, ran.seconds + beside)

    def _show(self, item_id: int, done: float, seconds: float, line: tuple[float, float] | None) -> None:
        """Learn what a work item cost in the end."""
        if done <= 0:
            return
        expected, rate = self.rates.rate(item_id), seconds / done
        if expected is None and line is not None:
            expected = line[0] / done + line[1]
        if expected and not expected / _WRONG <= rate <= expected * _WRONG:
            self.surprised = True
        self.rates.show(item_id, rate)

    def learn(self, item_id: int, units_done: float, seconds: float) -> None:
        """Learn what a work item costs that still runs, or has run in part."""
        done = units_done * self._scale(item_id)
        if done > 0:
            self.rates.learn(item_id, seconds / done)

    def inherit(self, item: WorkItem) -> None:
        """Let a work item that was just cut off from another cost what that one does, and follow it."""
        if item.parent is None or self.rates.was_cut(item.id):
            return
        self._rescale(item.id, self._scale_behind.get(item.parent, self._scale(item.parent)))
        if item.parent in self._wholes:
            self._wholes[item.id] = self._wholes[item.parent]
        self.rates.cut_off(item)

    def cut(self, whole: WorkItem, fraction: float, front: WorkItem, rest: WorkItem) -> None:
        """Let the two sides of a cut, of which one has the id of the whole, count together what that did."""
        counted = self.counted(whole)
        self._wholes.setdefault(whole.id, counted)
        self.inherit(rest)
        if units(front) + units(rest) > ADDS_UP * units(whole):
            for side, share in ((front, fraction), (rest, 1 - fraction)):
                self._rescale(side.id, counted * share / units(side) if units(side) else 1.0)

    def _scale(self, item_id: int) -> float:
        return self._scales.get(item_id, 1.0)

    def _rescale(self, item_id: int, scale: float) -> None:
        self._scales.pop(item_id, None)
        if scale != 1.0:
            self._scales[item_id] = scale

    def counted(self, item: WorkItem) -> float:
        """Return the units that a work item counts as: its size, or its share of what it was cut off from."""
        return units(item) * self._scale(item.id)

    def known(self) -> bool:
        """Tell whether anything has run."""
        return self._line.items > 0

    def fit(self) -> tuple[float, float] | None:
        """Return the seconds per work item and per unit that fit best what has run, None before anything has."""
        if self._fit is None and self.known():
            self._fit = self._line.fit()
        return self._fit

    def mean_of_items(self) -> float:
        """Return seconds per work item over all that has run, 0 before anything has."""
        return self._line.seconds / self._line.items if self._line.items else 0.0

    def seconds_of(self, item: WorkItem) -> float:
        """Return the estimated seconds of a work item; as long as nothing is known, a unit counts as a second."""
        own, line = self.rates.rate(item.id), self.fit()
        if own is not None:
            return self.counted(item) * own
        return self.counted(item) if line is None else line[0] + line[1] * self.counted(item)
