"""What work costs: seconds per unit, learnt from what has run.

What was cut off from a work item lies right behind it, and dear work lies together: a hot range of keys, a page of
large records. So what waits costs as much per unit as the nearest before it that has shown its cost, and follows that
until it runs itself. It would not do to keep what was known at the cut: the front shows that it is a thousand times as
dear as was thought, and the rest would still wait behind all else.

The other way round a dear front makes the whole rest look dear, which nothing tells from a rest that is. So once an
estimate was found to be wrong, the planner plans for shorter times (`Costs.surprised`).
"""

from __future__ import annotations

import attrs

from sdf.items import Outcome, WorkItem, units

__all__ = ["Costs"]

_WRONG = 3.0  # times as much or as little; below that it is noise


@attrs.define
class _Fronts:
    """What was cut off one after another from the front of ``rest``: how many, and the last that has shown its cost."""

    rest: int
    count: int = 0
    shown: int = 0


class Costs:
    """What a unit of work costs in seconds.

    A work item that was cut off from another costs per unit what those before it did; for others the mean of all that
    has run is the best guess: per unit or per work item, whichever says more, since units of different elements may
    have nothing to do with each other. Units without a known size count as one.

    Attributes:
        revision: how often something that waits has got another estimate.
        surprised: whether a part of an element cost something else than was expected of it.
    """

    def __init__(self) -> None:
        self._units = 0.0
        self._seconds = 0.0
        self._items = 0
        self._rates: dict[int, float] = {}  # seconds per unit, shown or expected
        self._behind: dict[int, int | None] = {}  # what lies right behind a work item, of what was cut off
        self._fronts_of: dict[int, _Fronts] = {}  # by what is left of it
        self._front: dict[int, tuple[_Fronts, int]] = {}  # by each of them, with its number
        self._shown: set[int] = set()
        self._fixed: set[int] = set()  # whose rates do not follow
        self._waiting: set[int] = set()  # of what was cut off
        self.revision = 0
        self.surprised = False

    def observe(self, outcome: Outcome) -> None:
        """Learn from what an attempt did."""
        mean = self.mean()
        self._units += outcome.units
        self._seconds += outcome.seconds
        self._items += outcome.started
        cut = {part.item_id for part in outcome.parts}
        for part in outcome.parts:
            self._show(part.item_id, part.units, part.seconds, mean)
        for ran in outcome.ran:
            if ran.item_id in self._behind and ran.item_id not in cut:
                self._show(ran.item_id, ran.units, ran.seconds, mean)

    def _show(self, item_id: int, units_done: float, seconds: float, mean: float | None) -> None:
        """Learn what a work item cost in the end, and what therefore is to be expected of what waits behind it."""
        if units_done <= 0:
            return
        expected = self._rates.get(item_id, mean)
        self.learn(item_id, units_done, seconds)
        rate = self._rates[item_id]
        if expected and not expected / _WRONG <= rate <= expected * _WRONG:
            self.surprised = True
        self._shown.add(item_id)
        behind = self._behind.get(item_id)
        self._follow(behind, rate)
        if item_id in self._front and item_id not in self._fixed:
            fronts, number = self._front[item_id]
            if number > fronts.shown:
                fronts.shown = number
                if fronts.rest != behind:
                    self._follow(fronts.rest, rate)

    def _follow(self, behind: int | None, rate: float) -> None:
        """Let what waits from here on cost what was shown before it."""
        while behind is not None and behind in self._waiting and behind not in self._fixed:
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
        if units_done > 0:
            self._rates[item_id] = seconds / units_done

    def inherit(self, item: WorkItem) -> None:
        """Let a work item that was just cut off from another cost what that one does, and follow it."""
        if item.parent is None or item.id in self._behind:
            return
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
        """Let the two sides of a cut cost together what the whole was expected to.

        Where sizes add up they do already. Where a size is a share of the part itself, as of keys, each side would
        count as much as the whole, and pieces would be cut for ever that are as small as can be; nor does what a unit
        of one side costs tell about the other.
        """
        self.inherit(rest)
        if units(front) + units(rest) > 1.001 * units(whole) and (self.mean() is not None or self.own(whole)):
            seconds = self.seconds_of(whole)
            for side, share in ((front, fraction), (rest, 1 - fraction)):
                self._rates[side.id] = seconds * share / units(side) if units(side) else 0.0
                self._fixed.add(side.id)

    def mean(self) -> float | None:
        """Return seconds per unit over all that has run, None before anything has."""
        return self._seconds / self._units if self._units > 0 else None

    def mean_of_items(self) -> float:
        """Return seconds per work item over all that has run, 0 before anything has."""
        return self._seconds / self._items if self._items else 0.0

    def own(self, item: WorkItem) -> float | None:
        """Return the seconds per unit that are known of this very work item, None if there are none."""
        return self._rates.get(item.id)

    def seconds_of(self, item: WorkItem) -> float:
        """Return the estimated seconds of a work item; as long as nothing is known, a unit counts as a second."""
        own = self.own(item)
        if own is not None:
            return units(item) * own
        return max(units(item) * (self.mean() or 1.0), self.mean_of_items())
