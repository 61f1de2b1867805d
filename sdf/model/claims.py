"""``tracker.claims()``: positions or blocks in order, each claimed as it is delivered, until others have the rest.

This is the plain way, one `try_claim` for each block; it works for every tracker. For a range of offsets that `process`
holds, `sdf.execution.offset_claims` delivers positions at the cost of a plain `range`. The rules of a claim stand here,
too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.model.restrictions import OffsetRange, Unbounded

__all__ = ["IN_USE", "claims_of", "flaw_of_claim", "positions_of"]

IN_USE = "while tracker.claims() is in use: it claims what it delivers. Use one of the two."


def claims_of(
    claim: Callable[[Any], bool],
    restriction: Callable[[], Any],
    blocks: Iterable[Any] | None,
    position: Callable[[Any], Any] | None,
    closing: Callable[[], Any],
) -> Iterator[Any]:
    """Return an iterator of blocks that claims each.

    Args:
        claim: claims a position.
        restriction: returns the current restriction.
        blocks: the blocks in the order of their positions; None for the positions of an offset range themselves.
        position: returns the position of a block; None if a block is its position.
        closing: returns the position that is claimed when the blocks have ended, None for no such claim. None now, for
            a range without an end, means no such claim later: a split may bound the range while its blocks grow.

    Raises:
        InvalidTypeError: if blocks are no iterable, or ``position`` no function.
        InvalidValueError: if the restriction has no positions to go through, so blocks are needed.
    """
    if blocks is None:
        if position is not None:
            raise InvalidValueError("tracker.claims() position needs blocks: claims(blocks, position=...).")
        return _claimed(claim, positions_of(restriction()), None, _no_position)
    if not isinstance(blocks, Iterable):
        raise InvalidTypeError(f"tracker.claims() blocks must be an iterable of blocks in order (got {show(blocks)}).")
    if position is not None and not callable(position):
        raise InvalidTypeError(f"tracker.claims() position must be a function of a block (got {show(position)}).")
    return _claimed(claim, blocks, position, _no_position if closing() is None else closing)


def _no_position() -> None:
    return None


def _claimed(
    claim: Callable[[Any], bool],
    blocks: Iterable[Any],
    position: Callable[[Any], Any] | None,
    closing: Callable[[], Any],
) -> Iterator[Any]:
    if position is None:
        for block in blocks:
            if not claim(block):
                return
            yield block
    else:
        for block in blocks:
            if not claim(position(block)):
                return
            yield block
    end = closing()
    if end is not None:
        claim(end)


def positions_of(restriction: Any) -> range:
    """Return the positions of an offset range; raise InvalidValueError if it is none, or has no end."""
    if isinstance(restriction, OffsetRange) and not isinstance(restriction.stop, Unbounded):
        return range(restriction.start, restriction.stop)
    raise InvalidValueError(
        f"tracker.claims() without blocks goes through a range of offsets with an end (the restriction is "
        f"{show(restriction)}). Pass the blocks: tracker.claims(blocks, position=lambda block: block.offset)."
    )


def flaw_of_claim(position: Any, start: Any, last: Any, record: Any, refused: bool, where: str) -> str | None:
    """Return why a position must not be claimed now, None if it may.

    Args:
        position: an offset or a key.
        start: the start of the range.
        last: the position claimed or tried last, None before any.
        record: the last record inside a block.
        refused: whether a claim was refused.
        where: the range, as text.
    """
    if refused:
        return (
            f"try_claim({position!r}) after a refused claim of {last!r} in {where}. "
            f"Return from process() as soon as try_claim() is False."
        )
    if position < start:
        return (
            f"try_claim() positions must be >= the start: got {position!r} in {where}. Begin with the first block at "
            f"or after the start; the one before it is another part's."
        )
    if last is not None and (position <= last or position < record):
        return f"try_claim() positions must increase: got {position!r} after {max(last, record)!r} in {where}."
    return None
