"""Makes the pieces of an element, and cuts them smaller: all that happens to a restriction before it is handed out.

`expand` runs on the workers, once per element. `cut` and `checked_size` also run on the driver, for planning.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import attrs

from sdf.errors import ClaimError, InvalidTypeError, InvalidValueError, SplitError, UnboundedError, blame, show
from sdf.execution.tracker_views import tracker_of
from sdf.model.byte_key_tracker import ByteKeyRangeTracker
from sdf.model.dofn import DoFn
from sdf.model.forks import alone
from sdf.model.offset_trackers import GrowableOffsetRangeTracker, OffsetRangeTracker
from sdf.model.restrictions import UNBOUNDED, OffsetRange, as_restriction, part_of, tiling_flaw
from sdf.model.trackers import RestrictionTracker, as_pair

__all__ = ["Expanded", "checked_size", "cut", "cut_out", "cut_share", "expand", "expand_one", "keeps_default"]

_CUT_ANYWHERE = (OffsetRangeTracker, GrowableOffsetRangeTracker, ByteKeyRangeTracker)
_ROUNDING = Fraction(1, 1000)  # offsets, added before rounding down: 15 times the float 1/3 is just below 5


@attrs.frozen
class Expanded:
    """An element, its initial restriction, the (restriction, size) pieces to start from, and the DoFn's remark.

    The remarks on a table are (row, remark) pairs.
    """

    element: Any
    restriction: Any
    pieces: tuple[tuple[Any, float | None], ...]
    note: str | Sequence[tuple[int, str]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Expanded, (self.element, self.restriction, self.pieces, self.note)


def keeps_default(fn: DoFn, *methods: str) -> bool:
    """Return whether a DoFn has these methods from `DoFn` itself."""
    return all(getattr(type(fn), name) is getattr(DoFn, name) and name not in vars(fn) for name in methods)


def expand(fn: DoFn, element: Any, *, unbounded: bool = False, restriction: Any = None) -> Expanded:
    """Ask a DoFn for the initial restriction of an element and for its split; check both. See `expand_one`."""
    return expand_one(fn, element, unbounded=unbounded, restriction=restriction)[0]


def expand_one(
    fn: DoFn, element: Any, *, unbounded: bool = False, restriction: Any = None
) -> tuple[Expanded, RestrictionTracker]:
    """Expand an element; return also the tracker of its initial restriction, as new.

    Args:
        fn: the DoFn.
        element: the input.
        unbounded: whether work without an end is allowed.
        restriction: the initial restriction, None to ask the DoFn.

    Raises:
        UnboundedError: if the work has no end and ``unbounded`` is false.
        SplitError: if `split_restriction` lost or doubled work.
        SdfError: any other subclass, naming method and element.
    """
    name, method = type(fn).__name__, "create_tracker"
    with blame(lambda: f"{name}.get_initial_restriction()", element), alone():
        whole = restriction
        if restriction is None:
            whole = as_restriction(fn.get_initial_restriction(element), "it returned")
    where = blame(lambda: f"{name}.{method}()", element, whole)
    with where:
        tracker = tracker_of(fn, element, whole)
        bounded = tracker.is_bounded()
    if not bounded and not unbounded:
        raise UnboundedError(
            f"{name}.get_initial_restriction() gave {show(whole)} for element {show(element)}, which has no end. "
            f"Run it with stream_sdf(), or give the restriction a stop."
        )
    with where:
        method = "split_restriction"
        given = fn.split_restriction(element, whole)
        if not isinstance(given, Iterable):
            raise InvalidTypeError(f"it must yield restrictions or return an iterable of them (got {show(given)})")
        parts = [as_restriction(part, "it yielded") for part in given]
        flaw = tiling_flaw(whole, parts, lambda part: checked_size(fn, element, part))
        if flaw is not None:
            raise SplitError(f"its parts do not add up to the restriction: {flaw}. Yield parts in order, without gaps")
        method = "remark"
        note = fn.remark(element, whole) or None
        if note is not None and not isinstance(note, str):
            raise InvalidTypeError(f"it must return a string or None (got {show(note)})")
    if parts in ([], [whole]) and keeps_default(fn, "restriction_size"):  # it would make one more tracker
        with blame(lambda: f"{name}.restriction_size()", element, whole):
            sized: Iterable[tuple[Any, float | None]] = [(whole, _as_size(tracker.progress().remaining))]
    else:
        sized = ((part, checked_size(fn, element, part)) for part in parts or [whole])
    return Expanded(element, whole, tuple(sized), note), tracker


def checked_size(fn: DoFn, element: Any, restriction: Any) -> float | None:
    """Return `DoFn.restriction_size`, finite and >= 0, or None if unknown.

    Raises:
        InvalidValueError: if it is anything else.
    """
    with blame(lambda: f"{type(fn).__name__}.restriction_size()", element, restriction):
        return _as_size(fn.restriction_size(element, restriction))


def _as_size(size: Any) -> float | None:
    if size is None or (type(size) is int and size >= 0):  # the usual ones: isinstance() with Real is slow
        return size
    real = isinstance(size, numbers.Real) and not isinstance(size, bool)
    if not real or not 0 <= size < math.inf:
        raise InvalidValueError(f"it must return a finite number >= 0, or None (got {show(size)})")
    return int(size) if isinstance(size, numbers.Integral) else float(size)


def cut(fn: DoFn, element: Any, restriction: Any, fraction: float | Fraction) -> tuple[Any, Any] | None:
    """Cut a restriction that nobody has started at a fraction of its work; None if it cannot be cut there.

    Raises:
        SplitError: if the two parts do not add up.
    """
    with blame(lambda: f"{type(fn).__name__}'s tracker, cutting {show(restriction)} of element {show(element)},"):
        pair = as_pair(fn.create_tracker(element, restriction).try_split(fraction))
        if pair is None:
            return None
        flaw = tiling_flaw(restriction, pair, lambda part: checked_size(fn, element, part))
        if flaw is not None:
            raise SplitError(f"try_split() gave parts that do not add up: {flaw}")
        return pair


def cut_share(fn: DoFn, element: Any, restriction: Any, fraction: float) -> tuple[Any, Any] | None:
    """Cut a restriction that nobody has started in two that are not empty; None if it cannot be cut.

    The front gets about ``fraction`` of the work, rounded down for integer offsets. A front of size 0 is never cut off,
    as that could go on for ever. Declining would leave a straggler whole; so the fraction is doubled instead.

    Raises:
        SplitError: if the two parts do not add up.
    """
    share: float | Fraction = fraction
    if type(restriction) is OffsetRange and restriction.stop is not UNBOUNDED:
        start, stop = restriction
        if stop - start < 2:
            return None
        kept = min(max(1, int((stop - start) * Fraction(fraction) + _ROUNDING)), stop - start - 1)
        share = Fraction(kept + 1, stop - start + 1)  # the remainder starts before the first offset
    pair = cut(fn, element, restriction, share)
    while pair is not None and checked_size(fn, element, pair[0]) == 0:
        if not 0 < share < 0.5:
            return None
        share *= 2
        pair = cut(fn, element, restriction, share)
    return pair


def cut_out(fn: DoFn, element: Any, restriction: Any, position: Any) -> tuple[Any, Any, Any] | None:
    """Cut out the block at a position that was claimed; return what lies before it, the block, and what lies after it.

    Either side is None if nothing lies there. The trackers of offsets and keys can be cut at any position; for others
    the result is None. So it is for a position that is not in the restriction, such as that of a refused claim.

    Raises:
        SplitError: if the parts do not add up.
    """
    start, stop = getattr(restriction, "start", None), getattr(restriction, "stop", None)
    with blame(lambda: f"{type(fn).__name__}'s tracker, cutting {show(restriction)} of element {show(element)},"):
        tracker = fn.create_tracker(element, restriction)
        if type(tracker) not in _CUT_ANYWHERE or not _is_in(tracker, position):
            return None
        before = None if position == start else part_of(restriction, start, position)
        tracker = fn.create_tracker(element, part_of(restriction, position, stop))
        tracker.try_claim(position)
        block, after = as_pair(tracker.try_split(0)) or (part_of(restriction, position, stop), None)
        parts = [part for part in (before, block, after) if part is not None]
        flaw = tiling_flaw(restriction, parts, lambda part: checked_size(fn, element, part))
        if flaw is not None:
            raise SplitError(f"it gave parts that do not add up: {flaw}")
        return before, block, after


def _is_in(tracker: RestrictionTracker, position: Any) -> bool:
    """Return whether a new tracker grants a claim."""
    try:
        return tracker.try_claim(position)
    except ClaimError:
        return False
