"""Tells on a worker whether an error is the fault of a block, and of which work item."""

from __future__ import annotations

from sdf.errors import BadRecordError, SourceError, UnpicklableError
from sdf.execution.bundle import Bundle
from sdf.quarantine.failures import RAISED, Failure

__all__ = ["failure_of"]

_AWAY = (SourceError, ConnectionError, TimeoutError)  # the source may be back when the task is tried again


def failure_of(bundle: Bundle, error: Exception) -> Failure | None:
    """Return the failure of the work item that ran when an attempt raised; None if that convicts no block.

    A record that does not pickle, or that the sink cannot write, was noticed later than it was given. So the position
    claimed last is no hint then.
    """
    item, claimed = bundle.last_started()
    cause = error if error.__cause__ is None else error.__cause__
    if item is None or isinstance(error, SourceError) or isinstance(cause, _AWAY):
        return None
    if bundle.raised:
        return Failure(item.id, RAISED, str(error), claimed)
    if isinstance(error, (UnpicklableError, BadRecordError)):
        return Failure(item.id, RAISED, str(error))
    return None
