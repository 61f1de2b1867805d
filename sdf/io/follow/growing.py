"""GrowingTracker: what the trackers of sources that grow have in common.

A claim says what remains after it: only `process` has seen how much there is. So a split gives away just that.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import attrs

from sdf import UNBOUNDED, RestrictionTracker
from sdf.errors import show

__all__ = ["GrowingTracker"]


class GrowingTracker(RestrictionTracker):
    """Base of trackers of restrictions with ``start``, ``stop`` and perhaps ``ended``.

    A subclass defines `try_claim`, which sets ``_next`` to what remains after the claim. A split must have fraction 0.

    Attributes:
        _unread: says what was not read, from a start of a restriction.
        _spent: the attributes that a restriction does not need when it is cut off after the last claim.
    """

    _unread: ClassVar[str]
    _spent: ClassVar[dict[str, Any]] = {}

    def __init__(self, part: Any) -> None:
        self._part = part
        self._next = part
        self._refused = False

    def current_restriction(self) -> Any:
        return self._part

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[Any, Any] | None:
        if self._refused or fraction_of_remainder != 0 or not self._next.start < self._part.stop:
            return None
        return self._cut_off(self._residual())

    def _residual(self) -> Any:
        """Return what a split gives away."""
        return self._next

    def _cut_off(self, residual: Any) -> tuple[Any, Any]:
        """Give away a residual; return the parts."""
        self._part = attrs.evolve(self._part, stop=residual.start, **self._spent)
        return self._part, residual

    def check_done(self) -> None:
        if not self._refused and not self._has_ended and self._next.start < self._part.stop:
            raise ValueError(self._unread.format(self._next.start, show(self._part)))

    def is_bounded(self) -> bool:
        return self._has_ended or self._part.stop is not UNBOUNDED

    @property
    def _has_ended(self) -> bool:
        return getattr(self._part, "ended", False)
