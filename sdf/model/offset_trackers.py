"""Trackers of integer offsets: bounded, growing, and unsplittable.

One tracker has two interfaces: the restriction tracker's (`try_claim`, `try_split`, `check_done`) and the older
RangeTracker's (`try_return_record_at`, `try_split_at_position`, `fraction_consumed`). Both use one number, the last
consumed position: claimed positions are consumed, and a split cuts only at unconsumed positions.

Sources: RangeTracker of the Dataflow SDK 1.9.1; OffsetRangeTracker and GrowableOffsetRangeTracker of Apache Beam.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from threading import Lock
from typing import Any

from sdf.errors import ClaimError, InvalidTypeError, InvalidValueError, UnclaimedWorkError, show
from sdf.model.claims import flaw_of_claim
from sdf.model.restrictions import UNBOUNDED, OffsetRange, Unbounded, as_restriction, part_of
from sdf.model.trackers import Progress, RestrictionTracker, as_fraction
from sdf.numbers import as_integer, is_integer

__all__ = ["GrowableOffsetRangeTracker", "OffsetRangeTracker", "UnsplittableTracker"]


class OffsetRangeTracker(RestrictionTracker):
    """Tracks claims of increasing offsets in an `OffsetRange`; thread-safe.

    Worked numbers: [100, 200) claimed up to 130, split at 0.7, gives [100, 179) and [179, 200).

    Args:
        restriction: an `OffsetRange`, or a ``(start, stop)`` tuple. Each part keeps the attributes of a subclass.
        block_from: returns where the first block at or after a position begins, as far as that is known without
            reading. A split moves up to there, so that each residual has a block; if no block is left, it is refused.
            It is called under the lock, so it must be quick. None: a block may begin anywhere.
    """

    def __init__(
        self, restriction: OffsetRange | tuple[int, int], block_from: Callable[[int], int] | None = None
    ) -> None:
        whole = as_restriction(restriction, f"{type(self).__name__}() was given")
        if not isinstance(whole, OffsetRange):
            raise InvalidTypeError(f"{type(self).__name__} needs an OffsetRange (got {show(restriction)}).")
        self._whole = None if type(whole) is OffsetRange else part_of(whole, whole.start, whole.stop)
        self._block_from = block_from
        self._lock = Lock()
        self._start = whole.start
        self._stop: Any = whole.stop
        self._last: Any = whole.start - 1  # the last position claimed or tried; start - 1 before any
        self._record: Any = whole.start - 1  # the last record inside a block
        self._refused = False
        self._fence: Any = whole.start  # claims below it are always granted: the start before any claim, then the stop

    def current_restriction(self) -> Any:
        return self._part(self._start, self._stop)

    def _part(self, start: int, stop: Any) -> Any:
        return OffsetRange(start, stop) if self._whole is None else part_of(self._whole, start, stop)

    def try_claim(self, position: int) -> bool:
        """Claim the block at ``position``; False at or past the stop. The hot path: once per block.

        Raises:
            ClaimError: if it is not an integer, does not increase, lies before the start, or follows a refused claim.
        """
        with self._lock:
            if type(position) is int and position > self._last and position >= self._record and not self._refused:
                self._last = position
                return position < self._fence or self._at_fence(position)
        return self._claim_unusual(position)

    def _at_fence(self, position: Any) -> bool:
        """Settle a claim at or past the fence, so the first one or one past the stop; the lock is held."""
        self._last = position
        self._refused = not position < self._stop
        self._fence = self._stop
        self._edge()
        return not self._refused

    def _closing(self) -> int | None:
        return None if self._stop is UNBOUNDED else int(max(self._stop, self._record))

    def _reached(self, *, stopping: bool = False) -> Any:
        """Return the last position claimed or tried; the tracker that `process` holds may count them elsewhere.

        Args:
            stopping: deliver nothing more before the lock is free; the lock is held.
        """
        return self._last

    def _edge(self) -> None:
        """Called at the first claim and at a refused one, under the lock; the runner replaces it."""

    _fault: Callable[[str], ClaimError] = ClaimError  # the runner replaces it, to see errors that process() may swallow

    def _claim_unusual(self, position: Any) -> bool:
        where = repr(self.current_restriction())
        position = as_integer(position)
        with self._lock:
            if not is_integer(position) and position is not UNBOUNDED:
                raise self._fault(
                    f"try_claim() positions must be integers: got {show(position)} in {where}. "
                    f"Blocks that are no positions need tracker.claims(blocks, position=...)."
                )
            flaw = flaw_of_claim(position, self._start, self._last, self._record, self._refused, where)
            if flaw is not None:
                raise self._fault(flaw)
            return self._at_fence(position)

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[Any, Any] | None:
        exact = as_fraction(fraction_of_remainder)
        estimate = self._estimated_stop()
        with self._lock:
            consumed = max(self._reached(stopping=True), self._record)
            if consumed is UNBOUNDED or self._refused:
                return None
            end = max(estimate, consumed + 1) if self._stop is UNBOUNDED else self._stop
            split = self._block_at(consumed + max(1, math.floor((end - consumed) * exact)))
            residual_stop = self._stop
            if split > end or split >= residual_stop or not self._cut(split):
                return None
            return self._part(self._start, split), self._part(split, residual_stop)

    def _block_at(self, position: int) -> int:
        """Return where the first block at or after a position begins."""
        block = position if self._block_from is None else as_integer(self._block_from(position))
        if not is_integer(block) or block < position:
            raise InvalidValueError(
                f"block_from({position}) must return where the first block at or after {position} begins (got "
                f"{show(block)})."
            )
        return block

    def _cut(self, stop: int) -> bool:
        """Lower the stop; the lock is held. False if a claim was faster, which cannot happen here, under the lock."""
        self._stop = stop
        self._fence = min(self._fence, stop)
        return True

    def _estimated_stop(self) -> Any:
        """Return the current end of an unbounded range, ``start - 1`` if it is unknown."""
        return self._start - 1

    def check_done(self) -> None:
        """Return if every offset was claimed.

        A reader whose last block starts before ``stop - 1`` claims the stop and is refused: so it has reached the end.

        Raises:
            UnclaimedWorkError: names the unclaimed range.
        """
        with self._lock:
            last_needed = UNBOUNDED if self._stop is UNBOUNDED else self._stop - 1
            last = self._reached()
            if self._start == self._stop or last >= last_needed:
                return
            unclaimed = f"[{last + 1}, {self._stop}) of {OffsetRange(self._start, self._stop)!r}"
        raise UnclaimedWorkError(
            f"{unclaimed} is unclaimed, that work would be lost. "
            f"Claim until try_claim() returns False (at the end of the input claim the restriction's stop), "
            f"or call tracker.defer_remainder()."
        )

    def progress(self) -> Progress:
        """Return offsets done and left; the last claimed offset counts as left. [100, 200) at 130: (30, 70)."""
        estimate = self._estimated_stop()
        with self._lock:
            if self._refused:
                size = 0 if self._stop is UNBOUNDED else self._stop - self._start
                return Progress(size, 0)
            at = max(self._reached(), self._record, self._start)
            if self._stop is not UNBOUNDED:
                at = min(at, self._stop)
                return Progress(at - self._start, self._stop - at)
            return Progress(at - self._start, max(at, estimate) - at if estimate >= self._start else None)

    def is_bounded(self) -> bool:
        return self._stop is not UNBOUNDED or self._last is UNBOUNDED

    # The older interface, for a reader whose records are not all split points.

    def start_position(self) -> int:
        """Return the first position of the range; it never moves."""
        return self._start

    def stop_position(self) -> int | Unbounded:
        """Return the position where the range ends; a split lowers it."""
        stop: int | Unbounded = self._stop
        return stop

    def try_return_record_at(self, is_at_split_point: bool, record_start: int) -> bool:
        """Return whether the record that starts at ``record_start`` may be returned, and if so, consume it.

        At a split point outside the range it is False, also before the start and after a refusal; inside, this is
        `try_claim`. Any other record belongs to the block of the last split point: always True, even past the stop.

        Raises:
            ClaimError: as `try_claim`; for other records, if there was no split point yet, positions decrease, or a
                record was refused.
        """
        record_start = as_integer(record_start)
        if is_at_split_point:
            if is_integer(record_start) and (
                record_start < self._start or (self._refused and record_start >= self._stop)
            ):
                return False
            return self.try_claim(record_start)
        with self._lock:
            if not is_integer(record_start):
                raise self._fault(f"try_return_record_at() positions must be integers (got {show(record_start)}).")
            claimed = self._reached()
            last = max(claimed, self._record)
            if claimed < self._start or self._refused or record_start < last:
                rule = (
                    "needs a split point before it" if claimed < self._start
                    else "comes after a refused record" if self._refused
                    else f"must not precede {last}"
                )  # fmt: skip
                raise self._fault(
                    f"try_return_record_at(False, {record_start}) {rule} in OffsetRange({self._start}, {self._stop})."
                )
            self._record = record_start
            return True

    def try_split_at_position(self, split_position: int) -> bool:
        """Cut the range at an unconsumed position. False: nothing changed, as always before the first record.

        [100, 200) consumed up to 110: 109, 110, 200 and 210 are refused, 111 and 199 accepted.
        """
        split_position = as_integer(split_position)
        if not is_integer(split_position):
            raise InvalidTypeError(f"try_split_at_position() needs an integer (got {show(split_position)}).")
        with self._lock:
            last = self._reached(stopping=True)
            if last < self._start or self._refused or not max(last, self._record) < split_position < self._stop:
                return False
            return self._cut(split_position)

    def fraction_consumed(self) -> float:
        """Return the share of positions consumed: 0.0 before the first, 1.0 once refused. [3, 6) at 4: 1/3."""
        with self._lock:
            if self._refused:
                return 1.0
            last = self._reached()
            if last < self._start or self._stop is UNBOUNDED:
                return 0.0
            consumed: float = (max(last, self._record) - self._start) / (self._stop - self._start)
            return min(1.0, consumed)

    # For the invoker.

    @property
    def started(self) -> bool:
        """Return whether there was a claim; before it, a running attempt must not be split (apache/beam#32044)."""
        return bool(self._reached() >= self._start)

    @property
    def last_claimed(self) -> Any:
        """Return the last position claimed or tried, None before any."""
        last = self._reached()
        return last if last >= self._start else None

    @property
    def refused(self) -> bool:
        """Return whether a claim was refused; after it, nothing may be claimed, deferred or split."""
        return self._refused


class GrowableOffsetRangeTracker(OffsetRangeTracker):
    """Tracks offsets of a growing input: ``[start, UNBOUNDED)``, with an estimate of its current end.

    A split bounds the primary; the growing tail is always in the residual. Claim ``UNBOUNDED`` when the input has
    ended for good. With a finite stop it is an `OffsetRangeTracker`.

    Args:
        restriction: an `OffsetRange` or a tuple.
        estimate: returns the current end (exclusive, an integer that may fall) or None if it is unknown. Called at each
            split and each request for progress, outside the lock: reuse one connection, and do not fetch data.
    """

    def __init__(
        self, restriction: OffsetRange | tuple[int, Any], estimate: Callable[[], int | None] = lambda: None
    ) -> None:
        super().__init__(restriction)
        self._estimate = estimate

    def _estimated_stop(self) -> Any:
        estimate = as_integer(self._estimate()) if self._stop is UNBOUNDED else None
        return self._start - 1 if estimate is None else max(estimate, self._start)


class UnsplittableTracker(RestrictionTracker):
    """Refuses every split but `try_split(0)`: a runner cannot share the restriction out, only stop and resume it.

    For work that must run in order in one place. Atomic work does not need this tracker: ``OffsetRange(0, 1)`` has one
    claim and no split point.

    Args:
        wrapped: the tracker to wrap, or an offset range for an `OffsetRangeTracker`.
    """

    def __init__(self, wrapped: RestrictionTracker | OffsetRange | tuple[int, int]) -> None:
        self._wrapped = wrapped if isinstance(wrapped, RestrictionTracker) else OffsetRangeTracker(wrapped)

    def current_restriction(self) -> Any:
        return self._wrapped.current_restriction()

    def try_claim(self, position: Any) -> bool:
        return self._wrapped.try_claim(position)

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[Any, Any] | None:
        return self._wrapped.try_split(0) if as_fraction(fraction_of_remainder) == 0 else None

    def check_done(self) -> None:
        self._wrapped.check_done()

    def _closing(self) -> Any:
        return self._wrapped._closing()

    def progress(self) -> Progress:
        return self._wrapped.progress()

    def is_bounded(self) -> bool:
        return self._wrapped.is_bounded()

    def defer_remainder(self, delay_seconds: float = 0) -> Any:
        return self._wrapped.defer_remainder(delay_seconds)
