"""What lanes and the coordinator say to each other: see `sdf.spark.wire` for who may say what when.

A lane's messages are JSON, checked field by field when they are read: the driver unpickles nothing that it was sent.
"""

from __future__ import annotations

import json
import math
from typing import Any

import attrs

from sdf.errors import SdfError, show
from sdf.items import WorkItem

__all__ = [
    "Ask",
    "Assign",
    "Back",
    "Beat",
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
    "Verdict",
    "Wait",
    "read",
    "write",
]


class ProtocolError(SdfError, ValueError):
    """A peer sent what it must not send."""


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
        records: how many records it gave.
        items: how many work items it ran.
        units: the size of what it ran.
        seconds: how long that took.
        ran: how each work item ran that has ended since it was last ready, for the report: the fields of `Ran`.
        slow: the slowest blocks since then: the fields of `SlowBlock`.
    """

    records: int
    items: int
    units: float
    seconds: float
    ran: tuple[tuple[int, float, float, float, int], ...] = ()
    slow: tuple[tuple[int, str, float], ...] = ()


@attrs.frozen
class Beat:
    """How far the running work item is.

    Attributes:
        item_id: which work item.
        splittable: whether it may be split; not before its first claim, nor if too little is left of it.
        units: the size of what it did.
        seconds: how long that took.
        seconds_left: how long the rest of it will take.
        unstarted: how many work items the lane holds beside it.
    """

    item_id: int
    splittable: bool
    units: float
    seconds: float
    seconds_left: float
    unstarted: int


@attrs.frozen
class Split:
    """A work item was split; until the verdict the residuals are nobody's.

    Attributes:
        item_id: which work item.
        asked: whether this answers an `Ask`; otherwise process() deferred.
        primary: the description of what it keeps.
        residuals: description, seconds of delay and description of the watermark state of each, in the order of the
            cuts.
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
class Back:
    """Work items that were not started, given back whole; until the verdict they are nobody's."""

    item_ids: tuple[int, ...]


@attrs.frozen
class Declined:
    """Nothing can be given now, and why; a `Beat` will say when that has changed."""

    reason: str


@attrs.frozen
class Bye:
    """Whoever reads the records wants no more of them, as take() does; so nobody will try the lane again for that."""


@attrs.frozen
class Assign:
    """Work items to run, in this order, after what the lane holds."""

    items: tuple[WorkItem, ...]


@attrs.frozen
class Wait:
    """There is no work now, but there may be."""


@attrs.frozen
class Sealed:
    """What the lane has done is its content for ever; the attempt may end."""


@attrs.frozen
class Ask:
    """Give something away, if it is worth at least so many seconds."""

    worth_seconds: float


@attrs.frozen
class Verdict:
    """Whether what was offered was taken."""

    accepted: bool


@attrs.frozen
class Fail:
    """The attempt must fail with this error."""

    error: SdfError


FromLane = Hello | Ready | Beat | Split | Back | Declined | Bye
ToLane = Assign | Wait | Sealed | Ask | Verdict | Fail

_FROM_LANE: dict[str, tuple[Any, list[str], list[Any]]] = {
    kind.__name__: (kind, [field.name for field in attrs.fields(kind)], [field.type for field in attrs.fields(kind)])
    for kind in (Hello, Ready, Beat, Split, Back, Declined, Bye)
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
        name, *values = json.loads(payload)
        kind, _, types = _FROM_LANE[name]
        if len(types) != len(values):
            raise ValueError(f"{len(values)} values")
        message: FromLane = kind(*map(_checked, types, values))
    except Exception as error:  # anything may be in it
        raise ProtocolError(f"not a message: {show(payload)} ({type(error).__name__}: {error})") from error
    return message


_ROWS = {
    "tuple[tuple[int, float, float, float, int], ...]": ("int", "float", "float", "float", "int"),
    "tuple[tuple[int, str, float], ...]": ("int", "str", "float"),
}


def _of_length(row: Any, length: int) -> Any:
    if len(row) != length:
        raise ValueError(f"{row!r} has not {length} entries")
    return row


def _checked(kind: Any, value: Any) -> Any:
    """Return a field's value; the kinds are written as in the classes above."""
    if kind == "int" and type(value) is int:
        return value
    if kind == "float" and type(value) in (int, float) and math.isfinite(value) and value >= 0:
        return float(value)
    if (kind == "bool" and type(value) is bool) or (kind == "str" and type(value) is str) or kind == "Any":
        return value
    if kind == "tuple[int, ...]" and all(type(entry) is int for entry in value):
        return tuple(value)
    if kind == "tuple[tuple[Any, float, Any], ...]":
        return tuple((restriction, _checked("float", delay), state) for restriction, delay, state in value)
    if kind in _ROWS:
        kinds = _ROWS[kind]
        return tuple(tuple(map(_checked, kinds, _of_length(row, len(kinds)))) for row in value)
    raise ValueError(f"{value!r} is no {kind}")
