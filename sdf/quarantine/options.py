"""The options of a run with quarantine, and their checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.numbers import is_integer, is_number
from sdf.quarantine.failures import FAILED

__all__ = ["Quarantine", "check_quarantine"]


@attrs.frozen
class Quarantine:
    """Set blocks that fail aside.

    Attributes:
        max_failures: how many; if there are more, the run fails.
        block_seconds: how long a block may give neither a claim nor a record; None for no limit.
    """

    max_failures: int
    block_seconds: float | None


def check_quarantine(
    on_failure: Any, max_failures: Any, block_seconds: Any, who: str, *, tags: Sequence[str]
) -> Quarantine | None:
    """Return the options of a run with quarantine, None for a run that raises.

    Raises:
        InvalidTypeError, InvalidValueError: for wrong options; the message names ``who``.
    """
    if on_failure not in ("raise", "quarantine"):
        raise InvalidValueError(f"{who} on_failure must be 'raise' or 'quarantine' (got {show(on_failure)}).")
    if not is_integer(max_failures):
        raise InvalidTypeError(f"{who} max_failures must be an integer (got {show(max_failures)}).")
    if max_failures < 0:
        raise InvalidValueError(f"{who} max_failures must be 0 or more (got {show(max_failures)}).")
    if block_seconds is not None and not (is_number(block_seconds) and 0 < block_seconds < math.inf):
        raise InvalidValueError(
            f"{who} block_seconds must be a positive number, or None for no limit (got {show(block_seconds)})."
        )
    if on_failure == "raise":
        if block_seconds is not None:
            raise InvalidValueError(
                f"{who} block_seconds={show(block_seconds)} needs on_failure='quarantine': only then does each attempt "
                f"run in a process that can be ended."
            )
        return None
    if FAILED in tags:
        raise InvalidValueError(
            f"{who} with on_failure='quarantine' gives the blocks that fail as the output {FAILED!r}: name your tag "
            f"differently (got {show(list(tags))})."
        )
    return Quarantine(int(max_failures), None if block_seconds is None else float(block_seconds))
