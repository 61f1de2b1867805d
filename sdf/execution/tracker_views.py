"""The two sides of a tracker: what `process` holds of it, and what the runner does.

`process` claims, reads and defers; to split, and to say that all is done, is the runner's. A claim happens once per
block or even once per record, so nothing may stand between it and a built-in tracker: `process` holds the tracker
itself, as an object of a subclass that hides what is the runner's. The runner reaches past that subclass with `super`.
A user's own tracker has no lock, so both sides go through one that has; `process` holds a view of that.

Claims of offsets need no lock there either, because one thread claims. It first writes what it claims, then reads how
far it may go; whoever cuts first writes how far, then reads what was claimed. So at least one of the two sees the
other: a cut that a claim has overtaken is taken back, and a claim that was about to be refused waits to hear of that.
Python's global lock makes these steps happen in one order for all threads; without it, claims take the lock.

The runner hears of the first claim and of a refused one, through ``on_edge``, and of no other: both are rare, and they
are the only ones at which it compares how many outputs there are (`sdf.execution.invoker`). It also hears of a claim
that breaks a rule, through ``on_fault``: `process` may swallow that error, and with it lose what it did not claim.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from threading import Lock
from typing import Any

from sdf.errors import ClaimError, show
from sdf.model.byte_key_tracker import ByteKeyRangeTracker
from sdf.model.offset_trackers import GrowableOffsetRangeTracker, OffsetRangeTracker
from sdf.model.trackers import Progress, RestrictionTracker, deferred, refused_defer

__all__ = ["LockedTracker", "sides"]

_BUILT_IN = (OffsetRangeTracker, GrowableOffsetRangeTracker, ByteKeyRangeTracker)


def sides(
    tracker: RestrictionTracker, on_edge: Callable[[], None], on_fault: Callable[[Exception], None]
) -> tuple[Any, Any]:
    """Return the runner's side of a fresh tracker, and the side of `process`; only these may be used from now on.

    Args:
        tracker: as the DoFn made it.
        on_edge: called in the thread that claims, and under the tracker's lock: once its first claim is settled, when
            one is refused, and now and then for another.
        on_fault: called there with the error that a claim is about to raise.
    """
    kind = type(tracker)
    if kind not in _BUILT_IN or not _names(kind).isdisjoint(vars(tracker)):  # the latter has a method replaced
        locked = LockedTracker(tracker, on_edge, on_fault)
        return locked, TrackerView(locked)
    seen: Any = object.__new__(_within(kind))
    vars(seen).update(vars(tracker))
    seen._edge = on_edge

    def fault(text: str) -> ClaimError:
        error = ClaimError(text)
        on_fault(error)
        return error

    seen._fault = fault
    return Held(seen), seen


def _no(name: str) -> str:
    return (
        f"the tracker in process() has no {name!r}: it offers try_claim(), current_restriction(), defer_remainder(), "
        f"is_bounded() and watermark; splitting is the runner's."
    )


def _not_iterable() -> TypeError:
    return TypeError(
        "the tracker in process() cannot be iterated over. Ask it once where to start, and claim each position: "
        "for position in range(*tracker.current_restriction())"
    )


def _hidden(name: str) -> Any:
    def refuse(tracker: object) -> Any:
        raise AttributeError(_no(name))

    return property(refuse)


class Within:
    """Mixed in before the class of a built-in tracker that `process` holds."""

    try_split = _hidden("try_split")
    try_split_at_position = _hidden("try_split_at_position")
    check_done = _hidden("check_done")
    progress = _hidden("progress")
    started = _hidden("started")
    refused = _hidden("refused")
    start = _hidden("start")  # these three are what people look for; a __getattr__ would make each claim slower
    stop = _hidden("stop")
    claim = _hidden("claim")

    def __iter__(self) -> Iterator[Any]:
        raise _not_iterable()


class OffsetWithin(Within):
    """The same for offsets, with claims that take no lock; see the module's docstring."""

    _start: int
    _stop: Any
    _last: Any
    _record: Any
    _refused: bool
    _lock: Lock
    _claim_unusual: Callable[[Any], bool]
    _at_fence: Callable[[Any], bool]
    _fence: Any  # as the tracker has it, and lower while a cut is being tried

    def try_claim(self, position: Any) -> bool:
        if type(position) is int and position > self._last and position >= self._record and not self._refused:
            self._last = position
            if position < self._fence:
                return True
            with self._lock:
                return self._at_fence(position)
        return self._claim_unusual(position)

    def _cut(self, stop: int) -> bool:
        before, self._fence = self._fence, min(self._fence, stop)
        if max(self._last, self._record) >= stop:
            self._fence = before
            return False
        self._stop = stop
        return True


_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()


@cache
def _within(kind: type) -> type:
    within = OffsetWithin if _GIL and issubclass(kind, OffsetRangeTracker) else Within
    return type(kind.__name__, (within, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})


@cache
def _names(kind: type) -> frozenset[str]:
    return frozenset(dir(kind))


class Held:
    """The runner's side of a tracker that `process` holds: the methods of its class, hidden or not."""

    def __init__(self, seen: Any) -> None:
        self._whole: Any = super(Within, seen)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def defer_remainder(self, delay_seconds: float = 0) -> Any:
        return deferred(self)


class LockedTracker:
    """Makes a user's own tracker safe to share: one lock around it, and the rules that are not its business."""

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
            except Exception as error:  # also of the user's tracker
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

    def try_split(self, fraction_of_remainder: float | Fraction) -> Any:
        with self._lock:
            return self._tracker.try_split(fraction_of_remainder)

    def current_restriction(self) -> Any:
        with self._lock:
            return self._tracker.current_restriction()

    def progress(self) -> Progress:
        with self._lock:
            return self._tracker.progress()

    def is_bounded(self) -> bool:
        with self._lock:
            return self._tracker.is_bounded()

    def check_done(self) -> None:
        with self._lock:
            self._tracker.check_done()

    def defer_remainder(self, delay_seconds: float = 0) -> Any:
        with self._lock:
            if self.refused:
                raise refused_defer(self._tracker.current_restriction())
            return self._tracker.defer_remainder(delay_seconds)


class TrackerView:
    """What `process` sees of a `LockedTracker`."""

    defer_remainder: Callable[..., None]
    watermark: Any

    def __init__(self, tracker: LockedTracker) -> None:
        self.try_claim = tracker.try_claim
        self.current_restriction = tracker.current_restriction
        self.is_bounded = tracker.is_bounded

    def __iter__(self) -> Iterator[Any]:
        raise _not_iterable()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_no(name))
