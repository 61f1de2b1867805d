"""The protocol between the lanes and the coordinator, and its bytes.

A lane is a client, one connection per attempt; the coordinator, on the driver, is the server.

**Handshake.** The coordinator sends 32 random bytes. The lane answers with the name of its run (16 bytes, random), with
32 random bytes of its own, and the HMAC of both random parts under the run's secret, which Spark carried to it with its
task. The coordinator checks that before it reads on, and answers with another HMAC, which the lane checks before it
reads on. So each knows the other, and because both sides gave random bytes, what was overheard is of no use on another
connection. Both directions then have keys of their own.

**Frames.** Length (4 bytes, big-endian), HMAC-SHA256 of sequence number and payload (32), payload. The HMAC is checked
before the payload is looked at. A lane's payload is JSON, restrictions described as in `sdf.serialization.values`: the
driver unpickles nothing that it was sent. The coordinator's payload is pickled, since it carries elements; the lane
trusts the driver, as every Spark task does. No message grows with what a lane has done, nor with the size of elements,
but for the one that carries a single large element.

**From the lane**, in this order: `Hello` first; then

- `Ready`, whenever it has run all that it holds: it wants work, or its end;
- `Heartbeat`, unasked and often, while it runs something: how far it is;
- one answer to each `StealRequest`: `Split`, `Returned` or `Declined`;
- `Split` unasked, if process() deferred its rest;
- `Bye` at the end, if whoever reads the records has enough of them, as take() does. It says only that nobody needs to
  wait for another attempt: what the lane has done does not count before it is sealed.

**From the coordinator**: `Assign`, `Wait` (again and again, so that a lane that waits knows it is not forgotten) and in
the end `Sealed`, in answer to `Ready`; `StealRequest`, one at a time, to a lane that runs; one `Verdict` for each
`Split` and `Returned`; `Fail` at any time: the attempt must fail with this error.

**What each failure means.** A connection that ends before `Sealed` is a failed attempt, whoever ended it: what it did
does not count, and it must not end in success. What the ledger has by then stays: a residual that was accepted is
someone else's, one that was on its way is not. A `Verdict` that refuses leaves the work with its owner, who must do it.
A lane that hears nothing for `SILENCE_SECONDS` while it waits gives up; a coordinator waits for nobody: a lane that
does not answer is not asked again, and Spark, not the coordinator, decides whether it is dead. A peer that breaks the
protocol is cut off. If anything is raised on the driver in the name of a run, the run has failed: all its attempts get
`Fail` with that, so does each that says `Hello` later, and nothing of it is sealed any more.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator

from sdf.lanes.messages import ProtocolError

__all__ = [
    "Channel",
    "channels",
    "driver_proof",
    "lane_proof",
    "nonce",
]

RUN_BYTES = 16
NONCE_BYTES = 32
PROOF_BYTES = 32
MOST_BYTES_FROM_LANE = 1 << 20
MOST_BYTES_TO_LANE = 1 << 30
MOST_BYTES_ASSIGNED = 1 << 20  # at a time, unless a single work item takes more
SILENCE_SECONDS = 120.0  # as spark.network.timeout
WAIT_EVERY_SECONDS = 5.0

_HEADER_BYTES = 4


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
