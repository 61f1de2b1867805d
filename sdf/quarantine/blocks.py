"""Tells on a worker whether an error is the fault of a block, and of which work item."""

from __future__ import annotations

from typing import Any

from sdf.errors import BadRecordError, SdfError, UnpicklableError, text_of
from sdf.execution.bundle import Bundle
from sdf.quarantine.failures import RAISED, Failure
from sdf.quarantine.outages import is_outage

__all__ = ["failure_of", "failure_of_part"]


def failure_of(bundle: Bundle, error: BaseException) -> Failure | None:
    """Return the failure of the work item that ran when an attempt raised; None if that convicts no block."""
    item, claimed = bundle.last_started()
    return failure_of_part(None if item is None else item.id, claimed, error, raised=bundle.raised)


def failure_of_part(item_id: int | None, claimed: Any, error: BaseException, *, raised: bool) -> Failure | None:
    """Return the failure of a part; None if the error convicts no block.

    A record that does not pickle, that the sink cannot write, or for which memory runs out then, was noticed later than
    it was given. So the position claimed last is no hint then.

    Args:
        item_id: the work item that ran last, None if none has begun.
        claimed: the position that it claimed last.
        error: what was raised.
        raised: whether the user's code raised it.
    """
    if item_id is None or is_outage(error):  # the source may be back when the task is tried again
        return None
    if raised:
        name = "" if isinstance(error, SdfError) else f"{type(error).__name__}: "  # no Exception, so nobody named it
        return Failure(item_id, RAISED, name + text_of(error), claimed)
    if isinstance(error, (UnpicklableError, BadRecordError)):
        return Failure(item_id, RAISED, str(error))
    if isinstance(error, MemoryError):
        return Failure(item_id, RAISED, f"memory ran out when its records had left process(): MemoryError: {error}")
    return None
