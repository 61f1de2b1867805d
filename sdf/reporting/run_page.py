"""A run as a page for browsers: what each slot did, the same without splitting, what was split and what was slow.

Each slot is a row of the timeline, each work item a box in it. Each of the longest elements has its own colour on every
slot, so that the reader sees how a straggler's pieces spread over the slots.
"""

from __future__ import annotations

from collections.abc import Iterator

from sdf.errors import show
from sdf.reporting.findings import slow_starts
from sdf.reporting.html import MOST_ROWS, document, figures, steps, table, text, timeline
from sdf.reporting.pieces import PieceRun, pieces_by_element
from sdf.reporting.run_facts import RunFacts, findings
from sdf.reporting.strip import strip
from sdf.reporting.timelines import as_it_was, as_it_would_be, colours_of, key

__all__ = ["page"]

_MOST_TREES = 10
_MOST_NODES = 200
_DEEPEST = 16
_SEEN = 0.02  # slots over time are drawn only if they change after this share of the run
_MOST_STRIPS = 3
_MOST_STARTS = 10
_MOST_SPAN = 2.5  # the timelines span at most this many times the run, so that the run itself stays visible
_MOST_TEXT = 500


def page(report: RunFacts) -> str:
    """Return the page of a run."""
    if report.nothing_to_report is not None:
        return document(report.name, [_runs(report.runner), _says(report.nothing_to_report), *_notes(report)])
    colours = colours_of(report.pieces)
    return document(
        report.name,
        [
            _runs(report.runner, report.division),
            _figures(report),
            *map(_says, findings(report)),
            *(_drawn(report, colours) if report.pieces else ()),
            *_notes(report),
            *_trees(report, colours),
        ],
    )


def _drawn(report: RunFacts, colours: dict[int, str]) -> Iterator[str]:
    rows, boxes = as_it_was(report, colours)
    compared = as_it_would_be(report, colours) if report.comparable else []
    ended = max(box.end for box in boxes)
    span = max(ended, min(_MOST_SPAN * ended, max((box.end for box in compared), default=0.0)))
    yield "<h2>What each slot did</h2>"
    yield key(report.pieces, colours)
    yield from timeline(boxes, rows, span)
    if rows > MOST_ROWS:
        yield f"<p class=soft>{rows - MOST_ROWS:,} more slots are not drawn.</p>"
    if report.complete:
        yield from _strips(report, colours)
    if compared:
        about = f"about {report.unsplit_seconds:,.2f} s"
        yield "<h2>The same work without splitting</h2>"
        yield f"<p class=soft>Each element on one slot, longest first: {about}, same scale.</p>"
        yield from timeline(compared, report.slots, span)
    yield from _slots(report)


def _figures(report: RunFacts) -> str:
    shown = [(f"{report.seconds:,.2f} s", "it took")]
    if report.comparable:
        shown += [
            (f"{report.ideal_seconds:,.2f} s", "the work alone, all slots busy to the end"),
            (f"about {report.unsplit_seconds:,.2f} s", "the work alone, without splitting"),
        ]
    if report.complete:
        shown += [(f"{report.efficiency:.0%}", f"of {report.slots:,} slots busy")]
    shown += [
        (f"{report.records:,}", "records"),
        (f"{report.elements:,}", "elements"),
        (f"{len(report.pieces):,}", "pieces"),
    ]
    return figures(shown)


# Texts.


def _slots(report: RunFacts) -> Iterator[str]:
    if any(at > _SEEN * report.seconds for at, _ in report.slots_over_time):
        yield "<h2>Slots over time</h2>"
        yield from steps(report.slots_over_time, report.seconds, "slots")


def _runs(*what: str) -> str:
    return f"<p class=soft>{text(', '.join(filter(None, what)))}</p>"


def _says(finding: str) -> str:
    return f"<p class=says>{text(finding[:1].upper() + finding[1:])}.</p>"


def _strips(report: RunFacts, colours: dict[int, str]) -> Iterator[str]:
    """Yield where the longest elements spent their time, for those whose positions can be placed on an axis."""
    by_element, drawn = pieces_by_element(report.pieces), 0
    for element, colour in colours.items():
        found = strip(by_element[element], report.slow_blocks)
        if found is None or drawn == _MOST_STRIPS:
            continue
        if not drawn:
            yield "<h2>Where in an element the time went by</h2>"
            yield "<p class=soft>From its first position to its last; the higher, the longer its positions took, on "
            yield "average over a piece. Marked: slow blocks.</p>"
        drawn += 1
        name = text(show(by_element[element][0].element, 60))
        yield f"<p class=says><i class={colour}></i>{name}: {text(found.says())}.</p>"
        yield from found.svg(colour)


def _notes(report: RunFacts) -> Iterator[str]:
    starts = slow_starts(report.pieces)
    if starts:
        yield "<h2>Slow starts: the time before the first claim</h2>"
        yield table(
            ("longest, s", "pieces", "together, s", "of"),
            [(one.seconds, one.times, one.all_seconds, show(one.element, 120)) for one in starts[:_MOST_STARTS]],
        )
    if report.slow_blocks:
        yield "<h2>The slowest blocks</h2>"
        yield table(
            ("seconds, at least", "at", "of"),
            [(seconds, position, show(element, 120)) for element, position, seconds in report.slow_blocks],
        )
    if report.refusals:
        yield "<h2>Not split, and why</h2>"
        yield table(("times", "because"), [(times, why) for why, times in report.refusals])
    if report.notes:
        yield "<h2>Remarks</h2>"
        yield table(
            ("element", "remark"), [(show(element, 120), remark[:_MOST_TEXT]) for element, remark in report.notes[:50]]
        )


def _trees(report: RunFacts, colours: dict[int, str]) -> Iterator[str]:
    """Yield the tree of splits of each of the elements with the most pieces."""
    by_element = pieces_by_element(report.pieces)
    split = sorted(
        (element for element in by_element if len(by_element[element]) > 1), key=lambda e: -len(by_element[e])
    )
    if split:
        yield "<h2>Splits</h2>"
    for element in split[:_MOST_TREES]:
        pieces = by_element[element]
        seconds = sum(piece.seconds for piece in pieces)
        yield (
            f"<details><summary><i class={colours.get(element, 'o')}></i>{text(show(pieces[0].element, 120))}: "
            f"{len(pieces):,} pieces, {seconds:,.2f} s</summary>"
        )
        yield from _tree(report, pieces)
        yield "</details>"
    if len(split) > _MOST_TREES:
        yield f"<p class=soft>{len(split) - _MOST_TREES:,} more elements were split.</p>"


def _tree(report: RunFacts, pieces: list[PieceRun]) -> Iterator[str]:
    known = {piece.id for piece in pieces}
    children: dict[int | None, list[PieceRun]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.id):
        children.setdefault(piece.parent if piece.parent in known else None, []).append(piece)
    stack = [(0, piece) for piece in reversed(children.get(None, []))]
    drawn = 0
    while stack and drawn < _MOST_NODES:
        depth, piece = stack.pop()
        drawn += 1
        indent = 1.2 * min(depth, _DEEPEST)
        how = f"{piece.origin}; {piece.seconds:.2f} s on {report.tasks[piece.task].worker}, {piece.records:,} records"
        yield (
            f'<div class=node style="padding-left:{indent:g}rem">{text(show(piece.restriction, 80))} '
            f"<span class=soft>{text(how)}</span></div>"
        )
        stack += [(depth + 1, child) for child in reversed(children.get(piece.id, []))]
    if drawn < len(pieces):
        yield f"<div class=node>... and {len(pieces) - drawn:,} more pieces</div>"
