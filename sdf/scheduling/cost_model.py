"""Estimates what work will cost, from what has run.

- An element that has not begun is priced by its size (`SizeLine`).
- A piece that was cut off is priced at the rate of the work item it was cut from (`LineageRates`).

Sizes may not add up: each part of a key range, or of a restriction without a size, may be as large as the whole. Such a
part counts as its share of the whole. Otherwise each piece would look as large as the whole, and splitting would never
end.

An expensive front makes its residual look expensive too, whether it is or not. So once an estimate was wrong
(`CostModel.surprised`), the planner gives tasks less time.
"""

from __future__ import annotations

from collections.abc import Iterable

from sdf.execution.work_items import ADDS_UP, Outcome, WorkItem, units
from sdf.scheduling.lineage_rates import LineageRates
from sdf.scheduling.size_line import SizeLine

_WRONG_FACTOR = (
    3.0  # times too high or too low; benchmarks/ablate.py: "files, 60 s", "4,000 elements, twenty dear, 20 s"
)
_LEAST_SHARE = 1e-12  # of a work item: a piece counts as no less

__all__ = ["CostModel"]


class CostModel:
    """What work items are expected to cost, in seconds.

    Attributes:
        rates: seconds per unit of work items that were cut off or have run.
        opening_seconds: what a work item takes to reach its first claim, from those that ran last; 0 before any.
        surprised: whether an estimate was wrong by more than `_WRONG_FACTOR` times.
    """

    def __init__(self) -> None:
        self.rates = LineageRates()
        self._line = SizeLine()
        self._fit: tuple[float, float] | None = None  # of _line; None if it is to be computed anew
        self._scales: dict[int, float] = {}  # by work item: what a unit of its size counts as, if not 1
        self._residual_scales: dict[int, float] = {}  # the same for its latest residuals
        self._whole_units: dict[int, float] = {}  # by piece: the counted units of the work item before its first cut
        self.opening_seconds = 0.0
        self.surprised = False

    def observe(self, outcome: Outcome, wholes: Iterable[WorkItem] = (), *, gave_back: bool = False) -> None:
        """Learn from what an attempt did.

        Args:
            outcome: what the attempt did.
            wholes: the work items that the attempt ran only in part, as they were handed out.
            gave_back: whether it gave back work items that it had not started. Then its last work item is compared with
                its estimate: the work items behind an expensive one may be as expensive.
        """
        line, self._fit = self.fit(), None
        if gave_back and line is not None and outcome.ran:
            last = outcome.ran[-1]
            self.surprised |= last.seconds > _WRONG_FACTOR * (line[0] * last.elements + line[1] * last.units)
        for item in wholes:
            self._note_whole(item)
        elements = {ran.item_id: ran.elements for ran in outcome.ran if ran.row < 0}
        parts: dict[int, float] = {}  # by work item that ran in part: the counted units that ran
        for part in outcome.parts:
            scale = self._scale(part.item_id)
            parts[part.item_id] = scale * part.units
            self._residual_scales[part.item_id] = scale * part.scale
            self._measured(part.item_id, scale * part.units, part.seconds, line, elements.get(part.item_id, 1))
        if not outcome.ran:
            items = outcome.started - sum(not done for done in parts.values())
            if items > 0:
                self._line.add(items, outcome.units, outcome.seconds)
            return
        overhead_seconds = (outcome.seconds - sum(ran.seconds for ran in outcome.ran)) / len(outcome.ran)
        for ran in outcome.ran:
            self.opening_seconds = (self.opening_seconds + ran.opening_seconds) / 2
            if ran.row >= 0:
                self._line.add(1, ran.units, ran.seconds)
                continue
            done = parts.get(ran.item_id)
            if done is None:
                done = ran.units * self._scale(ran.item_id)
                if self.rates.was_cut(ran.item_id):
                    self._measured(ran.item_id, done, ran.seconds, line, ran.elements)
            elif not done:
                continue  # all of it was given back
            whole = self._whole_units.get(ran.item_id)
            share = min(max(done / whole, _LEAST_SHARE), 1.0) if whole and done else 1.0
            self._line.add(share * ran.elements, done, ran.seconds + overhead_seconds)

    def _note_whole(self, item: WorkItem) -> None:
        """Note what a work item counts as before its first cut; rows of a table count as so many work items each."""
        if not item.is_rows:
            self._whole_units.setdefault(item.id, self.counted(item))

    def _measured(
        self, item_id: int, done: float, seconds: float, line: tuple[float, float] | None, elements: int
    ) -> None:
        """Enter what a work item cost that has ended, and compare it with its estimate."""
        if done <= 0:
            return
        expected, rate = self.rates.rate(item_id), seconds / done
        if expected is None and line is not None:
            expected = line[0] * elements / done + line[1]
        if expected and not expected / _WRONG_FACTOR <= rate <= expected * _WRONG_FACTOR:
            self.surprised = True
        self.rates.set_measured(item_id, rate)

    def learn(self, item_id: int, units_done: float, seconds: float) -> None:
        """Set the rate of a work item that still runs, or has run in part."""
        done = units_done * self._scale(item_id)
        if done > 0:
            self.rates.set_running(item_id, seconds / done)

    def inherit(self, item: WorkItem) -> None:
        """Price a work item that was just cut off at its parent's rate; it follows that rate while it is queued."""
        if item.parent is None or self.rates.was_cut(item.id):
            return
        self._rescale(item.id, self._residual_scales.get(item.parent, self._scale(item.parent)))
        if item.parent in self._whole_units:
            self._whole_units[item.id] = self._whole_units[item.parent]
        self.rates.cut_off(item)

    def cut(self, whole: WorkItem, fraction: float, front: WorkItem, rest: WorkItem) -> None:
        """Enter a planner's cut: the two sides count together as much as the whole. ``front`` has the whole's id."""
        counted = self.counted(whole)
        self._note_whole(whole)
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
        """Return the units that a work item counts as: its size, or its share of its whole if sizes do not add up."""
        return units(item) * self._scale(item.id)

    def known(self) -> bool:
        """Return whether anything has run."""
        return self._line.items > 0

    def fit(self) -> tuple[float, float] | None:
        """Return the seconds per work item and per unit that fit all past runs best, None before the first one."""
        if self._fit is None and self.known():
            self._fit = self._line.fit()
        return self._fit

    def mean_of_items(self) -> float:
        """Return the mean seconds per work item, or row of a table, that has run; 0 before the first one."""
        return self._line.seconds / self._line.items if self._line.items else 0.0

    def seconds_of(self, item: WorkItem) -> float:
        """Return the estimated seconds of a work item; before anything has run, a unit counts as a second."""
        own, line = self.rates.rate(item.id), self.fit()
        if own is not None:
            return self.counted(item) * own
        return self.counted(item) if line is None else line[0] * item.elements + line[1] * self.counted(item)
