"""The tracker of byte keys: positions are byte strings, read as binary fractions of [0, 1) where arithmetic is needed.

Big-integer arithmetic happens at splits and requests for progress, never per claim.

Source: ByteKeyRangeTracker of Apache Beam's Java SDK.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from threading import Lock
from typing import Any

from sdf.errors import ClaimError, InvalidTypeError, UnclaimedWorkError, show
from sdf.model.claims import flaw_of_claim
from sdf.model.restrictions import ByteKeyRange, part_of
from sdf.model.trackers import Progress, RestrictionTracker, as_fraction

__all__ = ["ByteKeyRangeTracker"]

_PRECISION_BYTES = 8  # added to the longer key when a split interpolates; a double has 53 bits


class ByteKeyRangeTracker(RestrictionTracker):
    """Tracks claims of increasing keys in a `ByteKeyRange`; thread-safe.

    Claim ``b""`` when there are no more keys. The claim is refused, but shows that the reader has reached the
    end of the input. A range without a stop is done only after that claim.

    Worked numbers (hex): [10, 20) claimed up to 14, split at 0.5, gives [10, 1A) and [1A, 20).
    """

    def __init__(self, restriction: ByteKeyRange) -> None:
        if not isinstance(restriction, ByteKeyRange):
            raise InvalidTypeError(f"ByteKeyRangeTracker needs a ByteKeyRange (got {show(restriction)}).")
        self._whole = part_of(restriction, restriction.start, restriction.stop)
        self._lock = Lock()
        self._start = restriction.start
        self._stop = restriction.stop
        self._last: bytes | None = None  # the last key claimed or tried; None before any
        self._record = b""  # the last record inside a block
        self._refused = False

    def current_restriction(self) -> Any:
        return part_of(self._whole, self._start, self._stop)

    def try_claim(self, position: bytes) -> bool:
        """Claim the block at key ``position``; False at or past the stop, and for ``b""``.

        Raises:
            ClaimError: if it is not bytes, does not increase, lies before the start, or follows a refused claim.
        """
        with self._lock:
            where = f"ByteKeyRange({self._start!r}, {self._stop!r})"
            if type(position) is not bytes:
                raise self._fault(
                    f"try_claim() positions must be bytes: got {show(position)} in {where}. Blocks that are no "
                    f"positions need tracker.claims(blocks, position=...)."
                )
            if position or self._refused:  # b"" may come after any key
                flaw = flaw_of_claim(position, self._start, self._last, self._record, self._refused, where)
                if flaw is not None:
                    raise self._fault(flaw)
            first, self._last = self._last is None, position
            self._refused = not position or (bool(self._stop) and position >= self._stop)
            if first or self._refused:
                self._edge()
            return not self._refused

    def _closing(self) -> bytes:
        return b""

    def _edge(self) -> None:
        """Called at the first claim and at a refused one, under the lock; the runner replaces it."""

    _fault: Callable[[str], ClaimError] = ClaimError  # the runner replaces it, to see errors that process() may swallow

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[Any, Any] | None:
        exact = as_fraction(fraction_of_remainder)
        with self._lock:
            lower = self._start if self._last is None else max(self._last, self._record) + b"\x00"
            if self._refused or self.current_restriction().is_empty() or (self._stop and lower >= self._stop):
                return None
            cut = _interpolate(lower, self._stop, exact) if exact else lower
            if cut is None or (self._stop and cut >= self._stop):
                return None
            residual = part_of(self._whole, cut, self._stop)
            self._stop = cut or b"\x00"  # a stop of b"" would mean no end; no key lies before b"\x00"
            return self.current_restriction(), residual

    def check_done(self) -> None:
        """Return if every key was claimed.

        Raises:
            UnclaimedWorkError: names the unclaimed range.
        """
        with self._lock:
            if self.current_restriction().is_empty() or self._last == b"":
                return
            if self._stop and self._last is not None and self._last + b"\x00" >= self._stop:
                return
            first = self._start if self._last is None else self._last + b"\x00"
        raise UnclaimedWorkError(
            f"{ByteKeyRange(first, self._stop)!r} of {self.current_restriction()!r} is unclaimed, that work would be "
            f"lost. Claim until try_claim() returns False (b'' at the end of the input), or call "
            f"tracker.defer_remainder()."
        )

    def progress(self) -> Progress:
        """Return the share of the key space done and left, in [0, 1]. [10, 20) at 14: (0.25, 0.75)."""
        with self._lock:
            if self.current_restriction().is_empty():
                return Progress(0, 0)
            done = self._share()
            return Progress(done, 1 - done)

    def _share(self) -> float:
        """Return the share of the key space consumed; the lock is held."""
        if self._last is None:
            return 0.0
        return 1.0 if self._refused else min(1.0, _position(max(self._last, self._record), self._start, self._stop))

    # The older interface, for a reader whose records are not all split points.

    def start_position(self) -> bytes:
        """Return the first key of the range; it never moves."""
        return self._start

    def stop_position(self) -> bytes:
        """Return the key where the range ends, ``b""`` for no end; a split lowers it."""
        return self._stop

    def try_return_record_at(self, is_at_split_point: bool, record_start: bytes) -> bool:
        """Return whether the record at key ``record_start`` may be returned, and if so, consume it.

        At a split point outside the range it is False, also before the start and after a refusal; inside, this is
        `try_claim`. Any other record belongs to the block of the last split point: always True, even past the stop.

        Raises:
            ClaimError: as `try_claim`; for other records, if there was no split point yet, keys decrease, or a record
                was refused.
        """
        if is_at_split_point:
            is_key = type(record_start) is bytes and record_start != b""
            if is_key and (record_start < self._start or (self._refused and self._stop and record_start >= self._stop)):
                return False
            return self.try_claim(record_start)
        with self._lock:
            if type(record_start) is not bytes:
                raise self._fault(f"try_return_record_at() positions must be bytes (got {show(record_start)}).")
            if self._last is None or self._refused or record_start < max(self._last, self._record):
                rule = (
                    "needs a split point before it" if self._last is None
                    else "comes after a refused record" if self._refused
                    else f"must not precede {max(self._last, self._record)!r}"
                )  # fmt: skip
                raise self._fault(
                    f"try_return_record_at(False, {record_start!r}) {rule} in {self.current_restriction()!r}."
                )
            self._record = record_start
            return True

    def try_split_at_position(self, split_position: bytes) -> bool:
        """Cut the range at an unconsumed key. False: nothing changed, as always before the first record."""
        if not isinstance(split_position, bytes):
            raise InvalidTypeError(f"try_split_at_position() needs bytes (got {show(split_position)}).")
        with self._lock:
            if self._last is None or self._refused or split_position <= max(self._last, self._record):
                return False
            if self._stop and split_position >= self._stop:
                return False
            self._stop = split_position
            return True

    def fraction_consumed(self) -> float:
        """Return the share of the key space consumed: 0.0 before the first record, 1.0 once refused."""
        with self._lock:
            return self._share()

    # For the invoker.

    @property
    def started(self) -> bool:
        """Return whether there was a claim; before it, a running attempt must not be split (apache/beam#32044)."""
        return self._last is not None

    @property
    def last_claimed(self) -> bytes | None:
        """Return the last key claimed or tried, None before any."""
        return self._last

    @property
    def refused(self) -> bool:
        """Return whether a claim was refused; after it, nothing may be claimed, deferred or split."""
        return self._refused


def _interpolate(low: bytes, high: bytes, exact: Fraction) -> bytes | None:
    """Return the key ``low + exact * (high - low)`` (``high`` of ``b""``: no end), None if that is ``high``."""
    width = max(len(low), len(high)) + _PRECISION_BYTES
    bottom = int.from_bytes(low.ljust(width, b"\x00"), "big")
    top = int.from_bytes(high.ljust(width, b"\x00"), "big") if high else 1 << (8 * width)
    number = bottom + math.floor((top - bottom) * exact)
    if number >= top:
        return None
    shortest = number.to_bytes(width, "big").rstrip(b"\x00")
    return max(shortest, low)  # without its zero bytes it may lie below a low key that ends in them


def _position(key: bytes, start: bytes, stop: bytes) -> float:
    """Return where ``key`` lies between start and stop, 0.0 to 1.0."""
    width = max(len(key), len(start), len(stop))
    low, at = (int.from_bytes(one.ljust(width, b"\x00"), "big") for one in (start, key))
    top = int.from_bytes(stop.ljust(width, b"\x00"), "big") if stop else 1 << (8 * width)
    return ((at - low) << 64) // (top - low) / 2**64 if top > low else 0.0
