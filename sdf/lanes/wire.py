"""The protocol between the lanes and the coordinator, and its bytes.

A lane is a client, one connection per attempt; the coordinator, on the driver, is the server.

**Handshake.** The coordinator sends 32 random bytes. The lane answers with the name of its run (16 random bytes), 32
random bytes of its own, and the HMAC of both 32-byte parts under the run's secret, which Spark sent with the task. The
coordinator checks this HMAC before it reads on. It answers with a second HMAC, and the lane checks that before it reads
on. So each side has authenticated the other. As both sides sent random bytes, recorded bytes are useless on any other
connection. After that each direction has its own key.

**Frames.** Length (4 bytes, big-endian), HMAC-SHA256 of sequence number and payload (32 bytes), payload. The receiver
checks the HMAC before it looks at the payload. A lane's payload is JSON, with restrictions described as in
`sdf.serialization.values`: the driver never unpickles what a lane sent. The coordinator's payload is pickled, since it
carries elements; the lane trusts the driver, as every Spark task does. The size of a message depends neither on how
much a lane has done nor on the size of elements, except for an `Assign` of a single large element.

**From the lane**: `Hello` first; then

- `Ready`, whenever it has run all that it holds: it wants more work, or to end;
- `Heartbeat`, unasked and often while it runs something: how far it is;
- one answer to each `StealRequest`: `Split`, `Returned` or `Declined`;
- `Split` unasked, if process() deferred;
- `AskStart`, while process() waits to call a server that has a rate limit; `Refused`, if the server refuses the call;
- `Bye` at the end, if the action has read enough records, as take() does. Then no attempt waits for the lane to be
  retried. The work of the lane still does not count before it is sealed.
- In a saved run: `SegmentDone` for each segment that the sinks have written; `Bye` if the lane was told to leave,
  then a last `Ready` if it has run something since the one before. The answer to both is `Sealed`.

**From the coordinator**: in answer to `Ready`, `Assign` or `Sealed`, and until then `Wait` again and again, so that the
lane knows the coordinator is alive; `StealRequest`, one at a time, to a lane that runs; one `Verdict` for each `Split`
and `Returned`; `StartIn` for each `AskStart`, and another one in its place if a call was refused; `Fail` at any time:
the attempt must fail with this error. In a saved run also `Flush`, in answer to `Ready`: close the segment, as there is
no other work now; `CommitEvery` at any time; and `Leave`: end as if the process was told to.

**Failures.** An attempt whose connection ends before `Sealed` has failed, whichever side ended it: its work does not
count, and it must not end in success. The ledger keeps what it has by then: an accepted residual stays cut off, one
that was still on its way belongs to the lane. If a `Verdict` refuses, the lane must do the work itself. A lane that
waits gives up once neither the driver nor its host has answered for `SILENCE_SECONDS`, and ten times later if its host
does (`sdf.spark.live.silence`). The coordinator never waits for a lane: it sends no other request to one that does not
answer, and Spark decides whether that lane is dead. A peer that breaks the protocol is cut off. If any call for a run
raises on the driver, the run fails: all its attempts get `Fail` with this error, also those that send `Hello` later,
and no lane is sealed any more.
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
MOST_BYTES_ASSIGNED = 1 << 20  # in one `Assign`, unless a single work item takes more
SILENCE_SECONDS = 120.0  # as spark.network.timeout
WAIT_EVERY_SECONDS = 5.0

_HEADER_BYTES = 4


def nonce() -> bytes:
    """Return random bytes for a handshake."""
    return secrets.token_bytes(NONCE_BYTES)


def lane_proof(secret: bytes, driver_nonce: bytes, lane_nonce: bytes) -> bytes:
    """Return the HMAC that proves that the lane knows the secret."""
    return hmac.digest(secret, b"lane" + driver_nonce + lane_nonce, "sha256")


def driver_proof(secret: bytes, driver_nonce: bytes, lane_nonce: bytes) -> bytes:
    """Return the HMAC that proves that the coordinator knows the secret."""
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
        key: the HMAC key of this direction of this connection.
        most_bytes: the longest payload, in bytes.
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
        """Add received bytes; yield the payloads that are complete.

        Raises:
            ProtocolError: for a payload that is too long, or whose HMAC is wrong.
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
                raise ProtocolError("a message that fails authentication: another program may be using the connection.")
            yield payload
