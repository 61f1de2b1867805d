"""Where check_dofn splits: after which claims, and which share of the unclaimed work the primary keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from numbers import Real
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.model.restrictions import OffsetRange
from sdf.numbers import as_integer

__all__ = ["MOST_CLAIMS", "as_fractions", "cuts"]

MOST_CLAIMS = 40  # to split at; of more claims, so many are used, spread evenly, with the first and the last


def as_fractions(value: Any, who: str) -> tuple[float | Fraction, ...]:
    """Return shares of remaining work; raise unless they are numbers from 0 to 1."""
    given = tuple(value) if isinstance(value, Iterable) else value
    message = f"{who} fractions must be an iterable of numbers from 0 to 1, such as (0.0, 0.5) (got {show(given)})."
    if not isinstance(given, tuple) or any(isinstance(one, bool) or not isinstance(one, Real) for one in given):
        raise InvalidTypeError(message)
    if not all(0 <= one <= 1 for one in given):
        raise InvalidValueError(message)
    return tuple(one if isinstance(one, Fraction) else float(one) for one in given)


def cuts(
    whole: Any, made: int, positions: list[Any], fractions: tuple[float | Fraction, ...]
) -> Iterator[tuple[int, int, float | Fraction]]:
    """Yield the splits to try: the claim to split after, the number of the fraction there, and the fraction.

    A check may run out of time, so any first part of them covers all claims and fractions: each round has every chosen
    claim once, in bit-reversed order, and the fractions in turn.
    """
    claims = _spread(made)
    width = len(claims).bit_length()
    claims = [at for _, at in sorted((int(f"{place:0{width}b}"[::-1], 2), at) for place, at in enumerate(claims))]
    tried = [[*fractions, *_near_next_block(whole, positions, at)] for at in claims]
    for turn in range(max(map(len, tried), default=0)):
        for place, (at, here) in enumerate(zip(claims, tried, strict=True)):
            if turn < len(here):
                number = (turn + place) % len(here)
                yield at, number, here[number]


def _near_next_block(whole: Any, positions: list[Any], at: int) -> list[Fraction]:
    """Return the fractions that cut an offset range 1 before, at, and 1 after the start of the block after a claim."""
    if not isinstance(whole, OffsetRange) or at >= len(positions):
        return []
    claimed, following = as_integer(positions[at - 1]), as_integer(positions[at])
    cuts = (cut for cut in (following - 1, following, following + 1) if claimed < cut < whole.stop)
    return [Fraction(cut - claimed, whole.stop - claimed) for cut in cuts]


def _spread(claims: int) -> list[int]:
    if claims <= MOST_CLAIMS:
        return list(range(1, claims + 1))
    return sorted({1 + number * (claims - 1) // (MOST_CLAIMS - 1) for number in range(MOST_CLAIMS)})
