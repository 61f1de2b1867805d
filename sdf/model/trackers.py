"""The tracker interface: which part of a restriction one attempt has claimed, and where it may still be split.

A tracker lives for one attempt at one work item and stays in one process; restrictions travel between processes. The
built-in trackers are thread-safe: `process` claims in one thread while the runner splits and asks for progress in
another. A user's own tracker needs no lock: the runner adds one.

Source: RestrictionTracker of Apache Beam's Java and Python SDKs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import attrs

from sdf.errors import DeferError, InvalidValueError, SplitError, show
from sdf.model.claims import claims_of
from sdf.numbers import as_number, is_number

__all__ = ["Progress", "RestrictionTracker", "as_delay", "as_fraction", "as_pair", "deferred", "refused_defer"]


@attrs.frozen
class Progress:
    """Work done and work left of a restriction, in the same unit, both >= 0; ``remaining`` is None if unknown."""

    completed: float
    remaining: float | None


class RestrictionTracker(ABC):
    """The interface of every tracker; subclass it for a restriction of your own.

    Four methods are required. No call to ``super().__init__()`` and no lock is needed. Runners serialise the calls, and
    check that the two parts that `try_split` returns tile the restriction.
    """

    @abstractmethod
    def current_restriction(self) -> Any:
        """Return the restriction that this attempt owns now; a split makes it smaller."""

    @abstractmethod
    def try_claim(self, position: Any) -> bool:
        """Claim the block at ``position``. False: it belongs to someone else, return from `process`.

        Called by `process`, once per block, with increasing positions, from one thread at a time. An output belongs to
        the last claimed block, so claims must not run ahead of outputs: to fetch blocks concurrently, claim several of
        them as one.
        """

    @abstractmethod
    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[Any, Any] | None:
        """Cut off the end of the unclaimed work and return (primary, residual), or None if no split is possible now.

        Called by the runner. The primary becomes the current restriction. 0 means: keep only what is already claimed.

        Args:
            fraction_of_remainder: the share of the remaining work that the primary keeps, 0 to 1.
        """

    @abstractmethod
    def check_done(self) -> None:
        """Raise unless all of the current restriction was claimed. Called after `process` has returned."""

    def claims(
        self, blocks: Iterable[Any] | None = None, *, position: Callable[[Any], Any] | None = None
    ) -> Iterator[Any]:
        """Iterate over the work of this attempt, each block claimed as it is delivered; stop where the rest is others'.

        Called by `process`, instead of `try_claim`, once, before any other claim::

            for i in tracker.claims():                                       # the positions of an offset range
                yield element, i
            for line in tracker.claims(lines, position=lambda line: line.offset):
                yield line

        Args:
            blocks: the blocks, in the order of their positions, from the start of the restriction. When they have
                ended, the end of the input is claimed as well; not if the restriction has no end at this call, as
                only `process` knows whether more will come: it defers then. None: the positions of an offset range
                themselves, at the cost of a plain ``range``.
            position: returns the position of a block; None if the blocks are positions.

        Raises:
            InvalidTypeError, InvalidValueError: if blocks are missing or wrong.
            ClaimError: as `try_claim`; and for any other claim while this is in use.
        """
        return claims_of(self.try_claim, self.current_restriction, blocks, position, self._closing)

    def _closing(self) -> Any:
        """Return the position to claim at the end of the input; None if there is none."""
        return None

    def progress(self) -> Progress:
        """Return the work done and the work left; the default knows neither."""
        return Progress(0, None)

    def is_bounded(self) -> bool:
        """Return whether the work of the current restriction has an end."""
        return True

    def defer_remainder(self, delay_seconds: float = 0) -> Any:
        """Give back all unclaimed work, to be run later; then return from `process`.

        Also legal before any claim ("nothing there yet"): then all of the restriction is deferred.

        Args:
            delay_seconds: the seconds before it may be resumed, a finite number >= 0.

        Returns:
            The residual, or None if nothing was left to defer. (Inside `process` the runner keeps it.)

        Raises:
            DeferError: if the tracker cannot split although work remains, or after a refused claim.
        """
        as_delay(delay_seconds)
        return deferred(self)


def deferred(tracker: Any) -> Any:
    """Cut off and return all unclaimed work, or None if nothing is left; see `defer_remainder`."""
    if getattr(tracker, "refused", False):
        raise refused_defer(tracker.current_restriction())
    pair = as_pair(tracker.try_split(0))
    if pair is not None:
        return pair[1]
    try:
        tracker.check_done()
    except Exception as error:
        raise DeferError(
            f"defer_remainder(): {type(tracker).__name__}.try_split(0) gave None although work remains in "
            f"{show(tracker.current_restriction())}. Let it split at 0, or claim to the end."
        ) from error
    return None


def refused_defer(restriction: Any) -> DeferError:
    """Return the error for deferring after a refused claim."""
    return DeferError(
        f"defer_remainder() after a refused claim in {show(restriction)}: nothing is left to defer. Return from "
        f"process() as soon as try_claim() is False."
    )


def as_delay(delay_seconds: Any) -> float:
    """Return a delay in seconds; raise InvalidValueError unless it is a finite number >= 0."""
    number = as_number(delay_seconds)
    if not is_number(number) or not 0 <= number < math.inf:
        raise InvalidValueError(f"defer_remainder() delay_seconds must be finite and >= 0 (got {show(delay_seconds)}).")
    return number  # type: ignore[no-any-return]


def as_pair(split: Any) -> tuple[Any, Any] | None:
    """Return the result of a tracker's `try_split`.

    Raises:
        SplitError: if it is neither a pair nor None.
    """
    if split is None or (isinstance(split, tuple) and len(split) == 2):
        return split
    raise SplitError(f"try_split() must return (primary, residual) or None (got {show(split)})")


def as_fraction(fraction: float | Fraction) -> Fraction:
    """Return a fraction exactly, read from its shortest decimal text: 0.7 is 7/10, not the binary value just below it.

    Raises:
        InvalidValueError: if it is NaN, outside [0, 1], or not a number.
    """
    if isinstance(fraction, (int, float, Fraction)) and 0 <= fraction <= 1:
        return fraction if isinstance(fraction, Fraction) else Fraction(repr(float(fraction)))
    raise InvalidValueError(f"try_split() fraction_of_remainder must lie in [0, 1] (got {fraction!r}).")
