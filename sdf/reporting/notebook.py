"""A run as HTML in a notebook: its summary, what each slot did, and where its longest element spent the time.

The HTML is stored in the notebook, so it is small. It suits any theme, even one that the browser does not know: colours
lie between light and dark, text has the notebook's colour, and lines and cards are translucent. All classes begin with
``sdf-`` and every rule stands below ``.sdf-run``, so that the rest of the page does not change.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from sdf.reporting.html import text, timeline
from sdf.reporting.pieces import pieces_by_element
from sdf.reporting.run_facts import RunFacts
from sdf.reporting.strip import strip
from sdf.reporting.timelines import as_it_was, colours_of, key

__all__ = ["fragment"]

_MOST_ROWS = 32
_MOST_BOXES = 300
_COLOURS = ("#e05563", "#4a8fd6", "#3fa66f", "#d99326", "#9a76d8", "#2fa5a7", "#c4749e", "#8f9d33")
_GREY, _LINE = "rgba(128,138,150,", "rgba(128,128,128,.3)"

_STYLE = "".join(
    f".sdf-run {rule}"
    for rule in (
        f"{{border:1px solid {_LINE};border-radius:8px;padding:12px 16px;max-width:960px}}",
        "{font-family:system-ui,sans-serif;font-size:13px;line-height:1.5;color:inherit}",
        ".sdf-name{font-size:15px;font-weight:600}",
        ".sdf-soft{opacity:.7;font-weight:400}",
        ".sdf-says{overflow-wrap:anywhere}",
        "svg+.sdf-says{margin-top:10px}",
        ".sdf-key{margin:10px 0 4px}",
        ".sdf-key>span{margin-right:16px;display:inline-block}",
        "i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}",
        f"svg{{display:block;width:100%;height:auto;background:{_GREY}.1);border:1px solid {_LINE};border-radius:6px}}",
        "text{font:11px system-ui,sans-serif;fill:currentColor;opacity:.7}",
        f"line{{stroke:{_LINE}}}",
        "path{fill:currentColor}",
        f".sdf-o{{fill:{_GREY}.8)}}",
        f".sdf-p{{fill:{_GREY}.5)}}",
        *(f".sdf-c{number}{{fill:{colour};background:{colour}}}" for number, colour in enumerate(_COLOURS)),
    )
)


def fragment(report: RunFacts, headlines: Sequence[str], details: Sequence[str]) -> str:
    """Return HTML to embed in other HTML.

    Args:
        report: the report of the run.
        headlines: the lines above the timeline; the first begins with the name of the DoFn.
        details: the lines below the timeline.
    """
    name, _, what = headlines[0].partition(": ")
    parts = [
        f"<style>{_STYLE}</style>",
        f"<div class=sdf-name>{text(name)} <span class=sdf-soft>{text(what)}</span></div>",
        *(f"<div class=sdf-says>{text(line)}</div>" for line in headlines[1:]),
        *_drawn(report),
        *(f"<div class=sdf-says>{text(line)}</div>" for line in details),
    ]
    return f"<div class=sdf-run>{''.join(parts)}</div>"


def _drawn(report: RunFacts) -> list[str]:
    if not report.pieces:
        return []
    colours = colours_of(report.pieces)
    rows, boxes = as_it_was(report, colours)
    boxes = [attrs.evolve(box, colour=f"sdf-{box.colour}") for box in boxes]
    span = max(box.end for box in boxes)
    parts = [
        key(report.pieces, colours, "sdf-"),
        *timeline(boxes, rows, span, most_rows=_MOST_ROWS, most_boxes=_MOST_BOXES),
    ]
    if rows > _MOST_ROWS:
        parts.append(f"<div class=sdf-soft>{rows - _MOST_ROWS:,} more slots are not drawn.</div>")
    by_element = pieces_by_element(report.pieces)
    for element, colour in list(colours.items())[: int(report.complete)]:
        found = strip(by_element[element], report.slow_blocks)
        if found is not None:
            parts.append(f"<div class=sdf-key><i class=sdf-{colour}></i>By position: {text(found.says())}</div>")
            parts += found.svg(f"sdf-{colour}")
    return parts
