"""What lanes and the coordinator say to each other: see `sdf.lanes.wire` for who may say what when.

A lane's messages are JSON, checked field by field when they are read: the driver unpickles nothing that it was sent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import attrs

from sdf.errors import SdfError, show
from sdf.execution.work_items import WorkItem

__all__ = [
    "MOST_ITEMS",
    "MOST_RESIDUALS",
    "StealRequest",
    "Assign",
    "Returned",
    "Heartbeat",
    "Bye",
    "Declined",
    "Fail",
    "FromLane",
    "Hello",
    "ProtocolError",
    "Ready",
    "Sealed",
    "Split",
    "ToLane",
    "TooLongError",
    "Verdict",
    "Wait",
    "read",
    "write",
]

MOST_ITEMS = 1024  # in an Assign; so a lane has as many to tell of, or to give back, when it is next ready
MOST_RESIDUALS = 100  # in a Split


class ProtocolError(SdfError, ValueError):
    """A peer sent what it must not send."""


class TooLongError(SdfError, ValueError):
    """A message to a lane is longer than it may be; it was not sent."""


@attrs.frozen
class Hello:
    """An attempt at a lane begins; ``worker`` is its host and process id, ``began`` seconds since the epoch there."""

    lane: int
    worker: str
    began: float


@attrs.frozen
class Ready:
    """All that the attempt holds is done; the numbers are totals since its begin.

    Attributes:
        records: how many records it gave, over all outputs.
        items: how many work items it ran.
        units: the size of what it ran.
        seconds: how long that took.
        ran: how each work item ran that has ended since it was last ready, for the report: the fields of `Ran`. What
            stayed with the lane counts as more of the one that it was cut off from, however many parts it was.
        slow: the slowest blocks since then: the fields of `SlowBlock`.
        tagged: how many of the records were for each declared tag, in their order.
    """

    records: int
    items: int
    units: float
    seconds: float
    ran: tuple[tuple[int, float, float, float, int, float], ...] = ()
    slow: tuple[tuple[int, str, float], ...] = ()
    tagged: tuple[int, ...] = ()


@attrs.frozen
class Heartbeat:
    """How far the running work item is.

    Attributes:
        item_id: which work item.
        splittable: whether it may be split; not before its first claim, nor if less is left than it was asked for.
        units: the size of what it did.
        seconds: how long that took.
        seconds_left: how long the rest of it will take.
        unstarted: how many work items the lane holds beside it.
        units_before: the size of what the attempt did before it.
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
    """A work item was split; until the verdict the residuals are nobody's.

    Attributes:
        item_id: which work item.
        asked: whether this answers an `StealRequest`; otherwise process() deferred.
        primary: the description of what it keeps.
        residuals: description, seconds of delay and description of the watermark state of each, in the order of the
            cuts; at most `MOST_RESIDUALS`, more of them stay with the lane.
        units: the size of what was done of it so far.
        seconds: how long that took.
    """

    item_id: int
    asked: bool
    primary: Any
    residuals: tuple[tuple[Any, float, Any], ...]
    units: float
    seconds: float


@attrs.frozen
class Returned:
    """Work items that were not started, given back whole; until the verdict they are nobody's."""

    item_ids: tuple[int, ...]


@attrs.frozen
class Declined:
    """Nothing can be given now, and why; a `Heartbeat` will say when that has changed."""

    reason: str


@attrs.frozen
class Bye:
    """Whoever reads the records wants no more of them, as take() does; so nobody will try the lane again for that."""


@attrs.frozen
class Assign:
    """Work items to run, in this order, after what the lane holds; at most `MOST_ITEMS`."""

    items: tuple[WorkItem, ...]


@attrs.frozen
class Wait:
    """There is no work now, but there may be."""


@attrs.frozen
class Sealed:
    """What the lane has done is its content for ever; the attempt may end."""


@attrs.frozen
class StealRequest:
    """Give something away, if it is worth at least so many seconds."""

    min_piece_seconds: float


@attrs.frozen
class Verdict:
    """Whether what was offered was taken."""

    accepted: bool


@attrs.frozen
class Fail:
    """The attempt must fail with this error."""

    error: SdfError


FromLane = Hello | Ready | Heartbeat | Split | Returned | Declined | Bye
ToLane = Assign | Wait | Sealed | StealRequest | Verdict | Fail


def _int(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is no int")
    return value


def _float(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is no float")
    return float(value)


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{value!r} is no bool")
    return value


def _str(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r} is no str")
    return value


def _any(value: Any) -> Any:
    return value


def _row(*checks: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda row: tuple([check(value) for check, value in zip(checks, row, strict=True)])


def _all(check: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda rows: tuple([check(row) for row in rows])


_CHECKS: dict[str, Callable[[Any], Any]] = {  # by the types as they are written in the classes above
    "int": _int,
    "float": _float,
    "bool": _bool,
    "str": _str,
    "Any": _any,
    "tuple[int, ...]": _all(_int),
    "tuple[tuple[Any, float, Any], ...]": _all(_row(_any, _float, _any)),
    "tuple[tuple[int, float, float, float, int, float], ...]": _all(_row(_int, _float, _float, _float, _int, _float)),
    "tuple[tuple[int, str, float], ...]": _all(_row(_int, _str, _float)),
}
_FROM_LANE: dict[str, tuple[Any, list[str], list[Callable[[Any], Any]]]] = {
    kind.__name__: (
        kind,
        [field.name for field in attrs.fields(kind)],
        [_CHECKS[str(field.type)] for field in attrs.fields(kind)],
    )
    for kind in (Hello, Ready, Heartbeat, Split, Returned, Declined, Bye)
}


def write(message: FromLane) -> bytes:
    """Return a lane's message as JSON."""
    name = type(message).__name__
    return json.dumps([name, *(getattr(message, field) for field in _FROM_LANE[name][1])]).encode()


def read(payload: bytes) -> FromLane:
    """Return a lane's message from JSON, its numbers checked; restrictions stay descriptions.

    Raises:
        ProtocolError: if it is none.
    """
    try:
        name, *values = json.loads(payload.decode())
        kind, _, checks = _FROM_LANE[name]
        message: FromLane = kind(*[check(value) for check, value in zip(checks, values, strict=True)])
    except Exception as error:  # anything may be in it
        raise ProtocolError(f"not a message: {show(payload)} ({type(error).__name__}: {error})") from error
    return message
