"""Restrictions: frozen values that name a part of the work of one element.

A user's own restriction is any value that pickles and compares by value. A run proves that nothing was lost or doubled
by the first of these that the restriction has (see `tiling_flaw`):

1. a method ``is_tiled_by(parts) -> bool``, the author's own proof;
2. attributes ``start`` and ``stop``: each part must start where the part before it stopped; other attributes, such as a
   step, are not compared;
3. a size: the sizes must add up, exactly if they are whole numbers, else within rounding (1e-9).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, UnboundedError, show
from sdf.numbers import as_integer, is_integer

__all__ = ["UNBOUNDED", "ByteKeyRange", "OffsetRange", "Unbounded", "as_restriction", "part_of", "tiling_flaw"]


class Unbounded:
    """The stop of a range without an end, and the position that says "there will never be more".

    There is one instance, ``UNBOUNDED``. It compares greater than every integer, so that range arithmetic needs no
    special case for it, and it stays the same object through pickling.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNBOUNDED"

    def __reduce__(self) -> str:
        return "UNBOUNDED"

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return other is self

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __ge__(self, other: object) -> bool:
        return True


UNBOUNDED: Final = Unbounded()


@attrs.frozen
class OffsetRange:
    """The integers from ``start`` up to, not including, ``stop``.

    A subclass may have more attributes, such as the file that the offsets are of; each part of a range keeps them::

        @attrs.frozen
        class PageRange(OffsetRange):
            book: str

    Args:
        start: an integer of any size. Another integer type, such as NumPy's, is stored as an ``int``.
        stop: an integer not below ``start``, or ``UNBOUNDED``. ``start == stop`` is the empty range.

    Raises:
        InvalidTypeError: if start or stop is not an integer (bool and float are not).
        InvalidValueError: if ``start > stop``.
    """

    start: int
    stop: int | Unbounded

    def __attrs_post_init__(self) -> None:
        if type(self.start) is int and type(self.stop) is int and self.start <= self.stop:
            return
        for name, value in (("start", self.start), ("stop", self.stop)):
            integer = as_integer(value)
            if not is_integer(integer) and not (name == "stop" and value is UNBOUNDED):
                raise InvalidTypeError(f"OffsetRange {name} must be an integer (got {name}={show(value)}).")
            object.__setattr__(self, name, integer)
        if self.start > self.stop:
            raise InvalidValueError(f"OffsetRange start must be <= stop (got start={self.start}, stop={self.stop}).")

    def __iter__(self) -> Iterator[Any]:
        """Yield start and stop, so that ``range(*restriction)`` works."""
        yield self.start
        yield self.stop

    def is_empty(self) -> bool:
        """Return whether there is no position in the range."""
        return self.start == self.stop

    def split(self, desired: int, minimum: int = 1) -> Iterator[OffsetRange]:
        """Cut the range into pieces, lazily and in order; they tile it and none is empty.

        A tail shorter than ``desired // 4`` or ``minimum`` joins the piece before it: ``OffsetRange(10, 90).split(25)``
        gives [10, 35), [35, 60), [60, 90). An empty range yields itself, so that no element is lost.

        Args:
            desired: units per piece, at least 1.
            minimum: no piece is smaller than this, unless the whole range is.

        Raises:
            InvalidValueError: if an argument is not a positive integer, or (UnboundedError) the range has no end.
        """
        desired, minimum = as_integer(desired), as_integer(minimum)
        for name, value in (("desired", desired), ("minimum", minimum)):
            if not is_integer(value) or value < 1:
                raise InvalidValueError(f"OffsetRange.split() {name} must be an integer >= 1 (got {show(value)}).")
        if isinstance(self.stop, Unbounded):
            raise UnboundedError(f"OffsetRange.split() needs a finite stop (got {self!r}).")
        return self._pieces(self.stop, max(desired, minimum), max(desired // 4, minimum))

    def _pieces(self, stop: int, step: int, shortest: int) -> Iterator[OffsetRange]:
        start = self.start
        while stop - start >= step + shortest:
            yield part_of(self, start, start + step)
            start += step
        yield part_of(self, start, stop)


@attrs.frozen
class ByteKeyRange:
    """The byte strings from ``start`` up to, not including, ``stop``, in the order of their bytes.

    A start of ``b""`` is before every key, a stop of ``b""`` after every key: ``ByteKeyRange()`` is all keys. ``b""``
    is never a key itself, so ``ByteKeyRange(b"", b"\\x00")`` is the empty range that starts at the lowest key.

    Raises:
        InvalidTypeError: if start or stop is not ``bytes``.
        InvalidValueError: if ``start > stop`` and stop is not ``b""``.
    """

    start: bytes = b""
    stop: bytes = b""

    def __attrs_post_init__(self) -> None:
        for name, value in (("start", self.start), ("stop", self.stop)):
            if not isinstance(value, bytes):
                raise InvalidTypeError(f"ByteKeyRange {name} must be bytes (got {name}={show(value)}).")
        if self.stop and self.start > self.stop:
            raise InvalidValueError(
                f"ByteKeyRange start must be <= stop, or stop b'' for no end "
                f"(got start={show(self.start)}, stop={show(self.stop)})."
            )

    def __iter__(self) -> Iterator[bytes]:
        """Yield start and stop."""
        yield self.start
        yield self.stop

    def is_empty(self) -> bool:
        """Return whether no key can lie in the range."""
        return bool(self.stop) and (self.start or b"\x00") >= self.stop

    def is_tiled_by(self, parts: Sequence[Any]) -> bool:
        """Return whether the non-empty parts follow each other from start to stop."""
        position: bytes | None = self.start or b"\x00"  # no key lies before b"\x00"
        for part in parts:
            if not isinstance(part, ByteKeyRange):
                return False
            if part.is_empty():
                continue
            if (part.start or b"\x00") != position:
                return False
            position = part.stop or None  # None: past every key, where nothing can start
        return position == (self.stop or None) or (self.is_empty() and position == (self.start or b"\x00"))


def part_of(whole: Any, start: Any, stop: Any) -> Any:
    """Return the part of a range from ``start`` up to ``stop``; it keeps the other attributes of a subclass.

    Raises:
        InvalidTypeError: if the subclass has attributes that a part would lose.
    """
    kind = type(whole)
    if kind is OffsetRange or kind is ByteKeyRange:
        return kind(start, stop)
    if hasattr(whole, "__dict__"):
        known = {field.name for field in attrs.fields(kind) if field.init}
        if lost := sorted(vars(whole).keys() - known):
            raise InvalidTypeError(
                f"parts of {show(whole)} would lose {', '.join(lost)}. Declare them as fields: put @attrs.frozen "
                f"before class {kind.__name__}."
            )
    if start is whole.start and stop is whole.stop:
        return whole
    return attrs.evolve(whole, start=start, stop=stop)


def as_restriction(value: Any, who: str) -> Any:
    """Return ``value`` as a restriction: a plain ``(start, stop)`` tuple of integers becomes an `OffsetRange`.

    Raises:
        InvalidTypeError: if ``value`` is no restriction; the message begins with ``who``, such as "it returned".
        InvalidValueError: if the tuple is reversed.
    """
    if type(value) is OffsetRange:  # the usual one, several times per element: the checks below take a microsecond
        return value
    if value is None:
        raise InvalidTypeError(f"{who} None, which is not a restriction. Return one, such as OffsetRange(0, size).")
    if isinstance(value, Generator):
        raise InvalidTypeError(
            f"{who} a generator, which is not a restriction. Return the restriction, do not yield it."
        )
    if isinstance(value, (bool, int, float, str, bytes)):
        raise InvalidTypeError(
            f"{who} {show(value)}, which is not a restriction. Use a range such as OffsetRange(start, stop), "
            f"a (start, stop) tuple of integers, or a value of your own with its create_tracker()."
        )
    if (
        type(value) is tuple
        and len(value) == 2
        and all(isinstance(v, (int, float, Unbounded)) or is_integer(as_integer(v)) for v in value)
    ):
        try:
            return OffsetRange(*value)
        except (InvalidTypeError, InvalidValueError) as error:
            raise type(error)(f"{who} {show(value)}: {error}") from None
    return value


def tiling_flaw(whole: Any, parts: Sequence[Any], size: Callable[[Any], float | None]) -> str | None:
    """Return why ``parts``, in order, are not exactly ``whole``, or None if they are.

    The module's docstring lists the three proofs and their order.

    Args:
        whole: a restriction.
        parts: restrictions, in the order of the work they name.
        size: returns the size of a restriction; called only if the first two proofs are not available.
    """
    prove = getattr(whole, "is_tiled_by", None)
    if prove is not None:
        return None if prove(parts) else f"{show(whole)} is not tiled by {_list(parts)}"
    if hasattr(whole, "start") and hasattr(whole, "stop"):
        position = whole.start
        for part in parts:
            if not (hasattr(part, "start") and hasattr(part, "stop")):
                return f"{show(part)} is not a part of {show(whole)}: it has no start and stop"
            if part.start != position:
                kind = "overlaps or repeats" if _precedes(part.start, position) else "leaves a gap after"
                return f"{show(part)} {kind} {show(position)} in {show(whole)}"
            if _precedes(part.stop, part.start):
                return f"{show(part)} runs backwards in {show(whole)}"
            position = part.stop
        if position != whole.stop:
            return f"the parts {_list(parts)} stop at {show(position)}, not at the stop of {show(whole)}"
        return None
    sizes = [size(part) for part in parts]
    total = size(whole)
    if total is None or any(one is None for one in sizes):
        return (
            f"nothing proves that {_list(parts)} add up to {show(whole)}: give the restriction start and stop, "
            f"a method is_tiled_by(parts), or an exact restriction_size()"
        )
    found, exact = _sum([one for one in sizes if one is not None])
    rounded = not (exact and _is_whole(total)) and math.isclose(found, total, rel_tol=1e-9, abs_tol=1e-9)
    if found != total and not rounded:
        return f"the parts {_list(parts)} have size {found} in all, {show(whole)} has size {total}"
    return None


def _sum(sizes: Sequence[float]) -> tuple[float, bool]:
    """Return the sum of sizes, and whether it is exact: a sum of whole numbers is, any other may be rounded."""
    if all(map(_is_whole, sizes)):
        return sum(map(int, sizes)), True
    return math.fsum(sizes), False


def _is_whole(size: float) -> bool:
    """Return whether a size is certainly whole; a float of 2**53 or more always is, so it may have been rounded."""
    return isinstance(size, int) or (size < 2**53 and size == math.floor(size))


def _precedes(one: Any, other: Any) -> bool:
    try:
        return bool(one < other)
    except TypeError:
        return False


def _list(parts: Sequence[Any]) -> str:
    shown = ", ".join(show(part) for part in parts[:6])
    return f"[{shown}, ... {len(parts)} in all]" if len(parts) > 6 else f"[{shown}]"
