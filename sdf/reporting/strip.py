"""Where in an element the time was spent: a strip over the positions of its initial restriction.

Positions are the numbers, or the byte keys, at which its restrictions start and stop. The seconds of each piece are
spread evenly over its positions. Pieces are smaller where work is slow, so a slow region is visible although nothing is
measured per position. The seconds to open a piece belong to no position and are left out.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import attrs

from sdf.errors import show
from sdf.reporting.html import text
from sdf.reporting.pieces import PieceRun

__all__ = ["Strip", "strip"]

_WIDTH = 1000.0
_COLUMNS = 250
_TOP, _HEIGHT = 16.0, 64.0
_TICKS = 4
_FEWEST = 2  # pieces: one piece shows only a mean
_ALIKE = 0.02  # share of the highest column: columns that differ by less are drawn as one
_REGION = 0.2  # share of the positions: a region is reported if at most this share holds half of the time
_LONGEST = 10**200
_KEY_BYTES = 16  # of a key that count, after the common prefix
_SHOWN_BYTES = 3  # of a key in a label, after the common prefix
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@attrs.frozen
class _Axis:
    """Maps positions to 0 (the lowest) to 1 (the highest).

    Args:
        low: the lowest position, as a number.
        high: the highest position, as a number.
        prefix: the common prefix of all byte keys; None if positions are numbers.
    """

    low: Any
    high: Any
    prefix: bytes | None

    def at(self, position: Any) -> float:
        """Return where a position lies, 0 to 1; raise ValueError if it is of another kind."""
        number = _number(position) if self.prefix is None else _key_number(position, self.prefix)
        return float((number - self.low) / (self.high - self.low))

    def label(self, share: float) -> str:
        """Return the text of the position at this share of the axis; for byte keys it is approximate."""
        number = self.low + Fraction(share).limit_denominator(1 << 20) * (self.high - self.low)
        if self.prefix is not None:
            key = int(max(0, min(number, 256**_KEY_BYTES - 1))).to_bytes(_KEY_BYTES, "big")
            return show(self.prefix + key[:_SHOWN_BYTES].rstrip(b"\0"), 24)
        if isinstance(self.low, int) and isinstance(self.high, int) and self.high - self.low >= _TICKS:
            return f"{round(number):,}"
        return f"{float(number):.6g}"


def _number(position: Any) -> Any:
    if isinstance(position, Integral):
        return int(position)
    if isinstance(position, Real):
        return Fraction(float(position))
    raise ValueError(f"{position!r} is no number")


def _key_number(key: Any, prefix: bytes) -> int:
    if not isinstance(key, bytes):
        raise ValueError(f"{key!r} is no key")
    return int.from_bytes(key[len(prefix) :][:_KEY_BYTES].ljust(_KEY_BYTES, b"\0"), "big")


@attrs.frozen
class Strip:
    """The seconds of an element by position.

    Attributes:
        axis: the axis of its positions.
        columns: the seconds of each of `_COLUMNS` equal stretches of the axis.
        marks: for each slow block, where it lies on the axis, 0 to 1, and its tooltip.
    """

    axis: _Axis
    columns: tuple[float, ...]
    marks: tuple[tuple[float, str], ...]

    def says(self) -> str:
        """Return where half of the time was spent, if in <= 20 % of positions, and the cost of the slowest column."""
        total, highest = sum(self.columns), max(self.columns)
        slowest = self._slowest()
        says = f"its slowest part took {self._cost(highest)}, {highest * _COLUMNS / total:.1f} times the mean"
        if len(slowest) > _REGION * _COLUMNS:
            return says
        region = max(_adjacent(slowest), key=self._seconds)
        where = f"from {self._label(region[0])} to {self._label(region[-1] + 1)}"
        part = f"at least half of its time was spent in {max(0.01, len(slowest) / _COLUMNS):.0%} of it"
        if len(region) == len(slowest):
            part += f", {where}"
        elif self._seconds(region) > self._seconds(slowest) / 2:
            part += f", mostly {where}"
        return f"{part}; {says}"

    def _slowest(self) -> list[int]:
        """Return the slowest columns that together hold half of the time or more, in order of position.

        Adjacent columns of like height are taken together: it is unknown where in a piece its time was spent.
        """
        slowest: list[int] = []
        held, half = 0.0, sum(self.columns) / 2
        for first, count, seconds in sorted(self._steps(), key=lambda step: -step[2]):
            if held >= half:
                break
            slowest += range(first, first + count)
            held += count * seconds
        return sorted(slowest)

    def _seconds(self, columns: list[int]) -> float:
        return sum(self.columns[column] for column in columns)

    def _label(self, column: int) -> str:
        return self.axis.label(column / _COLUMNS)

    def _cost(self, seconds: float) -> str:
        """Return the mean cost in a column of this many seconds: per position, or for byte keys per column."""
        if self.axis.prefix is not None:
            return f"{_duration(seconds)} per {1 / _COLUMNS:.1%} of the keys on average"
        return f"{_duration(seconds * _COLUMNS / float(self.axis.high - self.axis.low))} per position on average"

    def svg(self, colour: str) -> Iterator[str]:
        """Yield the SVG; ``colour`` is the CSS class of its bars."""
        total, highest = _TOP + _HEIGHT + 18, max(self.columns)
        yield f'<svg viewBox="0 0 {_WIDTH:g} {total:g}" role="img" aria-label="seconds by position">'
        for tick in range(_TICKS + 1):
            x = tick * _WIDTH / _TICKS
            anchor = "start" if tick == 0 else "end" if tick == _TICKS else "middle"
            inset = 4 if tick == 0 else -4 if tick == _TICKS else 0
            yield f'<line x1="{x:g}" y1="0" x2="{x:g}" y2="{_TOP + _HEIGHT:g}"/>'
            label = text(self.axis.label(tick / _TICKS))
            yield f'<text x="{x + inset:g}" y="{total - 5:g}" text-anchor="{anchor}">{label}</text>'
        width = _WIDTH / _COLUMNS
        for first, count, seconds in self._steps():
            height = max(_HEIGHT * seconds / highest, 0.5)
            where = f"{self._label(first)} to {self._label(first + count)}"
            says = f"{where}: {_duration(seconds * count)}, {self._cost(seconds)}"
            yield (
                f'<rect class={colour} x="{first * width:g}" y="{_TOP + _HEIGHT - height:.1f}" '
                f'width="{count * width:g}" height="{height:.1f}"><title>{text(says)}</title></rect>'
            )
        for share, says in self.marks:
            x = min(max(share * _WIDTH, 6), _WIDTH - 6)
            yield f'<path d="M{x - 5:.1f} 2h10l-5 9z"><title>{text(says)}</title></path>'
        yield "</svg>"

    def _steps(self) -> Iterator[tuple[int, int, float]]:
        """Yield runs of like, non-empty columns: the first column, the count, and the mean seconds per column."""
        alike, first = _ALIKE * max(self.columns), 0
        for column, seconds in enumerate((*self.columns, math.inf)):
            if abs(seconds - self.columns[first]) <= alike and (seconds > 0) == (self.columns[first] > 0):
                continue
            if self.columns[first] > 0:
                yield first, column - first, sum(self.columns[first:column]) / (column - first)
            first = column


def strip(pieces: Sequence[PieceRun], slow_blocks: Sequence[tuple[Any, str, float]]) -> Strip | None:
    """Return the strip of an element; None if its positions cannot be placed on an axis or it has too few pieces.

    Args:
        pieces: all pieces of the element.
        slow_blocks: the slow blocks of the run; those whose element is the same object are marked.
    """
    work = [piece for piece in pieces if piece.restriction is not None]
    try:
        axis, spans = _placed([(piece.restriction.start, piece.restriction.stop) for piece in work])
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None  # no start and stop, or one that is neither a number nor a key
    columns = [0.0] * _COLUMNS
    for piece, (start, stop) in zip(work, spans, strict=True):
        _spread(columns, start, stop, max(0.0, piece.seconds - piece.opening_seconds))
    if len(work) < _FEWEST or not max(columns) > 0:
        return None
    marks = [
        (share, f"slow block: at least {seconds:,.2f} s at {position}")
        for element, position, seconds in slow_blocks
        if element is work[0].element and (share := _share(axis, position)) is not None
    ]
    return Strip(axis, tuple(columns), tuple(marks))


def _placed(ends: list[tuple[Any, Any]]) -> tuple[_Axis, list[tuple[float, float]]]:
    """Return the axis of restrictions, and where each starts and stops on it; raise if there is no axis."""
    keys = sorted({key for pair in ends for key in pair if isinstance(key, bytes) and key})
    if not keys:
        axis = _axis([_number(start) for start, _ in ends], [_number(stop) for _, stop in ends], None)
        return axis, [(axis.at(start), axis.at(stop)) for start, stop in ends]
    prefix = _common(keys[0], keys[-1])
    numbers = [_key_number(key, prefix) for key in keys]
    # How much lies before the first known key and after the last is unknown: each gets the mean width.
    margin = (numbers[-1] - numbers[0]) // len(keys)
    low = numbers[0] - (margin if any(not start for start, _ in ends) else 0)
    high = numbers[-1] + (margin if any(not stop for _, stop in ends) else 0)
    axis = _axis([low], [high], prefix)
    return axis, [(axis.at(start) if start else 0.0, axis.at(stop) if stop else 1.0) for start, stop in ends]


def _adjacent(columns: list[int]) -> list[list[int]]:
    """Return columns in groups of adjacent ones."""
    groups: list[list[int]] = []
    for column in columns:
        if groups and groups[-1][-1] == column - 1:
            groups[-1].append(column)
        else:
            groups.append([column])
    return groups


def _common(one: bytes, other: bytes) -> bytes:
    """Return the common prefix of two keys."""
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def _axis(starts: list[Any], stops: list[Any], prefix: bytes | None) -> _Axis:
    low, high = min(starts), max(stops)
    if not low < high or high - low > _LONGEST:
        raise ValueError("all of it is one position, or it is longer than floats can tell")
    return _Axis(low, high, prefix)


def _spread(columns: list[float], start: float, stop: float, seconds: float) -> None:
    """Spread seconds over the columns from ``start`` to ``stop``, in proportion to the overlap with each."""
    first = min(max(int(start * _COLUMNS), 0), _COLUMNS - 1)
    last = min(max(int(stop * _COLUMNS), first), _COLUMNS - 1)
    if stop <= start or first == last:
        columns[first] += seconds
        return
    for column in range(first, last + 1):
        inside = min(stop, (column + 1) / _COLUMNS) - max(start, column / _COLUMNS)
        columns[column] += seconds * max(0.0, inside) / (stop - start)


def _share(axis: _Axis, position: str) -> float | None:
    """Return where a position that is given as text lies, 0 to 1; None if that cannot be found out."""
    try:
        share = axis.at(ast.literal_eval(position))
    except (ValueError, TypeError, SyntaxError, OverflowError):
        return None
    return share if 0 <= share <= 1 else None


def _duration(seconds: float) -> str:
    """Return seconds as text, in the largest unit in which the number is 1 or more, else in ns."""
    factor, unit = next((one for one in _UNITS if seconds >= one[0]), _UNITS[-1])
    number = seconds / factor
    return f"{number:,.0f} {unit}" if number >= 99.5 else f"{number:.3g} {unit}"
