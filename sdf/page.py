"""A run as a page for browsers: what each slot did, the same without splitting, what was split and what was slow.

Each slot is a row of the timeline, each work item a box in it. The elements that took longest have a colour each, the
same wherever their pieces ran, so that a straggler's pieces are seen to spread over the slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sdf.drawing import COLOURS, MOST_ROWS, Box, document, figures, steps, table, text, timeline
from sdf.errors import show
from sdf.pieces import PieceRun, unsplit

if TYPE_CHECKING:
    from sdf.report import RunReport

__all__ = ["page"]

_MOST_TREES = 10
_MOST_NODES = 200
_DEEPEST = 16
_SEEN = 0.02  # of all seconds
_MOST_SPAN = 2.5  # times the run is drawn of what it would have taken, so that the run itself stays to be seen
_MOST_TEXT = 500


def page(report: RunReport) -> str:
    """Return the page of a run."""
    colours = _colours(report.pieces)
    rows, boxes = _as_it_was(report, colours)
    compared = _as_it_would_be(report, colours)
    ended = max((box.end for box in boxes), default=0.0)
    span = max(ended, min(_MOST_SPAN * ended, max((box.end for box in compared), default=0.0)))
    hidden = max(0, rows - MOST_ROWS)
    return document(
        report.name,
        [
            f"<p class=soft>{text(report.division)}</p>",
            _figures(report),
            "<h2>What each slot did</h2>",
            _key(report.pieces, colours),
            *timeline(boxes, rows, span),
            _beside(report, boxes),
            f"<p class=soft>{hidden:,} more slots are not drawn.</p>" if hidden else "",
            "<h2>The same work without splitting, at best</h2>",
            f"<p class=soft>Each element on one slot, longest first: {report.unsplit_seconds:,.2f} s, same scale.</p>",
            *timeline(compared, report.slots, span),
            *_slots(report),
            *_notes(report),
            *_trees(report, colours),
        ],
    )


def _beside(report: RunReport, boxes: list[Box]) -> str:
    """Return how long the run took beside what the timeline shows."""
    beside = report.seconds - max((box.end for box in boxes), default=0.0)
    if beside < _SEEN * report.seconds:
        return ""
    return (
        f"<p class=soft>{beside:,.2f} s more went by before the first piece and after the last one: elements are "
        f"expanded, and Spark starts its workers and tasks.</p>"
    )


def _figures(report: RunReport) -> str:
    return figures(
        [
            (f"{report.seconds:,.2f} s", "it took"),
            (f"{report.ideal_seconds:,.2f} s", "with all slots busy to the end"),
            (f"{report.unsplit_seconds:,.2f} s", "without splitting, at best"),
            (f"{report.efficiency:.0%}", f"of {report.slots:,} slots busy"),
            (f"{report.records:,}", "records"),
            (f"{report.elements:,}", "elements"),
            (f"{len(report.pieces):,}", "pieces"),
        ]
    )


# What is drawn.


def _seconds_by_element(pieces: Iterable[PieceRun]) -> dict[int, float]:
    seconds: dict[int, float] = {}
    for piece in pieces:
        seconds[piece.element_id] = seconds.get(piece.element_id, 0.0) + piece.seconds
    return seconds


def _colours(pieces: Sequence[PieceRun]) -> dict[int, str]:
    """Return the class of each element that has a colour: those that took longest, and a part that can be seen."""
    seconds = _seconds_by_element(pieces)
    least = _SEEN * sum(seconds.values())
    longest = sorted(seconds, key=lambda element: (-seconds[element], element))[:COLOURS]
    longest = [element for element in longest if seconds[element] >= least]
    return {element: f"c{number}" for number, element in enumerate(longest)}


def _key(pieces: Sequence[PieceRun], colours: dict[int, str]) -> str:
    seconds = _seconds_by_element(pieces)
    elements = {piece.element_id: piece.element for piece in pieces if piece.element_id in colours}
    names = "".join(
        f"<span><i class={colour}></i>{text(show(elements[element], 60))} <span class=soft>{seconds[element]:,.2f} s"
        f"</span></span>"
        for element, colour in colours.items()
    )
    return f"<div class=key>{names}</div>"


def _other(element: int) -> str:
    return "o" if element % 2 else "p"


def _as_it_was(report: RunReport, colours: dict[int, str]) -> tuple[int, list[Box]]:
    """Return how many rows there are, and the boxes."""
    began = min((task.began for task in report.tasks), default=0.0)
    rows = _rows(report)
    elements = _shown(report.pieces)
    return max(rows.values(), default=-1) + 1, [
        Box(
            rows[piece.task],
            piece.began - began,
            piece.began - began + piece.seconds,
            colours.get(piece.element_id, _other(piece.element_id)),
            f"{elements[piece.element_id]}, {show(piece.restriction, 60)}: {piece.seconds:,.2f} s, {piece.records:,} "
            f"records, {piece.origin}",
        )
        for piece in report.pieces
    ]


def _rows(report: RunReport) -> dict[int, int]:
    """Return the row of each task: that of its Python worker if that is free, else any that is, else a new one.

    A slot is held by one worker at a time, and Spark may replace it.
    """
    spans: dict[int, list[float]] = {}
    for piece in report.pieces:
        first, last = spans.get(piece.task, (piece.began, piece.began))
        spans[piece.task] = [min(first, piece.began), max(last, piece.began + piece.seconds)]
    rows: dict[int, int] = {}
    of_worker: dict[str, int] = {}
    free: list[float] = []  # from when on each row is free
    for task in sorted(spans, key=lambda task: spans[task][0]):
        began, end = spans[task]
        worker = report.tasks[task].worker
        row = of_worker.get(worker)
        if row is None or free[row] > began:
            row = next((row for row, at in enumerate(free) if at <= began), len(free))
        free[row:] = [end, *free[row + 1 :]]
        rows[task] = of_worker[worker] = row
    return rows


def _shown(pieces: Iterable[PieceRun]) -> dict[int, str]:
    """Return the text of each element, made once."""
    elements = {piece.element_id: piece.element for piece in pieces}
    return {element_id: show(element, 60) for element_id, element in elements.items()}


def _as_it_would_be(report: RunReport, colours: dict[int, str]) -> list[Box]:
    seconds = _seconds_by_element(report.pieces)
    elements = _shown(report.pieces)
    return [
        Box(
            slot,
            end - seconds[element],
            end,
            colours.get(element, _other(element)),
            f"{elements[element]}: {seconds[element]:,.2f} s",
        )
        for element, slot, end in unsplit(report.pieces, report.slots)
    ]


# What is said.


def _slots(report: RunReport) -> Iterator[str]:
    if any(at > _SEEN * report.seconds for at, _ in report.slots_over_time):
        yield "<h2>Slots over time</h2>"
        yield from steps(report.slots_over_time, report.seconds, "slots")


def _notes(report: RunReport) -> Iterator[str]:
    if report.slow_blocks:
        yield "<h2>The slowest blocks</h2>"
        yield table(
            ("seconds", "at", "of"),
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


def _trees(report: RunReport, colours: dict[int, str]) -> Iterator[str]:
    """Yield the tree of splits of each of the elements that were split most."""
    by_element: dict[int, list[PieceRun]] = {}
    for piece in report.pieces:
        by_element.setdefault(piece.element_id, []).append(piece)
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


def _tree(report: RunReport, pieces: list[PieceRun]) -> Iterator[str]:
    known = {piece.id for piece in pieces}
    children: dict[int | None, list[PieceRun]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.id):
        children.setdefault(piece.parent if piece.parent in known else None, []).append(piece)
    stack = [(0, piece) for piece in reversed(children.get(None, []))]
    told = 0
    while stack and told < _MOST_NODES:
        depth, piece = stack.pop()
        told += 1
        indent = 1.2 * min(depth, _DEEPEST)
        how = f"{piece.origin}; {piece.seconds:.2f} s on {report.tasks[piece.task].worker}, {piece.records:,} records"
        yield (
            f'<div class=node style="padding-left:{indent:g}rem">{text(show(piece.restriction, 80))} '
            f"<span class=soft>{text(how)}</span></div>"
        )
        stack += [(depth + 1, child) for child in reversed(children.get(piece.id, []))]
    if told < len(pieces):
        yield f"<div class=node>... and {len(pieces) - told:,} more pieces</div>"
