"""A run as HTML in a notebook: its summary, what each slot did, and where its longest element spent the time.

The HTML is stored in the notebook, so it is small. It suits any theme, even one that the browser does not know: colours
lie between light and dark, text has the notebook's colour, and lines and cards are translucent. All classes begin with
``sdf-`` and every rule stands below ``.sdf-run``, so that the rest of the page does not change.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from sdf.reporting.html import resource, text, timeline
from sdf.reporting.pieces import pieces_by_element
from sdf.reporting.run_facts import RunFacts
from sdf.reporting.strip import strip
from sdf.reporting.timelines import as_it_was, colours_of, key

__all__ = ["fragment"]

_MOST_ROWS = 32
_MOST_BOXES = 300


def fragment(report: RunFacts, headlines: Sequence[str], details: Sequence[str]) -> str:
    """Return HTML to embed in other HTML.

    Args:
        report: the report of the run.
        headlines: the lines above the timeline; the first begins with the name of the DoFn.
        details: the lines below the timeline.
    """
    name, _, what = headlines[0].partition(": ")
    parts = [
        f"<style>{''.join(resource('notebook.css').splitlines())}</style>",
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
