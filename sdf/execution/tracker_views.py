"""The two sides of a tracker: the one that `process` uses, and the one that the runner uses.

`process` claims, reads and defers. Only the runner splits, and checks that all is done. A claim happens once per block
or even once per record, so no wrapper may slow down a built-in tracker: `process` holds the tracker itself, as an
object of a subclass that hides the runner's methods. The runner reaches past that subclass with `super`. A user's own
tracker has no lock, so both sides use a `LockedTracker` around it; `process` holds a view of that.

Claims of offsets usually take no lock (`sdf.execution.offset_claims`), as long as Python has its global one.

The tracker calls the runner's ``on_edge`` at the first claim and at a refused one. Both are rare, and only there does
the invoker compare the number of outputs (`sdf.execution.invoker`). The tracker calls ``on_fault`` for a claim that
breaks a rule: `process` may swallow that error, and the work that it did not claim would be lost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

from sdf.errors import ClaimError, InvalidTypeError, SplitError, show
from sdf.execution.offset_claims import Delivers, OffsetClaims
from sdf.model.byte_key_tracker import ByteKeyRangeTracker
from sdf.model.dofn import DoFn
from sdf.model.offset_trackers import GrowableOffsetRangeTracker, OffsetRangeTracker
from sdf.model.restrictions import UNBOUNDED, OffsetRange
from sdf.model.trackers import RestrictionTracker, deferred, refused_defer

__all__ = ["LockedTracker", "sides", "tracker_of"]

_BUILT_IN = (OffsetRangeTracker, GrowableOffsetRangeTracker, ByteKeyRangeTracker)


def tracker_of(fn: DoFn, element: Any, restriction: Any) -> RestrictionTracker:
    """Return the tracker that a DoFn makes for a restriction.

    Raises:
        InvalidTypeError: if it is no tracker.
        SplitError: if it covers another offset range: records would be lost or doubled.
    """
    tracker: Any = fn.create_tracker(element, restriction)
    if not isinstance(tracker, RestrictionTracker):
        raise InvalidTypeError(f"it must return an instance of RestrictionTracker (got {show(tracker)})")
    if isinstance(restriction, OffsetRange) and restriction.stop is not UNBOUNDED:
        covered = tracker.current_restriction()
        bounds = restriction.start, restriction.stop
        if isinstance(covered, OffsetRange) and (covered.start, covered.stop) != bounds:
            raise SplitError(
                f"it must return a tracker of the restriction that it is given, which may be a part of the initial one "
                f"(got a tracker of {show(covered)})"
            )
    return tracker


def sides(
    tracker: RestrictionTracker, on_edge: Callable[[], None], on_fault: Callable[[Exception], None]
) -> tuple[Any, Any]:
    """Return the runner's side of a fresh tracker, and that of `process`; only these may be used from now on.

    Args:
        tracker: the tracker that the DoFn made.
        on_edge: called in the thread that claims, under the tracker's lock: when the first claim is settled, when a
            claim is refused, and sometimes at another claim.
        on_fault: called in the same thread with the error that a claim is about to raise.
    """

    def fault(text: str) -> ClaimError:
        error = ClaimError(text)
        on_fault(error)
        return error

    kind = type(tracker)
    if kind not in _BUILT_IN or not _names(kind).isdisjoint(vars(tracker)):  # or with a method replaced
        locked = LockedTracker(tracker, on_edge, on_fault)
        return locked, TrackerView(locked, fault)
    seen: Any = object.__new__(_within(kind))
    vars(seen).update(vars(tracker))
    seen._edge = on_edge
    seen._fault = fault
    return Held(seen), seen


def _no(name: str) -> str:
    return (
        f"the tracker in process() has no {name!r}: it offers claims(), try_claim(), current_restriction(), "
        f"defer_remainder(), is_bounded() and watermark; splitting is the runner's."
    )


def _hidden(name: str) -> Any:
    def refuse(tracker: object) -> Any:
        raise AttributeError(_no(name))

    return property(refuse)


class Within(Delivers):
    """Mixin before the class of a built-in tracker that `process` holds: it hides the runner's methods."""

    try_split = _hidden("try_split")
    try_split_at_position = _hidden("try_split_at_position")
    check_done = _hidden("check_done")
    progress = _hidden("progress")
    started = _hidden("started")
    refused = _hidden("refused")
    start = _hidden("start")  # users look for these three; a __getattr__ would slow down each claim
    stop = _hidden("stop")
    claim = _hidden("claim")


_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()


@cache
def _within(kind: type) -> type:
    offsets = (OffsetClaims,) if _GIL and issubclass(kind, OffsetRangeTracker) else ()
    return type(kind.__name__, (*offsets, Within, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})


@cache
def _names(kind: type) -> frozenset[str]:
    return frozenset(dir(kind))


class Held:
    """The runner's side of a tracker that `process` holds: all methods of its class, also the hidden ones."""

    def __init__(self, seen: Any) -> None:
        self._whole: Any = super(Within, seen)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def defer_remainder(self, delay_seconds: float = 0) -> Any:
        return deferred(self)


def _locked(name: str) -> Callable[..., Any]:
    """Return a method for `LockedTracker`. It takes the lock and calls the user's method of this name."""

    def call(tracker: LockedTracker, *arguments: Any) -> Any:
        with tracker._lock:
            return getattr(tracker._tracker, name)(*arguments)

    return call


class LockedTracker:
    """Makes a user's own tracker safe to share: adds a lock, and checks the rules that it need not check itself."""

    def __init__(
        self, tracker: RestrictionTracker, on_edge: Callable[[], None], on_fault: Callable[[Exception], None]
    ) -> None:
        self._tracker = tracker
        self._on_edge = on_edge
        self._on_fault = on_fault
        self._lock = Lock()
        self.started = False
        self.refused = False
        self.last_claimed: Any = None

    def try_claim(self, position: Any) -> bool:
        with self._lock:
            try:
                claimed = self._claim(position)
            except Exception as error:  # also one that the user's tracker raises
                self._on_fault(error)
                raise
            first, self.started = not self.started, True
            self.last_claimed = position
            self.refused = not claimed
            if first or self.refused:
                self._on_edge()
            return claimed

    def _claim(self, position: Any) -> bool:
        if self.refused:
            raise ClaimError(
                f"try_claim({show(position)}) after a refused claim in {show(self._tracker.current_restriction())}. "
                f"Return from process() as soon as try_claim() is False."
            )
        return bool(self._tracker.try_claim(position))

    try_split = _locked("try_split")
    current_restriction = _locked("current_restriction")
    progress = _locked("progress")
    is_bounded = _locked("is_bounded")
    check_done = _locked("check_done")

    def closing(self) -> Any:
        """Return the position to claim at the end of the input; None if there is none."""
        return self._tracker._closing()

    def defer_remainder(self, delay_seconds: float) -> Any:
        with self._lock:
            if self.refused:
                raise refused_defer(self._tracker.current_restriction())
            return self._tracker.defer_remainder(delay_seconds)


class TrackerView(Delivers):
    """The part of a `LockedTracker` that `process` sees."""

    defer_remainder: Callable[..., None]
    watermark: Any

    def __init__(self, tracker: LockedTracker, fault: Callable[[str], ClaimError]) -> None:
        self.try_claim = tracker.try_claim
        self.current_restriction = tracker.current_restriction
        self.is_bounded = tracker.is_bounded
        self._closing = tracker.closing
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_no(name))
