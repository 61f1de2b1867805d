"""The boxes of the timeline of a run, as it was and without splitting, and the colours of elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sdf.errors import show
from sdf.reporting.findings import rows
from sdf.reporting.html import COLOURS, Box, text
from sdf.reporting.pieces import PieceRun, counts, pieces_by_element, unsplit, whole_seconds
from sdf.reporting.run_facts import RunFacts

__all__ = ["as_it_was", "as_it_would_be", "colours_of", "key"]

_SEEN = 0.02  # share of all seconds: shorter elements get no colour


def _seconds_by_element(pieces: Iterable[PieceRun]) -> dict[int, float]:
    return {element: sum(piece.seconds for piece in own) for element, own in pieces_by_element(pieces).items()}


def colours_of(pieces: Sequence[PieceRun]) -> dict[int, str]:
    """Return the CSS class of each coloured element: the longest ones, if they took 2 % of all seconds or more."""
    seconds = _seconds_by_element(piece for piece in pieces if piece.elements == 1)
    least = _SEEN * sum(piece.seconds for piece in pieces)
    longest = sorted(seconds, key=lambda element: (-seconds[element], element))[:COLOURS]
    longest = [element for element in longest if seconds[element] >= least]
    return {element: f"c{number}" for number, element in enumerate(longest)}


def key(pieces: Sequence[PieceRun], colours: dict[int, str], prefix: str = "") -> str:
    """Return the colour key as HTML; ``prefix`` is put before each CSS class."""
    seconds = _seconds_by_element(pieces)
    elements = {piece.element_id: piece.element for piece in pieces if piece.element_id in colours}
    names = "".join(
        f"<span><i class={prefix}{colour}></i>{text(show(elements[element], 60))} "
        f"<span class={prefix}soft>{seconds[element]:,.2f} s</span></span>"
        for element, colour in colours.items()
    )
    return f"<div class={prefix}key>{names}</div>"


def _other(element: int) -> str:
    return "o" if element % 2 else "p"


def as_it_was(report: RunFacts, colours: dict[int, str]) -> tuple[int, list[Box]]:
    """Return the number of rows, one per slot, and the boxes, one per piece."""
    began = min((task.began for task in report.tasks), default=0.0)
    row_of = rows(report.pieces, [task.worker for task in report.tasks])
    elements = _shown(report.pieces)
    return max(row_of.values(), default=-1) + 1, [
        Box(
            row_of[piece.task],
            piece.began - began,
            piece.began - began + piece.seconds,
            colours.get(piece.element_id, _other(piece.element_id)),
            f"{elements[piece.element_id]}, {show(piece.restriction, 60)}: {piece.seconds:,.2f} s, {piece.records:,} "
            f"records, {piece.origin}",
        )
        for piece in report.pieces
    ]


def as_it_would_be(report: RunFacts, colours: dict[int, str]) -> list[Box]:
    """Return a box for each element, as if none had been split."""
    elements, number = _shown(report.pieces), counts(report.pieces)
    seconds = {
        each: whole / min(number[each], report.slots) for each, whole in whole_seconds(report.pieces).items()
    }  # fmt: skip
    return [
        Box(
            slot,
            end - seconds[element],
            end,
            colours.get(element, _other(element)),
            f"{elements[element]}: about {seconds[element]:,.2f} s",
        )
        for element, slot, end in unsplit(report.pieces, report.slots)
    ]


def _shown(pieces: Iterable[PieceRun]) -> dict[int, str]:
    """Return the text of each element; `show` runs once per element."""
    elements = {piece.element_id: piece.element for piece in pieces}
    return {element_id: show(element, 60) for element_id, element in elements.items()}
