"""Quarantine: blocks that fail are set aside. ``on_failure=Quarantine()`` of the functions that run a DoFn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.options import count, options, positive
from sdf.quarantine.failures import FAILED

__all__ = ["Quarantine", "check_quarantine"]


@options
@attrs.frozen(kw_only=True)
class Quarantine:
    """Sets a block aside that fails each time it runs: `process` raises, its process dies, or the block hangs.

    Each attempt runs in a process of its own, so that it can be ended.

    Args:
        max_failures: how many blocks a call may set aside; if there are more, it raises.
        block_seconds: after this time without a claim or a record a block counts as hanging. None: never.

    Raises:
        InvalidValueError: for a number out of range.
        InvalidTypeError: for an unknown option.
    """

    max_failures: int = count(100, least=0)
    block_seconds: float | None = positive(None)


def check_quarantine(on_failure: Any, who: str, *, tags: Sequence[str]) -> Quarantine | None:
    """Return ``on_failure``; None for a run that raises.

    Raises:
        InvalidTypeError, InvalidValueError: if it is anything else, or a tag has its output's name.
    """
    if on_failure is None:
        return None
    if not isinstance(on_failure, Quarantine):
        raise InvalidTypeError(
            f"{who} on_failure must be a Quarantine, or None to raise (got {show(on_failure)}). Pass sdf.Quarantine()."
        )
    if FAILED in tags:
        raise InvalidValueError(
            f"{who} with on_failure=Quarantine() gives the blocks that fail as the output {FAILED!r}: name your tag "
            f"differently (got {show(list(tags))})."
        )
    return on_failure
