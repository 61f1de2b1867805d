"""What fails: `Failure`, as a worker tells it to the driver, and `FailedBlock`, as the driver tells it to the user."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["DIED", "FAILED", "HUNG", "KILLED", "RAISED", "WITHDRAWN", "FailedBlock", "Failure", "cut_error"]

_MOST = 4_000  # characters of an error: an exception may quote its whole input; lanes and logs take no such text

FAILED = "failed"  # the output of the blocks that were set aside

# How a part failed.
RAISED = "process() raised"
DIED = "its process died"
KILLED = "its process was killed, as by the system when memory runs out"
HUNG = "it gave neither a claim nor a record for block_seconds"
WITHDRAWN = "its stage was given up for another task of it"  # no fault of its own


@attrs.frozen
class FailedBlock:
    """A block that was set aside, since it failed each time that it ran alone.

    Attributes:
        element: the element.
        restriction: the part of the element that holds the block and nothing else. It begins at the claim of the block
            and ends at the next claim, where that is known: the part behind it must have run, in the same call of
            `run_sdf` or `save_sdf`. Else it ends behind the claimed position. If the DoFn's tracker cannot cut
            such a part out, more than one block: up to the whole element, as of a .gz without an index.
        error: what happened in the last attempt: type and message of an exception, or how the process ended.
        attempts: how often the block was run, alone or together with others.
    """

    element: Any
    restriction: Any
    error: str
    attempts: int


def cut_error(error: str) -> str:
    """Return the text of an error, cut in the middle if it is very long, and with lone surrogates escaped.

    Sinks, sockets and files take it, none of which need take those.
    """
    error = error.encode("utf-8", "backslashreplace").decode()
    return error if len(error) <= _MOST else f"{error[: _MOST - 1_003]}...{error[-1_000:]}"


@attrs.frozen
class Failure:
    """An attempt at some work items has failed. Nothing of it counts.

    Attributes:
        item_id: the work item that ran when it failed. None if that is not known: its executor was lost with it.
        how: `RAISED`, `DIED`, `KILLED`, `HUNG` or `WITHDRAWN`.
        error: what happened, as text; cut in the middle beyond 4,000 characters.
        claimed: the position claimed last, or None if that is not known.
        doubtful: whether the instance of the DoFn had failed in its attempt before, too. That may have broken it, so
            no block is to blame, and the work runs again in a process of its own.
    """

    item_id: int | None
    how: str
    error: str = attrs.field(converter=cut_error)
    claimed: Any = None
    doubtful: bool = False

    def may_blame(self, item_id: int | None) -> bool:
        """Return whether it may be the fault of a work item of the attempt."""
        if self.doubtful:
            return False
        if self.item_id is None:
            return self.how != WITHDRAWN
        return item_id == self.item_id
