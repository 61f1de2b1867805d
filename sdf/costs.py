"""What work costs: seconds per unit, learnt from what has run.

What was cut off from a work item lies right behind it, and dear work lies together: a hot range of keys, a page of
large records. So what waits costs as much per unit as the nearest before it that has shown its cost, and follows that
until it runs itself. It would not do to keep what was known at the cut: the front shows that it is a thousand times as
dear as was thought, and the rest would still wait behind all else.

The other way round a dear front makes the whole rest look dear, which nothing tells from a rest that is. So once an
estimate was found to be wrong, the planner plans for shorter times (`Costs.surprised`).

Sizes need not add up: each part of a range of keys, or of what has no size, is as large as the whole. If they counted
as much, a run would go on to cut a rest that is not there. So a part counts as its share of the whole (`counted`).

Of elements that have not begun the best guess is a straight line: seconds for each of them, and seconds for each of its
units. Either alone is wrong by far where it is the other that matters: the largest files, say, come first.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from sdf.items import ADDS_UP, Outcome, WorkItem, units

_WRONG = 3.0  # times as much or as little; below that it is noise
_LEAST_SHARE = 1e-12  # of a work item, that a piece counts as
_ALIKE = 0.1  # sizes that differ by less, relatively, say little about what a unit costs

__all__ = ["Costs"]


@attrs.define
class _Fronts:
    """What was cut off one after another from the front of ``rest``: how many, and the last that has shown its cost."""

    rest: int
    count: int = 0
    shown: int = 0


class _Line:
    """Seconds as a straight line over the units of a work item, fitted by least squares; the total is always met.

    What ran together is known only as a sum, of which the variance grows with the number: it weighs as much less. A
    piece of a work item is as large a share of one; so it counts as what the whole would have cost, weighed by that.
    """

    def __init__(self) -> None:
        self.items = self.seconds = 0.0
        self._largest = 0.0  # the units are counted in this, as squares of sizes may be more than floats can hold
        self._units = self._squares = self._products = 0.0  # but for the units: divided by the number

    def add(self, items: float, units: float, seconds: float) -> None:
        """Enter what ran together."""
        if units > self._largest:
            ratio = self._largest / units
            self._units, self._products = self._units * ratio, self._products * ratio
            self._squares *= ratio * ratio
            self._largest = units
        share = units / self._largest if units else 0.0
        self.items += items
        self.seconds += seconds
        self._units += share
        self._squares += share * share / items
        self._products += share * seconds / items

    def fit(self) -> tuple[float, float]:
        """Return the seconds per item and per unit; where sizes are alike, all of it is per unit."""
        if not self._units:
            return self.seconds / self.items, 0.0
        per_unit = self.seconds / self._units
        alike = _ALIKE * _ALIKE * self._units * self._units / self.items
        variance = self._squares - self._units * self._units / self.items
        covariance = self._products - self._units * self.seconds / self.items
        slope = (covariance + alike * per_unit) / (variance + alike)
        slope = min(max(slope, 0.0), per_unit)
        return max(0.0, self.seconds - slope * self._units) / self.items, slope / self._largest


class Costs:
    """What a unit of work costs in seconds.

    Attributes:
        revision: how often something that waits has got another estimate.
        surprised: whether a part of an element cost something else than was expected of it.
    """

    def __init__(self) -> None:
        self._line = _Line()
        self._fit: tuple[float, float] | None = None  # of it, once somebody has asked
        self._scales: dict[int, float] = {}  # what a unit of a work item counts, where that is not 1
        self._scale_behind: dict[int, float] = {}  # and one of what was cut off from it last
        self._wholes: dict[int, float] = {}  # of pieces: what that counted which was cut first
        self._rates: dict[int, float] = {}  # seconds per unit as counted, shown or expected
        self._behind: dict[int, int | None] = {}  # what lies right behind a work item, of what was cut off
        self._fronts_of: dict[int, _Fronts] = {}  # by what is left of it
        self._front: dict[int, tuple[_Fronts, int]] = {}  # by each of them, with its number
        self._shown: set[int] = set()
        self._waiting: set[int] = set()  # of what was cut off
        self.revision = 0
        self.surprised = False

    def observe(self, outcome: Outcome, wholes: Iterable[WorkItem] = ()) -> None:
        """Learn from what an attempt did; ``wholes`` are those of which it has not run all, as they were."""
        line, self._fit = self.fit(), None
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
                if ran.item_id in self._behind:
                    self._show(ran.item_id, done, ran.seconds, line)
            elif not done:
                continue  # all of it was given back
            whole = self._wholes.get(ran.item_id)
            share = min(max(done / whole, _LEAST_SHARE), 1.0) if whole and done else 1.0
            self._line.add(share, done, ran.seconds + beside)

    def _show(self, item_id: int, done: float, seconds: float, line: tuple[float, float] | None) -> None:
        """Learn what a work item cost in the end, and what therefore is to be expected of what waits behind it."""
        if done <= 0:
            return
        expected = self._rates.get(item_id)
        if expected is None and line is not None:
            expected = line[0] / done + line[1]
        rate = self._rates[item_id] = seconds / done
        if expected and not expected / _WRONG <= rate <= expected * _WRONG:
            self.surprised = True
        self._shown.add(item_id)
        behind = self._behind.get(item_id)
        self._follow(behind, rate)
        if item_id in self._front:
            fronts, number = self._front[item_id]
            if number > fronts.shown:
                fronts.shown = number
                if fronts.rest != behind:
                    self._follow(fronts.rest, rate)

    def _follow(self, behind: int | None, rate: float) -> None:
        """Let what waits from here on cost what was shown before it."""
        while behind is not None and behind in self._waiting:
            self._rates[behind] = rate
            self.revision += 1
            behind = self._behind[behind]

    def waits(self, item: WorkItem) -> None:
        """Note that nobody runs a work item; what lies before it may show what it will cost."""
        self._waiting.add(item.id)

    def taken(self, item: WorkItem) -> None:
        """Note that a work item does not wait any more: now what lies behind it follows what it will show."""
        self._waiting.discard(item.id)

    def learn(self, item_id: int, units_done: float, seconds: float) -> None:
        """Learn what a work item costs that still runs, or has run in part."""
        done = units_done * self._scale(item_id)
        if done > 0:
            self._rates[item_id] = seconds / done

    def inherit(self, item: WorkItem) -> None:
        """Let a work item that was just cut off from another cost what that one does, and follow it."""
        if item.parent is None or item.id in self._behind:
            return
        self._rescale(item.id, self._scale_behind.get(item.parent, self._scale(item.parent)))
        if item.parent in self._wholes:
            self._wholes[item.id] = self._wholes[item.parent]
        self._behind[item.id] = self._behind.get(item.parent)
        self._behind[item.parent] = item.id
        fronts = self._fronts_of.pop(item.parent, None) or _Fronts(item.id)
        fronts.rest, fronts.count = item.id, fronts.count + 1
        if item.parent in self._shown:
            fronts.shown = fronts.count
        self._fronts_of[item.id] = fronts
        self._front[item.parent] = fronts, fronts.count
        if item.parent in self._rates:
            self._rates[item.id] = self._rates[item.parent]

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

    def own(self, item: WorkItem) -> float | None:
        """Return the seconds per unit, as counted, that are known of this very work item, None if there are none."""
        return self._rates.get(item.id)

    def seconds_of(self, item: WorkItem) -> float:
        """Return the estimated seconds of a work item; as long as nothing is known, a unit counts as a second."""
        own, line = self.own(item), self.fit()
        if own is not None:
            return self.counted(item) * own
        return self.counted(item) if line is None else line[0] + line[1] * self.counted(item)
