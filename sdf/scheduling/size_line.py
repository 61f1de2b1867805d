"""What a work item costs by its size: a straight line, seconds per work item plus seconds per unit.

Only its size is known of an element that has not begun. Both terms matter: many small files cost the time to open
them, a few large ones the time to read them.
"""

from __future__ import annotations

__all__ = ["SizeLine"]

_ALIKE = 0.1  # a smaller relative spread of sizes says little of the cost per unit; ablate.py: "Pareto, 128 slots"


class SizeLine:
    """Seconds over units, fitted by least squares; the line always meets the total.

    Of work items that ran together only the sum is known. The variance of a sum grows with the number of its terms, so
    a sum of n work items has weight 1 / n. A piece enters as its share of one work item.

    Attributes:
        items: number of work items entered; a piece counts as a fraction.
        seconds: their total seconds.
    """

    def __init__(self) -> None:
        self.items = self.seconds = 0.0
        self._largest = 0.0  # the unit of the sums below: squares of sizes may overflow a float
        self._units = self._squares = self._products = 0.0  # sums; each square and product is divided by its items

    def add(self, items: float, units: float, seconds: float) -> None:
        """Enter work items that ran together: their number, total units and total seconds."""
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
        """Return the seconds per item and per unit; if all sizes are alike, the whole cost is per unit."""
        if not self._units:
            return self.seconds / self.items, 0.0
        per_unit = self.seconds / self._units
        alike = _ALIKE * _ALIKE * self._units * self._units / self.items
        variance = self._squares - self._units * self._units / self.items
        covariance = self._products - self._units * self.seconds / self.items
        slope = (covariance + alike * per_unit) / (variance + alike)
        slope = min(max(slope, 0.0), per_unit)
        return max(0.0, self.seconds - slope * self._units) / self.items, slope / self._largest
