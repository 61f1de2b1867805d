"""Adapts Apache Beam's trackers and restrictions to our interface; Beam is imported when it is first needed.

Beam trusts the splits of a tracker; sdf proves that nothing was lost. So Beam's OffsetRange becomes ours, and any other
restriction becomes a `BeamRestriction`, which states which part of the work it is. Some of Beam's trackers modify the
restriction that they were given. So a tracker gets a copy, and the runner gets copies from it.
"""

from __future__ import annotations

import copy
import functools
import math
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import attrs

from sdf.errors import (
    RUN_DOCTOR,
    ClaimError,
    DeferError,
    InvalidTypeError,
    MissingExtraError,
    UnclaimedWorkError,
    how_to_install,
    show,
)
from sdf.model.restrictions import OffsetRange
from sdf.model.trackers import Progress, RestrictionTracker

__all__ = ["BeamRestriction", "BeamTracker", "need_beam", "part_of", "to_beam", "to_ours", "view", "weighed"]

_asking = threading.local()  # .live: process() calls current_restriction(), and gets Beam's own object, no copy


@functools.cache
def need_beam() -> Any:
    """Return apache_beam, with the modules that are used here imported."""
    try:
        import apache_beam
        import apache_beam.io.restriction_trackers
        import apache_beam.io.watermark_estimators
        import apache_beam.runners.sdf_utils
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "apache_beam":
            raise
        raise MissingExtraError(
            "from_beam() needs apache_beam, which is not installed here. Install it with: "
            f"{how_to_install('apache_beam')} (on the driver and on every executor). {RUN_DOCTOR}"
        ) from error
    return apache_beam


@attrs.frozen
class BeamRestriction:
    """A Beam restriction that is no OffsetRange, with the part of the element's work that it is.

    Attributes:
        value: Beam's restriction.
        start: the start of ``value``, if that has start and stop. Otherwise a Fraction: the whole is 0 to 1, and each
            split chooses a number between start and stop, so that the order and the tiling of parts can be proved.
        stop: the stop, likewise.
    """

    value: Any = attrs.field(eq=False)  # many of Beam's restrictions have no __eq__
    start: Any
    stop: Any


class BeamTracker(RestrictionTracker):
    """Adapts Beam's tracker to our interface; the runner adds the lock.

    Args:
        provider: the RestrictionProvider.
        element: the input.
        restriction: the restriction, as `to_ours` returned it.
        unbounded: whether ``process`` is marked unbounded_per_element. Then the work is not cut before it runs, and it
            counts as endless if Beam's tracker has no is_bounded().
    """

    def __init__(self, provider: Any, element: Any, restriction: Any, *, unbounded: bool) -> None:
        self._provider = provider
        self._element = element
        self._unbounded = unbounded
        self._restriction = restriction
        self._start, self._stop = part_of(restriction)
        self._beam = self._track(restriction)
        self._reads_source = _reads_source(self._beam.current_restriction())
        self._claimed = False

    def _track(self, restriction: Any) -> Any:
        return self._provider.create_tracker(copy.deepcopy(to_beam(restriction)))

    def current_restriction(self) -> Any:
        value = self._beam.current_restriction()
        return value if getattr(_asking, "live", False) else to_ours(value, self._start, self._stop)

    def try_claim(self, position: Any) -> bool:
        self._claimed = True
        try:
            return bool(self._beam.try_claim(position))
        except ValueError as error:  # Beam's trackers raise it for a claim that breaks a rule
            raise ClaimError(str(error)) from error

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[Any, Any] | None:
        fraction = float(fraction_of_remainder)
        if not self._claimed and (self._unbounded or not self.is_bounded()):
            return None  # half of endless work is not half of the work that exists now
        if not self._claimed and not isinstance(self._restriction, OffsetRange):
            return self._split_unclaimed(fraction)
        # A RangeTracker cannot be cut at its current position (fraction 0), only a little after it.
        ahead = [2.0**power for power in range(-30, 0, 3)] if self._reads_source and not fraction else []
        for share in [fraction, *ahead]:
            split = self._beam.try_split(share)
            if split:  # not None, nor False, which UnsplittableRestrictionTracker returns
                pair = self._parts(split)
                self._stop = part_of(pair[0])[1]
                return pair
        return None

    def _split_unclaimed(self, fraction: float) -> tuple[Any, Any] | None:
        """Cut work that nobody has started, to plan.

        Beam has no rules for that, so the cut counts only if both sides have a size > 0 and the sizes add up. A second
        tracker is cut, so that this one stays unchanged if the cut does not count.
        """
        other = self._track(self._restriction)
        if self._reads_source:  # a BoundedSource cannot be cut before its first claim
            ranges = other.current_restriction().range_tracker()
            if ranges.start_position() is None or not ranges.try_claim(ranges.start_position()):
                return None
        split = other.try_split(fraction)
        if not split:
            return None
        pair = self._parts(split)
        values = [to_beam(part) for part in (self._restriction, *pair)]
        whole, front, rest = (self._provider.restriction_size(self._element, value) for value in values)
        if not (whole and front and rest and math.isclose(whole, front + rest)):
            return None
        self._restriction, self._stop, self._beam = pair[0], part_of(pair[0])[1], self._track(pair[0])
        return pair

    def _parts(self, split: tuple[Any, Any]) -> tuple[Any, Any]:
        primary, residual = split
        middle = _between(self._start, self._stop)
        return to_ours(primary, self._start, middle), to_ours(residual, middle, self._stop)

    def check_done(self) -> None:
        try:
            done = self._beam.check_done()
        except ValueError as error:
            raise UnclaimedWorkError(f"{error} Claim until try_claim() is False, or defer_remainder().") from error
        # Documented are True and raising; but a BoundedSource's check_done() returns False after every read.
        if done is False and not self._reads_source:
            raise UnclaimedWorkError(f"check_done() of {show(self._beam)} is False. Claim until try_claim() is False.")

    def progress(self) -> Progress:
        try:
            progress = self._beam.current_progress()
            done, left = float(progress.completed_work), float(progress.remaining_work)
        except (NotImplementedError, TypeError):  # RestrictionProgress raises TypeError if progress is unknown
            return Progress(0, None)
        return Progress(max(0.0, done), max(0.0, left) if math.isfinite(left) else None)

    def is_bounded(self) -> bool:
        try:
            return bool(self._beam.is_bounded())
        except NotImplementedError:
            return not self._unbounded


class _Claims:
    """A RangeTracker whose claims go to the tracker that the runner watches."""

    def __init__(self, ranges: Any, try_claim: Callable[[Any], bool]) -> None:
        self._ranges = ranges
        self.try_claim = try_claim

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ranges, name)


@functools.cache
def view() -> Any:
    """Return the class of the tracker for Beam's process(): a RestrictionTrackerView, as some DoFns check its type."""

    class View(need_beam().runners.sdf_utils.RestrictionTrackerView):  # type: ignore[misc]
        def __init__(self, tracker: Any) -> None:
            self._tracker = tracker
            self.try_claim = tracker.try_claim
            self.is_bounded = tracker.is_bounded

        def current_restriction(self) -> Any:
            _asking.live = True
            try:
                value = self._tracker.current_restriction()
            finally:
                _asking.live = False
            if _reads_source(value):
                # A BoundedSource claims at the RangeTracker inside its restriction; the runner must see these claims.
                claims, value = _Claims(value.range_tracker(), self.try_claim), copy.copy(value)
                value.range_tracker = lambda: claims
            return value

        def defer_remainder(self, deferred_time: Any = None) -> None:
            if _reads_source(self.current_restriction()):
                raise DeferError("defer_remainder(): a BoundedSource cannot be cut where it stands; read it to its end")
            self._tracker.defer_remainder(_delay_seconds(deferred_time))

    return View


def to_ours(value: Any, start: Fraction, stop: Fraction) -> Any:
    """Return Beam's restriction as ours; if it has no start and stop of its own, it gets these."""
    if type(value) is need_beam().io.restriction_trackers.OffsetRange and type(value.start) is type(value.stop) is int:
        return OffsetRange(value.start, value.stop)
    ends = getattr(value, "start", None), getattr(value, "stop", None)
    if None in ends or any(map(callable, ends)):
        ends = start, stop
    return BeamRestriction(copy.deepcopy(value), *ends)


def to_beam(restriction: Any) -> Any:
    """Return Beam's restriction, not a copy."""
    if isinstance(restriction, OffsetRange):
        return need_beam().io.restriction_trackers.OffsetRange(*restriction)
    return restriction.value


def part_of(restriction: Any) -> tuple[Fraction, Fraction]:
    """Return which part of the whole a restriction is; (0, 1) if it has a start and stop of its own."""
    start, stop = restriction.start, restriction.stop
    own = not (isinstance(start, Fraction) and isinstance(stop, Fraction))
    return (Fraction(0), Fraction(1)) if own else (start, stop)


def _between(start: Fraction, stop: Fraction | None) -> Fraction:
    """Return the simplest fraction between two (None: no limit); a simple one lets a stream split forever."""
    whole = math.floor(start)
    if stop is None or whole + 1 < stop:
        return Fraction(whole + 1)
    return whole + 1 / _between(1 / (stop - whole), None if start == whole else 1 / (start - whole))


def _reads_source(value: Any) -> bool:
    """Return whether a restriction is that of a BoundedSource; its class is private to Beam."""
    return all(hasattr(value, name) for name in ("source", "range_tracker", "weight"))


def weighed(value: Any) -> Any:
    """Return a BoundedSource's restriction with a weight; Beam's own split loses work if there is none."""
    if not _reads_source(value) or value.weight() is not None:
        return value
    try:
        size = value.source().estimate_size() or 1
    except NotImplementedError:
        size = 1
    ranges = value.range_tracker()
    bundle = need_beam().io.iobase.SourceBundle(size, value.source(), ranges.start_position(), ranges.stop_position())
    return type(value)(bundle)


def _delay_seconds(deferred_time: Any) -> float:
    timestamp = need_beam().utils.timestamp
    if deferred_time is None:
        return 0.0
    if isinstance(deferred_time, timestamp.Timestamp):
        deferred_time = deferred_time - timestamp.Timestamp.now()
    if not isinstance(deferred_time, timestamp.Duration):
        raise InvalidTypeError(f"defer_remainder() takes a Duration, a Timestamp or None (got {show(deferred_time)}).")
    return max(0.0, float(deferred_time.micros) / 1e6)
