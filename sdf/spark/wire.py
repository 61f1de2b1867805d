"""The protocol between the lanes and the coordinator, and its bytes.

A lane is a client, one connection per attempt; the coordinator, on the driver, is the server.

**Handshake.** The coordinator sends 32 random bytes. The lane answers with the name of its run (16 bytes, random), with
32 random bytes of its own, and the HMAC of both random parts under the run's secret, which Spark carried to it with its
task. The coordinator checks that before it reads on, and answers with another HMAC, which the lane checks before it
reads on. So each knows the other, and because both sides gave random bytes, what was overheard is of no use on another
connection. Both directions then have keys of their own.

**Frames.** Length (4 bytes, big-endian), HMAC-SHA256 of sequence number and payload (32), payload. The HMAC is checked
before the payload is looked at. A lane's payload is JSON, restrictions described as in `sdf.values`: the driver
unpickles nothing that it was sent. The coordinator's payload is pickled, since it carries elements; the lane trusts the
driver, as every Spark task does.

**From the lane**, in this order: `Hello` first; then

- `Ready`, whenever it has run all that it holds: it wants work, or its end;
- `Beat`, unasked and often, while it runs something: how far it is;
- one answer to each `Ask`: `Split`, `Back` or `Declined`;
- `Split` unasked, if process() deferred its rest.

**From the coordinator**: `Assign`, `Wait` (again and again, so that a lane that waits knows it is not forgotten) and in
the end `Sealed`, in answer to `Ready`; `Ask`, one at a time, to a lane that runs; one `Verdict` for each `Split` and
`Back`; `Fail` at any time: the attempt must fail with this error.

**What each failure means.** A connection that ends before `Sealed` is a failed attempt, whoever ended it: what it did
does not count, and it must not end in success. What the ledger has by then stays: a residual that was accepted is
someone else's, one that was on its way is not. A `Verdict` that refuses leaves the work with its owner, who must do it.
A lane that hears nothing for `SILENCE_SECONDS` while it waits gives up; a coordinator waits for nobody: a lane that
does not answer is not asked again, and Spark, not the coordinator, decides whether it is dead. A peer that breaks the
protocol is cut off.
"""

from __future__ import annotations

import hmac
import json
import math
import secrets
from collections.abc import Iterator
from typing import Any

import attrs

from sdf.errors import SdfError, show
from sdf.ledger import WorkItem

__all__ = [
    "Ask",
    "Assign",
    "Back",
    "Beat",
    "Channel",
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
    "channels",
    "driver_proof",
    "lane_proof",
    "nonce",
    "read",
    "write",
]

RUN_BYTES = 16
NONCE_BYTES = 32
PROOF_BYTES = 32
MOST_BYTES_FROM_LANE = 1 << 20
MOST_BYTES_TO_LANE = 1 << 30
SILENCE_SECONDS = 120.0  # as spark.network.timeout
WAIT_EVERY_SECONDS = 5.0

_HEADER_BYTES = 4


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
    """

    records: int
    items: int
    units: float
    seconds: float


@attrs.frozen
class Beat:
    """How far the running work item is.

    Attributes:
        item_id: which work item.
        splittable: whether it may be split; not before its first claim.
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
    """Nothing can be given now; a `Beat` will say when that has changed."""


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


FromLane = Hello | Ready | Beat | Split | Back | Declined
ToLane = Assign | Wait | Sealed | Ask | Verdict | Fail

_FROM_LANE: dict[str, Any] = {kind.__name__: kind for kind in (Hello, Ready, Beat, Split, Back, Declined)}


def write(message: FromLane) -> bytes:
    """Return a lane's message as JSON."""
    fields = attrs.asdict(message, recurse=False)
    return json.dumps([type(message).__name__, *fields.values()]).encode()


def read(payload: bytes) -> FromLane:
    """Return a lane's message from JSON, its numbers checked; restrictions stay descriptions.

    Raises:
        ProtocolError: if it is none.
    """
    try:
        name, *values = json.loads(payload)
        kind = _FROM_LANE[name]
        fields = attrs.fields(kind)
        if len(fields) != len(values):
            raise ValueError(f"{len(values)} values")
        message: FromLane = kind(*(_checked(field.type, value) for field, value in zip(fields, values, strict=True)))
    except Exception as error:  # anything may be in it
        raise ProtocolError(f"not a message: {show(payload)} ({type(error).__name__}: {error})") from error
    return message


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
    raise ValueError(f"{value!r} is no {kind}")


def nonce() -> bytes:
    """Return random bytes for a handshake."""
    return secrets.token_bytes(NONCE_BYTES)


def lane_proof(secret: bytes, driver_nonce: bytes, lane_nonce: bytes) -> bytes:
    """Return what shows that the lane knows the secret."""
    return hmac.digest(secret, b"lane" + driver_nonce + lane_nonce, "sha256")


def driver_proof(secret: bytes, driver_nonce: bytes, lane_nonce: bytes) -> bytes:
    """Return what shows that the coordinator knows the secret."""
    return hmac.digest(secret, b"driver" + driver_nonce + lane_nonce, "sha256")


def channels(secret: bytes, driver_nonce: bytes, lane_nonce: bytes) -> tuple[Channel, Channel]:
    """Return the two directions of a connection: from the lane, and to the lane."""
    both = driver_nonce + lane_nonce
    return (
        Channel(hmac.digest(secret, b"from lane" + both, "sha256"), MOST_BYTES_FROM_LANE),
        Channel(hmac.digest(secret, b"to lane" + both, "sha256"), MOST_BYTES_TO_LANE),
    )


class Channel:
    """One direction of a connection: `frame` at the sender, `feed` at the receiver.

    Args:
        key: of this direction of this connection.
        most_bytes: the longest payload.
    """

    def __init__(self, key: bytes, most_bytes: int) -> None:
        self._key = key
        self._most_bytes = most_bytes
        self._sequence = 0
        self._received = bytearray()

    def frame(self, payload: bytes) -> bytes:
        """Return the frame of the next payload."""
        if len(payload) > self._most_bytes:
            raise ProtocolError(f"a message of {len(payload)} bytes; at most {self._most_bytes} are allowed.")
        return len(payload).to_bytes(_HEADER_BYTES, "big") + self._mac(payload) + payload

    def _mac(self, payload: bytes) -> bytes:
        numbered = self._sequence.to_bytes(8, "big") + payload
        self._sequence += 1
        return hmac.digest(self._key, numbered, "sha256")

    def feed(self, received: bytes) -> Iterator[bytes]:
        """Take received bytes; yield the payloads that are complete.

        Raises:
            ProtocolError: for a payload that is too long, or not from the peer.
        """
        buffer = self._received
        buffer += received
        head = _HEADER_BYTES + PROOF_BYTES
        while len(buffer) >= _HEADER_BYTES:
            length = int.from_bytes(buffer[:_HEADER_BYTES], "big")
            if length > self._most_bytes:
                raise ProtocolError(
                    f"a message of {length} bytes is announced; at most {self._most_bytes} are allowed."
                )
            if len(buffer) < head + length:
                return
            mac, payload = bytes(buffer[_HEADER_BYTES:head]), bytes(buffer[head : head + length])
            del buffer[: head + length]
            if not hmac.compare_digest(mac, self._mac(payload)):
                raise ProtocolError("a message that is not from the peer.")
            yield payload
