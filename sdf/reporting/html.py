"""Pages for browsers in plain HTML and SVG: one file, no script, no network; light or dark as the browser is set.

``page.html`` beside this module is what all pages have in common.

Boxes too narrow to be seen are drawn together with their neighbours, so a page stays small for a run of any size.
"""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape as text
from os import PathLike
from string import Template

import attrs

__all__ = ["COLOURS", "MOST_ROWS", "Box", "bars", "document", "figures", "steps", "table", "text", "timeline", "write"]

COLOURS = 8
MOST_ROWS = 256

_WIDTH = 1000.0
_MOST_BOXES = 12_000
_MOST_BARS = 500
_NARROWEST = 0.4
_MOST_TICKS = 10
_GOES_ON_WIDTH = 200.0  # room for the text "goes on until ...", in which no tick has a label


@attrs.frozen
class Box:
    """A box of the timeline: its slot, begin and end in seconds, CSS class for the colour, and tooltip."""

    row: int
    began: float
    end: float
    colour: str
    says: str


def resource(name: str) -> str:
    """Return a file of this package as text."""
    return importlib.resources.files("sdf.reporting").joinpath(name).read_text("utf-8")


def document(title: str, parts: Iterable[str]) -> str:
    """Return a whole page made of HTML parts."""
    return Template(resource("page.html")).substitute(title=text(title), body="\n".join(filter(None, parts)))


def write(path: str | PathLike[str], page: str) -> None:
    """Write a page, replacing an existing file; lone surrogates, which cannot be encoded, become question marks."""
    content = page.encode("utf-8", "replace")
    with open(path, "wb") as file:
        file.write(content)


def figures(pairs: Iterable[tuple[str, str]]) -> str:
    """Return numbers in a row, from pairs of a number and its caption."""
    return f"<div class=figures>{''.join(f'<div><b>{text(b)}</b><span>{text(s)}</span></div>' for b, s in pairs)}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers are aligned to the right."""
    cells = "".join(f"<th>{text(name)}</th>" for name in head)
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{lines}</table>"


def _cell(value: object) -> str:
    if isinstance(value, (int, float)):
        return f"<td class=n>{value:,.2f}</td>" if isinstance(value, float) else f"<td class=n>{value:,}</td>"
    return f"<td>{text(str(value))}</td>"


def _rect(colour: str, x: float, y: float, width: float, height: float, says: str, pale: str = "") -> str:
    """Return a rectangle of an SVG with a tooltip; ``pale`` is one more attribute, with a space before it."""
    where = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{pale}'
    return f"<rect class={colour} {where}><title>{text(says)}</title></rect>"


def timeline(
    boxes: list[Box], rows: int, span: float, *, most_rows: int = MOST_ROWS, most_boxes: int = _MOST_BOXES
) -> Iterator[str]:
    """Yield the SVG of a timeline.

    Args:
        boxes: the boxes. What lies after ``span`` is cut off, and a text says when the last box ends.
        rows: the number of rows, empty ones included.
        span: the seconds that the timeline shows.
        most_rows: rows from this number on are not drawn.
        most_boxes: about the most boxes drawn; boxes that lie closer together are drawn as one.
    """
    drawn = min(rows, most_rows)
    height = 22.0 if drawn <= 16 else 10.0 if drawn <= 64 else 3.0
    scale = _WIDTH / span if span > 0 else 0.0
    total = drawn * height + 18
    yield f'<svg viewBox="0 0 {_WIDTH:g} {total:g}" role="img" aria-label="timeline of {rows} slots">'
    end = max((box.end for box in boxes), default=0.0)
    goes_on = end > 1.001 * span
    for tick in _ticks(span):
        x = tick * scale
        yield f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{total - 16:g}"/>'
        if not goes_on or x < _WIDTH - _GOES_ON_WIDTH:
            yield f'<text x="{x + 2:.1f}" y="{total - 4:g}">{tick:g} s</text>'
    narrowest = max(_NARROWEST, _WIDTH * drawn / most_boxes)
    by_row: list[list[Box]] = [[] for _ in range(drawn)]
    for box in boxes:
        if box.row < drawn and box.began < span:
            by_row[box.row].append(box)
    for row, in_row in enumerate(by_row):
        for group in _joined(sorted(in_row, key=lambda box: box.began), narrowest / scale if scale else 0.0):
            yield _drawn(group, scale, row * height + 1, height - (2 if height > 4 else 1), narrowest)
    if goes_on:
        where = f'x="{_WIDTH - 6:g}" y="{total - 4:g}" text-anchor="end"'
        yield f"<text class=mark {where}>goes on until {end:,.2f} s</text>"
    yield "</svg>"


def _joined(boxes: list[Box], together_seconds: float) -> Iterator[list[Box]]:
    """Yield the boxes of a row in groups, each of boxes that begin within this many seconds."""
    held: list[Box] = []
    for box in boxes:
        if held and box.began - held[0].began >= together_seconds:
            yield held
            held = []
        held.append(box)
    if held:
        yield held


def _drawn(boxes: list[Box], scale: float, y: float, height: float, narrowest: float) -> str:
    """Return the one rectangle of some boxes; the smaller the share of it that they fill, the paler it is."""
    longest = max(boxes, key=lambda box: box.end - box.began)
    more = f"; and {len(boxes) - 1:,} more here" if len(boxes) > 1 else ""
    began, end = boxes[0].began * scale, min(max(box.end for box in boxes) * scale, _WIDTH)
    width = max(end - began, narrowest)
    filled = sum(box.end - box.began for box in boxes) * scale / width
    pale = "" if filled > 0.9 else f' opacity="{max(filled, 0.15):.2f}"'
    return _rect(longest.colour, began, y, width, height, longest.says + more, pale)


def _ticks(span: float) -> Iterator[float]:
    """Yield round numbers of seconds: steps of 1, 2 or 5 times a power of ten."""
    if span <= 0:
        return
    power = 10.0 ** math.floor(math.log10(span / _MOST_TICKS))
    step = next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= _MOST_TICKS)
    for number in range(int(0.9 * span / step) + 1):
        yield round(number * step, 9)


def bars(values: Sequence[tuple[float, str]], unit: str) -> Iterator[str]:
    """Yield the SVG of a bar for each value; of too many values, one bar for some neighbours, as high as the highest.

    Args:
        values: pairs of a height, not negative, and a tooltip.
        unit: the unit of the heights, for the axis.
    """
    together = max(1, -(-len(values) // _MOST_BARS))
    groups = [values[first : first + together] for first in range(0, len(values), together)]
    highest = max((value for value, _ in values), default=0.0)
    width = _WIDTH / max(len(groups), 1)
    yield f'<svg viewBox="0 0 {_WIDTH:g} 130" role="img" aria-label="{len(values)} values">'
    for number, group in enumerate(groups):
        value, says = max(group)
        height = 100 * value / highest if highest > 0 else 0.0
        yield _rect("c1", number * width, 115 - height, max(width - 1, 0.5), height, says)
    yield f'<text x="4" y="12">{highest:,.4g} {text(unit)}</text></svg>'


def steps(points: Sequence[tuple[float, int]], end: float, unit: str) -> Iterator[str]:
    """Yield the SVG of a number over time.

    Args:
        points: pairs of a time in seconds and the number from then on.
        end: the time in seconds at which the drawing ends.
        unit: the unit of the number, for the axis.
    """
    points = [*points[: -1 : max(1, len(points) // _MOST_BARS)], *points[-1:]]
    highest = max((number for _, number in points), default=0)
    scale = _WIDTH / end if end > 0 else 0.0
    ends = [*(at for at, _ in points[1:]), end]
    yield f'<svg viewBox="0 0 {_WIDTH:g} 100" role="img" aria-label="{unit} over time">'
    for (at, number), upto in zip(points, ends, strict=True):
        height = 74 * number / highest if highest else 0.0
        says = f"{number:,} {unit} from {at:.2f} s on"
        yield _rect("c1", at * scale, 90 - height, max(upto - at, 0.0) * scale, height, says)
    yield f'<text x="4" y="12">{highest:,} {text(unit)}</text></svg>'
