"""The messages between lanes and the coordinator; `sdf.lanes.wire` says who may send which one when.

A lane's messages are JSON, and the driver checks each field: it never unpickles what a lane sent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

import attrs

from sdf.errors import SdfError, show
from sdf.execution.work_items import WorkItem

__all__ = [
    "AskStart",
    "Assign",
    "Bye",
    "CommitEvery",
    "Declined",
    "Fail",
    "Flush",
    "FromLane",
    "Heartbeat",
    "Hello",
    "Leave",
    "MOST_ITEMS",
    "MOST_RESIDUALS",
    "ProtocolError",
    "Raised",
    "Ready",
    "Refused",
    "Returned",
    "Sealed",
    "SegmentDone",
    "Split",
    "StartIn",
    "StealRequest",
    "ToLane",
    "Verdict",
    "Wait",
    "read",
    "write",
]

MOST_ITEMS = 1024  # in an `Assign`, which also bounds the next `Ready` and `Returned`
MOST_RESIDUALS = 100  # in a `Split`


class ProtocolError(SdfError, ValueError):
    """A peer sent what it must not send."""


@attrs.frozen
class Hello:
    """An attempt at a lane begins.

    Attributes:
        lane: number of the lane; in a saved run, of the task in its Spark job.
        worker: host and process id.
        began: seconds since the epoch there.
        stage: Spark's number of the stage.
        attempt: how often Spark has tried this task before.
        task_id: Spark's number of this try.
    """

    lane: int
    worker: str
    began: float
    stage: int = 0
    attempt: int = 0
    task_id: int = 0


@attrs.frozen
class Raised:
    """In a saved run: what the attempt has raised, of which it ends.

    Attributes:
        kind: the class of the error, one of `sdf.errors`.
        error: its text.
    """

    kind: str
    error: str


@attrs.frozen
class Ready:
    """The attempt has run all that it holds. The first four are totals since it began.

    Attributes:
        records: number of records, over all outputs.
        items: number of work items that it ran; each row of a table counts.
        units: the size of the work that it ran.
        seconds: seconds that this took.
        ran: the fields of `Ran` for each work item that has ended since the last `Ready`. Refused residuals count as
            part of the work item that they were cut off from.
        slow: the fields of `SlowBlock` for the slowest blocks since the last `Ready`.
        tagged: number of records so far for each declared tag, in order.
    """

    records: int
    items: int
    units: float
    seconds: float
    ran: tuple[tuple[int, float, float, float, int, float, int, int], ...] = ()
    slow: tuple[tuple[int, str, float, int], ...] = ()
    tagged: tuple[int, ...] = ()


@attrs.frozen
class Heartbeat:
    """How far the running work item is.

    Attributes:
        item_id: the id of the work item.
        splittable: whether a steal request could split it: not before its first claim, nor if half of its seconds left
            is less than it took to open or than the last request's minimum.
        units: the size of its work done.
        seconds: seconds that it has run.
        seconds_left: estimated seconds that it will still run.
        unstarted: number of work items that the lane holds and has not started; each row of a table counts.
        units_before: the size of the work that the attempt did before it.
    """

    item_id: int
    splittable: bool
    units: float
    seconds: float
    seconds_left: float
    unstarted: int
    units_before: float = 0.0


@attrs.frozen
class Split:
    """A work item was split; nobody runs the residuals before the verdict.

    Attributes:
        item_id: the id of the work item.
        asked: whether this answers a `StealRequest`; otherwise process() deferred.
        primary: the description of the primary.
        residuals: for each its description, its delay in seconds and the description of its watermark state, in the
            order of the cuts; at most `MOST_RESIDUALS`, else all of them stay with the lane.
        units: the size of its work done so far.
        seconds: seconds that it has run so far.
    """

    item_id: int
    asked: bool
    primary: Any
    residuals: tuple[tuple[Any, float, Any], ...]
    units: float
    seconds: float


@attrs.frozen
class Returned:
    """The lane gives back whole work items that it has not started; nobody runs them before the verdict."""

    item_ids: tuple[int, ...]


@attrs.frozen
class Declined:
    """The lane can give nothing now, for this reason; it sends a `Heartbeat` when that may have changed."""

    reason: str


@attrs.frozen
class SegmentDone:
    """In a saved run: the sinks have written the records of the work items run since the last `SegmentDone`.

    Attributes:
        items: how many work items these are: the first ones that the lane was assigned, and were not committed yet.
        last_id: the id of the last of them.
        messages: the message of each output's sink, the main one first.
        records: number of records of each output.
        seconds: seconds that the segment took.
        cost_seconds: the time in which the sinks closed it, plus the time to open again what it cut.
    """

    items: int
    last_id: int
    messages: Any
    records: tuple[int, ...]
    seconds: float
    cost_seconds: float


@attrs.frozen
class AskStart:
    """`process` wants to call a server that has the rate limit of this name; the answer is `StartIn`.

    Attributes:
        limit: name of the limit.
        late_seconds: how long after its start time the attempt has started its last call.
    """

    limit: str
    late_seconds: float


@attrs.frozen
class Refused:
    """The server with this rate limit has refused a call, and wants no other one for ``retry_after_seconds``."""

    limit: str
    called_seconds_ago: float
    retry_after_seconds: float


@attrs.frozen
class Bye:
    """The attempt ends of its own accord, and Spark will not retry the lane for it.

    The action has read enough records, as take() does. Or, in a saved run, the process was told to end; the answer is
    `Sealed`, and what the attempt has not committed can be taken over.
    """


@attrs.frozen
class Assign:
    """Work items to run, in this order, after those that the lane holds; at most `MOST_ITEMS`."""

    items: tuple[WorkItem, ...]


@attrs.frozen
class Wait:
    """There is no work now, but there may be later."""


@attrs.frozen
class Flush:
    """In a saved run: there is no work now; send `SegmentDone` for what was run, then `Ready` again."""


@attrs.frozen
class CommitEvery:
    """In a saved run: from now on a segment may last so many seconds."""

    seconds: float


@attrs.frozen
class Leave:
    """In a saved run: the executor is about to go, or others are to take over; commit what was run and say `Bye`."""


@attrs.frozen
class Sealed:
    """The content of the lane is fixed for ever; the attempt may end."""


@attrs.frozen
class StealRequest:
    """Give back unstarted work items, or a residual of at least ``min_piece_seconds``."""

    min_piece_seconds: float


@attrs.frozen
class Verdict:
    """Whether the coordinator accepts the last `Split` or `Returned`."""

    accepted: bool


@attrs.frozen
class StartIn:
    """In answer to `AskStart`: the call may start in so many seconds. A later one takes the place of one before."""

    limit: str
    seconds: float


@attrs.frozen
class Fail:
    """The attempt must fail with this error."""

    error: SdfError


FromLane = Hello | Raised | Ready | Heartbeat | Split | Returned | Declined | SegmentDone | AskStart | Refused | Bye
ToLane = Assign | Wait | Flush | CommitEvery | Sealed | StealRequest | Verdict | StartIn | Leave | Fail


def _exactly(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{value!r} is no {kind.__name__}")
        return value

    return check


def _float(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is no float")
    return float(value)


_CHECKS: dict[Any, Callable[[Any], Any]] = {
    int: _exactly(int),
    float: _float,
    bool: _exactly(bool),
    str: _exactly(str),
    Any: lambda value: value,
}


def _check_of(kind: Any) -> Callable[[Any], Any]:
    """Return the check of a field by its type: one of `_CHECKS`, or a tuple of such."""
    if get_origin(kind) is not tuple:
        return _CHECKS[kind]
    checks = [_check_of(each) for each in get_args(kind) if each is not Ellipsis]
    if Ellipsis in get_args(kind):
        return lambda values: tuple([checks[0](value) for value in values])
    return lambda values: tuple([check(value) for check, value in zip(checks, values, strict=True)])


_FROM_LANE: dict[str, tuple[Any, list[Callable[[Any], Any]]]] = {
    kind.__name__: (kind, list(map(_check_of, get_type_hints(kind).values()))) for kind in get_args(FromLane)
}


def write(message: FromLane) -> bytes:
    """Return a lane's message as JSON."""
    return json.dumps([type(message).__name__, *attrs.astuple(message, recurse=False)]).encode()


def read(payload: bytes) -> FromLane:
    """Return a lane's message from JSON, with its fields checked; restrictions stay descriptions.

    Raises:
        ProtocolError: if ``payload`` is not a message.
    """
    try:
        name, *values = json.loads(payload.decode())
        kind, checks = _FROM_LANE[name]
        message: FromLane = kind(*[check(value) for check, value in zip(checks, values, strict=True)])
    except Exception as error:  # the payload may hold anything
        raise ProtocolError(f"not a message: {show(payload)} ({type(error).__name__}: {error})") from error
    return message
