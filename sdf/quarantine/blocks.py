"""Tells on a worker whether an error is the fault of a block, and of which work item."""

from __future__ import annotations

from sdf.errors import BadRecordError, UnpicklableError, text_of
from sdf.execution.bundle import Bundle
from sdf.quarantine.failures import RAISED, Failure
from sdf.quarantine.outages import is_outage

__all__ = ["failure_of"]


def failure_of(bundle: Bundle, error: BaseException) -> Failure | None:
    """Return the failure of the work item that ran when an attempt raised; None if that convicts no block.

    A record that does not pickle, that the sink cannot write, or for which memory runs out then, was noticed later than
    it was given. So the position claimed last is no hint then.
    """
    item, claimed = bundle.last_started()
    if item is None or is_outage(error):  # the source may be back when the task is tried again
        return None
    if bundle.raised:
        return Failure(item.id, RAISED, text_of(error), claimed)
    if isinstance(error, (UnpicklableError, BadRecordError)):
        return Failure(item.id, RAISED, str(error))
    if isinstance(error, MemoryError):
        return Failure(item.id, RAISED, f"memory ran out when its records had left process(): MemoryError: {error}")
    return None
