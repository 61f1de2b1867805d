"""Draws charts as SVG: grids of numbers, bars, and lines on logarithmic scales.

Each chart has its own background and two sets of colours, so it is readable on light pages and on dark ones.
"""

import math
import textwrap
from html import escape

import attrs

WIDTH = 820
LINE = 17  # the height of a line of text
LETTER = 6.9  # the width of a letter, about
PANEL = WIDTH / 2
DEEPEST = 0.55  # so that the number in a cell can still be read

STYLE = """
.back { fill: #f6f8fa; stroke: #d1d9e0; } .axis { stroke: #d1d9e0; fill: none; }
text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #1f2328; } text.soft { fill: #656d76; }
text.title { font-weight: 600; }
.live { fill: #d1495b; stroke: #d1495b; } .staged { fill: #2f6fb2; stroke: #2f6fb2; }
.hand { fill: #c77d0a; stroke: #c77d0a; } .plain { fill: #87919c; stroke: #87919c; }
.behind { fill: #c77d0a; } .ahead { fill: #2f6fb2; } polyline { stroke-width: 2; } .line { fill: none; }
text.live, text.staged, text.hand, text.plain { stroke: none; } text.hand { fill: #8f5600; }
text.plain { fill: #656d76; } text.label { paint-order: stroke; stroke: #f6f8fa; stroke-width: 4px; }
@media (prefers-color-scheme: dark) {
.back { fill: #151b23; stroke: #3d444d; } .axis { stroke: #3d444d; }
text { fill: #e6edf3; } text.soft { fill: #9198a1; }
.live { fill: #ff7b89; stroke: #ff7b89; } .staged { fill: #6cb0f5; stroke: #6cb0f5; }
.hand { fill: #f0b24a; stroke: #f0b24a; } .plain { fill: #9aa4b0; stroke: #9aa4b0; } .line { fill: none; }
text.hand { fill: #f0b24a; } text.plain { fill: #9aa4b0; } text.label { stroke: #151b23; }
}
"""


@attrs.frozen
class Cell:
    """A number of a grid, whether sdf is ``ahead`` or ``behind`` there, and by how much, from 0 to 1."""

    says: str
    colour: str
    depth: float


@attrs.frozen
class Grid:
    """A table of cells, None where there is no number; a column is a pair: what stands above several, and its name."""

    title: str
    columns: list[tuple[str, str]]
    rows: dict[str, list[Cell | None]]

    @property
    def label_width(self):
        return 26 + LETTER * max(map(len, [self.title, *self.rows]))


@attrs.frozen
class Bar:
    """A bar, and what stands beside it."""

    name: str
    value: float
    says: str
    colour: str


@attrs.frozen
class Bars:
    """Bars that share a scale, which begins at 0."""

    title: str
    bars: list[Bar]


@attrs.frozen
class Plot:
    """Lines on logarithmic scales, by their colour; points are (x, y, what stands beside it)."""

    title: str
    x_unit: str
    y_form: str
    lines: dict[str, list[tuple[float, float, str]]]


def text(x, y, says, classes="", anchor="start"):
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{classes}" text-anchor="{anchor}">{escape(says)}</text>'


def svg(title, parts, height):
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="back" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="6"/>',
            *parts,
            "</svg>\n",
        ]
    )


def stacked(title, drawings):
    """Draw one beneath the other; each is a function of where its top is, and gives its parts and its height."""
    parts, top = [text(16, 26, title, "title")], 36
    for drawing in drawings:
        more, height = drawing(top)
        parts += more
        top += height
    return svg(title, parts, top + 10)


def grids(drawn):
    """Return drawings of grids whose columns stand beneath one another."""
    labels = max(grid.label_width for grid in drawn)
    width = min(90, (WIDTH - 12 - labels) / max(len(grid.columns) for grid in drawn))
    return [lambda top, grid=grid: one_grid(grid, labels, width, top) for grid in drawn]


def one_grid(grid, labels, width, top):
    """Return the parts of a grid, and its height."""
    middles = [labels + width * (number + 0.5) for number in range(len(grid.columns))]
    heads = [textwrap.wrap(name, int(width / LETTER), break_long_words=False) for _, name in grid.columns]
    groups = {}
    for (group, _), middle in zip(grid.columns, middles, strict=True):
        groups.setdefault(group, []).append(middle)
    parts, y = [text(16, top + LINE, grid.title, "title")], top + LINE * any(groups)
    parts += [
        text((beneath[0] + beneath[-1]) / 2, y, group, "", "middle") for group, beneath in groups.items() if group
    ]
    y += LINE * max(map(len, heads))
    for lines, middle in zip(heads, middles, strict=True):
        for number, line in enumerate(reversed(lines)):
            parts += [text(middle, y - LINE * number, line, "soft", "middle")]
    y += 6
    for name, cells in grid.rows.items():
        parts += [text(16, y + 16, name)]
        for cell, middle in zip(cells, middles, strict=True):
            if cell is not None:
                x, opacity = middle - width / 2 + 1, DEEPEST * min(max(cell.depth, 0.0), 1.0)
                where = f'x="{x:.1f}" y="{y + 1}" width="{width - 2:.1f}" height="20" rx="3"'
                parts += [f'<rect class="{cell.colour}" {where} opacity="{opacity:.2f}"/>']
                parts += [text(middle, y + 16, cell.says, "", "middle")]
        y += 22
    return parts, y - top + 8


def key(names):
    """Return a drawing that says which colour is what."""

    def at(top):
        parts, x = [], 16
        for name, colour in names.items():
            parts += [f'<rect class="{colour}" x="{x}" y="{top + 5}" width="10" height="10" rx="2"/>']
            parts += [text(x + 16, top + 14, name)]
            x += 40 + round(LETTER * len(name))
        return parts, 26

    return at


def side_by_side(draw, panels):
    """Return a drawing of panels, two in a row."""

    def at(top):
        parts, y = [], top
        for number in range(0, len(panels), 2):
            drawn = [draw(panel, left, y) for panel, left in zip(panels[number:], (0, PANEL), strict=False)]
            parts += [part for more, _ in drawn for part in more]
            y += max(height for _, height in drawn)
        return parts, y - top

    return at


def bars(panel, left, top):
    """Return the parts of a panel of bars, and its height."""
    parts = [text(left + 16, top + LINE, panel.title, "title")]
    start = left + 30 + LETTER * max(len(bar.name) for bar in panel.bars)
    longest = left + PANEL - 28 - start - LETTER * max(len(bar.says) for bar in panel.bars)
    most = max(bar.value for bar in panel.bars)
    for number, bar in enumerate(panel.bars):
        y, width = top + LINE + 10 + 22 * number, max(1.0, longest * bar.value / most)
        parts += [
            text(left + 16, y + 14, bar.name),
            f'<rect class="{bar.colour}" x="{start:.0f}" y="{y + 2:.0f}" width="{width:.1f}" height="15" rx="2"/>',
            text(start + width + 6, y + 14, bar.says),
        ]
    return parts, LINE + 24 + 22 * len(panel.bars)


def ticks(low, high):
    """Return round numbers from ``low`` to ``high``: powers of ten, and between them 2 and 5 if there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if high / low > 200 else (1, 2, 5)
    found = [round(factor * 10.0**power, 9) for power in powers for factor in factors]
    return [tick for tick in found if low <= tick <= high * 1.0001]


def plot(panel, left, top):
    """Return the parts of a panel of lines, and its height."""
    xs = sorted({x for line in panel.lines.values() for x, _, _ in line})
    ys = [y for line in panel.lines.values() for _, y, _ in line]
    low, high = min(ys), max(ys)
    first, last, upper, lower = left + 84, left + PANEL - 40, top + LINE + 28, top + 250

    def across(x):
        return first + (last - first) * math.log(x / xs[0]) / math.log(xs[-1] / xs[0]) if len(xs) > 1 else first

    def down(y):
        return lower - (lower - upper) * math.log(y / low) / math.log(high / low) if high > low else lower

    parts = [text(left + 16, top + LINE, panel.title, "title")]
    for tick in ticks(low, high):
        parts += [
            f'<path class="axis" d="M{first - 14:.0f} {down(tick):.0f}H{last + 24:.0f}"/>',
            text(first - 28, down(tick) + 5, panel.y_form.format(tick), "soft", "end"),
        ]
    parts += [text(across(x), lower + 38, f"{x:,}", "soft", "middle") for x in xs]
    parts += [text((first + last) / 2, lower + 38 + LINE, panel.x_unit, "soft", "middle")]
    for colour, line in panel.lines.items():
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y, _ in line)
        parts += [f'<polyline class="{colour} line" points="{path}"/>']
    for x in xs:
        here = [(down(y), says, colour) for colour, line in panel.lines.items() for at, y, says in line if at == x]
        (y, says, colour), *above = sorted(here, key=lambda each: -each[0])
        parts += [text(across(x), y + 18, says, f"{colour} label", "middle")]  # the lowest stands beneath its point
        for y_of_point, says, colour in above:  # the others above theirs, and above one another
            y = min(y_of_point - 8, y - 14)
            parts += [text(across(x), y, says, f"{colour} label", "middle")]
    for colour, line in panel.lines.items():
        parts += [f'<circle class="{colour}" cx="{across(x):.1f}" cy="{down(y):.1f}" r="2.5"/>' for x, y, _ in line]
    return parts, lower - top + 44 + LINE
