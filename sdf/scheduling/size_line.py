"""What a work item costs by its size: a straight line, seconds per work item plus seconds per unit.

It is what is known of elements that have not begun. Either term alone is wrong by far where the other matters: many
files cost what opening them costs, a few large ones what reading them costs.
"""

from __future__ import annotations

__all__ = ["SizeLine"]

_ALIKE = 0.1  # sizes that differ less, relatively, tell little of the cost of a unit; ablate.py: "Pareto, 128 slots"


class SizeLine:
    """Seconds over units, fitted by least squares; the line always meets the total.

    What ran together is known only as a sum. The variance of a sum grows with the number of its terms, so it weighs as
    much less. A piece of a work item enters as that share of one.

    Attributes:
        items: how many work items were entered.
        seconds: what they took together.
    """

    def __init__(self) -> None:
        self.items = self.seconds = 0.0
        self._largest = 0.0  # units are counted in this: squares of sizes may be more than floats can hold
        self._units = self._squares = self._products = 0.0  # all but the units: divided by the number of items

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
